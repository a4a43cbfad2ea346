"""``fastcep.spark.detect`` with several queries: one pass finds what one engine with the same queries finds."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.detection import assert_detects, one_engine, with_rows

import fastcep as fc
import fastcep.spark
from fastcep import datasets
from fastcep.plan.plan import KeyPlan
from fastcep.plan.slicing import Context
from fastcep.spark.files.cutter import cut_files, packed
from fastcep.spark.files.job import file_detection
from fastcep.spark.files.row_groups import files_of
from fastcep.spark.query_group import group_of
from fastcep.spark.slice_task import ERROR, ORDER, errors_as_rows, with_error

V = {"ID": "int64", "V": "int64"}
TYPES = dict.fromkeys("ABCD", V)
PLAIN = fc.Schema(TYPES, time="ts", type="type", time_unit="us")
NUMBERED = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence="row")
PATTERNS = [
    "SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN 1ms RETURN a.V AS v",
    "SEQ(A a, B+ k[], C c) WHERE [ID] AND k[i].V = a.V AND c.V = 3 WITHIN 500us",
    "SEQ(A a, NEG B n, C x) WHERE [ID] AND a.V = x.V AND a.V = 4 WITHIN 700us RETURN x.ID AS v",
    "SEQ(B a, C b, NEG D d) WHERE [ID] AND a.V = b.V AND a.V = 5 WITHIN 300us",
]


def queries_of(schema: fc.Schema, patterns: list[str] = PATTERNS) -> list[fc.Query]:
    return [fc.parse(f"PATTERN {pattern}", schema, name=f"q{number}") for number, pattern in enumerate(patterns)]


def test_the_longest_context_and_a_common_key() -> None:
    group = group_of(queries_of(NUMBERED))
    assert isinstance(group.possible.key, KeyPlan)
    assert group.possible.time == Context(1_000_000)
    assert not group.possible.numbered
    assert group.columns == {0, 1}
    assert group_of(queries_of(NUMBERED)[1:3]).relevant() == (
        "((type IN (0, 1) AND (true)) OR (type = 2 AND (((c1 = 3L))))) OR "
        "((type = 0 AND (((c1 = 4L)))) OR (type IN (1, 2) AND (true)))"
    )
    others = ["SEQ(A a, B b) WHERE a.V = b.V WITHIN 10 EVENTS", "SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1s"]
    group = group_of(queries_of(NUMBERED, others))
    assert group.possible.numbered
    assert group.possible.time == Context(10**9, 10)
    group = group_of(queries_of(NUMBERED, ["SEQ(A a, B b) WHERE a.V = b.V WITHIN 1s", others[1]]))
    assert group.possible.key == "queries 'q0' and 'q1' have different keys"
    windows = [f"SEQ(A a, B b) WINDOW OPEN EVERY {n} EVENTS CLOSE AFTER 1ms" for n in (5, 5, 7)]
    assert group_of(queries_of(NUMBERED, windows[:2])).possible.time == Context(10**6, every_events=5)
    assert group_of(queries_of(NUMBERED, windows)).possible.time == "WINDOW EVERY differs between queries"


def test_the_order_of_several_queries(ds1: pa.Table, tmp_path: Path) -> None:
    """Tasks without Spark: an error is a last row; without one, rows are in the order of one engine."""
    queries = queries_of(NUMBERED)
    pq.write_table(ds1, tmp_path / "ds1.parquet", row_group_size=500)
    kinds = {"type": "string", "ID": "bigint", "V": "bigint", "ts": "bigint", "row": "bigint"}
    files = files_of([str(tmp_path / "ds1.parquet")], kinds, NUMBERED, list(kinds))
    assert files is not None
    slices = cut_files(files, 3, 3, Context(1_000_000))
    assert slices is not None
    task = file_detection(group_of(queries), None, files, {})
    tasks = packed(slices).take([2, 0, 1]).to_batches()
    schema = with_error(task.detection.schema)
    rows = list(errors_as_rows(task(tasks), task.detection.schema))
    found, expected = pa.Table.from_batches(rows, schema).sort_by(ORDER), one_engine(queries, ds1)
    assert found[ERROR].null_count == len(found) == len(expected)
    for name in ("query", "a", "b", "k", "c", "x", "v"):
        assert found[name].to_pylist() == expected[name].to_pylist(), name
    (tmp_path / "ds1.parquet").unlink()
    (row,) = errors_as_rows(task(tasks), task.detection.schema)
    assert row.schema == schema
    assert row.column(ERROR)[0].as_py().startswith("cannot read ")
    assert row.column("query")[0].as_py() is None


@pytest.fixture(scope="module")
def ds1() -> pa.Table:
    return with_rows(datasets.ds1(events=20_000, seed=11))


@pytest.fixture(scope="module")
def frame(spark: Any, ds1: pa.Table) -> Any:
    return spark.createDataFrame(ds1).repartition(3, "V").cache()


@pytest.mark.sample(1)
@pytest.mark.spark
@pytest.mark.parametrize("slicing", ["time", "key"])
def test_several_queries(frame: Any, ds1: pa.Table, slicing: str) -> None:
    """All matches and their order, with null in the columns of other queries."""
    queries = queries_of(NUMBERED)
    expected = one_engine(queries, ds1)
    assert set(expected["query"].to_pylist()) == {"q0", "q1", "q2", "q3"}
    assert_detects(frame, queries, expected, slicing=slicing, slices=5)


@pytest.mark.thorough
@pytest.mark.spark
def test_several_queries_without_numbers_and_in_files(spark: Any, frame: Any, ds1: pa.Table, tmp_path: Path) -> None:
    queries = queries_of(PLAIN)
    expected = one_engine(queries, ds1)
    assert_detects(frame, queries, expected, order_by="row", slices=4)
    pq.write_table(ds1, tmp_path / "ds1.parquet", row_group_size=500)
    files = spark.read.parquet(str(tmp_path / "ds1.parquet"))
    assert "row groups, which are in order" in fastcep.spark.explain(files, queries, order_by="row", slices=4)
    assert_detects(files, queries, expected, order_by="row", slices=4)


@pytest.mark.thorough
@pytest.mark.spark
def test_a_survey_of_several_queries(frame: Any, ds1: pa.Table) -> None:
    queries = queries_of(NUMBERED)[:2]
    survey = fastcep.spark.survey(frame, queries)
    assert_detects(frame, queries, one_engine(queries, ds1), survey=survey, slices=3)
    assert_detects(frame, queries[1], one_engine(queries[1], ds1), survey=survey, slices=3)
    text = fastcep.spark.explain(frame, queries, survey=survey, slices=3)
    assert "20,000 events in 3 slices" in text


@pytest.mark.spark
def test_refusals(frame: Any) -> None:
    unbounded = ["SEQ(A a, B b) WHERE a.V = b.V WITHIN UNBOUNDED", "SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1s"]
    queries = queries_of(NUMBERED, unbounded)
    with pytest.raises(fc.ValidationError, match=r"'q0, q1' cannot be cut: .* different keys.*one at a time"):
        fastcep.spark.detect(frame, queries)
    with pytest.raises(fc.ValidationError, match="longest_window='1s': found 2 queries, expected one"):
        fastcep.spark.detect(frame, queries_of(NUMBERED)[:2], longest_window="1s")
    with pytest.raises(fc.ValidationError, match="two queries are named 'q0'"):
        fastcep.spark.detect(frame, [queries[0], queries[0]])


@pytest.mark.spark
@pytest.mark.filterwarnings("ignore:query 'query' is WITHIN UNBOUNDED")
def test_a_warning_of_one_heavy_key(spark: Any) -> None:
    """Half of the rows have one key, and UNBOUNDED cannot be cut by time."""
    table = pa.table({"at": range(4_000), "n": range(4_000), "x": [n if n % 4 == 0 else 7 for n in range(4_000)]})
    schema = fc.Schema({"A": {"x": "int64"}}, time="at", sequence="n")
    frame = spark.createDataFrame(table)
    query = fc.parse("PATTERN SEQ(A a, A b) WHERE [x] WITHIN UNBOUNDED", schema)
    text = fastcep.spark.explain(frame, query, slices=4)
    assert re.search(r"warning     one slice has 7\d% of the events, so more executors do not help: its key gro", text)
    assert "cannot be cut by time: WITHIN UNBOUNDED lets a match begin at any earlier time\n" in text
    bounded = fc.parse("PATTERN SEQ(A a, A b) WHERE [x] WITHIN 900ns", schema)
    assert "warning" not in fastcep.spark.explain(frame, bounded, slices=4, slicing="key")


@pytest.mark.spark
def test_the_source_filters_and_reads_needed_columns(spark: Any, ds1: pa.Table, tmp_path: Path) -> None:
    pq.write_table(ds1.sort_by("V"), tmp_path / "ds1.parquet", row_group_size=1_000)  # not in the order of time
    frame = spark.read.parquet(str(tmp_path / "ds1.parquet"))
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = 10 AND b.V = 10 WITHIN 1ms", NUMBERED)
    survey = fastcep.spark.survey(frame, query)
    plan = fastcep.spark.detect(frame, query, survey=survey, slices=2)._jdf.queryExecution().toString()
    (filters,) = {line.partition("PushedFilters: ")[2] for line in plan.splitlines() if "PushedFilters: " in line}
    assert all(text in filters for text in ("In(type, [A,B])", "EqualTo(V,10)"))
    assert "ReadSchema: struct<type:string,V:bigint,ts:bigint,row:bigint>" in plan
    assert_detects(frame, query, one_engine(query, ds1), survey=survey, slices=2)
