"""Worked cases by hand for windows, strategies, selection, consumption and the rest, that pin the reference matcher.

How results are written: see `worked`; under an explicit window ``w0`` stands before, the window's id.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import harness
import naive
import pytest
from worked import SCHEMA, VALUES, show

from fastcep.events import Schema
from fastcep.query import ast, parse

NUMBERED = Schema({"A": VALUES, "B": VALUES, "C": VALUES, "D": {"k": "int64"}}, time="ts", type="type", sequence="n")


def make(text: str, schema: Schema = SCHEMA, adjacent: str = "", consecutive: str = "", **clauses: Any) -> ast.Query:
    """A query; ``adjacent`` names variables with NEXT before them, ``consecutive`` those that are CONSECUTIVE."""
    query = parse(f"PATTERN {text}", schema)
    return dataclasses.replace(query, pattern=marked(query.pattern, adjacent, consecutive), **clauses)


def marked(pattern: ast.Pattern, adjacent: str, consecutive: str) -> ast.Pattern:
    """The pattern with NEXT and CONSECUTIVE; a part is named by its first variable, a group by its own."""
    match pattern:
        case ast.Sequence(members):
            places = tuple(place for place, part in enumerate(members) if first_name(part) in adjacent.split())
            return ast.Sequence(tuple(marked(part, adjacent, consecutive) for part in members), places)
        case ast.Group():
            inner = marked(pattern.pattern, adjacent, consecutive)
            return dataclasses.replace(pattern, pattern=inner, consecutive=pattern.variable in consecutive.split())
        case ast.Member():
            return dataclasses.replace(pattern, consecutive=pattern.variable in consecutive.split())
    return pattern


def first_name(pattern: ast.Pattern) -> str:
    """The name of a variable, of a group, of the first part."""
    if isinstance(pattern, ast.Member | ast.Negation | ast.Group):
        return pattern.variable
    assert isinstance(pattern, ast.Sequence | ast.Conjunction | ast.Disjunction | ast.AnyOf)
    return first_name(pattern.members[0])


def on(types: str, variable: str, where: str | None = None) -> ast.Bound:
    """``ON T x WHERE …`` of a window that opens with ``A o`` and closes with ``C c``, or the like."""
    condition = None if where is None else parse(f"PATTERN SEQ(A o, C c) WHERE {where} WITHIN 1ns", SCHEMA).where
    return ast.Bound(types=tuple(types.split("|")), variable=variable, where=condition)


def number(n: int) -> ast.Bound:
    """``EVERY n EVENTS``, ``AFTER n EVENTS``."""
    return ast.Bound(events=n)


def span(nanoseconds: int) -> ast.Bound:
    """``EVERY t``, ``AFTER t``."""
    return ast.Bound(nanoseconds=nanoseconds)


def window(opening: ast.Bound, closing: ast.Bound) -> ast.ExplicitWindow:
    return ast.ExplicitWindow(opening, closing)


ON_A = on("A", "o")


def results(query: ast.Query, events: str) -> list[str]:
    """The reference's matches in order; what has waited for time with ``@@`` and its time."""
    found = naive.find_matches(query, harness.stream(query.schema, events))
    if not isinstance(query.pattern, ast.Periodic) and query.limit is None and not may_wait(query.pattern):
        assert [m.bindings for m in found] == [
            m.bindings for m in naive.find_matches(query, harness.stream(query.schema, events), by_runs=True)
        ]
    return [
        ("" if m.window_id is None else f"w{m.window_id} ")
        + show(query, m.bindings)
        + (f" @@{m.detected_at}" if m.deferred else "")
        for m in found
    ]


def may_wait(pattern: ast.Pattern) -> bool:
    return isinstance(pattern, ast.Sequence) and isinstance(pattern.members[-1], ast.Negation)


def found(text: str, events: str, schema: Schema = SCHEMA, **clauses: Any) -> list[str]:
    return results(make(text, schema, **clauses), events)


def following(text: str, events: str, **clauses: Any) -> list[str]:
    """The same, skipping till the next match."""
    return found(text, events, strategy="skip_till_next", **clauses)


# ------------------------------------------------------- selection and consumption

