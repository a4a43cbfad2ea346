"""Snapshots that are rejected change nothing, and what cannot be given out is refused."""

from __future__ import annotations

import copy
import pickle
import struct
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import xxhash
from support.snapshot_engines import (
    OTHER,
    PAIR,
    SCHEMA,
    UNKEYED,
    ending,
    logical_metrics,
    more,
    moved,
    part,
    query,
    refuses,
    running,
    stream,
)  # fmt: skip

import fastcep as fc
from fastcep.engine.state import container
from fastcep.engine.state.container import pack, unpack

# ---------------------------------------------------------------------------------------------------- refused


def flipped(at: int) -> bytes:
    data = bytearray(moved())
    data[at] ^= 4
    return bytes(data)


def newer() -> bytes:
    """Return the snapshot with the start of a later version of the format, and a correct checksum."""
    data = bytearray(moved())
    struct.pack_into("<H", data, 8, container.FORMAT + 1)
    end = 24 + struct.unpack_from("<I", data, 12)[0]
    struct.pack_into("<Q", data, end, xxhash.xxh64_intdigest(bytes(data[:end])))
    return bytes(data)


def at_time(time: int) -> bytes:
    engine = running()
    engine.advance(time)
    return engine.extract(range(32))


def edited(**facts: Any) -> bytes:
    header, tables = unpack(moved())
    return pack(header | facts, tables)


REFUSED: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "truncated": (lambda: moved()[:-40], ("truncated", "bytes")),
    "its begin": (lambda: moved()[:10], ("truncated",)),
    "empty": (lambda: b"", ("is empty",)),
    "behind": (lambda: moved() + b"\0" * 8, ("written after the snapshot",)),
    "header bit": (lambda: flipped(60), ("header is damaged", "checksum")),
    "table bit": (lambda: flipped(len(moved()) - 60), ("is damaged", "checksum")),
    "length bit": (lambda: flipped(18), ("damaged",)),
    "foreign": (lambda: b"PAR1" + moved(), ("is not a snapshot", "PAR1")),
    "text": (lambda: "a snapshot", ("found str", "expected the bytes")),
    "newer": (newer, (f"format {container.FORMAT + 1}", "newer")),
    "no engine's": (lambda: pack({"about": "nothing"}, {}), ("snapshot",)),
}
OF_OTHERS: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "query": (lambda: running(PAIR.replace("60ns", "61ns")).extract([1]), ("other queries", "61ns", "60ns")),
    "name": (lambda: renamed().extract([1]), ("other queries", "p", "q")),
    "one more": (lambda: two().extract([1]), ("other queries", "lines")),
    "schema": (lambda: running(schema=OTHER).extract([1]), ("schema",)),
    "options": (lambda: running(timed_out=True).extract([1]), ("timed_out=True", "expected False")),
    "lateness": (lambda: running(allowed_lateness="5ns").extract([1]), ("allowed_lateness='5ns'", "expected None")),
}
ELSEWHERE: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "position": (lambda: running(events=59).extract([1]), ("position 59", "60", "same event")),
    "time": (lambda: at_time(200), ("time", "200 ns", "118 ns", "same event")),
    "whole": (lambda: running().snapshot(), ("whole engine", "extract")),
}


def renamed() -> fc.Engine:
    engine = fc.Engine(query(name="p"))
    engine.process(part(stream(), 0, 60))
    return engine


def two() -> fc.Engine:
    engine = fc.Engine([query(), query(name="p")])
    engine.process(part(stream(), 0, 60))
    return engine


@pytest.mark.parametrize("call", [pickle.dumps, copy.copy, copy.deepcopy])
def test_an_engine_is_neither_pickled_nor_copied(call: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"take a snapshot\(\) and create another one with Engine\.restore\(\)"):
        call(fc.Engine(fc.parse(PAIR, SCHEMA)))


@pytest.mark.parametrize("name", [*REFUSED, *OF_OTHERS, *ELSEWHERE])
def test_merge_refuses(name: str) -> None:
    """The engine continues as if nothing had happened."""
    make, words = (REFUSED | OF_OTHERS | ELSEWHERE)[name]
    engine = running()
    engine.extract(range(32))
    before, metrics = engine.snapshot(), logical_metrics(engine)
    wrong = make()
    refuses(lambda: engine.merge(wrong), *words)
    assert (engine.snapshot(), logical_metrics(engine)) == (before, metrics)
    assert engine.groups == tuple(range(32, 64))
    engine.merge(moved())
    assert engine.groups == tuple(range(64))
    assert ending(engine) == ending(running())


