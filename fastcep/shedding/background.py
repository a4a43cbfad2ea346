"""Run a computation in a thread, so that no event waits for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from time import perf_counter
from typing import Generic, TypeVar

__all__ = ["Background"]

Result = TypeVar("Result")

#: Largest share of the time that computations may run.
_SHARE = 0.1


class Background(Generic[Result]):
    """Runs one computation at a time in a thread, for at most a tenth of the time."""

    def __init__(self) -> None:
        self._future: Future[Result] | None = None
        self._next = 0.0  # earliest start of the next computation

    @property
    def ready(self) -> bool:
        """True if a computation may start: none runs, and enough time has passed since the last one."""
        return self._future is None and perf_counter() >= self._next

    def start(self, compute: Callable[[], Result]) -> None:
        """Start a computation; `take` returns its result."""
        future: Future[Result] = Future()
        self._future = future
        Thread(target=self._run, args=(compute, future), name="fastcep drop order").start()

    def _run(self, compute: Callable[[], Result], future: Future[Result]) -> None:
        began = perf_counter()
        try:
            result = compute()
        except BaseException as error:  # `take` raises it
            future.set_exception(error)
        else:
            ended = perf_counter()
            self._next = ended + (ended - began) * (1 / _SHARE - 1)
            future.set_result(result)

    def take(self, *, wait: bool = False) -> Result | None:
        """Return the result of the last computation, once; None if there is none yet.

        Parameters
        ----------
        wait
            Whether to wait for a computation that runs.

        Raises
        ------
        Exception
            The error of the computation.
        """
        future = self._future
        if future is None or not (wait or future.done()):
            return None
        try:
            return future.result()
        finally:
            self._future = None
