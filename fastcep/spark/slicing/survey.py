"""Survey of a stream before it is cut: one pass over few columns, which checks all events and counts them.

`survey` runs it as a Spark job, and returns a `StreamSurvey` for any number of calls of `detect`. Without one, the same
pass is part of the plan of `detect` (`facts`), and runs with each action on its result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from fastcep.engine.queries import Buildable, built_queries
from fastcep.errors import DataError, ValidationError
from fastcep.events.units import INT64_MAX
from fastcep.query import ast
from fastcep.query.plain_schema import NUMBER, TIME
from fastcep.spark.columns import SOURCE_TYPE, Events, events_of, stored_types
from fastcep.spark.interpreter import interpreter_errors
from fastcep.spark.query_group import group_of
from fastcep.spark.session import stage
from fastcep.spark.slicing.statistics import (
    FAULT,
    NULL_NUMBER,
    NULL_TIME,
    NULL_TYPE,
    RAW,
    UNDECLARED,
    WIRE_SCHEMA,
    Specification,
    StreamStatistics,
    collect,
    fault_of,
    merged,
)

__all__ = [
    "StreamSurvey", "all_events", "facts", "statistics_of", "survey",
    "with_bucket", "with_times",
]  # fmt: skip

#: From the statistics of a stream to the facts about its slices, as JSON.
Decide = Callable[[StreamStatistics], str]
#: A survey that needs no exact counts looks at one of this number of events; it checks all of them.
_SAMPLE = 8


@dataclass(frozen=True)
class StreamSurvey:
    """Counts of the events of a DataFrame, for `detect` and `explain`.

    It is valid for all queries that it was made for, one by one or together, and for others with the same schema, key
    and conditions on single events. It is as small as 50 thousand numbers for each of them.

    Attributes
    ----------
    events
        Number of events of declared types.
    """

    events: int
    _specifications: tuple[Specification, ...]
    _statistics: StreamStatistics

    def of(self, specification: Specification, name: str) -> StreamStatistics:
        """Return the statistics for the query called ``name``; ValidationError if the survey has none."""
        if specification not in self._specifications:
            raise ValidationError(
                f"query {name!r} is not part of this survey, which has other keys, conditions or another schema; "
                "pass the query to fastcep.spark.survey"
            )
        place = self._specifications.index(specification)
        return replace(self._statistics, each=[self._statistics.each[place]])


def survey(frame: DataFrame, queries: ast.Query | Buildable | Sequence[ast.Query | Buildable]) -> StreamSurvey:
    """Count the events of a DataFrame in one pass, for `detect` with ``survey=``, and check that they are valid.

    Parameters
    ----------
    frame
        Events, as for `detect`. The survey is only valid for the same rows.
    queries
        One query or several with the same schema.

    Returns
    -------
    StreamSurvey
        Statistics, which do not grow with the stream.

    Raises
    ------
    ValidationError
        If the queries have different schemas.
    SchemaError, DataError
        If the DataFrame does not fit the schema.
    """
    group = group_of(built_queries(queries, False))
    groups = [*(group_of([query]) for query in group.queries), group]
    specifications = tuple(dict.fromkeys(one.specification() for one in groups))
    statistics = statistics_of(events_of(frame, group.schema, None, group.columns), specifications)
    return StreamSurvey(statistics.events, specifications, statistics)


def all_events(events: Events) -> Specification:
    """Return the specification of the statistics for a cut of all events by time."""
    return Specification(events.schema, None, None, False)


def statistics_of(events: Events, specifications: Sequence[Specification]) -> StreamStatistics:
    """Compute statistics in one job.

    Raises
    ------
    DataError
        If an event is invalid.
    ValidationError
        If the workers have no interpreter, or one without fastcep.
    """
    with stage(events.frame.sparkSession, "fastcep: survey of the stream"), interpreter_errors():
        rows = _collected(events, specifications).collect()
    column: Any = pa.array([bytes(row[0]) for row in rows], pa.binary())
    batch = pa.RecordBatch.from_pydict({"statistics": column})
    statistics = merged([batch], len(specifications))
    fault = fault_of(statistics, events.schema, events.unit)
    if fault is not None:
        raise DataError(fault)
    return statistics


def facts(events: Events, specification: Specification, decide: Decide, kind: str, *, exact: bool) -> Column:
    """Return the facts about the slices of a stream as a value that Spark computes with each action.

    It is a scalar subquery: Spark runs it once before the rest of the plan, however often the plan refers to it.

    Parameters
    ----------
    events
        Events with times in their own unit.
    specification
        Statistics to compute.
    decide
        Function from the statistics to the facts; it runs in one task.
    kind
        Type of the facts in Spark's DDL.
    exact
        Count all events. Otherwise only relevant ones are counted, and numbers of events are estimates from a sample,
        which is a function of the sequence numbers.
    """
    weight = 1 if exact else _SAMPLE

    def fastcep_decide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        column: Any = pa.array([decide(merged(batches, 1).weighted(weight))])
        yield pa.RecordBatch.from_pydict({"facts": column})

    collected = _collected(events, [specification], exact=exact)
    decided = collected.repartition(1).mapInArrow(fastcep_decide, "facts string")
    return decided.select(F.from_json("facts", kind)).scalar()


def _collected(events: Events, specifications: Sequence[Specification], *, exact: bool = True) -> DataFrame:
    """Return the statistics of each partition, pickled.

    With ``exact=False``, only faults and a sample of the relevant events of the first specification are sent to Python,
    as most of the time of a survey goes into that.
    """
    specifications = tuple(specifications)

    def fastcep_survey(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return collect(batches, specifications)

    columns = [F.col(RAW), _fault(events).alias(FAULT)]
    for number, one in enumerate(specifications):
        group = "0" if one.group is None else f"coalesce({one.group}, -1)"  # null for undeclared types
        if one.where is not None:
            columns.append(F.expr(f"CASE WHEN {one.where} THEN {group} ELSE -1 END").alias(f"k{number}"))
        elif one.group is not None:
            columns.append(F.expr(group).alias(f"k{number}"))
    frame = events.frame
    if not exact:
        sampled = F.pmod(F.xxhash64(F.col(NUMBER)), F.lit(_SAMPLE)) == 0
        if specifications[0].where is not None:
            sampled &= F.expr(specifications[0].where)
        most = INT64_MAX // events.unit
        frame = frame.where((_fault(events) > 0) | ~F.col(RAW).between(-most, most) | sampled)
    return frame.select(*columns).mapInArrow(fastcep_survey, WIRE_SCHEMA)


def _fault(events: Events) -> Column:
    """Return the fault of an event, 0 for a valid one.

    It reads the type as it is stored: Spark would compute the number of the type again wherever a filter mentions it.
    """
    cases = F.when(F.col(RAW).isNull(), F.lit(NULL_TIME))
    if events.schema.type is not None:
        cases = cases.when(F.col(SOURCE_TYPE).isNull(), F.lit(NULL_TYPE))
    if events.schema.sequence is not None:
        cases = cases.when(F.col(NUMBER).isNull(), F.lit(NULL_NUMBER))
    if events.schema.type is not None:
        cases = cases.when(~F.col(SOURCE_TYPE).isin(stored_types(events.schema)), F.lit(UNDECLARED))
    return cases.otherwise(F.lit(0)).cast("tinyint")


def with_times(events: Events) -> Events:
    """Replace ``raw`` by ``time`` in ns; the survey has checked that all times fit."""
    others = [name for name in events.frame.columns if name not in (RAW, SOURCE_TYPE)]
    time = (F.col(RAW) * F.lit(events.unit)).alias(TIME)
    return replace(events, frame=events.frame.select(time, *others))


def with_bucket(frame: DataFrame, name: str, edges: Column, most: int) -> DataFrame:
    """Add a column: the number of ascending edges that are at most the time of an event.

    This is a binary search with one projection per step. A tree of conditions would grow with the number of edges; with
    a thousand edges, the JVM does not compile it.

    Parameters
    ----------
    frame
        Events with ``time`` in ns.
    name
        Name of the new column.
    edges
        Array of times.
    most
        Maximum length of `edges`.
    """
    searched, bucket = frame.withColumn(name, F.lit(0)), F.col(name)
    for exponent in reversed(range(most.bit_length())):
        step = 1 << exponent  # null after the last edge, so the step is not taken
        is_higher = F.get(edges, bucket + (step - 1)) <= F.col(TIME)
        searched = searched.withColumn(name, F.when(is_higher, bucket + step).otherwise(bucket))
    return searched
