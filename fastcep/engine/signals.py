"""Delay signal handlers while an engine changes its state, and run them between two events.

Python may run the handler of a signal between any two instructions of the main thread, and what the handler raises
(that of Ctrl-C raises ``KeyboardInterrupt``) is raised there. In the middle of a call this would leave an engine in
which some queries have seen an event that others have not. So a call of an engine delays the handlers (`Signals` is
its context manager) and runs them where all queries have seen the same events (`Signals.deliver`), about every 25 ms
or more often.

If a handler has been delayed for longer than `PATIENCE`, because a shedder or a listener does not return, it runs at
once when its signal comes again. If it raises then, the engine's state is inconsistent: `Signals.torn`.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import signal
import threading
from collections.abc import Callable
from time import monotonic
from types import FrameType
from typing import Any, Self

from fastcep._core.matcher.interrupt import call_hook

__all__ = ["Signals"]

#: A handler that has been delayed for this many seconds runs at once when its signal comes again.
PATIENCE = 1.0

_Handler = Callable[[int, FrameType | None], Any]

#: The signals whose handlers are delayed: those that are sent to end, interrupt or wake a program.
_NAMES = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2", "SIGBREAK")
_NUMBERS = tuple(int(getattr(signal, name)) for name in _NAMES if hasattr(signal, name))

# What `signal.getsignal` and `signal.signal` call; they convert numbers to enums, which takes ten times as long.
_get_handler, _set_handler = _signal.getsignal, _signal.signal


def _is_main() -> bool:
    return threading.get_ident() == threading.main_thread().ident


class Signals:
    """Context manager that delays signal handlers; it may be nested. Outside the main thread it does nothing.

    Attributes
    ----------
    torn
        True if a handler has raised in the middle of a call, because it had been delayed for too long.
    """

    def __init__(self) -> None:
        self.torn = False
        self._depth = 0
        self._handlers: dict[int, _Handler] = {}
        self._waiting: dict[int, tuple[float, FrameType | None]] = {}  # by signal, the time when it came, s

    def __enter__(self) -> Self:
        if not _is_main():  # no handler runs in another thread
            return self
        self._depth += 1
        if self._depth == 1:
            try:
                for number in _NUMBERS:
                    handler = _get_handler(number)
                    if callable(handler) and handler != self._note:
                        self._handlers[number] = handler
                        _set_handler(number, self._note)  # runs a handler whose signal is pending, which may raise
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
        """Restore the handlers, and run those whose signals have come."""
        self._depth = 0
        handlers = dict(self._handlers)
        try:
            try:
                self._restore()
            finally:
                self._restore()  # the rest, if a signal came whose handler was restored already, and raised
        finally:
            self._run(handlers)

    def _restore(self) -> None:
        """Restore the handlers that are not restored yet."""
        while self._handlers:
            number, handler = next(iter(self._handlers.items()))
            if _get_handler(number) == self._note:  # not if the program has set another one meanwhile
                _set_handler(number, handler)
            del self._handlers[number]

    def deliver(self) -> None:
        """Run the handlers of the signals that have come; an exception of a handler is raised here."""
        call_hook()
        if self._waiting and _is_main():
            self._run(self._handlers)

    def _run(self, handlers: dict[int, _Handler]) -> None:
        while self._waiting:
            number, (_, frame) = self._waiting.popitem()
            handlers[number](number, frame)

    def _note(self, number: int, frame: FrameType | None) -> None:
        """Delay a signal; run its handler at once if an earlier signal has waited too long."""
        now = monotonic()
        first_time, _ = self._waiting.setdefault(number, (now, frame))
        if now - first_time > PATIENCE:
            del self._waiting[number]
            self.torn = True
            self._handlers[number](number, frame)
            self.torn = False
