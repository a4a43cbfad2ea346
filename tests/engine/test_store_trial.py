"""``store="auto"``: the result of the trial of both stores, which changes nothing but the time it takes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies.queries import Case
from strategies.stores import cases, run
from support import harness
from support.letters import SCHEMA
from support.state_transfer import quiet

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.engine import store_trial as trial
from fastcep.engine import stream

JOIN = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 1ms"
DS1 = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABCD"}, time="ts", type="type", time_unit="us")


@contextmanager
def trials_of(events: int, cheaper: str) -> Iterator[None]:
    """Let trials end after a number of events, and choose this store."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (stream, trial):
            patch.setattr(module, "TRIED", events)
        patch.setattr(trial, "_MOST_EVENTS", events)
        patch.setattr(trial, "_COSTS", {"rows": (1, 1), "factorised": (1, 1), cheaper: (0, 0)})
        yield


def tables(matches: fc.Matches) -> list[pa.Table]:
    return [matches.query(name).to_arrow() for name in ("q", "r")]


def store_of(engine: fc.Engine, number: int = 0) -> tuple[str, str]:
    """Return the store of a query, and the reason."""
    stores = re.findall(r"^store +(rows|factorised),.* \((.*)\)$", engine.explain(), re.MULTILINE)
    return stores[number]


@given(cases(), st.integers(1, 12), st.sampled_from(["rows", "factorised"]))
def test_nobody_notices(case: Case, events: int, cheaper: str) -> None:
    """The same matches, in the same order, in the same calls, whenever the trial ends and whichever store is kept."""
    expected, _ = run(case, "rows")
    with trials_of(events, cheaper):
        found, _ = run(case, "auto")
    assert found.equals(expected)


@given(cases(), cases(), st.integers(1, 12), st.sampled_from(["rows", "factorised"]), st.integers(0, 12))
def test_nobody_notices_beside_others(one: Case, two: Case, events: int, cheaper: str, moved: int) -> None:
    """Several queries, which share filters, in an engine that is stored and restored at some point."""
    queries = [one.query, fc.parse(two.text, one.query.schema, name="r")]
    expected = quiet(fc.Engine, queries, store="rows")
    with trials_of(events, cheaper):
        found = quiet(fc.Engine, queries)
        for number, data in enumerate(harness.batches(one.query.schema, one.events, one.batch_sizes)):
            if number == moved:
                found = quiet(fc.Engine.restore, found.snapshot())
            assert tables(found.process(data)) == tables(expected.process(data))
        assert tables(found.flush()) == tables(expected.flush())


def test_statistics_choose() -> None:
    """A join of few keys is cheaper without partial matches, one whose first events are rare with them."""
    events = ds1(events=20_000, seed=7)
    engine = fc.Engine(fc.parse(JOIN, DS1))
    assert store_of(engine) == ("rows", "initially: both stores are tried on the first events")
    expected = fc.Engine(fc.parse(JOIN, DS1), store="rows").process(events).to_arrow()
    assert engine.process(events).to_arrow().equals(expected)
    store, why = store_of(engine)
    assert store == "factorised" == engine.metrics()["queries"]["query"]["store"]
    assert re.fullmatch(
        r"by statistics: the first 4,096 events cost about \d+ ns each in rows and \d+ ns in the factorised store", why
    )
    engine = fc.Engine(fc.parse(JOIN.replace("WHERE", "WHERE a.V = 10 AND").replace("1ms", "8ms"), DS1))
    engine.process(events)
    store, why = store_of(engine)
    assert store == "rows" and why.startswith("by statistics: ")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"store": "rows"}, "as requested"),
        ({"threads": 2}, "default: with threads no other store is tried"),
        ({"memory_limit": "1MiB"}, "default: with a memory limit no other store is tried"),
    ],
)
def test_no_trial(options: dict[str, Any], why: str) -> None:
    engine = quiet(fc.Engine, fc.parse(JOIN, DS1), **options)
    engine.process(ds1(events=6_000, seed=7))
    assert store_of(engine) == ("rows", why)


def test_two_variables_are_not_tried() -> None:
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms", DS1))
    assert store_of(engine) == ("rows", "default")


def test_what_was_chosen_is_restored() -> None:
    events = ds1(events=6_000, seed=7)
    engine = fc.Engine(fc.parse(JOIN, DS1))
    engine.process(events[:5_000])
    again = fc.Engine.restore(engine.snapshot())
    assert store_of(again) == ("factorised", "as in the snapshot")
    with_threads = quiet(fc.Engine.restore, engine.snapshot(), threads=2)
    assert store_of(with_threads) == ("factorised", "as in the snapshot")
    expected = engine.process(events[5_000:]).to_arrow()
    assert again.process(events[5_000:]).to_arrow().equals(expected)
    assert with_threads.process(events[5_000:]).to_arrow().equals(expected)


