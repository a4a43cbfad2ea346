"""RETURN: values, nulls, lists, aggregates; compared with the reference matcher or by hand."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support import harness

import fastcep as fc

SCHEMA = fc.Schema(
    {
        "A": {"i": "int64", "f": "float64", "s": "string", "b": "bool"},
        "B": {"i": "int64", "f": "float64", "s": "string", "b": "bool"},
    },
    type="type",
)
STREAM = (
    "A0(i=1,f=1.5,s='x',b=true)@0 B1(i=-7,s='y')@1 A2(f=nan,b=false)@2 "
    "B3(i=9223372036854775807,f=-0.0,s='x',b=true)@3 A4(i=3,f=2.5,s='z')@4"
)


def values(text: str, stream: str = STREAM, schema: fc.Schema = SCHEMA) -> list[dict[str, Any]]:
    return [returned for _, returned, _ in harness.rows(text, schema, stream)]


@pytest.mark.parametrize(
    "returns",
    [
        "a.i, a.f, a.s, a.b",
        "a.time AS t, a.seq AS n, a.type AS k",
        "a.i + 1 AS x, a.i * 2 AS y, a.i / 2 AS z, a.i // 2 AS q, a.i % 2 AS r",
        "a.f ^ 2 AS x, sqrt(a.f) AS y, floor(a.f) AS z, -a.f AS n, abs(a.i) AS m",
        "min(a.i, 2) AS x, max(a.f, 1) AS y, avg(a.i, a.f) AS z",
        "a.s = 'x' AS x, a.s IN {'x', 'q'} AS y, a.i BETWEEN 0 AND 2 AS z, NOT a.b AS n",
        "b.i, b.s, b.i + a.i AS x",
        "c[].i AS list, c[].f AS floats, c[].s AS names, c[].b AS bools",
        "c[first].i AS first, c[last].i AS last, c[1].i AS second, c[5].s AS sixth",
        "COUNT(c[]) AS n, COUNT(c[].i) AS k, SUM(c[].i) AS s, AVG(c[].i) AS m",
        "MIN(c[].i) AS x, MAX(c[].i) AS y, MIN(c[].f) AS p, MAX(c[].f) AS q, STDDEV(c[].i) AS d, STDDEV(c[].f) AS e",
        "SUM(c[].f) / COUNT(c[]) AS share, COUNT(c[]) + a.i AS mixed",
    ],
)
def test_against_the_reference(returns: str) -> None:
    query = fc.parse(f"PATTERN SEQ(A a, B? b, (A|B)* c[]) WITHIN 1s RETURN {returns}", SCHEMA)
    events = harness.stream(SCHEMA, STREAM)
    found = harness.rows(query, None, events)
    assert len(found) > 10
    harness.assert_same(query, events, found, "one batch")
    harness.assert_same(query, events, harness.rows(query, None, events, [1]), "batches of one")
    harness.assert_same(query, events, harness.rows_by_send(query, None, events), "one by one")


def test_by_hand() -> None:
    found = values(
        "PATTERN SEQ(A a, B+ b[]) WHERE a.seq = 0 WITHIN 1s "
        "RETURN a.s AS s, a.f * 2 AS f, b[].i AS i, b[last].s AS l, SUM(b[].f) AS t"
    )
    assert found == [
        {"s": "x", "f": 3.0, "i": [-7], "l": "y", "t": None},
        {"s": "x", "f": 3.0, "i": [2**63 - 1], "l": "x", "t": -0.0},
        {"s": "x", "f": 3.0, "i": [-7, 2**63 - 1], "l": "x", "t": -0.0},
    ]


def test_overflow_is_null_and_counted() -> None:
    engine = fc.Engine(fc.parse("PATTERN SEQ(B b) WITHIN 1s RETURN b.i + 1 AS x, b.i // 0 AS y", SCHEMA))
    events = harness.stream(SCHEMA, STREAM)
    table = engine.process(harness.batch(SCHEMA, events)).to_arrow()
    assert table.select(["x", "y"]).to_pylist() == [{"x": -6, "y": None}, {"x": None, "y": None}]
    assert engine.metrics()["arithmetic_nulls"] == 3


def test_types_of_columns() -> None:
    query = fc.parse("PATTERN SEQ(A a, B* b[]) WITHIN 1s RETURN a.i, a.f, a.s, a.b, a.i / 2 AS h, b[].s AS l", SCHEMA)
    engine = fc.Engine(query)
    expected = [pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.float64(), pa.large_list(pa.string())]
    empty = engine.flush().to_arrow()
    full = fc.Engine(query).process(harness.batch(SCHEMA, harness.stream(SCHEMA, STREAM))).to_arrow()
    for table in (empty, full):
        assert table.schema.types[5:] == expected


def test_a_union_reads_the_column_of_each_type() -> None:
    schema = fc.Schema(
        {"A": {"v": "int64"}, "B": {"v": "int64"}}, type="type", sources={"A": {"v": "x"}, "B": {"v": "y"}}
    )
    text = "PATTERN SEQ((A|B)+ a[]) WHERE a[i+1].v > a[i].v WITHIN 1s RETURN a[].v AS l, SUM(a[].v) AS s"
    query = fc.parse(text, schema)
    data = {"type": ["A", "B", "A"], "ts": [0, 1, 2], "x": [1, 100, 3], "y": [50, 2, 60]}
    found = fc.Engine(query).process(data).to_arrow().select(["l", "s"]).to_pylist()
    expected = [[1], [2], [1, 2], [3], [1, 3], [2, 3], [1, 2, 3]]
    assert found == [{"l": values, "s": sum(values)} for values in expected]


def test_elements_from_earlier_batches() -> None:
    """Attributes are read from the event ring long after their batch; older events are reclaimed meanwhile."""
    engine = fc.Engine(fc.parse("PATTERN SEQ(A a, B b) WITHIN 5000ns RETURN a.s AS s, b.i - a.i AS d", SCHEMA))
    found: list[dict[str, Any]] = []
    for number in range(40):
        kind = "A" if number % 2 == 0 else "B"
        found += engine.send(kind, ts=number * 3_000, i=number, s=f"n{number}").to_arrow().to_pylist()
    assert [(row["s"], row["d"]) for row in found] == [(f"n{k}", 1) for k in range(0, 40, 2)]
