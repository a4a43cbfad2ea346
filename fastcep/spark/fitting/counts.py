"""Counts for models of shedders, from history of any size.

Data flow: a task per slice counts the events that the slice owns (`fastcep.shedding.counts`), one task adds up, and the
sums, which are as small as a model, become a DataFrame. They equal the counts of one process; times agree to the
picosecond.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from fastcep.engine.queries import Buildable
from fastcep.errors import ValidationError
from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.overload.costs import cost_table as cost_table_of
from fastcep.plan import make_plan
from fastcep.plan.plan import AFTER_EVENTS, AFTER_TIME
from fastcep.plan.slicing import Context, slicing_of
from fastcep.query import ast
from fastcep.query.plain_schema import columns_read, plain_query
from fastcep.shedding import counts as local_counts
from fastcep.shedding.hybrid.history import Piece
from fastcep.spark.detect import one_query
from fastcep.spark.fitting.pieces import ORDER, RESULT_SCHEMA, collect_results, pieces_of, result_rows, results_of
from fastcep.spark.functions import ship_functions
from fastcep.spark.packing import pack_table, unpack_table

__all__ = [
    "counts_table", "position_counts", "position_table", "size_table", "transition_counts", "transition_table",
    "window_contexts",
]  # fmt: skip

_METADATA_KEY = "fastcep"


def transition_counts(
    frame: DataFrame,
    query: ast.Query | Buildable,
    *,
    order_by: str | Sequence[str] | None = None,
    cost_table: CostTable | str = "measured",
    index: Index = "full",
    slices: int | None = None,
) -> DataFrame:
    """Count the transitions of partial matches between states, see `fastcep.shedding.counts.transition_counts`.

    Parameters
    ----------
    frame, query, order_by
        As for `detect`.
    cost_table, index
        Options of the engine that will shed.
    slices
        Approximate number of slices; all partial matches of a slice are held in memory. None: choose it.

    Returns
    -------
    DataFrame
        A row per pair of states; `counts_table` converts it to the table that ``matrix`` and ``mean_times`` expect.

    Raises
    ------
    ValidationError
        If transitions of the query cannot be counted, or its stream cannot be cut.
    SchemaError, DataError
        If the DataFrame does not fit the schema.
    """
    built = one_query(query)
    context = slicing_of(make_plan(built)).time
    if isinstance(context, str):
        raise ValidationError(f"query {built.name!r} cannot be cut by time: {context}; count it in one process")
    return _frame(frame, transition_table(frame, built, order_by, slices, context, cost_table=cost_table, index=index))


def transition_table(
    frame: DataFrame, query: ast.Query, order_by: str | Sequence[str] | None, slices: int | None, context: Context, *,
    cost_table: CostTable | str = "measured", index: Index = "full",
) -> pa.Table:  # fmt: skip
    """Count transitions as `transition_counts`, and return the sums as a table, given the context before a slice."""
    options: dict[str, Any] = {"cost_table": cost_table_of(cost_table), "index": index}
    count = partial(local_counts.transition_counts, **options)
    return _counted(frame, query, order_by, slices, (context, Context()), count, local_counts.added_transitions)


def position_counts(
    frame: DataFrame,
    query: ast.Query | Buildable,
    *,
    order_by: str | Sequence[str] | None = None,
    bins: int = 1,
    positions: int | None = None,
    bindable: bool = False,
    slices: int | None = None,
) -> DataFrame:
    """Count events and matches by type and position in the window, see `fastcep.shedding.counts.position_counts`.

    Parameters
    ----------
    frame, query, order_by, slices
        As for `transition_counts`; the query has explicit windows.
    bins, positions, bindable
        As for `fastcep.shedding.counts.position_counts`.

    Returns
    -------
    DataFrame
        A row per type and position; `counts_table` converts it to the table that ``window_sizes`` expects.

    Raises
    ------
    ValidationError, SchemaError, DataError
        As for `transition_counts`.
    """
    built = one_query(query)
    contexts = window_contexts(built)
    if isinstance(contexts, str):
        raise ValidationError(f"query {built.name!r} cannot be cut by time: {contexts}; count it in one process")
    options: dict[str, Any] = {"bins": bins, "positions": positions, "bindable": bindable}
    return _frame(frame, position_table(frame, built, order_by, slices, contexts, **options))


def window_contexts(query: ast.Query) -> tuple[Context, Context] | str:
    """Return the contexts before and after a slice that owns the windows that open in it; otherwise the obstacle."""
    windows = make_plan(query).windows
    if windows is None:
        return Context(), Context()
    if windows.closing not in (AFTER_TIME, AFTER_EVENTS):
        return "CLOSE ON an event lets a window end at any later time"
    after = Context(windows.length) if windows.closing == AFTER_TIME else Context(events=windows.length)
    return Context(every_nanoseconds=windows.every_time, every_events=windows.every_events), after


def position_table(
    frame: DataFrame, query: ast.Query, order_by: str | Sequence[str] | None, slices: int | None,
    contexts: tuple[Context, Context], **options: Any,
) -> pa.Table:  # fmt: skip
    """Count positions as `position_counts`, and return the sums as a table, given the contexts of a slice."""
    count = partial(local_counts.position_counts, **options)
    return _counted(frame, query, order_by, slices, contexts, count, local_counts.added_positions)


def size_table(
    frame: DataFrame, query: ast.Query, order_by: str | Sequence[str] | None, slices: int | None,
    contexts: tuple[Context, Context],
) -> pa.Table:  # fmt: skip
    """Count windows by size as `fastcep.shedding.counts.size_counts`, and return the sums as a table."""
    return _counted(frame, query, order_by, slices, contexts, local_counts.size_counts, local_counts.added_positions)


def counts_table(counts: DataFrame) -> pa.Table:
    """Convert a DataFrame of counts to an Arrow table with the metadata that `fastcep.shedding.counts` reads.

    Raises
    ------
    ValidationError
        If the DataFrame is not the result of `transition_counts` or `position_counts`.
    """
    description = counts.schema.fields[0].metadata.get(_METADATA_KEY) if counts.columns else None
    if description is None:
        raise ValidationError(
            f"expected a DataFrame of transition_counts or position_counts, found columns {', '.join(counts.columns)}"
        )
    return counts.toArrow().replace_schema_metadata({_METADATA_KEY: description})


def _counted(
    frame: DataFrame,
    query: ast.Query,
    order_by: str | Sequence[str] | None,
    slices: int | None,
    contexts: tuple[Context, Context],
    count: Callable[..., pa.Table],
    add: Callable[[Sequence[pa.Table]], pa.Table],
) -> pa.Table:
    """Count each piece, add up the counts, and return the sums."""
    columns = columns_read(query)
    plain = plain_query(query, columns)
    empty = count(plain, _no_events(plain))  # rejects queries that cannot be counted, before any job runs
    pieces = pieces_of(frame, query, order_by, slices, *contexts, columns)

    def count_piece(piece: Piece) -> bytes:
        return pack_table(count(plain, piece.table, owned=piece.owned, base=piece.base))

    def fastcep_add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total: pa.Table | None = None
        for _, result in results_of(batches):
            table = unpack_table(result)
            total = table if total is None else add([total, table])
        if total is not None:
            yield from result_rows(0, pack_table(total))

    results = pieces.map(count_piece, ship_functions(plain), "count")
    sums = results.repartition(1).sortWithinPartitions(*ORDER).mapInArrow(fastcep_add, RESULT_SCHEMA)
    tables = [unpack_table(result) for result in collect_results(sums, "counts")]
    return tables[0] if tables else empty


def _frame(frame: DataFrame, table: pa.Table) -> DataFrame:
    metadata = table.schema.metadata or {}
    description = metadata[_METADATA_KEY.encode()].decode()
    bare = table.replace_schema_metadata(None)
    first, *others = from_arrow_schema(bare.schema).fields
    described = StructField(first.name, first.dataType, first.nullable, {_METADATA_KEY: description})
    return frame.sparkSession.createDataFrame(bare, StructType([described, *others]))


def _no_events(query: ast.Query) -> dict[str, Any]:
    schema = query.schema
    sources = (schema.time, schema.type, schema.sequence, *(column.source for column in schema.columns))
    return {str(source): pa.array([], pa.null()) for source in sources if source is not None}
