"""The engine of a unit: continue it after the previous batch, process a batch, and store its state.

An engine waits for the whole batch before it processes events: a source without events, `_CLOCK`, holds all of them
back until the watermark advances. So the rows of a batch may come in any order, and an event is late only if it is
before the watermark of the batches before.
"""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any

import pyarrow as pa

from fastcep.engine import Engine
from fastcep.events import Schema
from fastcep.query import ast
from fastcep.query.plain_schema import NUMBER, TIME, TYPE
from fastcep.spark.functions import ShippedFunctions
from fastcep.spark.streaming.assignment import Unit
from fastcep.spark.streaming.files import Files
from fastcep.spark.streaming.output import Output

__all__ = ["RESTORE_OPTIONS", "SliceEngine", "StreamPlan", "event_schema", "keep", "open_engine"]

#: Options that a restored engine does not take from its snapshot.
RESTORE_OPTIONS = ("clock", "detector", "memory_limit", "model", "shedder")
_ARROW: dict[str, Any] = {
    "int64": pa.int64(), "float64": pa.float64(), "bool": pa.bool_(), "string": pa.string(), "timestamp": pa.int64(),
}  # fmt: skip
_CLOCK, _EVENTS = "clock", "events"
_ORIGIN = "streaming DataFrame"

#: Engines of this process that have stored their state, by the checkpoint and the name of the state, with the number of
#: the batch and the time of the process in s.
_kept: dict[tuple[str, str], tuple[SliceEngine, int, float]] = {}
#: Seconds after which the engines of a stream of which no task has run are dropped.
_IDLE = 600.0


@dataclass(frozen=True)
class StreamPlan:
    """Everything about a streaming query that is the same for all batches of a run.

    Attributes
    ----------
    query
        Query over plain events with sequence numbers.
    events
        Columns of the events.
    options
        Pickled options of the engines: each engine gets its own shedder.
    functions
        User functions that the query calls.
    output
        Layout of the rows.
    checkpoint
        Folder of the checkpoint; a unique name if Spark stores the state.
    run
        Name of this run of the driver: part of the names of its files.
    on_change
        As for `Engine.restore`.
    timed_out
        Whether to return partial matches that have timed out.
    """

    query: ast.Query
    events: pa.Schema
    options: bytes
    functions: ShippedFunctions
    output: Output
    checkpoint: str
    run: str
    on_change: str = "error"
    timed_out: bool = False

    def new_engine(self) -> Engine:
        """Return an engine that has seen no event."""
        engine = Engine(self.query, **pickle.loads(self.options))
        engine.process(self.events.empty_table(), source=_CLOCK)
        return engine

    def restored_engine(self, state: bytes, groups: tuple[int, ...] | None = None) -> Engine:
        """Return an engine that continues from a state, or from the part of it that belongs to some key groups."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user was warned when the query was started
            if groups is not None:
                options = {name: value for name, value in self._restore_options().items() if name != "memory_limit"}
                state = Engine.restore(state, **options, memory_limit=None).snapshot(groups)
            return Engine.restore(state, [self.query], on_change=self.on_change, **self._restore_options())

    def _restore_options(self) -> dict[str, Any]:
        options = pickle.loads(self.options)
        return {name: options[name] for name in RESTORE_OPTIONS if name in options}


class SliceEngine:
    """Engine of the key groups of a unit.

    Parameters
    ----------
    plan
        The streaming query.
    unit
        The unit, with the name of its state.
    engine
        The engine.
    """

    def __init__(self, plan: StreamPlan, unit: Unit, engine: Engine) -> None:
        self.unit = unit
        self._plan, self._engine = plan, engine

    def process(self, events: pa.Table, first_row: int) -> Iterator[pa.Table]:
        """Take events of the batch, in any order, and yield the late ones as rows."""
        self._engine.process(events, source=_EVENTS, origin=_ORIGIN, first_row=first_row)
        rows = self._plan.output.late_events(self._engine.late())
        if rows is not None:
            yield rows

    def end(self, watermark: int | None) -> Iterator[pa.Table]:
        """Process the events before the watermark after the batch, and yield the rows."""
        if watermark is None:
            return
        output = self._plan.output
        rows = [output.matches(self._engine.advance(watermark))]
        if self._plan.timed_out:
            rows.append(output.timed_out(self._engine.timed_out()))
        yield from (table for table in rows if table is not None)

    @property
    def arrived(self) -> int:
        """Number of events that have arrived in all batches."""
        return self._engine._transfer.received

    @property
    def waits(self) -> bool:
        """True if the passing of time can still change the state."""
        metrics = self._engine.metrics()
        names = ("live_partial_matches", "held_events", "waiting_matches", "negated_events")
        return any(metrics[name] for name in names)

    def state(self, name: str) -> bytes:
        """Return the state, which is known by this name from now on."""
        state = self._engine.snapshot()
        self.unit = Unit(self.unit.groups, name)
        return state

    def store(self, files: Files, name: str) -> dict[str, Any]:
        """Write the state to a file; return the record of the unit."""
        state = self.state(name)
        files.write(name, state)
        metrics = self._engine.metrics()
        return {
            "groups": self.unit.groups, "state": name, "bytes": len(state),
            "partial_matches": int(metrics["live_partial_matches"]), "shedding": _shedding(metrics["shedding"]),
        }  # fmt: skip


def _shedding(metrics: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what an engine has dropped so far, and how well it keeps its bound; None without a bound."""
    if metrics is None:
        return None
    return {
        "events": int(metrics["dropped_events"]), "partial_matches": int(metrics["dropped_partial_matches"]),
        "latency": float(metrics["event_latency"]["p99"]), "recall": metrics["estimated_recall"],
    }  # fmt: skip


def open_engine(plan: StreamPlan, unit: Unit, read: Callable[[str], bytes]) -> SliceEngine:
    """Return the engine that continues a unit: the live one of this process, or one restored from its state."""
    kept, _, _ = _kept.pop((plan.checkpoint, unit.state), (None, 0, 0.0))
    if kept is not None and kept.unit.groups == unit.groups and kept._plan.run == plan.run:
        return kept
    if not unit.state:
        return SliceEngine(plan, unit, plan.new_engine())
    state = read(unit.state)
    return SliceEngine(plan, unit, plan.restored_engine(state, unit.groups if unit.is_part else None))


def keep(plan: StreamPlan, engine: SliceEngine, batch: int) -> None:
    """Keep an engine alive for the next batch; drop those that no task will use.

    These are the engines of earlier runs, of the same groups, of batches before the last one, and of other streams that
    have been idle.
    """
    now = monotonic()
    for key, (kept, at, used) in list(_kept.items()):
        is_own, replaced = key[0] == plan.checkpoint, kept.unit.groups == engine.unit.groups
        is_stale = replaced or at < batch - 1 or kept._plan.run != plan.run
        if is_stale if is_own else now - used > _IDLE:
            del _kept[key]
    _kept[plan.checkpoint, engine.unit.state] = engine, batch, now


def event_schema(schema: Schema) -> pa.Schema:
    """Return the columns of the events that an engine gets."""
    fields: list[Any] = [pa.field(TIME, pa.int64())]
    if schema.type is not None:
        fields.append(pa.field(TYPE, pa.int32()))
    fields.append(pa.field(NUMBER, pa.int64()))
    fields += [pa.field(f"c{index}", _ARROW[column.dtype]) for index, column in enumerate(schema.columns)]
    return pa.schema(fields)
