"""Counts of children by source, compared with the lineage record or with their expectation."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from reference.attribution import is_output_ordered, times_of
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.shedding.drop_plans import Quiet, controlled, made
from support.shedding.flows import KLEENE, PAPER, expected, shedder
from support.shedding.shed_runs import Q1, found, query
from support.state_transfer import quiet

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.plan import INDEXES
from fastcep.shedding import DropPlan
from fastcep.shedding.hybrid.attribution import Account
from fastcep.shedding.hybrid.flow import Flow, count_flow
from fastcep.shedding.hybrid.flow_keys import keys_of
from fastcep.shedding.lineage import observe


def counted(flow: Flow) -> tuple[list[int], list[float]]:
    keys = keys_of(flow)
    order = np.argsort(keys)
    return keys[order].tolist(), flow.children["made"].to_numpy()[order].tolist()


@pytest.mark.thorough
@pytest.mark.parametrize("text", [Q1, Q1.replace("2ms", "200 EVENTS"), KLEENE])
@pytest.mark.parametrize("slices", [1, 4])
@pytest.mark.parametrize("size", [1, 777, 3_000])
def test_where_nothing_is_dropped_they_are_those_of_the_record(text: str, slices: int, size: int) -> None:
    own, events = query(text), ds1(events=3_000, seed=3)
    flow = expected(own, events, slices)
    engine = made(own, shedder(own, slices), index="key")
    controlled(engine).apply(DropPlan(counts=1.0), 0)
    for at in range(0, len(events), size):
        engine.process(events.slice(at, size))
    keys, counts, squares, lost, asked = controlled(engine).shedding.flows()
    assert (keys.tolist(), counts.tolist()) == counted(flow)
    assert squares.tolist() == counts.tolist() and lost == 0
    assert asked.reshape(-1).tolist() == flow.asked.tolist()
    keys, *_, asked = controlled(engine).shedding.flows()
    assert not len(keys) and not asked.any()  # since the last call


@given(st.one_of(strategies.cases(), query_cases("stores")), st.sampled_from(INDEXES), st.integers(1, 4))
@settings(max_examples=min(100, settings().max_examples))
def test_of_any_query(case: Case, index: str, slices: int) -> None:
    assume(is_planned(case.query) and is_output_ordered(case.query) and case.events)
    batch = next(iter(harness.batches(case.query.schema, case.events)))
    (record,) = quiet(observe, case.query, batch, index=index).records
    flow = count_flow(Account(record, times_of(case.query, batch), slices, PAPER, {}, {}), {}, {})
    engine = made(case.query, Quiet(slices=slices), index=index)
    controlled(engine).apply(DropPlan(counts=1.0), 0)
    for data in harness.batches(case.query.schema, case.events, case.batch_sizes):
        engine.process(data)
    keys, counts, _, _, asked = controlled(engine).shedding.flows()
    event(f"kinds of children: {min(len(keys), 5)}")
    assert (keys.tolist(), counts.tolist()) == counted(flow)
    assert asked.reshape(-1).tolist() == flow.asked.tolist()


@cache
def long() -> tuple[pa.Table, Flow]:
    events = ds1(events=20_000, seed=5, c_values=(2, 10))
    return events, expected(query(), events, 4)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("binds", "births"),
    [
        ([0.5, 0, 0], [[0] * 4] * 2),
        ([0.2, 0.5, 0.7], [[0] * 4] * 2),
        ([0, 0, 0], [[0.5] * 4, [0.3] * 4]),
        ([0, 0, 0], [[0, 0.3, 0.6, 0.9], [0.2, 0.4, 0.6, 0.8]]),
        ([0.3, 0.3, 0.3], [[0.1, 0.2, 0.5, 0.5], [0, 0, 0.5, 0.7]]),
    ],
)  # fmt: skip
def test_what_is_left_stands_for_what_is_not_there(binds: list[float], births: list[list[float]]) -> None:
    """By state and slice, the mean of ten seeds differs by at most 1 % and 5 standard errors; in total by 4 %."""
    events, flow = long()
    rows = flow.children.to_pydict()
    truth = np.zeros((3, 4))
    np.add.at(truth, (np.array(rows["target"]) // flow.stride, rows["slice"]), rows["made"])
    sums = []
    for seed in range(10):
        engine = made(query(), shedder(query(), 4, seed), index="key")
        own = controlled(engine)
        tables = np.zeros((3, own.shedding.event_stride)), np.zeros((3, own.shedding.stride, 4))
        tables[0][:] = np.array(binds)[:, None]
        tables[1][:2] = np.array(births)[:, None, :]
        own.apply(DropPlan(binds=tables[0], births=tables[1], counts=1.0), 0)
        engine.process(events)
        keys, counts, squares, lost, asked = own.shedding.flows()
        assert lost == 0 and asked.reshape(-1).tolist() == flow.asked.tolist()  # including withheld events
        assert (squares >= counts).all() and counts.sum() != truth.sum()
        total = np.zeros((3, 4))
        keys = keys.astype(np.int64)
        np.add.at(total, (keys >> 8 & 0x3FFF, keys >> 36 & 0x3F), counts)
        sums.append(total)
    there = truth > 0
    mean, spread = np.mean(sums, axis=0)[there], np.std(sums, axis=0, ddof=1)[there] / np.sqrt(10)
    assert np.sum(sums) == pytest.approx(10 * truth.sum(), rel=0.04)
    assert (np.abs(mean - truth[there]) <= 0.01 * truth[there] + 5 * spread).all()


@pytest.mark.thorough
def test_a_share_of_the_events_stands_for_all() -> None:
    """The mean of thirty seeds, for any batches; all children of an event are counted, or none."""
    events, flow = long()
    truth = flow.children["made"].to_numpy().sum()
    totals = []
    for seed in range(30):
        counts = []
        for size in (20_000, 999):
            engine = made(query(), shedder(query(), 4, seed), index="key")
            controlled(engine).apply(DropPlan(counts=0.25), 0)
            for at in range(0, len(events), size):
                engine.process(events.slice(at, size))
            keys, own, squares, *_ = controlled(engine).shedding.flows()
            assert (squares == 4 * own).all() and (own % 4 == 0).all()
            counts.append(dict(zip(keys.tolist(), own.tolist(), strict=True)))
        assert counts[0] == counts[1]
        totals.append(sum(counts[0].values()))
    assert np.mean(totals) == pytest.approx(truth, rel=0.03) and np.std(totals) > 0


@pytest.mark.thorough
@pytest.mark.parametrize("drops", [False, True])
@pytest.mark.parametrize(("first", "then"), [(0.9, 0.5), (0.9, 0.0), (0.2, 0.8), (0.8, 0.8)])
def test_changed_drop_plans_are_corrected_at_once(first: float, then: float, drops: bool) -> None:
    """Rows are weighted by the probabilities in force so far: the mean of twenty seeds is within 5 standard errors."""
    events, sums = long()[0], []
    for seed, probabilities in [(0, (0.0, 0.0)), *((seed, (first, then)) for seed in range(20))]:
        engine = made(query(), shedder(query(), 4, seed), index="key")
        own = controlled(engine)
        for probability, part in zip(probabilities, (events.slice(0, 5_000), events.slice(5_000, 400)), strict=True):
            births = np.full((len(own.plan.states), own.shedding.stride, 4), probability)
            own.apply(DropPlan(births=births, drops=births if drops else None, steady=True, counts=1.0), 0)
            own.shedding.flows()
            engine.process(part)
        sums.append(own.shedding.flows()[1].sum())
    truth, told = sums[0], sums[1:]
    assert abs(np.mean(told) - truth) <= 0.01 * truth + 5 * np.std(told, ddof=1) / np.sqrt(20)
    assert np.mean(told) == pytest.approx(truth, rel=0.25)


@pytest.mark.thorough
@pytest.mark.parametrize("probability", [0.99999, 1 - 1e-9])
def test_births_are_all_refused_by_a_chance_of_one_only(probability: float) -> None:
    """Births that are let through represent the refused ones: the mean of twenty seeds."""
    events, sums, made_ = long()[0], [], []
    for seed in range(20):
        engine = made(query(), shedder(query(), 4, seed), index="key")
        own = controlled(engine)
        births = np.zeros((len(own.plan.states), own.shedding.stride, 4))
        births[0] = probability
        own.apply(DropPlan(births=births, counts=1.0), 0)
        engine.process(events)
        keys, counts, *_ = own.shedding.flows()
        sums.append(counts[keys.astype(np.int64) >> 50 & 0xFFF == 1].sum())
        made_.append(engine.metrics()["rows_created"])
    truth = long()[1].children
    expected_ = truth["made"].to_numpy()[truth["source"].to_numpy() // long()[1].stride == 0].sum()
    assert 0 < np.mean(made_) < 100
    assert abs(np.mean(sums) - expected_) < 5 * np.std(sums, ddof=1) / np.sqrt(20)


def test_a_full_table_tells_how_many_it_has_not_counted() -> None:
    own, events = query(), ds1(events=3_000, seed=3)
    engine = made(own, shedder(own, 4), index="key")
    shedding = controlled(engine).shedding
    shedding.count_flows(4, 16)
    engine.process(events)
    keys, counts, _, lost, _ = shedding.flows()
    whole = dict(zip(*counted(expected(own, events, 4)), strict=True))
    assert len(keys) == 12 and lost > 0 and counts.sum() + lost == sum(whole.values())
    assert {key: whole[key] for key in keys.tolist()} == dict(zip(keys.tolist(), counts.tolist(), strict=True))
    assert shedding.flows()[3] == 0


@pytest.mark.parametrize("cut", [0, 1, 1_234, 2_999])
def test_a_snapshot_goes_on_counting(cut: int) -> None:
    own, events = query(), ds1(events=3_000, seed=3)

    def begun() -> fc.Engine:
        engine = made(own, shedder(own, 4, 2), index="key")
        states, stride = len(controlled(engine).plan.states), controlled(engine).shedding.stride
        births = np.broadcast_to(np.array([0, 0.2, 0.4, 0.6]), (states, stride, 4)).copy()
        controlled(engine).apply(DropPlan(births=births, counts=1.0), 0)
        return engine

    whole, live = begun(), begun()
    rows = found(whole.process(events))
    before = found(live.process(events.slice(0, cut)))
    again = fc.Engine.restore(live.snapshot(), shedder=shedder(own, 4, 2))
    assert before + found(again.process(events.slice(cut))) == rows
    found(live.process(events.slice(cut)))  # a restored snapshot continues to count, too
    flows = [controlled(engine).shedding.flows() for engine in (whole, again, live)]
    for one in flows[1:]:
        for own_, expected_ in zip(one, flows[0], strict=True):
            assert np.allclose(own_, expected_, rtol=1e-12, atol=0)


def test_what_is_not_wanted_is_not_counted() -> None:
    own, events = query(), ds1(events=1_000, seed=3)
    engine = made(own, shedder(own, 4), index="key")
    controlled(engine).apply(DropPlan(counts=1.0), 0)
    controlled(engine).apply(DropPlan(), 0)
    engine.process(events)
    assert not len(controlled(engine).shedding.flows()[0])


def test_events_that_are_dropped_count_as_tried() -> None:
    """The counts per event therefore do not depend on how many events are dropped."""
    own, events = query(Q1), ds1(events=20_000, seed=3)
    tried = []
    for plan in (DropPlan(counts=1.0), DropPlan(events=np.full(4, 0.5), counts=1.0)):
        engine = made(own, shedder(own, 4), index="key")
        controlled(engine).apply(plan, 0)
        engine.process(events)
        tried.append(controlled(engine).shedding.flows()[4].sum(axis=1))
    assert tried[1] == pytest.approx(tried[0], rel=0.05)
