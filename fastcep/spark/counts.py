"""Counts that models of shedders are fitted from, of history of any size.

Data flow: each slice counts what it owns (`fastcep.shedding.counts`), one task adds up, and the sums, which are no
larger than a model, make a DataFrame. They are those of the whole stream in one process; times to the
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
from fastcep.shedding import counts as pure
from fastcep.shedding.hybrid.history import Piece
from fastcep.spark.columns import plain_query, read_by
from fastcep.spark.detect import one_query
from fastcep.spark.functions import shipped
from fastcep.spark.stream_pieces import FOUND, collected, pieces_of, row_of

__all__ = ["counts_table", "position_counts", "transition_counts"]

_ABOUT = "fastcep"


def transition_counts(
    frame: DataFrame,
    query: ast.Query | Buildable,
    *,
    order_by: str | Sequence[str] | None = None,
    cost_table: CostTable | str = "measured",
    index: Index = "full",
    slices: int | None = None,
) -> DataFrame:
    """Count how partial matches went from state to state, see `fastcep.shedding.counts.transition_counts`.

    Parameters
    ----------
    frame, query, order_by
        As for `detect`.
    cost_table, index
        Of the engines that are to shed.
    slices
        Into about how many slices the stream is cut; all partial matches of a slice are held in memory.

    Returns
    -------
    DataFrame
        A row per pair of states; `counts_table` makes it the table that ``matrix`` and ``mean_times`` take.

    Raises
    ------
    ValidationError
        The query has what cannot be counted, or cut.
    SchemaError, DataError
        The DataFrame is not as the schema says.
    """
    built = one_query(query)
    context = slicing_of(make_plan(built)).time
    if isinstance(context, str):
        raise ValidationError(f"query {built.name!r} cannot be cut by time: {context}; count it in one process")
    options: dict[str, Any] = {"cost_table": cost_table_of(cost_table), "index": index}
    count = partial(pure.transition_counts, **options)
    return _counted(frame, built, order_by, slices, (context, Context()), count, pure.added_transitions)


def position_counts(
    frame: DataFrame,
    query: ast.Query | Buildable,
    *,
    order_by: str | Sequence[str] | None = None,
    bins: int = 1,
    slices: int | None = None,
) -> DataFrame:
    """Count where in its windows each type stands, and matches: `fastcep.shedding.counts.position_counts`.

    Parameters
    ----------
    frame, query, order_by, slices
        As for `transition_counts`; the query has explicit windows.
    bins
        How many positions are one bin.

    Returns
    -------
    DataFrame
        A row per type and position; `counts_table` makes it the table that ``window_sizes`` takes.

    Raises
    ------
    ValidationError, SchemaError, DataError
        As from `transition_counts`.
    """
    built = one_query(query)
    windows = make_plan(built).windows
    before, after = Context(), Context()
    if windows is not None:
        before = Context(every_nanoseconds=windows.every_time, every_events=windows.every_events)
        if windows.closing not in (AFTER_TIME, AFTER_EVENTS):
            raise ValidationError(
                f"query {built.name!r} cannot be cut by time: CLOSE ON an event lets a window end any time later; "
                "count it in one process"
            )
        after = Context(windows.length) if windows.closing == AFTER_TIME else Context(events=windows.length)
    count = partial(pure.position_counts, bins=bins)
    return _counted(frame, built, order_by, slices, (before, after), count, pure.added_positions)


def counts_table(counts: DataFrame) -> pa.Table:
    """The table of a DataFrame of counts, with what `fastcep.shedding.counts` wants to know of it.

    Raises
    ------
    ValidationError
        If it is none of `transition_counts` or `position_counts`.
    """
    about = counts.schema.fields[0].metadata.get(_ABOUT) if counts.columns else None
    if about is None:
        raise ValidationError(
            f"expected a DataFrame of transition_counts or position_counts, found columns {', '.join(counts.columns)}"
        )
    return counts.toArrow().replace_schema_metadata({_ABOUT: about})


def _counted(
    frame: DataFrame,
    query: ast.Query,
    order_by: str | Sequence[str] | None,
    slices: int | None,
    contexts: tuple[Context, Context],
    count: Callable[..., pa.Table],
    add: Callable[[Sequence[pa.Table]], pa.Table],
) -> DataFrame:
    """Count pieces, add up, and make a DataFrame of the sums."""
    columns = read_by(query)
    plain = plain_query(query, columns)
    nothing = count(plain, _no_events(plain))  # refuses what cannot be counted before anything runs
    pieces = pieces_of(frame, query, order_by, slices, *contexts, columns)

    def of_piece(piece: Piece) -> bytes:
        return _packed(count(plain, piece.table, owned=piece.owned, base=piece.base))

    def fastcep_add(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        total: pa.Table | None = None
        for batch in batches:
            for found in batch.column("found"):
                table = _unpacked(found.as_py())
                total = table if total is None else add([total, table])
        if total is not None:
            yield row_of(0, _packed(total))

    found = pieces.map(of_piece, shipped(plain), "count")
    sums = found.repartition(1).mapInArrow(fastcep_add, FOUND)
    tables = [_unpacked(one) for one in collected(sums, "counts")]
    return _frame(frame, tables[0] if tables else nothing)


def _frame(frame: DataFrame, table: pa.Table) -> DataFrame:
    metadata = table.schema.metadata or {}
    about = metadata[_ABOUT.encode()].decode()
    bare = table.replace_schema_metadata(None)
    first, *rest = from_arrow_schema(bare.schema).fields
    told = StructField(first.name, first.dataType, first.nullable, {_ABOUT: about})
    return frame.sparkSession.createDataFrame(bare, StructType([told, *rest]))


def _no_events(query: ast.Query) -> dict[str, Any]:
    schema = query.schema
    sources = (schema.time, schema.type, schema.sequence, *(column.source for column in schema.columns))
    return {str(source): pa.array([], pa.null()) for source in sources if source is not None}


def _packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def _unpacked(found: bytes) -> pa.Table:
    return pa.ipc.open_stream(found).read_all()
