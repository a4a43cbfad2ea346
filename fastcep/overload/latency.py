"""Latency monitor: recent latencies for detectors, statistics of all latencies for reports."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep._core.shed.latencies import add_waits
from fastcep.errors import SnapshotError, ValidationError
from fastcep.overload.clock import exact_sum
from fastcep.overload.histogram import BITS, LONGEST, Histogram
from fastcep.stored import COUNT, TEXT, Misfit, anything, listed, number, record, sequence, whole

__all__ = ["KINDS", "STATISTICS", "LatencyMonitor"]

#: Kinds of latency: the time that an event takes by itself, and the time since its arrival, including the queue.
KINDS = ("processing", "event")

#: Statistics of `LatencyMonitor.smoothed`.
STATISTICS = {"mean": None, "p95": 0.95, "p99": 0.99}

_PERCENTS = {"p50": 50.0, "p95": 95.0, "p99": 99.0, "p999": 99.9}
_MOST = 9 * 10**15  # nanoseconds, 104 days: picoseconds fit into 64 bits

_TOTAL = whole(0, 1 << 100)  # picoseconds
_SUM = sequence(COUNT, _TOTAL)
_SERIES = record({
    "count": COUNT, "over": COUNT, "total": _TOTAL, "max": number(0, _MOST), "values": listed(number(0, _MOST)),
    "histogram": TEXT,
}, {"ended": _SUM, "shedding": _SUM})  # older snapshots lack these  # fmt: skip
_STATE = record({
    "window": anything, "every": anything, "bound": anything, "seen": COUNT, **dict.fromkeys(KINDS, _SERIES),
})  # fmt: skip

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class LatencyMonitor:
    """Latencies of events, of both kinds: the most recent values, and statistics of all.

    Memory is constant: 0.7 MB, and 16 bytes per value of the window.

    Parameters
    ----------
    window
        Number of recent values to keep for smoothing.
    every
        Record only every n-th event, from the first one on, counted over the whole stream.
    bound
        Nanoseconds; values above it are counted exactly, for `share_over`.

    Raises
    ------
    ValidationError
        If an option is wrong.
    """

    def __init__(self, window: int = 1000, every: int = 1, bound: float | None = None) -> None:
        for name, value in (("window", window), ("every", every)):
            if value < 1:
                raise ValidationError(f"{name}={value}: expected at least 1")
        if bound is not None and not 0 < bound <= _MOST:
            raise ValidationError(f"bound={bound}: expected nanoseconds, more than 0 and at most {_MOST}")
        self._window, self._every, self._bound = window, every, None if bound is None else float(bound)
        self._seen = 0
        self._series = {kind: _Series(window, self._bound) for kind in KINDS}

    def record(self, processing: Floats, event: Floats | None = None) -> None:
        """Record the latencies of the next events of the stream.

        Parameters
        ----------
        processing
            float64[n], nanoseconds, one per event.
        event
            The same including the time in the queue; None: there is no queue.

        Raises
        ------
        ValidationError
            If the lengths differ or a value is negative or not a number; nothing is recorded then.
        """
        values = {"processing": _checked(processing, "processing")}
        values["event"] = values["processing"] if event is None else _checked(event, "event")
        count = len(values["processing"])
        if len(values["event"]) != count:
            raise ValidationError(f"event has {len(values['event'])} values, expected one per event: {count}")
        first = -self._seen % self._every
        self._seen += count
        for kind, series in self._series.items():
            series.add(values[kind][first :: self._every])

    def record_stretch(self, processing: float, count: int, now: int, arrivals: Ints | None) -> None:
        """Record the latencies of events that were processed together: `record` for the wall clock.

        Parameters
        ----------
        processing
            Nanoseconds per event.
        count
            Number of events.
        now
            Time at which all of them were done, in ns.
        arrivals
            Arrival times, int64[count] in ns; None: there is no queue.
        """
        first = -self._seen % self._every
        self._seen += count
        taken = len(range(first, count, self._every))
        self._series["processing"].add_same(processing, taken)
        if arrivals is None:
            self._series["event"].add_same(processing, taken)
        else:
            self._series["event"].add_waits(arrivals[first :: self._every], now)

    def end_interval(self, *, shedding: bool) -> None:
        """End an interval of the stream.

        Parameters
        ----------
        shedding
            Whether load was shed in it, for ``mean_while_shedding`` of `summary`.
        """
        for series in self._series.values():
            series.end_interval(shedding)

    @property
    def count(self) -> int:
        """Number of values recorded of each kind."""
        return self._series["processing"].count

    def smoothed(self, statistic: str = "mean", kind: str = "processing", last: int | None = None) -> float:
        """Return a statistic over the most recent values.

        Parameters
        ----------
        statistic
            ``"mean"``, ``"p95"`` or ``"p99"``. A percentile is the smallest value that 95 (99) % of the values do not
            exceed.
        kind
            ``"processing"`` or ``"event"``.
        last
            Number of values, at most the window; None: the window.

        Returns
        -------
        float
            Nanoseconds; 0.0 before the first value.
        """
        if statistic not in STATISTICS:
            raise ValidationError(f"statistic={statistic!r}: expected {', '.join(map(repr, STATISTICS))}")
        series = self._series_of(kind)
        values = series.window() if last is None or last >= self._window else series.last(last)
        share = STATISTICS[statistic]
        if not len(values):
            return 0.0
        if share is None:
            return float(values.mean())
        place = max(0, int(np.ceil(share * len(values))) - 1)
        return float(np.partition(values, place)[place])

    def recent(self, n: int, kind: str = "processing") -> float:
        """Return the mean of the last ``n`` values, at most the window, in nanoseconds; 0.0 before the first."""
        if not 1 <= n <= self._window:
            raise ValidationError(f"n={n}: expected 1 to {self._window}, the window of the monitor")
        values = self._series_of(kind).last(n)
        return float(values.mean()) if len(values) else 0.0

    def counted(self) -> tuple[int, int]:
        """Return the number of processing latencies, and the number of those above the bound."""
        series = self._series["processing"]
        return series.count, series.over

    def share_over(self, bound: float | None = None, kind: str = "processing") -> float:
        """Return the exact share of all values above the bound; 0.0 before the first.

        Parameters
        ----------
        bound
            Nanoseconds; must be the bound of the monitor, the only one that is counted. None: that bound.
        kind
            ``"processing"`` or ``"event"``.

        Raises
        ------
        ValidationError
            If the monitor has no bound or another one.
        """
        if self._bound is None or (bound is not None and bound != self._bound):
            raise ValidationError(
                f"share_over({bound}): this monitor counts the values above {self._bound}; "
                "create it with LatencyMonitor(bound=…)"
            )
        series = self._series_of(kind)
        return series.over / series.count if series.count else 0.0

    def summary(self, kind: str = "processing") -> dict[str, float]:
        """Return statistics of all values so far.

        Returns
        -------
        dict
            ``count``; in nanoseconds ``mean`` and ``max`` (exact), ``p50``, ``p95``, ``p99`` and ``p999`` (to three
            digits), and ``mean_while_shedding``, the exact mean in the intervals in which load was shed
            (`end_interval`). All are 0 before the first value.
        """
        series = self._series_of(kind)
        percentiles = {name: min(value / 1000, series.most) for name, value in series.percentiles().items()}
        mean, shedding = _mean(series.count, series.total), _mean(*series.shedding)
        return {"count": series.count, "mean": mean, **percentiles, "max": series.most, "mean_while_shedding": shedding}

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        options = {"window": self._window, "every": self._every, "bound": self._bound, "seen": self._seen}
        return options | {kind: series.state() for kind, series in self._series.items()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`.

        Raises
        ------
        SnapshotError
            If the state was taken with other options or is damaged; nothing has changed then.
        """
        for name, expected in (("window", self._window), ("every", self._every), ("bound", self._bound)):
            if state.get(name) != expected:
                raise SnapshotError(
                    f"the state of a latency monitor has {name}={state.get(name)!r}, expected {expected!r}; "
                    "restore it with the options that it was taken with"
                )
        try:
            _STATE(dict(state), "control.monitor")
            seen = state["seen"]
            series = {kind: _Series.restored(self._window, self._bound, state[kind]) for kind in KINDS}
        except Misfit as fault:
            raise SnapshotError(f"the state of a latency monitor is damaged: {fault}") from None
        except ValueError as error:
            raise SnapshotError(f"the state of a latency monitor is damaged ({error!r})") from None
        self._seen, self._series = seen, series

    def _series_of(self, kind: str) -> _Series:
        if kind not in KINDS:
            raise ValidationError(f"kind={kind!r}: expected {' or '.join(map(repr, KINDS))}")
        return self._series[kind]


