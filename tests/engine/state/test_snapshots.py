"""Snapshots of engines: rejected ones change nothing, and everything that an engine can hold is restored."""

from __future__ import annotations

import copy
import functools
import json
import pickle
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from reference.user_functions import own_registry
from support.state_transfer import COUNTERS, quiet
from support.waiting import LIMIT_TEXT

import fastcep as fc
from fastcep.engine import strings
from fastcep.engine.state import container
from fastcep.engine.state.container import pack, unpack
from fastcep.query import registry

ATTRIBUTES = {"k": "int64", "v": "int64", "x": "float64", "s": "string", "p": "bool"}
SCHEMA = fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type")
NUMBERED = fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type", sequence="n")
OTHER = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), type="type")
PAIR = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.v <= c.v WITHIN 60ns"
UNKEYED = "PATTERN SEQ(A a, B b) WHERE a.v < b.v WITHIN 20ns"


def query(text: str = PAIR, name: str = "q", schema: fc.Schema = SCHEMA) -> fc.Query:
    return fc.parse(text, schema, name=name)


def stream(rows: int = 120, seed: int = 1, start: int = 0) -> dict[str, Any]:
    """Make events with every kind of key: few numbers, both zeros and NaN, texts, nulls."""
    draw = np.random.default_rng(seed)
    nulls = draw.random(rows) < 0.1
    texts = draw.choice(["", "x", "é", "日本", "\U0001f6b2"], rows)
    return {
        "type": draw.choice(list("ABC"), rows),
        "k": [None if null else int(key) for null, key in zip(nulls, draw.integers(0, 4, rows), strict=True)],
        "v": draw.integers(0, 5, rows),
        "x": draw.choice([0.0, -0.0, 1.5, np.nan], rows),
        "s": [None if null else str(text) for null, text in zip(nulls, texts, strict=True)],
        "p": [None if null else bool(flag) for null, flag in zip(nulls, draw.integers(0, 2, rows), strict=True)],
        "ts": start + np.arange(rows) * 2,
        "n": np.arange(rows),
    }


def more(rows: int) -> dict[str, Any]:
    """Return the attributes other than the key."""
    return {name: [None] * rows for name in "vxsp"}


def part(data: dict[str, Any], first: int, last: int | None = None) -> dict[str, Any]:
    return {name: values[first:last] for name, values in data.items()}


def running(text: str = PAIR, events: int = 60, schema: fc.Schema = SCHEMA, **options: Any) -> fc.Engine:
    """Return an engine in the middle of the stream."""
    engine = quiet(fc.Engine, query(text, schema=schema), **options)
    engine.process(part(stream(), 0, events))
    return engine


def logical_metrics(engine: fc.Engine) -> dict[str, Any]:
    """Return its metrics, without those that measure memory."""
    metrics = engine.metrics()
    for facts in metrics["queries"].values():
        del facts["memory_bytes"]
    return {name: metrics[name] for name in (*COUNTERS, "foreign_events", "queries", "matches_by_query")}


def ending(engine: fc.Engine, first: int = 60, **options: Any) -> str:
    """Return the results of an engine for the rest of the stream, as text (NaN then equals itself)."""
    found = [engine.process(part(stream(), first), **options), engine.flush()]
    late = engine.late().to_pylist()
    out = engine.timed_out().to_pylist() if engine._timed_out else None
    return repr([table.to_arrow().to_pylist() for table in found] + [late, out])


def refuses(call: Callable[[], Any], *words: str, kind: type[Exception] = fc.SnapshotError) -> str:
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert all(word in message for word in words), message
    return message


# ---------------------------------------------------------------------------------------------------- refused


@functools.cache
def moved(*groups: int) -> bytes:
    """Return key groups of an engine in the middle of the stream."""
    return running().extract(groups or range(32))


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


# -------------------------------------------------------------------------------------- queries given to restore


def test_queries_may_be_given() -> None:
    """The same queries, parsed or built; no others."""
    engine = running("PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 20ns")
    data = engine.snapshot()
    own = engine._stream.queries["q"].query
    for given in (None, query("PATTERN SEQ(A a, B b) WHERE a.k = b.k WITHIN 20ns"), [own]):
        assert ending(fc.Engine.restore(data, given)) == ending(fc.Engine.restore(data))
    refuses(lambda: fc.Engine.restore(data, query()), "other queries", "SEQ(A a, B b)", "C c")
    refuses(lambda: fc.Engine.restore(data, query(schema=OTHER)), "schema")
    refuses(lambda: fc.Engine.restore(data, [own, query(name="p")]), "other queries", "lines")
    refuses(lambda: fc.Engine.restore(data, []), "at least one query")
    refuses(lambda: fc.Engine.restore(data, "PATTERN"), "found str")  # type: ignore[arg-type]


