"""Compare the result of `detect` with that of one engine over the sorted stream."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa

import fastcep as fc
import fastcep.spark


def with_rows(table: pa.Table) -> pa.Table:
    """Add ``row``, the number of each row, which orders ties."""
    return table.append_column("row", pa.array(range(len(table)), pa.int64()))


def one_engine(query: fc.Query, table: pa.Table, **options: Any) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = fc.Engine(query, **options)
    return pa.concat_tables([engine.process(table).to_arrow(), engine.flush().to_arrow()])


def assert_detects(frame: Any, query: fc.Query, wanted: pa.Table, **options: Any) -> pa.Table:
    """Check the matches, their order and all columns; times of detection are in microseconds."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fastcep.spark.in_order(fastcep.spark.detect(frame, query, **options)).toArrow()
    assert found.column_names == [*wanted.column_names, "match_order"]
    detected = pa.array([order["detected"] for order in found["match_order"].to_pylist()], pa.timestamp("ns", "UTC"))
    assert detected.equals(wanted["detected_at"].combine_chunks())
    assert found["detected_at"].cast(pa.timestamp("us", "UTC")).to_pylist() == [
        None if time is None else time.to_pydatetime(warn=False) for time in wanted["detected_at"].to_pylist()
    ]
    for name in wanted.column_names:
        if name != "detected_at":
            assert found[name].to_pylist() == wanted[name].to_pylist(), name
    return found
