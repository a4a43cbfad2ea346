"""How tests wait: for what is to happen, however busy the machine is; the limit only ends a test that would hang."""

from __future__ import annotations

import time
from collections.abc import Callable

__all__ = ["LIMIT", "LIMIT_TEXT", "wait_for"]

LIMIT = 1800  #: seconds, for whatever takes a limit
LIMIT_TEXT = f"{LIMIT}s"  #: the same as a duration of fastcep


def wait_for(ready: Callable[[], object], what: str, told: Callable[[], str] = str) -> None:
    """Look again and again until ``ready()`` is true; if it never is, fail with ``what`` and what ``told()`` gives."""
    end = time.monotonic() + LIMIT
    while not ready():
        assert time.monotonic() < end, f"no {what} after {LIMIT} s\n{told()[-4_000:]}"
        time.sleep(0.005)