TABLE: Sequence[tuple[str, str, str, list[str]]] = [
    ("first", "consumed", "A1 A2 B3 B4", ["a1 b3", "a2 b4"]),
    ("first", "consumed", "A1 B3 B4", ["a1 b3"]),
    ("first", "consumed", "A2 B3 B4", ["a2 b3"]),
    ("first", "zero", "A1 A2 B3 B4", ["a1 b3", "a1 b4"]),
    ("last", "zero", "A1 A2 B3 B4", ["a2 b3", "a2 b4"]),
    ("last", "consumed", "A1 A2 B3 B4", ["a2 b3"]),
    ("each", "zero", "A1 A2 B3 B4", ["a1 b3", "a2 b3", "a1 b4", "a2 b4"]),
    ("cumulative", "zero", "A1 A2 B3 B4", ["a1,2 b3", "a1,2 b4"]),
    # Not in the table: by the same rules.
    ("each", "consumed", "A1 A2 B3 B4", ["a1 b3", "a2 b3"]),
    ("cumulative", "consumed", "A1 A2 B3 B4", ["a1,2 b3"]),
]


@pytest.mark.parametrize(("select", "consume", "stream", "wanted"), TABLE)
def test_the_worked_table(select: str, consume: str, stream: str, wanted: list[str]) -> None:
    """A window with the events A1 A2 B3 B4, and with one of them dropped."""
    policies: dict[str, Any] = {"schema": NUMBERED, "select": select, "consume": consume}
    assert found("SEQ(A a, B b) WITHIN UNBOUNDED", stream, **policies) == wanted
    opener = stream[1]
    explicit = found("SEQ(A a, B b) WITHIN UNBOUNDED", stream, window=window(number(9), number(9)), **policies)
    assert explicit == [f"w{opener} {one}" for one in wanted]


@pytest.mark.parametrize("consume", ["zero", "consumed"])
def test_last_supersedes_in_the_same_state_only(consume: str) -> None:
    assert found("SEQ(A a, B b, C c) WITHIN 9ns", "A B A C", select="last", consume=consume) == ["a0 b1 c3"]


def test_last_takes_the_longer_of_two_that_begin_alike() -> None:
    assert found("SEQ(A a, B+ b[], C c) WITHIN 9ns", "A B B C", select="last") == ["a0 b1,2 c3"]
    assert found("SEQ(A a, B+ b[], C c) WITHIN 9ns", "A B B C", select="first") == ["a0 b1,2 c3"]  # 0 1 2 3 < 0 1 3


def test_first_goes_by_all_events_in_order() -> None:
    assert found("AND(A a, B b, C c) WITHIN 9ns", "B A A C", select="first") == ["a1 b0 c3"]


def test_ties_go_by_birth_order() -> None:
    text = "SEQ(OR(A a, A b), C c) WITHIN 9ns"
    assert found(text, "A C", select="first") == found(text, "A C", select="last") == ["a0 b- c1"]


def test_selection_is_for_each_detecting_event() -> None:
    assert found("OR(SEQ(A a, B b), C c) WITHIN 9ns", "A A B C", select="first") == ["a0 b2 c-", "a- b- c3"]


def test_cumulative_of_kleene_groups_and_what_is_not_bound() -> None:
    assert found("SEQ(A a, B+ b[]) WITHIN 9ns", "A A B", select="cumulative") == ["a0,1 b2"]
    assert found("OR(A a, B b) WITHIN 9ns", "A", select="cumulative") == ["a0 b[]"]
    assert found("SEQ((SEQ(A a, B? b))+ g[]) WITHIN 9ns", "A A", select="cumulative") == ["g.a0 g.b[]", "g.a0,1 g.b[]"]


def test_consumed_events_are_no_negated_events() -> None:
    text = "OR(SEQ(A a, NEG C n, B b), SEQ(C c, D d)) WITHIN 9ns"
    assert found(text, "A C D B") == ["a- b- c1 d2"]
    assert found(text, "A C D B", consume="consumed") == ["a- b- c1 d2", "a0 b3 c- d-"]
    # The negation is judged when its right neighbour is bound: then the C was still there.
    text = "OR(SEQ(A a, NEG C n, B b, A e), SEQ(C c, D d)) WITHIN 9ns"
    assert found(text, "A C B D A", consume="consumed") == ["a- b- e- c1 d3"]


