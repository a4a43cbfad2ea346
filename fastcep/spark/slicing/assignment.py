"""Send events to their slices: to that of their key, or to all whose time interval or context contains them.

The plan refers to the facts about the slices (`facts`) as one value, a literal or a scalar subquery, so it can be
made before they are known.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from fastcep.query.plain_schema import TIME
from fastcep.spark.columns import HEADER, SLICE, Events
from fastcep.spark.slicing.slices import Slice, TimeCut
from fastcep.spark.slicing.survey import with_bucket

__all__ = ["ALL_PIECES", "SliceAssignment", "assign_slices"]

#: More than the number of time slices.
ALL_PIECES = 1 << 30

#: Columns of events while they are assigned.
_FACTS, _GROUP, _LOW, _HIGH, _FIRST = "facts", "keys", "low", "high", "first"


@dataclass(frozen=True)
class SliceAssignment:
    """Slices of a stream, and the assignment of key groups to them.

    Attributes
    ----------
    slices
        All slices, by number.
    time
        Time slices of the stream, or of each key group that has too many events for one slice; None: no time slices.
    groups
        Slice of each key group, or the first of its time slices; empty: the stream is not cut by key.
    steps
        Number of neighbouring time slices that make up one slice of each key group; `ALL_PIECES`: the group is not cut
        by time.
    """

    slices: tuple[Slice, ...]
    time: TimeCut | None = None
    groups: tuple[int, ...] = ()
    steps: tuple[int, ...] = ()


def assign_slices(
    events: Events, facts: Column, partitions: int, *, group: str | None, timed: bool, headers: bool
) -> DataFrame:
    """Repartition the events: one partition per slice, in order, with the column ``slice``, the slice number.

    Parameters
    ----------
    events
        Events with ``time`` in ns.
    facts
        Facts about the slices, of the type `facts.KIND`.
    partitions
        Number of partitions, at least the number of slices.
    group
        SQL expression of the key group of an event; None: all events are in group 0.
    timed
        Whether there may be time slices.
    headers
        Add the column ``header`` and a row before the events of each slice that contains the bounds of the slice.
    """
    frame = events.frame.withColumn(_FACTS, facts)
    groups = F.col(f"{_FACTS}.groups")
    # An event of a type without the key is in no group. It is sent only if the stream is cut by time, with one group.
    place = F.lit(0) if group is None else F.coalesce(F.pmod(F.expr(group), F.size(groups)), F.lit(0))
    frame = frame.withColumn(_GROUP, place).withColumn(_FIRST, F.get(groups, F.col(_GROUP)))
    if timed:
        frame = with_bucket(frame, _LOW, F.col(f"{_FACTS}.ends"), partitions)
        frame = with_bucket(frame, _HIGH, F.col(f"{_FACTS}.begins"), partitions)
        step = F.get(F.col(f"{_FACTS}.steps"), F.col(_GROUP))
        low, high = (F.floor(F.col(name) / step).cast("int") for name in (_LOW, _HIGH))
        copies = F.explode(F.sequence(F.col(_FIRST) + low, F.col(_FIRST) + high))
        frame = frame.withColumn(SLICE, copies).drop(_LOW, _HIGH)
    else:
        frame = frame.withColumn(SLICE, F.col(_FIRST)).where(F.col(SLICE).isNotNull())
    frame = frame.drop(_FACTS, _GROUP, _FIRST)
    if headers:
        one = frame.sparkSession.range(0, 1, 1, 1)
        heads = one.select(F.posexplode(facts.getField("headers")).alias(SLICE, HEADER))
        nothing = [F.lit(None).cast(field.dataType).alias(field.name) for field in events.frame.schema.fields]
        frame = frame.withColumn(HEADER, F.lit(None).cast("string"))
        frame = frame.unionByName(heads.select(*nothing, SLICE, HEADER))
    # The header of a slice has no time, and nulls come first.
    return frame.repartitionById(partitions, F.col(SLICE)).sortWithinPartitions(TIME, *events.order)
