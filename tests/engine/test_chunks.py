"""Buckets of many chunks: rows of a bucket are processed 256 at once, and a join in NumPy must agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import fastcep as fc

DTYPES = {"k": "int64", "f": "float64", "s": "string", "b": "bool", "v": "int64"}
SCHEMA = fc.Schema(dict.fromkeys("ABC", DTYPES), type="type")
WINDOW = 9_000  # ns: 900 events
CONDITIONS = [
    "a.s = b.s AND b.k = c.k",
    "a.f = b.f AND a.v + b.v < c.v",
    "a.b = b.b AND a.s = b.s AND a.k = b.k AND b.v = c.v",
    "a.v < b.v AND a.k = c.k AND b.s = c.s AND b.b = c.b",
    "a.v = c.v AND b.v > 40",
]


def stream(rows: int = 1_000) -> dict[str, Any]:
    draw = np.random.default_rng(7)

    def some(values: Any) -> list[Any]:
        return [None if draw.random() < 0.08 else value for value in values.tolist()]

    return {
        "type": draw.choice(list("ABC"), rows, p=[0.48, 0.48, 0.04]).tolist(),
        "k": some(draw.integers(0, 2, rows)),
        "f": some(draw.choice([0.0, -0.0, np.nan, 1.5], rows)),
        "s": some(draw.choice(["x", "y"], rows)),
        "b": some(draw.choice([True, False], rows)),
        "v": some(draw.integers(0, 50, rows)),
        "ts": (np.arange(rows) * 10).tolist(),
    }


def joined(data: dict[str, Any], condition: str) -> set[tuple[int, ...]]:
    """Return all triples that satisfy the condition; a null or NaN equals nothing (as NaN in float columns)."""
    columns = {}
    for name in DTYPES:
        cells = data[name] if name != "s" else [None if text is None else float(ord(text)) for text in data["s"]]
        columns[name] = np.array([np.nan if cell is None else float(cell) for cell in cells])
    at = {kind: np.flatnonzero(np.array(data["type"]) == kind) for kind in "ABC"}
    found = set()
    for c in at["C"]:
        a = at["A"][(at["A"] < c) & (at["A"] * 10 >= c * 10 - WINDOW)][:, None]
        b = at["B"][at["B"] < c][None, :]
        keep = a < b
        for part in condition.split(" AND "):
            scope = {f"{key}_{name}": column[rows] for key, rows in (("a", a), ("b", b), ("c", c))
                     for name, column in columns.items()}  # fmt: skip
            keep = keep & eval(part.replace(".", "_").replace(" = ", " == "), {}, scope)
        found |= {(int(a[i, 0]), int(b[0, j]), int(c)) for i, j in zip(*np.nonzero(keep), strict=True)}
    return found


@pytest.mark.thorough
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("size", [1_000, 256, 1])
def test_large_buckets(condition: str, size: int) -> None:
    data = stream()
    engine = fc.Engine(fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE {condition} WITHIN {WINDOW}ns", SCHEMA))
    table, found = pa.table(data), []
    for start in range(0, len(table), size):
        part = engine.process(table.slice(start, size)).to_arrow()
        found += list(zip(*(part[name].to_pylist() for name in "abc"), strict=True))
    assert len(found) == len(set(found)) > 1_000
    assert set(found) == joined(data, condition)
