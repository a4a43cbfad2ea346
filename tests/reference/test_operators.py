"""Cases worked by hand for every operator, which define the reference matcher. See `worked` for the notation."""

from __future__ import annotations

from typing import Any

import pytest
from support import harness
from support.worked import SCHEMA, found, found_at

from fastcep.query import parse
from reference import matcher as naive


def returned(text: str, events: str) -> list[Any]:
    """Return the RETURN columns of each match."""
    query = parse(f"PATTERN {text}", SCHEMA)
    stream = harness.stream(SCHEMA, events)
    rows = [naive.return_values(query, match, stream) for match in naive.find_matches(query, stream)]
    return [tuple(row.values()) for row in rows]


# ---------------------------------------------------------------------- SEQ, AND


def test_a_seq_in_a_seq_is_the_same_written_out() -> None:
    for text in ("SEQ(A a, SEQ(B b, C c), D d)", "SEQ(A a, B b, C c, D d)"):
        assert found(f"{text} WITHIN 9ns", "A B C B D") == ["a0 b1 c2 d4"]


def test_and_takes_any_order() -> None:
    assert found("AND(A a, B b) WITHIN 9ns", "A B A") == ["a0 b1", "a2 b1"]


def test_and_interleaves() -> None:
    assert found("AND(SEQ(A a, B b), SEQ(C c, D d)) WITHIN 9ns", "A C B D") == ["a0 b2 c1 d3"]
    assert found("AND(A+ a[], B b) WITHIN 9ns", "A B A") == ["a0 b1", "a2 b1", "a0,2 b1"]


def test_and_in_a_seq_stands_as_a_whole() -> None:
    assert found("SEQ(AND(A a, B b), C c) WITHIN 9ns", "A C B C") == ["a0 b2 c3"]


def test_and_of_one_type_uses_an_event_once() -> None:
    assert found("AND(A a, A b) WITHIN 9ns", "A A") == ["a1 b0", "a0 b1"]
    assert found("AND(A a, A b) WHERE a.v < b.v WITHIN 9ns", "A(v=2) A(v=1)") == ["a1 b0"]


def test_and_with_optional_parts() -> None:
    assert found("AND(A? a, B? b) WITHIN 9ns", "B A") == ["a- b0", "a1 b-", "a1 b0"]


def test_the_window_is_about_the_first_and_the_last_event() -> None:
    assert found("AND(A a, B b) WITHIN 3ns", "B@0 A@3 B@7") == ["a1 b0"]
    assert found("AND(A a, B b) WITHIN 2 EVENTS", "B C A B") == ["a2 b3"]


# ----------------------------------------------------------------------------- OR


def test_or_takes_exactly_one_branch() -> None:
    assert found("OR(A a, B b) WITHIN 9ns", "A B") == ["a0 b-", "a- b1"]
    assert found("SEQ(A a, OR(B b, SEQ(C c, D d))) WITHIN 9ns", "A C B D") == ["a0 b2 c- d-", "a0 b- c1 d3"]


def test_or_of_one_type_binds_each_variable_in_turn() -> None:
    assert found("OR(A a, A b) WITHIN 9ns", "A") == ["a0 b-", "a- b0"]


def test_or_with_a_branch_that_may_be_empty() -> None:
    assert found("SEQ(A a, OR(B? b, C c)) WITHIN 9ns", "A B") == ["a0 b- c-", "a0 b1 c-"]
    assert found("SEQ(A a, OR(B? b, C? c)) WITHIN 9ns", "A") == ["a0 b- c-"]


def test_conditions_on_a_branch_not_taken_do_not_apply() -> None:
    text = "OR(SEQ(A a, B b), SEQ(A c, C d)) WHERE a.v = b.v AND c.k = d.k WITHIN 9ns"
    assert found(text, "A(v=1) B(v=2) C") == []
    assert found(text, "A(v=1,k=3) B(v=1) C(k=3)") == ["a0 b1 c- d-", "a- b- c0 d2"]


def test_count_of_a_branch_not_taken_does_not_apply() -> None:
    text = "SEQ(A a, OR(SEQ(B b, C* c[]), D d)) WHERE COUNT(c[]) = {} WITHIN 9ns"
    assert found(text.format(0), "A B C D") == ["a0 b1 c[] d-", "a0 b- c[] d3"]
    assert found(text.format(1), "A B C D") == ["a0 b1 c2 d-", "a0 b- c[] d3"]


