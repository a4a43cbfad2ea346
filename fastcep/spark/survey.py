"""Survey of a stream before it is cut: number of events, range of times, and validity of all events.

Each survey is a small job over few columns; the driver receives only its statistics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from fastcep.errors import DataError
from fastcep.events.schema import suggestion
from fastcep.events.units import INT64_MAX
from fastcep.query.plain_schema import NUMBER, TIME, TYPE
from fastcep.spark.columns import Events

__all__ = ["Survey", "context_of", "count_between", "stage", "survey_of", "with_bucket", "with_times"]

#: Accuracy of quantiles: the error is at most 1 / (`_ACCURACY` * number of parts) of the stream.
_ACCURACY = 8
#: Number of events to sample for quantiles.
_SAMPLE = 2_000_000
_ORIGIN = "DataFrame"


@dataclass(frozen=True)
class Survey:
    """Statistics of a stream.

    Attributes
    ----------
    events
        Number of events.
    first, last
        Times of the first and last event in ns; 0 without events.
    parts
        Ascending times in ns that divide the stream into parts of about equal size.
    """

    events: int
    first: int
    last: int
    parts: tuple[int, ...]


def survey_of(events: Events, parts: Callable[[int], int], where: str | None = None) -> Survey:
    """Compute statistics of events, and check that an engine accepts all of them.

    Parameters
    ----------
    events
        Events with times in their own unit.
    parts
        Function from the number of events to the number of parts.
    where
        SQL condition on the events that the parts divide; None: all events.

    Raises
    ------
    DataError
        If a time, type or number is null, a type is not declared, or a time does not fit int64 nanoseconds.
    """
    raw = F.col("raw")
    figures = _aggregate(
        events,
        {
            "events": F.count(F.lit(1)),
            "valid": F.count_if(_is_valid(events)),
            "first": F.min(raw),
            "last": F.max(raw),
        },
    )
    if figures["valid"] < figures["events"]:
        _raise_invalid(events, figures["events"])
    if not figures["events"]:
        return Survey(0, 0, 0, ())
    first, last = figures["first"] * events.unit, figures["last"] * events.unit
    if max(abs(first), abs(last)) > INT64_MAX:
        raise DataError(
            f"{_ORIGIN}, column {events.schema.time!r}: found times from {figures['first']} to {figures['last']} in "
            f"units of {events.unit} ns, expected times that fit int64 nanoseconds; check the time unit of the schema"
        )
    return Survey(figures["events"], first, last, _parts(events, parts(figures["events"]), where, figures["events"]))


def _parts(events: Events, parts: int, where: str | None, count: int) -> tuple[int, ...]:
    """Return times that divide the events, estimated from a sample of a large stream; the seed is fixed."""
    shares = [number / parts for number in range(1, parts)] or [0.5]
    frame = events.frame if where is None else events.frame.filter(where)
    every = count // _SAMPLE
    if every > 1:
        frame = frame.filter(F.rand(0) < 1 / every)
    with stage(frame.sparkSession, "fastcep: times of the slices"):
        (row,) = frame.agg(F.percentile_approx("raw", shares, F.lit(_ACCURACY * parts)).alias("parts")).collect()
    return tuple(part * events.unit for part in row["parts"] or ())


def _aggregate(events: Events, aggregates: dict[str, Column]) -> dict[str, Any]:
    """Compute aggregates over all events, by name."""
    with stage(events.frame.sparkSession, "fastcep: survey of the stream"):
        (row,) = events.frame.agg(*(column.alias(name) for name, column in aggregates.items())).collect()
    return dict(row.asDict())


def _is_valid(events: Events) -> Column:
    """Return one condition for all checks of an event, as each aggregate takes time."""
    valid = F.col("raw").isNotNull()
    if events.schema.type is not None:
        valid &= F.col(TYPE) >= 0
    if events.schema.sequence is not None:
        valid &= F.col(NUMBER).isNotNull()
    return valid


def _raise_invalid(events: Events, count: int) -> None:
    """Raise a DataError that names the invalid column and the number of invalid rows."""
    schema = events.schema
    required = [("raw", schema.time, "a time"), (TYPE, schema.type, "an event type"),
                (NUMBER, schema.sequence, "a sequence number")]  # fmt: skip
    required = [entry for entry in required if entry[1] is not None]
    aggregates = {name: F.count_if(F.col(name).isNull()) for name, _, _ in required}
    if schema.type is not None:
        aggregates["unknown"] = F.count_if(F.col(TYPE) < 0)
    counts = _aggregate(events, aggregates)
    for name, column, expected in required:
        if counts[name]:
            raise DataError(
                f"{_ORIGIN}, column {column!r}: found null in {counts[name]:,} of {count:,} rows, expected {expected}; "
                "drop these rows or fill them in"
            )
    declared = schema.type_names if schema.codes is None else sorted(schema.codes.values())
    raise DataError(
        f"{_ORIGIN}, column {schema.type!r}: found undeclared event types in {counts['unknown']:,} of {count:,} rows, "
        f'expected declared ones{suggestion("", declared)}; declare them or set other_types="ignore"'
    )


def with_times(events: Events) -> Events:
    """Replace ``raw`` by ``time`` in ns; the survey has checked that all times fit."""
    others = [name for name in events.frame.columns if name != "raw"]
    time = (F.col("raw") * F.lit(events.unit)).alias(TIME)
    return replace(events, frame=events.frame.select(time, *others))


def count_between(events: Events, edges: Sequence[int]) -> list[int]:
    """Count the events before, between and after ascending times; returns len(edges) + 1 counts."""
    with stage(events.frame.sparkSession, "fastcep: places of the slices"):
        rows = with_bucket(events.frame.select(TIME), "cell", edges).groupBy("cell").count().collect()
    counts = [0] * (len(edges) + 1)
    for row in rows:
        counts[row["cell"]] = row["count"]
    return counts


def with_bucket(frame: DataFrame, name: str, edges: Sequence[int]) -> DataFrame:
    """Add a column: the number of ascending edges that are at most the time of an event.

    This is a binary search with one projection per step. A tree of conditions would grow with the number of edges; with
    a thousand edges, the JVM does not compile it.
    """
    searched = frame.withColumn(name, F.lit(0))
    array, bucket = F.split(F.lit(",".join(map(str, edges))), ",").cast("array<bigint>"), F.col(name)
    for exponent in reversed(range(len(edges).bit_length())):
        step = 1 << exponent  # null after the last edge, so the step is not taken
        is_higher = F.get(array, bucket + (step - 1)) <= F.col(TIME)
        searched = searched.withColumn(name, F.when(is_higher, bucket + step).otherwise(bucket))
    return searched


def context_of(session: SparkSession) -> SparkContext | None:
    """Return the SparkContext of a session; None for Spark Connect."""
    try:
        return session.sparkContext
    except (PySparkException, AttributeError):
        return None


@contextmanager
def stage(session: SparkSession, name: str) -> Iterator[None]:
    """Name the jobs started inside this context in Spark's UI; without effect for Spark Connect."""
    context = context_of(session)
    if context is None:
        yield
        return
    before = {key: context.getLocalProperty(key) for key in ("spark.job.description", "callSite.short")}
    for key in before:
        context.setLocalProperty(key, name)
    try:
        yield
    finally:
        for key, value in before.items():
            context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None removes it
