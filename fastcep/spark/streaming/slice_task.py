"""Tasks on the executors: the engines of a slice process a micro-batch, and write their rows and their state.

A task may run several times, also at the same time (speculation). Each attempt writes files of its own, and the driver
commits those of the attempt whose result Spark has accepted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark import TaskContext

from fastcep.errors import FastcepError
from fastcep.events.convert import from_numpy
from fastcep.query.plain_schema import NUMBER
from fastcep.spark.streaming.assignment import Unit
from fastcep.spark.streaming.files import Files
from fastcep.spark.streaming.output import KINDS, Output
from fastcep.spark.streaming.slice_engine import SliceEngine, StreamPlan, keep, open_engine

__all__ = ["NO_UNIT", "REPORT", "UNIT", "SliceTask"]

#: Column with the number of an event's unit in its slice, and the column of the result.
UNIT, REPORT = "unit", "report"
#: Unit of a row that is no event.
NO_UNIT = -1
#: Events that an engine gets at once.
_CHUNK = 1 << 17
#: Numbers of events are unique in a stream: the number of the batch, and the number in the batch in the low bits.
_BATCH_SHIFT = 32


@dataclass(frozen=True)
class SliceTask:
    """Task of a micro-batch.

    Attributes
    ----------
    plan
        Broadcast variable with the `StreamPlan`.
    batch
        Number of the batch.
    watermark
        Watermark after the batch, ns; None: no event yet.
    slices
        The units of each slice.
    """

    plan: Any
    batch: int
    watermark: int | None
    slices: tuple[tuple[Unit, ...], ...]

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Process the events of one slice; yield one row, the report for the driver, or the error of an engine."""
        plan: StreamPlan = self.plan.value
        context: Any = TaskContext.get()
        number, attempt = context.partitionId(), context.taskAttemptId()
        suffix = f"{number}-{plan.run}-{attempt}"
        plan.functions.register()
        files = Files(plan.checkpoint)
        try:
            engines, rows, events = self._processed(plan, files, number, batches)
        except FastcepError as error:  # the driver raises it: Spark would repeat the task, and add a traceback
            yield pa.RecordBatch.from_pydict({REPORT: [json.dumps({"error": str(error)})]})
            return
        folder = f"batches/{self.batch}"
        states = [engine.store(files, f"{folder}/state-{index}-{suffix}.fcs") for index, engine in enumerate(engines)]
        report = {
            "slice": number, "units": states, "counts": {"sent": events, **rows.counts},
            "output": rows.write(files, f"{folder}/rows-{suffix}.parquet"),
        }  # fmt: skip
        for engine in engines:
            keep(plan, engine, self.batch)
        yield pa.RecordBatch.from_pydict({REPORT: [json.dumps(report)]})

    def _processed(
        self, plan: StreamPlan, files: Files, number: int, batches: Iterable[pa.RecordBatch]
    ) -> tuple[list[SliceEngine], _Rows, int]:
        """Process the events; return the engines, their rows and the number of events."""
        engines = [open_engine(plan, unit, files.read) for unit in self.slices[number]]
        rows, events = _Rows(plan.output), 0
        for chunk in _chunks(batches):
            table = chunk if plan.output.numbered else self._numbered(chunk, events, number)
            for index, engine in enumerate(engines):
                rows.add(engine.process(_of_unit(table, index, len(engines)), events))
            events += chunk.num_rows
        for engine in engines:
            rows.add(engine.end(self.watermark))
        return engines, rows, events

    def _numbered(self, events: pa.Table, first: int, number: int) -> pa.Table:
        """Add numbers that no other slice or batch has, in the order of the events."""
        within = np.arange(first, first + events.num_rows) * len(self.slices) + number
        return events.append_column(NUMBER, from_numpy(within + (self.batch << _BATCH_SHIFT)))


class _Rows:
    """Rows of a slice, collected in a Parquet file."""

    def __init__(self, output: Output) -> None:
        self._sink = pa.BufferOutputStream()
        self._writer: pq.ParquetWriter | None = None
        self._schema = output.schema
        self.counts = dict.fromkeys(KINDS, 0)

    def add(self, tables: Iterable[pa.Table]) -> None:
        """Add rows of one kind."""
        for table in tables:
            if self._writer is None:
                self._writer = pq.ParquetWriter(self._sink, self._schema, compression="zstd")
            self._writer.write_table(table)
            self.counts[table["kind"][0].as_py()] += table.num_rows

    def write(self, files: Files, name: str) -> dict[str, Any] | None:
        """Write the file; return its record, or None without rows."""
        if self._writer is None:
            return None
        self._writer.close()
        data = self._sink.getvalue()
        files.write(name, data)
        return {"file": name, "rows": sum(self.counts.values()), "bytes": data.size}


def _chunks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield larger tables of the batches."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        is_event = batch.column(UNIT).to_numpy() != NO_UNIT
        if not is_event.all():
            batch = batch.filter(from_numpy(is_event))
        if batch.num_rows:
            waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= _CHUNK:
            yield pa.Table.from_batches(waiting).combine_chunks()
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting).combine_chunks()


def _of_unit(events: pa.Table, unit: int, units: int) -> pa.Table:
    """Return the events of a unit, without the column of its number."""
    if units > 1:
        events = events.filter(from_numpy(events[UNIT].to_numpy() == unit))
    return events.drop_columns([UNIT])
