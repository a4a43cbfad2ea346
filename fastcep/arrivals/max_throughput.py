"""How fast an engine is without shedding: what rates of a replay are relative to."""

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

#: The best of so many runs counts on the wall clock.
_RUNS = 3


def maximum_rate(make_engine: Callable[[], Engine], blocks: Iterable[Any], clock: Clock = "virtual") -> float:
    """Measure how many events per second an engine reaches without shedding.

    Parameters
    ----------
    make_engine
        Makes an engine without a shedder.
    blocks
        Batches of events. On the wall clock they are gone through three times, after kernels are compiled; time to
        generate them is not counted.
    clock
        ``virtual``: events by what they cost; ``wall``: as fast as it can, the best of three times.

    Returns
    -------
    float
        Events per second on that clock.

    Raises
    ------
    ValidationError
        If the engine has a shedder or another clock, or there are no events, or none that cost anything.
    """
    if clock not in CLOCKS:
        raise ValidationError(f"clock={clock!r}: expected {' or '.join(map(repr, CLOCKS))}")
    if clock == "virtual":
        return _virtual(_checked(make_engine(), clock), blocks)
    if isinstance(blocks, Iterator):
        raise ValidationError(
            f"blocks: on the wall clock they are gone through {_RUNS} times, a {type(blocks).__name__} can be once: "
            "give a list, or an iterable that begins anew, such as ds1_blocks(…)"
        )
    return max(_wall(_checked(make_engine(), clock), blocks) for _ in range(_RUNS))


def _virtual(engine: Engine, blocks: Iterable[Any]) -> float:
    control = engine._stream.queries.control
    assert control is not None and isinstance(control.clock, VirtualClock)
    events, began = engine.metrics()["events"], control.clock.picoseconds
    for block in blocks:
        engine.process(block)
    return _per_second(engine.metrics()["events"] - events, (control.clock.picoseconds - began) / 1000)


def _wall(engine: Engine, blocks: Iterable[Any]) -> float:
    engine.compile()
    events, spent = engine.metrics()["events"], 0
    for block in blocks:
        began = perf_counter_ns()
        engine.process(block)
        spent += perf_counter_ns() - began
    return _per_second(engine.metrics()["events"] - events, spent)


def _per_second(events: int, nanoseconds: float) -> float:
    if not events or not nanoseconds:
        raise ValidationError(f"blocks: {events:,} events that took {nanoseconds:g} ns tell no rate; give more")
    return events / nanoseconds * 1e9


def _checked(engine: Engine, clock: str) -> Engine:
    control = engine._stream.queries.control
    own = "virtual" if control is not None and isinstance(control.clock, VirtualClock) else "wall"
    if own != clock:
        raise ValidationError(f"clock={clock!r}, but the engine has another: make it with Engine(…, clock={clock!r})")
    if control is not None and control.shedder is not None:
        raise ValidationError(f"the engine has shedder={control.shedder.name!r}; the maximum is of one without")
    return engine