def test_the_innermost_branch_decides_about_count() -> None:
    text = "OR(SEQ(A a, OR(B* b[], C c)), D d) WHERE COUNT(b[]) = 7 WITHIN 9ns"
    assert found(text, "A B C") == ["a0 b[] c- d-", "a0 b[] c2 d-"]


def test_count_of_what_is_absent_is_zero_in_return() -> None:
    assert returned(
        "OR(A+ a[], B b) WITHIN 9ns RETURN COUNT(a[]) AS n, a[].v AS l, SUM(a[].v) AS s, b.v AS v", "B"
    ) == [(0, [], None, None)]


# ---------------------------------------------------------------------------- ANY


def test_any_takes_so_many_in_any_order() -> None:
    assert found("ANY(2, A a, B b, C c) WITHIN 9ns", "C A B") == ["a1 b- c0", "a- b2 c0", "a1 b2 c-"]


def test_any_gives_each_set_of_events_once() -> None:
    # Of a1 b0 and a0 b1 the first in birth order: the earlier variable binds the last event.
    assert found("ANY(2, A a, A b) WITHIN 9ns", "A A") == ["a1 b0"]
    assert found("ANY(1, A a, A b) WITHIN 9ns", "A A") == ["a0 b-", "a1 b-"]
    assert len(found("ANY(2, A a, A b, A c) WITHIN 9ns", "A A A")) == 3


def test_any_keeps_the_first_that_satisfies_the_conditions() -> None:
    assert found("ANY(2, A a, A b) WHERE a.v < b.v WITHIN 9ns", "A(v=1) A(v=2)") == ["a0 b1"]


def test_any_beside_others_is_about_the_whole_match() -> None:
    # The same two events of the ANY with another C is another set.
    assert found("SEQ(ANY(2, A a, A b), C c) WITHIN 9ns", "A A C C") == ["a1 b0 c2", "a1 b0 c3"]
    # With a variable outside the ANY nothing is dropped.
    assert found("AND(ANY(1, A a, A b), A c) WITHIN 9ns", "A A") == ["a1 b- c0", "a0 b- c1"]


def test_any_of_one_type() -> None:
    assert found("ANY(2, A x[]) WITHIN 9ns", "A A A") == ["x0,1", "x0,2", "x1,2"]
    assert found("ANY(2, A x[] DISTINCT k) WITHIN 9ns", "A(k=1) A(k=1) A(k=2)") == ["x0,2", "x1,2"]


def test_distinct_and_null() -> None:
    assert found("ANY(2, A x[] DISTINCT k) WITHIN 9ns", "A A(k=1) A") == []
    assert found("ANY(1, A x[] DISTINCT k) WITHIN 9ns", "A") == ["x0"]
    assert found("ANY(2, A x[] DISTINCT f) WITHIN 9ns", "A(f=nan) A(f=nan)") == ["x0,1"]


# -------------------------------------------------------------------------- groups


def test_rounds_follow_each_other() -> None:
    assert found("SEQ((SEQ(A a, B b))+ g[]) WITHIN 9ns", "A B A B") == [
        "g.a0 g.b1", "g.a0 g.b3", "g.a2 g.b3", "g.a0,2 g.b1,3",
    ]  # fmt: skip
    assert found("SEQ((SEQ(A a, B b)){2} g[]) WITHIN 9ns", "A A B B") == []


def test_a_star_group_may_be_empty() -> None:
    assert found("SEQ((SEQ(A a, B b))* g[], C c) WITHIN 9ns", "A B C") == ["g.a[] g.b[] c2", "g.a0 g.b1 c2"]


def test_an_optional_group_has_single_variables() -> None:
    assert found("SEQ((SEQ(A a, B b))? g, C c) WITHIN 9ns", "A B C") == ["g.a- g.b- c2", "g.a0 g.b1 c2"]
    text = "SEQ((SEQ(A a, B b))? g, C c) WHERE g.a.v = c.v WITHIN 9ns"
    assert found(text, "A(v=1) B C(v=2)") == ["g.a- g.b- c2"]


