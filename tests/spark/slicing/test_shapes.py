"""``fastcep.spark.detect`` on streams of unusual shapes: skewed keys, many keys, many small files, and without AQE."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.detection import assert_detects, one_engine

import fastcep as fc
import fastcep.spark

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

SCHEMA = fc.Schema({name: {"k": "int64", "v": "int64"} for name in "AB"}, time="at", type="t", sequence="n")
TEXT = "PATTERN SEQ(A a, B b) WHERE [k] AND a.v = b.v WITHIN {}"


def stream(keys: Any, seed: int = 1) -> pa.Table:
    """Return events of two types with the given keys, one per microsecond."""
    count, draw = len(keys), np.random.default_rng(seed)
    return pa.table({
        "at": pa.array(np.arange(count) * 1_000), "n": pa.array(np.arange(count)), "k": pa.array(keys),
        "t": pa.array(np.where(draw.random(count) < 0.5, "A", "B")), "v": pa.array(draw.integers(0, 60, count)),
    })  # fmt: skip


@pytest.fixture(params=["true", "false"], ids=["AQE", "no AQE"])
def adaptive(spark: Any, request: pytest.FixtureRequest) -> Any:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", request.param)
    yield
    spark.conf.set("spark.sql.adaptive.enabled", before)


@pytest.mark.usefixtures("adaptive")
@pytest.mark.parametrize("within", ["300us", "20ms"])
def test_half_of_the_rows_have_one_key(spark: Any, within: str) -> None:
    """By key, which is cut by time in addition; and by time."""
    draw = np.random.default_rng(5)
    table = stream(np.where(draw.random(30_000) < 0.5, 7, draw.integers(0, 5_000, 30_000)))
    query = fc.parse(TEXT.format(within), SCHEMA)
    expected = one_engine(query, table)
    assert len(expected) > 300
    frame = spark.createDataFrame(table).repartition(4, "v")
    text = fastcep.spark.explain(frame, query, slicing="key", slices=6)
    assert "48 groups, 1 of them cut by time" in text
    assert "warning" not in text
    for slicing in ("key", "time"):
        assert_detects(frame, query, expected, slicing=slicing, slices=6)


@pytest.mark.parametrize(("within", "ways"), [("300us", ("key", "time")), ("20ms", ("key", "time")), ("1s", ("key",))])
def test_keys_of_a_zipf_distribution(spark: Any, within: str, ways: tuple[str, ...]) -> None:
    """Several keys are heavier than a slice: they are cut by time, each into as many slices as it needs."""
    table = stream(np.minimum(np.random.default_rng(11).zipf(1.2, 30_000), 10**9))
    query = fc.parse(TEXT.format(within), SCHEMA)
    expected, frame = one_engine(query, table), spark.createDataFrame(table).repartition(3, "v")
    assert len(expected) > 300
    for slicing in ways:
        assert_detects(frame, query, expected, slicing=slicing, slices=8)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:query 'query' is WITHIN UNBOUNDED")
def test_a_million_keys_of_two_rows(spark: Any) -> None:
    draw = np.random.default_rng(6)
    keys = np.repeat(np.arange(10**6), 2)
    draw.shuffle(keys)
    table = stream(keys)
    frame = spark.createDataFrame(table)
    for window, slicing in (("UNBOUNDED", "auto"), ("200ms", "key"), ("200ms", "time")):
        query = fc.parse(TEXT.format(window), SCHEMA)
        matches = fastcep.spark.in_order(fastcep.spark.detect(frame, query, slicing=slicing)).select("a", "b").toArrow()
        assert matches.equals(one_engine(query, table).select(["a", "b"]).cast(matches.schema))


@pytest.mark.parametrize("in_order", [True, False])
def test_two_hundred_small_files(spark: Any, tmp_path: Path, in_order: bool) -> None:
    table = stream(np.random.default_rng(8).integers(0, 40, 10_000))
    order = np.arange(10_000) if in_order else np.random.default_rng(9).permutation(10_000)
    for number in range(200):
        rows = pa.array(order[number * 50 : number * 50 + 50])
        pq.write_table(table.take(rows), tmp_path / f"{(number * 77) % 200:03}.parquet")
    frame = spark.read.parquet(str(tmp_path))
    query = fc.parse(TEXT.format("300us"), SCHEMA)
    text = fastcep.spark.explain(frame, query, slices=5)
    assert ("tasks read the 200 row groups" in text) == in_order
    assert_detects(frame, query, one_engine(query, table), slices=5)
    assert_detects(frame.where("v >= 0"), query, one_engine(query, table), slices=5)
