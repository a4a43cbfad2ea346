"""What there is to know of a stream before it is cut: how many events, from when to when, and whether all can be taken.

Each survey is a small job over few columns; nothing but its figures comes to the driver.
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
from fastcep.spark.columns import NUMBER, TIME, TYPE, Events

__all__ = ["Survey", "bucketed", "context_of", "counted", "stage", "survey_of", "timed"]

#: Quantiles are off by no more than the stream divided by so many times the parts.
_FINER = 8
#: Of how many events the times tell enough.
_ENOUGH = 2_000_000
_ORIGIN = "DataFrame"


@dataclass(frozen=True)
class Survey:
    """Figures of a stream.

    Attributes
    ----------
    events
        How many there are.
    first, last
        Their times, ns; 0 of none.
    parts
        Times, ns, ascending, that divide the stream into parts of about as many events.
    """

    events: int
    first: int
    last: int
    parts: tuple[int, ...]


def survey_of(events: Events, parts: Callable[[int], int], where: str | None = None) -> Survey:
    """Survey events, and refuse what no engine would take.

    Parameters
    ----------
    events
        Of which columns are known, but no times yet.
    parts
        Into how many parts the times divide a stream of so many events.
    where
        A condition on the events that are to be divided, in SQL; None: all.

    Raises
    ------
    DataError
        A time, type or number is null, a type is not declared, or a time does not fit nanoseconds.
    """
    raw = F.col("raw")
    asked = {"events": F.count(F.lit(1)), "sound": F.count_if(_sound(events)), "first": F.min(raw), "last": F.max(raw)}
    found = _asked(events, asked)
    if found["sound"] < found["events"]:
        _refuse(events, found["events"])
    if not found["events"]:
        return Survey(0, 0, 0, ())
    first, last = found["first"] * events.unit, found["last"] * events.unit
    if max(abs(first), abs(last)) > INT64_MAX:
        raise DataError(
            f"{_ORIGIN}, column {events.schema.time!r}: found times from {found['first']} to {found['last']} in units "
            f"of {events.unit} ns, expected ones that fit int64 nanoseconds; is the time unit right?"
        )
    return Survey(found["events"], first, last, _parts(events, parts(found["events"]), where, found["events"]))


def _parts(events: Events, parts: int, where: str | None, count: int) -> tuple[int, ...]:
    """Times that divide the events, or a part of them drawn by lot: of the same file the same."""
    shares = [number / parts for number in range(1, parts)] or [0.5]
    frame = events.frame if where is None else events.frame.filter(where)
    every = count // _ENOUGH
    if every > 1:
        frame = frame.filter(F.rand(0) < 1 / every)
    with stage(frame.sparkSession, "fastcep: times of the slices"):
        (row,) = frame.agg(F.percentile_approx("raw", shares, F.lit(_FINER * parts)).alias("parts")).collect()
    return tuple(part * events.unit for part in row["parts"] or ())


def _asked(events: Events, asked: dict[str, Column]) -> dict[str, Any]:
    """Figures of all events, by name."""
    with stage(events.frame.sparkSession, "fastcep: survey of the stream"):
        (row,) = events.frame.agg(*(column.alias(name) for name, column in asked.items())).collect()
    return dict(row.asDict())


def _sound(events: Events) -> Column:
    """Whether an event has all that it must have: one condition, for figures take time."""
    sound = F.col("raw").isNotNull()
    if events.schema.type is not None:
        sound &= F.col(TYPE) >= 0
    if events.schema.sequence is not None:
        sound &= F.col(NUMBER).isNotNull()
    return sound


def _refuse(events: Events, count: int) -> None:
    """Say what is not sound."""
    schema = events.schema
    needed = [("raw", schema.time, "a time"), (TYPE, schema.type, "an event type"),
              (NUMBER, schema.sequence, "a sequence number")]  # fmt: skip
    needed = [one for one in needed if one[1] is not None]
    asked = {name: F.count_if(F.col(name).isNull()) for name, _, _ in needed}
    if schema.type is not None:
        asked["unknown"] = F.count_if(F.col(TYPE) < 0)
    found = _asked(events, asked)
    for name, column, what in needed:
        if found[name]:
            raise DataError(
                f"{_ORIGIN}, column {column!r}: found null in {found[name]:,} of {count:,} rows, expected {what}; "
                "drop these rows or fill it in"
            )
    known = schema.type_names if schema.codes is None else sorted(schema.codes.values())
    raise DataError(
        f"{_ORIGIN}, column {schema.type!r}: found undeclared event types in {found['unknown']:,} of {count:,} rows, "
        f'expected declared ones{suggestion("", known)}; declare them or set other_types="ignore"'
    )


def timed(events: Events) -> Events:
    """The same with ``time`` in ns in the place of ``raw``; the survey has found that all of them fit."""
    rest = [name for name in events.frame.columns if name != "raw"]
    time = (F.col("raw") * F.lit(events.unit)).alias(TIME)
    return replace(events, frame=events.frame.select(time, *rest))


def counted(events: Events, edges: Sequence[int]) -> list[int]:
    """How many events there are before, between and behind times: one more than there are edges."""
    with stage(events.frame.sparkSession, "fastcep: places of the slices"):
        rows = bucketed(events.frame.select(TIME), "cell", edges).groupBy("cell").count().collect()
    counts = [0] * (len(edges) + 1)
    for row in rows:
        counts[row["cell"]] = row["count"]
    return counts


def bucketed(frame: DataFrame, name: str, edges: Sequence[int]) -> DataFrame:
    """The same with one more column: how many of the ascending edges a time is not below.

    It is a search by halves, a projection for each step: a tree of conditions grows with the edges, and is more than
    the JVM compiles where there are a thousand.
    """
    found = frame.withColumn(name, F.lit(0))
    array, place = F.split(F.lit(",".join(map(str, edges))), ",").cast("array<bigint>"), F.col(name)
    for half in reversed(range(len(edges).bit_length())):
        step = 1 << half  # behind the last edge there is null, which is not taken
        higher = F.get(array, place + (step - 1)) <= F.col(TIME)
        found = found.withColumn(name, F.when(higher, place + step).otherwise(place))
    return found


def context_of(session: SparkSession) -> SparkContext | None:
    """What knows of cores and pages; a session by Spark Connect has none."""
    try:
        return session.sparkContext
    except (PySparkException, AttributeError):
        return None


@contextmanager
def stage(session: SparkSession, name: str) -> Iterator[None]:
    """Give the jobs inside a name in Spark's pages; a session by Spark Connect has none to give."""
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
            context.setLocalProperty(key, value)  # type: ignore[arg-type]  # None: as if it had never been
