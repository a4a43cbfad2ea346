"""The paper's scenario (paper 5, section VI-B): vehicles in a no-passing zone, whose windows overlap.

A vehicle passes position 1, which opens a window, and position 2, which closes it. An event of position 2 is compared
with all events of position 1 in each window that is open, so the work for it grows with the square of the rate. Events
of position 1 are only stored.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

import fastcep.datasets
from fastcep.engine.instance_pool import InstancePool
from fastcep.parallel.adaptation.simulation import Worker
from fastcep.parallel.queueing.profile import Profile

__all__ = ["PROFILE", "CpuRule", "Traffic", "WindowSplit", "day", "rush_hour", "steady"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SECOND = 1e9
_ZONE = 15_000.0  # m
_SLOW, _FAST = 60 / 3.6, 72 / 3.6  # m/s
_FASTER = 0.1  # share of the vehicles
_TRAVEL = _ZONE / _SLOW  # s

#: 99th percentile of the service time of an event of position 2, by its rate: 1.25 s at 5 events/s, a power of 2.
PROFILE = Profile.of({0.05: 1.25e9 * 0.01**2, 50.0: 1.25e9 * 10**2})


@dataclass(frozen=True)
class Traffic:
    """Events of a run.

    Attributes
    ----------
    times
        Time of each event in ns, ascending; from 0 on.
    vehicles
        Number of its vehicle.
    leaves
        Whether it is of position 2.
    earlier
        Vehicles that have passed position 1 before time 0, in order.
    rates
        Times in s, and vehicles per second; between them the rate changes linearly.
    """

    times: Floats
    vehicles: Ints
    leaves: npt.NDArray[np.bool_]
    earlier: Ints
    rates: tuple[tuple[float, float], ...] = ()


def steady(hours: float, seed: int, rate: float = 5.0) -> Traffic:
    """Return traffic of a constant rate, in vehicles per second."""
    return _traffic([(-_TRAVEL, rate), (hours * 3600, rate)], hours * 3600, seed)


def rush_hour(seed: int, low: float = 0.5, high: float = 5.0, hours: float = 6.0) -> Traffic:
    """Return traffic that grows for a third of the time, stays at its peak for a third, and falls again."""
    third = hours * 1200
    knots = [(-_TRAVEL, low), (0.0, low), (third, high), (2 * third, high), (3 * third, low)]
    return _traffic(knots, hours * 3600, seed)


def day(seed: int, low: float = 0.2, high: float = 5.0) -> Traffic:
    """Return a day whose rate follows that of real trips: those of a Tuesday in 2014, local time, by the half hour."""
    starts = pq.read_table(fastcep.datasets.path("bayarea_2014"), columns=["start_date"])["start_date"].to_numpy()
    seconds = (starts - np.datetime64("2014-10-14T07:00")).astype("timedelta64[s]").astype(int)  # midnight there
    counts = np.bincount(seconds[(seconds >= 0) & (seconds < 86_400)] // 1800, minlength=48)
    rates = low + (high - low) * counts / counts.max()
    knots = [(-_TRAVEL, float(rates[0])), *((900.0 + 1800 * at, float(rate)) for at, rate in enumerate(rates))]
    return _traffic(knots, 86_400.0, seed)


def _traffic(knots: Sequence[tuple[float, float]], seconds: float, seed: int) -> Traffic:
    times_of, rates = np.array(knots).T
    highest = rates.max()
    random = np.random.default_rng(seed)
    count = random.poisson(highest * (seconds + _TRAVEL))
    enters = np.sort(random.uniform(-_TRAVEL, seconds, count))
    wanted = np.interp(enters, times_of, rates)
    enters = enters[random.random(count) < wanted / highest]  # thinning: a Poisson process of a varying rate
    speed = np.where(random.random(len(enters)) < _FASTER, random.uniform(_SLOW, _FAST, len(enters)), _SLOW)
    leaves = enters + _ZONE / speed
    times = np.concatenate([enters, leaves])
    vehicles = np.tile(np.arange(len(enters)), 2)
    second = np.repeat([False, True], len(enters))
    order = np.argsort(times, kind="stable")
    times, vehicles, second = times[order], vehicles[order], second[order]
    within = (times >= 0) & (times <= seconds)
    earlier = vehicles[(times < 0) & ~second]
    earlier = earlier[~np.isin(earlier, vehicles[(times < 0) & second])]
    return Traffic(times[within] * SECOND, vehicles[within], second[within], earlier, tuple(knots))


@cache
def work_per_comparison() -> float:
    """Return the work in ns to compare two events: an event of position 2 takes `PROFILE`'s time at 5 events/s."""
    traffic = steady(1.0, seed=0)
    split = WindowSplit(traffic, 1.0)
    worker = Worker(0)
    work = [parts[0][1] for event in range(len(traffic.times)) if (parts := split.divide(event, 0.0, [worker]))]
    return PROFILE.p99(5.0) / float(np.quantile(work, 0.99))