def test_rounds_need_not_bind_every_variable() -> None:
    assert found("SEQ((SEQ(A a, B? b)){2} g[]) WITHIN 9ns", "A B A") == ["g.a0,2 g.b-,-", "g.a0,2 g.b1,-"]


def test_where_a_round_is_cut_breaks_the_tie() -> None:
    # b2 in the round of a1 or of a3: the round that goes on comes first.
    text = "SEQ((AND(A a, B? b)){2} g[]) WHERE COUNT(g[].b.k) = 1 WITHIN 9ns"
    assert found(text, "A B(k=1) A") == ["g.a0,2 g.b-,-", "g.a0,2 g.b1,-", "g.a0,2 g.b-,1"]


def test_conditions_over_rounds() -> None:
    stream = "A(v=1,k=1) B(v=2,k=1) A(v=3,k=2) B(v=4,k=2)"
    text = "SEQ((SEQ(A a, B b))+ g[]) WHERE {} WITHIN 9ns"
    both = "g.a0,2 g.b1,3"
    assert found(text.format("g[i].a.k = g[i].b.k"), stream) == ["g.a0 g.b1", "g.a2 g.b3", both]
    assert found(text.format("g[i+1].a.v > g[i].b.v AND COUNT(g[]) = 2"), stream) == [both]
    assert found(text.format("g[first].a.v = 1 AND g[last].b.v = 4"), stream) == ["g.a0 g.b3", both]
    assert found(text.format("SUM(g[].a.v) = 4"), stream) == [both]
    assert found(text.format("g[1].a.v = 9"), stream) == ["g.a0 g.b1", "g.a0 g.b3", "g.a2 g.b3"]  # no second round


def test_an_index_skips_a_round_that_does_not_bind() -> None:
    text = "SEQ((SEQ(A a, B? b)){2} g[]) WHERE %s WITHIN 9ns"
    stream = "A(v=1) B(v=5) A(v=2)"
    assert found(text % "g[i].b.v = 5", stream) == ["g.a0,2 g.b-,-", "g.a0,2 g.b1,-"]
    assert found(text % "g[i].b.v = 6", stream) == ["g.a0,2 g.b-,-"]
    assert found(text % "g[last].b.v = 6", stream) == ["g.a0,2 g.b-,-", "g.a0,2 g.b1,-"]
    assert found(text % "g[first].b.v = 6", stream) == ["g.a0,2 g.b-,-"]
    assert found(text % "COUNT(g[].b.v) = 0", stream) == ["g.a0,2 g.b-,-"]


def test_count_in_a_group() -> None:
    assert found("SEQ(C c, (SEQ(A a))* g[]) WHERE COUNT(g[]) = 0 WITHIN 9ns", "C A") == ["c0 g.a[]"]
    text = "SEQ((OR(A a, B b)){1} g[]) WHERE COUNT(g[].b.v) = 5 WITHIN 9ns"
    assert found(text, "A B(v=1)") == ["g.a0 g.b-"]  # b's branch is taken in no round


def test_return_of_a_group() -> None:
    text = (
        "SEQ((SEQ(A a, B? b)){2} g[]) WHERE COUNT(g[].b.v) = 1 WITHIN 9ns "
        "RETURN COUNT(g[]) AS n, g[].a.v AS a, g[].b.v AS b, g[last].b.v AS l, MAX(g[].b.v) AS m"
    )
    assert returned(text, "A(v=1) B(v=5) A(v=2)") == [
        (2, [1, 2], [None, None], None, None), (2, [1, 2], [5, None], None, 5),
    ]  # fmt: skip


def test_a_partition_holds_in_all_rounds() -> None:
    assert found("SEQ((SEQ(A a)){2} g[]) WITHIN 9ns PARTITION BY k", "A(k=1) A(k=2) A(k=1)") == ["g.a0,2"]


# ------------------------------------------------------------------------ negation


def test_negation_in_the_middle() -> None:
    text = "SEQ(A a, NEG C n, B b) WITHIN 9ns"
    assert found(text, "A B") == ["a0 b1"]
    assert found(text, "A C B") == []
    assert found(text, "C A A C A B C") == ["a4 b5"]


