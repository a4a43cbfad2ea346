"""Measure the service time of queries at different arrival rates, on this machine.

The times of the given events are stretched or compressed to each rate, so that a window holds as many events as at
that rate. The engine is the one that an instance runs. The first window of events is not measured, because the state of
the engine is still growing.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter_ns
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.arrivals.calibration import environment
from fastcep.engine import Engine
from fastcep.engine.order import check_order
from fastcep.engine.queries import Buildable, built_queries
from fastcep.errors import ValidationError
from fastcep.events import EventBatch, StringTable
from fastcep.events.convert import from_numpy
from fastcep.events.units import INT64_MAX
from fastcep.parallel.plain_events import plain_events
from fastcep.parallel.queueing.profile import Profile, ProfilePoint
from fastcep.parallel.queueing.target import LEAST_SAMPLES
from fastcep.plan import Plan
from fastcep.plan.slicing import Context, slicing_of
from fastcep.query import ast
from fastcep.query.plain_schema import TIME, columns_read, plain_query

__all__ = ["measure_profile"]

#: Largest number of events in a block, whose time is measured as a whole.
_BLOCK = 64
#: Rates relative to that of the events, if none are given.
_FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
#: Share of the events that is not measured if the length of a window is unknown.
_WARM_UP = 0.1

Ints = npt.NDArray[np.int64]


def measure_profile(
    queries: ast.Query | Buildable | Sequence[ast.Query | Buildable],
    events: Any,
    rates: Sequence[float] | None = None,
    *,
    seconds: float = 2.0,
) -> Profile:
    """Measure how long an engine takes for an event.

    Parameters
    ----------
    queries
        As for `Engine`.
    events
        Events as for `Engine.process`, in the order of time; at a given rate they must last for more than one window.
    rates
        Arrival rates in events/s; None: 1/4, 1/2, 1, 2 and 4 times the rate of the events, those that are possible.
    seconds
        Time to measure at each rate.

    Raises
    ------
    ValidationError
        If a rate is not above 0 or so low that times overflow, or there are too few events to measure 100 times after
        the first window.
    SchemaError, DataError
        If the events do not fit the schema.
    """
    built = built_queries(queries, attributes=False)
    schema, strings = built[0].schema, StringTable()
    batch = EventBatch.from_data(schema, events, strings, "events", 0, None)
    check_order(batch, None, None, "events", 0)
    span = int(batch.time[-1] - batch.time[0]) if len(batch) else 0
    if span <= 0:
        raise ValidationError(f"{len(batch):,} events that last {span} ns have no rate; pass events of different times")
    if not 0 < seconds < np.inf:
        raise ValidationError(f"seconds={seconds!r}: expected a number above 0")
    if rates is not None and not len(rates):
        raise ValidationError("rates is empty; expected at least one rate in events per second, or None")
    natural = (len(batch) - 1) / span * 1e9
    columns = frozenset[int]().union(*map(columns_read, built))
    plain = [plain_query(query, columns, numbered=schema.sequence is not None) for query in built]
    table, times = plain_events(batch, strings, columns), batch.time
    window = _window([item.plan for item in Engine(built, shedder=None)._stream.queries])
    points, missed = [], []
    for rate in [natural * factor for factor in _FACTORS] if rates is None else rates:
        if not 0 < rate <= 1e9:
            raise ValidationError(f"rate {rate!r}: expected events per second, above 0 and at most 1e9")
        if (len(times) - 1) / rate > (INT64_MAX - int(times[0])) / 1e9 - 1:
            raise ValidationError(
                f"rate {rate!r}: {len(times):,} events would last for {(len(times) - 1) / rate:.3g} s, and times end "
                f"after {(INT64_MAX - int(times[0])) / 1e9:.3g} s; give a higher rate"
            )
        stretched = times[0] + np.round((times - times[0]) * (natural / rate)).astype(np.int64)
        first = _first_measured(stretched, window)
        if len(times) - first < LEAST_SAMPLES:
            after = max(0, len(times) - first)
            missed.append(f"at {rate:g} events/s, {after:,} of {len(times):,} events come after the first window")
            continue
        points.append(_measure(plain, table, stretched, first, rate, seconds))
    if not points or (rates is not None and missed):
        raise ValidationError(
            f"too few events: {missed[0]}, and at least {LEAST_SAMPLES} are expected; pass more events or a lower rate"
        )
    return Profile(tuple(points), {"queries": [query.name for query in built], **environment()})


def _window(plans: Sequence[Plan]) -> Context | None:
    """Return what a match may depend on, None if it is unlimited."""
    contexts = [slicing_of(plan, None).time for plan in plans]
    known = [context for context in contexts if isinstance(context, Context)]
    if len(known) < len(contexts):
        return None
    return Context(max(of.nanoseconds for of in known), max(of.events for of in known))


def _first_measured(times: Ints, window: Context | None) -> int:
    if window is None:
        return int(len(times) * _WARM_UP)
    return max(int(np.searchsorted(times, times[0] + window.nanoseconds, side="right")), window.events)


def _measure(
    queries: Sequence[ast.Query], events: pa.Table, times: Ints, first: int, rate: float, seconds: float
) -> ProfilePoint:
    table = events.set_column(events.schema.get_field_index(TIME), TIME, from_numpy(times))
    engine = Engine(list(queries), shedder=None)
    engine.compile()
    if first:
        engine.process(table.slice(0, first))
    block = max(1, min(_BLOCK, (len(times) - first) // LEAST_SAMPLES))
    measured: list[float] = []
    elapsed = 0
    for at in range(first, len(times) - block + 1, block):
        part = table.slice(at, block)
        start = perf_counter_ns()
        engine.process(part)
        taken = perf_counter_ns() - start
        measured.append(taken / block)
        elapsed += taken
        if elapsed > seconds * 1e9 and len(measured) >= LEAST_SAMPLES:
            break
    median, p99 = np.quantile(measured, [0.5, 0.99])
    return ProfilePoint(float(rate), float(np.mean(measured)), float(median), float(p99), len(measured))
