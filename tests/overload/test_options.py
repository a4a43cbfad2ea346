"""Invalid overload options and their error messages."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from support.shedding import shed_runs

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.errors import ModelError, SnapshotError, ValidationError
from fastcep.overload.costs import CostTable
from fastcep.shedding import (
    Classes,
    FixedClasses,
    MemoryUse,
    PredictedLatency,
    QueueLength,
    RandomEvents,
    RandomMatches,
    SmoothedLatency,
)

SCHEMA = fc.Schema({name: {"ID": "int64", "V": "int64"} for name in "ABC"}, time="ts", type="type", time_unit="us")
TEXT = "PATTERN SEQ(A a, B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID AND a.V + b.V = c.V WITHIN 8ms"
QUERY = fc.parse(TEXT, SCHEMA, name="q1")
EVENTS = {"type": ["A", "B"], "ts": [0, 1], "ID": [1, 1], "V": [1, 2]}
PAIRS = {"b": Classes(("a.V + b.V",), (2,), np.array([0, 1], np.uint8))}


def engine(**options: Any) -> fc.Engine:
    return fc.Engine(QUERY, **({"clock": "virtual", "cost_table": "paper", "latency_bound": "1us"} | options))


def refused(message: str, **options: Any) -> None:
    with pytest.raises(ValidationError, match=message):
        engine(**options)


# --------------------------------------------------------------- options


@pytest.mark.parametrize("bound", [0, -1, -0.5, "0s", float("inf"), float("nan"), timedelta(0), timedelta(seconds=-1)])
def test_a_bound_must_be_above_zero(bound: Any) -> None:
    refused("latency_bound", latency_bound=bound)


@pytest.mark.parametrize("bound", [True, False, "soon", "-1ms", "", [1], b"1ms", {}])
def test_a_bound_must_be_a_duration(bound: Any) -> None:
    refused("latency_bound", latency_bound=bound)


@pytest.mark.parametrize(
    ("bound", "nanoseconds"), [("1us", 1e3), (timedelta(microseconds=2), 2e3), (7, 7.0), (2.5, 2.5)]
)
def test_what_a_bound_may_be(bound: Any, nanoseconds: float) -> None:
    assert engine(latency_bound=bound).metrics()["shedding"]["latency_bound"] == nanoseconds


def test_no_bound_can_be_below_the_cost_of_an_event_that_is_dropped() -> None:
    """Events of types that no variable names cost as much, so a mean can be near it."""
    refused("below the cost of a dropped event", latency_bound=1, cost_table="measured")
    engine(latency_bound=CostTable.named("measured").event, cost_table="measured")
    own = CostTable("own", event=3.5, relevant=4)
    refused("3.5 ns by the cost table 'own': no shedding can hold it", latency_bound=3.4, cost_table=own)


def test_a_shedder_needs_something_to_hold() -> None:
    refused("shedder='rs' has nothing to hold", latency_bound=None, shedder=RandomMatches())
    refused("shedder='rs' has nothing to hold", latency_bound=None, shedder=RandomMatches(), memory_limit="64MiB")


@pytest.mark.parametrize("detector", [QueueLength(), [QueueLength(), MemoryUse()]])
def test_a_detector_needs_a_shedder(detector: Any) -> None:
    refused("a detector without a shedder does nothing", detector=detector, shedder=None)
    refused("a detector without a shedder does nothing", detector=detector, clock="wall", latency_bound=None)


@pytest.mark.parametrize("shedder", [RandomMatches, 5, object()])
def test_what_is_no_shedder(shedder: Any) -> None:
    refused("expected a shedder, such as", shedder=shedder)


@pytest.mark.parametrize("spelling", ["ri", "si", "rs", "ss", "pm-bl", "e-bl", "bl", "auto"])
def test_a_shedder_may_be_spelled(spelling: str) -> None:
    assert engine(shedder=spelling).metrics()["shedding"]["shedder"] == spelling


@pytest.mark.parametrize("spelling", ["hybrid", "hyi", "hys"])
def test_a_spelled_shedder_takes_a_model(spelling: str, tmp_path: Any) -> None:
    history = ds1(events=4000, seed=1)
    model = fc.fit(QUERY, history.filter(pc.not_equal(history["type"], "D")))
    model.save(tmp_path / "q1.model")
    for given in (model, tmp_path / "q1.model", str(tmp_path / "q1.model"), [model]):
        assert engine(shedder=spelling, model=given).metrics()["shedding"]["shedder"] == spelling
    refused(rf"shedder '{spelling}' needs model; fit a model with fastcep.fit\(\)", shedder=spelling)
    with pytest.raises(ModelError, match="does not exist"):
        engine(shedder=spelling, model=tmp_path / "other")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shedder": "rss!"}, "unknown shedder 'rss!'; did you mean"),
        ({"shedder": "zzzz"}, "unknown shedder 'zzzz'; there is 'ri', .*'pspice', 'pspice--', 'espice', 'auto'$"),
        ({"shedder": "rs", "model": "m"}, "model='m': shedder 'rs' takes no model; leave it out"),
        ({"shedder": RandomMatches(), "model": "m"}, "model='m' needs the name of a shedder"),
        ({"shedder": None, "model": "m"}, "model='m' needs the name of a shedder"),
        ({"shedder": "none", "model": "m"}, "model='m' is not used, because nothing is shed: give shedder='hybrid'"),
        ({"latency_bound": None, "model": "m"}, "model='m' is not used, because nothing is shed: give latency_bound"),
    ],
)
def test_wrong_spellings_and_models(options: dict[str, Any], message: str) -> None:
    refused(message, **options)


@pytest.mark.parametrize("detector", ["latency", SmoothedLatency, (), [], 5, [QueueLength(), "latency"]])
def test_what_is_no_detector(detector: Any) -> None:
    refused("expected a detector, such as", shedder=RandomMatches(), detector=detector)


def test_a_detector_needs_its_limit() -> None:
    """Otherwise it would fail in the middle of a batch."""
    for options in ({}, {"memory_limit": "64MiB"}):
        refused("detector 'memory' has no limit", shedder=RandomMatches(), detector=MemoryUse(), **options)
    shed = {"shedder": RandomMatches(), "memory_limit": "64MiB", "on_memory_limit": "shed", "latency_bound": None}
    for detector in (SmoothedLatency(), PredictedLatency(), QueueLength()):
        refused(f"detector '{detector.name}' has no bound", detector=[MemoryUse(), detector], **shed)
    live = engine(detector=[MemoryUse(), SmoothedLatency()], **shed | {"latency_bound": "1us"})
    assert live.metrics()["shedding"]["detectors"] == ["memory", "latency"]


def test_shedding_for_memory_needs_limit_and_shedder() -> None:
    refused("needs memory_limit", on_memory_limit="shed", shedder=RandomMatches())
    for bound in (None, "1us"):
        refused("needs a shedder", on_memory_limit="shed", memory_limit="64MiB", latency_bound=bound, shedder=None)
    refused("expected 'raise' or 'shed'", on_memory_limit="drop", memory_limit="64MiB", shedder=RandomMatches())


@pytest.mark.parametrize("options", [{}, {"shedder": RandomMatches()}, {"latency_bound": None}])
def test_there_is_one_thread(options: dict[str, Any]) -> None:
    refused("threads=2: measuring latencies", threads=2, **options)


@pytest.mark.parametrize("clock", ["sundial", "", "Virtual", 5, None])
@pytest.mark.parametrize("bound", [None, "1us"])
def test_an_unknown_clock(clock: Any, bound: str | None) -> None:
    refused("expected 'wall' or 'virtual', or a function", clock=clock, latency_bound=bound)


@pytest.mark.parametrize("table", ["papr", 5, None, "/"])
@pytest.mark.parametrize("options", [{}, {"clock": "wall", "latency_bound": None}])
def test_an_unknown_cost_table(table: Any, options: dict[str, Any]) -> None:
    refused("cost table", cost_table=table, **options)


# --------------------------------------------------------------- arrivals


@pytest.mark.parametrize(
    ("arrivals", "message"),
    [
        ([0], r"expected 2 times, integers of ns, one per event, found int64 of \(1,\)"),
        ([0, 1, 2], "expected 2 times"),
        ([[0, 1]], "expected 2 times"),
        (0, "expected 2 times"),
        ([0.0, 1.0], "found float64"),
        (["0", "1"], "expected 2 times"),
        ([False, True], "found bool"),
        ([1, 0], "event 1 of the batch arrived before the one before it"),
        ([-1, 0], "found -1, expected ns on the engine's clock"),
        (np.array([0, 2**64 - 1], np.uint64), "found 18446744073709551615"),
        ([0, 1_700_000_000_000_000_000], "expected at most 9223372036854775 on the engine's clock"),
    ],
)
def test_wrong_arrivals_are_refused_before_anything_is_taken(arrivals: Any, message: str) -> None:
    live = engine()
    with pytest.raises(ValidationError, match=message):
        live.process(EVENTS, arrivals=arrivals)
    assert live.metrics()["events"] == 0
    live.process(EVENTS, arrivals=np.array([0, 1], np.uint32))
    assert live.metrics()["events"] == live.metrics()["live_partial_matches"] == 2


def test_on_the_wall_clock_nothing_arrives_later() -> None:
    live = engine(clock=lambda: 100)
    with pytest.raises(ValidationError, match="found 101, expected at most 100 on the engine's clock"):
        live.process(EVENTS, arrivals=[0, 101])
    assert live.metrics()["events"] == 0
    live.process(EVENTS, arrivals=[40, 100])
    assert live.metrics()["shedding"]["event_latency"]["max"] == 60


def test_arrivals_are_for_latencies() -> None:
    with pytest.raises(ValidationError, match=r"arrivals are for latencies: Engine\(…, latency_bound='…'\)"):
        fc.Engine(QUERY).process(EVENTS, arrivals=[0, 1])


def test_arrivals_do_not_go_with_lateness() -> None:
    live = engine(allowed_lateness="1ms")
    with pytest.raises(ValidationError, match="arrivals do not go with allowed_lateness"):
        live.process(EVENTS, arrivals=[0, 1])
    live.process(EVENTS)
    assert live.metrics()["held_events"] == 2
    live.flush()
    assert live.metrics()["shedding"]["event_latency"]["count"] == 2


@pytest.mark.parametrize("call", [fc.Engine.now, lambda live: live.listen(print)])
def test_without_latencies_there_is_no_clock(call: Callable[[fc.Engine], Any]) -> None:
    with pytest.raises(ValidationError, match="for latencies"):
        call(fc.Engine(QUERY))


# --------------------------------------------------------------- queries, stores


def test_partial_matches_are_shed_from_rows() -> None:
    with pytest.raises(ValidationError, match="cannot have store='factorised': partial matches are shed"):
        engine(store="factorised", shedder=RandomMatches())
    assert engine(store="factorised", shedder=RandomEvents()).metrics()["queries"]["q1"]["store"] == "factorised"


def test_a_model_of_another_query_or_schema() -> None:
    shedder = FixedClasses(PAIRS, {"b": [0, 1]}, query=QUERY)
    options = {"latency_bound": 100, "cost_table": "paper", "shedder": shedder}
    live = fc.Engine(QUERY, **options)
    other = fc.parse(TEXT.replace("8ms", "9ms"), SCHEMA, name="q2")
    wider = fc.Schema(
        {name: {"ID": "int64", "V": "int64", "W": "bool"} for name in "ABC"}, time="ts", type="type", time_unit="us"
    )
    with pytest.raises(ModelError, match="is for query 'q1', not for 'q2'"):
        fc.Engine(other, **options)
    with pytest.raises(ModelError, match="schema differs"):
        fc.Engine(fc.parse(TEXT, wider, name="q1"), **options)
    for change in (live.add, lambda query: live.replace("q1", query)):
        with pytest.raises(ModelError, match="is for query 'q1', not for 'q2'"):
            change(other)
    assert list(live.metrics()["queries"]) == ["q1"]
    live.process(EVENTS)
    assert live.metrics()["live_partial_matches"] == 2


@pytest.mark.parametrize(
    ("table", "low", "message"),
    [(np.zeros(0, np.uint8), 0, "is empty"), (np.zeros(2, np.uint8), 2**63, "expected int64")],
)
def test_tables_that_the_matcher_cannot_hold(table: Any, low: int, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        FixedClasses({"b": Classes(("a.V",), (low,), table)}, {"b": [0.5]})


# --------------------------------------------------------------- snapshots


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"shedder": RandomMatches(seed=1)},
        {"shedder": RandomEvents()},
        {"shedder": RandomMatches(), "detector": SmoothedLatency(set_point=0.5)},
    ],
)
def test_a_snapshot_goes_on_with_the_same_shedder(other: dict[str, Any]) -> None:
    live = engine(shedder=RandomMatches())
    live.process(EVENTS)
    with pytest.raises(SnapshotError, match="the original shedder=… and detector=…"):
        fc.Engine.restore(live.snapshot(), **other)
    again = fc.Engine.restore(live.snapshot(), shedder=RandomMatches())
    assert again.metrics()["shedding"] == live.metrics()["shedding"]


@pytest.mark.parametrize("options", [{}, {"clock": "wall", "latency_bound": None}])
def test_no_shedder_may_be_added_to_a_snapshot(options: dict[str, Any]) -> None:
    with pytest.raises(SnapshotError, match="shedder"):
        fc.Engine.restore(engine(**options).snapshot(), shedder=RandomMatches())


def test_a_snapshot_that_sheds_for_memory_needs_its_shedder() -> None:
    live = engine(latency_bound=None, shedder=RandomMatches(), memory_limit="64MiB", on_memory_limit="shed")
    with pytest.raises(SnapshotError, match="needs a shedder"):
        fc.Engine.restore(live.snapshot())
    fc.Engine.restore(live.snapshot(), shedder=RandomMatches())


@pytest.mark.parametrize(("clock", "other"), [("wall", "virtual"), ("virtual", "wall"), ("virtual", lambda: 0)])
def test_a_snapshot_keeps_its_kind_of_clock(clock: str, other: Any) -> None:
    with pytest.raises(SnapshotError, match=f"of an engine with clock='{clock}'"):
        fc.Engine.restore(engine(clock=clock).snapshot(), clock=other)


def test_the_wall_clock_of_a_snapshot_may_be_a_function() -> None:
    assert fc.Engine.restore(engine(clock="wall").snapshot(), clock=lambda: 5).now() == 5


def test_key_groups_go_to_an_engine_that_sheds() -> None:
    """Key groups do not include shedder and detectors; the new engine starts with its own."""
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 1s", shed_runs.SCHEMA, name="pair")
    shedders = [fc.shedding.by_name(name) for name in ("rs", "ri")]
    engine = shed_runs.engine(query, shedders[0])
    engine.process({"type": ["A", "A"], "ts": [0, 1], "ID": [1, 2], "V": [0, 0]})
    part = engine.extract(range(64))
    restored = fc.Engine.restore(part, shedder=shedders[1])
    found = restored.process({"type": ["B", "B"], "ts": [2, 3], "ID": [1, 2], "V": [0, 0]})
    assert shed_runs.found(found) == [(None, 0, 2), (None, 1, 3)]
    with pytest.raises(SnapshotError, match=r"'ri'.* the original shedder"):
        fc.Engine.restore(restored.snapshot(), shedder=shedders[0])
