"""For any query and any drops, there is no false match, and nothing else changes."""

from __future__ import annotations

import dataclasses
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, event, given
from hypothesis import strategies as st
from strategies import queries as strategies
from strategies.queries import Case
from strategies.whole_cases import is_planned, query_cases
from support import harness
from support.shedding.chaos import Chaos
from support.state_transfer import quiet

import fastcep as fc
from fastcep.plan import INDEXES, make_plan
from fastcep.query import ast
from fastcep.query.patterns import pattern_variables

queries = st.one_of(strategies.cases(), query_cases("stores"), query_cases())


pytestmark = pytest.mark.usefixtures("decide_often")


def is_monotonic(query: ast.Query) -> bool:
    """Return whether a query is monotonic; see SEMANTICS, Quality under shedding."""
    return (
        not any(variable.negated for variable in pattern_variables(query.pattern))
        and query.select == "each" and query.consume == "zero" and query.limit is None
        and query.after_match == "no skip" and query.strategy == "skip_till_any"
    )  # fmt: skip


def engine(case: Case, shedder: Chaos, index: str = "full") -> fc.Engine:
    return quiet(
        fc.Engine, case.query, clock="virtual", cost_table="paper", latency_bound=1.0, shedder=shedder, index=index
    )


def tables(engine: fc.Engine, case: Case, sizes: list[int]) -> pa.Table:
    found = [engine.process(data).to_arrow() for data in harness.batches(case.query.schema, case.events, sizes)]
    assert_counted(engine)
    return pa.concat_tables([*found, engine.flush().to_arrow()])


def assert_counted(engine: fc.Engine) -> None:
    """Check that counters agree with a walk through all rows."""
    for query in engine._stream.queries.control.queries:
        assert query.shedding.count_rows(3).sum() == query.matcher.live - query.matcher.waiting


def alike(query: ast.Query) -> list[set[str]]:
    """Return the variables of each ANY that can bind the same events in several ways."""
    names = [variable.name for variable in pattern_variables(query.pattern)]
    return [{names[variable] for variable in variables} for variables in make_plan(query).sets]


def merged(row: Any, sets: list[set[str]]) -> str:
    """Return a match without the assignment of events to these variables, and without its RETURN values."""
    bound, _, *more = row
    rest = {name: events for name, events in bound.items() if not any(name in names for names in sets)}
    return repr((rest, [sorted(str(bound[name]) for name in names) for names in sets], more))


def planned(case: Case) -> None:
    """Skip queries that cannot be planned with one index per state, such as those with too many registers."""
    assume(is_planned(case.query))


@given(queries, st.integers(0, 99), st.booleans(), st.sampled_from(INDEXES))
def test_precision(case: Case, seed: int, classes: bool, index: str) -> None:
    """Every match of a monotonic query is also found without shedding, in the same order."""
    planned(case)
    found = tables(engine(case, Chaos(seed, classes=classes), index), case, case.batch_sizes)
    truth = harness.rows(case.query, None, case.events)
    rows = harness.table_rows(case.query, found)
    event(f"monotonic: {is_monotonic(case.query)}, {'all' if len(rows) == len(truth) else 'fewer'}")
    if is_monotonic(case.query):
        sets = alike(case.query)
        rest: Any = iter([repr(row) for row in truth])
        if sets:  # one of several ways to bind the same events is reported; under shedding it may be another one
            rows, rest = [merged(row, sets) for row in rows], {merged(row, sets) for row in truth}
        assert all((row if sets else repr(row)) in rest for row in rows), f"{case!r}\n{rows}\n{truth}"


@given(queries, st.booleans(), st.sampled_from(INDEXES))
def test_calm(case: Case, classes: bool, index: str) -> None:
    """An engine that can shed but does not has to finds all matches."""
    planned(case)
    found = tables(engine(case, Chaos(0, classes=classes, calm=True), index), case, case.batch_sizes)
    rows = harness.table_rows(case.query, found)
    harness.assert_same(case.query, case.events, rows, "ready to shed")


@given(queries, st.integers(0, 99), st.booleans(), st.integers(0, 9))
def test_batches_and_snapshots(case: Case, seed: int, classes: bool, cut: int) -> None:
    """The same seed drops the same, for any batches, and if the engine is restored in between."""
    planned(case)
    whole = engine(case, Chaos(seed, classes=classes))
    one = tables(whole, case, [max(1, len(case.events))])
    live = engine(case, Chaos(seed, classes=classes))
    found = []
    for number, data in enumerate(harness.batches(case.query.schema, case.events, case.batch_sizes)):
        if number == cut:
            live = fc.Engine.restore(live.snapshot(), shedder=Chaos(seed, classes=classes))
        found.append(live.process(data).to_arrow())
    assert_counted(live)
    found.append(live.flush().to_arrow())
    other = pa.concat_tables(found)
    assert repr(other.to_pylist()) == repr(one.to_pylist()), repr(case)
    for name in ("rows_visited", "rows_created", "matches"):
        assert whole.metrics()[name] == live.metrics()[name], name
    own, theirs = whole.metrics()["shedding"], live.metrics()["shedding"]
    names = ["decisions", "dropped_events", "dropped_partial_matches", "processing_latency", "estimated_recall"]
    if any(index.latest >= 0 for index in make_plan(case.query).indexes):
        names.remove("dropped_partial_matches")  # rows that contiguity has ended remain until a sweep
    for name in names:
        assert own[name] == theirs[name], name


@given(strategies.cases(), st.integers(0, 99))
def test_several(case: Case, seed: int) -> None:
    """Two queries with one shedder: each has only true matches."""
    planned(case)
    other = dataclasses.replace(case.query, name="other")
    live = quiet(
        fc.Engine, [case.query, other], clock="virtual", cost_table="paper", latency_bound=1.0,
        shedder=Chaos(seed, classes=True),
    )  # fmt: skip
    for data in harness.batches(case.query.schema, case.events, case.batch_sizes):
        live.process(data)
    assert_counted(live)


@given(queries)
def test_plan(case: Case) -> None:
    """A plan for shedding equals that for the row store."""
    planned(case)
    plan, plain = make_plan(case.query, classes={}), make_plan(case.query, store="rows")
    event(f"indexes of a state: {max((len(state.indexes) for state in plan.states), default=0)}")
    assert (plan.store, plan.states, plan.edges, plan.indexes) == ("rows", plain.states, plain.edges, plain.indexes)
