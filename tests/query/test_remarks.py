"""Warnings of queries that hardly mean what they say; what a warning recommends has no warning."""

from __future__ import annotations

import re
import warnings

import pytest

import fastcep as fc

ATTRIBUTES = {"v": "int64", "x": "float64", "s": "string"}
SCHEMA = fc.Schema({"A": ATTRIBUTES, "B": ATTRIBUTES}, type="type")


def remarks(condition: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fc.parse(f"PATTERN SEQ(A a, B b, A+ c[]) WHERE {condition} WITHIN 1h", SCHEMA)
    assert all(entry.category is fc.QueryWarning for entry in caught)
    return [str(entry.message) for entry in caught]


CASES = [
    ("b.time - a.time < 5", "b.time - a.time is a duration, so 5 means 5 ns; write a unit, as in 5s, or 5ns if",
     "b.time - a.time < 5s"),
    ("5 >= c[last].time - a.time", "c[last].time - a.time is a duration", "5s >= c[last].time - a.time"),
    ("b.time - a.time BETWEEN 0 AND 5", "so 5 means 5 ns", "b.time - a.time BETWEEN 0 AND 5s"),
    ("b.time - a.time < 0.5 OR a.v = 1", "so 0.5 means 0.5 ns", "b.time - a.time < 500ms OR a.v = 1"),
    ("a.time > 1000", "a.time is a time, so 1000 means 1000 ns after the start of 1970; write a time such as TIMESTAMP",
     "a.time > TIMESTAMP '2026-11-27'"),
    ("a.time > 1000", "or nanoseconds(a.time) for the number", "nanoseconds(a.time) > 1000"),
    ("a.v = NULL", "a comparison with NULL is always unknown; write a.v IS NULL", "a.v IS NULL"),
    ("NULL != a.v + 1", "write a.v + 1 IS NOT NULL", "a.v + 1 IS NOT NULL"),
    ("NOT (a.s = NULL AND b.v = 1)", "write a.s IS NULL", "NOT (a.s IS NULL AND b.v = 1)"),
    ("a.v NOT IN {1, NULL}", "a set with NULL is never true; leave NULL out, and write a.v IS NOT NULL AND",
     "a.v IS NOT NULL AND a.v NOT IN {1}"),
    ("a.v IN {1, NULL}", "never finds a null; leave NULL out, and write a.v IS NULL OR", "a.v IS NULL OR a.v IN {1}"),
    ("a.v + NULL > 3", "a.v + NULL > 3 is never true, because NULL is unknown", "a.v > 3"),
    ("a.v BETWEEN 1 AND NULL", "is never true, because NULL is unknown", "NOT a.v BETWEEN 1 AND NULL"),
    ("NULL", "NULL is never true", "a.v IS NULL"),
    ("a.v > 5 AND b.v = 1 AND a.v < 3", "a.v > 5 and a.v < 3 are never both true; correct a limit, or join",
     "a.v > 5 OR a.v < 3"),
    ("a.v > 5 AND 5 >= a.v", "are never both true", "a.v >= 5 AND 5 >= a.v"),
    ("a.v = 1 AND a.v = 2", "a.v = 1 and a.v = 2 are never both true", "a.v = 1 OR a.v = 2"),
    ("a.v > 0 AND a.v > 5 AND a.v < 3", "a.v > 5 and a.v < 3 are never both true", "a.v > 0 AND a.v < 3"),
    ("a.v < 9 AND a.v < 3 AND a.v = 5", "a.v < 3 and a.v = 5 are never both true", "a.v < 9 AND a.v = 5"),
    ("a.v > 5 AND a.v BETWEEN 1 AND 3", "a.v > 5 and a.v BETWEEN 1 AND 3 are never both true", "a.v BETWEEN 1 AND 3"),
    ("a.x > 1e400", "is never true", "a.x >= 1e400"),
    ("a.s = 'x' AND a.s = 'y'", "are never both true", "a.s = 'x' OR a.s = 'y'"),
    ("a.v BETWEEN 5 AND 1", "a.v BETWEEN 5 AND 1 is never true", "a.v BETWEEN 1 AND 5"),
    ("c[i].v > 5 AND c[i].v < 3", "are never both true", "c[i].v > 5 OR c[i].v < 3"),
    ("b.time - a.time > 5s AND b.time - a.time < 3s", "are never both true", "b.time - a.time > 3s"),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "message", "remedied"), CASES)
