"""Dtypes of all forms of expressions."""

from __future__ import annotations

import pytest

from fastcep.events import Schema
from fastcep.query import parse, type_of


@pytest.mark.parametrize(
    ("text", "dtype"),
    [
        ("1", "int64"),
        ("1.0", "float64"),
        ("'x'", "string"),
        ("TRUE", "bool"),
        ("NULL", "null"),
        ("5min", "int64"),
        ("a.V", "int64"),
        ("a.x", "float64"),
        ("u.V", "int64"),
        ("k[first].name", "string"),
        ("k[].x", "float64"),
        ("a.time", "timestamp"),
        ("a.seq", "int64"),
        ("a.type", "string"),
        ("a.V + 1", "int64"),
        ("a.V * a.x", "float64"),
        ("a.V // 2", "int64"),
        ("a.V % 2.0", "float64"),
        ("a.V / 2", "float64"),
        ("a.V ^ 2", "float64"),
        ("-a.V", "int64"),
        ("a.V + NULL", "int64"),
        ("NULL + NULL", "null"),
        ("abs(a.V)", "int64"),
        ("floor(a.x)", "float64"),
        ("min(a.V, 1)", "int64"),
        ("max(a.V, 1.0)", "float64"),
        ("avg(a.V, 1)", "float64"),
        ("sqrt(a.V)", "float64"),
        ("exp(1)", "float64"),
        ("log(1)", "float64"),
        ("COUNT(k[])", "int64"),
        ("COUNT(k[].name)", "int64"),
        ("SUM(k[].V)", "int64"),
        ("SUM(k[].x)", "float64"),
        ("MIN(k[].V)", "int64"),
        ("AVG(k[].V)", "float64"),
        ("STDDEV(k[].V)", "float64"),
        ("a.V = 1.5", "bool"),
        ("a.flag = NULL", "bool"),
        ("a.name IN {'x', NULL}", "bool"),
        ("a.V BETWEEN 0 AND 1.5", "bool"),
        ("NOT a.flag", "bool"),
        ("a.flag AND NULL", "bool"),
    ],
)
def test_type_of(text: str, dtype: str, schema: Schema) -> None:
    query = parse(f"PATTERN SEQ(A a, A+ k[], (A|B) u) WITHIN 1ms RETURN {text} AS out", schema)
    assert type_of(query.returns[0].expression, query) == dtype
