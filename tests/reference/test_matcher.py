"""Cases worked by hand that define the behaviour of the reference matcher.

See `worked` for the notation of results.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
from support import harness
from support.worked import SCHEMA, found

from fastcep.events import Schema
from fastcep.query import parse
from reference import matcher as naive
from reference.user_functions import own_registry, sample

E = "SEQ(A a, B b) WHERE {} WITHIN UNBOUNDED"


def value(expression: str, events: str, pattern: str = "A+ a[]") -> Any:
    """Return an expression's value in the longest match that ends last."""
    query = parse(f"PATTERN SEQ({pattern}) WITHIN UNBOUNDED RETURN {expression} AS x", SCHEMA)
    stream = harness.stream(SCHEMA, events)
    longest = max(naive.find_matches(query, stream), key=lambda match: (len(str(match.bindings)), match.detected_at))
    return naive.return_values(query, longest, stream)["x"]


# ------------------------------------------------------------- order and windows


def test_every_combination_in_birth_order() -> None:
    assert found("SEQ(A a, B b) WITHIN 10ns", "A A B B") == ["a0 b2", "a1 b2", "a0 b3", "a1 b3"]


def test_order_looks_from_the_last_binding_backwards() -> None:
    # All end in 4; the previous binding decides before the first one does.
    assert found("SEQ(A a, B b, C c) WITHIN 10ns", "A B A B C") == ["a0 b1 c4", "a0 b3 c4", "a2 b3 c4"]


def test_same_last_event_the_earlier_pattern_position_first() -> None:
    # Event 1 may be bound by a or by b: position 0 first. Then a missing previous binding comes first.
    assert found("SEQ(A+ a[], A* b[]) WITHIN 10ns", "A A") == ["a0 b[]", "a1 b[]", "a0,1 b[]", "a0 b1"]


def test_detecting_event_before_pattern_position() -> None:
    assert found("SEQ(A a, A? b, A? c) WITHIN 10ns", "A A") == ["a0 b- c-", "a1 b- c-", "a0 b1 c-", "a0 b- c1"]


def test_ties_in_time_are_ordered_by_sequence() -> None:
    assert found("SEQ(A a, B b) WITHIN 0ns", "A@5 B@5 A@5") == ["a0 b1"]
    assert found("SEQ(A a, B b) WITHIN 0ns", "B@5 A@5") == []


def test_an_event_is_used_once() -> None:
    assert found("SEQ(A a, A b) WITHIN 10ns", "A A A") == ["a0 b1", "a0 b2", "a1 b2"]


def test_time_window_is_inclusive() -> None:
    assert found("SEQ(A a, B b) WITHIN 5ns", "A@0 B@5 B@6") == ["a0 b1"]
    assert found("SEQ(A a, B b, C c) WITHIN 5ns", "A@0 A@1 B@5 C@6") == ["a1 b2 c3"]


def test_count_window_counts_every_event_of_the_stream() -> None:
    assert found("SEQ(A a, B b) WITHIN 2 EVENTS", "A B A C B") == ["a0 b1"]
    assert found("SEQ(A a, B b) WITHIN 3 EVENTS", "A B A D B") == ["a0 b1", "a2 b4"]


def test_count_window_counts_under_a_partition_too() -> None:
    text = "SEQ(A a, B b) WITHIN 2 EVENTS PARTITION BY k"
    assert found(text, "A(k=1) A(k=2) B(k=1)") == []
    assert found(text, "A(k=1) B(k=1)") == ["a0 b1"]


def test_count_window_with_gaps_in_the_sequence_numbers() -> None:
    schema = Schema({"A": {}, "B": {}}, time="ts", type="type", sequence="n")
    assert found("SEQ(A a, B b) WITHIN 2 EVENTS", "A3 B70 B71", schema) == ["a3 b70"]


def test_unbounded() -> None:
    assert found("SEQ(A a, B b) WITHIN UNBOUNDED", "A@0 B@999999999") == ["a0 b1"]


# --------------------------------------------------------- Kleene, optional, union


def test_kleene_takes_every_non_empty_subset() -> None:
    assert found("SEQ(A+ a[]) WITHIN 10ns", "A A A") == ["a0", "a1", "a0,1", "a2", "a0,2", "a1,2", "a0,1,2"]


def test_kleene_before_a_single_member() -> None:
    # Shared last event 3; then by the previous event 1 or 2; then the one without a previous binding first.
    assert found("SEQ(A a, B+ b[], C c) WITHIN 10ns", "A B B C") == ["a0 b1 c3", "a0 b2 c3", "a0 b1,2 c3"]


