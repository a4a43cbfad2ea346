"""Wait for an event, however busy the machine is; the limit only ends tests that would hang."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["LIMIT", "LIMIT_TEXT", "wait_for"]

LIMIT = 1800  #: seconds, for whatever takes a limit
LIMIT_TEXT = f"{LIMIT}s"  #: the same as a duration of fastcep


def wait_for(ready: Callable[[], object], name: str, details: Callable[[], str] = str) -> None:
    """Poll until ``ready()`` is true; after the limit, fail with ``name`` and the result of ``details()``."""
    end = time.monotonic() + LIMIT
    while not ready():
        assert time.monotonic() < end, f"no {name} after {LIMIT} s\n{details()[-4_000:]}"
        time.sleep(0.005)
