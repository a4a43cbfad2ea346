"""Decide whether the tasks of a query read the files of a DataFrame themselves, and make the task."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from fastcep.engine import Engine
from fastcep.events import Schema
from fastcep.plan.slicing import Context
from fastcep.spark.columns import stored_types
from fastcep.spark.files.cutter import FileSlice, cut_by_time, cut_files
from fastcep.spark.files.row_groups import OrderedFiles, ordered_files
from fastcep.spark.files.task import FILE_NUMBER, FileDetection
from fastcep.spark.functions import ship_functions
from fastcep.spark.query_group import QueryGroup
from fastcep.spark.slice_task import Detection, match_schema
from fastcep.spark.slicing.cutter import MAX_EVENTS, slice_counter

__all__ = ["describe_files", "file_detection", "file_slices"]

#: Type of strings with few distinct values. Engines take it as it is, so it need not be decoded.
_ENCODED = pa.dictionary(pa.int32(), pa.string())


def file_slices(
    frame: DataFrame,
    queries: QueryGroup,
    order_by: str | Sequence[str] | None,
    slicing: str,
    slices: int | None,
) -> tuple[OrderedFiles, list[FileSlice]] | None:
    """Return the files of a DataFrame and their slices; None if events must be sent to slices by Spark.

    Parameters
    ----------
    frame, order_by, slicing, slices
        As for `detect`.
    queries
        Queries that run over the events.
    """
    context, schema = queries.possible.time, queries.schema
    if slicing == "key" or not isinstance(context, Context) or context.every_events or context.every_nanoseconds:
        return None
    if schema.sequence is None and _has_floats(frame, queries, order_by):
        return None  # Spark orders NaN and -0.0 differently from Arrow
    columns = _columns(queries, order_by)
    # Otherwise positions in the stream count, and those of events are known only if all rows are events.
    by_time = schema.sequence is not None and not context.events
    files = None if columns is None else ordered_files(frame, schema, columns, any_order=by_time)
    if files is None:
        return None
    slice_count = slice_counter(frame.sparkSession, slices, MAX_EVENTS)(files.rows)
    cut = (cut_by_time if by_time else cut_files)(files, slice_count, max(1, slice_count // 2), context)
    return None if cut is None else (files, cut)


def describe_files(files: OrderedFiles, slices: Sequence[FileSlice]) -> str:
    """Describe the slices of files in a few lines."""
    read = sum(group.rows for piece in slices for group in piece.groups)
    count = "1 slice" if len(slices) == 1 else f"{len(slices):,} slices"
    rows = "events" if files.condition is None else "rows"
    order = "which are in order" if files.in_order else "some of which overlap"
    return (
        f"Spark       {files.rows:,} {rows} in {count}: tasks read the {len(files.groups):,} row groups, {order}, "
        f"{read / files.rows - 1:.1%} of the rows twice"
    )


def file_detection(
    queries: QueryGroup,
    order_by: str | Sequence[str] | None,
    files: OrderedFiles,
    options: dict[str, Any],
    *,
    match_id: bool = False,
    exact: bool = False,
) -> FileDetection:
    """Return the task that reads the slices of files.

    ``options`` are those of the engine; ``match_id`` and ``exact`` are as for `match_schema`.
    """
    schema, columns = queries.schema, _columns(queries, order_by)
    assert columns is not None
    assert isinstance(schema.time, str)
    stored = _stored_schema(schema, queries.columns)
    there = tuple(replace(query, schema=stored) for query in queries.queries)
    output = match_schema(Engine(there, **options), match_id=match_id, exact=exact)
    task = Detection(there, output, True, options, ship_functions(*there))
    types = dict(files.types)
    if isinstance(schema.type, str) and schema.codes is None:
        types[files.stored.get(schema.type, schema.type)] = _ENCODED
    stored_names = {name: files.stored.get(name, name) for name in columns}
    return FileDetection(task, stored_names, types, schema.time, files.unit, _ties(queries, order_by),
                         schema.sequence is None, files.condition)  # fmt: skip


def _names(order_by: str | Sequence[str] | None) -> list[str]:
    return [order_by] if isinstance(order_by, str) else list(order_by or ())


def _columns(queries: QueryGroup, order_by: str | Sequence[str] | None) -> list[str] | None:
    """Return the columns of the DataFrame to read; None if the schema has numbers for some."""
    schema = queries.schema
    sources = [schema.time, schema.type, schema.sequence]
    sources += [schema.columns[index].source for index in sorted(queries.columns)]
    names = [source for source in [*sources, *_names(order_by)] if source is not None]
    return list(dict.fromkeys(map(str, names))) if all(isinstance(name, str) for name in names) else None


def _has_floats(frame: DataFrame, queries: QueryGroup, order_by: str | Sequence[str] | None) -> bool:
    kinds = {field.name: field.dataType.simpleString() for field in frame.schema.fields}
    return any(kinds.get(name) in ("float", "double") for name, _ in _ties(queries, order_by))


def _ties(queries: QueryGroup, order_by: str | Sequence[str] | None) -> list[tuple[str, Sequence[Any] | None]]:
    """Return the columns that order events of the same time, as `Events.order`."""
    schema = queries.schema
    if schema.sequence is not None:
        return [(str(schema.sequence), None)]
    ties: list[tuple[str, Sequence[Any] | None]] = [(name, None) for name in _names(order_by)]
    if schema.type is not None:
        ties.append((str(schema.type), stored_types(schema)))
    return ties + [(str(schema.columns[index].source), None) for index in sorted(queries.columns)]


def _stored_schema(schema: Schema, columns: Collection[int]) -> Schema:
    """Return the schema of the columns that are read, with sequence numbers."""
    types = {
        kind: {name: dtype for name, dtype in schema.attributes(kind).items()
               if schema.column_of(kind, name) in columns}
        for kind in schema.type_names
    }  # fmt: skip
    return Schema(
        types, time=schema.time, type=schema.type, time_unit=schema.time_unit,
        sequence=FILE_NUMBER if schema.sequence is None else schema.sequence,
        codes=schema.codes,
        sources={kind: {name: schema.columns[schema.column_of(kind, name)].source for name in attributes}
                 for kind, attributes in types.items()},
    )  # fmt: skip