@pytest.mark.parametrize("name", REFUSED)
def test_restore_refuses(name: str) -> None:
    make, words = REFUSED[name]
    wrong = make()
    refuses(lambda: fc.Engine.restore(wrong), *words)
    refuses(lambda: fc.Engine.restore(wrong, query()), *words)


def test_merge_takes_no_group_twice() -> None:
    engine = running()
    engine.extract([1, 2])
    before = engine.snapshot()
    refuses(lambda: engine.merge(moved(2, 5, 6)), "key groups 5, 6", "extract them first")
    refuses(lambda: engine.merge(moved(*range(64))), "0, 3, 4, 5, 6, 7, 8 and 55 more")
    engine.merge(moved(2))
    refuses(lambda: engine.merge(moved(2)), "key groups 2 ")
    assert engine.groups == tuple(group for group in range(64) if group != 1)
    engine.merge(moved(1))
    assert engine.groups == tuple(range(64))
    assert before != engine.snapshot()
    assert ending(engine) == ending(running())


@pytest.mark.parametrize("late", [0, 3])
def test_merge_refuses_another_watermark(late: int) -> None:
    """Two engines that hold back events may have released the same ones, but have received different ones."""
    engines = [fc.Engine(query(), allowed_lateness="40ns") for _ in range(3)]
    for engine in engines:
        engine.process(part(stream(), 0, 60))
    other = stream(start=200)
    engines[1].process(part(other, 0, 1))
    before = engines[0].snapshot()
    engines[0].extract([1])
    engines[2].extract([1])
    words = ("watermark", "taken the same events") if engines[0].metrics()["events"] == 60 else ("same event",)
    refuses(lambda: engines[0].merge(engines[1].snapshot([1])), *words)
    engines[2].merge(fc.Engine.restore(before).extract([1]))
    engines[0].merge(fc.Engine.restore(before).extract([1]))
    assert ending(engines[0]) == ending(engines[2])


def test_merge_refuses_another_number_of_arrivals() -> None:
    """An event that is held back, and older than the latest, changes neither position nor watermark."""
    engines = [fc.Engine(query(), allowed_lateness="40ns") for _ in range(2)]
    for engine in engines:
        engine.process(part(stream(), 0, 60))
    engines[0].extract([1])
    engines[1].send("A", ts=110, k=1)
    assert engines[0].metrics()["watermark"] == engines[1].metrics()["watermark"]
    refuses(lambda: engines[0].merge(engines[1].snapshot([1])), "61", "60", "same events")
    early, late = (fc.Engine(query(), allowed_lateness="40ns") for _ in range(2))
    early.extract([1])
    late.send("A", ts=110, k=1)
    refuses(lambda: early.merge(late.snapshot([1])), "no time yet", "70 ns")


# ------------------------------------------------------------------------------------- what cannot be given out


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ([], ("no key group",)),
        ([64], ("found 64", "0 to 63")),
        ([-1], ("found -1",)),
        ([True], ("found True (bool)",)),
        (5, ("found 5", "list or range")),
        ("12", ("'12'",)),
        ([3, 4], ("key groups 3, 4 are not here", "the engine has 0, 1, 2, 5")),
    ],
)
def test_which_groups(groups: Any, words: tuple[str, ...]) -> None:
    engine = running()
    engine.extract([3, 4])
    before = engine.snapshot()
    for call in (engine.snapshot, engine.extract):
        refuses(lambda call=call: call(groups), *words, kind=fc.ValidationError)  # type: ignore[misc]
    assert engine.snapshot() == before


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (UNKEYED, "no attribute is equal"),
        ("PATTERN SEQ(A a, NEG B b, C c) WHERE a.k = c.k WITHIN 9ns", "no attribute is equal"),
        ("PATTERN SEQ(A a, B b, A c) WHERE a.k = b.v AND b.v = c.v WITHIN 9ns", "type A can be bound to two variables"),
        ("PATTERN SEQ(A a, B b) WHERE a.k = b.x WITHIN 9ns", "not of one type"),
        ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9ns AFTER MATCH SKIP PAST LAST", "SKIP PAST LAST"),
        ("PATTERN SEQ(A a, B b) WHERE [k] WINDOW OPEN ON A w CLOSE AFTER 3 EVENTS LIMIT 2 PER WINDOW", "LIMIT"),
    ],
)
def test_unkeyed_queries(text: str, word: str) -> None:
    """Such queries move only as a whole; the error gives the reason and the query's name."""
    engine = running(text)
    for call in (engine.snapshot, engine.extract):
        refuses(lambda call=call: call([1]), "query 'q'", word, "WHERE [attribute]", kind=fc.ValidationError)  # type: ignore[misc]
    other = fc.Engine.restore(engine.snapshot())
    assert other.groups == engine.groups == tuple(range(64))
    assert ending(other) == ending(engine)