@pytest.mark.parametrize(
    ("quantifier", "sizes"),
    [
        ("{2}", {2}), ("{2,2}", {2}), ("{2,}", {2, 3}), ("{1,2}", {1, 2}), ("{,2}", {1, 2}), ("{0,1}", {1}),
        ("*", {1, 2, 3}),
    ],
)  # fmt: skip
def test_bounds(quantifier: str, sizes: set[int]) -> None:
    results = found(f"SEQ(A{quantifier} a[]) WITHIN 10ns", "A A A")
    assert {len(result.split(",")) for result in results} == sizes
    assert len(results) == sum(math.comb(3, size) for size in sizes)


def test_a_pattern_of_empty_members_has_no_empty_match() -> None:
    assert found("SEQ(A? a, B* b[]) WITHIN 10ns", "C") == []
    assert found("SEQ(A? a, B* b[]) WITHIN 10ns", "B A") == ["a- b0", "a1 b[]"]


def test_optional_leading_middle_and_trailing() -> None:
    assert found("SEQ(A? a, B b) WITHIN 10ns", "A B") == ["a- b1", "a0 b1"]
    assert found("SEQ(A a, B? b, C c) WITHIN 10ns", "A B C") == ["a0 b- c2", "a0 b1 c2"]
    assert found("SEQ(A a, B? b) WITHIN 10ns", "A B") == ["a0 b-", "a0 b1"]


def test_window_starts_at_the_first_bound_event() -> None:
    assert found("SEQ(A? a, B b, C c) WITHIN 5ns", "A@0 B@3 C@7") == ["a- b1 c2"]


def test_union() -> None:
    assert found("SEQ((A|B) x, C c) WITHIN 10ns", "A B C") == ["x0 c2", "x1 c2"]
    assert found("SEQ((A|B) x, C c) WHERE x.type = 'B' WITHIN 10ns", "A B C") == ["x1 c2"]


# ------------------------------------------------------------ absent and null


def test_absent_conjuncts_do_not_apply() -> None:
    text = "SEQ(A a, B? b, C c) WHERE b.v > 5 AND c.v = 1 WITHIN 10ns"
    assert found(text, "A B(v=1) C(v=1)") == ["a0 b- c2"]
    assert found(text, "A B(v=9) C(v=1)") == ["a0 b- c2", "a0 b1 c2"]
    assert found(text, "A C(v=2)") == []


def test_an_or_that_mentions_an_absent_variable_goes_as_a_whole() -> None:
    assert found("SEQ(A a, B? b) WHERE b.v = 1 OR a.v = 1 WITHIN 10ns", "A(v=2)") == ["a0 b-"]


def test_count_of_an_empty_kleene_is_zero_and_applies() -> None:
    assert found("SEQ(A a, B* b[]) WHERE COUNT(b[]) > 0 WITHIN 10ns", "A B") == ["a0 b1"]
    # another mention of the absent variable removes the conjunct
    assert found("SEQ(A a, B* b[]) WHERE COUNT(b[]) > SUM(b[].v) WITHIN 10ns", "A B(v=7)") == ["a0 b[]"]


def test_all_or_nothing() -> None:
    text = "SEQ(A a, B* b[], C c) WHERE COUNT(b[]) IN {0, 2} WITHIN 10ns"
    assert found(text, "A B B C") == ["a0 b[] c3", "a0 b1,2 c3"]


@pytest.mark.parametrize(
    ("condition", "kept"),
    [
        ("a.v = 1", False), ("a.v != 1", False), ("NOT a.v = 1", False), ("a.v = a.v", False),
        ("a.v = 1 OR b.v = 1", True), ("a.v = 1 AND b.v = 1", False), ("NOT (a.v = 1 AND b.v = 2)", True),
        ("a.v IN {1, 2}", False), ("a.v NOT IN {1, 2}", False), ("b.v IN {2, NULL}", False),
        ("b.v IN {1, NULL}", True), ("b.v NOT IN {2, NULL}", False), ("b.v NOT IN {2}", True),
        ("a.v BETWEEN 0 AND 2", False), ("b.v BETWEEN 1 AND 1", True), ("NOT b.v BETWEEN 2 AND a.v", True),
        ("b.v = NULL", False), ("a.v + 1 = 1", False), ("min(a.v, b.v) = 1", False),
    ],
)  # fmt: skip
def test_three_valued_logic(condition: str, kept: bool) -> None:
    assert found(E.format(condition), "A B(v=1)") == (["a0 b1"] if kept else [])


