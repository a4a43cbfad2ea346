"""The overload control sleeps and wakes between any two events: matches stay the same, and state moves along."""

from __future__ import annotations

import random
from itertools import count, pairwise
from typing import Any

import numpy as np
import pytest
from support.shedding.query_kinds import EVENTS, QUERIES, fitted, query, rows

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.overload import control as control_module
from fastcep.overload import decision_schedule, sleep
from fastcep.shedding import Auto, Classes, FixedClasses

HOUR = {"latency_bound": "1h"}


def ticking(step: int = 1_000_000_000) -> Any:
    """A clock that advances at every look, by much more than a decision takes."""
    ticks = count(step=step)
    return lambda: next(ticks)


def made(queries: Any, shedder: Any = "rs", **options: Any) -> fc.Engine:
    own: dict[str, Any] = {"clock": ticking(), "store": "rows", **HOUR, **options}
    return fc.Engine(queries, shedder=shedder, **own)


def asleep(engine: fc.Engine) -> bool:
    return bool(engine.metrics()["shedding"]["asleep"])


def switch(engine: fc.Engine) -> None:
    engine._stream.switch(not asleep(engine))


@pytest.fixture
def restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A control that wakes or falls asleep at every decision, and decides often."""
    for name, value in (("_NEAR", -1.0), ("_FAR", 9.0), ("_IDLE", 9.0), ("_CALM", 1)):
        monkeypatch.setattr(sleep, name, value)
    monkeypatch.setattr(decision_schedule, "_LEAST", 1)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", QUERIES)
def test_the_plan_of_sleep_is_that_without_a_shedder(name: str) -> None:
    model = fitted(name)
    engine = made(query(name), "rs") if model is None else made(query(name), "hybrid", model=model)
    plain = fc.Engine(query(name), store="rows", shedder=None, **HOUR)
    (item,), (other,) = engine._stream.queries.running, plain._stream.queries.running
    assert asleep(engine) and not item.plan.weighed and not any(state.features for state in item.plan.states)
    assert item.plan.states == other.plan.states and item.plan.edges == other.plan.edges
    assert item.standby is not None and item.standby.plan.weighed
    switch(engine)
    assert item.plan.weighed and not item.standby.plan.weighed


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", QUERIES)
def test_between_two_batches_it_may_wake_or_fall_asleep(name: str) -> None:
    expected = expected_rows(name)
    model = fitted(name)
    spellings = ["rs", "ri", "auto"] + ["hybrid"] * (model is not None)
    for seed in range(3):
        draw = random.Random(seed)
        cuts = [0, *sorted(draw.sample(range(len(EVENTS)), 8)), len(EVENTS)]
        spelling = draw.choice(spellings)
        options = {"model": model} if spelling == "hybrid" else {}
        engine = made(query(name), spelling, **options)
        found: list[dict[str, Any]] = []
        for first, last in pairwise(cuts):
            if draw.random() < 0.6:
                switch(engine)
            slept = asleep(engine)
            if draw.random() < 0.4:
                engine = fc.Engine.restore(engine.snapshot(), shedder=spelling, clock=ticking(), **options)
                assert asleep(engine) is slept
            if draw.random() < 0.2:
                spelling = draw.choice(["rs", "auto", "ss"])
                options = {}
                engine.set_shedder(spelling)
                assert asleep(engine) is slept
            found += rows(engine.process(EVENTS.slice(first, last - first)))
        assert found + rows(engine.flush()) == expected


@pytest.mark.sample(3)
@pytest.mark.usefixtures("restless")
@pytest.mark.parametrize("name", QUERIES)
def test_within_a_batch_it_may_wake_or_fall_asleep(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, switched = made(query(name)), []
    of_engine = engine._stream.switch

    def record(asleep: bool) -> None:
        switched.append(asleep)
        of_engine(asleep)

    engine._stream.queries.control.sleep.switch = record  # type: ignore[union-attr]
    assert rows(engine.process(EVENTS.slice(0, 900)), engine.process(EVENTS.slice(900)), engine.flush()) == (
        expected_rows(name)
    )
    assert len(switched) > 4 and switched[:2] == [False, True]


def expected_rows(name: str) -> list[dict[str, Any]]:
    plain = fc.Engine(query(name), store="rows")
    expected = rows(plain.process(EVENTS), plain.flush())
    assert expected
    return expected


@pytest.mark.usefixtures("restless")
def test_partial_matches_that_time_out_are_reported_once() -> None:
    text = "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN 300us"
    timed = fc.parse(text, query("chain").schema, name="timed")
    plain, engine = fc.Engine(timed, store="rows", timed_out=True), made(timed, timed_out=True)
    for each in (plain, engine):
        each.process(EVENTS)
        each.flush()
    expected = plain.timed_out().to_pylist()
    assert len(expected) > 100 and engine.timed_out().to_pylist() == expected


@pytest.mark.thorough
@pytest.mark.usefixtures("restless")
def test_several_queries_come_and_go() -> None:
    names = ["chain", "negated", "windows"]
    engine, plain = made([query(name) for name in names]), fc.Engine([query(name) for name in names], store="rows")
    parts = EVENTS.to_batches(max_chunksize=500)
    for number, part in enumerate(parts):
        assert rows(engine.process(part).query("chain")) == rows(plain.process(part).query("chain"))
        for each in (engine, plain):
            if number == 1:
                each.add(query("counted"))
            if number == 2:
                each.replace("negated", query("branches"))
            if number == 3:
                each.remove("windows")
    assert rows(engine.flush().query("chain")) == rows(plain.flush().query("chain"))


# ---------------------------------------------------------------------- load


def test_the_decision_that_wakes_also_sheds(monkeypatch: pytest.MonkeyPatch) -> None:
    """First the events arrive slowly; then 1,500 have already waited for longer than the bound."""
    monkeypatch.setattr(control_module, "perf_counter_ns", lambda: 0)  # a slow machine decides more rarely
    engine = made(query("chain"), "ri", clock=(clock := ticking(100_000)), latency_bound="10ms")
    control: Any = engine._stream.queries.control
    switched: list[tuple[int, bool]] = []
    of_engine = control.sleep.switch
    control.sleep.switch = lambda asleep: (switched.append((control._decisions, asleep)), of_engine(asleep))
    for first in range(0, 1_000, 10):
        engine.process(EVENTS.slice(first, 10), arrivals=np.full(10, clock()))
        clock_to(clock, clock() + 3_000_000)
    assert asleep(engine) and control._meter._offered.service > 0 and not switched
    before = control._decisions
    engine.process(EVENTS.slice(1_000), arrivals=np.full(len(EVENTS) - 1_000, clock() - 12_000_000))
    metrics = engine.metrics()["shedding"]
    assert switched == [(before, False)] and metrics["episodes"] == 1
    assert metrics["dropped_events"] > 300  # the decision came soon


def clock_to(clock: Any, time: int) -> None:
    while clock() < time:
        pass


def test_counts_by_type_go_on() -> None:
    engine = made(query("chain"), "ri")
    engine.process(EVENTS)
    (shed,) = engine._stream.queries.control.queries  # type: ignore[union-attr]
    before, size = shed.shedding.counted(), shed.window_size
    assert before["seen"].sum() > 0
    switch(engine)
    (shed,) = engine._stream.queries.control.queries  # type: ignore[union-attr]
    after = shed.shedding.counted()
    assert all((after[name] == before[name]).all() for name in ("seen", "tried", "yielded"))
    assert shed.window_size == size != 1024.0


def test_existing_partial_matches_get_the_class_for_unknown_values() -> None:
    model = fitted("chain")
    engine = made(query("chain"), "hybrid", model=model)
    engine.process(EVENTS.slice(0, 500))
    assert set(engine.partial_matches()["class"].to_pylist()) == {0}
    assert engine.partial_matches()["utility"].null_count == engine.partial_matches().num_rows > 0
    switch(engine)
    control: Any = engine._stream.queries.control
    (item,) = engine._stream.queries.running
    unknown = set(control.unknown_classes(item.plan))
    assert set(engine.partial_matches()["class"].to_pylist()) <= unknown
    assert engine.partial_matches()["utility"].null_count == 0


def test_kernels_are_ready_when_it_wakes(kernels: None) -> None:
    engine = made(query("chain"), "hybrid", model=fitted("chain"))
    assert engine.compile("5min")
    engine.process(EVENTS.slice(0, 500))
    switch(engine)
    found = engine.metrics()["kernels"]
    assert found["generated"] == found["total"] > 0


# ---------------------------------------------------------------------- models


def test_a_new_model_waits_until_the_control_wakes() -> None:
    auto = Auto()
    engine = made(query("chain"), auto)
    engine.process(EVENTS.slice(0, 500))
    model = fitted("chain")
    assert model is not None and auto.take_models({"chain": model})
    (item,) = engine._stream.queries.running
    plan = item.plan
    engine._stream.replan()
    assert asleep(engine) and item.plan is plan
    restored = fc.Engine.restore(engine.snapshot(), clock=ticking())
    for each in (engine, restored):
        (item,) = each._stream.queries.running
        assert not any(state.features for state in item.plan.states)
        switch(each)
        assert any(state.features for state in item.plan.states)


@pytest.mark.thorough
@pytest.mark.parametrize("name", ["windows", "chain"])
def test_a_new_model_within_a_batch_keeps_windows_and_key_groups(name: str) -> None:
    """The renewal comes after 1,000 of 2,500 events."""
    plain = fc.Engine(query(name), store="rows")
    engine = fc.Engine(query(name), shedder=Auto(history=1_000), clock="virtual", store="rows", **HOUR)
    if name == "chain":
        plain.extract(range(0, 64, 2))
        engine.extract(range(0, 64, 2))
    expected = rows(plain.process(EVENTS), plain.flush())
    engine._stream.queries.control.renewal._shedder.renew = lambda: True  # type: ignore[union-attr,method-assign]
    assert rows(engine.process(EVENTS), engine.flush()) == expected != []


# ---------------------------------------------------------------------- state


def test_a_snapshot_may_be_restored_with_less_memory() -> None:
    engine = made(query("chain"))
    expected = rows(made(query("chain")).process(EVENTS))
    found = rows(engine.process(EVENTS.slice(0, 800)))
    restored = fc.Engine.restore(engine.snapshot(), shedder="rs", memory_limit="64MiB", clock=ticking())
    assert asleep(engine) and not asleep(restored)
    assert found + rows(restored.process(EVENTS.slice(800))) == expected


def test_snapshots_of_earlier_versions_are_of_a_control_that_is_awake() -> None:
    engine = made(query("chain"))
    switch(engine)
    engine.process(EVENTS.slice(0, 800))
    control: Any = engine._stream.queries.control
    state = control.state()
    control.state = lambda: {key: value for key, value in state.items() if key != "sleep"}
    assert not asleep(fc.Engine.restore(engine.snapshot(), shedder="rs", clock=ticking()))


def test_key_groups_move_between_controls_that_slept() -> None:
    """Engines that exchange key groups are awake; a snapshot of some groups wakes the engine too."""
    expected = sorted(map(repr, rows(made(query("chain")).process(EVENTS))))
    engine = made(query("chain"))
    found = rows(engine.process(EVENTS.slice(0, 800)))
    engine.snapshot(range(3))
    assert not asleep(engine)
    switch(engine)
    other = fc.Engine.restore(engine.extract(range(0, 64, 3)), shedder="ss", clock=ticking())
    assert not asleep(engine) and not asleep(other)
    for each in (engine, other):
        found += rows(each.process(EVENTS.slice(800, 700)))
    engine.merge(other.snapshot())
    found += rows(engine.process(EVENTS.slice(1_500)))
    assert sorted(map(repr, found)) == expected


def test_a_shedder_that_comes_later_sleeps() -> None:
    engine = made(query("chain"), None)
    engine.process(EVENTS.slice(0, 500))
    assert not asleep(engine)
    engine.set_shedder("rs")
    assert asleep(engine)
    engine.set_shedder(None)
    assert not asleep(engine)


def test_a_shedder_of_events_sleeps_beside_factorised_rows() -> None:
    single = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 1ms", query("chain").schema, name="pair")
    engine, plain = made(single, "ri", store="factorised"), fc.Engine(single, store="factorised")
    for part in ds1(events=4_000, seed=3).to_batches(max_chunksize=700):
        assert rows(engine.process(part)) == rows(plain.process(part))
        switch(engine)
        assert engine.metrics()["queries"]["pair"]["store"] == "factorised"


def test_matches_that_wait_keep_the_plan_that_is_ready() -> None:
    """The classes need a value of the waiting matches that a plan for sleep would not keep."""
    text = "PATTERN SEQ(A a, B+ b[], NEG C c) WHERE [ID] AND b[i+1].V > b[i].V WITHIN 1ms"
    waiting = fc.parse(text, query("chain").schema, name="waiting")
    classes = {"b": Classes(("a.V",), (0,), np.zeros(200, np.uint8), other=1)}
    engine = made(waiting, FixedClasses(classes, {"b": [0.0, 0.0]}))
    plain = fc.Engine(waiting, store="rows")
    (item,) = engine._stream.queries.running
    assert asleep(engine) and item.plan.weighed
    for part in EVENTS.to_batches(max_chunksize=100):
        assert rows(engine.process(part)) == rows(plain.process(part))
        switch(engine)
    assert rows(engine.flush()) == rows(plain.flush())