def test_one_unkeyed_query_is_enough() -> None:
    engine = fc.Engine([query(), query(UNKEYED, "odd")])
    refuses(lambda: engine.extract([1]), "query 'odd'", kind=fc.ValidationError)
    engine.remove("odd")
    engine.extract([1])
    refuses(lambda: engine.add(query(UNKEYED, "odd")), "query 'odd'", "cannot be divided", kind=fc.ValidationError)
    refuses(lambda: engine.replace("q", query(UNKEYED)), "query 'q'", kind=fc.ValidationError)
    engine.add(query(name="more"))
    assert [item.name for item in engine._stream.queries] == ["q", "more"]


def test_after_flush() -> None:
    engine = running()
    engine.flush()
    for call in (engine.snapshot, lambda: engine.extract([1]), lambda: engine.merge(moved())):
        refuses(call, "flush()", kind=fc.ValidationError)


def test_without_queries() -> None:
    engine = running()
    engine.remove("q")
    for call in (engine.snapshot, lambda: engine.extract([1]), lambda: engine.merge(moved())):
        refuses(call, "no query", kind=fc.ValidationError)


def test_while_another_thread_is_in() -> None:
    engine = running()
    engine.extract(range(32))
    errors: list[str] = []

    def calls() -> None:
        for call in (engine.snapshot, lambda: engine.extract([40]), lambda: engine.merge(moved())):
            errors.append(refuses(call, "busy in another thread", kind=fc.ValidationError))

    with engine._stream.exclusive():
        thread = threading.Thread(target=calls)
        thread.start()
        thread.join()
    assert len(errors) == 3
    engine.merge(moved())
    assert ending(engine) == ending(running())


# ---------------------------------------------------------------------------------------------------- memory


def fill(*engines: fc.Engine, keys: int = 1_800) -> None:
    """Give each of the engines many partial matches."""
    for first in range(0, keys, 100):
        for engine in engines:
            numbers = np.arange(first, first + 100)
            engine.process({"ts": numbers, "type": ["A"] * 100, "k": numbers, **more(100)})


def full(limit: int | None) -> fc.Engine:
    """Return an engine with many partial matches."""
    engine = fc.Engine(query("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1h"), memory_limit=limit)
    fill(engine)
    return engine


@pytest.mark.parametrize("restored", [False, True], ids=["as it is", "before the first batch"])
def test_a_merge_that_does_not_fit(restored: bool) -> None:
    """The merge is rejected, and nothing has changed."""
    limit = full(None).metrics()["memory_bytes"] * 2 // 3
    engine = fc.Engine(query("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 1h"), memory_limit=limit)
    other = fc.Engine.restore(engine.extract(range(32)))
    fill(engine, other)
    if restored:
        engine = fc.Engine.restore(engine.snapshot())
    before, metrics = engine.snapshot(), logical_metrics(engine)
    taken = other.extract(range(32))
    refuses(lambda: engine.merge(taken), "query 'q'", "memory_limit", kind=fc.MemoryLimitError)
    assert (engine.snapshot(), logical_metrics(engine), engine.groups) == (before, metrics, tuple(range(32, 64)))
    key = next(key for key in range(100) if fc.key_group(key) >= 32)
    assert len(engine.process({"ts": [5_000], "type": ["B"], "k": [key], **more(1)})) == 1


def test_a_restored_engine_keeps_to_its_limit() -> None:
    needed = full(None).metrics()["memory_bytes"]
    engine = fc.Engine.restore(full(4 * needed).snapshot())
    assert engine.metrics()["memory_limit"] == 4 * needed
    assert engine.metrics()["memory_bytes"] <= 4 * needed
    with pytest.raises(fc.MemoryLimitError):
        for first in range(10_000, 100_000, 1_000):
            keys = np.arange(first, first + 1_000)
            engine.process({"ts": keys, "type": ["A"] * 1_000, "k": keys, **more(1_000)})
            assert engine.metrics()["memory_bytes"] <= 4 * needed


def test_another_limit() -> None:
    """An engine may be restored with a lower or a higher limit."""
    data = full(None).snapshot()
    refuses(lambda: fc.Engine.restore(data, memory_limit=60_000), "query 'q'", "memory_limit", kind=fc.MemoryLimitError)
    engine = fc.Engine.restore(data, memory_limit="64MiB")
    assert engine.metrics()["memory_limit"] == 64 << 20
    assert fc.Engine.restore(engine.snapshot()).metrics()["memory_limit"] == 64 << 20
    assert fc.Engine.restore(engine.snapshot(), memory_limit=None).metrics()["memory_limit"] is None
    with pytest.raises(fc.SnapshotError, match="memory_limit: "):
        fc.Engine.restore(data, memory_limit="lots")
