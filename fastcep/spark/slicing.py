"""Decide how the stream of a query is cut: by key or by time, and where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from fastcep.errors import ValidationError
from fastcep.plan import Plan, make_plan
from fastcep.plan.plan import KeyPlan
from fastcep.plan.slicing import Context, Slicing, context_text, slicing_of
from fastcep.query import ast
from fastcep.spark.columns import NUMBER, Events, events_of, read_by
from fastcep.spark.relevant_events import condition, relevant
from fastcep.spark.slice_assignment import SliceAssignment, key_group, placed
from fastcep.spark.slice_task import Numbering
from fastcep.spark.slices import Slice, TimeCut, time_cut
from fastcep.spark.survey import Survey, context_of, counted, stage, survey_of, timed

__all__ = ["PARTS", "Job", "check_slices", "job_of", "key_cut", "slices_wanted"]

#: How finely times are known, per slice: places where slices can begin that need a number of events before them.
PARTS = 8
MOST_SLICES = 1024
#: Events in a slice of which there can be no fewer, and of which there should be no more.
_FEWEST, _MOST = 20_000, 4_000_000
#: Slices of time may read again this share of the stream rather than have it counted by key, and rather than have it
#: sent twice, for numbers first.
_AGAIN, _MUCH = 0.05, 0.25
#: Groups of keys per slice; one with so many times the events of a slice is cut by time.
_GROUPS, _HEAVY = 8, 1.5


@dataclass(frozen=True)
class Job:
    """A query over the events of a DataFrame, and how they are cut.

    Attributes
    ----------
    plan
        Of the query.
    events
        With ``time``, and those types only that matter; with numbers, unless slices know their places.
    survey
        Of the stream.
    cut
        Into slices.
    group
        The column of the group of an event's key, if it is cut by key.
    why
        Why it is cut so.
    """

    plan: Plan
    events: Events
    survey: Survey
    cut: SliceAssignment
    group: Column | None
    why: str

    def told(self) -> str:
        """A few lines for people."""
        cut, count = self.cut, len(self.cut.slices)
        slices = "1 slice" if count == 1 else f"{count:,} slices"
        lines = [f"Spark       {self.survey.events:,} events in {slices}, {self.why}"]
        if cut.time is not None and len(cut.time.slices) > 1:
            lines.append(f"again       {context_text(cut.time.context)} before each slice of time")
        if cut.groups:
            heavy = sum(cut.heavy)
            told = f", {heavy:,} of them cut by time" if heavy else ""
            lines.append(f"keys        {len(cut.groups):,} groups{told}")
        own = "places in the sorted stream" if self.plan.query.schema.sequence is None else "of the schema's column"
        return "\n".join([*lines, f"numbers     {own}"])


def job_of(
    frame: DataFrame,
    query: ast.Query,
    order_by: str | Sequence[str] | None,
    slicing: str,
    slices: int | None,
    longest_window: int | None = None,
) -> Job:
    """Survey a stream and cut it; parameters and errors as for `detect`."""
    if slicing not in ("auto", "key", "time"):
        raise ValidationError(f"slicing={slicing!r}: expected 'auto', 'key' or 'time'")
    plan = make_plan(query)
    ways = slicing_of(plan, longest_window)
    _check(query, ways, slicing)
    events = events_of(frame, query.schema, order_by, read_by(query))
    slices_of = slices_wanted(frame.sparkSession, slices, _MOST)
    where = condition(plan) if events.numbered and not ways.numbered else None
    survey = survey_of(events, lambda count: slices_of(count) * PARTS, where)
    events, wanted = timed(events), slices_of(survey.events)
    by, why = _choice(ways, events, survey, wanted, slicing)
    if by == "time":
        return _by_time(plan, ways, events, survey, wanted, why)
    return _by_key(plan, ways, events, survey, wanted, why)


def slices_wanted(session: SparkSession, slices: int | None, most: int) -> Callable[[int], int]:
    """How many slices there are to be of so many events, with no more than so many in one if nobody says how many.

    Raises
    ------
    ValidationError
        If the number is wrong.
    """
    if slices is None:
        return partial(_slices_of, min(2 * _cores(session), MOST_SLICES), most)
    check_slices(slices)
    return lambda events: slices


def check_slices(slices: int | None, option: str = "slices") -> None:
    """Check how many slices are asked for; ValidationError names the option."""
    if slices is None:
        return
    if isinstance(slices, bool) or not isinstance(slices, int) or not 1 <= slices <= MOST_SLICES:
        raise ValidationError(f"{option}={slices!r}: expected a whole number from 1 to {MOST_SLICES}, or None")


def _slices_of(least: int, most: int, events: int) -> int:
    """As many as run beside each other, or a multiple of that, so that no core waits; fewer of few events."""
    rounds = max(1, -(-events // (least * most)))
    return min(rounds * max(1, min(least, events // _FEWEST)), MOST_SLICES)


def _check(query: ast.Query, ways: Slicing, asked: str) -> None:
    possible = [way for way, by in ((ways.key, "key"), (ways.time, "time")) if asked in ("auto", by)]
    reasons = [way for way in possible if isinstance(way, str)]
    if len(reasons) == len(possible):
        mend = "run it in one engine, fastcep.Engine"
        if isinstance(ways.key, str) and "no attribute is equal" in ways.key:
            mend = "let all of its variables agree in an attribute, WHERE [attribute], or " + mend
        how = "" if asked == "auto" else f" by {asked}"
        raise ValidationError(f"query {query.name!r} cannot be cut{how}: {'; '.join(reasons)}; {mend}")


def _cores(session: SparkSession) -> int:
    """How much runs beside each other; a session by Spark Connect tells only how much is shuffled to."""
    context = context_of(session)
    if context is None:
        return int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    return int(context.defaultParallelism)


def _choice(ways: Slicing, events: Events, survey: Survey, wanted: int, asked: str) -> tuple[str, str]:
    """By which of the two, and why."""
    key, time = ways.key, ways.time
    if isinstance(key, str) or asked == "time":
        return "time", "by time" + (f": {key}" if isinstance(key, str) else "")
    told = f"by {' = '.join(dict.fromkeys(key.attributes))}"
    if isinstance(time, str) or asked == "key":
        return "key", told + (f": {time}" if isinstance(time, str) else "")
    again = _again(time, survey, wanted)
    if again > (_AGAIN if events.numbered else _MUCH):
        return "key", f"{told}: by time {again:.0%} would be read again"
    first = "events would have to be counted" if events.numbered else "numbers would have to be given"
    return "time", f"by time: {again:.1%} is read again, where to cut {told} {first} first"


def _again(context: Context, survey: Survey, wanted: int) -> float:
    """The share of the stream that slices of time read again, if it comes evenly."""
    span = max(survey.last - survey.first, 1)
    by_events = (context.events + context.every_events) / max(survey.events, 1)
    return (wanted - 1) * ((context.nanoseconds + context.every_nanoseconds) / span + by_events)


def _by_time(plan: Plan, ways: Slicing, events: Events, survey: Survey, wanted: int, why: str) -> Job:
    assert isinstance(ways.time, Context)
    cut = time_cut(survey.parts, wanted, ways.time, counted=not events.numbered)
    if cut.edges:
        cut = cut.placed(counted(events, cut.edges))
    if events.numbered and not ways.numbered:
        events = relevant(plan, events)
    return Job(plan, events, survey, SliceAssignment(cut.slices, cut), None, why)


def _by_key(plan: Plan, ways: Slicing, events: Events, survey: Survey, wanted: int, why: str) -> Job:
    assert isinstance(ways.key, KeyPlan)
    told = relevant(plan, events)  # whose keys are counted: numbers would be given twice for that
    events = told if events.numbered else relevant(plan, numbered(events, survey, wanted))
    group = key_group(plan, ways.key, events.schema, wanted * _GROUPS)
    if wanted == 1:
        return Job(plan, events, survey, SliceAssignment((Slice(),), groups=(0,), heavy=(False,)), F.lit(0), why)
    with stage(events.frame.sparkSession, "fastcep: events by key"):
        rows = told.frame.groupBy(group.alias("keys")).count().collect()
    sizes = [0] * (wanted * _GROUPS)
    for row in rows:
        sizes[row["keys"]] = row["count"]
    context = ways.time if isinstance(ways.time, Context) and not ways.time.events else None
    return Job(plan, events, survey, key_cut(sizes, wanted, survey.parts, context), group, why)


def key_cut(sizes: Sequence[int], wanted: int, parts: Sequence[int], context: Context | None) -> SliceAssignment:
    """Put groups of keys into slices: large ones first, each into the slice that has least; too large ones by time.

    Parameters
    ----------
    sizes
        Events of each group.
    wanted
        How many slices there should be.
    parts
        Times that divide the stream into parts of about as many events.
    context
        What slices of time need; None: there can be none.
    """
    fair = max(sum(sizes) / wanted, 1.0)
    heavy = [context is not None and size > _HEAVY * fair and len(parts) > 0 for size in sizes]
    time: TimeCut | None = None
    if any(heavy):
        assert context is not None
        time = time_cut(parts, -(-max(sizes) // int(fair)), context, counted=False)
    light = max(1, round(sum(size for size, own in zip(sizes, heavy, strict=True) if not own) / fair))
    loads, groups = [0] * light, [0] * len(sizes)
    slices: list[Slice] = [Slice()] * light
    for at in sorted(range(len(sizes)), key=lambda at: -sizes[at]):
        if heavy[at] and time is not None:
            groups[at] = len(slices)
            slices += time.slices
        else:
            groups[at] = min(range(light), key=loads.__getitem__)
            loads[groups[at]] += sizes[at]
    return SliceAssignment(tuple(slices), time, tuple(groups), tuple(heavy))


def numbered(events: Events, survey: Survey, wanted: int) -> Events:
    """Give events the numbers that they have in the whole stream: it is sorted, slice by slice, for that."""
    cut = time_cut(survey.parts, wanted, Context(), counted=True)
    cut = cut.placed(counted(events, cut.edges))
    task = Numbering(cut.slices)

    def fastcep_number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    ties = [name for name in events.frame.columns if name.startswith("o")]
    fields = [field for field in events.frame.schema.fields if field.name not in ties]
    schema = T.StructType([*fields, T.StructField(NUMBER, T.LongType())])
    sorted_ = placed(events, SliceAssignment(cut.slices, cut)).drop(*ties)
    return replace(events, frame=sorted_.mapInArrow(fastcep_number, schema), order=(NUMBER,), numbered=True)
