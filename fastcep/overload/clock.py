"""Clocks of an engine: real time, and virtual time from counted operations and a cost table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from threading import Lock
from time import monotonic_ns
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.errors import SnapshotError, ValidationError
from fastcep.overload.costs import CostTable

__all__ = ["LATEST", "VirtualClock", "WallClock", "exact_sum"]

#: Last nanosecond of a virtual clock, which counts picoseconds in 64 bits: 106 days.
LATEST = (2**63 - 1) // 1000

_DAYS = LATEST // (24 * 3600 * 10**9)
_LAST = LATEST * 1000  # picoseconds
_HALF = 32  # bits

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class WallClock:
    """Real time, which can be paused.

    Parameters
    ----------
    source
        Function that returns monotonic nanoseconds.
    """

    def __init__(self, source: Callable[[], int] = monotonic_ns) -> None:
        self._source = source
        self._paused_at: int | None = None  # None: it runs
        self._paused_for = 0  # total length of the pauses
        self._lock = Lock()

    def now(self) -> int:
        """Return nanoseconds since an arbitrary origin."""
        with self._lock:
            return (self._source() if self._paused_at is None else self._paused_at) - self._paused_for

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the clock, for work of a measurement that is not to be measured."""
        with self._lock:
            start = self._paused_at = self._source()
        try:
            yield
        finally:
            with self._lock:
                self._paused_for += self._source() - start
                self._paused_at = None


class VirtualClock:
    """Time from the costs of operations: the same on every machine and for every division into batches.

    It begins at 0 and counts integer picoseconds, up to 106 days.

    Parameters
    ----------
    table
        Costs of operations.

    Attributes
    ----------
    table
        Costs of operations.
    """

    def __init__(self, table: CostTable) -> None:
        self.table = table
        self._time = 0

    def now(self) -> int:
        """Return nanoseconds since the start, rounded down."""
        return self._time // 1000

    @property
    def picoseconds(self) -> int:
        """Picoseconds since the start, exactly."""
        return self._time

    def spend(self, picoseconds: int) -> None:
        """Advance the clock, for example by the cost of a decision.

        Raises
        ------
        ValidationError
            If the time is negative or the clock would pass 106 days; it does not move then.
        """
        if picoseconds < 0:
            raise ValidationError(f"a virtual clock cannot spend {picoseconds} ps: expected 0 or more")
        _check_end(self._time + picoseconds)
        self._time += picoseconds

    def run(self, costs: Ints, arrivals: Ints | None = None) -> tuple[Floats, Floats]:
        """Process events in the given order, and advance the clock to the completion of the last one.

        An event starts when it has arrived and the previous one is complete. Its completion time is exactly
        ``max(arrival, previous completion) + cost``.

        Parameters
        ----------
        costs
            int64[n], picoseconds.
        arrivals
            int64[n], nanoseconds since the start of the clock (not since the epoch). None: every event arrives when the
            previous one is complete.

        Returns
        -------
        processing, event
            float64[n] each, nanoseconds: the cost alone, and the time since the arrival.

        Raises
        ------
        ValidationError
            If the lengths differ, a cost or an arrival is negative, or the clock would pass 106 days; it does not move
            then.
        """
        _check_ints(costs, "costs")
        if arrivals is not None:
            _check_ints(arrivals, "arrivals")
            if len(arrivals) != len(costs):
                raise ValidationError(f"arrivals has {len(arrivals)} values, expected one per cost: {len(costs)}")
        if not len(costs):
            return np.empty(0), np.empty(0)
        latest = 0 if arrivals is None else int(arrivals.max())
        _check_end(max(self._time, latest * 1000) + exact_sum(costs))
        processing = costs / 1000.0
        work = np.cumsum(costs)
        if arrivals is None:
            self._time += int(work[-1])
            return processing, processing.copy()
        # The completion of an event is the maximum, over this event and all before it, of the arrival plus all work
        # from that event on.
        arrived = arrivals * 1000
        offsets = np.maximum.accumulate(arrived - (work - costs))
        completions = np.maximum(offsets, self._time) + work
        self._time = int(completions[-1])
        return processing, (completions - arrived) / 1000.0

    def state(self) -> dict[str, Any]:
        """Return the state for a snapshot as JSON values."""
        return {"picoseconds": self._time, "table": self.table.hash}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state`.

        Raises
        ------
        SnapshotError
            If the state was taken with another cost table or is invalid.
        """
        time, table = state.get("picoseconds"), state.get("table")
        if not isinstance(time, int) or not 0 <= time <= _LAST:
            raise SnapshotError(f"the state of a virtual clock has picoseconds={time!r}, expected 0 to {_LAST}")
        if table != self.table.hash:
            raise SnapshotError(
                f"the state of a virtual clock has the cost table {table!r}, expected {self.table.hash!r} "
                f"({self.table.name}); restore it with the table that it was taken with"
            )
        self._time = time


def exact_sum(values: Ints) -> int:
    """Return the exact sum of non-negative values, even if it does not fit into 64 bits."""
    low = values & ((1 << _HALF) - 1)
    return (int((values >> _HALF).sum()) << _HALF) + int(low.sum())


def _check_ints(values: Ints, name: str) -> None:
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.ndim != 1:
        found = f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__
        raise ValidationError(f"{name} is {found}, expected an array int64[n]")
    if len(values) and values.min() < 0:
        raise ValidationError(f"{name} holds {values.min()}, expected no negative value")


def _check_end(picoseconds: int) -> None:
    if picoseconds > _LAST:
        raise ValidationError(
            f"a virtual clock ends after {_DAYS} days ({LATEST} ns), but would reach {picoseconds // 1000} ns; "
            "give arrivals since the start of the stream, not since the epoch, or smaller costs in picoseconds"
        )
