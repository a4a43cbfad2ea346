"""Implied equalities become keys where no other equality joins."""

from __future__ import annotations

import pytest
from support import harness

import fastcep as fc
from fastcep.plan import make_plan

SCHEMA = fc.Schema({name: {"k": "int64", "v": "int64", "x": "float64"} for name in "ABCD"}, time="t", type="type")


def keys(text: str) -> dict[str, list[str]]:
    """Return the keys ``row = event`` of each edge ``bound > bound``."""
    plan = make_plan(fc.parse(f"PATTERN {text} WITHIN 1s", SCHEMA))
    names = ["".join("abcd"[slot] for slot in state.bindings) for state in plan.states]
    return {
        f"{names[edge.source]} > {names[edge.target]}": [f"{row} = {event}" for row, event in edge.key_texts]
        for edge in plan.edges
        if edge.source >= 0
    }


def test_between_the_parts_of_and() -> None:
    actual = keys("AND(A a, B b, C c) WHERE a.k = b.k AND a.k = c.k")
    assert actual == {
        "a > ab": ["a.k = b.k"], "a > ac": ["a.k = c.k"], "ab > abc": ["a.k = c.k"], "ac > abc": ["a.k = b.k"],
        "b > ab": ["b.k = a.k"], "c > ac": ["c.k = a.k"], "bc > abc": ["b.k = a.k", "c.k = a.k"],
        "b > bc": ["b.k = c.k"], "c > bc": ["c.k = b.k"],
    }  # fmt: skip


def test_before_a_later_variable_in_seq() -> None:
    assert keys("SEQ(A a, B b, C c) WHERE a.k = c.v AND b.k = c.v")["a > ab"] == ["a.k = b.k"]


def test_not_if_a_condition_is_written() -> None:
    actual = keys("SEQ(A a, B b, C c) WHERE a.k = b.k AND a.k = c.k")
    assert actual == {"a > ab": ["a.k = b.k"], "ab > abc": ["a.k = c.k"]}


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, B b, C? c) WHERE a.k = c.k AND b.k = c.k",
        "SEQ(A a, B b, OR(C c, D d)) WHERE a.k = c.k AND b.k = c.k",
        "SEQ(A a, B b, C c) WHERE a.x = c.x AND b.x = c.x",
        "SEQ(A a, B b, C c) WHERE a.k = c.k OR b.k = c.k",
        "SEQ(A a, B b, C+ c[]) WHERE a.k = c[i].k AND b.k = c[i].k",
    ],
)
def test_not_for_optional_or_other_variables(text: str) -> None:
    assert keys(text)["a > ab"] == []


@pytest.mark.parametrize("pattern", ["SEQ(A a, B b, C c)", "AND(A a, B b, C c)", "SEQ(A a, B b, NEXT C c)"])
def test_not_where_an_event_that_can_advance_a_run_must(pattern: str) -> None:
    """Under ``skip_till_next`` the first event b has to be taken, whatever its key: only c is compared with it."""
    query = f"PATTERN {pattern} WHERE a.k = c.k AND b.k = c.k WITHIN 9ns STRATEGY skip_till_next"
    assert harness.matches(query, SCHEMA, "A(k=1)@1 B(k=2)@2 B(k=1)@3 C(k=1)@4") == []
    assert harness.matches(query, SCHEMA, "A(k=1)@1 B(k=1)@2 C(k=1)@3") == [{"a": 0, "b": 1, "c": 2}]
    assert isinstance(make_plan(fc.parse(query, SCHEMA)).key, str)  # the reason why there is none
