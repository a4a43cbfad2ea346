"""The filter of events that are sent to slices drops no event that can affect a query."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from support.detection import assert_detects, one_engine

import fastcep as fc
from fastcep.plan import make_plan
from fastcep.spark.relevant_events import condition

OWN = {"k": "int64", "f": "float64", "s": "string", "b": "bool"}
SCHEMA = fc.Schema({"A": OWN, "B": OWN, "C": OWN}, time="at", type="kind", sequence="n")

@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.k = 10", "(c0 = 10L)"),
        ("a.k = 10 AND a.f < 2.5", "(c0 = 10L) AND (c1 < 2.5D)"),
        ("(a.s = 'it''s' OR NOT a.b = true)", "((c2 = CAST(X'69742773' AS STRING)) OR (NOT (c3 = true)))"),
        ("a.k IN {1, 2}", "(c0 = 1L OR c0 = 2L)"),
        ("a.k NOT IN {1, 2}", "(NOT (c0 = 1L OR c0 = 2L))"),
        ("a.k BETWEEN 1 AND 2", "(c0 >= 1L AND c0 <= 2L)"),
        ("NOT a.f < 2.5", None),  # to Spark NaN is more than all else
        ("a.f NOT IN {1.5}", None),
        ("a.k + 1 = 2", None),
        ("a.k = 1.5", None),
        ("a.time > 5", None),
        ("a.k = a.k", None),
        ("(a.k = 1 OR b.k = 1)", None),
        ("a.k = 1 AND a.k + 1 = 2 AND a.k = b.k", "(c0 = 1L)"),
    ],
)
def test_conditions(text: str, expected: str | None) -> None:
    query = fc.parse(f"PATTERN SEQ(A a, B b) WHERE {text} WITHIN 5ns", SCHEMA)
    first = "true" if expected is None else f"({expected})"
    both = f"(type = 0 AND ({first})) OR (type = 1 AND (true))"
    assert condition(make_plan(query)) == (both if expected else "(type IN (0, 1) AND (true))")


def test_types() -> None:
    def of(pattern: str, schema: fc.Schema = SCHEMA) -> str | None:
        return condition(make_plan(fc.parse(f"PATTERN {pattern} WITHIN 5ns", schema)))

    assert of("SEQ(A a, NEG B n, C c)") is None
    assert of("SEQ(A a, B b)") == "(type IN (0, 1) AND (true))"
    assert of("SEQ(A a, A b) WHERE a.k = 1") == "(type = 0 AND (true))"
    assert of("SEQ(A a, A b) WHERE a.k = 1 AND b.k = 2") == "(type = 0 AND (((c0 = 1L)) OR ((c0 = 2L))))"
    assert of("SEQ(A a, A+ b[]) WHERE a.k = 1 AND b[i].k = 2 AND b[0].f = 1.0") == (
        "(type = 0 AND (((c0 = 1L)) OR ((c0 = 2L))))"
    )
    assert of("SEQ(A a, A b) WHERE a.k = 1", fc.Schema({"A": OWN}, time="at")) is None
    one = fc.Schema({"A": OWN}, time="at")
    assert of("SEQ(A a, A b) WHERE a.k = 1 AND b.k = 2", one) == "((c0 = 1L)) OR ((c0 = 2L))"


@pytest.mark.sample(2)
@pytest.mark.spark
@pytest.mark.parametrize(
    "text",
    [
        "SEQ(A a, B b) WHERE a.f > 1.0 AND b.f != 1.5 AND a.s != 'x' AND b.k NOT IN {1, 2}",
        "SEQ(A a, NEG C n, B b) WHERE n.k = 1 AND (a.b = true OR a.k <= 2) AND NOT b.s = 'y'",
        "SEQ(A a, B* b[], C c) WHERE b[i].k BETWEEN 1 AND 2 AND a.k = 3 AND c.f IN {1.0, 1.5}",
        "SEQ(A a, NEXT C b) WHERE a.k >= 0 AND b.k != 3 PARTITION BY s",
    ],
)
def test_nothing_is_missed(spark: Any, text: str) -> None:
    """The data has nulls, NaN, and non-ASCII strings."""
    count = 2_000
    reals = (0.5, 1.0, 1.5, math.nan, None, 2.0, -0.0)
    table = pa.table({
        "at": pa.array(range(count)), "n": pa.array(range(count)), "kind": ["ABC"[n * 5 % 3] for n in range(count)],
        "k": [None if n % 13 == 0 else n * 7 % 5 for n in range(count)],
        "f": pa.array([reals[n % 7] for n in range(count)], pa.float64()),
        "s": [("x", "y", None, "ü'\\")[n * 3 % 4] for n in range(count)],
        "b": [(True, False, None)[n * 11 % 3] for n in range(count)],
    })  # fmt: skip
    pattern, _, partition = text.partition(" PARTITION BY ")
    query = fc.parse(f"PATTERN {pattern} WITHIN 9ns" + (f" PARTITION BY {partition}" if partition else ""), SCHEMA)
    expected = one_engine(query, table)
    assert len(expected) > 20
    assert_detects(spark.createDataFrame(table), query, expected, slices=3, slicing="time")