def test_a_query_is_built() -> None:
    """An object with a ``build`` method is a builder, as for the engine itself."""

    class Builder:
        def build(self) -> fc.Query:
            return query()

    assert ending(fc.Engine.restore(running().snapshot(), Builder())) == ending(running())
    assert ending(fc.Engine.restore(running(attributes=True).snapshot(), Builder())) == ending(running(attributes=True))


@pytest.fixture
def own_functions() -> Iterator[None]:
    with own_registry():
        yield


@pytest.mark.usefixtures("own_functions")
def test_functions_are_registered_first() -> None:
    """A snapshot has no code, so the process that restores it must register the functions."""

    def near(x: int, y: int) -> bool:
        return abs(x - y) < 2

    fc.function("bool(int64, int64)")(near)
    engine = running("PATTERN SEQ(A a, B b) WHERE [k] AND near(a.v, b.v) WITHIN 20ns")
    data = engine.snapshot()
    assert b"abs" not in data
    assert ending(fc.Engine.restore(data)) == ending(engine)
    with own_registry():
        registry._registered.clear()
        refuses(lambda: fc.Engine.restore(data), "cannot create an engine for the snapshot", "near")
        fc.function("bool(float64, float64)")(near)
        refuses(lambda: fc.Engine.restore(data), "near")
    assert ending(fc.Engine.restore(data)) == ending(fc.Engine.restore(data, engine._stream.queries["q"].query))


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


# ---------------------------------------------------------------------------------- what an engine can hold

#: Queries, and options of the engine.
HELD: dict[str, tuple[str | list[str], dict[str, Any]]] = {
    "int key": (PAIR, {}),
    "text key": ("PATTERN SEQ(A a, B+ b[], C c) WHERE [s] WITHIN 14ns", {}),
    "bool key": ("PATTERN SEQ(A a, NEG B b, C c) WHERE [p] WITHIN 30ns", {}),
    "float key": ("PATTERN SEQ(A a, B b, C c) WHERE [x] WITHIN 20ns", {}),
    "by equalities": ("PATTERN SEQ(A a, B b, C c) WHERE a.x = b.x AND c.x = a.x WITHIN 20ns", {}),
    "a key equal to more": ("PATTERN SEQ(A a, C c) WHERE [k] AND a.v = c.k WITHIN 20ns", {}),
    "two keys": ("PATTERN SEQ(A a, B b, C c) WHERE [k, s] WITHIN 90ns", {}),
    "alone": ("PATTERN SEQ(A a, B? b, C? c) WHERE a.k = b.k AND a.k = c.k WITHIN 20ns", {}),
    "lists": ("PATTERN SEQ(A+ a[]) WHERE [s] AND a[i+1].v > a[i].v WITHIN 40ns", {}),
    "waiting": ("PATTERN SEQ(A a, B b, NEG C c) WHERE [k] WITHIN 20ns", {}),
    "waiting texts": ("PATTERN SEQ(A a, B b, NEG C c) WHERE [s] AND a.v <= c.v WITHIN 20ns", {}),
    "waiting, null keys": ("PATTERN SEQ(A a, NEG B b) WHERE a.s = b.s WITHIN 20ns", {}),
    "waiting, a key equal to more": ("PATTERN SEQ(A a, NEG C c) WHERE [k] AND a.v = c.k WITHIN 20ns", {}),
    "waiting, zeros": ("PATTERN SEQ(A a, NEG B b) WHERE a.x = b.x WITHIN 20ns", {}),
    "periodic": ("PATTERN PERIODIC(A a, 3ns, C c) WHERE [k] WITHIN 30ns", {}),
    "aperiodic": ("PATTERN APERIODIC(A a, B b, C c) WHERE [k] WITHIN 30ns", {}),
    "group": ("PATTERN SEQ((SEQ(A a, B b))+ g[], C c) WHERE [k] WITHIN 40ns", {}),
    "events": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9 EVENTS", {}),
    "next": ("PATTERN SEQ(A a, B+ b[], C c) WHERE [k] WITHIN 30ns STRATEGY skip_till_next", {}),
    "consumed": ("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 30ns CONSUME consumed", {}),
    "return": (f"{PAIR} RETURN a.s AS s, a.v // c.v AS ratio, b.x AS x", {}),
    "attributes": (PAIR, {"attributes": True}),
    "unbounded": (PAIR.replace("60ns", "UNBOUNDED"), {}),
    "windows": ("PATTERN SEQ(A a, B b) WHERE [k] WINDOW OPEN ON C w CLOSE AFTER 20ns", {}),
    "closed by an event": ("PATTERN SEQ(A a, B b) WHERE [k] WINDOW OPEN ON C w CLOSE ON C z WHERE z.k = w.k", {}),
    "limit": ("PATTERN SEQ(A a, B b) WHERE a.v < b.v WINDOW OPEN ON C w CLOSE AFTER 20 EVENTS LIMIT 2 PER WINDOW", {}),
    "every time": ("PATTERN SEQ(A a, B b) WHERE [k] WINDOW EVERY 7ns CLOSE AFTER 20ns", {}),
    "every events": ("PATTERN SEQ(A a, B b) WHERE [k] WINDOW EVERY 5 EVENTS CLOSE AFTER 12 EVENTS", {}),
    "timed out": (PAIR, {"timed_out": True}),
    "timed out of windows": ("PATTERN SEQ(A a, B b) WHERE [s] WINDOW EVERY 7ns CLOSE AFTER 20ns", {"timed_out": True}),
    "late": (PAIR, {"allowed_lateness": "6ns"}),
    "two indexes": ("PATTERN SEQ(A a, OR(B b, C c)) WHERE a.k = b.k AND a.s = c.s WITHIN 20ns", {}),
    "an index and a list": ("PATTERN SEQ(A a, OR(B b, C c)) WHERE a.k = b.k WITHIN 20ns", {}),
    "several": ([PAIR, UNKEYED, "PATTERN SEQ(A a, B b, NEG C c) WHERE [k] WITHIN 20ns RETURN a.s AS s"], {}),
    "several keys": ([PAIR, "PATTERN SEQ(A a, B b) WHERE [s] AND b.v > 1 WITHIN 30ns"], {}),
}