def test_each_reports_all_that_end_in_an_event_before_they_are_consumed() -> None:
    assert found("SEQ(A a, B+ b[]) WITHIN 9ns", "A B B", consume="consumed") == ["a0 b1"]
    assert found("SEQ(A a, B+ b[], C c) WITHIN 9ns", "A B B C C", consume="consumed") == [
        "a0 b1 c3", "a0 b2 c3", "a0 b1,2 c3",
    ]  # fmt: skip


def test_consumption_under_skip_till_next() -> None:
    # Both partial matches have gone on with B2; what was not reported is not there for B3.
    assert following("SEQ(A a, B b) WITHIN 9ns", "A A B B", select="first", consume="consumed") == ["a0 b2"]
    assert found("SEQ(A a, B b) WITHIN 9ns", "A A B B", select="first", consume="consumed") == ["a0 b2", "a1 b3"]


# --------------------------------------------------------------------- AFTER MATCH


def test_skip_to_next() -> None:
    skip: dict[str, Any] = {"after_match": "skip to next"}
    assert found("SEQ(A a, B b) WITHIN 9ns", "A A B B", **skip) == ["a0 b2", "a1 b2"]
    assert found("SEQ(A a, B+ b[]) WITHIN 9ns", "A B B", **skip) == ["a0 b1"]
    # Of those that start alike and end in one event, the first in birth order.
    assert found("SEQ(A a, B b, C c) WITHIN 9ns", "A B B C", **skip) == ["a0 b1 c3"]


def test_skip_past_last() -> None:
    skip: dict[str, Any] = {"after_match": "skip past last"}
    assert found("SEQ(A a, B b) WITHIN 9ns", "A A B B A B", **skip) == ["a0 b2", "a4 b5"]
    # The earliest start is served first, though it is born later.
    assert found("SEQ(A a, B? b, C c) WITHIN 9ns", "A A B C", **skip) == ["a0 b- c3"]
    assert found("OR(SEQ(A a, A b, B c), SEQ(A d, B e)) WITHIN 9ns", "A A B", **skip) == ["a0 b1 c2 d- e-"]


def test_skip_when_a_pattern_times_out() -> None:
    """What times out is no match, so it skips nothing."""
    for strategy in ("skip_till_any", "skip_till_next"):
        clauses: dict[str, Any] = {"strategy": strategy, "after_match": "skip past last"}
        assert found("SEQ(A a, B b) WITHIN 3ns", "A@0 A@2 B@4 B@5", **clauses) == ["a1 b2"]
        assert found("SEQ(A a, B b, C c) WITHIN 3ns", "A@0 B@1 A@2 B@3 B@4 C@5", **clauses)[:1] == ["a2 b3 c5"]


def test_skip_after_selection() -> None:
    clauses: dict[str, Any] = {"select": "last", "after_match": "skip past last"}
    assert found("SEQ(A a, B b) WITHIN 9ns", "A A B B A B", **clauses) == ["a1 b2", "a4 b5"]
    clauses = {"select": "cumulative", "after_match": "skip to next"}
    # Only what starts with the first event of the complex event is dropped.
    assert found("SEQ(A a, B b) WITHIN 9ns", "A A B B", **clauses) == ["a0,1 b2", "a1 b3"]


# ------------------------------------------------------------------ skip_till_next


def test_a_run_goes_on_with_the_next_event_that_fits() -> None:
    assert following("SEQ(A a, B b) WITHIN 9ns", "A A B B") == ["a0 b2", "a1 b2"]
    assert following("SEQ(A a, B b) WHERE a.v < b.v WITHIN 9ns", "A(v=2) B(v=1) B(v=3) B(v=4)") == ["a0 b2"]
    assert following("SEQ(A a, B b) WITHIN 9ns PARTITION BY k", "A(k=1) B(k=2) B B(k=1) B(k=1)") == ["a0 b3"]