def test_nan() -> None:
    for condition, kept in [("a.f = a.f", 0), ("a.f != a.f", 1), ("a.f < 1", 0), ("NOT a.f < 1", 1), ("a.f IN {1}", 0)]:
        assert len(found(E.format(condition), "A(f=nan) B")) == kept, condition


def test_an_int_becomes_a_float_before_comparing() -> None:
    assert found(E.format("a.v = b.f"), "A(v=9007199254740993) B(f=9007199254740992)") == ["a0 b1"]


def test_a_removed_conjunct_for_a_missing_position() -> None:
    text = "SEQ(A a, B+ b[]) WHERE b[1].v = 7 WITHIN 10ns"
    assert found(text, "A B(v=1) B(v=7) B(v=8)") == ["a0 b1", "a0 b2", "a0 b1,2", "a0 b3", "a0 b1,2,3"]


# ------------------------------------------------------------ conditions with [i]


def test_each_element() -> None:
    text = "SEQ(A+ a[]) WHERE a[i].v > 0 WITHIN 10ns"
    assert found(text, "A(v=1) A(v=0) A(v=1) A") == ["a0", "a2", "a0,2"]


def test_pairs_of_elements_hold_for_a_single_one() -> None:
    for condition in ("a[i+1].v > a[i].v", "a[i].v > a[i-1].v"):
        assert found(f"SEQ(A+ a[]) WHERE {condition} WITHIN 10ns", "A(v=2) A(v=1) A(v=3)") == [
            "a0", "a1", "a2", "a0,2", "a1,2",
        ]  # fmt: skip


def test_a_lone_shifted_index_means_every_element() -> None:
    assert found("SEQ(A+ a[]) WHERE a[i+1].v > 0 WITHIN 10ns", "A(v=0) A(v=1)") == ["a1"]


def test_one_i_for_all_variables() -> None:
    text = "SEQ(A{1,2} a[], B{1,2} b[]) WHERE a[i].v = b[i].v WITHIN 10ns"
    assert "a0,1 b2,3" in found(text, "A(v=1) A(v=2) B(v=1) B(v=2)")
    assert "a0,1 b2" in found(text, "A(v=1) A(v=2) B(v=1) B(v=2)")  # i = 0 only
    assert "a0 b3" not in found(text, "A(v=1) A(v=2) B(v=1) B(v=2)")


def test_first_last_and_position() -> None:
    text = "SEQ(A+ a[], B b) WHERE a[first].v = 1 AND a[last].v = 2 AND a[0].v = a[first].v WITHIN 10ns"
    assert found(text, "A(v=1) A(v=9) A(v=2) B") == ["a0,2 b3", "a0,1,2 b3"]


def test_each_element_against_a_single_event() -> None:
    assert found("SEQ(A+ a[], B b) WHERE a[i].v < b.v WITHIN 10ns", "A(v=1) A(v=5) B(v=3)") == ["a0 b2"]


# -------------------------------------------------------------------- partitions


@pytest.mark.parametrize(
    "text", ["SEQ(A+ a[], B b) WITHIN 10ns PARTITION BY k", "SEQ(A+ a[], B b) WHERE [k] WITHIN 10ns"]
)
def test_partition(text: str) -> None:
    assert found(text, "A(k=1) A(k=2) A(k=1) B(k=1)") == ["a0 b3", "a2 b3", "a0,2 b3"]


def test_null_and_nan_are_in_no_partition() -> None:
    assert found("SEQ(A a) WITHIN 10ns PARTITION BY k", "A A(k=1)") == ["a1"]
    assert found("SEQ(A a, B b) WITHIN 10ns PARTITION BY f", "A(f=nan) B(f=nan) A(f=1) B(f=1)") == ["a2 b3"]


def test_several_partition_attributes() -> None:
    text = "SEQ(A a, B b) WITHIN 10ns PARTITION BY k, s"
    assert found(text, "A(k=1,s='x') A(k=1,s='y') B(k=1,s='y')") == ["a1 b2"]


def test_an_absent_variable_does_not_hinder_a_partition() -> None:
    assert found("SEQ(A a, B? b) WHERE [k] WITHIN 10ns", "A(k=1) B(k=2)") == ["a0 b-"]


