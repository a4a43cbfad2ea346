"""Snapshots of engines: everything that an engine can hold is restored."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash
from reference.user_functions import own_registry
from support.snapshot_engines import (
    NUMBERED,
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
from support.state_transfer import quiet
from support.waiting import LIMIT_TEXT

import fastcep as fc
from fastcep.engine import strings
from fastcep.query.user_functions import registry

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


def test_the_header_describes_the_content() -> None:
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
