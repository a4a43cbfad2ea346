"""Adaptation of a flow: it changes when the stream does, and not by chance."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from support.shedding.chaos import Always
from support.shedding.drop_plans import controlled, made
from support.shedding.fitted import model
from support.shedding.flows import PAPER, expected, shedder
from support.shedding.shed_runs import Q1, query

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.shedding import DetectorReading, DropPlan, Hybrid, Load
from fastcep.shedding.hybrid.adaptation import AdaptedFlow
from fastcep.shedding.hybrid.drop_order import DropOrder, TableSizes
from fastcep.shedding.hybrid.flow import Flow

WINDOW, STEP = 800, 200  # number of events in a window, and in a slice


LONG = Q1.replace("2ms", "8ms")


def q1() -> fc.Query:
    return query(LONG)


@cache
def flow() -> Flow:
    return expected(q1(), ds1(events=40_000, seed=21), 4)


def engine(demand: float = 0.0, binds: float = 0.0, births: float = 0.0) -> tuple[fc.Engine, Any, Any]:
    """One that drops what the flow says, but 2 % of it, or some of everything, and counts; and the chances.

    Its windows are full of partial matches that were thinned out, as they are where a shedder begins to learn.
    """
    live = made(q1(), shedder(q1(), 4), index="key")
    shedding = controlled(live).shedding
    tables = np.full((3, shedding.event_stride), binds), np.full((3, shedding.stride, 4), births)
    if demand > 0:
        sizes = TableSizes(shedding.event_stride, shedding.stride)
        chosen = DropOrder(flow().steps(PAPER), flow()).choose(demand, sizes)
        tables = 0.98 * chosen.binds, 0.98 * chosen.cells
    controlled(live).apply(DropPlan(binds=tables[0], births=tables[1], counts=1.0), 0)
    live.process(BEFORE)
    shedding.flows()
    return live, *tables


BEFORE = ds1(events=2 * WINDOW, seed=30)


def later(events: pa.Table) -> pa.Table:
    """Return a stream that follows the events of an engine."""
    times = pa.array(events["ts"].to_numpy() + BEFORE["ts"][-1].as_py() + 10)
    return events.set_column(events.column_names.index("ts"), "ts", times)


def follow(adapted: AdaptedFlow, events: pa.Table, *run: Any) -> list[int]:
    """Learn from a stream slice by slice; return the events after which the flow changed."""
    live, binds, cells = run or engine()
    events, changed = later(events), []
    for at in range(0, len(events), STEP):
        live.process(events.slice(at, STEP))
        if adapted.learn(controlled(live).shedding.flows(), STEP, WINDOW, binds, cells):
            changed.append(at)
    return changed


def worth(flow: Flow) -> Any:
    """Return the number of matches per partial match of the second state, by sum a.V + b.V."""
    lost, *_ = flow.cascade(PAPER).weights()
    return lost[flow.stride : flow.stride + 19, 0]


@pytest.mark.sample("50000-chances2")
@pytest.mark.parametrize(
    ("events", "chances"),
    [(100_000, {"demand": 0.3}), (100_000, {"demand": 0.7}), (50_000, {}), (50_000, {"binds": 0.3, "births": 0.5})],
)  # fmt: skip
def test_a_stream_that_stays_as_it_is(events: int, chances: Any) -> None:
    """The flow does not change in 500 windows, for any drop plan."""
    adapted = AdaptedFlow(flow())
    assert follow(adapted, ds1(events=events, seed=31), *engine(**chances)) == []
    assert (adapted.changes, adapted.lost) == (0, 0) and 0 < adapted.drift < 0.5
    assert adapted.flow is flow()


@pytest.mark.parametrize("demand", [0.3, 0.6])
def test_when_other_events_come(demand: float) -> None:
    """C.V from 11 to 20: the change is detected within four windows, and useless classes soon become useful."""
    adapted, run = AdaptedFlow(flow()), engine(demand)
    calm = ds1(events=8_000, seed=32)
    assert follow(adapted, calm, *run) == [] and worth(adapted.flow)[9:].sum() == 0 < worth(adapted.flow)[:9].min()
    other = ds1(events=12_000, seed=33, c_values=(11, 20))
    late = pa.array(other["ts"].to_numpy() + calm["ts"][-1].as_py() + 10)
    other = other.set_column(other.column_names.index("ts"), "ts", late)
    changed = follow(adapted, other, *run)
    print(changed[:3], worth(adapted.flow))
    assert changed[0] <= 4 * WINDOW and adapted.changes == len(changed)
    found = worth(adapted.flow)
    assert found[9:].sum() > 20 * found[:9].sum()
    truth = expected(q1(), other, 4)
    by = truth.events / adapted.flow.events
    assert by * adapted.flow.cascade(PAPER).matches == pytest.approx(truth.cascade(PAPER).matches, rel=0.25)
    assert by * adapted.flow.cascade(PAPER).cost == pytest.approx(truth.cascade(PAPER).cost, rel=0.25)


def test_when_twice_as_many_come() -> None:
    """All types as before at twice the rate: a partial match has twice the children."""
    table = ds1(events=8_000, seed=34)
    times = pa.array(table["ts"].to_numpy() // 2)
    adapted = AdaptedFlow(flow())
    changed = follow(adapted, table.set_column(table.column_names.index("ts"), "ts", times))
    assert changed and changed[0] <= 4 * WINDOW
    made_, was = (own.children["made"].to_numpy().sum() for own in (adapted.flow, flow()))
    assert made_ > 1.5 * was


def test_one_child_that_stands_for_very_many_stops_nothing() -> None:
    """Its weight in the comparison is small, and the other children still count."""
    live, binds, cells = engine(0.6)
    events = later(ds1(events=8_000, seed=37, c_values=(11, 20)))
    adapted, plain = AdaptedFlow(flow()), AdaptedFlow(flow())
    for at in range(0, len(events), STEP):
        live.process(events.slice(at, STEP))
        counted = controlled(live).shedding.flows()
        plain.learn(counted, STEP, WINDOW, binds, cells)
        keys, counts, squares, *rest = counted
        if at == 2 * STEP:
            heavy = np.zeros(len(keys))
            heavy[np.argmin(counts)] = 100 * counts.sum()
            counts, squares = counts + heavy, squares + heavy**2
        adapted.learn((keys, counts, squares, *rest), STEP, WINDOW, binds, cells)
    assert adapted.changes >= plain.changes > 5
    assert adapted.drift < plain.drift + 0.1


class Varies(Always):
    """Detector whose demand varies."""

    def __init__(self, amounts: Iterable[float]) -> None:
        super().__init__()
        self._amounts = iter(amounts)

    def read(self, load: Load) -> DetectorReading:
        return DetectorReading(0.0, amount=next(self._amounts), why="varies")


@pytest.mark.thorough
def test_a_demand_that_varies_is_no_change_of_the_stream() -> None:
    """The variance of the counts follows from the largest demand, not from the last one."""
    detector = Varies(itertools.cycle([0.97, 0.2]))
    live = fc.Engine(
        q1(), clock="virtual", latency_bound="1s", detector=detector, shedder=Hybrid(model(LONG)), index="key",
        cost_table="paper",
    )  # fmt: skip
    live.process(ds1(events=40_000, seed=31))
    metrics = live.metrics()["shedding"]["model"]["queries"]["q1"]
    print(metrics)
    assert metrics["changes"] == 0


def test_counts_while_events_are_dropped_as_a_whole_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor for a window afterwards, in which partial matches are left whose parents represent very many."""
    learned: list[int] = []
    demands = [0.999] * 30 + [0.5] * 400  # all but 0.1 % of the work cannot be saved without dropping events
    costs = replace(fc.CostTable.named("measured"), decision=0.0)
    own = fc.fit(q1(), ds1(events=8_000, seed=21), validate=False, index="key", cost_table=costs)
    live = fc.Engine(
        q1(), clock="virtual", latency_bound="1s", detector=Varies(demands), shedder=Hybrid(own), index="key",
        cost_table=costs,
    )  # fmt: skip
    monkeypatch.setattr(AdaptedFlow, "learn", lambda *_: learned.append(live.metrics()["events"]))
    until = None
    for batch in ds1(events=20_000, seed=31).to_batches(max_chunksize=20):
        live.process(batch)
        metrics = live.metrics()
        if metrics["shedding"]["demand"] == 0.5 and until is None:
            until = metrics["events"]
            assert metrics["shedding"]["dropped_events"] > 0 and not learned
    print(until, learned[:3])
    assert until is not None and learned and learned[0] >= until + WINDOW - 20


