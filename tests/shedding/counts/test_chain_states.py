"""States of the chain: the matcher's classes agree with those counted from the lineage."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from reference.matcher import Event
from strategies.queries import Case, cases
from strategies.whole_cases import query_cases
from support import harness
from support.state_transfer import quiet

import fastcep as fc
from fastcep.errors import ValidationError
from fastcep.plan import make_plan
from fastcep.shedding.counts.chain_states import MOST_NUMBERS, ChainStates, classes_by_number
from fastcep.shedding.lineage import observe

SCHEMA = fc.Schema({name: {"k": "int64"} for name in "ABC"}, time="ts", type="type", time_unit="ns")


def query(pattern: str) -> fc.Query:
    return fc.parse(f"PATTERN {pattern} WITHIN 9 EVENTS", SCHEMA, name="q")


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("SEQ(A a, B b)", ["a", "b"]),
        ("SEQ(A a, B+ b[], C c)", ["a", "b", "c"]),
        ("SEQ(A a, ANY(3, B b[]))", ["a", "b (1 of 3 b)", "b (2 of 3 b)", "b (3 of 3 b)"]),
        ("SEQ(A a, B{2,} b[], C c)", ["a", "b (1 of 2 b)", "b (2 of 2 b)", "c"]),
        ("SEQ(A a, B? b, C c)", ["a", "b", "c"]),
        ("AND(A a, B{2,3} b[])", None),
    ],
)
def test_states(pattern: str, names: list[str] | None) -> None:
    """A variable that binds a limited number of events has a state for each number."""
    one = query(pattern)
    plan = make_plan(one, store="rows")
    states = ChainStates.of(plan)
    if names is None:
        assert not classes_by_number(one) and len(states.names) == len(plan.states)
    else:
        assert states.names == names


@st.composite
def counted(draw: st.DrawFn) -> Case:
    """Draw a query that binds a limited number of events to a variable."""
    pattern = draw(st.sampled_from([
        "ANY(3, B b[])", "SEQ(A a, ANY(2, (A|B) b[] DISTINCT k), C c)", "SEQ(A a, B{2,4} b[], C c)",
        "SEQ(B{2,} b[], C{2} c[])", "OR(SEQ(A a, B{3} b[]), SEQ(C c, A{1,2} d[]))", "SEQ(A{0,2} a[], B{0,3} b[], C c)",
    ]))  # fmt: skip
    window = draw(st.sampled_from(["WITHIN 9 EVENTS", "WINDOW OPEN EVERY 3 EVENTS CLOSE AFTER 7 EVENTS"]))
    strategy = draw(st.sampled_from(["skip_till_any", "skip_till_next"]))
    types = draw(st.lists(st.sampled_from("ABBC"), min_size=8, max_size=16))
    events = [Event(kind, time, time, {"k": draw(st.integers(0, 3))}) for time, kind in enumerate(types)]
    text = f"PATTERN {pattern} {window} STRATEGY {strategy}"
    return Case(fc.parse(text, SCHEMA, name="q"), text, events, [16])


def test_many_events_share_states() -> None:
    (classes,) = classes_by_number(query("ANY(80, B b[])")).values()
    assert classes.count == MOST_NUMBERS
    assert np.bincount(classes.table).tolist() == [5] * MOST_NUMBERS
    (classes,) = classes_by_number(query("SEQ(A a, B{3,} b[], C c)")).values()
    assert classes.classify(np.array([[1.0], [2.0], [3.0], [9.0]]), np.zeros((4, 1), bool)).tolist() == [0, 1, 2, 2]


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(st.one_of(counted(), counted(), counted(), cases(), query_cases("policies"), query_cases("windows")))
def test_the_matcher_agrees(case: Case) -> None:
    """The class that the matcher gives each partial match is its state of the chain."""
    classes = classes_by_number(case.query)
    assume(case.events and classes)
    try:
        (record,) = quiet(observe, case.query, harness.batch(case.query.schema, case.events), classes=classes).records
    except ValidationError:
        assume(False)
    states = ChainStates.of(record.plan)
    assert (states.of_records(record) == states.of_class(MOST_NUMBERS)[record.states, record.classes & 0xFF]).all()
    event(f"largest class: {int((record.classes & 0xFF).max(initial=0))}")


def test_tables_by_class() -> None:
    states = ChainStates.of(make_plan(query("SEQ(A a, B{2,} b[], C c)"), store="rows"))
    values = np.arange(8.0).reshape(4, 2)
    by_class = states.by_class(values, 2)
    assert by_class[:, :, 0].tolist() == [[0, 0], [2, 4], [6, 6]]
    assert states.summed(np.arange(12).reshape(3, 2, 2)).tolist() == [[2, 4], [4, 5], [6, 7], [18, 20]]
