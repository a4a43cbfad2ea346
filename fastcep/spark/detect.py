"""``fastcep.spark.detect``: the matches of one engine, found by many.

Data flow: the columns that the query reads are made plain (`columns`), two or three small jobs survey the stream
(`survey`), the driver cuts it into slices (`cut`, `slices`), each event goes to its slices in order (`place`), and an
engine runs over each (`task`). Only events are sent, once; what comes to the driver is a few numbers.

Invariant (tested): sorted by ``match_order``, the matches are those of one engine over the sorted stream, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema

from fastcep.engine import Engine
from fastcep.engine.queries import Buildable, built_queries
from fastcep.errors import ValidationError
from fastcep.events import parse_duration
from fastcep.option_types import SlicingMode
from fastcep.query import ast
from fastcep.spark.columns import plain_query, read_by
from fastcep.spark.functions import shipped
from fastcep.spark.slice_assignment import placed
from fastcep.spark.slice_task import ORDER, Detection, longest_windows, match_schema
from fastcep.spark.slicing import job_of

__all__ = ["detect", "explain", "in_order", "one_query"]


def detect(
    frame: DataFrame,
    query: ast.Query | Buildable,
    *,
    order_by: str | Sequence[str] | None = None,
    attributes: bool = False,
    slicing: SlicingMode = "auto",
    slices: int | None = None,
    longest_window: str | timedelta | None = None,
    **options: Any,
) -> DataFrame:
    """Find the matches of a query in a DataFrame.

    The stream is surveyed when this is called (two or three small jobs); matches are found when they are asked for.

    Parameters
    ----------
    frame
        The events, in any order, with the columns that the query's schema names. Times are integers in the schema's
        unit, timestamps or dates.
    query
        One query.
    order_by
        Columns by which events of one time are ordered, if the schema has no sequence column. Events that agree in
        these, too, are ordered by what the query reads of them, so that the matches do not depend on how the
        DataFrame is stored.
    attributes
        Return the time and every attribute of all matched events, as `Engine` does.
    slicing
        ``key`` or ``time`` cuts the stream by these; ``auto``: as is possible, and takes less work (`explain` tells).
    slices
        Into about how many slices; None: two for each of the session's cores, and more if they would be long.
    longest_window
        How long explicit windows are at most that events open and close (``CLOSE ON``); a longer one is an error when
        matches are asked for.
    **options
        Of the engines: ``memory_limit``, ``on_memory_limit``, ``store``, ``index``.

    Returns
    -------
    DataFrame
        The columns of `Matches.to_arrow`, and ``match_order``: sorted by this (`in_order`), matches come as one engine
        gives them; its field ``detected`` is the time in ns, of which ``detected_at`` has microseconds. Events are
        named by their sequence numbers: the schema's, or their places in the sorted stream.

    Raises
    ------
    ValidationError
        The stream cannot be cut for this query, or an option is wrong.
    SchemaError, DataError
        The DataFrame is not as the schema says. What only engines can find wrong ends the job when matches are asked
        for: Spark's PythonException has their message.
    """
    built = one_query(query, attributes)
    options = _checked(options)
    plain = plain_query(built, read_by(built))
    limit, longest = _longest(plain, longest_window)
    job = job_of(frame, built, order_by, slicing, slices, limit)
    schema = match_schema(Engine(plain, **options))  # which refuses what it cannot run
    task = Detection(plain, job.cut.slices, schema, job.events.numbered, options, shipped(built), longest)

    def fastcep_detect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return placed(job.events, job.cut, job.group).mapInArrow(fastcep_detect, from_arrow_schema(task.schema))


def in_order(matches: DataFrame) -> DataFrame:
    """The matches of `detect` in the order in which one engine gives them."""
    # Before it sorts, Spark looks at what there is: without a shuffle between, engines would run for that, too.
    return matches.repartition(ORDER).orderBy(ORDER)


def explain(
    frame: DataFrame,
    query: ast.Query | Buildable,
    *,
    order_by: str | Sequence[str] | None = None,
    slicing: SlicingMode = "auto",
    slices: int | None = None,
    longest_window: str | timedelta | None = None,
) -> str:
    """Tell how `detect` would cut a DataFrame: the plan of the query, and its slices. The stream is surveyed for it.

    Parameters
    ----------
    frame, query, order_by, slicing, slices, longest_window
        As for `detect`.

    Raises
    ------
    ValidationError, SchemaError, DataError
        As from `detect`.
    """
    built = one_query(query)
    job = job_of(frame, built, order_by, slicing, slices, _longest(built, longest_window)[0])
    return f"{Engine(built).explain()}\n{job.told()}"


def one_query(query: ast.Query | Buildable, attributes: bool = False) -> ast.Query:
    """Build the query; ValidationError if there are several."""
    built = built_queries(query, attributes)
    if len(built) != 1:
        raise ValidationError(f"found {len(built)} queries, expected one; take one after the other")
    return built[0]


def _longest(query: ast.Query, longest_window: str | timedelta | None) -> tuple[int | None, ast.Query | None]:
    """How long windows may be, and a query for those that are longer."""
    if longest_window is None:
        return None, None
    limit = parse_duration(longest_window)
    longer = longest_windows(query, limit)
    if longer is None:
        raise ValidationError(
            f"longest_window={longest_window!r}: this is for windows that open and close on events (OPEN ON … CLOSE ON "
            f"…), which those of query {query.name!r} do not; leave it out"
        )
    return limit, longer


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    known = ("index", "memory_limit", "on_memory_limit", "store")
    for name in options:
        if name not in known:
            raise ValidationError(f"{name}=…: detect gives engines no such option; it takes {', '.join(known)}")
    return options
