"""The part of Spark's plan that sends the events of a query to slices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from fastcep.errors import ValidationError
from fastcep.plan.plan import KeyPlan
from fastcep.plan.slicing import Slicing, context_text, slicing_refusal
from fastcep.query.plain_schema import NUMBER
from fastcep.spark.columns import Events, events_of
from fastcep.spark.query_group import QueryGroup
from fastcep.spark.session import UNCHECKED_BATCHES, checks_batches
from fastcep.spark.slice_task import Numbering
from fastcep.spark.slicing.assignment import ALL_PIECES, assign_slices
from fastcep.spark.slicing.cutter import JOB_KIND, MAX_EVENTS, Cut, Cutter, most_slices, slice_counter
from fastcep.spark.slicing.survey import StreamSurvey, facts, statistics_of, with_times

__all__ = ["Job", "describe", "job_of", "prepared"]

#: Share of the events in one slice from which `describe` warns.
_WARNED = 0.5


@dataclass(frozen=True)
class Job:
    """Queries over the events of a DataFrame, and the slices of the stream.

    Attributes
    ----------
    events
        Relevant events with ``time``; numbered, unless slices know the positions of their events.
    facts
        Facts about the slices, of type `facts.KIND`.
    partitions
        Number of partitions, at least the number of slices.
    group
        SQL expression of the key group of an event; None: the stream is not cut by key.
    timed
        Whether there may be time slices.
    """

    events: Events
    facts: Column
    partitions: int
    group: str | None
    timed: bool

    def sliced(self) -> DataFrame:
        """Return the events in one partition per slice, in order, each after the header of the slice."""
        return assign_slices(self.events, self.facts, self.partitions, group=self.group, timed=self.timed, headers=True)


def job_of(
    frame: DataFrame,
    queries: QueryGroup,
    order_by: str | Sequence[str] | None,
    slicing: str,
    slices: int | None,
    survey: StreamSurvey | None = None,
) -> Job:
    """Send the events of queries to slices; parameters and errors as for `detect`. No Spark job runs."""
    events, cutter = prepared(frame, queries, order_by, slicing, slices)
    possible, specification = queries.possible, queries.specification()
    numbered, by_key = events.numbered, isinstance(possible.key, KeyPlan) and slicing != "time"
    if survey is not None:
        cut = cutter(survey.of(specification, queries.name))
        values = F.from_json(F.lit(cut.text()), JOB_KIND)
        by_key, numbering = bool(cut.assignment.groups), cut.numbering is not None
        partitions = len(cut.assignment.slices)
    else:
        both = by_key and not isinstance(possible.time, str) and slicing == "auto"
        lazy_count = slice_counter(frame.sparkSession, slices, None)
        by_key = by_key and not (both and not numbered)
        numbering = by_key and not numbered
        cutter = replace(cutter, prefer_time=both and not numbered, count=lazy_count)
        if not by_key:  # keys need not be counted
            where = specification.where if specification.only_relevant else None
            specification = replace(specification, group=None, where=where)
        exact = not numbered or possible.numbered
        values = facts(events, specification, cutter.facts, JOB_KIND, exact=exact)
        partitions = most_slices(lazy_count, by_key=by_key)
    drop_irrelevant = not possible.numbered
    if numbered and drop_irrelevant:
        events = _filtered(events, queries.relevant(by_source=True))
    events = with_times(events)
    if numbering:
        events = with_numbers(events, values.getField("numbering"), partitions)
        if drop_irrelevant:
            events = _filtered(events, queries.relevant())
    timed = not isinstance(possible.time, str)
    return Job(events, values.getField("detection"), partitions, queries.group if by_key else None, timed)


def _filtered(events: Events, where: str | None) -> Events:
    return events if where is None else replace(events, frame=events.frame.filter(F.expr(where)))


def describe(
    frame: DataFrame,
    queries: QueryGroup,
    order_by: str | Sequence[str] | None,
    slicing: str,
    slices: int | None,
    survey: StreamSurvey | None = None,
) -> str:
    """Describe how the stream of queries is cut, in a few lines; without a survey, this makes one."""
    events, cutter = prepared(frame, queries, order_by, slicing, slices)
    specification = queries.specification()
    statistics = statistics_of(events, [specification]) if survey is None else survey.of(specification, queries.name)
    made = cutter(statistics)
    cut, count = made.assignment, len(made.assignment.slices)
    lines = [f"Spark       {statistics.events:,} events in {'1 slice' if count == 1 else f'{count:,} slices'}, "
             f"{made.reason}"]  # fmt: skip
    if cut.time is not None and len(cut.time.slices) > 1:
        lines.append(f"overlap     {context_text(cut.time.context)} before each time slice")
    if cut.groups:
        heavy = sum(step != ALL_PIECES for step in cut.steps)
        by_time = f", {heavy:,} of them cut by time" if heavy else ""
        lines.append(f"keys        {len(cut.groups):,} groups{by_time}")
    numbers = "from the sequence column" if queries.schema.sequence is not None else "positions in the sorted stream"
    lines.append(f"numbers     {numbers}")
    if made.largest > _WARNED and count > 1:
        lines.append(f"warning     {unbalanced(made, queries.possible)}")
    if checks_batches(frame.sparkSession):
        setting = "=".join(UNCHECKED_BATCHES)
        lines.append(f"hint        set {setting}: Spark then passes events to Python in a third of the time")
    return "\n".join(lines)


def unbalanced(cut: Cut, possible: Slicing) -> str:
    """Return a warning about a slice that has most of the events."""
    text = f"one slice has {cut.largest:.0%} of the events, so more executors do not help: its key group is frequent, "
    if isinstance(possible.time, str):
        return f"{text}and cannot be cut by time: {possible.time}"
    return f"{text}and few times divide it; use more slices"


def prepared(
    frame: DataFrame, queries: QueryGroup, order_by: str | Sequence[str] | None, slicing: str, slices: int | None
) -> tuple[Events, Cutter]:
    """Check the options, and convert the events."""
    if slicing not in ("auto", "key", "time"):
        raise ValidationError(f"slicing={slicing!r}: expected 'auto', 'key' or 'time'")
    possible = queries.possible
    _check(queries.name, possible, slicing)
    events = events_of(frame, queries.schema, order_by, queries.columns)
    count = slice_counter(frame.sparkSession, slices, MAX_EVENTS)
    return events, Cutter(possible, queries.schema, events.unit, slicing, count)


def _check(name: str, possible: Slicing, slicing: str) -> None:
    requested = [cut for cut, mode in ((possible.key, "key"), (possible.time, "time")) if slicing in ("auto", mode)]
    obstacles = [cut for cut in requested if isinstance(cut, str)]
    if len(obstacles) == len(requested):
        remedy = "run it in one engine, fastcep.Engine"
        if isinstance(possible.key, str) and "no attribute is equal" in possible.key:
            remedy = "make all variables agree in an attribute, WHERE [attribute], or " + remedy
        elif isinstance(possible.key, str) and "different keys" in possible.key:
            remedy = "pass the queries one at a time"
        reasons = dict.fromkeys(obstacles)
        raise ValidationError(slicing_refusal(name, reasons, remedy, "" if slicing == "auto" else slicing))


def with_numbers(events: Events, facts: Column, partitions: int) -> Events:
    """Sort the stream in time slices, and add sequence numbers: the positions of events in the stream."""
    task = Numbering()

    def fastcep_number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    ties = [name for name in events.frame.columns if name.startswith("o")]
    fields = [field for field in events.frame.schema.fields if field.name not in ties]
    schema = T.StructType([*fields, T.StructField(NUMBER, T.LongType())])
    sorted_ = assign_slices(events, facts, partitions, group=None, timed=True, headers=True).drop(*ties)
    return replace(events, frame=sorted_.mapInArrow(fastcep_number, schema), order=(NUMBER,), numbered=True)