def test_kleene_takes_all_it_can() -> None:
    assert following("SEQ(A a, B+ b[], C c) WITHIN 9ns", "A B B C C") == ["a0 b1,2 c3"]
    assert following("SEQ(A a, B* b[], C c) WITHIN 9ns", "A B B C C") == ["a0 b1,2 c3"]
    assert following("SEQ(A a, B{1,2} b[], C c) WITHIN 9ns", "A B B B C") == ["a0 b1,2 c4"]
    assert following("SEQ(A a, B{3,} b[], C c) WITHIN 9ns", "A B B C B C") == ["a0 b1,2,4 c5"]


def test_every_length_at_the_end_of_the_pattern() -> None:
    assert following("SEQ(A a, B+ b[]) WITHIN 9ns", "A B B") == ["a0 b1", "a0 b1,2"]
    assert following("SEQ(A a, B* b[]) WITHIN 9ns", "A B B") == ["a0 b[]", "a0 b1", "a0 b1,2"]


def test_take_and_proceed() -> None:
    # Event 1 grows the loop and is the next member too.
    assert following("SEQ(A+ a[], A b) WITHIN 9ns", "A A A") == ["a0 b1", "a1 b2", "a0,1 b2"]


def test_an_optional_member_must_take_what_it_can() -> None:
    assert following("SEQ(A a, B? b, C c) WITHIN 9ns", "A B C") == ["a0 b1 c2"]
    assert following("SEQ(A a, B? b, (B|C) c) WITHIN 9ns", "A B C") == ["a0 b- c1", "a0 b1 c2"]
    # At the start each event that fits begins a run.
    assert following("SEQ(A? a, B b) WITHIN 9ns", "A B") == ["a- b1", "a0 b1"]


def test_a_copy_waits_outside_an_optional_group() -> None:
    text = "SEQ(A a, (SEQ(B b, C c))? g, D d) WITHIN 9ns"
    assert following(text, "A B D") == ["a0 g.b- g.c- d2"]
    assert following(text, "A B C D") == ["a0 g.b- g.c- d3", "a0 g.b1 g.c2 d3"]
    # Not if the event goes on without entering it as well.
    assert following("SEQ(A a, (SEQ(B b, C c))? g, B d) WITHIN 9ns", "A B B") == ["a0 g.b- g.c- d1"]
    # A further round is no entering.
    text = "SEQ(A a, (SEQ(B b, C c))* g[], D d) WITHIN 9ns"
    assert following(text, "A B C B D") == ["a0 g.b[] g.c[] d4"]


def test_or() -> None:
    assert following("SEQ(A a, OR(B b, C c)) WITHIN 9ns", "A B C") == ["a0 b1 c-"]
    assert following("OR(SEQ(A a, B b), SEQ(A c, C d)) WITHIN 9ns", "A C B") == ["a- b- c0 d1", "a0 b2 c- d-"]


def test_and_and_any() -> None:
    assert following("AND(A a, B b) WITHIN 9ns", "A B B A") == ["a0 b1", "a3 b1", "a3 b2"]
    assert following("ANY(2, A a, B b, C c) WITHIN 9ns", "A B C") == ["a0 b1 c-", "a- b1 c2"]
    assert following("ANY(2, A a, A b) WITHIN 9ns", "A A A") == ["a1 b0", "a2 b1"]
    assert following("ANY(2, A x[] DISTINCT k) WITHIN 9ns", "A(k=1) A(k=1) A(k=2)") == ["x0,2", "x1,2"]


def test_negation_is_judged_at_its_right_neighbour() -> None:
    assert following("SEQ(A a, NEG C n, B b) WITHIN 9ns", "A C B A B") == ["a3 b4"]
    text = "SEQ(A a, NEG C n, B b) WHERE n.v = b.v WITHIN 9ns"
    assert following(text, "A C(v=1) B(v=1) B(v=2)") == ["a0 b3"]
    text = "SEQ(A a, NEG C n, B b, D d) WHERE n.k = d.k WITHIN 9ns"  # not judged before d is bound
    assert following(text, "A C(k=1) B D(k=1) D(k=2)") == ["a0 b2 d4"]