def test_few_events_that_stand_for_many_tell_little() -> None:
    """The children of one event in fifty are counted: counts differ much from the flow although nothing has changed."""
    live, binds, cells = engine()
    controlled(live).shedding.count_share(0.02)
    adapted, events = AdaptedFlow(flow()), later(ds1(events=20_000, seed=37))
    drifts = []
    for at in range(0, len(events), STEP):
        live.process(events.slice(at, STEP))
        assert not adapted.learn(controlled(live).shedding.flows(), STEP, WINDOW, binds, cells, 0.02)
        drifts.append(adapted.drift)
    assert max(drifts) > 0.2 and adapted.changes == 0


def test_it_is_on_the_alert_after_a_change() -> None:
    adapted = AdaptedFlow(flow())
    assert not adapted.recently_changed
    changed = follow(adapted, ds1(events=WINDOW, seed=37, c_values=(11, 20)), *engine(0.6))
    assert changed and adapted.recently_changed
    follow(adapted, ds1(events=12 * WINDOW, seed=38, c_values=(11, 20)), *engine(0.6))
    assert not adapted.recently_changed


def test_old_counts_fade() -> None:
    """After two of four slices of a window, older counts have half their weight."""
    live, binds, cells = engine()
    live.process(later(ds1(events=2 * STEP, seed=37)))
    counted = controlled(live).shedding.flows()
    adapted = AdaptedFlow(flow())
    nothing = (*(part[:0] for part in counted[:3]), 0.0, np.zeros_like(counted[4]))
    adapted.learn(counted, 2 * STEP, WINDOW, binds, cells)
    before = adapted.state()["recent"]
    adapted.learn(nothing, 2 * STEP, WINDOW, binds, cells)  # type: ignore[arg-type]
    after = adapted.state()["recent"]
    assert after[1] == pytest.approx(np.array(before[1]) / 2) and after[4] == pytest.approx(before[4] / 2 + 2 * STEP)