#: Names of the cases whose state cannot be divided by a key.
UNKEYED_ONES = ("several", "limit", "two indexes", "an index and a list")


def made(name: str, schema: fc.Schema = SCHEMA) -> fc.Engine:
    texts, options = HELD[name]
    queries = [query(text, f"q{i}", schema) for i, text in enumerate([texts] if isinstance(texts, str) else texts)]
    return quiet(fc.Engine, queries, **options)


def disordered(data: dict[str, Any]) -> dict[str, Any]:
    """Return events of which some are too late, and many a little late."""
    order = np.argsort(np.arange(len(data["ts"])) + np.random.default_rng(5).choice([0, 0, 2, 4, 9], len(data["ts"])))
    return {name: [values[at] for at in order] for name, values in data.items()}


@pytest.mark.thorough
@pytest.mark.parametrize("schema", [SCHEMA, NUMBERED], ids=["by time", "numbered"])
@pytest.mark.parametrize("name", HELD)
def test_whatever_it_holds(name: str, schema: fc.Schema) -> None:
    """The restored engine reports the same for the rest of the stream, with equal counters and equal snapshots."""
    data = disordered(stream()) if name == "late" else stream()
    engine = made(name, schema)
    matches = 0
    for first in range(0, 120, 20):
        engine.process(part(data, first, first + 20))
        before = engine.snapshot()
        assert engine.snapshot() == before, "nothing has come between"
        other = fc.Engine.restore(before)
        assert logical_metrics(other) == logical_metrics(engine)
        assert other.groups == engine.groups
        again = other.snapshot()
        assert len(again) == len(before)
        if b'"0 nodes"' not in before:  # they may be in another order
            assert again == before
        rest, again = (
            repr([found.to_arrow().to_pylist() for found in (one.process(part(data, first + 20)), one.flush())]
                 + [one.late().to_pylist(), one.timed_out().to_pylist() if one._timed_out else None])
            for one in (fc.Engine.restore(before), other)
        )  # fmt: skip
        assert rest == again
        matches += len(rest)
    assert matches > 6 * 40, "the stream has matches"
    whole = made(name, schema)
    whole.process(data)
    assert repr(engine.flush().to_arrow().to_pylist()) == repr(whole.flush().to_arrow().to_pylist())
    assert logical_metrics(whole)["matches"] == logical_metrics(engine)["matches"]