# -------------------------------------------------------------- numbers, RETURN


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("a.v - b.v", 9), ("a.v / b.v", -3.5), ("a.v // b.v", -4), ("a.v % b.v", -1), ("b.v ^ 3", -8.0),
        ("-a.v // 2", -4),
        ("a.v // (b.v + 2)", None), ("a.v % (b.v + 2)", None), ("a.f / 0", math.inf), ("a.f // 0.0", math.inf),
        ("a.f % 0.0", math.nan), ("-a.f / 0", -math.inf), ("a.v + 9223372036854775807", None), ("abs(b.v)", 2),
        ("a.v * 4611686018427387904", None), ("sqrt(b.v)", math.nan), ("log(b.v + 2)", -math.inf),
        ("exp(9999)", math.inf),
        ("floor(a.f)", 1.0), ("floor(b.v)", -2), ("min(a.v, a.f)", 1.5), ("max(a.v, b.v)", 7), ("avg(a.v, b.v)", 2.5),
        ("b.v ^ 0.5", math.nan), ("0.0 ^ b.v", math.inf), ("a.v + a.f", 8.5), ("-a.f // 1.0", -2.0),
        ("-a.f % 1.0", 0.5),
        ("a.s", "x"), ("a.b", True), ("b.s", None), ("b.f + 1", None), ("a.time", 5), ("b.seq", 1), ("b.type", "B"),
    ],
)  # fmt: skip
def test_numbers(expression: str, expected: Any) -> None:
    result = value(expression, "A(v=7,f=1.5,s='x',b=true)@5 B(v=-2)@5", "A a, B b")
    assert harness.same_value(result, expected), result


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("COUNT(a[])", 4), ("COUNT(a[].v)", 3), ("SUM(a[].v)", 9), ("AVG(a[].v)", 3.0), ("MIN(a[].v)", 1),
        ("MAX(a[].v)", 6), ("STDDEV(a[].v)", math.sqrt(7)), ("a[].v", [2, None, 1, 6]), ("a[first].v", 2),
        ("a[last].v", 6), ("a[2].v", 1), ("a[1].v", None), ("a[9].v", None),
        ("SUM(a[].f)", math.nan), ("MAX(a[].f)", math.nan),
        ("STDDEV(a[].f)", math.nan), ("COUNT(a[].f)", 2), ("SUM(a[].k)", None),
        ("AVG(a[].k)", None), ("COUNT(a[].k)", 2),
    ],
)  # fmt: skip
def test_aggregates(expression: str, expected: Any) -> None:
    big = 2**62
    result = value(expression, f"A(v=2,f=1,k={big}) A A(v=1,f=nan,k={big}) A(v=6)")
    assert harness.same_value(result, expected), result


def test_aggregates_of_nothing() -> None:
    for expression, expected in [
        ("SUM(a[].v)", None),
        ("MIN(a[].f)", None),
        ("COUNT(a[].v)", 0),
        ("STDDEV(a[].v)", None),
    ]:
        assert value(expression, "A") == expected


def test_return_of_absent_variables() -> None:
    cases: list[tuple[str, Any]] = [
        ("b.v", None),
        ("c[].v", []),
        ("COUNT(c[])", 0),
        ("SUM(c[].v)", None),
        ("b.v + a.v", None),
    ]
    for expression, expected in cases:
        assert value(expression, "A(v=1)", "A a, B? b, C* c[]") == expected, expression


def test_functions_of_the_user() -> None:
    cases: list[tuple[str, Any]] = [
        ("ratio(a.v, 4)", 0.75),
        ("ratio(a.v, 0)", None),
        ("ratio(a.k, 4)", None),
        ("ratio(NULL, 0)", None),
        ("distance(a.v, 5)", 2.0),
        ("distance(a.f, 5)", math.nan),
        ("cell(a.v, 2)", 1),
        ("cell(a.f, 2)", None),
        ("odd(a.v, FALSE)", True),
        ("odd(a.v, a.b)", None),
    ]
    with own_registry():
        sample()
        for expression, expected in cases:
            assert harness.same_value(value(expression, "A(v=3,f=nan)", "A a"), expected), expression


# ------------------------------------------------------------------------ harness


def test_a_line_reads_back() -> None:
    text = "A0(k=1,f=0.5,s='x, y',b=true)@0 B1(v=-3)@5 D2@5000"
    events = harness.stream(SCHEMA, text)
    assert harness.line(events) == text
    assert harness.stream(SCHEMA, "A B@5us D@5us")[1].time == 5000


def test_batches_hold_all_events() -> None:
    events = harness.stream(SCHEMA, "A(k=1) B C(v=2) D(k=4)")
    cut = list(harness.batches(SCHEMA, events, [0, 3, 2]))
    assert [len(data["ts"]) for data in cut] == [0, 3, 1]
    assert cut[1]["k"].to_pylist() == [1, None, None]
    assert cut[2]["k"].to_pylist() == [4]
