"""``fastcep run --spark``: the matches of `fastcep.spark.detect`, in the order in which one engine gives them.

Matches come to this process partition by partition, each batch of them as bytes of Arrow in one value: so they are not
collected, executors and this process need no folder in common, and no type changes on the way. They are kept on Spark
while they are sorted, as otherwise they would be found twice: once for a sample of their order.
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

_QUERY, _DETECTED = 3, 0  # which of the columns of the order


def run_on_spark(job: Job, options: SparkOptions, attributes: bool, shown: Display) -> Summary:
    """Run a job; of the engine's options it has ``memory_limit`` and ``index``."""
    own = {"index": job.engine["index"], "memory_limit": job.engine["memory_limit"]}
    engine = Engine(job.queries, attributes=attributes, **own)  # refuses what cannot run, before Spark starts
    nothing = engine.flush().to_arrow()
    summary = job.summary()
    with ExitStack() as stack:
        writer = job.outputs.open()
        if writer is not None:
            stack.enter_context(writer)
        start = perf_counter()
        spark = stack.enter_context(session(options))
        events = stack.enter_context(events_on_spark(spark, job.inputs, job.sources, job.schema, options))
        summary.events, summary.bad_rows = events.rows, events.bad_rows
        shown.update(summary)
        if writer is not None:
            writer.write(nothing)
        for table in _tables(job, events, {"attributes": attributes, **own}, nothing.schema, stack):
            summary.matches += len(table)
            for name, count in _counts(table).items():
                summary.matches_by_query[name] += count
            if writer is not None:
                writer.write(table)
            if shown.wants(len(table)):
                shown.print(table)
            shown.update(summary)
        summary.stop(perf_counter() - start)
    return summary


def _counts(table: pa.Table) -> dict[str, int]:
    column: Any = table["query"].combine_chunks()
    return {row["values"]: row["counts"] for row in column.value_counts().to_pylist()}


def _tables(
    job: Job, events: SparkEvents, options: dict[str, Any], schema: pa.Schema, stack: ExitStack
) -> Iterator[pa.Table]:
    """Tables of matches, in order, with the columns that one engine's have."""
    import fastcep.spark

    if events.frame is None:
        return
    found: list[DataFrame] = []
    for query in job.queries:
        matches = fastcep.spark.detect(events.frame, query, order_by=events.order_by, **options).persist()
        stack.callback(matches.unpersist)
        found.append(matches)
    names = [query.name for query in job.queries]
    for row in _packed(_ordered(found, schema)).toLocalIterator(prefetchPartitions=True):
        with pa.ipc.open_stream(row["batch"]) as batches:
            for batch in batches:
                yield _table(batch, names, schema)


def _ordered(found: Sequence[DataFrame], schema: pa.Schema) -> DataFrame:
    """Matches of all queries in the order of `Matches.to_arrow`: by what came first, then by query, then by birth.

    Columns are known by their numbers: those of the order, and then those of `schema`.
    """
    from pyspark.sql import functions as F

    from fastcep.spark.slice_task import ORDER

    kinds = {field.name: field.dataType for matches in found for field in matches.schema.fields}
    parts: list[DataFrame] = []
    for number, matches in enumerate(found):
        detected, waited, last, nth = (F.col(f"{ORDER}.{name}") for name in ("detected", "waited", "last", "nth"))
        # What waited for a time has no event that it is detected by.
        order = [detected, waited, F.when(~waited, last), F.lit(number), last, nth]
        columns = [
            F.col(f"`{name.replace('`', '``')}`") if name in matches.columns else F.lit(None).cast(kinds[name])
            for name in schema.names
        ]
        own = [column.alias(f"m{at}") for at, column in enumerate([*order, *columns])]
        parts.append(matches.select(*own))
    whole = parts[0]
    for part in parts[1:]:
        whole = whole.union(part)
    return whole.orderBy(*(f"m{at}" for at in range(6)))


def _packed(frame: DataFrame) -> DataFrame:
    """Each batch as one value."""

    def fastcep_pack(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.record_batch({"batch": pa.array([sink.getvalue().to_pybytes()], pa.binary())})

    return frame.mapInArrow(fastcep_pack, "batch binary")


def _table(batch: pa.RecordBatch, names: Sequence[str], schema: pa.Schema) -> pa.Table:
    """The columns of `schema`, of its types; times of detection with all their digits."""
    columns: dict[str, Any] = {}
    for at, field in enumerate(schema):
        column: Any = batch.column(6 + at)
        if field.name == "query":
            column = _named(batch.column(_QUERY), names, field.type)
        elif field.name == "detected_at":
            column = batch.column(_DETECTED)
        columns[field.name] = column if column.type == field.type else column.cast(field.type)
    return pa.table(columns, schema=schema)


def _named(numbers: Any, names: Sequence[str], kind: Any) -> Any:
    texts = pa.array(names, pa.string())
    if pa.types.is_dictionary(kind):
        return pa.DictionaryArray.from_arrays(numbers.cast(kind.index_type), texts)
    return texts.take(numbers)