def test_negation_at_the_same_time_goes_by_the_streams_order() -> None:
    text = "SEQ(A a, NEG C n, B b) WITHIN 9ns"
    assert found(text, "C@1 A@1 B@1 C@1") == ["a1 b2"]
    assert found(text, "A@1 C@1 B@1") == []


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("n.v = 5", True), ("n.v = 1", False), ("n.k = a.k", False), ("n.k = b.k", True),
        ("n.v = a.v OR b.v = 1", True),
        ("n.v > a.v AND n.k = a.k", False), ("n.v > a.v AND n.k = b.k", True), ("NOT n.v = 5", False),
        ("n.f = 1", True), ("n.seq = a.seq + 1", False), ("n.time - a.time > 1ns", True),
    ],
)  # fmt: skip
def test_conditions_on_a_negated_variable(condition: str, kept: bool) -> None:
    """A negated event kills the match if all conjuncts are true; unknown is not true."""
    text = f"SEQ(A a, NEG C n, B b) WHERE {condition} WITHIN 9ns"
    assert bool(found(text, "A(k=1,v=0) C(k=1,v=1) B(k=2,v=3)")) is kept


def test_a_negation_with_an_absent_variable() -> None:
    # Without d the conjunct does not apply, so any C kills; with d only one that agrees.
    text = "SEQ(A a, NEG C n, B b, D? d) WHERE n.k = d.k WITHIN 9ns"
    assert found(text, "A C(k=1) B D(k=2)") == ["a0 b2 d3"]
    assert found(text, "A C(k=1) B D(k=1)") == []


def test_a_negation_with_every_element() -> None:
    text = "SEQ(A+ a[], NEG C n, B b) WHERE n.v > a[i].v WITHIN 9ns"
    assert found(text, "A(v=1) A(v=5) C(v=3) B") == ["a1 b3", "a0,1 b3"]


def test_neighbours_of_a_negation() -> None:
    # From the last element of a Kleene variable to the first; an optional variable that is not bound is skipped.
    assert found("SEQ(A+ a[], NEG C n, B+ b[]) WITHIN 9ns", "A C A B C B") == [
        "a2 b3", "a0,2 b3", "a2 b3,5", "a0,2 b3,5",
    ]  # fmt: skip
    assert found("SEQ(A a, NEG C n, B? b, D d) WITHIN 9ns", "A B C D") == ["a0 b1 d3"]


def test_several_negations_in_a_row() -> None:
    text = "SEQ(A a, NEG C n, NEG D m, B b) WITHIN 9ns"
    assert [bool(found(text, stream)) for stream in ("A B", "A C B", "A D B")] == [True, False, False]


def test_leading_negation() -> None:
    # No C from 5 ns before the match's last event (inclusive) up to its first event.
    text = "SEQ(NEG C n, A a, B b) WITHIN 5ns"
    assert found(text, "C@0 A@3 B@5") == []
    assert found(text, "C@0 A@3 B@6") == ["a1 b2"]
    assert found(text, "A@3 C@4 B@5") == ["a0 b2"]


def test_trailing_negation_is_decided_after_the_window() -> None:
    text = "SEQ(A a, B b, NEG C n) WITHIN 5ns"
    assert found_at(text, "A@0 B@2") == ["a0 b1 @@5"]
    assert found_at(text, "A@0 B@2 C@5") == []
    assert found_at(text, "A@0 C@1 B@2 C@6") == ["a0 b2 @@5"]


def test_deferred_by_what_is_bound() -> None:
    # With b the negation is in the middle, without it is the last.
    text = "SEQ(A a, NEG C n, B? b) WITHIN 5ns"
    assert found_at(text, "A@0 B@2 C@3") == ["a0 b1 @2"]
    assert found_at(text, "A@0 B@2") == ["a0 b1 @2", "a0 b- @@5"]


def test_deferred_after_immediate_at_the_same_time() -> None:
    text = "SEQ(A a, NEG C n, B? b) WITHIN 5ns"
    assert found_at(text, "A@0 B@5") == ["a0 b1 @5", "a0 b- @@5"]


def test_the_negated_event_is_of_the_partition() -> None:
    text = "SEQ(A a, NEG C n, B b) WITHIN 9ns PARTITION BY k"
    assert found(text, "A(k=1) C(k=2) C B(k=1)") == ["a0 b3"]
    assert found(text, "A(k=1) C(k=1) B(k=1)") == []
    assert found("SEQ(A a, NEG C n, B b) WHERE [k] WITHIN 9ns", "A(k=1) C(k=2) B(k=1)") == ["a0 b2"]


