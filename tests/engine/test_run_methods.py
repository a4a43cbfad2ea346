"""`Engine.stream`, `run`, `astream` and `arun` give the matches of `process` and `flush`."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.waiting import LIMIT

import fastcep as fc

SCHEMA = fc.Schema({"A": {"id": "int64"}, "B": {"id": "int64"}}, time="ts", type="type")
PAIR = fc.parse("PATTERN SEQ(A a, B b) WHERE a.id = b.id WITHIN 10ns", SCHEMA)
UNANSWERED = fc.parse("PATTERN SEQ(A a, NEG B b) WHERE a.id = b.id WITHIN 10ns", SCHEMA)


def batches() -> list[dict[str, Any]]:
    return [{"type": ["A", "B"], "ts": [n, n + 1], "id": [n, n]} for n in range(0, 50, 5)]


async def arriving() -> AsyncIterator[dict[str, Any]]:
    for batch in batches():
        await asyncio.sleep(0)
        yield batch


def expected(query: fc.Query) -> list[dict[str, Any]]:
    engine = fc.Engine(query)
    tables = [engine.process(batch) for batch in batches()] + [engine.flush()]
    return [row for table in tables for row in table.to_dicts()]


@pytest.mark.parametrize("query", [PAIR, UNANSWERED], ids=["pair", "decided by the end"])
def test_all_forms_give_the_same_matches(query: fc.Query) -> None:
    wanted = expected(query)
    assert wanted or query is UNANSWERED
    found: list[fc.Match] = []
    assert [dict(match) for match in fc.Engine(query).stream(batches())] == wanted
    assert fc.Engine(query).run(batches(), found.append) == len(wanted)

    async def collected(source: Any) -> list[dict[str, Any]]:
        return [dict(match) async for match in fc.Engine(query).astream(source)]

    async def awaited(match: fc.Match) -> None:
        await asyncio.sleep(0)
        found.append(match)

    assert asyncio.run(collected(arriving())) == asyncio.run(collected(batches())) == wanted
    assert asyncio.run(fc.Engine(query).arun(arriving(), found.append)) == len(wanted)
    assert asyncio.run(fc.Engine(query).arun(arriving(), awaited)) == len(wanted)
    assert [dict(match) for match in found] == 3 * wanted


def test_the_engine_goes_on_after_a_loop_that_was_left() -> None:
    engine, source = fc.Engine(PAIR), iter(batches())
    first = next(engine.stream(source))
    assert [dict(first), *(dict(match) for match in engine.stream(source))] == expected(PAIR)


def test_an_error_of_the_source_keeps_the_state() -> None:
    def broken() -> Iterator[dict[str, Any]]:
        yield {"type": ["A"], "ts": [1], "id": [7]}
        raise OSError("the link is down")

    engine = fc.Engine(PAIR)
    with pytest.raises(OSError, match="link is down"):
        list(engine.stream(broken()))
    assert len(list(engine.stream([{"type": ["B"], "ts": [2], "id": [7]}]))) == 1


def test_events_held_back_come_when_the_source_is_quiet() -> None:
    """The source sends its next batch only after the match of the batch before, which only `poll` can give."""

    async def run() -> list[int]:
        seen = asyncio.Event()

        async def source() -> AsyncIterator[dict[str, Any]]:
            yield {"type": ["A", "B"], "ts": [1, 2], "id": [7, 7]}
            await seen.wait()
            yield {"type": ["A", "B"], "ts": [3, 4], "id": [8, 8]}

        found = []
        engine = fc.Engine(PAIR, allowed_lateness="1h", idle_timeout="20ms")
        async for match in engine.astream(source()):
            found.append(match.b)
            seen.set()
        return found

    assert asyncio.run(asyncio.wait_for(run(), 60)) == [1, 3]


def test_a_task_that_is_cancelled_leaves_the_engine_usable() -> None:
    async def run() -> int:
        async def endless() -> AsyncIterator[dict[str, Any]]:
            yield {"type": ["A"], "ts": [1], "id": [7]}
            await asyncio.Event().wait()

        engine, started = fc.Engine(PAIR), asyncio.Event()

        async def consume() -> None:
            started.set()
            await engine.arun(endless(), lambda match: None)

        task = asyncio.create_task(consume())
        while not engine.metrics()["events"]:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(engine.process({"type": ["B"], "ts": [2], "id": [7]}))

    assert asyncio.run(run()) == 1


def test_a_task_that_is_cancelled_waits_for_its_batch() -> None:
    started, may_end = threading.Event(), threading.Event()

    class Slow(fc.Engine):
        def process(self, events: Any) -> fc.Matches:
            started.set()
            assert may_end.wait(LIMIT)
            return super().process(events)

    async def run() -> int:
        engine = Slow(PAIR)
        task = asyncio.create_task(engine.arun([{"type": ["A"], "ts": [1], "id": [7]}], lambda match: None))
        assert await asyncio.to_thread(started.wait, LIMIT)
        task.cancel()
        done, _ = await asyncio.wait([task], timeout=0.01)
        assert not done
        may_end.set()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(engine.process({"type": ["B"], "ts": [2], "id": [7]}))

    assert asyncio.run(run()) == 1


def test_a_coroutine_function_needs_the_asynchronous_form() -> None:
    async def on_match(match: fc.Match) -> None: ...

    with pytest.raises(fc.ValidationError, match=r"await engine\.arun"):
        fc.Engine(PAIR).run(batches(), on_match)
