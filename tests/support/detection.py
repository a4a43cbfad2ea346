"""Compare the result of `detect` with that of one engine over the sorted stream."""

from __future__ import annotations

import warnings
from typing import Any

import pyarrow as pa

import fastcep as fc
import fastcep.spark
from support.harness import TIME, without_times


def with_rows(table: pa.Table) -> pa.Table:
    """Add ``row``, the number of each row, which orders ties."""
    return table.append_column("row", pa.array(range(len(table)), pa.int64()))


def one_engine(query: fc.Query | list[fc.Query], table: pa.Table, **options: Any) -> pa.Table:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        engine = fc.Engine(query, **options)
    return pa.concat_tables([engine.process(table).to_arrow(), engine.flush().to_arrow()])


def assert_detects(frame: Any, query: fc.Query | list[fc.Query], wanted: pa.Table, **options: Any) -> pa.Table:
    """Check the matches, their order and all columns; times are in microseconds, rounded down."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = fastcep.spark.in_order(fastcep.spark.detect(frame, query, **options)).toArrow()
    assert found.column_names == [*wanted.column_names, "match_order"]
    detected = pa.array([order["detected"] for order in found["match_order"].to_pylist()], pa.timestamp("ns", "UTC"))
    assert detected.equals(wanted["detected_at"].combine_chunks())
    for name in wanted.column_names:
        if wanted[name].type in (TIME, pa.large_list(TIME)):
            assert microseconds(found[name]) == _rounded(without_times(wanted[name]).to_pylist()), name
        else:
            assert found[name].to_pylist() == wanted[name].to_pylist(), name
    return found


def reads_files(matches: Any) -> bool:
    """Return whether the tasks read files: the source of the plan is a range of slice numbers."""
    return "parquet" not in matches._jdf.queryExecution().toString()


def microseconds(column: Any) -> list[Any]:
    """Return times of Spark, or lists of them, as microseconds."""
    is_list = pa.types.is_list(column.type)
    assert is_list or pa.types.is_timestamp(column.type), column.type
    number = pa.int64()
    exact: Any = column.cast(pa.list_(pa.timestamp("us")) if is_list else pa.timestamp("us"))
    return exact.cast(pa.list_(number) if is_list else number).to_pylist()


def _rounded(nanoseconds: Any) -> Any:
    if isinstance(nanoseconds, list):
        return list(map(_rounded, nanoseconds))
    return None if nanoseconds is None else nanoseconds // 1_000
