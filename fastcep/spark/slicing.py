"""Decide how to cut the stream of a query: by key or by time, and where."""

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
from fastcep.plan.slicing import Context, Slicing, context_text, slicing_of, slicing_refusal
from fastcep.query import ast
from fastcep.query.plain_schema import NUMBER, columns_read
from fastcep.spark.columns import Events, events_of
from fastcep.spark.relevant_events import condition, relevant
from fastcep.spark.slice_assignment import SliceAssignment, assign_slices, key_group
from fastcep.spark.slice_task import Numbering
from fastcep.spark.slices import Slice, TimeCut, time_cut
from fastcep.spark.survey import Survey, context_of, count_between, stage, survey_of, with_times

__all__ = ["PARTS", "Job", "check_slices", "job_of", "key_cut", "slice_counter"]

#: Number of known times per slice. Slices whose context is a number of events can begin at each of them.
PARTS = 8
MAX_SLICES = 1024
#: Events per slice: the minimum for more than one slice, and the target maximum.
_MIN_EVENTS, _MAX_EVENTS = 20_000, 4_000_000
#: Shares of the stream that time slices may read again before a cut by key is preferred: if events are numbered (a cut
#: by key counts the events of each key first), and if they are not (it sends all events twice, first to number them).
_MAX_REREAD, _MAX_REREAD_UNNUMBERED = 0.05, 0.25
#: Key groups per slice; a group with more than `_HEAVY` times the events of a slice is cut by time.
_GROUPS, _HEAVY = 8, 1.5


@dataclass(frozen=True)
class Job:
    """Query over the events of a DataFrame, and the slices of the stream.

    Attributes
    ----------
    plan
        Plan of the query.
    events
        Relevant events with ``time``; numbered, unless slices know the positions of their events.
    survey
        Statistics of the stream.
    cut
        Slices of the stream.
    group
        Column of the key group of an event, if the stream is cut by key; otherwise None.
    reason
        Explanation of the cut, for people.
    """

    plan: Plan
    events: Events
    survey: Survey
    cut: SliceAssignment
    group: Column | None
    reason: str

    def description(self) -> str:
        """Describe the cut in a few lines."""
        cut, count = self.cut, len(self.cut.slices)
        slices = "1 slice" if count == 1 else f"{count:,} slices"
        lines = [f"Spark       {self.survey.events:,} events in {slices}, {self.reason}"]
        if cut.time is not None and len(cut.time.slices) > 1:
            lines.append(f"overlap     {context_text(cut.time.context)} before each time slice")
        if cut.groups:
            heavy = sum(cut.heavy)
            by_time = f", {heavy:,} of them cut by time" if heavy else ""
            lines.append(f"keys        {len(cut.groups):,} groups{by_time}")
        has_sequence = self.plan.query.schema.sequence is not None
        numbers = "from the sequence column" if has_sequence else "positions in the sorted stream"
        return "\n".join([*lines, f"numbers     {numbers}"])


def job_of(
    frame: DataFrame,
    query: ast.Query,
    order_by: str | Sequence[str] | None,
    slicing: str,
    slices: int | None,
    longest_window: int | None = None,
) -> Job:
    """Survey a stream and decide its slices; parameters and errors as for `detect`."""
    if slicing not in ("auto", "key", "time"):
        raise ValidationError(f"slicing={slicing!r}: expected 'auto', 'key' or 'time'")
    plan = make_plan(query)
    possible = slicing_of(plan, longest_window)
    _check(query, possible, slicing)
    events = events_of(frame, query.schema, order_by, columns_read(query))
    slice_count_of = slice_counter(frame.sparkSession, slices, _MAX_EVENTS)
    where = condition(plan) if events.numbered and not possible.numbered else None
    survey = survey_of(events, lambda events: slice_count_of(events) * PARTS, where)
    events, slice_count = with_times(events), slice_count_of(survey.events)
    mode, reason = _choice(possible, events, survey, slice_count, slicing)
    if mode == "time":
        return _by_time(plan, possible, events, survey, slice_count, reason)
    return _by_key(plan, possible, events, survey, slice_count, reason)


def slice_counter(session: SparkSession, slices: int | None, max_events: int) -> Callable[[int], int]:
    """Return a function from the number of events to the number of slices.

    `slices` is the number that the user sets. None: enough for at most `max_events` events in a slice.

    Raises
    ------
    ValidationError
        If `slices` is not a valid number.
    """
    if slices is None:
        return partial(_slice_count, min(2 * _cores(session), MAX_SLICES), max_events)
    check_slices(slices)
    return lambda events: slices


def check_slices(slices: int | None, option: str = "slices") -> None:
    """Check the number of slices that the user sets; ValidationError names the option."""
    if slices is None:
        return
    if isinstance(slices, bool) or not isinstance(slices, int) or not 1 <= slices <= MAX_SLICES:
        raise ValidationError(f"{option}={slices!r}: expected a whole number from 1 to {MAX_SLICES}, or None")


