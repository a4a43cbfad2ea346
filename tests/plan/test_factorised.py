"""Queries that the factorised store supports, and the reasons why it does not support others."""

from __future__ import annotations

import pytest

import fastcep as fc
from fastcep.plan import make_plan

ATTRIBUTES = {"k": "int64", "v": "int64", "f": "float64"}
SCHEMA = fc.Schema(dict.fromkeys("ABC", ATTRIBUTES), type="type")


def rows_only(text: str) -> str:
    """Return the reason why a query requires rows; empty if both stores support it."""
    return make_plan(fc.parse(f"PATTERN {text}", SCHEMA)).rows_only


@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, B b) WITHIN 9ns",
        "SEQ(A a, B+ x[], C c) WHERE a.k = x[i].k AND x[i].k = c.k WITHIN 9ns",
        "SEQ(A a, B+ x[], C c) WHERE x[i].v < x[i+1].v AND x[i].f > 1.0 WITHIN 9ns PARTITION BY k",
        "SEQ(A a, B b, C c) WHERE [k] AND a.v < c.v WITHIN 9 EVENTS",
        "SEQ(A a, B b, C c) WHERE a.v + b.v = c.v WITHIN UNBOUNDED",
    ],
)
def test_either_store(text: str) -> None:
    assert rows_only(text) == ""


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("AND(A a, B b) WITHIN 9ns", "its pattern is not a SEQ of variables"),
        ("SEQ(A a, NEG B n, C c) WITHIN 9ns", "its pattern is not a SEQ of variables"),
        ("SEQ(A a, B? b, C c) WITHIN 9ns", "b is optional, bounded or consecutive"),
        ("SEQ(A a, B{2,3} x[], C c) WITHIN 9ns", "x is optional, bounded or consecutive"),
        ("SEQ(A a, B+ x[] CONSECUTIVE, C c) WITHIN 9ns", "x is optional, bounded or consecutive"),
        ("SEQ(A a, B+ x[]) WITHIN 9ns", "its first and last variables must be single"),
        ("SEQ(A a, NEXT B b) WITHIN 9ns", "its strategy or NEXT restricts which events can follow"),
        ("SEQ(A a, B b) WITHIN 9ns STRATEGY strict_contiguity",
         "its strategy or NEXT restricts which events can follow"),
        ("SEQ(A a, B b) WITHIN 9ns STRATEGY skip_till_next", "its strategy or NEXT restricts which events can follow"),
        ("SEQ(A a, B b) WITHIN 9ns SELECT first", "its policies choose between matches or remove partial matches"),
        ("SEQ(A a, B b) WITHIN 9ns CONSUME consumed", "its policies choose between matches"),
        ("SEQ(A a, B b) WITHIN 9ns AFTER MATCH SKIP PAST LAST", "its policies choose between matches"),
        ("SEQ(A a, B b) WINDOW EVERY 3ns CLOSE AFTER 9ns", "its windows are explicit"),
        ("SEQ(A a, B+ x[], C c) WHERE SUM(x[].v) > a.v WITHIN 9ns", "depends on all elements of a Kleene variable"),
        ("SEQ(A a, B+ x[], C c) WHERE x[last].v > a.v WITHIN 9ns", "depends on all elements of a Kleene variable"),
        ("SEQ(A a, B+ x[], C c) WHERE x[first].v > a.v WITHIN 9ns", "uses a single element of a Kleene variable"),
        ("SEQ(A a, B+ x[], C c) WHERE x[0].v = c.v WITHIN 9ns", "uses a single element of a Kleene variable"),
        ("SEQ(A a, B+ x[], C c) WHERE x[i].v < x[i+2].v WITHIN 9ns", "compares elements that are not adjacent"),
        ("SEQ(A a, B+ x[], C+ y[], A c) WHERE x[i].v < y[i].v WITHIN 9ns", "compares elements that are not adjacent"),
        ("SEQ(A a, B+ x[], C c) WHERE a.v < x[i].v WITHIN 9ns", "compares each element with an earlier event"),
        ("SEQ(A a, B b) WHERE a.k = b.v AND [k] AND [v] WITHIN 9ns", "is equal to several values of one variable"),
    ],
)
def test_rows_only(text: str, reason: str) -> None:
    assert reason in rows_only(text)


@pytest.mark.parametrize(
    ("conditions", "known"),
    [
        ("a.k = x[i].k AND a.k = c.k AND x[i].v = a.v", True),
        ("[k]", True),
        ("x[i].v < x[i+1].v", True),
        ("a.k = c.v AND c.v = x[i].v", True),
        ("a.k = c.v", False),
        ("a.k = c.k AND x[i].v = c.v", False),
        ("a.v = c.v + 1 AND [k]", False),
    ],
)
def test_predecessors_of_an_element(conditions: str, known: bool) -> None:
    """They are known if the element has all values of the key of the step back."""
    query = fc.parse(f"PATTERN SEQ(A a, B+ x[], C c) WHERE {conditions} WITHIN 9ns", SCHEMA)
    kept = make_plan(query, store="factorised").kept
    searched = next(item for item in kept if item.variable == 1)
    assert (searched.predecessor is not None) is known
    assert not any(item.predecessor for item in kept if item is not searched)
