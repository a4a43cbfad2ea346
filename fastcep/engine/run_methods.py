"""The methods of `Engine` that process a whole stream: `for`, `async for`, and a callback for each match."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import Any

from fastcep._core.matcher.send import HasEventLoop
from fastcep.engine.results.match import Match
from fastcep.engine.results.matches import Matches
from fastcep.engine.stream import Stream
from fastcep.errors import ValidationError

__all__ = ["RunMethods"]


class RunMethods(HasEventLoop):
    """Base class of `Engine`: loops over a stream of batches."""

    _stream: Stream
    process: Callable[..., Matches]
    flush: Callable[..., Matches]
    poll: Callable[[], Matches]

    def stream(self, batches: Iterable[Any]) -> Iterator[Match]:
        """Process a stream to its end, and yield the matches one by one.

        Parameters
        ----------
        batches
            Batches of events, each as for :meth:`process`. The next batch is requested after the matches of the last
            one have been taken.

        Yields
        ------
        Match
            In the order of :meth:`process`. After the last batch :meth:`flush` is called. If the loop is left before,
            or the iterable raises an exception, the engine keeps its state and can go on with further batches.

        Raises
        ------
        FastcepError
            As :meth:`process` and :meth:`flush`.
        """
        for batch in batches:
            yield from self.process(batch)
        yield from self.flush()

    def run(self, batches: Iterable[Any], on_match: Callable[[Match], object]) -> int:
        """Process a stream to its end, and call a function with each match.

        Parameters
        ----------
        batches
            As for :meth:`stream`.
        on_match
            An exception that it raises ends the call; the matches of that batch which were not passed are lost.

        Returns
        -------
        int
            The number of matches.

        Raises
        ------
        ValidationError
            If the function is a coroutine function, which :meth:`arun` takes.
        FastcepError
            As :meth:`process` and :meth:`flush`.
        """
        if inspect.iscoroutinefunction(on_match):
            raise ValidationError("on_match is a coroutine function; use: await engine.arun(batches, on_match)")
        count = 0
        for match in self.stream(batches):
            on_match(match)
            count += 1
        return count

    async def astream(self, batches: AsyncIterable[Any] | Iterable[Any]) -> AsyncGenerator[Match]:
        """Process a stream to its end, and yield the matches one by one, in an event loop of asyncio.

        Each batch is processed in a worker thread, so that other tasks of the event loop run meanwhile. While an
        asynchronous iterable has no batch, :meth:`poll` is called every ``idle_timeout``, if the engine has one. If the
        task is cancelled, it ends after the batch that is being processed, whose matches are lost; the engine can then
        go on with further batches.

        Parameters
        ----------
        batches
            As for :meth:`stream`, or an asynchronous iterable. One that is not asynchronous is read in the event
            loop, which it blocks while it waits for a batch.

        Yields
        ------
        Match
            As :meth:`stream`.

        Raises
        ------
        FastcepError
            As :meth:`process` and :meth:`flush`.
        """
        async with aclosing(self._batches(batches)) as arriving:
            async for batch in arriving:
                matches = await (_in_thread(self.poll) if batch is _QUIET else _in_thread(self.process, batch))
                for match in matches:
                    yield match
        for match in await _in_thread(self.flush):
            yield match

    async def arun(
        self,
        batches: AsyncIterable[Any] | Iterable[Any],
        on_match: Callable[[Match], object] | Callable[[Match], Awaitable[object]],
    ) -> int:
        """Process a stream to its end, and call or await a function with each match.

        Parameters
        ----------
        batches
            As for :meth:`astream`.
        on_match
            A function or coroutine function. The next one is called when it has ended. An exception that it raises
            ends the call; the matches of that batch which were not passed are lost.

        Returns
        -------
        int
            The number of matches.

        Raises
        ------
        FastcepError
            As :meth:`process` and :meth:`flush`.
        """
        count = 0
        async with aclosing(self.astream(batches)) as matches:
            async for match in matches:
                result = on_match(match)
                if inspect.isawaitable(result):
                    await result
                count += 1
        return count

    async def _batches(self, batches: AsyncIterable[Any] | Iterable[Any]) -> AsyncGenerator[Any]:
        """Yield the batches, and `_QUIET` whenever none has come for the idle timeout."""
        if not isinstance(batches, AsyncIterable):
            for batch in batches:
                yield batch
            return
        arriving, idle = aiter(batches), None if self._stream.reorder is None else self._stream.reorder.idle_seconds
        waiting: asyncio.Future[Any] | None = None
        try:
            while True:
                waiting = waiting or asyncio.ensure_future(anext(arriving, _END))
                done, _ = await asyncio.wait([waiting], timeout=idle)
                if not done:
                    yield _QUIET
                    continue
                batch, waiting = waiting.result(), None
                if batch is _END:
                    return
                yield batch
        finally:
            if waiting is not None:
                waiting.cancel()


_END, _QUIET = object(), object()


async def _in_thread(call: Callable[..., Matches], *arguments: Any) -> Matches:
    """Make a call in a worker thread; a task that is cancelled waits until it has ended, so that the engine is free."""
    loop = asyncio.get_running_loop()
    running = loop.run_in_executor(None, contextvars.copy_context().run, call, *arguments)
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        if not running.cancelled():
            running.exception()  # otherwise asyncio logs an exception that nobody retrieves
        raise
