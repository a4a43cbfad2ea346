"""Sorted by ``match_order``, the matches of all slices are in the order of one engine."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.detection import assert_detects, one_engine, with_rows
from support.files import found_in_files
from support.harness import without_times

import fastcep as fc

V = {"ID": "int64", "V": "int64"}
TYPES = dict.fromkeys("ABC", V)
SCHEMA = fc.Schema(TYPES, time="ts", type="type", time_unit="us", sequence="row")
#: Queries whose matches wait for the same times, begin and end with other events, and are detected by unbound events.
PATTERNS = {
    "waiting": ["SEQ(A a, B b, NEG C c) WHERE [ID] WITHIN 3us", "SEQ(B a, A b, NEG C c) WHERE [ID] WITHIN 3us",
                "SEQ(A a, B b) WHERE [ID] WITHIN 4us"],
    "longest": ["SEQ(A a, B+ b[]) WHERE [ID] WITHIN 5us PARTITION BY ID STRATEGY partition_contiguity SELECT longest",
                "SEQ(B a, C c) WHERE [ID] WITHIN 4us PARTITION BY ID"],
    "silence": ["SEQ(A a, NEG B n FOR 2us) WHERE [ID] WITHIN 4us", "SEQ(C a, NEG A n FOR 2us) WHERE [ID] WITHIN 3us"],
}  # fmt: skip


def queries_of(kind: str) -> list[fc.Query]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [fc.parse(f"PATTERN {text}", SCHEMA, name=f"q{n}") for n, text in enumerate(PATTERNS[kind])]


@pytest.fixture(scope="module")
def events() -> pa.Table:
    """Return events of which several have the same time."""
    random, count = np.random.default_rng(5), 2_000
    return with_rows(pa.table({
        "type": random.choice(list("ABC"), count), "ID": random.integers(1, 5, count),
        "V": random.integers(1, 3, count), "ts": np.cumsum(random.choice([0, 0, 0, 0, 0, 1, 2], count)),
    }))  # fmt: skip


@pytest.mark.parametrize("slice_count", [1, 4])
@pytest.mark.parametrize("kind", PATTERNS)
def test_the_order_in_files(tmp_path: Path, events: pa.Table, kind: str, slice_count: int) -> None:
    pq.write_table(events, tmp_path / "f.parquet", row_group_size=100)
    kinds = {"type": "string", "ID": "bigint", "V": "bigint", "ts": "bigint", "row": "bigint"}
    queries = queries_of(kind)
    found = found_in_files([str(tmp_path / "f.parquet")], kinds, queries, slice_count)
    expected = one_engine(queries, events)
    for name in expected.column_names:
        assert found[name].to_pylist() == without_times(expected[name]).to_pylist(), name


@pytest.mark.parametrize("kind", PATTERNS)
def test_no_field_of_the_order_depends_on_the_slices(tmp_path: Path, events: pa.Table, kind: str) -> None:
    pq.write_table(events, tmp_path / "f.parquet", row_group_size=100)
    kinds = {"type": "string", "ID": "bigint", "V": "bigint", "ts": "bigint", "row": "bigint"}
    orders = [found_in_files([str(tmp_path / "f.parquet")], kinds, queries_of(kind), number)["match_order"].to_pylist()
              for number in (1, 4, 16)]  # fmt: skip
    assert orders[0] == orders[1] == orders[2]
    assert len({tuple(order.values()) for order in orders[0]}) == len(orders[0])
    assert kind == "silence" or any(order["nth"] for order in orders[0])


def test_windows_that_are_decided_at_one_time(tmp_path: Path) -> None:
    """One by an event, the other by the end of the stream: the second call of the engine continues to count."""
    events = with_rows(pa.table({"type": ["A"] * 4, "ID": [1] * 4, "V": [1] * 4, "ts": [0] * 4}))
    pq.write_table(events, tmp_path / "f.parquet")
    query = fc.parse("PATTERN SEQ(A+ a[]) WINDOW EVERY 3 EVENTS CLOSE AFTER 4 EVENTS STRATEGY skip_till_next "
                     "SELECT longest", SCHEMA, name="q")  # fmt: skip
    kinds = {"type": "string", "ID": "bigint", "V": "bigint", "ts": "bigint", "row": "bigint"}
    found = found_in_files([str(tmp_path / "f.parquet")], kinds, [query], 1)
    expected = one_engine(query, events)
    assert found["window_id"].to_pylist() == expected["window_id"].to_pylist() == [0] * 4 + [3]
    assert [order["nth"] for order in found["match_order"].to_pylist()] == list(range(5))


@pytest.mark.sample(1)
@pytest.mark.spark
@pytest.mark.parametrize("slicing", ["time", "key"])
@pytest.mark.parametrize("kind", PATTERNS)
def test_the_order_of_several_queries(spark: Any, events: pa.Table, kind: str, slicing: str) -> None:
    queries = queries_of(kind)
    expected = one_engine(queries, events)
    assert len(expected) > 300
    assert set(expected["query"].to_pylist()) == {query.name for query in queries}
    frame = spark.createDataFrame(events)
    orders = [assert_detects(frame, queries, expected, slicing=slicing, slices=number)["match_order"].to_pylist()
              for number in (1, 3)]  # fmt: skip
    assert orders[0] == orders[1]


@pytest.mark.thorough
@pytest.mark.spark
def test_the_order_of_matches_that_unbound_events_detect(spark: Any, events: pa.Table) -> None:
    """An event of the same partition ends a longest match, so its last bound event is any number of events before."""
    query = queries_of("longest")[0]
    assert_detects(spark.createDataFrame(events), query, one_engine(query, events), slicing="key", slices=3)
