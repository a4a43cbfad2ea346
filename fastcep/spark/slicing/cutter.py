"""Decide where to cut the stream of a query, by key or by time, from its statistics.

`Cutter` runs on the driver if the statistics are known (a survey was made), otherwise in a task of the survey that is
part of Spark's plan.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pyspark.sql import SparkSession

from fastcep.errors import ValidationError
from fastcep.events import Schema
from fastcep.plan.slicing import Context, Slicing
from fastcep.spark.session import context_of
from fastcep.spark.slicing.assignment import ALL_PIECES, SliceAssignment
from fastcep.spark.slicing.facts import KIND, error_facts, facts_text
from fastcep.spark.slicing.slices import Slice, TimeCut, time_cut
from fastcep.spark.slicing.statistics import StreamStatistics, fault_of
from fastcep.spark.slicing.time_counts import TimeCounts

__all__ = [
    "JOB_KIND", "MAX_EVENTS", "PARTS", "Cut", "Cutter", "check_slices", "key_cut", "most_slices", "positioned",
    "slice_counter", "time_parts",
]  # fmt: skip

#: Number of known times per slice.
PARTS = 8
MAX_SLICES = 1024
#: Events per slice: the minimum for more than one slice, and the target maximum.
_MIN_EVENTS, MAX_EVENTS = 20_000, 4_000_000
#: Shares of the stream that time slices may read again before a cut by key is preferred: if events are numbered, and if
#: they are not (a cut by key then sends all events twice, first to number them).
_MAX_REREAD, _MAX_REREAD_UNNUMBERED = 0.05, 0.25
#: Key groups per slice; a group with more than `_HEAVY` times the events of a slice is cut by time.
_GROUPS, _HEAVY = 8, 1.5
#: A cut by key has at most this number of times the slices that it aims at; slices get larger by `_COARSER` until then.
_MOST, _COARSER = 2, 1.1
#: Type of the facts of a job: about the slices in which events are numbered, and about those of the query.
JOB_KIND = f"struct<numbering:{KIND},detection:{KIND}>"


@dataclass(frozen=True)
class Cut:
    """Slices of a stream.

    Attributes
    ----------
    assignment
        Slices in which the query runs.
    numbering
        Slices in which events are numbered first; None: they have numbers, or their positions are known.
    reason
        Explanation of the cut, for people.
    largest
        Share of the relevant events in the largest slice of a cut by key; 0 for a cut by time.
    """

    assignment: SliceAssignment
    numbering: SliceAssignment | None
    reason: str
    largest: float = 0.0

    def text(self) -> str:
        """Return the facts of a job as JSON, of type `JOB_KIND`."""
        numbering = "null" if self.numbering is None else facts_text(self.numbering)
        return f'{{"numbering": {numbering}, "detection": {facts_text(self.assignment)}}}'


@dataclass(frozen=True)
class Cutter:
    """Function from the statistics of a stream to its slices.

    Attributes
    ----------
    possible
        Ways to cut the stream of the query.
    schema
        Schema of the query.
    unit
        Nanoseconds per unit of the times of statistics.
    slicing
        ``key``, ``time`` or ``auto``, as for `detect`.
    count
        Function from the number of events to the number of slices.
    prefer_time
        Whether ``auto`` cuts by time, into fewer slices if these would read too much again: where Spark's plan must be
        fixed before the statistics are known.
    """

    possible: Slicing
    schema: Schema
    unit: int
    slicing: str
    count: Callable[[int], int]
    prefer_time: bool = False

    @property
    def numbered(self) -> bool:
        """The schema has sequence numbers."""
        return self.schema.sequence is not None

    def __call__(self, statistics: StreamStatistics) -> Cut:
        """Cut the stream."""
        slice_count = self.count(statistics.events)
        mode, reason = self._choice(statistics, slice_count)
        if mode == "time":
            return self._by_time(statistics, slice_count, reason)
        return self._by_key(statistics, slice_count, reason)

    def facts(self, statistics: StreamStatistics) -> str:
        """Return the facts of a job as JSON; those of an invalid stream contain the error."""
        fault = fault_of(statistics, self.schema, self.unit)
        if fault is None:
            return self(statistics).text()
        # The only slice raises the error; no event is numbered.
        invalid = json.loads(error_facts(fault))
        return json.dumps({"numbering": invalid | {"headers": []}, "detection": invalid})

    def _choice(self, statistics: StreamStatistics, slice_count: int) -> tuple[str, str]:
        """Choose ``key`` or ``time``, and explain the choice."""
        key, time = self.possible.key, self.possible.time
        if isinstance(key, str) or self.slicing == "time":
            return "time", "by time" + (f": {key}" if isinstance(key, str) else "")
        by_key = f"by {' = '.join(dict.fromkeys(key.attributes))}"
        if isinstance(time, str) or self.slicing == "key":
            return "key", by_key + (f": {time}" if isinstance(time, str) else "")
        reread = self._reread(time, statistics, slice_count)
        most = _MAX_REREAD if self.numbered else _MAX_REREAD_UNNUMBERED
        if reread > most and not self.prefer_time:
            return "key", f"{by_key}: a cut by time would read {reread:.0%} again"
        first = "count" if self.numbered else "number"
        return "time", f"by time: this reads {reread:.1%} again; a cut {by_key} would have to {first} all events first"

    def _reread(self, context: Context, statistics: StreamStatistics, slice_count: int) -> float:
        """Return the share of the stream that time slices read again, at a constant rate of events."""
        span = max((statistics.last - statistics.first) * self.unit, 1)
        by_events = (context.events + context.every_events) / max(statistics.events, 1)
        return (slice_count - 1) * ((context.nanoseconds + context.every_nanoseconds) / span + by_events)

    def _by_time(self, statistics: StreamStatistics, slice_count: int, reason: str) -> Cut:
        context = self.possible.time
        assert isinstance(context, Context)
        if self.prefer_time:
            while slice_count > 1 and self._reread(context, statistics, slice_count) > _MAX_REREAD_UNNUMBERED:
                slice_count //= 2
        parts = time_parts(statistics, slice_count * PARTS, self.unit)
        cut = time_cut(parts, slice_count, context, positions=not self.numbered)
        if cut.edges:
            cut = positioned(cut, statistics, self.unit)
        return Cut(SliceAssignment(cut.slices, cut), None, reason)

    def _by_key(self, statistics: StreamStatistics, slice_count: int, reason: str) -> Cut:
        parts = time_parts(statistics, slice_count * PARTS, self.unit)
        numbering = None
        if not self.numbered:
            cut = time_cut(parts, slice_count, Context(), positions=True)
            cut = positioned(cut, statistics, self.unit)
            numbering = SliceAssignment(cut.slices, cut)
        if slice_count == 1:
            return Cut(SliceAssignment((Slice(),), groups=(0,), steps=(ALL_PIECES,)), numbering, reason)
        groups = slice_count * _GROUPS
        counted = statistics.each[0].group_sizes
        sizes = [int(counted[group::groups].sum()) for group in range(groups)]
        time = self.possible.time
        context = time if isinstance(time, Context) and not time.events else None
        assignment = key_cut(sizes, slice_count, parts, context)
        return Cut(assignment, numbering, reason, largest_share(assignment, sizes))


def time_parts(statistics: StreamStatistics, number: int, unit: int) -> list[int]:
    """Return ascending times in ns that divide the stream into parts of about equal size."""
    return _nanoseconds(statistics.each[0].times.parts(number), statistics, unit)


def positioned(cut: TimeCut, statistics: StreamStatistics, unit: int) -> TimeCut:
    """Set the positions of the slices of a cut at times of `time_parts`."""
    times: TimeCounts = statistics.each[0].times
    edges = _nanoseconds(times.starts(), statistics, unit)
    return replace(cut, edges=tuple(edges)).with_positions([0, *times.cells()[1].tolist()])


def _nanoseconds(times: Sequence[int], statistics: StreamStatistics, unit: int) -> list[int]:
    """Return times in ns, none of them before the first event."""
    return [max(time, statistics.first) * unit for time in times]


def slice_counter(
    session: SparkSession, slices: int | None, max_events: int | None, most: int = MAX_SLICES
) -> Callable[[int], int]:
    """Return a function from the number of events to the number of slices.

    `slices` is the number that the user sets. None: two per core, and enough for at most `max_events` events in a
    slice, but at most `most`; `max_events` None: a slice may have any number.

    Raises
    ------
    ValidationError
        If `slices` is not a valid number.
    """
    if slices is None:
        return partial(_slice_count, min(2 * _cores(session), MAX_SLICES), max_events, most=most)
    check_slices(slices)
    return partial(_fixed, slices)


def most_slices(count: Callable[[int], int], *, by_key: bool) -> int:
    """Return the maximum number of slices of any stream."""
    slice_count = count(MAX_SLICES * _MIN_EVENTS)
    return most_of(slice_count) if by_key else slice_count


def _fixed(slices: int, events: int) -> int:
    return slices


def check_slices(slices: int | None, option: str = "slices") -> None:
    """Check the number of slices that the user sets; ValidationError names the option."""
    if slices is None:
        return
    if isinstance(slices, bool) or not isinstance(slices, int) or not 1 <= slices <= MAX_SLICES:
        raise ValidationError(f"{option}={slices!r}: expected a whole number from 1 to {MAX_SLICES}, or None")


def _slice_count(parallel: int, max_events: int | None, events: int, most: int = MAX_SLICES) -> int:
    """Return a multiple of the number of parallel slices, so that no core is idle; fewer for few events."""
    rounds = 1 if max_events is None else max(1, -(-events // (parallel * max_events)))
    return min(rounds * max(1, min(parallel, events // _MIN_EVENTS)), most)


def _cores(session: SparkSession) -> int:
    """Return the number of parallel tasks; a Spark Connect session only knows its number of shuffle partitions."""
    context = context_of(session)
    if context is None:
        return int(session.conf.get("spark.sql.shuffle.partitions") or 1)
    return int(context.defaultParallelism)


def key_cut(sizes: Sequence[int], slice_count: int, parts: Sequence[int], context: Context | None) -> SliceAssignment:
    """Assign key groups to slices: the largest first, each to the smallest slice; groups that are too large by time.

    A group that is cut by time has a number of slices in proportion to its size. There are at most twice as many slices
    as `slice_count`, and at most `MAX_SLICES`.

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
    can_cut = context is not None and bool(parts)
    while True:
        pieces = [round(size / mean_size) if can_cut and size > _HEAVY * mean_size else 1 for size in sizes]
        light_size = sum(size for size, count in zip(sizes, pieces, strict=True) if count == 1)
        light_slices = max(1, round(light_size / mean_size))
        if light_slices + sum(count for count in pieces if count > 1) <= most_of(slice_count):
            break
        mean_size *= _COARSER
    time: TimeCut | None = None
    steps = [ALL_PIECES] * len(sizes)
    if context is not None and max(pieces) > 1:
        time = time_cut(parts, max(pieces), context, positions=False)
        steps = [-(-len(time.slices) // count) if count > 1 else ALL_PIECES for count in pieces]
    loads, groups = [0] * light_slices, [0] * len(sizes)
    slices: list[Slice] = [Slice()] * light_slices
    for group in sorted(range(len(sizes)), key=lambda group: -sizes[group]):
        if steps[group] != ALL_PIECES and time is not None:
            groups[group] = len(slices)
            slices += time.coarser(steps[group])
        else:
            groups[group] = min(range(light_slices), key=loads.__getitem__)
            loads[groups[group]] += sizes[group]
    return SliceAssignment(tuple(slices), time, tuple(groups), tuple(steps))


def largest_share(cut: SliceAssignment, sizes: Sequence[int]) -> float:
    """Return the share of the events in the largest slice of a cut by key."""
    loads = [0.0] * len(cut.slices)
    for first, step, size in zip(cut.groups, cut.steps, sizes, strict=True):
        loads[first] += size if cut.time is None or step == ALL_PIECES else size / -(-len(cut.time.slices) // step)
    return max(loads) / max(sum(sizes), 1)


def most_of(slice_count: int) -> int:
    """Return the maximum number of slices of a cut by key that aims at `slice_count`."""
    return min(_MOST * slice_count, MAX_SLICES)