def test_a_warning_has_place_and_remedy(condition: str, message: str, remedied: str) -> None:
    (found,) = remarks(condition)
    first, line, caret = found.splitlines()
    assert first.startswith("query:1:") and message in first
    assert condition in line and "^" in caret
    assert remarks(remedied) == []


LOOPS = [
    ("APERIODIC(A a, B+ b[], A c)", "A c must not come before the first element of b, but does not end the loop"),
    ("APERIODIC(A a, B{2,4} b[], A c)", "write SEQ(A a, B{2,4} b[] UNTIL A c) to end it"),
    ("APERIODIC(A a, (SEQ(A x, B y))+ g[], A c)", "or SEQ(A a, NEG A c, (SEQ(A x, B y))+ g[]) if you mean that"),
    ("SEQ(A z, APERIODIC(A a, B+ b[], A c))", "write SEQ(A a, B+ b[] UNTIL A c) to end it"),
]


def of_pattern(pattern: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fc.parse(f"PATTERN {pattern} WHERE c.v = a.v WITHIN 1h", SCHEMA)
    return [str(entry.message) for entry in caught]


@pytest.mark.parametrize(("pattern", "message"), LOOPS)
def test_aperiodic_with_a_loop_recommends_until(pattern: str, message: str) -> None:
    (found,) = of_pattern(pattern)
    assert message in found and "APERIODIC" in found.splitlines()[1]
    recommended = re.findall(r"write (SEQ\(.*\)) to end it, or (SEQ\(.*\)) if you mean that", found)
    assert [of_pattern(text) for text in recommended[0]] == [[], []]


@pytest.mark.parametrize(
    "pattern",
    [
        "APERIODIC(A a, B b, A c)", "APERIODIC(A a, B{1} b[], A c)", "APERIODIC(A a, SEQ(B+ b[], A d), A c)",
        "APERIODIC(A+ a[], B b, A c)", "APERIODIC(A a, B+ b[] UNTIL A u, A c)", "SEQ(A a, B+ b[], NEG A c, B d)",
        "SEQ(A a, NEG A c, B+ b[])",
    ],
)  # fmt: skip
def test_other_patterns_have_no_warning(pattern: str) -> None:
    condition = "c.v = a[first].v" if "a[]" in pattern else "c.v = a.v"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fc.parse(f"PATTERN {pattern} WHERE {condition} WITHIN 1h", SCHEMA)
    assert caught == []


@pytest.mark.parametrize(
    "condition",
    [
        "b.time - a.time > 0", "b.time - a.time < 5ns", "b.seq - a.seq < 5", "a.time != b.time", "a.v > 3 AND a.v < 5",
        "a.v >= 3 AND a.v <= 3", "a.v > 3 AND c[i].v < 3", "a.v = 1 AND a.x = 2", "coalesce(a.v, NULL, 1) = 1",
        "CASE WHEN a.v = 1 THEN NULL ELSE 2 END = 2", "a.v IS NULL", "hour(a.time) = 5", "a.s != 'x' AND a.s != 'y'",
    ],
)  # fmt: skip
def test_plain_conditions_have_no_warning(condition: str) -> None:
    assert remarks(condition) == []


def remarks_of(pattern: str) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fc.parse(f"PATTERN {pattern}", SCHEMA)
    return [str(entry.message) for entry in caught]


SIZES = [
    ("SEQ(A a, B b) WITHIN 1 EVENTS", "needs 2 events and WITHIN 1 EVENTS allows 1; write 2 EVENTS or more",
     "SEQ(A a, B b) WITHIN 2 EVENTS"),
    ("SEQ(A a, NEG B n, B? o, OR(AND(A b, A c), A{3,} d[])) WITHIN 2 EVENTS", "needs 3 events",
     "SEQ(A a, NEG B n, B? o, OR(AND(A b, A c), A{3,} d[])) WITHIN 3 EVENTS"),
    ("SEQ((SEQ(A a, B b)){2,} g[], ANY(2, A c, B d)) WITHIN 5 EVENTS", "needs 6 events",
     "SEQ((SEQ(A a, B b)){2,} g[], ANY(2, A c, B d)) WITHIN 6 EVENTS"),
    ("SEQ(A a, B+ b[] UNTIL A u, APERIODIC(A c, B d, A e)) WITHIN 3 EVENTS", "needs 4 events",
     "SEQ(A a, B+ b[] UNTIL A u, APERIODIC(A c, B d, A e)) WITHIN 4 EVENTS"),
    ("SEQ(A a, B b) WINDOW EVERY 2 EVENTS CLOSE AFTER 1 EVENTS", "needs 2 events and CLOSE AFTER 1 EVENTS allows 1",
     "SEQ(A a, B b) WINDOW EVERY 2 EVENTS CLOSE AFTER 2 EVENTS"),
    ("PERIODIC(A a, 10min, B b) WITHIN 1min", "never ticks, because its period of 10min is longer than WITHIN 1min",
     "PERIODIC(A a, 10min, B b) WITHIN 10min"),
    ("SEQ(A{2} a[]) WHERE a[2].v > 1 WITHIN 1h", "a[2].v never exists, because a has at most 2 elements counted",
     "SEQ(A{2} a[]) WHERE a[1].v > 1 WITHIN 1h"),
    ("SEQ(A{,2} a[], B b) WHERE a[last-2].v > b.v WITHIN 1h", "a[last-2].v never exists",
     "SEQ(A{,3} a[], B b) WHERE a[last-2].v > b.v WITHIN 1h"),
    ("SEQ((SEQ(A a, B b)){1} g[]) WHERE g[1].a.v > 1 WITHIN 1h", "g[1].a.v never exists, because g has at most 1 el",
     "SEQ((SEQ(A a, B b)){1,} g[]) WHERE g[1].a.v > 1 WITHIN 1h"),
    ("SEQ(ANY(2, A a[])) WHERE a[2].v > 1 WITHIN 1h", "use an index up to [1], or allow more elements",
     "SEQ(ANY(3, A a[])) WHERE a[2].v > 1 WITHIN 1h"),
    ("SEQ(A{2} a[]) WHERE a[i+1].v > a[i-1].v WITHIN 1h", "a[i-1].v and a[i+1].v never both exist",
     "SEQ(A{2} a[]) WHERE a[i+1].v > a[i].v WITHIN 1h"),
    ("SEQ(A{2} a[]) WITHIN 1h RETURN a[2].v AS third", "so the column is always null",
     "SEQ(A{2} a[]) WITHIN 1h RETURN a[1].v AS second"),
]  # fmt: skip


@pytest.mark.parametrize(("pattern", "message", "remedied"), SIZES)
def test_a_warning_of_sizes(pattern: str, message: str, remedied: str) -> None:
    (found,) = remarks_of(pattern)
    assert found.startswith("query:1:") and message in found and "^" in found
    assert remarks_of(remedied) == []


@pytest.mark.thorough
def test_a_long_condition_has_no_warning() -> None:
    for condition in ("a.v" + " + 1" * 3000 + " > 3", " OR ".join(["a.v = 1"] * 3000), "NULL OR " * 3000 + "a.v = 1"):
        assert remarks(condition) == []


def test_a_warning_names_the_file() -> None:
    text = "EVENT A (v int64)\nQUERY q PATTERN SEQ(A a)\nWHERE a.v = NULL WITHIN 1h"
    with pytest.warns(fc.QueryWarning, match="^x.cep:3:7: a comparison with NULL"):
        fc.query.parse_document(text, "x.cep")
