"""Statistics of a stream that decide how it is cut: computed by tasks over batches of few columns, and added up.

Data flow: `survey` selects the columns of `TASK_COLUMNS` from the DataFrame; `collect` runs in each task and returns
one row with the pickled statistics of its partition; `merged` adds the rows up.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.events import Schema
from fastcep.events.schema import suggestion
from fastcep.events.units import INT64_MAX
from fastcep.spark.slicing.time_counts import TimeCounts

__all__ = [
    "FAULT", "GROUPS", "NULL_NUMBER", "NULL_TIME", "NULL_TYPE", "RAW", "UNDECLARED", "WIRE_SCHEMA", "Specification",
    "Statistics", "StreamStatistics", "collect", "fault_of", "merged",
]  # fmt: skip

#: Key groups whose events are counted; slices consist of these.
GROUPS = 8_192
#: Columns of a survey: time in its own unit, fault; ``k0``, ``k1``, …: key group, or -1 for an irrelevant event.
RAW, FAULT = "raw", "fault"
#: Faults of an event; 0: none.
NULL_TIME, NULL_TYPE, NULL_NUMBER, UNDECLARED = 1, 2, 3, 4
#: Columns of the result of `collect`.
WIRE_SCHEMA = "statistics binary"


@dataclass(frozen=True)
class Specification:
    """Statistics that a query needs; queries with equal specifications share them.

    Attributes
    ----------
    schema
        Schema of the query.
    group
        SQL expression of the key group; None: the stream cannot be cut by key.
    where
        SQL condition of relevant events; None: all events are relevant.
    only_relevant
        Whether the times of relevant events alone are counted.
    """

    schema: Schema
    group: str | None
    where: str | None
    only_relevant: bool


@dataclass
class Statistics:
    """Counts of events for one specification.

    Attributes
    ----------
    times
        Counts by time, in the unit of the time column.
    group_sizes
        Number of relevant events in each key group; empty without a key.
    """

    times: TimeCounts = field(default_factory=TimeCounts)
    group_sizes: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))


@dataclass
class StreamStatistics:
    """Counts of all events, and `Statistics` for each specification.

    Attributes
    ----------
    events
        Number of events.
    first, last
        Lowest and highest time, in the unit of the time column; 0 without events.
    faults
        Number of events with each fault.
    each
        Statistics by position of the specification.
    sampled
        Whether the numbers of events are estimates; those of faults are exact.
    """

    events: int = 0
    first: int = 0
    last: int = 0
    faults: dict[int, int] = field(default_factory=dict)
    each: list[Statistics] = field(default_factory=list)
    sampled: bool = False

    def weighted(self, weight: int) -> StreamStatistics:
        """Return statistics in which each event counts as `weight` events; times are divided into parts as before."""
        each = [replace(one, group_sizes=one.group_sizes * weight) for one in self.each]
        return replace(self, events=self.events * weight, sampled=weight > 1, each=each)

    def span(self, first: int, last: int) -> None:
        """Extend the range of times; call it before the new events are added to `events`."""
        self.first = min(self.first, first) if self.events else first
        self.last = max(self.last, last) if self.events else last


def collect(batches: Iterable[pa.RecordBatch], specifications: Sequence[Specification]) -> Iterator[pa.RecordBatch]:
    """Compute the statistics of a partition; yield one row of `WIRE_SCHEMA`."""
    statistics = StreamStatistics(each=[Statistics() for _ in specifications])
    for batch in batches:
        if batch.num_rows:
            _add(statistics, batch, specifications)
    if statistics.events:
        column: Any = pa.array([pickle.dumps(statistics)], pa.binary())
        yield pa.RecordBatch.from_pydict({"statistics": column})


def _add(statistics: StreamStatistics, batch: pa.RecordBatch, specifications: Sequence[Specification]) -> None:
    rows = batch.num_rows
    faults: Any = batch.column(FAULT).to_numpy()
    if faults.any():
        for fault, count in zip(*np.unique(faults[faults > 0], return_counts=True), strict=True):
            statistics.faults[int(fault)] = statistics.faults.get(int(fault), 0) + int(count)
        batch = batch.filter(pc.is_valid(batch.column(RAW)))
    times: Any = batch.column(RAW).to_numpy()
    if len(times):
        statistics.span(int(times.min()), int(times.max()))
    for number, (one, specification) in enumerate(zip(statistics.each, specifications, strict=True)):
        name = f"k{number}"
        if name not in batch.schema.names:
            one.times.add(times)
            continue
        groups: Any = batch.column(name).to_numpy()
        one.times.add(times[groups >= 0] if specification.only_relevant else times)
        if specification.group is not None:
            sizes = np.bincount(groups[groups >= 0], minlength=GROUPS)
            one.group_sizes = sizes if not len(one.group_sizes) else one.group_sizes + sizes
    statistics.events += rows


def merged(batches: Iterable[pa.RecordBatch], specifications: int) -> StreamStatistics:
    """Add up the rows of `collect`."""
    total = StreamStatistics(each=[Statistics() for _ in range(specifications)])
    for batch in batches:
        rows: list[Any] = batch.column(0).to_pylist()
        for row in rows:
            _merge(total, pickle.loads(row))
    return total


def _merge(total: StreamStatistics, part: StreamStatistics) -> None:
    total.span(part.first, part.last)
    total.events += part.events
    for fault, count in part.faults.items():
        total.faults[fault] = total.faults.get(fault, 0) + count
    for one, other in zip(total.each, part.each, strict=True):
        one.times.merge(other.times)
        if not len(one.group_sizes):
            one.group_sizes = other.group_sizes
        elif len(other.group_sizes):
            one.group_sizes = one.group_sizes + other.group_sizes


def fault_of(statistics: StreamStatistics, schema: Schema, unit: int) -> str | None:
    """Return the message for events that an engine does not accept; None if there are none."""
    for fault, column, expected in (
        (NULL_TIME, schema.time, "a time"), (NULL_TYPE, schema.type, "an event type"),
        (NULL_NUMBER, schema.sequence, "a sequence number"),
    ):  # fmt: skip
        if number := statistics.faults.get(fault):
            return (
                f"DataFrame, column {column!r}: found null in {_rows(number, statistics)}, expected {expected}; "
                "drop these rows or fill them in"
            )
    if number := statistics.faults.get(UNDECLARED):
        declared = schema.type_names if schema.codes is None else sorted(schema.codes.values())
        return (
            f"DataFrame, column {schema.type!r}: found undeclared event types in {_rows(number, statistics)}, "
            f'expected declared ones{suggestion("", declared)}; declare them or set other_types="ignore"'
        )
    if max(abs(statistics.first), abs(statistics.last)) * unit > INT64_MAX:
        return (
            f"DataFrame, column {schema.time!r}: found times from {statistics.first} to {statistics.last} in units of "
            f"{unit} ns, expected times that fit int64 nanoseconds; check the time unit of the schema"
        )
    return None


def _rows(number: int, statistics: StreamStatistics) -> str:
    if statistics.sampled:
        return "1 row" if number == 1 else f"{number:,} rows"
    return f"{number:,} of {statistics.events:,} rows"
