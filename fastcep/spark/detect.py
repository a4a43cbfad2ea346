"""``fastcep.spark.detect``: the matches of a single engine, found by many engines.

Data flow: the columns that the query reads are converted (`columns`), two or three small jobs survey the stream
(`survey`), the driver cuts it into slices (`slicing`, `slices`), each event is sent to its slices in order
(`slice_assignment`), and an engine processes each slice (`slice_task`). Only events are sent, each once; the driver
receives only a few numbers.

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
from fastcep.engine.longest_windows import longest_windows
from fastcep.engine.queries import Buildable, built_queries
from fastcep.errors import ValidationError
from fastcep.option_types import SlicingMode
from fastcep.query import ast
from fastcep.query.plain_schema import columns_read, plain_query
from fastcep.spark.functions import ship_functions
from fastcep.spark.slice_assignment import assign_slices
from fastcep.spark.slice_task import ORDER, Detection, match_schema
from fastcep.spark.slicing import job_of
from fastcep.spark.streaming.transform import detect_stream

__all__ = ["detect", "detect_exactly", "explain", "in_order", "one_query"]


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

    The call surveys the stream with two or three small jobs; matches are computed when the result is evaluated.

    Parameters
    ----------
    frame
        Events in any order, with the columns that the query's schema names. Times are integers in the schema's unit,
        timestamps or dates. For a streaming DataFrame see docs/spark_streaming.md.
    query
        One query.
    order_by
        Columns that order events of the same time, if the schema has no sequence column. Events that agree in these
        are ordered by the values that the query reads, so that matches do not depend on how the DataFrame is stored.
    attributes
        Return the time and every attribute of all matched events, as `Engine` does.
    slicing
        ``key`` or ``time`` cuts the stream by key or by time; ``auto`` chooses the cheaper one that is possible.
        `explain` shows the choice.
    slices
        Approximate number of slices; None: two per core of the session, and more if slices would be long.
    longest_window
        Maximum length of explicit windows that events open and close (``CLOSE ON``); a longer window is an error when
        the result is evaluated.
    **options
        Options of the engines: ``memory_limit``, ``on_memory_limit``, ``store``, ``index``. For a streaming DataFrame
        also those of `write_matches`: ``allowed_lateness``, ``timed_out``, ``latency_bound``, ``shedder``, ….

    Returns
    -------
    DataFrame
        The columns of `Matches.to_arrow`, and ``match_order``, the order of a single engine (see `in_order`). Its field
        ``detected`` is the detection time in ns; ``detected_at`` and times that RETURN adds have microseconds. Events
        are identified by sequence numbers: those of the schema, or their positions in the sorted stream.

    Raises
    ------
    ValidationError
        If the stream cannot be cut for this query, or an option is wrong.
    SchemaError, DataError
        If the DataFrame does not fit the schema. An error that only an engine can detect ends the job when the result
        is evaluated: Spark's PythonException has its message.
    """
    if isinstance(frame, DataFrame) and frame.isStreaming:
        if slicing not in ("auto", "key") or longest_window is not None:
            raise ValidationError(
                f"slicing={slicing!r}, longest_window={longest_window!r}: a streaming DataFrame is cut by key; "
                "omit them"
            )
        return detect_stream(frame, query, order_by=order_by, attributes=attributes, slices=slices, **options)
    return _matches(frame, query, order_by, attributes, slicing, slices, longest_window, options, exact=False)


def detect_exactly(
    frame: DataFrame,
    query: ast.Query | Buildable,
    *,
    order_by: str | Sequence[str] | None = None,
    attributes: bool = False,
    **options: Any,
) -> DataFrame:
    """Find matches as `detect` does, but return times as int64 nanoseconds."""
    return _matches(frame, query, order_by, attributes, "auto", None, None, options, exact=True)


def _matches(
    frame: DataFrame,
    query: ast.Query | Buildable,
    order_by: str | Sequence[str] | None,
    attributes: bool,
    slicing: SlicingMode,
    slices: int | None,
    longest_window: str | timedelta | None,
    options: dict[str, Any],
    *,
    exact: bool,
) -> DataFrame:
    built = one_query(query, attributes)
    options = _checked(options)
    plain = plain_query(built, columns_read(built))
    limit, longest = longest_windows(plain, longest_window)
    job = job_of(frame, built, order_by, slicing, slices, limit)
    schema = match_schema(Engine(plain, **options), exact=exact)  # Engine rejects queries that it cannot run
    task = Detection(plain, job.cut.slices, schema, job.events.numbered, options, ship_functions(built), longest)

    def fastcep_detect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    return assign_slices(job.events, job.cut, job.group).mapInArrow(fastcep_detect, from_arrow_schema(task.schema))


def in_order(matches: DataFrame) -> DataFrame:
    """Sort the matches of `detect` in the order of a single engine."""
    # Spark samples its input before it sorts. Without the shuffle in between, that would run the engines a second time.
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
    """Describe the plan of the query and how `detect` would cut a DataFrame; this surveys the stream.

    Parameters
    ----------
    frame, query, order_by, slicing, slices, longest_window
        As for `detect`.

    Raises
    ------
    ValidationError, SchemaError, DataError
        As for `detect`.
    """
    built = one_query(query)
    job = job_of(frame, built, order_by, slicing, slices, longest_windows(built, longest_window)[0])
    return f"{Engine(built).explain()}\n{job.description()}"


def one_query(query: ast.Query | Buildable, attributes: bool = False) -> ast.Query:
    """Build the query; ValidationError unless it is exactly one."""
    built = built_queries(query, attributes)
    if len(built) != 1:
        raise ValidationError(f"found {len(built)} queries, expected one; pass them one at a time")
    return built[0]


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    allowed = ("index", "memory_limit", "on_memory_limit", "store")
    for name in options:
        if name not in allowed:
            raise ValidationError(f"{name}=…: detect does not support this engine option; use {', '.join(allowed)}")
    return options
