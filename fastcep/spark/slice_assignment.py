"""Send events to their slices: to that of their key, or to all whose time interval or context contains them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from fastcep.events import Schema
from fastcep.plan import Plan
from fastcep.plan.partition_key import key_columns
from fastcep.plan.plan import KeyPlan
from fastcep.query.plain_schema import TIME, TYPE
from fastcep.spark.columns import SLICE, Events
from fastcep.spark.slices import Slice, TimeCut
from fastcep.spark.survey import with_bucket

__all__ = ["SliceAssignment", "assign_slices", "key_group", "key_value"]

_SQL = {"i": "bigint", "f": "double", "b": "boolean", "s": "string"}


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
    heavy
        Whether each key group is cut by time.
    """

    slices: tuple[Slice, ...]
    time: TimeCut | None = None
    groups: tuple[int, ...] = ()
    heavy: tuple[bool, ...] = ()


def key_group(plan: Plan, key: KeyPlan, schema: Schema, groups: int) -> Column:
    """Return the key group of an event, from 0 to `groups` - 1; keys that are equal for the engine share a group."""
    columns = key_columns(plan, key)
    hashes = {column: _hash(column, key.dtype) for column in sorted(set(columns)) if column >= 0}
    if len(hashes) == 1:
        (text,) = hashes.values()
    else:
        cases = " ".join(f"WHEN {kind} THEN {hashes[column]}" for kind, column in enumerate(columns) if column >= 0)
        text = f"CASE {TYPE} {cases} END"
    return F.expr(f"CAST(pmod({text}, {groups}) AS INT)")


def key_value(column: int, dtype: str) -> str:
    """Return SQL for a key, equal for keys that are equal for the engine; nulls and NaN are kept."""
    value = f"CAST(c{column} AS {_SQL[dtype]})"
    return f"({value} + 0D)" if dtype == "f" else value  # -0.0 + 0.0 is 0.0


def _hash(column: int, dtype: str) -> str:
    return f"xxhash64({key_value(column, dtype)})"


def assign_slices(events: Events, cut: SliceAssignment, group: Column | None = None) -> DataFrame:
    """Repartition the events: one partition per slice, in order, with the column ``slice``, the slice number.

    Parameters
    ----------
    events
        Events with ``time`` in ns.
    cut
        Slices of the stream.
    group
        Key group of an event, if the stream is cut by key.
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
    """Send each event to the time slices that contain it, numbered from ``first``; only events that satisfy ``where``.

    All other events go to the slice ``first``.
    """
    frame = with_bucket(frame, "low", cut.ends)
    low = F.when(F.expr(where), F.col("low")).otherwise(F.lit(0))
    if cut.begins == cut.ends:
        return frame.withColumn(SLICE, F.expr(first) + low).drop("low")
    frame = with_bucket(frame, "high", cut.begins)
    high = F.when(F.expr(where), F.col("high")).otherwise(F.lit(0))
    with_first = frame.withColumn("from", F.expr(first))
    copies = F.explode(F.sequence(F.col("from") + low, F.col("from") + high))
    return with_first.withColumn(SLICE, copies).drop("low", "high", "from")
