"""Structures that grow with the stream grow far enough, and shrink again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from support.letters import SCHEMA, bindings, engine, events

import fastcep as fc


@pytest.mark.thorough
def test_output_grows_inside_one_event() -> None:
    """65,535 matches at one event, in the defined order: compared from the last event backwards, shorter ones first."""
    found = engine("PATTERN SEQ(A+ a[], B b) WITHIN 1s").process(events("A" * 16 + "B")).to_arrow()
    subsets = [s for size in range(1, 17) for s in itertools.combinations(range(16), size)]
    subsets.sort(key=lambda s: s[::-1])
    assert found["a"].to_pylist() == [list(s) for s in subsets]
    assert set(found["b"].to_pylist()) == {16}


@pytest.mark.thorough
def test_output_grows_at_a_closing_kleene() -> None:
    one = engine("PATTERN SEQ(A a, B+ b[]) WITHIN 1s")
    found = one.process(events("A" + "B" * 16)).to_arrow()
    subsets = [s for size in range(1, 17) for s in itertools.combinations(range(1, 17), size)]
    subsets.sort(key=lambda s: (s[-1], s[::-1]))
    assert found["b"].to_pylist() == [list(s) for s in subsets]
    assert one.metrics()["matches"] == 2**16 - 1


def test_deep_buckets_and_many_starts() -> None:
    """One bucket of thousands of rows, read through a residual predicate; more starts than the ring first holds."""
    n = 3_000
    values = np.random.default_rng(1).integers(0, 1_000, n + 3)
    one = engine("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V < b.V WITHIN 1s")
    found = one.process(events("A" * n + "BBB", V=values))
    expected = [{"a": int(a), "b": b} for b in range(n, n + 3) for a in np.flatnonzero(values[:n] < values[b])]
    assert bindings(found) == expected
    assert one.metrics()["live_partial_matches"] == one.metrics()["peak_partial_matches"] == n


def test_starts_wrap_around() -> None:
    """Starts come and go many times the ring's size; each B meets exactly the As of its window."""
    kinds = "".join(np.random.default_rng(2).choice(["A", "B"], 5_000, p=[0.9, 0.1]))
    found = bindings(engine("PATTERN SEQ(A a, B b) WITHIN 99ns").process(events(kinds)))
    expected = [
        {"a": a, "b": b} for b, kind in enumerate(kinds) if kind == "B" for a in range(max(0, b - 99), b)
        if kinds[a] == "A"
    ]  # fmt: skip
    assert found == expected


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("PATTERN SEQ(A a, B b, C c) WHERE a.V + b.V = c.V WITHIN 1s", "AB" * 350),
        ("PATTERN SEQ(A+ a[], C c) WHERE a[i+1].V = a[i].V + 1 WITHIN 1s", "A" * 400),
    ],
    ids=["single", "kleene"],
)
def test_memory_comes_back(text: str, kinds: str) -> None:
    one = engine(text)
    one.process(events(kinds, V=np.arange(len(kinds))))
    full = one.metrics()
    assert full["live_partial_matches"] > 50_000
    one.advance(10**10)
    quiet = one.metrics()
    assert (quiet["live_partial_matches"], quiet["stored_rows"], quiet["keys"]) == (0, 0, 0)
    assert quiet["memory_bytes"] < full["memory_bytes"] / 10
    assert quiet["memory_bytes"] < 1 << 20


@pytest.mark.parametrize("store", ["auto", "rows", "factorised"])
def test_memory_stays_flat_on_a_long_stream(store: str) -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 500ns"
    one = fc.Engine(fc.parse(text, SCHEMA), store=store)
    draw = np.random.default_rng(3)
    sizes = []
    for number in range(120):
        n = 5_000
        kinds = draw.choice(["A", "B", "C"], n)
        data = {"type": kinds, "ID": draw.integers(0, 10**9, n) % 7 + number * 100, "V": draw.integers(0, 9, n),
                "ts": np.arange(n) + number * n}  # fmt: skip
        one.process(data)
        sizes.append(one.metrics()["memory_bytes"])
    assert max(sizes[60:]) <= max(sizes[:60]) * 1.25  # a sweep comes up to a batch later


def test_large_buffers_are_given_back_when_the_stream_is_quiet() -> None:
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WITHIN 1h", SCHEMA))
    before = engine.metrics()["memory_bytes"]
    n = 200_000
    engine.process({"type": ["A"] * n, "ID": np.zeros(n, np.int64), "V": np.zeros(n, np.int64), "ts": np.arange(n)})
    assert engine.metrics()["memory_bytes"] > 10 * before
    engine.advance(10**15)
    assert engine.metrics()["memory_bytes"] < 1.2 * before