@pytest.mark.thorough
@pytest.mark.parametrize("schema", [SCHEMA, NUMBERED], ids=["by time", "numbered"])
@pytest.mark.parametrize("name", [name for name in HELD if name not in UNKEYED_ONES])
def test_engines_that_share_the_groups(name: str, schema: fc.Schema) -> None:
    """Three engines with a part of the groups each find together what one finds; at the end one has all groups."""
    data = disordered(stream()) if name == "late" else stream()
    whole, first = made(name, schema), made(name, schema)
    parts = [first.extract(range(1, 64, 3)), first.extract(range(2, 64, 3))]
    fleet = [first, *map(fc.Engine.restore, parts)]
    assert [len(engine.groups) for engine in fleet] == [22, 21, 21]
    for at in range(0, 120, 12):
        expected = rows(whole.process(part(data, at, at + 12)))
        assert sorted(row for engine in fleet for row in rows(engine.process(part(data, at, at + 12)))) == expected
        moving = fleet[at % 3].extract(fleet[at % 3].groups[:2])
        fleet[(at + 1) % 3].merge(moving)
        assert sorted(group for engine in fleet for group in engine.groups) == list(range(64))
        live = sum(engine.metrics()["live_partial_matches"] for engine in fleet)
        assert live == whole.metrics()["live_partial_matches"]
    for _ in range(2):
        last = fleet.pop()
        fleet[0].merge(last.extract(last.groups))
        assert last.groups == ()
    assert rows(fleet[0].flush()) == rows(whole.flush())


def rows(found: fc.Matches) -> list[str]:
    return sorted(repr(row) for row in found.to_arrow().to_pylist())


def test_an_engine_without_groups() -> None:
    """It processes the stream, finds nothing and holds nothing; groups may be merged again."""
    engine, whole = running(), running()
    taken = engine.extract(range(64))
    assert engine.groups == ()
    assert logical_metrics(engine)["live_partial_matches"] == 0
    refuses(lambda: engine.extract([0]), "not here", kind=fc.ValidationError)
    other = fc.Engine.restore(taken)
    assert other.groups == tuple(range(64))
    empty = fc.Engine.restore(engine.snapshot())
    assert empty.groups == ()
    for one in (engine, empty):
        assert len(one.process(part(stream(), 60, 90))) == 0
        assert one.metrics()["foreign_events"] == 30
        assert one.metrics()["events"] == 90
    found = [rows(one.process(part(stream(), 60, 90))) for one in (whole, other)]
    assert found[0] == found[1] != []
    empty.merge(other.extract(other.groups))
    assert ending(empty, 90) == ending(whole, 90)


def test_foreign_events() -> None:
    """Events of other groups are counted; events that no variable of a query may bind belong to no group."""
    engine = fc.Engine(query("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 60ns"))
    engine.extract([fc.key_group(2), fc.key_group(None)])
    keys = [1, 2, None, 2, 3]
    engine.process({"ts": range(6), "type": list("AABBAC"), "k": [*keys, 2], **more(6)})
    assert engine.metrics()["foreign_events"] == 3
    assert engine.metrics()["events"] == 6
    assert engine.metrics()["live_partial_matches"] == 2
    assert fc.Engine.restore(engine.snapshot()).metrics()["foreign_events"] == 3
    assert fc.Engine.restore(engine.extract([fc.key_group(1)])).metrics()["foreign_events"] == 0


@pytest.mark.parametrize("key", [0.0, -0.0])
def test_both_zeros_are_in_one_group(key: float) -> None:
    engine = fc.Engine(query("PATTERN SEQ(A a, NEG B b) WHERE a.x = b.x WITHIN 20ns"))
    engine.send("A", ts=1, x=key)
    other = fc.Engine.restore(engine.extract([fc.key_group(0.0)]))
    assert (logical_metrics(engine)["waiting_matches"], logical_metrics(other)["waiting_matches"]) == (0, 1)
    other.send("B", ts=2, x=-key)
    assert len(other.flush()) == 0


# ------------------------------------------------------------------------------------------- order, time, strings


class Clock:
    now = 0

    def __call__(self) -> int:
        return self.now


