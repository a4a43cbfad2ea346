"""``fastcep run --spark``: the matches of `fastcep.spark.detect`, with exact times, in the order of a single engine.

This process fetches matches partition by partition, each batch as Arrow bytes in one binary value. So it never holds
all matches, needs no folder in common with the executors, and changes no type. Matches are persisted before they are
sorted; otherwise Spark would compute them twice, once to sample their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from fastcep.cli.spark import SparkEvents, SparkOptions, events_on_spark, session
from fastcep.engine import Engine

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from fastcep.cli.display import Display
    from fastcep.cli.job import Job
    from fastcep.cli.summary import Summary

__all__ = ["run_on_spark"]

_QUERY = 3  # position among the order columns
_ORDER_COLUMNS = 6


def run_on_spark(job: Job, options: SparkOptions, attributes: bool, display: Display) -> Summary:
    """Run a job on Spark; of the engine's options it supports ``memory_limit`` and ``index``."""
    engine_options = {"index": job.engine["index"], "memory_limit": job.engine["memory_limit"]}
    engine = Engine(job.queries, attributes=attributes, **engine_options)  # rejects bad queries before Spark starts
    empty = engine.flush().to_arrow()
    summary = job.summary()
    with ExitStack() as stack:
        writer = job.outputs.open()
        if writer is not None:
            stack.enter_context(writer)
        start = perf_counter()
        spark = stack.enter_context(session(options))
        events = stack.enter_context(events_on_spark(spark, job.inputs, job.sources, job.schema, options))
        summary.events, summary.bad_rows = events.rows, events.bad_rows
        display.update(summary)
        if writer is not None:
            writer.write(empty)
        for table in _tables(job, events, {"attributes": attributes, **engine_options}, empty.schema, stack):
            summary.matches += len(table)
            for name, count in _counts_by_query(table).items():
                summary.matches_by_query[name] += count
            if writer is not None:
                writer.write(table)
            if display.wants(len(table)):
                display.print(table)
            display.update(summary)
        summary.stop(perf_counter() - start)
    return summary


def _counts_by_query(table: pa.Table) -> dict[str, int]:
    column: Any = table["query"].combine_chunks()
    return {row["values"]: row["counts"] for row in column.value_counts().to_pylist()}


def _tables(
    job: Job, events: SparkEvents, options: dict[str, Any], schema: pa.Schema, stack: ExitStack
) -> Iterator[pa.Table]:
    """Yield tables of matches, in order, with the columns of a single engine."""
    from fastcep.spark.detect import detect_exactly

    if events.frame is None:
        return
    frames: list[DataFrame] = []
    for query in job.queries:
        matches = detect_exactly(events.frame, query, order_by=events.order_by, **options).persist()
        stack.callback(matches.unpersist)
        frames.append(matches)
    names = [query.name for query in job.queries]
    for row in _packed(_ordered(frames, schema)).toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(row["batch"]) as batches:
            for batch in batches:
                yield _table(batch, names, schema)


def _ordered(frames: Sequence[DataFrame], schema: pa.Schema) -> DataFrame:
    """Merge the matches of all queries in the order of `Matches.to_arrow`: by detection, then query, then creation.

    The first `_ORDER_COLUMNS` columns hold the order, the others the columns of `schema`.
    """
    from pyspark.sql import functions as F

    from fastcep.spark.slice_task import ORDER

    kinds = {field.name: field.dataType for matches in frames for field in matches.schema.fields}
    parts: list[DataFrame] = []
    for number, matches in enumerate(frames):
        detected, waited, last, nth = (F.col(f"{ORDER}.{name}") for name in ("detected", "waited", "last", "nth"))
        # No event detects a match that waited for a time.
        order = [detected, waited, F.when(~waited, last), F.lit(number), last, nth]
        columns = [
            F.col(f"`{name.replace('`', '``')}`") if name in matches.columns else F.lit(None).cast(kinds[name])
            for name in schema.names
        ]
        aliased = [column.alias(f"m{position}") for position, column in enumerate([*order, *columns])]
        parts.append(matches.select(*aliased))
    union = parts[0]
    for part in parts[1:]:
        union = union.union(part)
    return union.orderBy(*(f"m{position}" for position in range(_ORDER_COLUMNS)))


def _packed(frame: DataFrame) -> DataFrame:
    """Pack each batch into one binary value: an Arrow stream."""

    def fastcep_pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.record_batch({"batch": pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    return frame.mapInArrow(fastcep_pack, "batch binary")


def _table(batch: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return a batch with the columns and types of `schema`."""
    columns: dict[str, Any] = {}
    for position, field in enumerate(schema):
        column: Any = batch.column(_ORDER_COLUMNS + position)
        if field.name == "query":
            column = _query_names(batch.column(_QUERY), names, field.type)
        columns[field.name] = column if column.type == field.type else column.cast(field.type)
    return pa.table(columns, schema=schema)


def _query_names(numbers: Any, names: Sequence[str], kind: Any) -> Any:
    texts = pa.array(names, pa.string())
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(numbers.cast(kind.index_type), texts)
    return texts.take(numbers)
