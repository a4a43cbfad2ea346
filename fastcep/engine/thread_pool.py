"""The threads of an engine: they do what releases the GIL, together with the thread that calls."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from fastcep._core.state.key_partition import MOST_PARTS
from fastcep.errors import ValidationError

__all__ = ["ThreadPool", "make_pool"]

T = TypeVar("T")


class ThreadPool:
    """Runs several calls at once.

    Threads are made when they are first needed, and end with the pool, by `close` or garbage collection. After a fork
    the child makes its own. When the interpreter ends, and no thread can be made, the calling thread does everything.

    Parameters
    ----------
    threads
        How many there are, the calling one included.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    def run(self, calls: Sequence[Callable[[], T]]) -> list[T]:
        """Make all calls and give what they return; an exception is raised when all are done."""
        results: dict[int, T] = {}
        waiting = deque(enumerate(calls))

        def work() -> None:
            while waiting:
                try:
                    place, call = waiting.popleft()
                except IndexError:  # another thread was faster
                    return
                results[place] = call()

        helpers = self._start(work, min(self.threads, len(calls)) - 1)
        try:
            work()
        finally:
            _wait(helpers)
        for helper in helpers:
            helper.result()
        return [results[place] for place in range(len(calls))]

    def close(self) -> None:
        """End the threads; they are made anew if there is more to do."""
        if self._executor is not None and self._process == os.getpid():
            self._executor.shutdown(wait=False)
        self._executor = None

    def _start(self, work: Callable[[], None], count: int) -> list[Future[None]]:
        """Let so many threads help, as far as there can be any."""
        if self._process != os.getpid():
            self._executor, self._process = None, os.getpid()
        helpers: list[Future[None]] = []
        try:
            for _ in range(count):
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(self.threads - 1, thread_name_prefix="fastcep")
                helpers.append(self._executor.submit(work))
        except RuntimeError:  # no thread can be made, or not any more: the interpreter ends
            pass
        return helpers


def _wait(helpers: Sequence[Future[None]]) -> None:
    """Wait until all are done, whatever interrupts: nobody else may touch what they work on."""
    interrupted: BaseException | None = None
    while True:
        try:
            wait(helpers)
            break
        except BaseException as error:
            interrupted = error
    if interrupted is not None:
        raise interrupted


def make_pool(threads: object) -> ThreadPool | None:
    """The threads for an option ``threads``; None for one thread, the calling one.

    Raises
    ------
    ValidationError
        It is no number of threads.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_PARTS:
        raise ValidationError(f"threads={threads!r}: expected how many threads match, an int from 1 to {MOST_PARTS}")
    return ThreadPool(threads) if threads > 1 else None
