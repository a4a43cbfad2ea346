"""The lineage record agrees with the engine's counters and has every match."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
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
from fastcep.query.patterns import pattern_variables
from fastcep.shedding.lineage import Lineage, observe

TABLE = fc.CostTable("mixed", event=3, relevant=5, visited=7, created=11, match=13)


def is_output_ordered(query: ast.Query) -> bool:
    """Return whether matches are recorded in output order: none waits, is selected, or occurs once per window."""
    return (
        not any(variable.negated for variable in pattern_variables(query.pattern))
        and not isinstance(query.pattern, ast.Periodic)
        and query.select == "each" and query.consume == "zero" and query.limit is None
        and not isinstance(query.window, ast.ExplicitWindow)
    )  # fmt: skip


def chain(record: Lineage, number: int) -> list[int]:
    """Return the positions of the events of a record, oldest first."""
    found = []
    while number >= 0:
        found.append(int(record.events[number]))
        assert record.parents[number] < number
        number = int(record.parents[number])
    return found[::-1]


def spent(record: Lineage, events: int) -> Any:
    """Return the cost of each event by the record, without the fixed cost."""
    costs = np.zeros(events)
    np.add.at(costs, record.probed, TABLE.visited * record.visited)
    stored = np.unique(record.placed)
    np.add.at(costs, record.events[stored], TABLE.created)
    np.add.at(costs, record.events[record.matches], TABLE.match)
    return costs


@given(st.one_of(strategies.cases(), query_cases("stores")), st.sampled_from(INDEXES))
def test_the_record_adds_up(case: Case, index: str) -> None:
    assume(is_planned(case.query) and is_output_ordered(case.query) and case.events)
    batch = next(iter(harness.batches(case.query.schema, case.events)))
    found = quiet(observe, case.query, batch, cost_table=TABLE, index=index)
    (record,) = found.records
    assert record.plan.index == index
    plain = quiet(fc.Engine, case.query, index=index, store="rows")
    matches = plain.process(batch).to_arrow()
    metrics = plain.metrics()
    event("matches" if len(matches) else "none")
    assert repr(found.matches.drop_columns(["query"]).to_pylist()) == repr(matches.drop_columns(["query"]).to_pylist())
    assert (record.visited.sum(), len(np.unique(record.placed))) == (metrics["rows_visited"], metrics["rows_created"])
    assert len(record.matches) == len(matches)
    rest = found.costs - spent(record, len(found.costs))
    assert set(np.unique(rest)) <= {TABLE.event, TABLE.event + TABLE.relevant}
    names = [variable.name for variable in pattern_variables(case.query.pattern)]
    columns = [matches[name].to_pylist() for name in names]
    places = case.query.schema.sequence is None
    for number, bound in zip(record.matches.tolist(), zip(*columns, strict=True), strict=True):
        flat = [x for cell in bound for x in (cell if isinstance(cell, list) else [cell]) if x is not None]
        assert len(flat) == len(chain(record, number)) and (not places or sorted(flat) == chain(record, number))


@given(st.one_of(strategies.cases(), query_cases("stores")), st.sampled_from(INDEXES))
def test_rows_are_met_by_the_probes_of_their_bucket(case: Case, index: str) -> None:
    """Every later probe of its bucket visits a row until its window ends."""
    assume(is_planned(case.query) and is_output_ordered(case.query) and case.events)
    assume(isinstance(case.query.window, ast.CountWindow | ast.Unbounded) and case.query.strategy == "skip_till_any")
    assume(case.query.after_match == "no skip" and case.query.consume == "zero")  # otherwise rows are removed early
    batch = next(iter(harness.batches(case.query.schema, case.events)))
    (record,) = quiet(observe, case.query, batch, index=index).records
    first = [chain(record, number)[0] for number in range(len(record.parents))]
    span = case.query.window.events if isinstance(case.query.window, ast.CountWindow) else 1 << 60
    rows = list(zip(record.placed.tolist(), record.places.tolist(), strict=True))
    for name, at, visited in zip(record.probes.tolist(), record.probed.tolist(), record.visited.tolist(), strict=True):
        alive = [row for row, place in rows if place == name and record.events[row] < at < first[row] + span]
        assert len(alive) == visited


def test_what_q1_is_made_of() -> None:
    events = ds1(events=2_000, seed=3)
    found = observe(query(), events, index="key")
    (record,) = found.records
    assert [record.plan.states[state].variable for state in np.unique(record.states)] == [0, 1, 2]
    kinds = np.array(events["type"].to_pylist())[record.events]
    assert [set(kinds[record.states == state]) for state in range(3)] == [{"A"}, {"B"}, {"C"}]
    assert (np.diff(record.events) >= 0).all()


def test_several_queries() -> None:
    found = observe([query(), query(Q1.replace("2ms", "1ms"), "short")], ds1(events=2_000, seed=3))
    assert [len(record.matches) for record in found.records] == [
        found.matches["query"].to_pylist().count(name) for name in ("q1", "short")
    ]


def test_a_plan_must_be_made_for_it() -> None:
    from fastcep._core.matcher.shedding_controls import Shedding

    engine = fc.Engine(query(), latency_bound="1s", shedder=fc.shedding.RandomMatches())
    shedding: Shedding = engine._stream.queries.control.queries[0].shedding
    with pytest.raises(ValueError, match="does not support a lineage record"):
        shedding.observe()
