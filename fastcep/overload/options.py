"""Overload options of an engine: check them, and create the overload control."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from time import monotonic_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.events import EventBatch, parse_duration
from fastcep.overload.clock import VirtualClock, WallClock
from fastcep.overload.control import Control
from fastcep.overload.costs import CostTable, cost_table
from fastcep.overload.names import as_shedder
from fastcep.overload.protocols import NEED_BOUND, Detector, Shedder
from fastcep.overload.validation import check_detector, check_shedder

__all__ = ["CLOCKS", "arrival_times", "event_arrivals", "idle_clock", "make_control", "new_shedder", "shedding_options"]

Ints = npt.NDArray[np.int64]

#: Names of clocks.
CLOCKS = ("wall", "virtual")

#: On the wall clock, the latency of every n-th event is recorded.
_WALL_EVERY = 16

#: Latest time of any clock.
_LATEST = 2**63 - 1


def idle_clock(clock: str | Callable[[], int]) -> Callable[[], int]:
    """Return the clock for idle time-outs, which are in real time even if latencies are on the virtual clock."""
    return monotonic_ns if isinstance(clock, str) else clock


def make_control(
    clock: str | Callable[[], int],
    table: CostTable | str | Path | dict[str, Any],
    latency_bound: str | timedelta | float | None,
    shedder: Shedder | str | None,
    detector: Detector | Sequence[Detector] | None,
    *,
    model: Any = None,
    threads: int,
    sheds_memory: bool,
) -> Control | None:
    """Create the overload control of an engine; None if no option requires it. Parameters as for `Engine`.

    Raises
    ------
    ValidationError
        If an option is invalid, or options contradict each other.
    """
    if clock not in CLOCKS if isinstance(clock, str) else not callable(clock):
        raise ValidationError(f"clock={clock!r}: expected 'wall' or 'virtual', or a function that gives nanoseconds")
    costs = CostTable(**table) if isinstance(table, dict) else cost_table(table)
    bound = None if latency_bound is None else _bound(latency_bound)
    detectors = _as_sequence(detector)
    shedder = as_shedder(shedder, model, needed=bound is not None or sheds_memory)
    if bound is None and shedder is None and detectors is None and clock != "virtual" and not sheds_memory:
        return None
    _check(bound, shedder, detectors, costs, threads=threads, sheds_memory=sheds_memory)
    virtual = clock == "virtual"
    engine_clock = VirtualClock(costs) if virtual else WallClock(idle_clock(clock))
    used = _detectors(bound, shedder, detectors, sheds_memory)
    return Control(engine_clock, costs, bound, used, shedder, 1 if virtual else _WALL_EVERY)


def new_shedder(
    control: Control, shedder: Shedder | str | None, model: Any, *, sheds_memory: bool
) -> tuple[Shedder | None, tuple[Detector, ...]]:
    """Check a shedder that replaces the one of a control; return it, and detectors if the control has none.

    Raises
    ------
    ValidationError
        If an option is invalid, or contradicts those of the engine.
    """
    chosen = as_shedder(shedder, model, needed=control.bound is not None or sheds_memory)
    used = list(control.detectors)
    _check(control.bound, chosen, used or None if chosen is not None else None, control.table,
           threads=1, sheds_memory=sheds_memory)  # fmt: skip
    return chosen, () if used else _detectors(control.bound, chosen, None, sheds_memory)


def shedding_options(control: Control | None) -> dict[str, Any]:
    """Return the options of a control that a snapshot stores."""
    if control is None:
        return {}
    table = {"name": control.table.name, **control.table.nanoseconds}
    virtual = isinstance(control.clock, VirtualClock)
    return {"latency_bound": control.bound, "cost_table": table, "clock": "virtual" if virtual else "wall"}


def arrival_times(arrivals: npt.ArrayLike, events: int) -> Ints:
    """Return the arrival times of a batch as int64[events], checked."""
    times = np.asarray(arrivals)
    if times.shape != (events,) or times.dtype.kind not in "iu":
        raise ValidationError(
            f"arrivals: expected {events:,} times, integers of ns, one per event, found {times.dtype} of {times.shape}"
        )
    if events and (times.min() < 0 or times.max() > _LATEST):
        wrong = times[(times < 0) | (times > _LATEST)][0]
        raise ValidationError(f"arrivals: found {wrong}, expected ns on the engine's clock (Engine.now), from 0 on")
    if events > 1 and bool((times[1:] < times[:-1]).any()):
        place = int(np.argmax(times[1:] < times[:-1])) + 1
        raise ValidationError(f"arrivals: event {place} of the batch arrived before the one before it; sort them")
    return times.astype(np.int64, copy=False)


def event_arrivals(arrivals: npt.ArrayLike | None, batch: EventBatch, rows: Ints | None) -> Ints | None:
    """Return the arrival times of the events of a batch, given those of its `rows`, which include ignored types."""
    if arrivals is None:
        return None
    if batch.rows is None or batch.rows is rows:
        return arrival_times(arrivals, len(batch))
    if rows is not None:
        return arrival_times(arrivals, len(rows))[np.searchsorted(rows, batch.rows)]
    least = int(batch.rows[-1]) + 1 if len(batch) else 0  # the number of ignored rows at the end is not known
    return arrival_times(arrivals, max(least, np.size(arrivals)))[batch.rows]


def _bound(latency_bound: str | timedelta | float) -> float:
    """Return the bound in nanoseconds. A number is in ns, because on the virtual clock an event may cost a few ns."""
    if isinstance(latency_bound, bool) or not isinstance(latency_bound, str | timedelta | int | float):
        raise ValidationError(f"latency_bound={latency_bound!r}: expected a duration such as '500us', or nanoseconds")
    if isinstance(latency_bound, int | float):
        bound = float(latency_bound)
    else:
        try:
            bound = float(parse_duration(latency_bound))
        except ValidationError as error:
            raise ValidationError(f"latency_bound: {error}") from None
    if not 0 < bound < float("inf"):
        raise ValidationError(f"latency_bound={latency_bound!r}: expected a time above 0")
    return bound


def _check(
    bound: float | None, shedder: Shedder | None, detectors: Sequence[Detector] | None, costs: CostTable, *,
    threads: int, sheds_memory: bool,
) -> None:  # fmt: skip
    if bound is not None and bound < costs.event:
        raise ValidationError(
            f"latency_bound={bound:.6g} ns is below the cost of a dropped event, "
            f"{costs.event:.4g} ns by the cost table {costs.name!r}: no shedding can hold it; give a larger bound"
        )
    if shedder is not None:
        if isinstance(shedder, type) or not hasattr(shedder, "decide"):
            raise ValidationError(
                f"shedder={shedder!r}: expected a shedder, such as fc.shedding.RandomMatches(), its spelling, such as "
                "'rs', or None"
            )
        check_shedder(shedder)
    if shedder is not None and bound is None and not sheds_memory:
        raise ValidationError(
            f"shedder={shedder.name!r} has nothing to hold: give latency_bound='…', or memory_limit='…' with "
            "on_memory_limit='shed'"
        )
    if shedder is None and sheds_memory:
        raise ValidationError("on_memory_limit='shed' needs a shedder, such as fc.shedding.RandomMatches()")
    if shedder is None and detectors is not None:
        raise ValidationError("a detector without a shedder does nothing: give shedder=…")
    for detector in detectors or ():
        check_detector(detector)
        if detector.name == "memory" and not sheds_memory:
            raise ValidationError(
                "detector 'memory' has no limit to hold: give memory_limit='…' with on_memory_limit='shed'"
            )
        if detector.name in NEED_BOUND and bound is None:
            raise ValidationError(f"detector {detector.name!r} has no bound to hold: give latency_bound='…'")
    if threads != 1:
        raise ValidationError(
            f"threads={threads}: measuring latencies and shedding load require one thread; give "
            "threads=1, or leave out the options of latency and shedding"
        )


def _as_sequence(detector: Detector | Sequence[Detector] | None) -> Sequence[Detector] | None:
    """Return the detectors of a user as a sequence; None if there are none."""
    if detector is None:
        return None
    detectors = detector if isinstance(detector, list | tuple) else (detector,)
    if not detectors or any(isinstance(item, type) or not hasattr(item, "read") for item in detectors):
        raise ValidationError(
            f"detector={detector!r}: expected a detector, such as fc.shedding.SmoothedLatency() or "
            "fc.shedding.detector_by_name('latency'), or a list of detectors"
        )
    return detectors


def _detectors(
    bound: float | None, shedder: Shedder | None, detectors: Sequence[Detector] | None, sheds_memory: bool
) -> tuple[Detector, ...]:
    if shedder is None:
        return ()
    if detectors is not None:
        return tuple(detectors)
    measured = [*(["latency", "queue"] if bound is not None else []), *(["memory"] if sheds_memory else [])]
    return tuple(check_detector(shedder.detector(of), shedder) for of in measured)
