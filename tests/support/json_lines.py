"""Child processes that write one JSON object per line."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = ["python", "said"]


@contextmanager
def python(*arguments: str, environment: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen[str]]:
    """Start ``python -m …``, and kill it at the end of the block."""
    with subprocess.Popen(
        [sys.executable, "-m", *arguments], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str]) -> dict[str, Any]:
    """Return the next object that a process writes."""
    assert process.stdout is not None
    content: dict[str, Any] = json.loads(process.stdout.readline())
    return content
