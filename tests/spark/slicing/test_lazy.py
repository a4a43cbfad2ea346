"""``fastcep.spark.detect`` runs no job when it is called; how often an action reads the DataFrame."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.errors import SparkRuntimeException
from support.detection import assert_detects, one_engine, with_rows

import fastcep as fc
import fastcep.spark
from fastcep import datasets

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

EVENTS = 50_000
V = {"ID": "int64", "V": "int64"}
SCHEMA = fc.Schema(dict.fromkeys("ABCD", V), time="ts", type="type", time_unit="us")
NUMBERED = fc.Schema(dict.fromkeys("ABCD", V), time="ts", type="type", time_unit="us", sequence="row")
TEXT = "PATTERN SEQ(A a, B b, C c) WHERE [ID] AND a.V + b.V = c.V WITHIN {}"


class Reads:
    """A DataFrame that counts the rows that are read from it."""

    def __init__(self, spark: Any, table: pa.Table) -> None:
        self._context, self._numbers = spark.sparkContext, count()
        self._rows = rows = self._context.accumulator(0)

        def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                rows.add(batch.num_rows)
                yield batch

        frame = spark.createDataFrame(table).repartition(3).cache()
        frame.count()
        self.frame = frame.mapInArrow(counted, frame.schema)

    def during(self, action: Callable[[], Any]) -> tuple[int, float]:
        """Return the number of jobs of a call, and how often it reads the DataFrame."""
        before, group = self._rows.value, f"reads {next(self._numbers)}"
        self._context.setJobGroup(group, "test")
        try:
            action()
        finally:
            self._context.setLocalProperty("spark.jobGroup.id", None)
        jobs = self._context.statusTracker().getJobIdsForGroup(group)
        return len(jobs), (self._rows.value - before) / EVENTS


def detect_into(made: list[Any], frame: Any, query: fc.Query, options: dict[str, Any]) -> None:
    made.append(fastcep.spark.detect(frame, query, **options))


@pytest.fixture(scope="module")
def ds1() -> pa.Table:
    return with_rows(datasets.ds1(events=EVENTS, seed=3))


@pytest.fixture(scope="module")
def reads(spark: Any, ds1: pa.Table) -> Reads:
    return Reads(spark, ds1)


@pytest.mark.parametrize(
    ("schema", "within", "slicing"),
    [
        (NUMBERED, "1ms", "auto"), (NUMBERED, "9ms", "auto"), (SCHEMA, "1ms", "auto"), (SCHEMA, "1ms", "key"),
        (SCHEMA, "40 EVENTS", "auto"),
    ],
)  # fmt: skip
def test_an_action_reads_twice(reads: Reads, schema: fc.Schema, within: str, slicing: Any) -> None:
    query = fc.parse(TEXT.format(within), schema)
    made: list[Any] = []
    options: dict[str, Any] = {"slicing": slicing, "slices": 4}
    options |= {} if schema is NUMBERED else {"order_by": "row"}
    assert reads.during(partial(detect_into, made, reads.frame, query, options)) == (0, 0)
    assert reads.during(made[0].count)[1] == 2
    assert reads.during(made[0].collect)[1] == 2


@pytest.mark.parametrize(("schema", "slicing"), [(NUMBERED, "auto"), (SCHEMA, "auto"), (SCHEMA, "key")])
def test_with_a_survey_an_action_reads_once(reads: Reads, ds1: pa.Table, schema: fc.Schema, slicing: Any) -> None:
    queries = [fc.parse(TEXT.format(within), schema, name=f"q{within}") for within in ("1ms", "9ms")]
    surveys: list[Any] = []
    jobs, read = reads.during(lambda: surveys.append(fastcep.spark.survey(reads.frame, queries)))
    assert (jobs, read) == (1, 1)
    (survey,) = surveys
    assert survey.events == EVENTS
    options: dict[str, Any] = {"slicing": slicing, "slices": 4, "survey": survey}
    if schema is SCHEMA:
        options["order_by"] = "row"
    for query in queries:
        made: list[Any] = []
        assert reads.during(partial(detect_into, made, reads.frame, query, options)) == (0, 0)
        assert reads.during(made[0].count)[1] == 1
        assert reads.during(lambda q=query: fastcep.spark.explain(reads.frame, q, **options)) == (0, 0)
        assert_detects(reads.frame, query, one_engine(query, ds1), **options)


def fit_of(frame: Any, query: fc.Query, **options: Any) -> fc.Model:
    return fastcep.spark.fit(query, frame, **options)


WINDOWS = "PATTERN SEQ(A a, B b) WHERE [ID] WINDOW OPEN EVERY 100 EVENTS CLOSE AFTER {}"


@pytest.mark.parametrize(
    ("text", "call", "times"),
    [
        (TEXT.format("1ms"), fastcep.spark.explain, 1),
        (TEXT.format("1ms"), fastcep.spark.transition_counts, 2),
        (WINDOWS.format("1ms"), fastcep.spark.position_counts, 2),
        (TEXT.format("1ms"), partial(fit_of, kind="hybrid", clusters=3), 2),
        (TEXT.format("1ms"), partial(fit_of, kind="pspice"), 4),
        (WINDOWS.format("100 EVENTS"), partial(fit_of, kind="espice", equal_costs=True), 2),
        (WINDOWS.format("100 EVENTS"), partial(fit_of, kind="espice"), 4),
        (WINDOWS.format("1ms"), partial(fit_of, kind="espice"), 6),
    ],
)  # fmt: skip
def test_reads_of_other_calls(reads: Reads, text: str, call: Any, times: int) -> None:
    """As docs/spark.md says."""
    query = fc.parse(text, NUMBERED, name="q")
    assert reads.during(lambda: call(reads.frame, query))[1] == times


def test_a_survey_is_for_its_queries(reads: Reads) -> None:
    survey = fastcep.spark.survey(reads.frame, fc.parse(TEXT.format("1ms"), NUMBERED))
    other = fc.parse("PATTERN SEQ(A a, B b) WHERE a.V = b.V WITHIN 1ms", NUMBERED, name="other")
    with pytest.raises(fc.ValidationError, match="query 'other' is not part of this survey"):
        fastcep.spark.detect(reads.frame, other, survey=survey)
    with pytest.raises(fc.ValidationError, match="has another schema than 'other'"):
        fastcep.spark.survey(reads.frame, [other, fc.parse(TEXT.format("1ms"), SCHEMA)])


def test_long_windows_get_fewer_slices(spark: Any, ds1: pa.Table) -> None:
    """Without a survey and numbers, a query with a key is cut by time, and no slice reads much of the stream again."""
    query = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] AND a.V = 1 AND b.V = 2 WITHIN 100ms", SCHEMA)
    assert_detects(spark.createDataFrame(ds1), query, one_engine(query, ds1), order_by="row")


def test_identities_do_not_depend_on_the_cut(spark: Any, ds1: pa.Table, tmp_path: Path) -> None:
    query = fc.parse(TEXT.format("1ms") + " RETURN a.V AS v", NUMBERED, name="q")
    pq.write_table(ds1, tmp_path / "ds1.parquet", row_group_size=5_000)
    files, frame = spark.read.parquet(str(tmp_path / "ds1.parquet")), spark.createDataFrame(ds1)
    ways: list[tuple[Any, dict[str, Any]]] = [
        (files, {}), (frame, {"slices": 1}), (frame, {"slices": 7}), (frame, {"slicing": "key", "slices": 3})
    ]  # fmt: skip
    found = []
    for source, options in ways:
        matches = fastcep.spark.detect(source, query, match_id=True, **options)
        assert matches.columns[-2:] == ["match_id", "match_order"]
        found.append({tuple(row) for row in matches.select("match_id", "a", "b", "c").collect()})
    assert len(found[0]) == len({row[0] for row in found[0]}) == len(one_engine(query, ds1))
    assert all(each == found[0] for each in found)
    other = fastcep.spark.detect(files, fc.parse(TEXT.format("1ms"), NUMBERED, name="other"), match_id=True)
    assert not {row[0] for row in other.select("match_id").collect()} & {row[0] for row in found[0]}


def test_a_missing_interpreter(spark: Any, ds1: pa.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    query, frame = fc.parse(TEXT.format("1ms"), NUMBERED), spark.createDataFrame(ds1)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python-that-is-missing")
    with pytest.raises(fc.ValidationError, match=r"need 'python-that-is-missing', which does not exist; set PYSPARK_P"):
        fastcep.spark.detect(frame, query)
    monkeypatch.setattr("fastcep.spark.columns.set_interpreter", lambda session: None)  # as on a cluster
    with pytest.raises(fc.ValidationError, match=r"cannot run 'python-that-is-missing' for .* set PYSPARK_PYTHON"):
        fastcep.spark.survey(frame, query)


def test_local_sessions_run_the_interpreter_of_the_driver(
    spark: Any, ds1: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python-that-is-missing")
    monkeypatch.delenv("PYSPARK_PYTHON")
    query = fc.parse(TEXT.format("1ms"), NUMBERED)
    assert fastcep.spark.detect(spark.createDataFrame(ds1), query).count() == len(one_engine(query, ds1))
    assert spark.sparkContext.pythonExec == sys.executable


@pytest.mark.parametrize("setting", ["codegen.wholeStage=false", "codegen.maxFields=3"])
def test_an_error_is_raised_before_the_user_filters_matches(spark: Any, ds1: pa.Table, setting: str) -> None:
    """Also if Spark does not compile its plan: it then evaluates conditions one by one, the cheapest first."""
    name, value = f"spark.sql.{setting}".split("=")
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        table = ds1.set_column(0, "type", pc.if_else(pc.equal(ds1["row"], 5), None, ds1["type"]))
        query = fc.parse(TEXT.format("1ms") + " RETURN a.V AS v", NUMBERED)
        matches = fastcep.spark.detect(spark.createDataFrame(table), query)
        for filtered in (matches.where("query = 'query'"), matches.where("v > 0"), matches.dropna()):
            with pytest.raises(SparkRuntimeException, match="column 'type': found null"):
                filtered.collect()
    finally:
        spark.conf.set(name, before)