def _slice_count(parallel: int, max_events: int, events: int) -> int:
    """Return a multiple of the number of parallel slices, so that no core is idle; fewer for few events."""
    rounds = max(1, -(-events // (parallel * max_events)))
    return min(rounds * max(1, min(parallel, events // _MIN_EVENTS)), MAX_SLICES)


def _check(query: ast.Query, possible: Slicing, slicing: str) -> None:
    requested = [cut for cut, mode in ((possible.key, "key"), (possible.time, "time")) if slicing in ("auto", mode)]
    obstacles = [cut for cut in requested if isinstance(cut, str)]
    if len(obstacles) == len(requested):
        remedy = "run it in one engine, fastcep.Engine"
        if isinstance(possible.key, str) and "no attribute is equal" in possible.key:
            remedy = "make all variables agree in an attribute, WHERE [attribute], or " + remedy
        reasons = dict.fromkeys(obstacles)
        raise ValidationError(slicing_refusal(query.name, reasons, remedy, "" if slicing == "auto" else slicing))


def _cores(session: SparkSession) -> int:
    """Return the number of parallel tasks; a Spark Connect session only knows its number of shuffle partitions."""
    context = context_of(session)
    if context is None:
        return int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    return int(context.defaultParallelism)


def _choice(possible: Slicing, events: Events, survey: Survey, slice_count: int, slicing: str) -> tuple[str, str]:
    """Choose ``key`` or ``time``, and explain the choice."""
    key, time = possible.key, possible.time
    if isinstance(key, str) or slicing == "time":
        return "time", "by time" + (f": {key}" if isinstance(key, str) else "")
    by_key = f"by {' = '.join(dict.fromkeys(key.attributes))}"
    if isinstance(time, str) or slicing == "key":
        return "key", by_key + (f": {time}" if isinstance(time, str) else "")
    reread = _reread(time, survey, slice_count)
    if reread > (_MAX_REREAD if events.numbered else _MAX_REREAD_UNNUMBERED):
        return "key", f"{by_key}: a cut by time would read {reread:.0%} again"
    first = "count" if events.numbered else "number"
    return "time", f"by time: this reads {reread:.1%} again; a cut {by_key} would have to {first} all events first"


def _reread(context: Context, survey: Survey, slice_count: int) -> float:
    """Return the share of the stream that time slices read again, at a constant rate of events."""
    span = max(survey.last - survey.first, 1)
    by_events = (context.events + context.every_events) / max(survey.events, 1)
    return (slice_count - 1) * ((context.nanoseconds + context.every_nanoseconds) / span + by_events)


def _by_time(plan: Plan, possible: Slicing, events: Events, survey: Survey, slice_count: int, reason: str) -> Job:
    assert isinstance(possible.time, Context)
    cut = time_cut(survey.parts, slice_count, possible.time, positions=not events.numbered)
    if cut.edges:
        cut = cut.with_positions(count_between(events, cut.edges))
    if events.numbered and not possible.numbered:
        events = relevant(plan, events)
    return Job(plan, events, survey, SliceAssignment(cut.slices, cut), None, reason)


def _by_key(plan: Plan, possible: Slicing, events: Events, survey: Survey, slice_count: int, reason: str) -> Job:
    assert isinstance(possible.key, KeyPlan)
    unnumbered = relevant(plan, events)  # for counting: counting numbered events would number them twice
    events = unnumbered if events.numbered else relevant(plan, with_numbers(events, survey, slice_count))
    group = key_group(plan, possible.key, events.schema, slice_count * _GROUPS)
    if slice_count == 1:
        return Job(plan, events, survey, SliceAssignment((Slice(),), groups=(0,), heavy=(False,)), F.lit(0), reason)
    with stage(events.frame.sparkSession, "fastcep: events by key"):
        rows = unnumbered.frame.groupBy(group.alias("keys")).count().collect()
    sizes = [0] * (slice_count * _GROUPS)
    for row in rows:
        sizes[row["keys"]] = row["count"]
    context = possible.time if isinstance(possible.time, Context) and not possible.time.events else None
    return Job(plan, events, survey, key_cut(sizes, slice_count, survey.parts, context), group, reason)


def key_cut(sizes: Sequence[int], slice_count: int, parts: Sequence[int], context: Context | None) -> SliceAssignment:
    """Assign key groups to slices: the largest first, each to the smallest slice; groups that are too large by time.

    Parameters
    ----------
    sizes
        Number of events of each key group.
    slice_count
        Number of slices to aim at.
    parts
        Ascending times in ns that divide the stream into parts of about equal size.
    context
        Context of time slices; None: the stream cannot be cut by time.
    """
    mean_size = max(sum(sizes) / slice_count, 1.0)
    heavy = [context is not None and size > _HEAVY * mean_size and len(parts) > 0 for size in sizes]
    time: TimeCut | None = None
    if any(heavy):
        assert context is not None
        time = time_cut(parts, -(-max(sizes) // int(mean_size)), context, positions=False)
    light_size = sum(size for size, is_heavy in zip(sizes, heavy, strict=True) if not is_heavy)
    light_slices = max(1, round(light_size / mean_size))
    loads, groups = [0] * light_slices, [0] * len(sizes)
    slices: list[Slice] = [Slice()] * light_slices
    for group in sorted(range(len(sizes)), key=lambda group: -sizes[group]):
        if heavy[group] and time is not None:
            groups[group] = len(slices)
            slices += time.slices
        else:
            groups[group] = min(range(light_slices), key=loads.__getitem__)
            loads[groups[group]] += sizes[group]
    return SliceAssignment(tuple(slices), time, tuple(groups), tuple(heavy))


def with_numbers(events: Events, survey: Survey, slice_count: int) -> Events:
    """Sort the stream in time slices, and add sequence numbers: the positions of events in the stream."""
    cut = time_cut(survey.parts, slice_count, Context(), positions=True)
    cut = cut.with_positions(count_between(events, cut.edges))
    task = Numbering(cut.slices)

    def fastcep_number(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return task(batches)

    ties = [name for name in events.frame.columns if name.startswith("o")]
    fields = [field for field in events.frame.schema.fields if field.name not in ties]
    schema = T.StructType([*fields, T.StructField(NUMBER, T.LongType())])
    sorted_ = assign_slices(events, SliceAssignment(cut.slices, cut)).drop(*ties)
    return replace(events, frame=sorted_.mapInArrow(fastcep_number, schema), order=(NUMBER,), numbered=True)