def test_trailing_negation() -> None:
    assert following("SEQ(A a, B b, NEG C n) WITHIN 5ns", "A@0 B@1 B@2 D@9") == ["a0 b1 @@5"]
    assert following("SEQ(A a, B b, NEG C n) WITHIN 5ns", "A@0 B@1 B@2 C@3") == []


def test_conditions_on_elements_are_judged_at_each_take() -> None:
    text = "SEQ(A a, B+ b[], C c) WHERE b[i+1].v > b[i].v WITHIN 9ns"
    assert following(text, "A B(v=1) B(v=0) B(v=2) C") == ["a0 b1,3 c4"]
    text = "SEQ(A a, B+ b[], C c) WHERE b[first].v = 2 WITHIN 9ns"
    assert following(text, "A B(v=1) B(v=2) B(v=1) C") == ["a0 b2,3 c4"]
    assert following(text.replace("first", "1"), "A B(v=1) B(v=1) B(v=2) B C") == ["a0 b1,3,4 c5"]


def test_conditions_on_the_whole_are_judged_when_it_closes() -> None:
    # By a later member,
    text = "SEQ(A a, B+ b[], C c) WHERE COUNT(b[]) = 2 WITHIN 9ns"
    assert following(text, "A B C B C") == ["a0 b1,3 c4"]
    text = "SEQ(A a, B+ b[], C c) WHERE b[last].v = 2 WITHIN 9ns"
    assert following(text, "A B(v=2) B(v=1) C B(v=2) C") == ["a0 b1,2,4 c5"]
    # by the upper bound,
    text = "SEQ(A a, B{1,2} b[], C c) WHERE SUM(b[].v) = 3 WITHIN 9ns"
    assert following(text, "A B(v=1) B(v=1) B(v=2) C") == ["a0 b1,3 c4"]
    # or where the match ends: a length for which it does not hold is withheld, and the run goes on.
    assert following("SEQ(A a, B+ b[]) WHERE COUNT(b[]) = 2 WITHIN 9ns", "A B B B") == ["a0 b1,2"]
    assert following("SEQ(A a, B{1,2} b[]) WHERE SUM(b[].v) = 3 WITHIN 9ns", "A B(v=1) B(v=1) B(v=2)") == ["a0 b1,3"]


def test_a_run_ends_with_its_window() -> None:
    assert following("SEQ(A a, B b) WITHIN 2ns", "A@0 B@3") == []
    assert following("SEQ(A a, B b) WITHIN 2 EVENTS", "A A B") == ["a1 b2"]


# ---------------------------------------------------------------------- contiguity


def test_strict_contiguity() -> None:
    strict: dict[str, Any] = {"strategy": "strict_contiguity"}
    assert found("SEQ(A a, B b) WITHIN 9ns", "A C B A B", **strict) == ["a3 b4"]
    assert found("SEQ(A a, B+ b[], C c) WITHIN 9ns", "A B B C", **strict) == ["a0 b1,2 c3"]
    assert found("SEQ(A+ a[], A b) WITHIN 9ns", "A A A", **strict) == ["a0 b1", "a1 b2", "a0,1 b2"]
    assert found("AND(A a, B b) WITHIN 9ns", "A B A", **strict) == ["a0 b1", "a2 b1"]
    assert found("SEQ(A a, B b) WITHIN 9ns PARTITION BY k", "A(k=1) C(k=2) B(k=1)", **strict) == []


def test_partition_contiguity() -> None:
    text = "SEQ(A a, B b) WITHIN 9ns PARTITION BY k"
    contiguous: dict[str, Any] = {"strategy": "partition_contiguity"}
    assert found(text, "A(k=1) B(k=2) B(k=1) B(k=1)", **contiguous) == ["a0 b2"]
    assert found(text, "A(k=1) D(k=1) B(k=1)", **contiguous) == []
    assert found(text, "A(k=1) D B(k=1)", **contiguous) == ["a0 b2"]  # a null is in no partition


def test_partition_contiguity_and_types_without_the_key() -> None:
    schema = Schema({"A": {"k": "int64"}, "B": {"k": "int64"}, "C": {"v": "int64"}}, time="ts", type="type")
    text = "SEQ(A a, B b) WITHIN 9ns PARTITION BY k"
    assert found(text, "A(k=1) C(v=1) B(k=1)", schema, strategy="partition_contiguity") == ["a0 b2"]


