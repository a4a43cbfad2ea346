"""Signal handlers wait while an engine changes its state, and run between two events.

Python runs a signal's handler in the main thread, between any two of its instructions, and whatever the handler raises,
as that of Ctrl-C does ``KeyboardInterrupt``, appears there. In the middle of a call that would leave an engine whose
queries stand behind different events. So a call of an engine holds the handlers back (`Signals` is its context manager)
and lets them run where all queries stand behind the same event (`Signals.deliver`), at least about every 25 ms.

A handler that is held back for longer than `PATIENCE`, because a shedder or a listener does not return, runs at once
when its signal comes again. What it raises then may leave the engine torn: `Signals.torn`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Any, Self

from fastcep._core.interrupt import tell

__all__ = ["Signals"]

#: Seconds for which a handler is held back when its signal comes again.
PATIENCE = 1.0

_Handler = Callable[[int, FrameType | None], Any]

#: The signals whose handlers are held back: those that are sent to end, interrupt or wake a program.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2", "SIGBREAK")
_NUMBERS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


class Signals:
    """Holds back the handlers of signals while it is entered, in the main thread; may be entered again inside.

    Attributes
    ----------
    torn
        Whether a handler has raised in the middle of a call, because it had been held back for too long.
    """

    def __init__(self) -> None:
        self.torn = False
        self._depth = 0
        self._handlers: dict[int, _Handler] = {}
        self._waiting: dict[int, tuple[float, FrameType | None]] = {}  # when each came

    def __enter__(self) -> Self:
        if not _is_main():  # no handler runs in another thread
            return self
        self._depth += 1
        if self._depth == 1:
            try:
                for number in _NUMBERS:
                    handler = signal.getsignal(number)
                    if callable(handler):
                        signal.signal(number, self._note)  # raises what a handler does whose signal has come
                        self._handlers[number] = handler
            except BaseException:
                self._leave()
                raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._depth > 1 and _is_main():
            self._depth -= 1
        elif _is_main():
            self._leave()

    def _leave(self) -> None:
        """Give the handlers back, and run those that wait."""
        for number, handler in self._handlers.items():
            if signal.getsignal(number) == self._note:  # else somebody has set another one meanwhile
                signal.signal(number, handler)
        self._depth = 0
        try:
            self._run()
        finally:
            self._handlers.clear()

    def deliver(self) -> None:
        """Run the handlers of the signals that have come; what one raises is raised here."""
        tell()
        if self._waiting and _is_main():
            self._run()

    def _run(self) -> None:
        while self._waiting:
            number, (_, frame) = self._waiting.popitem()
            self._handlers[number](number, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        now = monotonic()
        came, _ = self._waiting.setdefault(number, (now, frame))
        if now - came > PATIENCE:
            del self._waiting[number]
            self.torn = True
            self._handlers[number](number, frame)
            self.torn = False
