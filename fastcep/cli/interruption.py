"""How a command ends that is interrupted: by Ctrl-C (SIGINT), or asked to end (SIGTERM)."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

__all__ = ["Terminated", "exit_code", "terminable"]


class Terminated(KeyboardInterrupt):
    """SIGTERM came; it goes the way of Ctrl-C."""


def exit_code(error: KeyboardInterrupt) -> int:
    """The status that shells give a command which the signal ended."""
    return 128 + (signal.SIGTERM if isinstance(error, Terminated) else signal.SIGINT)


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM raise `Terminated`, unless the program has a handler of its own for it."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, _terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _terminate(number: int, frame: FrameType | None) -> NoReturn:
    raise Terminated