def test_key_groups_of_another_store_are_refused() -> None:
    """Both engines have seen the same events, but one of them had no choice."""
    events = ds1(events=5_000, seed=7)
    auto, rows = fc.Engine(fc.parse(JOIN, DS1)), fc.Engine(fc.parse(JOIN, DS1), store="rows")
    for engine in (auto, rows):
        engine.process(events)
    part = rows.extract([1])
    auto.extract([1])
    with pytest.raises(fc.SnapshotError, match="in the store 'rows', the engine in 'factorised': store='auto' chooses"):
        auto.merge(part)
    other = fc.Engine(fc.parse(JOIN, DS1))
    other.process(events[:3_000])
    other.extract([2])  # which ends the trial
    assert store_of(other) == ("rows", "key groups were moved while two stores were compared")
    other.process(events[3_000:])
    assert store_of(other)[0] == "rows"


def test_events_of_groups_elsewhere_are_not_counted() -> None:
    """A query that is added after key groups have moved tries nothing; one added before has ended its trial."""
    events = ds1(events=12_000, seed=7)
    whole, part = (fc.Engine(fc.parse(JOIN, DS1)) for _ in range(2))
    part.extract(range(40))
    part.add(fc.parse(JOIN, DS1, name="later"))
    assert store_of(part, 1) == ("rows", "default: with key groups elsewhere no other store is tried")
    table = whole.process(events).to_arrow()
    found = part.process(events)
    here = [number for number, key in enumerate(pick(table, events)) if fc.key_group(key) >= 40]
    assert found.counts() == {"query": len(here), "later": len(here)}


def pick(table: pa.Table, events: pa.Table) -> list[int]:
    """Return the ID of each match."""
    return events["ID"].take(table["a"]).to_pylist()


def test_what_concerns_nobody_tells_nothing() -> None:
    """The trial starts with the first event that a variable may bind."""
    events = ds1(events=9_000, seed=7)
    others = {"type": ["D"] * 10_000, "ID": [1] * 10_000, "V": [1] * 10_000, "ts": range(10_000)}
    later = events.set_column(events.schema.get_field_index("ts"), "ts", pc.add(events["ts"], 20_000))
    for first in (others, {name: values[:1] for name, values in others.items()}):
        engine = fc.Engine(fc.parse(JOIN, DS1))
        engine.process(first)
        assert store_of(engine) == ("rows", "initially: both stores are tried on the first events")
        engine.process(later)
        assert store_of(engine)[0] == "factorised"


@pytest.mark.parametrize("options", [{}, {"allowed_lateness": "0ms"}], ids=repr)
def test_what_is_found_during_a_trial_is_found_once(options: dict[str, Any]) -> None:
    """The factorised store, which has found the matches too, is kept after several calls."""
    with trials_of(5, "factorised"):
        engine = fc.Engine(fc.parse(JOIN, DS1), **options)
        counts = [len(engine.send(kind, ts=time, ID=1, V=0)) for time, kind in enumerate("ABCCBC")]
        counts.append(len(engine.flush()))
    assert store_of(engine)[0] == "factorised"
    assert sum(counts) == 4


def test_flush_ends_a_trial() -> None:
    engine = fc.Engine(fc.parse(JOIN, DS1))
    engine.process(ds1(events=1_000, seed=7))
    engine.flush()
    assert store_of(engine) == ("rows", "the stream ended before two stores were compared")


@pytest.mark.parametrize(
    "where", ["a.ID + b.ID = c.V", "b.ID - a.V = c.V", "a.ID = b.ID", "[V] AND a.ID = b.ID", "a.ID = c.V"]
)
def test_large_buckets(where: str) -> None:
    """More events with one key than are compared at once: they are hashed when an event needs them."""
    draw = np.random.default_rng(11)
    n = 6_000
    huge = 2**63 - 1
    values = draw.integers(0, 400, n)
    data = {
        "type": draw.choice(list("ABC"), n, p=[0.6, 0.3, 0.1]),
        "ID": [None if one % 50 == 0 else huge if one % 50 == 1 else int(one) for one in values],
        "V": draw.integers(0, 3 if "[V]" in where else 500, n),
        "ts": np.arange(n),
    }
    query = fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE {where} WITHIN 2000 EVENTS", SCHEMA)
    engines = {store: fc.Engine(query, store=store) for store in ("rows", "factorised")}
    for first, last in [(0, 2_500), (2_500, 2_600), (2_600, 4_000), (4_000, n)]:
        part = {name: values[first:last] for name, values in data.items()}
        rows, factorised = (engine.process(part).to_arrow() for engine in engines.values())
        assert factorised.equals(rows)
        assert len(rows) > 0
        engines["factorised"] = fc.Engine.restore(engines["factorised"].snapshot())
    assert engines["factorised"].metrics()["bytes_per_row"] < 200