class _Series:
    """Values of one kind. The content of the ring depends only on the values, not on their division into batches."""

    def __init__(self, window: int, bound: float | None) -> None:
        self.count = self.over = 0
        self.total = 0  # picoseconds: a sum of floats would depend on the division into batches
        self.ended: tuple[int, int] = (0, 0)  #: count and total when the last interval ended
        self.shedding: tuple[int, int] = (0, 0)  #: count and total of the intervals in which load was shed
        self.most = 0.0
        self._bound = bound
        self._ring = np.zeros(window)
        self._histogram = Histogram()

    @classmethod
    def restored(cls, window: int, bound: float | None, state: Mapping[str, Any]) -> _Series:
        """Create a series from its `state`."""
        series = cls(window, bound)
        series.count, series.over, series.total, series.most = (
            state[name] for name in ("count", "over", "total", "max")
        )
        series._histogram = Histogram.decoded(state["histogram"])
        counted = series.count, series.total
        series.ended, series.shedding = tuple(state.get("ended", counted)), tuple(state.get("shedding", (0, 0)))
        sums = np.array([counted, series.ended, series.shedding], dtype=object)
        if (np.diff(sums, axis=0) > 0).any():
            raise ValueError(f"its intervals have more values than it counted: {series.count}")
        if len(state["values"]) != len(series.window()) or series._histogram.count != series.count:
            raise ValueError(f"it does not hold the values that it counted: {series.count}")
        series.window()[:] = state["values"]
        return series

    def add(self, values: Floats) -> None:
        """Add values in nanoseconds, already checked."""
        if not len(values):
            return
        picoseconds = np.rint(values * 1000).astype(np.int64)
        self._histogram.add(picoseconds)
        self.total += exact_sum(picoseconds)
        self.most = max(self.most, float(values.max()))
        if self._bound is not None:
            self.over += int(np.count_nonzero(values > self._bound))
        self.count += len(values)
        kept = values[-len(self._ring) :]
        place = (self.count - len(kept)) % len(self._ring)
        split = len(self._ring) - place
        self._ring[place : place + len(kept)] = kept[:split]
        self._ring[: len(kept[split:])] = kept[split:]

    def add_waits(self, arrivals: Ints, now: int) -> None:
        """Add the times from arrivals to ``now``, in nanoseconds."""
        place, bound = self.count % len(self._ring), inf if self._bound is None else self._bound
        total, most, over = add_waits(
            arrivals, now, bound, self._ring, place, self._histogram.counts, BITS, LONGEST
        )  # fmt: skip
        self.total += 1000 * total
        self.most = max(self.most, float(most))
        self.over += over
        self.count += len(arrivals)

    def add_same(self, value: float, count: int) -> None:
        """Add one value ``count`` times."""
        if not count:
            return
        picoseconds = round(value * 1000)
        self._histogram.add_same(picoseconds, count)
        self.total += picoseconds * count
        self.most = max(self.most, value)
        if self._bound is not None and value > self._bound:
            self.over += count
        self.count += count
        kept = min(count, len(self._ring))
        place = (self.count - kept) % len(self._ring)
        self._ring[place : place + kept] = value
        self._ring[: max(0, place + kept - len(self._ring))] = value

    def end_interval(self, shedding: bool) -> None:
        """Count the values since the last interval ended as those of an interval with or without shedding."""
        if shedding:
            count, total = self.count - self.ended[0], self.total - self.ended[1]
            self.shedding = self.shedding[0] + count, self.shedding[1] + total
        self.ended = self.count, self.total

    def window(self) -> Floats:
        """Return the most recent values, in the order of the ring."""
        return self._ring[: self.count]

    def last(self, n: int) -> Floats:
        """Return the last ``n`` values, oldest first."""
        return self._ring[np.arange(max(0, self.count - n), self.count) % len(self._ring)]

    def percentiles(self) -> dict[str, float]:
        """Return percentiles of all values, in picoseconds."""
        return dict(zip(_PERCENTS, self._histogram.percentiles(list(_PERCENTS.values())), strict=True))

    def state(self) -> dict[str, Any]:
        return {
            "count": self.count,
            "over": self.over,
            "total": self.total,
            "max": self.most,
            "values": self.window().tolist(),
            "histogram": self._histogram.encoded(),
            "ended": list(self.ended),
            "shedding": list(self.shedding),
        }


def _mean(count: int, total: int) -> float:
    """Return the mean in nanoseconds of values with a total in picoseconds; 0.0 without values."""
    return total / count / 1000 if count else 0.0


def _checked(values: Floats, name: str) -> Floats:
    latencies = np.asarray(values, dtype=np.float64)
    if latencies.ndim != 1:
        raise ValidationError(f"{name} has the shape {latencies.shape}, expected one value per event")
    if len(latencies) and not (latencies.min() >= 0 and latencies.max() <= _MOST):
        raise ValidationError(f"{name} holds a value that is no latency: expected nanoseconds from 0 to {_MOST}")
    return latencies
