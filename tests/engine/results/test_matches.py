"""Matches as a table."""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pytest

import fastcep as fc

SCHEMA = fc.Schema({"A": {"V": "int64"}, "B": {"V": "int64"}}, type="type", time_unit="us")
TEXT = "PATTERN SEQ(A a, B? b, A+ c[]) WITHIN 1s RETURN a.V AS first, c[].V AS rest"
DATA: dict[str, list[Any]] = {"type": ["A", "B", "A"], "V": [1, 2, 3], "ts": [10, 20, 30]}


def found(data: dict[str, list[Any]]) -> fc.Matches:
    return fc.Engine(fc.parse(TEXT, SCHEMA, name="q")).process(data)


def test_table() -> None:
    table = found(DATA).to_arrow()
    assert table.schema.names == ["query", "window_id", "detected_at", "a", "b", "c", "first", "rest"]
    assert table.schema.types[1:] == [
        pa.int64(), pa.timestamp("ns", "UTC"), pa.int64(), pa.int64(), pa.large_list(pa.int64()), pa.int64(),
        pa.large_list(pa.int64()),
    ]  # fmt: skip
    assert pa.types.is_dictionary(table.schema.types[0])
    rows = table.set_column(2, "detected_at", table["detected_at"].cast(pa.int64())).to_pylist()
    common = {"query": "q", "window_id": None, "detected_at": 30_000, "a": 0, "c": [2], "first": 1, "rest": [3]}
    assert rows == [common | {"b": None}, common | {"b": 1}]


def test_no_matches_have_the_same_columns() -> None:
    empty = found({name: values[:1] for name, values in DATA.items()})
    assert len(empty) == 0
    assert empty.to_arrow().schema == found(DATA).to_arrow().schema
    assert len(pa.concat_tables([empty.to_arrow(), found(DATA).to_arrow()])) == 2


def test_counts_and_repr() -> None:
    matches = found(DATA)
    assert len(matches) == 2
    assert matches.counts() == {"q": 2}
    assert repr(matches) == "Matches(q: 2)"


def test_query_by_name() -> None:
    matches = found(DATA)
    assert matches.query("q").to_arrow().equals(matches.to_arrow())
    with pytest.raises(fc.ValidationError, match="no query named 'r' in the engine; there is 'q'"):
        matches.query("r")


def test_capsule() -> None:
    assert pl.DataFrame(found(DATA)).select("a", "b").rows() == [(0, None), (0, 1)]
    assert pa.table(found(DATA)).num_rows == 2


def test_matches_outlive_the_engine() -> None:
    engine = fc.Engine(fc.parse(TEXT, SCHEMA, name="q"))
    matches = engine.process(DATA)
    expected = found(DATA).to_arrow()
    engine.process({"type": ["B"] * 5_000, "V": [0] * 5_000, "ts": list(range(5_000_000, 5_005_000))})
    engine.flush()
    del engine
    assert matches.to_arrow().equals(expected)


def test_a_column_only_one_query_has_is_null_in_the_other() -> None:
    queries = [
        fc.parse("PATTERN SEQ(A x) WITHIN 1s RETURN x.V AS v", SCHEMA, name="one"),
        fc.parse("PATTERN SEQ(B y, A+ z[]) WITHIN 1s", SCHEMA, name="two"),
    ]
    table = fc.Engine(queries).process(DATA).to_arrow()
    assert table.select(["query", "x", "v", "y", "z"]).to_pylist() == [
        {"query": "one", "x": 0, "v": 1, "y": None, "z": None},
        {"query": "one", "x": 2, "v": 3, "y": None, "z": None},
        {"query": "two", "x": None, "v": None, "y": 1, "z": [2]},
    ]
    nothing = fc.Engine(queries).process({name: values[:0] for name, values in typed().items()})
    assert nothing.to_arrow().schema == table.schema


def typed() -> dict[str, pa.Array]:
    return {name: pa.array(values) for name, values in DATA.items()}