class WindowSplit:
    """The paper's splitter: a window goes as a whole to one instance.

    An event of position 2 goes to every instance that has an open window, and has been processed when all of them are
    done. Implements `Division`.

    Parameters
    ----------
    traffic
        The events.
    comparison
        Work in ns to compare an event of position 2 with one of position 1.
    factors
        Factor of the work for each event, float64[n]; None: 1.
    in_turn
        The instances get windows in turn; otherwise a window goes to the one with the fewest open windows, so that a
        new instance gets all next windows, which grow and end together.
    """

    def __init__(
        self, traffic: Traffic, comparison: float, factors: Floats | None = None, *, in_turn: bool = True
    ) -> None:
        self._vehicles, self._leaves = traffic.vehicles.tolist(), traffic.leaves.tolist()
        self._earlier = traffic.earlier.tolist()
        self._comparison, self._in_turn = comparison, in_turn
        self._factors = None if factors is None else factors.tolist()
        self._passed = 0  # vehicles that have passed position 1
        self._open: dict[int, tuple[Worker, int]] = {}  # vehicle: instance, `_passed` before it
        self._windows: dict[Worker, int] = {}  # number of open windows
        self._before: dict[Worker, int] = {}  # sum of `_passed` at their opening

    def divide(self, event: int, now: float, workers: Sequence[Worker]) -> list[tuple[Worker | None, float]]:
        """Return the instances that work on an event, each with its work in ns."""
        for vehicle in self._earlier:
            self._enter(vehicle, workers)
        self._earlier = []
        vehicle = self._vehicles[event]
        if not self._leaves[event]:
            self._enter(vehicle, workers)
            return []
        unit = self._comparison * (1.0 if self._factors is None else self._factors[event])
        work: list[tuple[Worker | None, float]] = [
            (worker, unit * (count * self._passed - self._before[worker]))
            for worker, count in self._windows.items() if count
        ]  # fmt: skip
        worker, before = self._open.pop(vehicle)
        self._windows[worker] -= 1
        self._before[worker] -= before
        return work

    def is_done(self, worker: Worker) -> bool:
        """Return whether an instance has no open window."""
        return not self._windows.get(worker)

    def _enter(self, vehicle: int, workers: Sequence[Worker]) -> None:
        staying = [worker for worker in workers if not worker.is_leaving]
        if self._in_turn:
            worker = staying[self._passed % len(staying)]
        else:
            worker = min(staying, key=lambda worker: self._windows.get(worker, 0))
        self._open[vehicle] = (worker, self._passed)
        self._windows[worker] = self._windows.get(worker, 0) + 1
        self._before[worker] = self._before.get(worker, 0) + self._passed
        self._passed += 1


class CpuRule:
    """The rule that the paper compares with: an instance more above 70 % CPU in two frames of 5 s, one less below 50 %.

    Implements `Policy`.
    """

    def __init__(
        self, pool: InstancePool, workers: Callable[[], Sequence[Worker]], first: int, frame: float = 5e9
    ) -> None:
        self._pool, self._workers, self._wanted, self._frame = pool, workers, first, frame
        self._busy: dict[Worker, float] = {}
        self._last = 0.0
        self._loads: list[float] = []

    def arrived(self, gaps: Floats) -> None:
        """Ignore the arrivals."""

    def step(self, now: int) -> None:
        """Look at the load of the last frame, and change the number of instances by one at most."""
        if now - self._last < self._frame:
            return
        busy = {worker: worker.busy_until(now) for worker in self._workers() if not worker.is_leaving}
        elapsed = now - self._last
        loads = [(total - self._busy.get(worker, 0.0)) / elapsed for worker, total in busy.items()]
        self._busy, self._last = busy, now
        self._loads = [*self._loads[-1:], float(np.mean(loads))]
        if len(self._loads) == 2 and min(self._loads) > 0.7:
            self._wanted += 1
        elif len(self._loads) == 2 and max(self._loads) < 0.5 and self._wanted > 1:
            self._wanted -= 1
        else:
            return
        self._loads = []
        self._pool.resize(self._wanted)