def test_consumed_events_still_lie_between() -> None:
    text = "OR(C c, SEQ(A a, B b)) WITHIN 9ns"
    assert found(text, "A C B A B", strategy="strict_contiguity", consume="consumed") == ["c1 a- b-", "c- a3 b4"]


def test_next() -> None:
    assert found("SEQ(A a, B b) WITHIN 9ns", "A C B A B", adjacent="b") == ["a3 b4"]
    assert found("SEQ(A a, B b, C c) WITHIN 9ns", "A B D C", adjacent="b") == ["a0 b1 c3"]
    assert found("SEQ(A a, B b) WITHIN 9ns PARTITION BY k", "A(k=1) B(k=2) B(k=1)", adjacent="b") == ["a0 b2"]


def test_next_is_about_the_last_event_bound_before() -> None:
    assert found("SEQ(A a, B? b, C c) WITHIN 9ns", "A B C", adjacent="c") == ["a0 b1 c2"]
    assert found("SEQ(A a, B? b, C c) WITHIN 9ns", "A C", adjacent="c") == ["a0 b- c1"]
    assert found("SEQ(A? a, B b) WITHIN 9ns", "A C B", adjacent="b") == ["a- b2"]  # no effect if none is bound


def test_next_is_about_the_first_event_of_its_member() -> None:
    assert found("SEQ(A a, B+ b[]) WITHIN 9ns", "A B C B", adjacent="b") == ["a0 b1", "a0 b1,3"]
    assert found("SEQ(A a, AND(B b, C c)) WITHIN 9ns", "A C D B", adjacent="b") == ["a0 b3 c1"]
    assert found("SEQ(A a, AND(B b, C c)) WITHIN 9ns", "A D C B", adjacent="b") == []
    text = "SEQ(A a, (SEQ(B b, C c))* g[]) WITHIN 9ns"
    assert found(text, "A B D C", adjacent="g") == ["a0 g.b[] g.c[]", "a0 g.b1 g.c3"]
    assert found(text, "A D B C", adjacent="g") == ["a0 g.b[] g.c[]"]


def test_next_in_a_group_is_about_its_round() -> None:
    text = "SEQ((SEQ(A a, B b))+ g[]) WITHIN 9ns"
    assert found(text, "A B D A B", adjacent="b") == ["g.a0 g.b1", "g.a3 g.b4", "g.a0,3 g.b1,4"]


def test_consecutive() -> None:
    text = "SEQ(A a, B+ b[], C c) WITHIN 9ns"
    assert found(text, "A B C B C", consecutive="b") == ["a0 b1 c2", "a0 b1 c4", "a0 b3 c4"]
    assert following(text, "A B D B C", consecutive="b") == ["a0 b1 c4"]  # the loop can only be left
    text += " PARTITION BY k"
    assert following(text, "A(k=1) B(k=1) B(k=2) B(k=1) C(k=1)", consecutive="b") == ["a0 b1,3 c4"]


def test_consecutive_rounds() -> None:
    text = "SEQ((SEQ(A a, B b))+ g[]) WITHIN 9ns"
    assert found(text, "A C B A B", consecutive="g") == ["g.a0 g.b2", "g.a0 g.b4", "g.a3 g.b4", "g.a0,3 g.b2,4"]
    assert found(text, "A B C A B", consecutive="g") == ["g.a0 g.b1", "g.a0 g.b4", "g.a3 g.b4"]


# ------------------------------------------------------------------------- windows

AB = "SEQ(A a, B b) WITHIN UNBOUNDED"


def test_an_event_opens_a_window_that_time_closes() -> None:
    both = window(ON_A, span(2))
    assert found(AB, "A@0 B@2 B@3", window=both) == ["w0 a0 b1"]  # up to the end, inclusive
    assert found(AB, "B@0 A@0 B@0 A@9", window=both) == ["w1 a1 b2"]  # the opening event is in it
    chosen = window(on("A", "o", "o.v = 1"), span(9))
    assert found(AB, "A A(v=1) B A(v=2)", window=chosen) == ["w1 a1 b2"]  # unknown does not open


