"""Absent variables, and the time at which a leading NEG is judged: cases worked by hand, for reference and engine."""

from __future__ import annotations

from typing import Any

import pytest
from reference import matcher as naive
from support import harness
from support.worked import SCHEMA, found

from fastcep.query import parse


def matched(text: str, events: str) -> list[str]:
    """Return the matches of the reference matcher; check the engine in both stores and event by event."""
    query, stream = parse(f"PATTERN {text}", SCHEMA), harness.stream(SCHEMA, events)
    harness.assert_same(query, stream, harness.rows(query, None, stream), "one batch")
    harness.assert_same(query, stream, harness.rows_by_send(query, None, stream), "event by event")
    return found(text, events)


def counted(text: str, events: str) -> list[list[Any]]:
    """Return the RETURN columns of each match."""
    query, stream = parse(f"PATTERN {text}", SCHEMA), harness.stream(SCHEMA, events)
    harness.assert_same(query, stream, harness.rows(query, None, stream), "one batch")
    return [
        list(naive.return_values(query, match, stream).values()) for match in naive.find_matches(query, stream)
    ]


# ------------------------------------------------------------------------- COUNT


@pytest.mark.parametrize("quantifier", ["*", "{0,3}", "{,3}"])
def test_count_of_the_elements_of_an_empty_variable_is_zero_and_applies(quantifier: str) -> None:
    text = f"SEQ(A a, B{quantifier} b[], C c) WHERE %s WITHIN 10ns"
    assert matched(text % "COUNT(b[]) > 0", "A C") == []
    assert matched(text % "COUNT(b[]) = 0", "A C") == ["a0 b[] c1"]
    assert matched(text % "COUNT(b[]) = a.v", "A(v=1) B C") == ["a0 b1 c2"]


@pytest.mark.parametrize("quantifier", ["*", "{0,3}", "{,3}"])
def test_count_of_values_of_an_empty_variable_removes_the_conjunct(quantifier: str) -> None:
    text = f"SEQ(A a, B{quantifier} b[], C c) WHERE %s WITHIN 10ns"
    for conjunct in ("COUNT(b[].v) > 0", "COUNT(b[].v) = a.v", "NOT COUNT(b[].v) = 0", "COUNT(b[].v) + COUNT(b[]) > 0"):
        assert matched(text % conjunct, "A(v=7) C") == ["a0 b[] c1"], conjunct
    assert matched(text % "COUNT(b[].v) > 0", "A B B(v=1) C") == ["a0 b[] c3", "a0 b2 c3", "a0 b1,2 c3"]
    assert matched(text % "COUNT(b[].v) > 0 AND COUNT(b[]) > 0", "A C B(v=1) C") == ["a0 b2 c3"]


def test_count_of_rounds_and_of_values_in_rounds() -> None:
    text = "SEQ(A a, (SEQ(B b, D? d))* g[], C c) WHERE %s WITHIN 10ns"
    assert matched(text % "COUNT(g[]) > 0", "A C") == []
    assert matched(text % "COUNT(g[].b.v) > 0", "A C") == ["a0 g.b[] g.d[] c1"]
    # A variable that no round binds is absent, as for the other aggregates.
    for conjunct in ("COUNT(g[].d.k) > 0", "SUM(g[].d.k) > 0"):
        assert matched(text % f"COUNT(g[]) > 0 AND {conjunct}", "A B C") == ["a0 g.b1 g.d- c2"], conjunct
        assert matched(text % f"COUNT(g[]) > 0 AND {conjunct}", "A B D C") == ["a0 g.b1 g.d- c3"], conjunct
    assert matched(text % "COUNT(g[].d.k) > 0 AND COUNT(g[]) = 2", "A B B D(k=1) C") == [
        "a0 g.b1,2 g.d-,- c4", "a0 g.b1,2 g.d-,3 c4",
    ]  # fmt: skip


def test_count_in_a_branch_that_is_not_taken_is_absent() -> None:
    for conjunct in ("COUNT(a[]) > 1", "COUNT(a[].v) > 1"):
        assert matched(f"OR(A+ a[], B b) WHERE {conjunct} WITHIN 10ns", "A B") == ["a[] b1"], conjunct


def test_count_beside_a_negated_variable() -> None:
    """A condition on n that does not apply is removed, so that every n counts."""
    text = "SEQ(B* b[], A a, NEG D n, C c) WHERE %s WITHIN 10ns"
    assert matched(text % "n.k > COUNT(b[].v)", "A D(k=-1) C") == []
    assert matched(text % "n.k > COUNT(b[])", "A D(k=-1) C") == ["b[] a0 c2"]


