"""Early decisions: under skip_till_next they determine the events that extend, and the time-outs that are reported.

The reference matcher decides conditions as soon as an event is bound (`naive_runs`), so the plan must do the same.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from strategies.patterns import Draw
from strategies.queries import Case
from support import harness
from support.timed_out import assert_timed_out

import fastcep
from fastcep.errors import ValidationError
from fastcep.query import ast

SCHEMA = fastcep.Schema({name: {"k": "int64"} for name in "ABCD"}, type="type")
#: Patterns, and the references that a condition can make to each variable.
EVENT = ["{}.k"]
KLEENE = ["{}[i].k", "{}[i+1].k", "{}[first].k", "{}[1].k", "{}[last].k", "SUM({}[].k)", "COUNT({}[])"]
ROUNDS = ["{}[i].{}.k", "{}[i+1].{}.k", "{}[first].{}.k", "{}[1].{}.k", "{}[last].{}.k", "SUM({}[].{}.k)"]
PATTERNS = {
    "AND(A+ a[], B+ b[])": ("a[]", "b[]"),
    "AND(A{1,2} a[], A b)": ("a[]", "b"),
    "SEQ(A+ a[], B+ b[], C c)": ("a[]", "b[]", "c"),
    "SEQ(A{2,3} a[], (A|B){1,2} b[])": ("a[]", "b[]"),
    "SEQ(A? a, B* b[], AND(C c, A+ d[]))": ("a", "b[]", "c", "d[]"),
    "SEQ((SEQ(A a, B b))+ g[], C c)": ("g.a", "g.b", "c"),
    "SEQ((AND(A a, B b)){1,2} g[])": ("g.a", "g.b"),
    "AND((SEQ(A a, B? b)){1,2} g[], C+ c[])": ("g.a", "g.b", "c[]"),
    "SEQ(D a, (OR(A b, B c))+ g[], C d)": ("a", "g.b", "g.c", "d"),
    "APERIODIC((SEQ(A a))+ g[], B+ b[], C c)": ("g.a", "b[]"),
    "SEQ(A a, NEG D n, B{1,2} b[], C c)": ("n", "n", "b[]", "c"),
    "SEQ(A+ a[], NEG D n, B b, C c)": ("n", "n", "a[]", "c"),
    "AND(SEQ(A a, NEG D n, B b), C+ c[])": ("n", "n", "a", "c[]"),
}
#: In a group with NEG only values known with the event after it can be mentioned.
GROUPS = {
    "SEQ((SEQ(A a, NEG D n, B b))+ g[], C c)": ["g[i].a.k", "g[i].b.k", "c.k", "2"],
    "SEQ((SEQ(A a, NEG D n, B b, C c)){1,2} g[])": ["g[i].a.k", "g[i].b.k", "2"],
}
LATE = ["g[i].n.k = g[i+1].a.k", "g[i].n.k = g[first].a.k", "g[i].n.k = COUNT(g[])", "g[i].n.k = g[i].c.k"]


def mentions(variable: str) -> list[str]:
    if "." in variable:
        group, inner = variable.split(".")
        return [text.format(group, inner) for text in ROUNDS] + [f"COUNT({group}[])"]
    return [text.format(variable.removesuffix("[]")) for text in (KLEENE if variable.endswith("[]") else EVENT)]


@st.composite
def cases(draw: Draw, strategy: str) -> Case:
    pattern = draw(st.sampled_from([*PATTERNS, *GROUPS]))
    if pattern in GROUPS:
        condition = f"g[i].n.k {draw(st.sampled_from(['=', '<=']))} {draw(st.sampled_from(GROUPS[pattern]))}"
        return draw(case(strategy, pattern, condition))
    known = st.sampled_from([text for variable in PATTERNS[pattern] for text in mentions(variable)])
    operators = st.sampled_from(["=", "=", "<=", "!="])
    right = st.one_of(known, st.integers(1, 3).map(str))
    conditions = draw(st.lists(st.tuples(known, operators, right).map(" ".join), min_size=1, max_size=2))
    return draw(case(strategy, pattern, " AND ".join(conditions)))


@st.composite
def case(draw: Draw, strategy: str, pattern: str, conditions: str) -> Case:
    window = draw(st.sampled_from(["WITHIN 20ns", "WITHIN 5ns", "WINDOW EVERY 3ns CLOSE AFTER 6ns"]))
    text = f"PATTERN {pattern}\nWHERE {conditions}\n{window}\nSTRATEGY {strategy}"
    events = st.tuples(st.sampled_from("AABBCCD"), st.integers(1, 3)).map(lambda pair: f"{pair[0]}(k={pair[1]})")
    words = draw(st.lists(events, min_size=3, max_size=10))
    query, sizes = fastcep.parse(text, SCHEMA, name="q"), draw(st.sampled_from([[20], [1], [3, 1]]))
    return Case(query, text, harness.stream(SCHEMA, " ".join(words)), sizes)


@given(cases("skip_till_next"))
def test_next(case: Case) -> None:
    """An event that makes a condition false does not extend the partial match."""
    harness.assert_in_time(case.query, case.events, case.batch_sizes)


@pytest.mark.parametrize("strategy", ast.STRATEGIES[:2])
@settings(max_examples=max(1, settings().max_examples // 2))
@given(st.data())
def test_timed_out(strategy: str, data: st.DataObject) -> None:
    """A partial match that violates a condition is not reported as timed out."""
    case = data.draw(cases(strategy), "case")
    assert_timed_out(case.query, case.events, case.batch_sizes)


@pytest.mark.parametrize("condition", LATE)
def test_refused(condition: str) -> None:
    """Conditions that are decided only after later events are rejected."""
    text = f"PATTERN SEQ((SEQ(A a, NEG D n, B b, C c))+ g[], A d) WHERE {condition} WITHIN 1h"
    query = fastcep.parse(text, SCHEMA, name="q")
    fastcep.Engine(query)
    message = "query 'q': the conditions on 'g.n' mention several rounds, or variables bound after"
    with pytest.raises(ValidationError, match=message):
        fastcep.Engine(query, timed_out=True)
    with pytest.raises(ValidationError, match=message):
        fastcep.Engine(fastcep.parse(f"{text} STRATEGY skip_till_next", SCHEMA, name="q"))
