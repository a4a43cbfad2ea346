"""`detect_stream`: a streaming DataFrame of matches, for any sink. Spark stores the state of the engines.

Events of a slice are packed, so that Spark's operator gets few rows: each is an Arrow stream of events. The operator
has one key per slice, whose state is a snapshot of an engine, and a timer that expires when the watermark advances. Its
rows are Arrow streams too, which are unpacked after it.

Spark does not say at a restart whether its checkpoint fits the query: only the operator sees the state. So the state of
each slice describes the query, and each micro-batch with events has a mark for each slice, a row without events. All
slices compare themselves with their marks in the first one, which fails before any of them writes its state.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from fastcep.engine.queries import Buildable
from fastcep.errors import FastcepError, ValidationError
from fastcep.events.convert import from_numpy
from fastcep.events.units import INT64_MAX
from fastcep.query import ast
from fastcep.query.plain_schema import NUMBER, TIME
from fastcep.spark.columns import SLICE, Events, events_of
from fastcep.spark.packing import pack_table, packed, unpack_table, unpacked
from fastcep.spark.relevant_events import condition
from fastcep.spark.streaming.assignment import Unit, assign_units, group_sql, owners_of
from fastcep.spark.streaming.batch import event_columns
from fastcep.spark.streaming.description import Description
from fastcep.spark.streaming.preparation import Prepared, prepare
from fastcep.spark.streaming.rules import rules_of, time_message
from fastcep.spark.streaming.slice_engine import SliceEngine, StreamPlan, keep, open_engine

__all__ = ["detect_stream"]

_PROVIDER = "spark.sql.streaming.stateStore.providerClass"
_ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_ROWS, _ERROR, _EVENT_TIME = "rows", "error", "event_time"
_MS = 1_000_000


def detect_stream(
    stream: DataFrame,
    query: ast.Query | Buildable,
    *,
    allowed_lateness: str | timedelta = "0s",
    timed_out: bool = False,
    slices: int | None = None,
    order_by: str | Sequence[str] | None = None,
    attributes: bool = False,
    on_change: str = "error",
    **options: Any,
) -> DataFrame:
    """Return a streaming DataFrame with the rows of a query; parameters and errors as for `write_matches`.

    A checkpoint of another query, of other options or of another number of slices ends the streaming query in its first
    micro-batch with events. The allowed lateness is rounded up to milliseconds, and so is the watermark down, as
    Spark's watermarks are.
    """
    identity = uuid.uuid4().hex
    prepared = prepare(
        stream, query, identity, identity, None, allowed_lateness=allowed_lateness, timed_out=timed_out, slices=slices,
        order_by=order_by, attributes=attributes, on_change=on_change, options=options,
    )  # fmt: skip
    _check_session(stream.sparkSession)
    output = prepared.stream_plan.output
    events = events_of(stream, prepared.query.schema, order_by, streaming=True)
    description = Description.of(prepared)
    processor = _Processor(prepared.stream_plan, prepared.slices, description, tuple(event_columns(events)[1]))
    frame, slices = _with_slices(events, prepared), prepared.slices

    def fastcep_pack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task = TaskContext.get()
        if task is not None and task.partitionId() == 0:
            numbers = pa.array(range(slices), pa.int32())
            yield pa.RecordBatch.from_pydict({SLICE: numbers, _ROWS: pa.array([b""] * slices, pa.binary())})
        yield from packed(batches, SLICE, _ROWS)

    def fastcep_unpack(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return unpacked(batches, _ROWS, output.schema)

    groups = frame.mapInArrow(fastcep_pack, f"{SLICE} int, {_ROWS} binary").groupBy(SLICE)
    found = groups.transformWithState(processor, f"{_ROWS} binary, {_ERROR} string", "append", "eventTime")
    error = F.col(_ERROR)
    rows = found.select(F.when(error.isNull(), F.col(_ROWS)).otherwise(F.raise_error(error)).alias(_ROWS))
    return rows.mapInArrow(fastcep_unpack, from_arrow_schema(output.schema))


def _check_session(session: SparkSession) -> None:
    remedy = "or use fastcep.spark.write_matches, which does not need it"
    if find_spec("google.protobuf") is None:
        raise ValidationError(
            f"a streaming DataFrame of matches needs protobuf; pip install 'fastcep[spark]' on all machines, {remedy}"
        )
    provider = session.conf.get(_PROVIDER) or ""
    if "RocksDB" not in provider:
        raise ValidationError(
            f"found the state store {provider!r}, expected RocksDB: Spark's transformWithState needs it; set "
            f"{_PROVIDER} to {_ROCKSDB}, {remedy}"
        )


def _with_slices(events: Events, prepared: Prepared) -> DataFrame:
    """Return the events that can affect the query, with their slices; all events count for the watermark."""
    names, ties = event_columns(events)
    frame = events.frame.select(_checked_time(events).alias(TIME), *names, *ties)
    microseconds = F.expr(f"{TIME} div 1000 - CAST({TIME} % 1000 < 0 AS INT)")  # rounded down
    delay = -(-prepared.lateness // _MS)
    frame = frame.withColumn(_EVENT_TIME, F.timestamp_micros(microseconds))
    frame = frame.withWatermark(_EVENT_TIME, f"{delay} milliseconds")
    where = None if prepared.numbered else condition(prepared.plan)
    if where is not None:  # a condition that reads the event time: Spark would evaluate others before the watermark
        frame = frame.filter(F.expr(f"coalesce({where}, false) = ({_EVENT_TIME} IS NOT NULL)"))
    group = "0" if prepared.key is None else group_sql(prepared.plan, prepared.key)
    owners = owners_of(unit for units in assign_units((), prepared.slices) for unit in units)
    slices = f"element_at(array({', '.join(map(str, owners))}), {group} + 1)"
    return frame.withColumn(SLICE, F.expr(slices)).drop(_EVENT_TIME)


def _checked_time(events: Events) -> Column:
    """Return the time in ns. An event that an engine does not accept ends the query with an error."""
    raw, limit = F.col("raw"), INT64_MAX // events.unit
    invalid = [(rule.condition, rule.message()) for rule in rules_of(events)]
    invalid.append((~raw.between(-limit, limit), time_message(events, "a time out of range")))
    (broken, message), *others = invalid
    time = F.when(broken, F.raise_error(F.lit(message)))
    for broken, message in others:
        time = time.when(broken, F.raise_error(F.lit(message)))
    return time.otherwise(raw * F.lit(events.unit))


def _errors_as_rows(tables: Iterator[pa.Table]) -> Iterator[Row]:
    """Pack tables; an error of fastcep becomes a row, which Spark's plan raises without the traceback of a worker."""
    try:
        for table in tables:
            yield Row(**{_ROWS: pack_table(table), _ERROR: None})
    except FastcepError as error:
        yield Row(**{_ROWS: None, _ERROR: str(error)})