def test_an_event_that_the_match_binds_kills_too() -> None:
    assert found("AND(SEQ(A a, NEG C n, B b), C c) WITHIN 9ns", "A C B C") == []
    assert found("AND(SEQ(A a, NEG C n, B b), C c) WITHIN 9ns", "C A B") == ["a1 b2 c0"]


def test_a_negation_in_a_branch_not_taken() -> None:
    assert found("OR(SEQ(A a, NEG C n, B b), D d) WITHIN 9ns", "A C B D") == ["a- b- d3"]


def test_a_negation_in_a_group_is_about_its_round() -> None:
    text = "SEQ((SEQ(A a, NEG C n, B b))+ g[]) WITHIN 9ns"
    assert found(text, "A B C A B") == ["g.a0 g.b1", "g.a3 g.b4", "g.a0,3 g.b1,4"]
    text = "SEQ((SEQ(A a, NEG C n, B b)){2} g[]) WHERE g[i].n.k = g[i].a.k WITHIN 9ns"
    stream = "A(k=1) C(k={}) B A(k=2) C(k={}) B"
    assert [bool(found(text, stream.format(*keys))) for keys in [(2, 1), (1, 1), (2, 2)]] == [True, False, False]


def test_a_negation_in_a_nested_seq() -> None:
    assert found("AND(SEQ(A a, NEG C n, B b), D d) WITHIN 9ns", "C A D B C") == ["a1 b3 d2"]
    assert found("AND(SEQ(A a, NEG C n, B b), D d) WITHIN 9ns", "A C B D") == []


# ------------------------------------------------------------ APERIODIC, PERIODIC


def test_aperiodic() -> None:
    assert found_at("APERIODIC(A a, B b, C c) WITHIN 9ns", "A B B C B") == ["a0 b1 @1", "a0 b2 @2"]
    text = "APERIODIC(A a, B b, C c) WHERE c.k = a.k WITHIN 9ns"
    assert found(text, "A(k=1) C(k=2) B C(k=1) B") == ["a0 b2"]
    assert found("APERIODIC(AND(A a, D d), SEQ(B b, C c), C n) WITHIN 9ns", "D A B C") == ["a1 d0 b2 c3"]


def test_periodic() -> None:
    text = "PERIODIC(A a, 2ns, C c) WITHIN 6ns"
    assert found_at(text, "A@0") == ["a0 @@2", "a0 @@4", "a0 @@6"]
    assert found_at(text, "A@0 C@5") == ["a0 @@2", "a0 @@4"]
    assert found_at(text, "A@0 C@4") == ["a0 @@2"]  # at the tick's time it ends it before the tick
    assert found_at(text, "A@0 C@0") == []
    assert found_at(text, "C@0 A@0 A@1") == ["a1 @@2", "a2 @@3", "a1 @@4", "a2 @@5", "a1 @@6", "a2 @@7"]


def test_periodic_counts_from_the_last_event_in_the_window_of_the_first() -> None:
    assert found_at("PERIODIC(SEQ(A a, B b), 2ns, C c) WITHIN 5ns", "A@0 B@1 C@2 B@3") == ["a0 b3 @@5"]
    assert found_at("PERIODIC(SEQ(A a, B b), 2ns, C c) WITHIN 5ns", "A@0 B@1") == ["a0 b1 @@3", "a0 b1 @@5"]


def test_the_end_of_periodic_has_conditions() -> None:
    text = "PERIODIC(A a, 2ns, C c) WHERE c.k = a.k WITHIN 5ns"
    assert found_at(text, "A(k=1)@0 C(k=2)@1 C(k=1)@3") == ["a0 @@2"]
    text = "PERIODIC(A a, 2ns, C c) WITHIN 5ns PARTITION BY k"
    assert found_at(text, "A(k=1)@0 C(k=2)@1 C(k=1)@3") == ["a0 @@2"]


def test_ticks_at_the_same_time_are_in_birth_order() -> None:
    assert found_at("PERIODIC(A a, 2ns, C c) WITHIN 4ns", "A@0 A@2") == ["a0 @@2", "a0 @@4", "a1 @@4", "a1 @@6"]
