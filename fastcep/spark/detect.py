"""``fastcep.spark.detect``: the matches of a single engine, found by many engines.

Data flow: the columns that the query reads are converted (`columns`), one pass over few of them surveys the stream
(`slicing.survey`), a function of its result cuts it into slices (`slicing.cutter`), each event is sent to its slices in
order (`slicing.job`, `slicing.assignment`), and an engine processes each slice (`slice_task`). All of this is one plan
of Spark, which runs when the result is evaluated. Only events are sent, each once; the driver receives only a few
numbers. If the DataFrame is Parquet files that hardly overlap in time (`files.row_groups`, `files.job`), tasks read
them (`files.task`).

Invariant (tested): sorted by ``match_order``, the matches are those of one engine over the sorted stream, in its order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta
from typing import Any, cast

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from fastcep.engine import Engine
from fastcep.engine.longest_windows import longest_windows
from fastcep.engine.queries import Buildable, built_queries
from fastcep.errors import ValidationError
from fastcep.option_types import SlicingMode
from fastcep.query import ast
from fastcep.spark.columns import quoted
from fastcep.spark.files.cutter import FileSlice, packed
from fastcep.spark.files.job import describe_files, file_detection, file_slices
from fastcep.spark.files.row_groups import OrderedFiles
from fastcep.spark.files.task import FileDetection
from fastcep.spark.functions import ship_functions
from fastcep.spark.query_group import QueryGroup, group_of
from fastcep.spark.slice_task import ERROR, ORDER, Detection, errors_as_rows, match_schema, with_error
from fastcep.spark.slicing.job import describe, job_of, prepared
from fastcep.spark.slicing.survey import StreamSurvey
from fastcep.spark.streaming.transform import detect_stream

__all__ = ["detect", "detect_exactly", "explain", "in_order", "one_query"]


def detect(
    frame: DataFrame,
    query: ast.Query | Buildable | Sequence[ast.Query | Buildable],
    *,
    order_by: str | Sequence[str] | None = None,
    attributes: bool = False,
    slicing: SlicingMode = "auto",
    slices: int | None = None,
    longest_window: str | timedelta | None = None,
    survey: StreamSurvey | None = None,
    match_id: bool = False,
    **options: Any,
) -> DataFrame:
    """Find the matches of a query in a DataFrame.

    The call starts no Spark job. Each action on the result surveys the stream in one pass, and reads it once more to
    find the matches. With ``survey=``, or if it is Parquet files that hardly overlap in time, it is read once.

    Parameters
    ----------
    frame
        Events in any order, with the columns that the query's schema names. Times are integers in the schema's unit,
        timestamps or dates. For a streaming DataFrame see docs/spark_streaming.md.
    query
        One query, or several with the same schema, which one pass over the events processes. Each match has the name of
        its query; columns of other queries are null.
    order_by
        Columns that order events of the same time, if the schema has no sequence column. Events that agree in these
        are ordered by the values that the query reads, so that matches do not depend on how the DataFrame is stored.
    attributes
        Return the time and every attribute of all matched events, as `Engine` does.
    slicing
        ``key`` or ``time`` cuts the stream by key or by time; ``auto`` chooses the cheaper one that is possible.
        `explain` shows the choice.
    slices
        Approximate number of slices; None: two per core of the session, and with a survey more if slices would be long.
    longest_window
        Maximum length of explicit windows that events open and close (``CLOSE ON``), for one query; a longer window is
        an error when the result is evaluated.
    survey
        Survey of the same rows, see `survey`. None: each action makes one.
    match_id
        Add the column ``match_id`` (bigint): a hash of the query's name, the window and the bound events. It does not
        depend on slices, sessions or the order of columns. Two matches collide with a probability of 2^-64.
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
    SchemaError
        If the DataFrame does not fit the schema. Invalid events, and errors that only an engine can detect, end the job
        when the result is evaluated: Spark's SparkRuntimeException has the message. `survey` raises DataError for the
        former.
    """
    if isinstance(frame, DataFrame) and frame.isStreaming:
        _refuse_for_streams(slicing, longest_window=longest_window, survey=survey, match_id=match_id)
        one = cast("ast.Query | Buildable", query)  # several are an error there
        return detect_stream(frame, one, order_by=order_by, attributes=attributes, slices=slices, **options)
    return _detect(
        frame, query, order_by, attributes, slicing, slices, longest_window, options, survey=survey, match_id=match_id
    )


def detect_exactly(
    frame: DataFrame,
    query: ast.Query | Buildable,
    *,
    order_by: str | Sequence[str] | None = None,
    attributes: bool = False,
    **options: Any,
) -> DataFrame:
    """Find matches as `detect` does, but return times as int64 nanoseconds."""
    return _detect(frame, query, order_by, attributes, "auto", None, None, options, exact=True)


def _detect(
    frame: DataFrame,
    query: ast.Query | Buildable | Sequence[ast.Query | Buildable],
    order_by: str | Sequence[str] | None,
    attributes: bool,
    slicing: SlicingMode,
    slices: int | None,
    longest_window: str | timedelta | None,
    options: dict[str, Any],
    *,
    survey: StreamSurvey | None = None,
    match_id: bool = False,
    exact: bool = False,
) -> DataFrame:
    options = _checked(options)
    group, longest = _group(query, attributes, longest_window)
    in_files = _file_slices(frame, group, order_by, slicing, slices, longest, survey)
    if in_files is not None:
        files, cut = in_files
        reader = file_detection(group, order_by, files, options, match_id=match_id, exact=exact)
        return _detect_in_files(frame.sparkSession, reader, cut)
    job = job_of(frame, group, order_by, slicing, slices, survey)
    plain = group.plain()
    engine = Engine(plain, **options)  # rejects queries that it cannot run
    schema = match_schema(engine, match_id=match_id, exact=exact)
    task = Detection(plain, schema, job.events.numbered, options, ship_functions(*group.queries), longest)
    return _matches(job.sliced(), task, schema)


def _refuse_for_streams(slicing: str, **given: object) -> None:
    """Raise `ValidationError` for an option that a streaming DataFrame does not have."""
    if slicing not in ("auto", "key"):
        raise ValidationError(f"slicing={slicing!r}: a streaming DataFrame is cut by key; omit it")
    for name, value in given.items():
        if value:
            raise ValidationError(f"{name}=…: a streaming DataFrame is cut by key, so it has no {name}; omit it")


def _group(
    query: ast.Query | Buildable | Sequence[ast.Query | Buildable],
    attributes: bool,
    longest_window: str | timedelta | None,
) -> tuple[QueryGroup, ast.Query | None]:
    """Build the queries; return them, and the query that finds windows longer than `longest_window`."""
    built = built_queries(query, attributes)
    if longest_window is None:
        return group_of(built), None
    if len(built) > 1:
        raise ValidationError(f"longest_window={longest_window!r}: found {len(built)} queries, expected one; pass each "
                              "query with its own longest_window")  # fmt: skip
    limit, _ = longest_windows(built[0], longest_window)
    group = group_of(built, limit)
    return group, longest_windows(group.plain()[0], longest_window)[1]


def _file_slices(
    frame: DataFrame, group: QueryGroup, order_by: str | Sequence[str] | None, slicing: str, slices: int | None,
    longest: ast.Query | None, survey: StreamSurvey | None,
) -> tuple[OrderedFiles, list[FileSlice]] | None:  # fmt: skip
    """Check the options; return the files and their slices if tasks can read them."""
    prepared(frame, group, order_by, slicing, slices)
    if survey is not None:
        survey.of(group.specification(), group.name)
    return None if longest is not None else file_slices(frame, group, order_by, slicing, slices)


def _detect_in_files(session: SparkSession, task: FileDetection, slices: Sequence[FileSlice]) -> DataFrame:
    frame = session.createDataFrame(packed(slices)).repartitionById(len(slices), F.col("number"))
    return _matches(frame, task, task.detection.schema)


def _matches(frame: DataFrame, task: Detection | FileDetection, schema: pa.Schema) -> DataFrame:
    """Run a task over each partition; Spark raises the errors that it returns."""

    def fastcep_detect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return errors_as_rows(task(batches), schema)

    found = frame.mapInArrow(fastcep_detect, from_arrow_schema(with_error(schema)))
    error = F.col(quoted(ERROR))
    # A filter, as Spark omits columns that nobody reads. It is not deterministic, so that Spark evaluates no filter of
    # the user before it, which would drop the row with the error.
    is_match = F.spark_partition_id() >= 0
    return found.where(F.when(error.isNull(), is_match).otherwise(F.raise_error(error).cast("boolean"))).drop(ERROR)


def in_order(matches: DataFrame) -> DataFrame:
    """Sort the matches of `detect` in the order of a single engine."""
    # Spark samples its input before it sorts. Without the shuffle in between, that would run the engines a second time.
    return matches.repartition(ORDER).orderBy(ORDER)


def explain(
    frame: DataFrame,
    query: ast.Query | Buildable | Sequence[ast.Query | Buildable],
    *,
    order_by: str | Sequence[str] | None = None,
    slicing: SlicingMode = "auto",
    slices: int | None = None,
    longest_window: str | timedelta | None = None,
    survey: StreamSurvey | None = None,
) -> str:
    """Describe the plans of queries and how `detect` with a survey cuts a DataFrame; without one, this makes it.

    A warning follows if one slice has most of the events.

    Parameters
    ----------
    frame, query, order_by, slicing, slices, longest_window, survey
        As for `detect`.

    Raises
    ------
    ValidationError, SchemaError, DataError
        As for `detect`.
    """
    group, longest = _group(query, False, longest_window)
    files = _file_slices(frame, group, order_by, slicing, slices, longest, survey)
    cut = describe(frame, group, order_by, slicing, slices, survey) if files is None else describe_files(*files)
    return f"{Engine(group.queries).explain()}\n{cut}"


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
