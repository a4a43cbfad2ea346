"""Send events to their slices: to those of their key, and to all whose stretch of time they are needed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from fastcep.events import Schema
from fastcep.plan import Plan
from fastcep.plan.plan import KeyPlan
from fastcep.spark.columns import SLICE, TIME, TYPE, Events
from fastcep.spark.slices import Slice, TimeCut
from fastcep.spark.survey import bucketed

__all__ = ["SliceAssignment", "key_group", "placed"]

_SQL = {"i": "bigint", "f": "double", "b": "boolean", "s": "string"}


@dataclass(frozen=True)
class SliceAssignment:
    """Into which slices a stream is cut.

    Attributes
    ----------
    slices
        All of them, by number.
    time
        Those of time; of groups of keys that have too many events for one slice, too. None: there are none.
    groups
        By group of keys its slice, or the first of its slices of time; empty: the stream is not cut by key.
    heavy
        By group whether it is cut by time.
    """

    slices: tuple[Slice, ...]
    time: TimeCut | None = None
    groups: tuple[int, ...] = ()
    heavy: tuple[bool, ...] = ()


def key_group(plan: Plan, key: KeyPlan, schema: Schema, groups: int) -> Column:
    """The group of an event's key, from 0 to `groups` - 1; keys that are equal for the engine are in one."""
    columns = list(key.columns)
    if plan.partition is not None:
        for kind, own in enumerate(plan.partition.columns):
            if own and columns[kind] < 0:
                columns[kind] = own[0]
    texts = {at: _hashed(at, key.dtype) for at in sorted(set(columns)) if at >= 0}
    if len(texts) == 1:
        (text,) = texts.values()
    else:
        cases = " ".join(f"WHEN {number} THEN {texts[at]}" for number, at in enumerate(columns) if at >= 0)
        text = f"CASE {TYPE} {cases} END"
    return F.expr(f"CAST(pmod({text}, {groups}) AS INT)")


def _hashed(at: int, dtype: str) -> str:
    value = f"CAST(c{at} AS {_SQL[dtype]})"
    return f"xxhash64({value} + 0D)" if dtype == "f" else f"xxhash64({value})"  # -0.0 is 0.0


def placed(events: Events, cut: SliceAssignment, group: Column | None = None) -> DataFrame:
    """Give each slice a partition with all of its events, in order, and ``slice``, its number.

    Parameters
    ----------
    events
        With ``time`` in ns.
    cut
        The slices.
    group
        Of an event's key, if the stream is cut by key.
    """
    frame = events.frame
    if group is None:
        assert cut.time is not None
        frame = _by_time(frame, cut.time, "0", "true")
    else:
        frame = frame.withColumn("keys", group)
        first = f"element_at({_array(cut.groups)}, keys + 1)"
        if cut.time is None:
            frame = frame.withColumn(SLICE, F.expr(first)).drop("keys")
        else:
            frame = _by_time(frame, cut.time, first, f"element_at({_array(cut.heavy)}, keys + 1)").drop("keys")
    return frame.repartitionById(len(cut.slices), F.col(SLICE)).sortWithinPartitions(TIME, *events.order)


def _array(values: Sequence[object]) -> str:
    return f"array({', '.join(str(value).lower() for value in values)})"


def _by_time(frame: DataFrame, cut: TimeCut, first: str, where: str) -> DataFrame:
    """Send each event to the slices of time that have it, numbered from ``first`` on, ``where`` there are some."""
    frame = bucketed(frame, "low", cut.ends)
    low = F.when(F.expr(where), F.col("low")).otherwise(F.lit(0))
    if cut.begins == cut.ends:
        return frame.withColumn(SLICE, F.expr(first) + low).drop("low")
    frame = bucketed(frame, "high", cut.begins)
    high = F.when(F.expr(where), F.col("high")).otherwise(F.lit(0))
    marked = frame.withColumn("from", F.expr(first))
    copies = F.explode(F.sequence(F.col("from") + low, F.col("from") + high))
    return marked.withColumn(SLICE, copies).drop("low", "high", "from")