@pytest.mark.parametrize("c_values", [(1, 10), (11, 20)])
def test_state(c_values: tuple[int, int]) -> None:
    """A flow restored from JSON continues equally."""
    events = ds1(events=12_000, seed=36, c_values=c_values)
    one, again, run = AdaptedFlow(flow()), AdaptedFlow(flow()), engine(0.3)
    changed = follow(one, events.slice(0, 6_000), *run)
    assert bool(changed) is (c_values != (1, 10))
    again.restore(json.loads(json.dumps(one.state())))
    assert (again.drift, again.changes, again.lost) == (one.drift, one.changes, one.lost)
    assert again.flow.children.equals(one.flow.children) or not changed
    assert again.flow.steps(PAPER) == one.flow.steps(PAPER)
    live, binds, cells = run
    for at in range(6_000, 12_000, STEP):
        live.process(later(events).slice(at, STEP))
        counted = controlled(live).shedding.flows()
        one.learn(counted, STEP, WINDOW, binds, cells)
        again.learn(counted, STEP, WINDOW, binds, cells)
    assert again.state() == one.state()


def test_what_had_no_room_is_told() -> None:
    live, binds, cells = engine()
    shedding = controlled(live).shedding
    shedding.count_flows(4, 16)
    live.process(later(ds1(events=STEP * 4, seed=37)))
    counted = shedding.flows()
    adapted = AdaptedFlow(flow())
    adapted.learn(counted, STEP * 4, WINDOW, binds, cells)
    assert adapted.lost == counted[3] > 0


def test_few_counts_neither_fade_nor_tell_anything() -> None:
    """Fewer than a hundred children do not decay until there are more, however much they differ."""
    live, binds, cells = engine()
    adapted = AdaptedFlow(flow())
    events = later(ds1(events=40, seed=37))
    for at in (0, 20):
        live.process(events.slice(at, 20))
        keys, counts, *rest = controlled(live).shedding.flows()
        few = counts * 10 / counts.sum()
        assert not adapted.learn((keys, few, few, rest[1], rest[2]), 20, WINDOW, binds, cells)
    assert sum(adapted.state()["recent"][1]) == pytest.approx(20) and adapted.state()["recent"][4] == 40
