"""Parquet files that change between `detect` and the action, that are cached, and surveys that are not read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import SparkRuntimeException
from support.detection import assert_detects, one_engine, reads_files, with_rows

import fastcep as fc
import fastcep.spark
from fastcep import datasets

V = {"ID": "int64", "V": "int64"}
TYPES = dict.fromkeys("ABCD", V)
SCHEMA = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence="row")
QUERY = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] WITHIN 50us", SCHEMA)


@pytest.fixture(scope="module")
def ds1() -> pa.Table:
    return with_rows(datasets.ds1(events=900, seed=5))


@pytest.mark.sample("row groups")
@pytest.mark.spark
@pytest.mark.parametrize(
    ("rows", "row_group_size"), [(800, 100), (900, 112), (900, 90)], ids=["rows", "same number", "row groups"]
)
def test_a_file_that_is_written_again(
    spark: Any, ds1: pa.Table, tmp_path: Path, rows: int, row_group_size: int
) -> None:
    """Row groups at other rows, with the same number of rows in the file."""
    pq.write_table(ds1, tmp_path / "f.parquet", row_group_size=100)
    matches = fastcep.spark.detect(spark.read.parquet(str(tmp_path / "f.parquet")), QUERY, slices=2)
    assert reads_files(matches)
    pq.write_table(ds1.slice(0, rows), tmp_path / "f.parquet", row_group_size=row_group_size)
    with pytest.raises(SparkRuntimeException, match=r"/f\.parquet: the file has changed since detect was called; call"):
        matches.count()
    (tmp_path / "f.parquet").unlink()
    with pytest.raises(SparkRuntimeException, match=r"cannot read .*/f.parquet: .*; make sure that all executors see"):
        matches.count()


@pytest.mark.spark
@pytest.mark.thorough
def test_a_filtered_row_group_that_has_other_rows(spark: Any, ds1: pa.Table, tmp_path: Path) -> None:
    """No task reads a row group that the filter excludes, but all of the file is checked."""
    early = ds1.set_column(0, "type", pa.array(["A", "B"] * 450))
    late = early.set_column(1, "ID", pa.array([0] * 300 + [1] * 600))
    pq.write_table(late, tmp_path / "f.parquet", row_group_size=300)
    frame = spark.read.parquet(str(tmp_path / "f.parquet")).where("ID = 1")
    matches = fastcep.spark.detect(frame, QUERY, slices=1)
    assert reads_files(matches)
    pq.write_table(late.set_column(1, "ID", pa.array([1] * 900)), tmp_path / "f.parquet", row_group_size=300)
    with pytest.raises(SparkRuntimeException, match="the file has changed since detect was called"):
        matches.count()


@pytest.mark.spark
@pytest.mark.thorough
def test_a_cached_frame_is_not_read_from_its_files(spark: Any, ds1: pa.Table, tmp_path: Path) -> None:
    pq.write_table(ds1, tmp_path / "f.parquet", row_group_size=100)
    frame = spark.read.parquet(str(tmp_path / "f.parquet"))
    assert reads_files(fastcep.spark.detect(frame, QUERY, slices=2))
    frame.cache()
    try:
        frame.count()
        pq.write_table(ds1.slice(0, 500), tmp_path / "f.parquet", row_group_size=100)
        for cached in (frame, frame.select("ts", "row", "V", "ID", "type"), frame.where("row >= 0")):
            assert_detects(cached, QUERY, one_engine(QUERY, ds1), slices=2)
    finally:
        frame.unpersist()


@pytest.mark.spark
@pytest.mark.thorough
def test_a_survey_of_another_query(spark: Any, ds1: pa.Table, tmp_path: Path) -> None:
    pq.write_table(ds1, tmp_path / "f.parquet", row_group_size=100)
    frame = spark.read.parquet(str(tmp_path / "f.parquet"))
    other = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = b.V AND a.V = 3 WITHIN 1ms", SCHEMA)
    survey = fastcep.spark.survey(frame, QUERY)
    assert reads_files(fastcep.spark.detect(frame, QUERY, slices=2, survey=survey))
    for call in (fastcep.spark.detect, fastcep.spark.explain):
        with pytest.raises(fc.ValidationError, match="query 'query' is not part of this survey"):
            call(frame, other, slices=2, survey=survey)
