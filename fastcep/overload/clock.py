"""The two clocks of an engine: real time, and the time that counted operations take by a cost table."""

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

#: The last nanosecond of a virtual clock, which counts picoseconds in 64 bits: 106 days.
LATEST = (2**63 - 1) // 1000

_DAYS = LATEST // (24 * 3600 * 10**9)
_LAST = LATEST * 1000  # picoseconds
_HALF = 32  # bits

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


class WallClock:
    """Real time, but while it stands still.

    Parameters
    ----------
    source
        Gives nanoseconds that only grow.
    """

    def __init__(self, source: Callable[[], int] = monotonic_ns) -> None:
        self._source = source
        self._since: int | None = None  # it stands
        self._before = 0  # for how long it stood
        self._lock = Lock()

    def now(self) -> int:
        """Nanoseconds since some moment."""
        with self._lock:
            return (self._source() if self._since is None else self._since) - self._before

    @contextmanager
    def standing(self) -> Iterator[None]:
        """Let no time pass, for what a measurement does that is not to be measured."""
        with self._lock:
            since = self._since = self._source()
        try:
            yield
        finally:
            with self._lock:
                self._before += self._source() - since
                self._since = None


class VirtualClock:
    """Time that passes by what is done: the same on every machine, whatever batches the events come in.

    It begins at 0 and counts whole picoseconds, up to 106 days.

    Parameters
    ----------
    table
        What operations cost.

    Attributes
    ----------
    table
        The same.
    """

    def __init__(self, table: CostTable) -> None:
        self.table = table
        self._time = 0

    def now(self) -> int:
        """Whole nanoseconds since the beginning."""
        return self._time // 1000

    @property
    def picoseconds(self) -> int:
        """Picoseconds since the beginning, exactly."""
        return self._time

    def spend(self, picoseconds: int) -> None:
        """Let time pass, such as for a decision.

        Raises
        ------
        ValidationError
            If it is negative, or the clock would go beyond 106 days; it does not move then.
        """
        if picoseconds < 0:
            raise ValidationError(f"a virtual clock cannot spend {picoseconds} ps: expected 0 or more")
        _check_end(self._time + picoseconds)
        self._time += picoseconds

    def run(self, costs: Ints, arrivals: Ints | None = None) -> tuple[Floats, Floats]:
        """Work off events, one after the other in the order given, and move the clock to when the last one is done.

        An event begins when it has arrived and the one before is done: its time of completion is
        ``max(arrival, completion before) + cost``, exactly.

        Parameters
        ----------
        costs
            int64[n], picoseconds.
        arrivals
            int64[n], nanoseconds since the beginning of the clock (not of the epoch). None: every event arrives when
            the one before is done.

        Returns
        -------
        processing, event
            float64[n] each, nanoseconds: the cost alone, and the time since the arrival.

        Raises
        ------
        ValidationError
            If the arrays do not fit together, a cost or an arrival is negative, or the clock would go beyond 106 days;
            it does not move then.
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
        # A completion is the latest, over this event and those before, of an arrival and all the work from there on.
        arrived = arrivals * 1000
        begins = np.maximum.accumulate(arrived - (work - costs))
        completions = np.maximum(begins, self._time) + work
        self._time = int(completions[-1])
        return processing, (completions - arrived) / 1000.0

    def state(self) -> dict[str, Any]:
        """What `restore` needs, as plain values."""
        return {"picoseconds": self._time, "table": self.table.hash}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on where `state` was taken.

        Raises
        ------
        SnapshotError
            If it is of a clock with another cost table, or not a clock's.
        """
        time, table = state.get("picoseconds"), state.get("table")
        if not isinstance(time, int) or not 0 <= time <= _LAST:
            raise SnapshotError(f"the state of a virtual clock has picoseconds={time!r}, expected 0 to {_LAST}")
        if table != self.table.hash:
            raise SnapshotError(
                f"the state of a virtual clock is of the cost table {table!r}, expected {self.table.hash!r} "
                f"({self.table.name}); give the table that it was taken with"
            )
        self._time = time


def exact_sum(values: Ints) -> int:
    """The sum of values that are not negative, also where it does not fit into 64 bits."""
    low = values & ((1 << _HALF) - 1)
    return (int((values >> _HALF).sum()) << _HALF) + int(low.sum())


def _check_ints(values: Ints, name: str) -> None:
    if not isinstance(values, np.ndarray) or values.dtype != np.int64 or values.ndim != 1:
        told = f"{values.dtype}{list(values.shape)}" if isinstance(values, np.ndarray) else type(values).__name__
        raise ValidationError(f"{name} is {told}, expected an array int64[n]")
    if len(values) and values.min() < 0:
        raise ValidationError(f"{name} holds {values.min()}, expected no negative value")


def _check_end(picoseconds: int) -> None:
    if picoseconds > _LAST:
        raise ValidationError(
            f"a virtual clock ends after {_DAYS} days ({LATEST} ns), and it would come to {picoseconds // 1000} ns; "
            "give arrivals from the beginning of the stream, not of the epoch, or costs in picoseconds that are smaller"
        )