def test_sources_and_held_events() -> None:
    """Sources keep their watermarks; their wall-clock times start again."""
    clock = Clock()
    options = {"allowed_lateness": "10ns", "idle_timeout": "1s", "clock": clock}
    data = disordered(stream())
    engine = fc.Engine(query(), **options)  # type: ignore[arg-type]
    engine.process(part(data, 0, 0), source="slow")
    for first in range(0, 60, 20):
        for name in ("fast", "slow"):
            offset = 0 if name == "fast" else 10
            engine.process(part(data, first + offset, first + offset + 10), source=name)
    assert engine.metrics()["held_events"] > 5
    assert engine.metrics()["late_waiting"] > 0
    other = fc.Engine.restore(engine.snapshot(), clock=clock)
    assert logical_metrics(other) == logical_metrics(engine)
    with pytest.raises(fc.ValidationError, match="no query"):
        other.remove("q")
        other.snapshot()
    other = fc.Engine.restore(engine.snapshot(), clock=clock)
    found = [rows(one.process(part(data, 60, 80), source="fast")) for one in (engine, other)]
    assert found[0] == found[1]
    clock.now += 2 * 10**9
    assert rows(other.poll()) == rows(engine.poll())
    assert other.metrics()["held_events"] == engine.metrics()["held_events"] == 0
    assert ending(other, 80, source="slow") == ending(engine, 80, source="slow")


def test_late_events_stay() -> None:
    """Events that wait for ``late()`` are in a snapshot of the whole engine, and stay when groups move."""
    engine = fc.Engine(query(), allowed_lateness="4ns")
    engine.process(disordered(part(stream(), 0, 60)))
    count = engine.metrics()["late_waiting"]
    assert count > 2
    whole = fc.Engine.restore(engine.snapshot())
    taken = fc.Engine.restore(engine.extract(range(32)))
    assert engine.metrics()["late_waiting"] == whole.metrics()["late_waiting"] == count
    assert taken.metrics()["late_waiting"] == 0
    assert repr(whole.late().to_pylist()) == repr(engine.late().to_pylist())
    assert taken.late().num_rows == 0


def test_timed_out_rows_stay() -> None:
    engine = running(timed_out=True)
    count = engine.metrics()["timed_out_waiting"]
    assert count > 0
    whole = fc.Engine.restore(engine.snapshot())
    taken = fc.Engine.restore(engine.extract(range(32)))
    assert engine.metrics()["timed_out_waiting"] == whole.metrics()["timed_out_waiting"] == count
    assert taken.metrics()["timed_out_waiting"] == 0
    assert engine.timed_out().equals(whole.timed_out())
    assert taken.timed_out().num_rows == 0


def test_the_clock_is_kept() -> None:
    """The restored engine starts at the time that ``advance`` reached."""
    engine = running()
    engine.advance(150)
    other = fc.Engine.restore(engine.snapshot())
    for one in (engine, other):
        refuses(lambda one=one: one.advance(149), "clock back", kind=fc.ValidationError)  # type: ignore[misc]
        with pytest.raises(fc.DataError):
            one.send("A", ts=149, k=1)
        one.send("A", ts=150, k=1)


