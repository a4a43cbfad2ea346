"""Orderly end of a command after Ctrl-C (SIGINT) or SIGTERM."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

__all__ = ["Terminated", "exit_code", "terminable"]


class Terminated(KeyboardInterrupt):
    """SIGTERM was received; handled as Ctrl-C."""


def exit_code(error: KeyboardInterrupt) -> int:
    """Return the exit code that shells report for a command ended by the signal."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


@contextmanager
def terminable() -> Iterator[None]:
    """Make SIGTERM raise `Terminated`, unless the program has its own handler for it."""
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
