"""The threads of an engine; together with the calling thread they run calls that release the GIL."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TypeVar

from fastcep._core.state.key_partition import MOST_PARTS
from fastcep.errors import ValidationError

__all__ = ["ThreadPool", "make_pool"]

Result = TypeVar("Result")


class ThreadPool:
    """Runs several calls at once.

    Threads are created when they are first needed, and end with the pool, by `close` or garbage collection. After a
    fork the child creates its own. If no thread can be created because the interpreter ends, the calling thread runs
    all calls.

    Parameters
    ----------
    threads
        Number of threads, including the calling one.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._executor: ThreadPoolExecutor | None = None
        self._process = os.getpid()

    def run(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """Make all calls and return their results; an exception is raised when all calls are done."""
        results: dict[int, Result] = {}
        waiting = deque(enumerate(calls))

        def work() -> None:
            while waiting:
                try:
                    number, call = waiting.popleft()
                except IndexError:  # another thread has taken the last call
                    return
                results[number] = call()

        helpers = self._start(work, min(self.threads, len(calls)) - 1)
        try:
            work()
        finally:
            _wait(helpers)
        for helper in helpers:
            helper.result()
        return [results[number] for number in range(len(calls))]

    def close(self) -> None:
        """End the threads; `run` creates new ones."""
        if self._executor is not None and self._process == os.getpid():
            self._executor.shutdown(wait=False)
        self._executor = None

    def _start(self, work: Callable[[], None], count: int) -> list[Future[None]]:
        """Start ``work`` in up to ``count`` threads, fewer if no more can be created."""
        if self._process != os.getpid():
            self._executor, self._process = None, os.getpid()
        helpers: list[Future[None]] = []
        try:
            for _ in range(count):
                if self._executor is None:
                    self._executor = ThreadPoolExecutor(self.threads - 1, thread_name_prefix="fastcep")
                helpers.append(self._executor.submit(work))
        except RuntimeError:  # no thread can be created, for instance because the interpreter ends
            pass
        return helpers


def _wait(helpers: Sequence[Future[None]]) -> None:
    """Wait until all helpers are done, even if an exception interrupts: they still use the engine's state."""
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
    """Make the pool for the option ``threads``; None for one thread, the calling one.

    Raises
    ------
    ValidationError
        The option is not a valid number of threads.
    """
    if isinstance(threads, bool) or not isinstance(threads, int) or not 1 <= threads <= MOST_PARTS:
        raise ValidationError(f"threads={threads!r}: expected the number of threads, an int from 1 to {MOST_PARTS}")
    return ThreadPool(threads) if threads > 1 else None
