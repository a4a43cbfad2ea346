"""A micro-batch on the driver: measure it, send its events to the slices, and collect the reports of the tasks."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from fastcep.errors import DataError, FastcepError, ValidationError
from fastcep.events.units import INT64_MAX, INT64_MIN
from fastcep.query.plain_schema import TIME
from fastcep.spark.columns import SLICE, Events, events_of
from fastcep.spark.interpreter import interpreter_errors
from fastcep.spark.relevant_events import condition
from fastcep.spark.streaming.assignment import Unit, assign_units, group_sql, owners_of
from fastcep.spark.streaming.commit import Commit, OutputFile
from fastcep.spark.streaming.output import KINDS
from fastcep.spark.streaming.preparation import Prepared
from fastcep.spark.streaming.rules import rules_of, time_message
from fastcep.spark.streaming.slice_engine import event_schema
from fastcep.spark.streaming.slice_task import NO_UNIT, REPORT, UNIT, SliceTask

__all__ = ["BatchDetection", "event_columns"]


@dataclass(frozen=True)
class BatchDetection:
    """Detection in the micro-batches of a streaming query.

    Attributes
    ----------
    prepared
        The query.
    stream_plan
        Broadcast variable with its `StreamPlan`.
    """

    prepared: Prepared
    stream_plan: Any

    def run(self, frame: DataFrame, batch: int, before: Commit | None) -> Commit:
        """Process a batch; return what to commit.

        Raises
        ------
        DataError
            If a time, type or sequence number is invalid.
        FastcepError
            The error of an engine, such as a memory limit that is reached.
        ValidationError
            If the tasks do not report each slice once, or the workers have no fastcep.
        """
        started = time.monotonic()
        events = events_of(frame, self.prepared.query.schema, self.prepared.order_by)
        count, last = _measure(events)
        reached = None if before is None else before.watermark
        watermark = _later(reached, None if last is None else max(last - self.prepared.lateness, INT64_MIN))
        measured = time.monotonic()
        units = () if before is None else before.units
        if not count:  # the state and the watermark do not change
            if before is None:
                return Commit(batch, watermark, self.prepared.slices, (), (), (), ())
            return Commit(
                batch, watermark, before.slices, units, before.sizes, before.partial_matches, before.shedding
            )
        slices = assign_units(units, self.prepared.slices)
        reports = self._reports(events, batch, watermark, slices)
        records = [record for report in reports for record in report["units"]]
        counts = {"events": count} | {kind: sum(report["counts"][kind] for report in reports) for kind in KINDS}
        return Commit(
            batch, watermark, self.prepared.slices,
            tuple(Unit(tuple(record["groups"]), record["state"]) for record in records),
            tuple(record["bytes"] for record in records), tuple(record["partial_matches"] for record in records),
            tuple(record["shedding"] for record in records),
            tuple(OutputFile(**report["output"]) for report in reports if report["output"] is not None), counts,
            {"measure": _milliseconds(started, measured), "detect": _milliseconds(measured, time.monotonic())},
        )  # fmt: skip

    def _reports(
        self, events: Events, batch: int, watermark: int | None, slices: tuple[tuple[Unit, ...], ...]
    ) -> list[dict[str, Any]]:
        """Run the tasks; return their reports in the order of the slices."""
        task = SliceTask(self.stream_plan, batch, watermark, slices)

        def fastcep_detect(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            return task(batches)

        frame = self._assigned(events, slices).mapInArrow(fastcep_detect, f"{REPORT} string")
        with interpreter_errors():
            rows = frame.collect()
        found_reports = [json.loads(row[REPORT]) for row in rows]
        for report in found_reports:
            if "error" in report:
                raise FastcepError(report["error"])
        reports = sorted(found_reports, key=lambda report: report["slice"])
        found = [report["slice"] for report in reports]
        if found != list(range(len(slices))):
            raise ValidationError(
                f"batch {batch}: found reports of the slices {found}, expected one of each of {len(slices)}; the batch "
                "is not committed: start the query again"
            )
        return reports

    def _assigned(self, events: Events, slices: tuple[tuple[Unit, ...], ...]) -> DataFrame:
        """Repartition the events that can affect the query: a partition per slice, with the number of the unit."""
        where = None if self.prepared.numbered else condition(self.prepared.plan)
        frame = events.frame if where is None else events.frame.filter(F.expr(where))
        names, ties = event_columns(events)
        frame = frame.select((F.col("raw") * F.lit(events.unit)).alias(TIME), *names, *ties)
        if self.prepared.key is None:
            frame = frame.withColumn(UNIT, F.lit(0)).withColumn(SLICE, F.lit(0))
        else:
            owners = owners_of(unit for units in slices for unit in units)
            places = [(number, index) for number, units in enumerate(slices) for index in range(len(units))]
            frame = frame.withColumn("owner", F.expr(group_sql(self.prepared.plan, self.prepared.key)))
            for name, values in (
                (UNIT, [places[owner][1] for owner in owners]),
                (SLICE, [places[owner][0] for owner in owners]),
            ):
                frame = frame.withColumn(name, F.expr(f"element_at(array({', '.join(map(str, values))}), owner + 1)"))
        # A row for each slice, so that its task runs without events too.
        marks = frame.sparkSession.range(0, len(slices), 1, 1).select(F.col("id").cast("int").alias(SLICE))
        marks = marks.withColumn(UNIT, F.lit(NO_UNIT))
        frame = frame.unionByName(marks, allowMissingColumns=True)
        frame = frame.repartitionById(len(slices), F.col(SLICE))
        if not events.numbered:
            frame = frame.sortWithinPartitions(TIME, *events.order)
        return frame.drop(SLICE, "owner", *ties)


def event_columns(events: Events) -> tuple[list[str], list[str]]:
    """Return the columns that an engine gets, other than the time, and those that break ties."""
    names = [name for name in event_schema(events.schema).names if name in events.frame.columns]
    return names, [name for name in events.order if name.startswith("o")]


def _measure(events: Events) -> tuple[int, int | None]:
    """Return the number of events and the last time in ns, and check that an engine accepts all events."""
    raw, rules = F.col("raw"), rules_of(events)
    aggregates = {"events": F.count(F.lit(1)), "first": F.min(raw), "last": F.max(raw)}
    aggregates |= {f"rule{number}": F.count_if(rule.condition) for number, rule in enumerate(rules)}
    (row,) = events.frame.agg(*(column.alias(name) for name, column in aggregates.items())).collect()
    count = row["events"]
    for number, rule in enumerate(rules):
        if row[f"rule{number}"]:
            raise DataError(rule.message(f" in {row[f'rule{number}']:,} of {count:,} rows"))
    if not count:
        return 0, None
    if max(abs(row["first"]), abs(row["last"])) * events.unit > INT64_MAX:
        raise DataError(time_message(events, f"times from {row['first']} to {row['last']}"))
    return count, row["last"] * events.unit


def _later(first: int | None, second: int | None) -> int | None:
    times = [time for time in (first, second) if time is not None]
    return max(times, default=None)


def _milliseconds(start: float, end: float) -> int:
    return round((end - start) * 1_000)