def _batch() -> int:
    """Return the number of the micro-batch of this task; 0 if it is unknown."""
    task = TaskContext.get()
    number = None if task is None else task.getLocalProperty("streaming.sql.batchId")
    return 0 if number is None else int(number)


@dataclass(frozen=True)
class _Known:
    """Facts in the state of a slice; without a state, those of a new slice.

    Attributes
    ----------
    version
        Version of the engine.
    waits
        Whether it waits for time to pass.
    is_same
        Whether it is of the same query.
    """

    version: str = ""
    waits: bool = False
    is_same: bool = False


class _Processor(StatefulProcessor):
    """The engines of the slices, whose snapshots Spark stores.

    Parameters
    ----------
    plan
        The streaming query.
    slices
        Number of slices.
    description
        The query and its options.
    ties
        Columns that order events of the same time, if they have no numbers.
    """

    def __init__(self, plan: StreamPlan, slices: int, description: Description, ties: tuple[str, ...]) -> None:
        self._plan, self._slices, self._description, self._ties = plan, slices, description, ties
        self._stream = description.state(slices)

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Declare the state: the snapshot of an engine, and what is needed to find a live engine or to do nothing.

        This is its version, whether it waits for time to pass, and the description of the streaming query.
        """
        self._plan.functions.register()
        self._handle = handle
        self._version: Any = handle.getValueState("version", "version string, waits boolean, stream string")
        self._snapshot: Any = handle.getValueState("snapshot", "snapshot binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802
        """Process the events of a slice."""
        return _errors_as_rows(self._process(key[0], rows, timerValues.getCurrentWatermarkInMs()))

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:  # noqa: N802
        """Let the time of a slice without events pass."""
        return _errors_as_rows(self._pass(key[0], timerValues.getCurrentWatermarkInMs()))

    def close(self) -> None:
        """Do nothing."""

    def _process(self, number: int, rows: Iterator[Any], watermark: int) -> Iterator[pa.Table]:
        known = self._known()
        parts = [unpack_table(part) for row in rows if (part := bytes(row[_ROWS]))]
        if not parts and known.is_same:
            return
        engine = self._open(number, known.version)
        tables = list(self._advance(engine, watermark))
        if parts:
            events = pa.concat_tables(parts)
            if not self._plan.output.numbered:
                events = self._numbered(events, engine.arrived, number)
            tables += engine.process(events, 0)
        self._end(engine, watermark)
        yield from tables

    def _pass(self, number: int, watermark: int) -> Iterator[pa.Table]:
        known = self._known()
        if known.is_same and not known.waits:
            self._set_timer(watermark)
            return
        engine = self._open(number, known.version)
        tables = list(self._advance(engine, watermark))
        self._end(engine, watermark)
        yield from tables

    def _open(self, number: int, version: str) -> SliceEngine:
        (unit,) = assign_units((), self._slices)[number]
        return open_engine(self._plan, Unit(unit.groups, version), lambda _: bytes(self._snapshot.get()[0]))

    def _known(self) -> _Known:
        """Return the facts in the state of the slice.

        Raises
        ------
        ValidationError
            If the state was written with another number of slices, other options, or another query that may not be
            replaced.
        SnapshotError
            If another version of fastcep has written it.
        """
        if not self._version.exists():
            return _Known()
        version, waits, stream = self._version.get()
        if stream == self._stream:
            return _Known(version, waits, is_same=True)
        slices, stored = Description.of_state(stream)
        if slices != self._slices:
            raise ValidationError(
                f"the checkpoint has {slices} slices, found slices={self._slices}; pass slices={slices}, or start "
                "with a new checkpoint; fastcep.spark.write_matches can change "
                "the number of slices at a restart"
            )
        self._description.is_changed(stored, "the checkpoint", self._plan.on_change)
        return _Known(version, waits)

    @staticmethod
    def _advance(engine: SliceEngine, watermark: int) -> Iterator[pa.Table]:
        if watermark > 0:  # Spark's watermark is 0 before the first event
            yield from engine.end(watermark * _MS)

    def _end(self, engine: SliceEngine, watermark: int) -> None:
        """Store the state and set the timer."""
        version = uuid.uuid4().hex
        self._snapshot.update((engine.state(version),))
        self._version.update((version, engine.waits, self._stream))
        self._set_timer(watermark)
        keep(self._plan, engine, _batch())

    def _set_timer(self, watermark: int) -> None:
        """Set the timer to when the watermark advances.

        Each slice has one, also if its engine does not wait: at a restart it compares itself with the query.
        """
        for timer in list(self._handle.listTimers()):
            self._handle.deleteTimer(timer)
        self._handle.registerTimer(max(watermark, 0) + 1)

    def _numbered(self, events: pa.Table, arrived: int, number: int) -> pa.Table:
        """Sort the events of a batch, and number them after those that have arrived."""
        others = [name for name in events.column_names if name != TIME]
        order = [TIME, *self._ties, *(name for name in others if name not in self._ties)]
        events = events.sort_by([(name, "ascending") for name in order]).drop_columns(list(self._ties))
        numbers = np.arange(arrived, arrived + events.num_rows) * self._slices + number
        return events.append_column(NUMBER, from_numpy(numbers))