def test_the_same_match_in_two_windows() -> None:
    assert found(AB, "A A B", window=window(ON_A, span(9))) == ["w0 a0 b2", "w0 a1 b2", "w1 a1 b2"]


def test_the_window_id_is_a_sequence_number() -> None:
    assert found(AB, "A7 B9", NUMBERED, window=window(ON_A, span(9))) == ["w7 a7 b9"]


def test_windows_by_count() -> None:
    assert found(AB, "A B A B", window=window(number(2), number(2))) == ["w0 a0 b1", "w2 a2 b3"]
    assert found(AB, "A C C B B", window=window(number(3), number(4))) == ["w0 a0 b3"]
    assert found(AB, "A A B", window=window(number(1), number(2))) == ["w1 a1 b2"]
    assert found(AB, "A C B", window=window(ON_A, number(2))) == []


def test_windows_by_time() -> None:
    tumbling = window(span(5), span(4))
    # Opened by the first event of each slide; none opens in an empty one.
    assert found(AB, "A@1 B@4 A@4 B@6 A@20 B@24", window=tumbling) == ["w0 a0 b1", "w4 a4 b5"]
    assert found(AB, "A@-1 B@0 A@0 B@4", window=tumbling) == [
        "w0 a0 b1", "w1 a2 b3",
    ]  # fmt: skip
    assert found(AB, "A@4 A@4 B@8 B@9", window=tumbling) == ["w0 a0 b2", "w0 a1 b2"]


def test_a_window_that_an_event_closes() -> None:
    clause = window(ON_A, on("C", "c", "c.k = o.k"))
    stream = "A(k=1) A(k=2) C(k=2) B C(k=1) B"
    assert found(AB, stream, window=clause) == ["w0 a0 b3", "w0 a1 b3"]
    # The closing event is in it.
    assert found("SEQ(A a, C c) WITHIN UNBOUNDED", stream, window=clause) == [
        "w0 a0 c2", "w0 a1 c2", "w1 a1 c2", "w0 a0 c4", "w0 a1 c4",
    ]  # fmt: skip


def test_an_event_does_not_close_its_own_window() -> None:
    clause = window(ON_A, on("A|B", "c"))
    assert found("SEQ(A a, A b) WITHIN UNBOUNDED", "A A A", window=clause) == ["w0 a0 b1", "w1 a1 b2"]


def test_a_window_without_its_closing_event_stays_open() -> None:
    assert found(AB, "A@0 B@999", window=window(ON_A, on("C", "c"))) == ["w0 a0 b1"]


def test_windows_do_not_mind_partitions() -> None:
    text = "SEQ(A a, B b) WITHIN UNBOUNDED PARTITION BY k"
    assert found(text, "A(k=1) A(k=2) B(k=2)", window=window(ON_A, span(9))) == ["w0 a1 b2", "w1 a1 b2"]


def test_leading_negation_counts_from_the_opening_event() -> None:
    text = "SEQ(NEG C n, A a, B b) WITHIN 9ns"
    clause = window(on("D", "o"), span(9))
    assert found(text, "C D A B", window=clause) == ["w1 a2 b3"]
    assert found(text, "D C A B", window=clause) == []
    assert found(text, "C A B", window=window(on("C", "o"), span(9))) == []
    assert following("SEQ(NEG C n, A a, B b) WHERE n.v = b.v WITHIN 9ns", "D C(v=1) A B(v=1) B", window=clause) == [
        "w0 a2 b4"
    ]


def test_trailing_negation_counts_to_the_end() -> None:
    text = "SEQ(A a, NEG C n) WITHIN 9ns"
    assert found(text, "A@0 B@2", window=window(ON_A, span(5))) == ["w0 a0 @@5"]
    assert found(text, "A@0 C@5", window=window(ON_A, span(5))) == []
    assert found(text, "A@0 C@6", window=window(ON_A, span(5))) == ["w0 a0 @@5"]


