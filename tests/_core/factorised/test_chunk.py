"""The factorised store finds the same as rows in streams of many chunks, however they are divided into batches."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from support.state_transfer import quiet

import fastcep as fc

ATTRIBUTES = {"k": "int64", "v": "int64", "x": "float64"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", ATTRIBUTES), time="ts", type="type")
QUERIES = {
    "two variables": "SEQ(A a, B b) WHERE a.k = b.k",
    "no key": "SEQ(A a, B b, C c) WHERE a.v < 2 AND b.v < 2 AND c.v < 2",
    "join": "SEQ(A a, B b, C c) WHERE [k] AND a.v + b.v = c.v",
    "join of differences": "SEQ(A a, B b, C c) WHERE [k] AND b.v - a.v = c.v",
    "join without a sum": "SEQ(A a, B b, C c) WHERE [k] AND b.v = c.v",
    "another key in each step": "SEQ(A a, B b, C c) WHERE a.k = c.v AND b.v = c.k",
    "a key of the join that the second event does not know": "SEQ(A a, B b, C c) WHERE a.v = c.v AND b.k = c.k",
    "two key words": "SEQ(A a, B b, C c) WHERE [k, v]",
    "three key words": "SEQ(A a, B b, C c) WHERE [k, v, x]",
    "float keys": "SEQ(A a, B b, C c) WHERE [x] AND a.v + b.v = c.v",
    "a residual condition": "SEQ(A a, B b, C c) WHERE [k] AND a.v < b.v AND b.v < c.v",
    "one event, several variables": "SEQ((A|B) a, (A|B|C) b, (B|C) c) WHERE [k] AND a.v + b.v = c.v AND b.x < 0.5",
    "several attributes": "SEQ(A a, B b, C c) WHERE [k] AND a.v < c.v AND a.x < c.x AND b.v < c.v AND b.x < c.x",
    "four variables": "SEQ(A a, B b, C c, D d) WHERE [k] AND a.v + b.v = d.v",
    "elements": "SEQ(A a, B+ b[], C c) WHERE a.k = b[i].k AND a.k = c.k AND b[i].v = a.v",
    "elements, and one event as first and element": "SEQ((A|B) a, B+ b[], C c) WHERE [k] AND b[i].v = a.v",
}
WINDOWS = ["60ns", "90 EVENTS"]
COUNTERS = ("rows_visited", "rows_created", "live_partial_matches", "peak_partial_matches", "matches")
#: An A leaves the window of 100 ns before its key has the next A, but not the B between them.
DELAYS = (0, 98, 103, 105)


def stream(seed: int, n: int, start: int, nulls: bool) -> dict[str, Any]:
    """Draw n events; the keys change in the course of the stream, so that buckets are removed and come again."""
    draw = np.random.default_rng(seed)
    k = draw.integers(0, 6, n) + 6 * ((np.arange(n) // 900) % 2)
    return {
        "type": draw.choice(list("ABCD"), n),
        "ts": start + np.sort(draw.integers(0, 2 * n, n)),
        "k": [None if nulls and one % 7 == 0 else int(one) for one in k],
        "v": [None if nulls and one == 5 else int(one) for one in draw.integers(0, 6, n)],
        "x": draw.choice([0.0, -0.0, 0.25, 0.75, np.nan], n),
    }


def batches(data: dict[str, Any], seed: int) -> list[dict[str, Any]]:
    """Divide events into batches of 1 to 700, of which many are small."""
    draw = np.random.default_rng(seed)
    ends = np.cumsum(draw.choice([1, 2, 3, 40, 300, 700], len(data["ts"])))
    ends = [0, *ends[ends < len(data["ts"])], len(data["ts"])]
    return [{name: values[i:j] for name, values in data.items()} for i, j in pairwise(ends)]


def same(text: str, data: dict[str, Any], seed: int) -> int:
    """Compare the stores, batch by batch; return the number of matches."""
    query = fc.parse(text, SCHEMA)
    rows, factorised = fc.Engine(query, store="rows"), fc.Engine(query, store="factorised")
    found = 0
    for number, batch in enumerate(batches(data, seed)):
        expected = rows.process(batch).to_arrow()
        assert factorised.process(batch).to_arrow().equals(expected), f"batch {number}"
        found += len(expected)
        if number % 9 == 8:
            factorised = quiet(fc.Engine.restore, factorised.snapshot())
    return found


@pytest.mark.sample(20)
@pytest.mark.parametrize("nulls", [False, True])
@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("name", QUERIES)
def test_rows(name: str, window: str, nulls: bool) -> None:
    """All queries, with windows of time and of events; nulls come in the second half of the stream."""
    text = f"PATTERN {QUERIES[name]} WITHIN {window}"
    if name == "no key":
        window = "20ns" if window.endswith("ns") else "20 EVENTS"
        text = f"PATTERN {QUERIES[name]} WITHIN {window}"
    first, second = stream(7, 2_500, 0, False), stream(8, 2_500, 6_000, nulls)
    assert same(text, {column: [*first[column], *second[column]] for column in first}, 9) > 0


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", QUERIES)
def test_counters(name: str) -> None:
    """They do not depend on the batches: the choice of the store follows from them."""
    query = fc.parse(f"PATTERN {QUERIES[name]} WITHIN 20ns", SCHEMA)
    data, counters = stream(13, 700, 0, False), []
    ones = [{key: values[i : i + 1] for key, values in data.items()} for i in range(700)]
    for parts in ([data], batches(data, 14), ones):
        engine = fc.Engine(query, store="factorised")
        for part in parts:
            engine.process(part)
        metrics = engine.metrics()
        counters.append({key: metrics[key] for key in COUNTERS})
    assert counters[0] == counters[1] == counters[2]


@pytest.mark.parametrize("nulls", [False, True])
def test_several_attributes_that_a_later_step_reads(nulls: bool) -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.v < c.v AND a.x < c.x AND b.v < c.v AND b.x < c.x WITHIN 60ns"
    assert same(text, stream(11, 2_500, 0, nulls), 12) > 0


@pytest.mark.parametrize(("key", "column"), [("k", "k"), ("k, v", "k"), ("k, v", "v")])
def test_many_keys(key: str, column: str) -> None:
    """Many keys, so that several have the same first slot; of two words they differ in one or the other."""
    values = np.random.default_rng(4).integers(0, 3_000, 20_000)
    data = stream(3, 20_000, 0, False) | {"k": [1] * 20_000, "v": [1] * 20_000} | {column: values}
    assert same(f"PATTERN SEQ(A a, B b, C c) WHERE [{key}] WITHIN 20us", data, 5) > 0


def test_buckets_that_are_removed_and_come_again() -> None:
    """The number of events that a bucket has had counts on, although the bucket is removed when all have gone."""
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.v + b.v = c.v WITHIN 100ns", SCHEMA)
    kinds = list(zip(DELAYS, "ABAC", strict=True))
    events = sorted((key + delay, kind, key) for key in range(20_000) for delay, kind in kinds)
    times, types, keys = zip(*events, strict=True)
    data = {"type": types, "ts": times, "k": keys, "v": [0] * len(events), "x": [0.0] * len(events)}
    assert len(fc.Engine(query, store="factorised").process(data)) == 0


def test_null_in_batches_of_one() -> None:
    """A null equals nothing, whatever value is behind it, and although no null came before."""
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE [k] AND a.v + b.v = c.v WITHIN 100ns", SCHEMA)
    engine = fc.Engine(query, store="factorised")
    found = []
    for time, (kind, v) in enumerate([("A", 2), ("B", 0), ("B", None), ("C", 2)]):
        found += engine.process({"type": [kind], "ts": [time], "k": [1], "v": [v], "x": [0.0]})
    assert [(match.a, match.b, match.c) for match in found] == [(0, 1, 3)]


def test_no_row_passes_the_condition() -> None:
    """A condition between the second and the last event rejects all rows; the debug build checks the join."""
    query = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE [k] AND b.v < c.v WITHIN 1us", SCHEMA)
    engine = fc.Engine(query, store="factorised")
    for n in (3, 3_000):
        columns = {"k": [1] * n, "v": [5, 5, 1] * (n // 3), "x": [0.0] * n}
        assert len(engine.process({"type": list("ABC") * (n // 3), "ts": list(range(n - 3, 2 * n - 3))} | columns)) == 0


def test_the_ring_of_starts_is_shortened() -> None:
    """After many starts have left the window, those that follow are in a smaller ring."""
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WHERE [k] WITHIN 100us", SCHEMA), store="factorised")
    for start, n in [(0, 8_192), (2_000_000, 60), (4_000_000, 600)]:
        columns = {"k": [1] * n, "v": [0] * n, "x": [0.0] * n}
        engine.process({"type": ["A"] * n, "ts": list(range(start, start + n))} | columns)
        assert engine.metrics()["live_partial_matches"] == n
        engine.advance(start + 1_000_000)
        assert engine.metrics()["live_partial_matches"] == 0


@pytest.mark.parametrize("start", [-(2**63) + 1, 2**63 - 5_001])
def test_the_first_and_last_times(start: int) -> None:
    """Times less or plus the window do not fit into int64."""
    data = stream(5, 2_000, 0, False)
    data["ts"] = [start + int(one) for one in data["ts"]]
    assert same(f"PATTERN {QUERIES['join']} WITHIN 60ns", data, 6) > 0


@pytest.mark.parametrize("name", ["join", "two key words", "elements"])
def test_memory_that_runs_out(name: str) -> None:
    """The engine goes on after the batch, and what it found before and finds later is right."""
    query = fc.parse(f"PATTERN {QUERIES[name]} WITHIN 300ns", SCHEMA)
    data, failures = stream(11, 4_000, 0, False), 0
    for limit in (50_000, 60_000, 80_000):
        engine = fc.Engine(query, store="factorised", memory_limit=limit)
        expected = {str(row) for row in fc.Engine(query, store="rows").process(data).to_arrow().to_pylist()}
        for batch in batches(data, 12):
            try:
                matches = engine.process(batch)
            except fc.MemoryLimitError as error:
                matches, failures = error.matches, failures + 1
            assert {str(row) for row in matches.to_arrow().to_pylist()} <= expected
            assert engine.metrics()["memory_bytes"] <= limit
    assert failures > 0
