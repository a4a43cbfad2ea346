"""Elements counted from the last one, and elements two places apart."""

from __future__ import annotations

import pytest
from support import harness
from support.worked import SCHEMA, found

import fastcep as fc
from fastcep.errors import ValidationError


@pytest.mark.parametrize(
    ("pattern", "where", "line", "expected"),
    [
        ("SEQ(A{2,} a[], B b)", "b.v > a[last-1].v", "A(v=3) A(v=1) A(v=2) B(v=2)", ["a1,2 b3", "a0,1,2 b3"]),
        ("SEQ(A+ a[], B b)", "b.v > a[last-1].v", "A(v=3) B(v=2)", ["a0 b1"]),  # does not apply
        ("SEQ(A{3} a[])", "a[i].v = a[i-2].v", "A(v=1) A(v=2) A(v=1) A(v=3)", ["a0,1,2"]),
        ("SEQ(A{3} a[])", "a[last-2].v = a[last].v", "A(v=1) A(v=2) A(v=1) A(v=3)", ["a0,1,2"]),
        (
            "SEQ((SEQ(A a, B b)){2} g[], C c)",
            "g[last-1].a.v = c.v",
            "A(v=1) B(v=0) A(v=2) B(v=0) C(v=1) C(v=2)",
            ["g.a0,2 g.b1,3 c4"],
        ),
    ],
)
def test_worked(pattern: str, where: str, line: str, expected: list[str]) -> None:
    text = f"{pattern} WHERE {where} WITHIN 99ns"
    assert found(text, line) == expected
    query = fc.parse(f"PATTERN {text} RETURN 1 AS one", SCHEMA, name="q")
    stream = harness.stream(SCHEMA, line)
    harness.assert_same(query, stream, harness.rows(query, None, stream, [2]), "rows")


def test_returned() -> None:
    query = fc.parse("PATTERN SEQ(A{3} a[]) WITHIN 9ns RETURN a[last-1].v AS m, a[last-3].v AS none", SCHEMA)
    matches = fc.Engine(query).process(harness.batch(SCHEMA, harness.stream(SCHEMA, "A(v=3) A(v=1) A(v=2)")))
    assert matches.to_arrow().select(["m", "none"]).to_pylist() == [{"m": 1, "none": None}]


@pytest.mark.parametrize("index", ["last-900000", "i-900000"])
def test_too_far_back(index: str) -> None:
    query = fc.parse(f"PATTERN SEQ(A+ a[]) WHERE a[i].v > 0 OR a[{index}].v = a[i].v WITHIN 9ns", SCHEMA)
    with pytest.raises(ValidationError, match="expected at most 64; compare fewer"):
        fc.Engine(query)
