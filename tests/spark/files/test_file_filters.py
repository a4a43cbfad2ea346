"""Filters of Parquet files that tasks evaluate themselves."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from support.detection import assert_detects, one_engine, reads_files

import fastcep as fc
import fastcep.spark

FILTERED = pa.table({
    "at": range(300), "row": range(300),
    "i": pa.array([None if n % 7 == 0 else n % 50 for n in range(300)], pa.int32()),
    "s": [None if n % 11 == 0 else "äbc"[n % 3] for n in range(300)], "b": [n % 4 < 2 for n in range(300)],
    "t": pa.array([n * 3_600_000_000 for n in range(300)], pa.timestamp("us", "UTC")), "f": [n / 7 for n in range(300)],
})  # fmt: skip


@pytest.mark.sample(3)
@pytest.mark.spark
@pytest.mark.parametrize(
    ("conditions", "in_files"),
    [
        (["i >= 20"], True), (["20 > i", "s <> 'b'"], True), (["i IN (1, 2, 30) OR NOT s IN ('ä', 'c')"], True),
        (["NOT (i = 3 AND s IS NOT NULL)"], True), (["i IS NULL OR s > 'b'"], True), (["b = true"], True),
        (["i > CAST('12' AS INT) + 1"], True), (["t >= TIMESTAMP '1970-01-05 12:00:00+02:00'"], True),
        (["t < '1970-01-08'"], True), (["i = NULL OR s = 'b'"], False), (["f > 3"], False), (["i % 2 = 0"], False),
        (["length(s) = 1 AND i > 3"], False), (["i > 2.5"], True), (["i < row"], False), (["b"], False),
        (["i < 3", "f > 1"], False),
    ],
)  # fmt: skip
def test_filters(spark: Any, tmp_path: Path, conditions: list[str], in_files: bool) -> None:
    """Tasks evaluate the filter on the rows that they read; row groups without such rows are not read."""
    pq.write_table(FILTERED, tmp_path / "f.parquet", row_group_size=5)
    frame = spark.read.parquet(str(tmp_path / "f.parquet"))
    for condition in conditions:
        frame = frame.where(condition)
    schema = fc.Schema({"A": {"i": "int64"}}, time="at", time_unit="us", sequence="row")
    query = fc.parse("PATTERN SEQ(A a, A b) WITHIN 9us RETURN a.i, b.i AS j", schema)
    assert reads_files(fastcep.spark.detect(frame, query, slices=3)) == in_files
    rows = {row["row"] for row in frame.select("row").collect()}
    assert 0 < len(rows) < 300
    kept = FILTERED.filter(pa.array([n in rows for n in range(300)]))
    assert_detects(frame, query, one_engine(query, kept), slices=3)


@pytest.mark.spark
@pytest.mark.thorough
@pytest.mark.parametrize(
    ("condition", "in_files"),
    [
        (" OR ".join(f"i = {n}" for n in range(150)), True), (" OR ".join(f"i = {n}" for n in range(1_100)), False),
        (f"i IN ({', '.join(map(str, range(100)))})", True), (f"i IN ({', '.join(map(str, range(5_000)))})", False),
        (" AND ".join(f"i IN ({', '.join(map(str, range(n, n + 60)))})" for n in range(3)), False),
    ],
    ids=["150 conditions", "1,100 conditions", "100 values", "5,000 values", "180 values"],
)  # fmt: skip
def test_long_filters_are_left_to_spark(spark: Any, tmp_path: Path, condition: str, in_files: bool) -> None:
    """Each condition takes calls of the JVM, and a level of the stack."""
    pq.write_table(FILTERED, tmp_path / "f.parquet", row_group_size=5)
    schema = fc.Schema({"A": {"i": "int64"}}, time="at", time_unit="us", sequence="row")
    query = fc.parse("PATTERN SEQ(A a, A b) WITHIN 9us", schema)
    frame = spark.read.parquet(str(tmp_path / "f.parquet")).where(condition)
    start = time.monotonic()
    assert reads_files(fastcep.spark.detect(frame, query, slices=3)) == in_files
    assert time.monotonic() - start < 20


@pytest.mark.spark
@pytest.mark.thorough
def test_renamed_columns(spark: Any, tmp_path: Path) -> None:
    """Times and sequence numbers swap their names, a column has two names, and filters read the old and new names."""
    table = FILTERED.set_column(0, "at", pa.array([2 * n for n in range(300)]))
    pq.write_table(table, tmp_path / "f.parquet", row_group_size=5)
    frame = spark.read.parquet(str(tmp_path / "f.parquet")).where("i >= 5 AND at < 500")
    frame = frame.selectExpr("at AS row", "row AS at", "i AS x", "i AS y", "s AS i").where("x < 40 AND i <> 'b'")
    frame = frame.withColumnRenamed("y", "z")
    kept = table.filter((pc.field("i") >= 5) & (pc.field("at") < 500) & (pc.field("i") < 40) & (pc.field("s") != "b"))
    events = pa.table({"row": kept["at"], "at": kept["row"], "x": kept["i"], "z": kept["i"], "i": kept["s"]})
    schema = fc.Schema({"A": {"x": "int64", "z": "int64", "i": "string"}}, time="row", time_unit="us", sequence="at")
    query = fc.parse("PATTERN SEQ(A a, A b) WHERE a.z < b.x WITHIN 9us RETURN a.x, b.i", schema)
    assert reads_files(fastcep.spark.detect(frame, query, slices=3))
    assert_detects(frame, query, one_engine(query, events), slices=3)
    computed = frame.selectExpr("row", "at", "x + 0 AS x", "z", "i")
    assert not reads_files(fastcep.spark.detect(computed, query, slices=3))
    assert_detects(computed, query, one_engine(query, events), slices=3)
    assert not reads_files(fastcep.spark.detect(frame.selectExpr("*", "_metadata.file_path"), query, slices=3))


@pytest.mark.spark
@pytest.mark.thorough
def test_renamed_types_are_ignored(spark: Any, tmp_path: Path) -> None:
    pq.write_table(FILTERED, tmp_path / "f.parquet", row_group_size=5)
    frame = spark.read.parquet(str(tmp_path / "f.parquet")).selectExpr("at", "row", "s AS kind", "row AS s")
    schema = fc.Schema({name: {"s": "int64"} for name in "äb"}, time="at", type="kind", time_unit="us", sequence="row",
                       other_types="ignore")  # fmt: skip
    query = fc.parse('PATTERN SEQ("ä" x, b y) WITHIN 5us RETURN y.s', schema)
    events = FILTERED.filter(pc.field("s").is_valid())
    events = pa.table({"at": events["at"], "row": events["row"], "kind": events["s"], "s": events["row"]})
    valid = frame.where("kind IS NOT NULL")
    assert reads_files(fastcep.spark.detect(valid, query, slices=3))
    assert_detects(valid, query, one_engine(query, events), slices=3)
