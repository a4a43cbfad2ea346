"""`Engine.set_shedder`: matches stay the same, and what does not fit is refused before anything has changed."""

from __future__ import annotations

import random
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from support.shedding.query_kinds import EVENTS, QUERIES, SCHEMA, fitted, query, rows

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.shedding import Classes, FixedClasses

PLENTY = {"clock": "virtual", "latency_bound": "1h"}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", QUERIES)
def test_without_overload_the_matches_are_the_same(name: str) -> None:
    """The shedder changes between any two batches, also right before a snapshot; the plans differ in what rows hold."""
    plain = fc.Engine(query(name), shedder=None, store="rows", **PLENTY)
    expected = rows(plain.process(EVENTS), plain.flush())
    assert expected
    model = fitted(name)
    spellings = ["rs", "ri", "none", "ss", "auto", "pm-bl"] + ["hyi", "hybrid", "hys"] * (model is not None)
    for seed in range(2):
        draw = random.Random(seed)
        cuts = [0, *sorted(draw.sample(range(len(EVENTS)), 6)), len(EVENTS)]
        engine = fc.Engine(query(name), shedder=draw.choice(["rs", "none", "ri"]), store="rows", **PLENTY)
        found: list[dict[str, Any]] = []
        for first, last in pairwise(cuts):
            spelling = draw.choice(spellings)
            options = {"model": model} if spelling.startswith("hy") else {}
            engine.set_shedder(spelling, **options)
            assert engine.metrics()["shedding"]["shedder"] == (None if spelling == "none" else spelling)
            if draw.random() < 0.4:
                engine = fc.Engine.restore(engine.snapshot(), shedder=spelling, **options)
            found += rows(engine.process(EVENTS.slice(first, last - first)))
        assert found + rows(engine.flush()) == expected


def test_several_queries_keep_their_matches() -> None:
    queries = [query("chain"), query("negated")]
    plain = fc.Engine(queries, shedder=None, store="rows", **PLENTY)
    expected = [plain.process(part).to_arrow() for part in EVENTS.to_batches(max_chunksize=500)]
    engine = fc.Engine(queries, shedder="rs", **PLENTY)
    for number, part in enumerate(EVENTS.to_batches(max_chunksize=500)):
        assert engine.process(part).to_arrow() == expected[number]
        engine.set_shedder(("ri", "ss", "none")[number % 3])


def test_load_is_shed_by_the_new_shedder_and_totals_go_on() -> None:
    model = fc.fit(query("chain"), ds1(events=20_000, seed=1, c_values=(2, 10)), cost_table="paper")
    events = ds1(events=40_000, seed=7, c_values=(2, 10))
    options: dict[str, Any] = {"clock": "virtual", "cost_table": "paper"}
    plain = fc.Engine(query("chain"), shedder=None, store="rows", latency_bound="1s", **options)
    truth = [len(plain.process(events.slice(first, 20_000))) for first in (0, 20_000)]
    bound = 0.5 * plain.metrics()["shedding"]["processing_latency"]["mean"]
    engine = fc.Engine(query("chain"), latency_bound=bound, shedder="rs", **options)
    first = len(engine.process(events.slice(0, 20_000)))
    before = engine.metrics()["shedding"]
    engine.set_shedder("hybrid", model=model)
    changed = engine.metrics()["shedding"]
    totals = ("dropped_events", "dropped_partial_matches", "decisions", "episodes")
    assert [changed[key] for key in totals] == [before[key] for key in totals]
    second = len(engine.process(events.slice(20_000)))
    after = engine.metrics()["shedding"]
    assert first / truth[0] < 0.6 < 0.75 < second / truth[1]
    assert after["dropped_partial_matches"] > before["dropped_partial_matches"]
    assert after["processing_latency"]["mean"] < 1.05 * bound
    assert after["estimated_recall"] == pytest.approx((first + second) / sum(truth), abs=0.1)
    engine.set_shedder(None)
    later = pa.compute.add(events["ts"], 10**9)
    now = len(engine.process(events.set_column(events.column_names.index("ts"), "ts", later)))
    assert now == sum(truth)


@pytest.mark.parametrize(
    ("options", "shedder", "message"),
    [
        ({"shedder": None}, "rs", r"set_shedder\(\) needs something to hold"),
        ({"latency_bound": "1h"}, "rsx", "unknown shedder 'rsx'; did you mean 'rs'"),
        ({"latency_bound": "1h"}, "hybrid", "shedder 'hybrid' needs model; fit a model"),
        ({"latency_bound": "1h"}, 5, "expected a shedder, such as"),
        ({"latency_bound": "1h", "store": "factorised"}, "rs", "create the Engine with store='rows'"),
        ({"memory_limit": "64MiB", "on_memory_limit": "shed"}, None, "needs a shedder"),
    ],
)
def test_what_is_refused_changes_nothing(options: dict[str, Any], shedder: Any, message: str) -> None:
    single = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 1ms", SCHEMA, name="pair")
    engine = fc.Engine(single, **options)
    before = engine.process(EVENTS.slice(0, 100)), engine.metrics()["shedding"]
    with pytest.raises(fc.ValidationError, match=message):
        engine.set_shedder(shedder)
    assert engine.metrics()["shedding"] == before[1]
    plain = fc.Engine(single)
    plain.process(EVENTS.slice(0, 100))
    assert rows(engine.process(EVENTS.slice(100, 500))) == rows(plain.process(EVENTS.slice(100, 500)))


def test_windows_that_differ_are_refused_only_with_state() -> None:
    engine = fc.Engine(query("windows"), shedder="ri", **PLENTY)
    engine.set_shedder("bl")
    engine.process(EVENTS.slice(0, 100))
    with pytest.raises(fc.ValidationError, match=r"needs shared windows, and the engine has .* in isolated"):
        engine.set_shedder("ri")
    assert engine.metrics()["shedding"]["shedder"] == "bl"


def test_a_model_for_another_query_is_refused() -> None:
    engine = fc.Engine(query("chain"), **PLENTY)
    model = fc.fit(query("negated"), ds1(events=5000, seed=3))
    with pytest.raises(fc.ModelError, match="has a model for 'negated', none for 'chain'"):
        engine.set_shedder("hybrid", model=model)
    assert engine.metrics()["shedding"]["shedder"] == "auto"


def test_existing_partial_matches_get_the_class_for_unknown_values() -> None:
    """Class 1 is always refused, and stands for unknown values: the live partial matches are of this class."""
    import numpy as np

    classes = {"a": Classes(("a.V",), (0,), np.zeros(200, np.uint8), other=1)}
    shedder = FixedClasses(classes, {"a": [0.0, 1.0]})
    engine = fc.Engine(query("chain"), shedder="rs", **PLENTY)
    engine.process(EVENTS.slice(0, 500))
    engine.set_shedder(shedder)
    live = engine._stream.queries.control.queries[0].shedding.count_rows(1)
    assert live[:, 1].sum() > 0 == live[0, 0].sum()
