"""Maximum throughput of an engine without shedding, the reference for the rates of a replay."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any

from fastcep.errors import ValidationError
from fastcep.option_types import Clock
from fastcep.overload.clock import VirtualClock
from fastcep.overload.options import CLOCKS

if TYPE_CHECKING:
    from fastcep.engine.engine import Engine

__all__ = ["maximum_rate"]

#: Number of runs on the wall clock; the fastest one counts.
_RUNS = 3


def maximum_rate(make_engine: Callable[[], Engine], blocks: Iterable[Any], clock: Clock = "virtual") -> float:
    """Measure the maximum throughput of an engine without shedding.

    Parameters
    ----------
    make_engine
        Function that returns an engine without a shedder.
    blocks
        Batches of events. On the wall clock they are processed three times, after kernels are compiled; the time to
        generate them is not counted.
    clock
        ``virtual``: time according to the cost table; ``wall``: real time, the fastest of three runs.

    Returns
    -------
    float
        Events per second on that clock.

    Raises
    ------
    ValidationError
        If the engine has a shedder or another clock, if there are no events, or if they take no time.
    """
    if clock not in CLOCKS:
        raise ValidationError(f"clock={clock!r}: expected {' or '.join(map(repr, CLOCKS))}")
    if clock == "virtual":
        return _virtual(_checked(make_engine(), clock), blocks)
    if isinstance(blocks, Iterator):
        raise ValidationError(
            f"blocks: the wall clock needs {_RUNS} runs, but a {type(blocks).__name__} can be iterated only once; "
            "pass a list, or an iterable that can be iterated again, such as ds1_blocks(…)"
        )
    return max(_wall(_checked(make_engine(), clock), blocks) for _ in range(_RUNS))


def _virtual(engine: Engine, blocks: Iterable[Any]) -> float:
    control = engine._stream.queries.control
    assert control is not None and isinstance(control.clock, VirtualClock)
    events, start = engine.metrics()["events"], control.clock.picoseconds
    for block in blocks:
        engine.process(block)
    return _per_second(engine.metrics()["events"] - events, (control.clock.picoseconds - start) / 1000)


def _wall(engine: Engine, blocks: Iterable[Any]) -> float:
    engine.compile()
    events, elapsed = engine.metrics()["events"], 0
    for block in blocks:
        start = perf_counter_ns()
        engine.process(block)
        elapsed += perf_counter_ns() - start
    return _per_second(engine.metrics()["events"] - events, elapsed)


def _per_second(events: int, nanoseconds: float) -> float:
    if not events or not nanoseconds:
        raise ValidationError(f"blocks: {events:,} events in {nanoseconds:g} ns give no rate; pass more events")
    return events / nanoseconds * 1e9


def _checked(engine: Engine, clock: str) -> Engine:
    control = engine._stream.queries.control
    engine_clock = "virtual" if control is not None and isinstance(control.clock, VirtualClock) else "wall"
    if engine_clock != clock:
        raise ValidationError(
            f"clock={clock!r}, but the engine has another clock; create it with Engine(…, clock={clock!r})"
        )
    if control is not None and control.shedder is not None:
        raise ValidationError(f"the engine has shedder={control.shedder.name!r}, expected an engine with shedder=None")
    return engine