def test_return_counts_nothing_as_zero() -> None:
    """RETURN has no conjunct to remove: a list is empty, and both ways to count give 0."""
    text = "SEQ(A a, B* b[], C c) WITHIN 10ns RETURN COUNT(b[]) AS n, COUNT(b[].v) AS k, b[].v AS vs, SUM(b[].v) AS s"
    assert counted(text, "A C") == [[0, 0, [], None]]
    assert counted(text, "A B C")[1] == [1, 0, [None], None]


# ----------------------------------------------------------------------- BETWEEN


def test_between_is_one_conjunct() -> None:
    text = "SEQ(A a, B? b, C c) WHERE %s WITHIN 10ns"
    # b is absent: the whole BETWEEN is removed; of two conjuncts only the one that mentions b is.
    for conjunct in ("c.v BETWEEN a.v AND b.v", "c.v BETWEEN b.v AND a.v", "b.v BETWEEN a.v AND c.v"):
        assert matched(text % conjunct, "A(v=5) C(v=1)") == ["a0 b- c1"], conjunct
        assert matched(text % f"NOT {conjunct}", "A(v=5) C(v=5)") == ["a0 b- c1"], conjunct
    assert matched(text % "a.v <= c.v AND c.v <= b.v", "A(v=5) C(v=1)") == []
    assert matched(text % "a.v <= c.v AND c.v <= b.v", "A(v=5) C(v=7)") == ["a0 b- c1"]
    assert matched(text % "(a.v <= c.v AND c.v <= b.v OR FALSE)", "A(v=5) C(v=1)") == ["a0 b- c1"]
    # bound, it holds or it does not
    assert matched(text % "c.v BETWEEN a.v AND b.v", "A(v=5) B(v=9) C(v=7)") == ["a0 b- c2", "a0 b1 c2"]
    assert matched(text % "c.v BETWEEN a.v AND b.v", "A(v=5) B(v=6) C(v=7)") == ["a0 b- c2"]


def test_parentheses_do_not_join_conjuncts() -> None:
    text = "SEQ(A a, B? b, C c) WHERE (a.v <= c.v AND c.v <= b.v) WITHIN 10ns"
    assert matched(text, "A(v=5) C(v=1)") == []


def test_between_of_elements_and_counts() -> None:
    text = "SEQ(A a, B* b[], C c) WHERE %s WITHIN 10ns"
    assert matched(text % "c.v BETWEEN a.v AND b[last].v", "A(v=5) C(v=1)") == ["a0 b[] c1"]
    assert matched(text % "b[i].v BETWEEN a.v AND c.v", "A(v=5) B(v=9) C(v=1)") == ["a0 b[] c2"]
    assert matched(text % "COUNT(b[]) BETWEEN 1 AND 2", "A C") == []
    assert matched(text % "COUNT(b[].v) BETWEEN 1 AND 2", "A C") == ["a0 b[] c1"]
    assert matched(text % "c.v BETWEEN COUNT(b[]) AND COUNT(b[].v)", "A C(v=3)") == ["a0 b[] c1"]


# ------------------------------------------------------- a leading NEG, skip_till_next


NEXT = "STRATEGY skip_till_next"


def test_a_leading_negation_is_judged_at_its_right_neighbour() -> None:
    """The window is explicit, so all that the negation needs is known there: the first A starts no run."""
    text = f"SEQ(NEG D n, A a, B b) WINDOW OPEN ON C o CLOSE AFTER 20ns {NEXT}"
    assert matched(text, "C D A B") == []
    assert matched(text, "C A D B") == ["w0 a1 b3"]
    text = f"SEQ(NEG D n, A a, B b) WHERE n.k = a.k WINDOW OPEN ON C o CLOSE AFTER 20ns {NEXT}"
    assert matched(text, "C D(k=1) A(k=1) A(k=2) B") == ["w0 a3 b4"]


def test_a_leading_negation_waits_for_what_its_conditions_mention() -> None:
    text = f"SEQ(NEG D n, A a, B b) WHERE n.k = b.k WINDOW OPEN ON C o CLOSE AFTER 20ns {NEXT}"
    assert matched(text, "C D(k=1) A B(k=1) B(k=2)") == ["w0 a2 b4"]


def test_a_leading_negation_under_within_is_judged_at_the_last_event() -> None:
    """Its start depends on the last event, so it is decided when that is bound."""
    text = f"SEQ(NEG D n, A a, B b) WITHIN 5ns {NEXT}"
    assert matched(text, "D@0 A@3 B@5 B@6") == ["a1 b3"]  # with B@5 the window begins at 0, where D is
    assert matched(text, "D@0 A@3 B@5") == []
    assert matched(text, "A@0 D@1 A@2 B@3") == ["a0 b3"]
    assert matched(f"SEQ(NEG D n, A a, B b, C c) WITHIN 5ns {NEXT}", "D@0 A@3 B@4 C@5 C@6") == ["a1 b2 c4"]
    assert matched(f"SEQ(NEG D n, A a) WITHIN 5ns {NEXT}", "D@0 A@5 A@6") == ["a2"]
