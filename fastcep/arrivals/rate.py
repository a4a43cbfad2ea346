"""Arrival rates: the nominal arrival time of each event, and the number of events that have arrived by a time."""

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
_BLOCK = 4096  # events whose arrivals are computed together

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rate:
    """Arrival rate: constant, or a periodic profile of pieces.

    The arrival time of an event depends only on its number, not on how the events are cut into blocks. The first event
    arrives at 0.

    Attributes
    ----------
    rates
        Events per second in each piece.
    lengths
        Length of each piece in ns; empty for a constant rate.

    Raises
    ------
    ValidationError
        If a rate is not above 0 (and at most 1e9), or a length is below 1 ns.
    """

    rates: tuple[float, ...]
    lengths: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if len(self.rates) != max(1, len(self.lengths)):
            raise ValidationError(
                f"a rate has {len(self.rates)} rates, {len(self.lengths)} lengths: give each rate a length"
            )
        for rate in self.rates:
            if not 0 < rate <= _FASTEST:
                raise ValidationError(f"rate {rate!r}: expected events per second, above 0 and at most {_FASTEST:g}")
        for length in self.lengths:
            if length < 1:
                raise ValidationError(f"a piece of a rate is {length} ns long: expected at least 1")

    @classmethod
    def constant(cls, rate: float) -> Rate:
        """Return a constant rate, in events per second."""
        return cls((float(rate),))

    @classmethod
    def bursts(
        cls, base: float, factor: float = 10, every: str | timedelta = "20s", length: str | timedelta = "2s"
    ) -> Rate:
        """Return a rate with a burst at the end of every period.

        Parameters
        ----------
        base
            Events per second between bursts.
        factor
            Ratio of the rate in a burst to `base`.
        every, length
            Length of a period, and of the burst at its end.

        Raises
        ------
        ValidationError
            If a number is not above 0, or a burst is not shorter than the period.
        """
        period, burst = parse_duration(every), parse_duration(length)
        if not 0 < burst < period:
            raise ValidationError(f"bursts of length={length!r} every={every!r}: expected a length below the period")
        return cls((float(base), float(base) * factor), (period - burst, burst))

    @property
    def mean(self) -> float:
        """Mean number of events per second over a period."""
        if not self.lengths:
            return self.rates[0]
        return float(np.average(self.rates, weights=self.lengths))

    def arrivals(self, first: int, count: int) -> Ints:
        """Return the arrival times of ``count`` events from number ``first``: int64[count], ns from 0, ascending."""
        return self._at(np.arange(first, first + count, dtype=np.int64))

    def arrived(self, times: npt.ArrayLike) -> Ints:
        """Return the number of events that have arrived by each time, inclusive (ns from 0), as int64."""
        moments = np.asarray(times, dtype=np.int64)
        guess = np.ceil(self._events_until(moments + 1))  # arrival times are rounded down
        count = np.maximum(guess, 0).astype(np.int64)
        # correct rounding errors, so that this is the exact inverse of `arrivals`
        while (too_low := self._at(count) <= moments).any():
            count = count + too_low
        while (too_high := (count > 0) & (self._at(np.maximum(count - 1, 0)) > moments)).any():
            count = count - too_high
        return np.asarray(count)

    @cached_property
    def _edges(self) -> tuple[Ints, Floats]:
        """Edges of the pieces in a period: in ns, and in events."""
        times = np.cumsum([0, *self.lengths])
        counts = [length * rate / _SECOND for rate, length in zip(self.rates, self.lengths, strict=True)]
        return times, np.cumsum([0.0, *counts])

    def _at(self, numbers: Ints) -> Ints:
        if not self.lengths:
            return np.asarray(np.floor(numbers * _SECOND / self.rates[0]).astype(np.int64))
        times, counts = self._edges
        periods = np.floor(numbers / counts[-1])
        offset = numbers - periods * counts[-1]
        piece = np.searchsorted(counts[1:-1], offset, side="right")
        inside = (offset - counts[piece]) * _SECOND / np.array(self.rates)[piece]
        begin, end = times[piece], times[piece + 1]
        in_period = np.clip(begin + np.floor(inside).astype(np.int64), begin, end)
        return np.asarray(periods.astype(np.int64) * times[-1] + in_period)

    def _events_until(self, moments: Ints) -> Floats:
        """Return the number of events before each moment, as a real number."""
        if not self.lengths:
            return np.asarray(moments * (self.rates[0] / _SECOND))
        times, counts = self._edges
        periods, offset = np.divmod(moments, times[-1])
        piece = np.searchsorted(times[1:-1], offset, side="right")
        inside = (offset - times[piece]) * np.array(self.rates)[piece] / _SECOND
        return np.asarray(periods * counts[-1] + counts[piece] + inside)


class ArrivalCounter:
    """Counter of arrived events at ascending times, faster than `Rate.arrived`.

    Parameters
    ----------
    rate
        Rate of arrivals.
    """

    def __init__(self, rate: Rate) -> None:
        self._rate = rate
        self._first = 0
        self._times = rate.arrivals(0, _BLOCK)

    def __call__(self, time: int) -> int:
        """Return the number of events that have arrived by a time, ns from 0."""
        if time >= self._times[-1]:
            self._first = int(self._rate.arrived(time))
            self._times = self._rate.arrivals(self._first, _BLOCK)
        return self._first + int(np.searchsorted(self._times, time, side="right"))