@pytest.mark.parametrize("closing", [number(3), on("D", "c")])
def test_a_window_that_ends_with_an_event_decides_with_it(closing: ast.Bound) -> None:
    query = make("SEQ(A a, NEG C n) WITHIN 9ns", window=window(ON_A, closing))
    (match,) = naive.find_matches(query, harness.stream(SCHEMA, "A@0 B@1 D@3 B@4"))
    assert (match.detected_at, match.last, match.deferred, match.window_id) == (3, 2, False, 0)
    assert results(query, "A@0 C@1 D@3") == []
    assert results(query, "A@0 B@1") == ["w0 a0 @@1"]  # ends with the stream


def test_limit() -> None:
    clause = window(ON_A, span(9))
    assert found(AB, "A A B B", window=clause, limit=1) == ["w0 a0 b2", "w1 a1 b2"]
    assert found(AB, "A A B B", window=clause, limit=3) == [
        "w0 a0 b2", "w0 a1 b2", "w1 a1 b2", "w0 a0 b3", "w1 a1 b3",
    ]  # fmt: skip
    assert found(AB, "A A B", window=clause, limit=1, select="last") == ["w0 a1 b2", "w1 a1 b2"]


def test_policies_are_for_each_window() -> None:
    clause = window(ON_A, span(9))
    assert found(AB, "A A B B", window=clause, consume="consumed", select="first") == [
        "w0 a0 b2", "w1 a1 b2", "w0 a1 b3",
    ]  # fmt: skip
    assert found(AB, "A A B B", window=clause, after_match="skip past last") == ["w0 a0 b2", "w1 a1 b2"]


# ----------------------------------------------------------------------- timed out


def late(text: str, events: str, **clauses: Any) -> list[str]:
    """What times out: bindings, time, and what it waits for."""
    query = make(text, **clauses)
    return [
        f"{show(query, one.bindings)} @{one.timed_out_at} {one.bound} for {','.join(one.waits_for)}"
        for one in naive.timed_out(query, harness.stream(SCHEMA, events))
    ]


def test_what_times_out() -> None:
    text, events = "SEQ(A a, B b, C c) WITHIN 5ns", "A@0 B@1 D@9"
    assert late(text, events) == ["a0 b- c- @5 1 for b", "a0 b1 c- @5 2 for c"]
    assert late(text, events, strategy="skip_till_next") == ["a0 b1 c- @5 2 for c"]
    assert late(text, events, strategy="strict_contiguity") == ["a0 b1 c- @5 2 for c"]
    assert late(text, "A@0 B@1 D@2 D@9", strategy="strict_contiguity") == []  # nothing could come any more
    assert late(text, "A@0 D@2 D@9", adjacent="b") == []


def test_a_match_does_not_time_out() -> None:
    assert late("SEQ(A a, B+ b[]) WITHIN 5ns", "A@0 B@1 D@9") == ["a0 b[] @5 1 for b"]
    assert late("SEQ(A a, B? b, C? c) WITHIN 5ns", "A@0 D@9") == []


def test_when_it_times_out() -> None:
    assert late("SEQ(A a, B b) WITHIN 2 EVENTS", "A@0 D@4 D@6 A@9") == ["a0 b- @6 1 for b", "a3 b- @9 1 for b"]
    assert late(AB, "A@0 D@4", window=window(ON_A, span(9))) == ["a0 b- @9 1 for b"]
    assert late(AB, "A@0 D@4 D@6", window=window(ON_A, number(2))) == ["a0 b- @4 1 for b"]
    assert late(AB, "A@0 C@4 D@6", window=window(ON_A, on("C", "c"))) == ["a0 b- @4 1 for b"]


def test_what_is_dropped_does_not_time_out() -> None:
    text = "SEQ(A a, B b, C c) WITHIN 5ns"
    assert late(text, "A@0 B@1 C@2", consume="consumed") == []
    assert late(text, "A@0 A@0 B@1 C@2", after_match="skip to next") == []
    assert late(AB, "A@0 A@0 B@1", window=window(ON_A, span(5)), limit=1) == []


def test_what_it_waits_for() -> None:
    assert late("SEQ(A a, B? b, OR(C c, D d)) WITHIN 5ns", "A@0") == ["a0 b- c- d- @5 1 for b,c,d"]
