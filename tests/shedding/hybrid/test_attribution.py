"""The account agrees with the lineage record, partial match by partial match."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from reference.attribution import Definition, is_output_ordered, lists, times_of
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.shedding.shed_runs import Q1, query
from support.state_transfer import quiet

import fastcep as fc
from fastcep.datasets import ds1
from fastcep.plan import INDEXES
from fastcep.query import ast
from fastcep.shedding.hybrid.attribution import Account, last_in_slices
from fastcep.shedding.hybrid.fit import observed_piece
from fastcep.shedding.lineage import observe

TABLE = fc.CostTable("mixed", event=3, relevant=5, visited=7, created=11, match=13)
FEATURES = {"a": ["a.V"], "b": ["a.V + b.V", "b.ID"]}
EVENT_FEATURES = {"a": ["a.V"], "b": ["b.V"], "c": ["c.V", "c.ID"]}


@given(st.one_of(strategies.cases(), query_cases("stores")), st.sampled_from(INDEXES), st.integers(1, 5))
def test_by_definition(case: Case, index: str, slices: int) -> None:
    assume(is_planned(case.query) and is_output_ordered(case.query) and case.events)
    batch = next(iter(harness.batches(case.query.schema, case.events)))
    (record,) = quiet(observe, case.query, batch, cost_table=TABLE, index=index).records
    assume(len(record.parents) < 2_000)
    times = times_of(case.query, batch)
    account, truth = Account(record, times, slices, TABLE, {}, {}), Definition(record, times, slices, TABLE)
    contribution, consumption = account.derived
    event(f"rows: {min(len(record.placed), 3)}, matches: {min(len(record.matches), 3)}")
    assert account.born.tolist() == truth.born
    assert contribution.tolist() == truth.contribution.tolist()
    assert consumption.tolist() == truth.consumption.tolist()
    groups = (np.arange(len(record.parents)) % 3).astype(np.int32)
    kinds = (np.arange(len(record.probes)) % 2).astype(np.int32)
    expected = np.zeros((3, slices, 2))
    for number, s, probe in truth.visits:
        expected[groups[number], s, kinds[probe]] += 1
    assert account.visits(groups, 3, kinds, 2).tolist() == expected.tolist()


@given(st.one_of(strategies.cases(), query_cases("stores")), st.sampled_from(INDEXES), st.integers(1, 5))
def test_sums_are_the_engines_counters(case: Case, index: str, slices: int) -> None:
    """All work, and all matches of more than one event, descend from partial matches of one event.

    Rows that `AFTER MATCH` discards are accounted as visited until their window ends.
    """
    assume(is_planned(case.query) and is_output_ordered(case.query) and case.events)
    assume(case.query.after_match == "no skip")
    batch = next(iter(harness.batches(case.query.schema, case.events)))
    found = quiet(observe, case.query, batch, cost_table=TABLE, index=index)
    (record,) = found.records
    account = Account(record, times_of(case.query, batch), slices, TABLE, {}, {})
    plain = quiet(fc.Engine, case.query, index=index, store="rows")
    matches, metrics = len(plain.process(batch)), plain.metrics()
    contribution, consumption = account.derived
    begins = record.parents < 0
    assert contribution[begins].sum() + account.matched[begins].sum() == matches
    work = TABLE.visited * metrics["rows_visited"] + TABLE.created * metrics["rows_created"] + TABLE.match * matches
    assert consumption[begins].sum() == work
    everything = np.zeros(len(record.parents), np.int32), np.zeros(len(record.probes), np.int32)
    assert account.visits(everything[0], 1, everything[1], 1).sum() == metrics["rows_visited"]


@pytest.mark.sample(2)
@pytest.mark.parametrize("window", ["2ms", "150 EVENTS"])
@pytest.mark.parametrize("index", INDEXES)
def test_tables_of_q1(window: str, index: str) -> None:
    """Each row has its features, contribution and consumption, in the order of the stream."""
    own, events = query(Q1.replace("2ms", window)), ds1(events=700, seed=3)
    account = observed_piece(own, events, FEATURES, EVENT_FEATURES, 3, TABLE, index)
    record, truth = account.record, Definition(account.record, times_of(own, events), 3, TABLE)
    assert len(record.matches) > 5
    values, keys = events["V"].to_numpy(), events["ID"].to_numpy()
    stored = np.isin(np.arange(len(record.parents)), record.placed)
    a, b = (np.flatnonzero(stored & (record.variables == variable)) for variable in (0, 1))
    first, last = record.events[record.parents[b]], record.events[b]
    of_a, of_b = account.matches_of("a"), account.matches_of("b")
    assert of_a.column_names == ["a.V", "contribution", "consumption", "position", "ordinal"]
    assert of_b["position"].to_pylist() == last.tolist()
    assert of_a["a.V"].to_pylist() == values[record.events[a]].tolist()
    assert of_b["a.V + b.V"].to_pylist() == (values[first] + values[last]).tolist()
    assert of_b["b.ID"].to_pylist() == keys[last].tolist()
    for table, rows in ((of_a, a), (of_b, b)):
        assert lists(table, "contribution").tolist() == truth.contribution[rows].tolist()
        assert lists(table, "consumption").tolist() == truth.consumption[rows].tolist()
    for variable, name in enumerate("abc"):
        table = account.events_of(name)
        kind = np.flatnonzero(np.array(events["type"].to_pylist()) == "ABC"[variable])
        assert table[f"{name}.V"].to_pylist() == values[kind].tolist()  # all are tried
        led, spent = _of_events(account, truth, variable, len(events))
        assert lists(table, "contribution").tolist() == led[kind, None].tolist()
        assert lists(table, "consumption").tolist() == spent[kind, None].tolist()


def _of_events(account: Account, truth: Definition, variable: int, events: int) -> tuple[Any, Any]:
    """Return contribution and consumption of each event tried for a variable: its probes, and its descendants."""
    record = account.record
    led, spent = np.zeros((2, events))
    for r in np.flatnonzero(record.variables == variable):
        led[record.events[r]] += truth.contribution[r].sum() + np.sum(record.matches == r)
        spent[record.events[r]] += truth.consumption[r].sum()
    variables = np.array([edge.variable for edge in record.plan.edges])[record.asked & 0xFFFFFFFF]
    for probe in np.flatnonzero(variables == variable):
        spent[record.probed[probe]] += TABLE.visited * record.visited[probe]
    return led, spent


def test_memory() -> None:
    """Memory consumption is the length of the partial match and of its descendants, by slice."""
    own, events = query(Q1), ds1(events=700, seed=3)
    account = observed_piece(own, events, FEATURES, EVENT_FEATURES, 3, TABLE, "key", memory=True)
    record, truth = account.record, Definition(account.record, times_of(own, events), 3, TABLE)
    stored, expected = set(record.placed.tolist()), np.zeros((len(record.parents), 3))
    for r, chain in enumerate(truth.chains):
        assert account.lengths[r] == len(chain)
        for one in chain:
            expected[one, truth.born[r]] += len(chain) * (r in stored)
    contribution, consumption = account.derived
    assert consumption.tolist() == expected.tolist() and contribution.tolist() == truth.contribution.tolist()
    spent = lists(account.events_of("b"), "consumption").sum()
    assert spent == sum(len(truth.chains[r]) for r in stored if record.variables[r] == 1)


def test_without_a_value() -> None:
    schema = fc.Schema({"A": {"V": "int64"}, "B": {"V": "int64"}}, time="ts", type="type", time_unit="us")
    own = fc.parse("PATTERN SEQ(A a, B b) WITHIN 1ms", schema, name="q1")
    events = pa.table({"type": ["A", "A", "B"], "V": [None, 4, 2], "ts": [0, 10, 20]})
    account = observed_piece(own, events, {"a": ["a.V"]}, {"a": ["a.V"], "b": []}, 2, TABLE, "full")
    assert account.matches_of("a")["a.V"].to_pylist() == [None, 4]
    assert account.events_of("a")["a.V"].to_pylist() == [None, 4]
    assert lists(account.events_of("b"), "contribution").tolist() == [[2]]


@pytest.mark.parametrize("window", [ast.TimeWindow(1000), ast.CountWindow(6), ast.CountWindow(2)])
@pytest.mark.parametrize("slices", [1, 2, 3, 4])
def test_borders_of_slices(window: ast.TimeWindow | ast.CountWindow, slices: int) -> None:
    """An event exactly on a border is in the later slice; at the end of the window, in the last slice."""
    times = np.array([0, 200, 250, 499, 750, 1000, 1001])
    found = last_in_slices(window, times, slices)
    for s in range(slices):
        for start in range(len(times)):
            for at in range(start, len(times)):
                if isinstance(window, ast.TimeWindow):
                    age, span = int(times[at] - times[start]), window.nanoseconds
                    inside = age <= span if s == slices - 1 else age * slices < span * (s + 1)
                else:
                    inside = (at - start) * slices < window.events * (s + 1)
                assert (at <= found[s, start]) == inside, (s, start, at)


@pytest.mark.parametrize("slices", [1, 2, 3, 4, 7])
def test_born_exactly_on_a_border(slices: int) -> None:
    """Account and matcher divide the window equally: B occurs at every border, and a nanosecond before and after it."""
    schema = fc.Schema({"A": {"V": "int64"}, "B": {"V": "int64"}}, time="ts", type="type", time_unit="ns")
    span = 1000
    own = fc.parse(f"PATTERN SEQ(A a, B b, B c) WITHIN {span}ns", schema, name="q1")
    borders = {-(-span * s // slices) + more for s in range(slices + 1) for more in (-1, 0, 1)}
    at = sorted(time for time in borders if 0 < time <= span)
    events = pa.table({"type": ["A"] + ["B"] * len(at), "V": [0] * (len(at) + 1), "ts": [0, *at]})
    account = observed_piece(own, events, {}, {}, slices, TABLE, "full")
    second = account.record.variables == 1
    assert account.born[second].tolist() == [min(slices - 1, time * slices // span) for time in at]
    engine = fc.Engine(own, clock="virtual", latency_bound="1s", shedder=fc.shedding.RandomMatches())
    live = []
    for number in range(len(events)):
        engine.process(events.slice(number, 1))
        live.append(engine._stream.queries.control.queries[0].shedding.count_rows(slices)[0, 0].argmax())
    assert live[1:] == account.born[second].tolist()
