"""How fast events arrive: the nominal arrival time of each, and how many there are at a time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.events import parse_duration

__all__ = ["ArrivalCounter", "Rate"]

_SECOND = 1e9
_FASTEST = 1e9  # events/s: one per nanosecond
_AT_ONCE = 4096  # events whose arrivals are computed together

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rate:
    """A rate of arrivals: constant, or a profile of pieces that is repeated.

    The time of an event is computed from its number alone, so that it does not depend on how the events are cut into
    blocks. The first one arrives at 0.

    Attributes
    ----------
    rates
        Events per second in each piece.
    lengths
        Of the pieces in ns; empty for a constant rate.

    Raises
    ------
    ValidationError
        If a rate is not above 0 (and at most 1e9), or a length is below 1 ns.
    """

    rates: tuple[float, ...]
    lengths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rates) != max(1, len(self.lengths)):
            raise ValidationError(f"a rate has {len(self.rates)} rates, {len(self.lengths)} lengths: give each its own")
        for rate in self.rates:
            if not 0 < rate <= _FASTEST:
                raise ValidationError(f"rate {rate!r}: expected events per second, above 0 and at most {_FASTEST:g}")
        for length in self.lengths:
            if length < 1:
                raise ValidationError(f"a piece of a rate is {length} ns long: expected at least 1")

    @classmethod
    def constant(cls, rate: float) -> Rate:
        """The same rate all the time, in events per second."""
        return cls((float(rate),))

    @classmethod
    def bursts(
        cls, base: float, factor: float = 10, every: str | timedelta = "20s", length: str | timedelta = "2s"
    ) -> Rate:
        """A rate that is ``factor`` times as high at the end of every period.

        Parameters
        ----------
        base
            Events per second between bursts.
        factor
            How many times that there are in a burst.
        every, length
            Of a period, and of the burst at its end.

        Raises
        ------
        ValidationError
            If a number is not above 0, or a burst is not shorter than the period.
        """
        period, burst = parse_duration(every), parse_duration(length)
        if not 0 < burst < period:
            raise ValidationError(f"bursts of length={length!r} every={every!r}: expected a part of the period")
        return cls((float(base), float(base) * factor), (period - burst, burst))

    @property
    def mean(self) -> float:
        """Events per second over a whole period."""
        if not self.lengths:
            return self.rates[0]
        return float(np.average(self.rates, weights=self.lengths))

    def arrivals(self, first: int, count: int) -> Ints:
        """When the events ``first`` to ``first + count`` arrive: int64[count], ns from 0, ascending."""
        return self._at(np.arange(first, first + count, dtype=np.int64))

    def arrived(self, times: npt.ArrayLike) -> Ints:
        """How many events have arrived by each time (ns from 0; at it is by it), as int64."""
        moments = np.asarray(times, dtype=np.int64)
        guess = np.ceil(self._events_until(moments + 1))  # arrival times are rounded down
        count = np.maximum(guess, 0).astype(np.int64)
        while (more := self._at(count) <= moments).any():  # what floats are wrong by, so that both directions agree
            count = count + more
        while (less := (count > 0) & (self._at(np.maximum(count - 1, 0)) > moments)).any():
            count = count - less
        return np.asarray(count)

    @cached_property
    def _edges(self) -> tuple[Ints, Floats]:
        """Where the pieces begin and the last one ends: in ns, and in events."""
        times = np.cumsum([0, *self.lengths])
        counts = [length * rate / _SECOND for rate, length in zip(self.rates, self.lengths, strict=True)]
        return times, np.cumsum([0.0, *counts])

    def _at(self, numbers: Ints) -> Ints:
        if not self.lengths:
            return np.asarray(np.floor(numbers * _SECOND / self.rates[0]).astype(np.int64))
        times, counts = self._edges
        periods = np.floor(numbers / counts[-1])
        rest = numbers - periods * counts[-1]
        piece = np.searchsorted(counts[1:-1], rest, side="right")
        inside = (rest - counts[piece]) * _SECOND / np.array(self.rates)[piece]
        begin, end = times[piece], times[piece + 1]
        here = np.clip(begin + np.floor(inside).astype(np.int64), begin, end)
        return np.asarray(periods.astype(np.int64) * times[-1] + here)

    def _events_until(self, moments: Ints) -> Floats:
        """The events before a moment, as a real number."""
        if not self.lengths:
            return np.asarray(moments * (self.rates[0] / _SECOND))
        times, counts = self._edges
        periods, rest = np.divmod(moments, times[-1])
        piece = np.searchsorted(times[1:-1], rest, side="right")
        inside = (rest - times[piece]) * np.array(self.rates)[piece] / _SECOND
        return np.asarray(periods * counts[-1] + counts[piece] + inside)


class ArrivalCounter:
    """Tells how many events have arrived at times that only grow, faster than `Rate.arrived`.

    Parameters
    ----------
    rate
        At which they do.
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._first = 0
        self._times = rate.arrivals(0, _AT_ONCE)

    def __call__(self, time: int) -> int:
        """How many events have arrived by the time, ns from 0."""
        if time >= self._times[-1]:
            self._first = int(self._rate.arrived(time))
            self._times = self._rate.arrivals(self._first, _AT_ONCE)
        return self._first + int(np.searchsorted(self._times, time, side="right"))