@pytest.mark.parametrize("schema", [SCHEMA, NUMBERED], ids=["by time", "numbered"])
def test_after_texts_were_forgotten(schema: fc.Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    """Codes that were freed and reused mean the new texts."""
    monkeypatch.setattr(strings, "_STRINGS", 16)
    text = "PATTERN SEQ(A a, B+ b[], NEG C c) WHERE [s] WITHIN 30ns RETURN a.s AS s"
    engine, plain = (fc.Engine(query(text, schema=schema)) for _ in range(2))
    plain._stream.unused.limit = 1 << 40
    data = stream(400)
    data["s"] = [f"text {at // 9 % 60}" for at in range(400)]
    most = 0
    for first in range(0, 400, 8):
        batch = part(data, first, first + 8)
        assert rows(engine.process(batch)) == rows(plain.process(batch))
        most = max(most, engine.metrics()["strings"])
        if first % 24 == 0:
            engine = fc.Engine.restore(engine.snapshot())
        elif first % 24 == 8:
            other = fc.Engine.restore(engine.extract(range(20)))
            engine.merge(other.snapshot())
    assert most < plain.metrics()["strings"]
    assert rows(engine.flush()) == rows(plain.flush())


# --------------------------------------------------------------------------------------- queries that come and go


def test_queries_that_came_later() -> None:
    """``since`` is part of the state, whether queries were added, replaced or removed before."""
    engine = fc.Engine([query(), query(UNKEYED, "old")])
    engine.process(part(stream(), 0, 20))
    engine.add(query("PATTERN SEQ(A a, B b) WHERE [s] WITHIN 30ns RETURN a.s AS s", "late"))
    engine.process(part(stream(), 20, 40))
    engine.replace("old", query("PATTERN SEQ(A a, B b, NEG C c) WHERE [k] WITHIN 20ns", "new"))
    engine.process(part(stream(), 40, 60))
    engine.remove("q")
    other = fc.Engine.restore(engine.snapshot())
    assert logical_metrics(other) == logical_metrics(engine)
    assert {name: facts["since"] for name, facts in other.metrics()["queries"].items()} == {"late": 20, "new": 40}
    for one in (engine, other):
        one.add(query(name="more"))
        one.process(part(stream(), 60, 80))
        one.extract(range(10))
    third = fc.Engine.restore(other.snapshot())
    assert logical_metrics(third)["queries"] == logical_metrics(engine)["queries"]
    assert ending(other, 80) == ending(engine, 80) == ending(third, 80)


def test_weights_are_kept() -> None:
    """Weights are part of the text of a query."""
    queries = [query("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 9ns WEIGHT 3", "heavy"), query(name="light")]
    engine = fc.Engine.restore(fc.Engine(queries, memory_limit="8MiB").snapshot())
    assert {name: facts["weight"] for name, facts in engine.metrics()["queries"].items()} == {"heavy": 3, "light": 1}


def test_a_query_added_to_a_part() -> None:
    """An engine that has some of the groups runs a new query for these groups only."""
    one = running()
    two = fc.Engine.restore(one.extract(range(32)))
    whole = running()
    for engine in (one, two, whole):
        engine.add(query("PATTERN SEQ(A a, B b) WHERE [s] WITHIN 30ns", "late"))
    found = [engine.process(part(stream(), 60)) for engine in (one, two, whole)]
    assert sorted(rows(found[0]) + rows(found[1])) == rows(found[2])
    one.merge(two.extract(range(32)))
    assert rows(one.flush()) == rows(whole.flush())


# --------------------------------------------------------------------------------------------------- kernels


def test_a_restored_engine_uses_generated_kernels(kernels: Path) -> None:
    assert kernels.is_dir()
    engine = running("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.v + b.v <= c.v WITHIN 60ns RETURN a.v + c.v AS v")
    assert engine.compile(LIMIT_TEXT)
    other = fc.Engine.restore(engine.snapshot())
    assert other.compile(LIMIT_TEXT)
    taken = fc.Engine.restore(engine.extract(range(32)))
    assert taken.compile(LIMIT_TEXT)
    for one in (engine, other, taken):
        facts = one.metrics()["kernels"]
        assert facts["generated"] == facts["total"] > 0
    engine.merge(taken.extract(range(32)))
    assert engine.compile(LIMIT_TEXT)
    assert engine.metrics()["kernels"]["generated"] == engine.metrics()["kernels"]["total"]
    assert ending(engine) == ending(other)


# ----------------------------------------------------------------------------------------------- the header


def test_the_header_tells_what_is_inside() -> None:
    """As docs/reliability.md says: readable without fastcep, and free of data about the process."""
    engine = running(UNKEYED)
    data = engine.snapshot()
    assert data[:8] == bytes.fromhex("FC 43 45 50 0D 0A 1A 0A")
    number, flags, length, whole = struct.unpack_from("<HHIQ", data, 8)
    assert (number, flags, whole) == (1, 0, len(data))
    assert length % 8 == 0
    assert struct.unpack_from("<Q", data, 24 + length)[0] == xxhash.xxh64_intdigest(data[: 24 + length])
    header = json.loads(data[24 : 24 + length])
    assert (header["position"], header["time"]) == (60, 118)
    assert "SEQ(A a, B b)" in data[24 : 24 + length].decode()
    assert header["groups"] is None
    at = 32 + length
    for item in header["parts"]:
        assert set(item) == {"name", "size", "rows", "xxh64"}
        assert xxhash.xxh64_hexdigest(data[at : at + item["size"]]) == item["xxh64"]
        at += item["size"]
    assert at == len(data)
    assert b"/tests" not in data
    assert running(UNKEYED).snapshot() == data, "the same events, the same bytes"
    keyed = json.loads(moved()[24 : 24 + struct.unpack_from("<I", moved(), 12)[0]])
    assert keyed["groups"] == list(range(32))
