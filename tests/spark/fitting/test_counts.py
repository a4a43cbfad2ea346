"""Counts of a stream, added up from the counts of its slices, on real Spark."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from support.detection import with_rows

import fastcep as fc
import fastcep.spark
from fastcep import datasets
from fastcep.shedding.counts import matrix, position_counts, transition_counts, window_sizes

pytestmark = [pytest.mark.spark, pytest.mark.thorough]

V = {"ID": "int64", "V": "int64"}
DS1 = fc.Schema(dict.fromkeys("ABCD", V), time="ts", type="type", time_unit="us")
SAME = "a.ID = b.ID AND a.ID = c.ID"


@pytest.fixture(scope="module")
def ds1() -> pa.Table:
    return with_rows(datasets.ds1(events=20_000, seed=3))


@pytest.fixture(scope="module")
def frame(spark: Any, ds1: pa.Table) -> Any:
    return spark.createDataFrame(ds1).repartition(3, "V").cache()


@pytest.mark.parametrize(
    "text",
    [
        f"SEQ(A a, B b, C c) WHERE {SAME} AND a.V + b.V = c.V WITHIN 1ms",
        "SEQ(A a, B+ b[], C c) WHERE [ID] AND b[i].V = a.V WITHIN 90 EVENTS",
        f"SEQ(A a, B b, C c) WHERE {SAME} WINDOW OPEN EVERY 70 EVENTS CLOSE AFTER 150 EVENTS STRATEGY skip_till_next",
        "SEQ(A a, B b) WHERE a.ID = b.ID WINDOW OPEN EVERY 500us CLOSE AFTER 700us STRATEGY skip_till_next",
    ],
)
def test_transitions(frame: Any, ds1: pa.Table, text: str) -> None:
    query = fc.parse(f"PATTERN {text}", DS1, name="counted")
    expected = transition_counts(query, ds1)
    counts = fastcep.spark.transition_counts(frame, query, order_by="row", slices=5)
    table = fastcep.spark.counts_table(counts)
    assert table.drop_columns("time").equals(expected.drop_columns("time"))
    assert table["time"].to_pylist() == pytest.approx(expected["time"].to_pylist(), rel=1e-9)
    assert (matrix(table) == matrix(expected)).all()
    assert counts.columns == expected.column_names


@pytest.mark.parametrize(
    "window",
    ["OPEN ON A o WHERE o.V = 1 CLOSE AFTER 60 EVENTS", "OPEN EVERY 70 EVENTS CLOSE AFTER 1ms",
     "OPEN EVERY 1ms CLOSE AFTER 800us", "OPEN EVERY 2ms CLOSE AFTER 90 EVENTS"],
)  # fmt: skip
def test_positions(frame: Any, ds1: pa.Table, window: str) -> None:
    query = fc.parse(f"PATTERN SEQ(A a, B b) WHERE a.V = b.V WINDOW {window} SELECT last", DS1, name="counted")
    expected = position_counts(query, ds1, bins=10)
    table = fastcep.spark.counts_table(
        fastcep.spark.position_counts(frame, query, order_by="row", bins=10, slices=5)
    )
    assert table.equals(expected)
    assert window_sizes(table).equals(window_sizes(expected))
    assert sum(expected["matched"].to_pylist()) > 0


def test_refusals(frame: Any) -> None:
    unbounded = fc.parse("PATTERN SEQ(A a, B b) WHERE [ID] WITHIN UNBOUNDED", DS1)
    with pytest.raises(fc.ValidationError, match="cannot be cut by time: WITHIN UNBOUNDED"):
        fastcep.spark.transition_counts(frame, unbounded)
    within = fc.parse("PATTERN SEQ(A a, B b) WITHIN 1ms", DS1)
    with pytest.raises(fc.ValidationError, match="has WITHIN 1ms, under which an event has no position"):
        fastcep.spark.position_counts(frame, within)
    closed = fc.parse("PATTERN SEQ(A a, B b) WINDOW OPEN ON A o CLOSE ON B c", DS1)
    with pytest.raises(fc.ValidationError, match="CLOSE ON an event lets a window end at any later time"):
        fastcep.spark.position_counts(frame, closed)
    first = fc.parse("PATTERN SEQ(A a, B b) WITHIN 1ms SELECT first", DS1)
    with pytest.raises(fc.ValidationError, match="has SELECT first, which cannot be counted yet"):
        fastcep.spark.transition_counts(frame, first)
    with pytest.raises(fc.ValidationError, match="expected a DataFrame of transition_counts or position_counts"):
        fastcep.spark.counts_table(frame)
