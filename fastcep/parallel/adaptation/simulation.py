"""Simulate a queue, instances and an adaptation loop: what would have happened to a stream, with given service times.

Time is simulated (SimPy), so hours take seconds. The loop is the real one, or any other policy. A *division* decides
which instances work on an event, and for how long:

* `SharedQueue`: the first free instance takes the event. This is what the formulas of queueing theory assume.
* `SlicedStream`: the splitter of `ParallelEngine` cuts the stream, and its slices go to the instances whole.

Invariant: an event leaves the queue when all of its work is done, and each instance does its work in the order of the
events.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from fastcep.engine.instance_pool import InstanceCounts, InstancePool
from fastcep.errors import ValidationError
from fastcep.extras import load
from fastcep.option_checks import check_whole, duration_option
from fastcep.parallel.splitter import Slice, Splitter
from fastcep.plan.slicing import Context

__all__ = ["Division", "Policy", "SharedQueue", "Simulation", "SlicedStream", "Worker", "simulate"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Policy(Protocol):
    """Sets the number of instances of a pool, such as an `AdaptationLoop`."""

    def arrived(self, gaps: Floats) -> None:
        """Log the times in ns between the next events."""
        ...

    def step(self, now: int) -> object:
        """Act if it is time to, at a time in ns."""
        ...


class Worker:
    """A simulated instance.

    Attributes
    ----------
    number
        Number of the instance, from 0.
    jobs
        Work in ns and number of each of its events that is not done.
    busy
        Time in ns for which it has worked, up to the end of the current job.
    is_leaving
        Whether it gets no new slices or windows.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.jobs: deque[tuple[float, int]] = deque()
        self.busy: float = 0.0
        self.until: float = 0.0  #: end of the current job
        self.is_leaving = False
        self.wake: Any = None  # event that ends its wait for work

    def busy_until(self, now: float) -> float:
        """Return the time in ns for which it has worked by now."""
        return self.busy - max(0.0, self.until - now)


class Division(Protocol):
    """Divides the work for events among instances."""

    def divide(self, event: int, now: float, workers: Sequence[Worker]) -> list[tuple[Worker | None, float]]:
        """Return the instances that work on an event, each with its work in ns; None: the first free instance.

        ``workers`` are all instances, also those that are leaving.
        """
        ...

    def is_done(self, worker: Worker) -> bool:
        """Return whether an instance that is leaving gets no more events."""
        ...


class SharedQueue:
    """Each event goes to the first free instance.

    Parameters
    ----------
    work
        Work for each event in ns, float64[n].
    """

    def __init__(self, work: Floats) -> None:
        self._work = work.tolist()

    def divide(self, event: int, now: float, workers: Sequence[Worker]) -> list[tuple[Worker | None, float]]:  # noqa: D102
        return [(None, self._work[event])]

    def is_done(self, worker: Worker) -> bool:  # noqa: D102
        return True


class SlicedStream:
    """The stream is cut by the splitter of `ParallelEngine`; slices go to the instance with the fewest events.

    Parameters
    ----------
    times
        Times of the events in ns, int64[n].
    work
        Work for each event and slice that contains it, in ns, float64[n].
    context
        Context of a slice.
    slice_events
        Number of events from the begin of a slice to that of the next one.
    """

    def __init__(self, times: Ints, work: Floats, context: Context, slice_events: int) -> None:
        self._times, self._work = times, work.tolist()
        self._splitter = Splitter(context, slice_events, slice_events)
        self._of: dict[Slice, Worker] = {}

    def divide(self, event: int, now: float, workers: Sequence[Worker]) -> list[tuple[Worker | None, float]]:  # noqa: D102
        work: list[tuple[Worker | None, float]] = []
        for feed in self._splitter.split(self._times[event : event + 1]):
            if feed.slice not in self._of:
                staying = [worker for worker in workers if not worker.is_leaving]
                self._of[feed.slice] = min(staying, key=lambda worker: (len(worker.jobs), self._slices(worker)))
            worker = self._of[feed.slice]
            if feed.last > feed.first:
                work.append((worker, self._work[event]))
            if feed.ends:
                del self._of[feed.slice]
        return work

    def is_done(self, worker: Worker) -> bool:  # noqa: D102
        return not self._slices(worker)

    def _slices(self, worker: Worker) -> int:
        return sum(of is worker for of in self._of.values())


@dataclass
class Simulation:
    """Result of `simulate`.

    Attributes
    ----------
    times
        Times in ns at which the queue was looked at, float64[n].
    queue
        Number of events at these times that wait or are being processed, int64[n].
    instances
        Number of instances at these times that are ready and not leaving, int64[n].
    alive
        Number of all instances at these times, also those that are starting or leaving, int64[n].
    policy
        The policy.
    """

    times: Floats
    queue: Ints
    instances: Ints
    alive: Ints
    policy: Any = field(repr=False)

    def percentile(self, share: float = 0.95) -> int:
        """Return the length that the queue did not exceed at this share of the times."""
        return int(np.quantile(self.queue, share, method="inverted_cdf"))


class _Pool:
    """Simulated instances, which take `start_time` ns to start."""

    def __init__(self, environment: Any, division: Division, start_time: float, first: int) -> None:
        self._environment, self._division, self._start_time = environment, division, start_time
        self.workers: list[Worker] = []
        self.shared: deque[tuple[float, int]] = deque()
        self.queue = 0  # events that are not done
        self.left: dict[int, int] = {}  # jobs that are not done, of events with more than one
        self._started = 0
        self._starting: list[object] = []
        for _ in range(first):
            self._add()

    def resize(self, instances: int) -> None:
        staying = [worker for worker in self.workers if not worker.is_leaving]
        for worker in self.workers:
            if worker.is_leaving and len(staying) + len(self._starting) < instances:
                worker.is_leaving = False
                staying.append(worker)
        for _ in range(instances - len(staying) - len(self._starting)):
            order = object()
            self._starting.append(order)
            self._environment.process(self._start(order))
        del self._starting[max(0, instances - len(staying)) :]
        for worker in sorted(staying, key=lambda worker: len(worker.jobs))[: max(0, len(staying) - instances)]:
            worker.is_leaving = True
            self.notify(worker)

    def counts(self) -> InstanceCounts:
        leaving = sum(worker.is_leaving for worker in self.workers)
        return InstanceCounts(len(self.workers) - leaving, len(self._starting), leaving)

    def give(self, event: int, parts: Sequence[tuple[Worker | None, float]]) -> None:
        """Queue the work for an event."""
        if not parts:
            return
        self.queue += 1
        if len(parts) > 1:
            self.left[event] = len(parts)
        for worker, work in parts:
            if worker is None:
                self.shared.append((work, event))
                worker = next((worker for worker in self.workers if worker.wake is not None), None)
            else:
                worker.jobs.append((work, event))
            if worker is not None:
                self.notify(worker)

    def notify(self, worker: Worker) -> None:
        """Let an instance look for work, or end."""
        if worker.wake is not None:
            wake, worker.wake = worker.wake, None
            wake.succeed()

    def _start(self, order: object) -> Generator[Any, Any, None]:
        yield self._environment.timeout(self._start_time)
        if order in self._starting:  # not cancelled meanwhile
            self._starting.remove(order)
            self._add()

    def _add(self) -> None:
        worker = Worker(self._started)
        self._started += 1
        self.workers.append(worker)
        self._environment.process(self._run(worker))

    def _run(self, worker: Worker) -> Generator[Any, Any, None]:
        environment = self._environment
        while True:
            jobs = worker.jobs if worker.jobs else () if worker.is_leaving else self.shared
            if jobs:
                work, event = jobs[0]
                worker.until = environment.now + work
                worker.busy += work
                if jobs is self.shared:
                    jobs.popleft()
                yield environment.timeout(work)
                if jobs is not self.shared:
                    worker.jobs.popleft()
                self._done(event)
            elif worker.is_leaving and self._division.is_done(worker):
                self.workers.remove(worker)
                return
            else:
                worker.wake = environment.event()
                yield worker.wake

    def _done(self, event: int) -> None:
        left = self.left.get(event, 1) - 1
        if left:
            self.left[event] = left
        else:
            self.left.pop(event, None)
            self.queue -= 1


def simulate(
    arrivals: Floats,
    division: Division,
    policy: Callable[[InstancePool, Callable[[], Sequence[Worker]]], Policy],
    *,
    first: int,
    start_time: str | timedelta,
    sample_every: str | timedelta = "10s",
    step_every: str | timedelta = "1s",
    counted: npt.NDArray[np.bool_] | None = None,
) -> Simulation:
    """Simulate the arrival of events and the work of instances.

    Parameters
    ----------
    arrivals
        Time of each event in ns, float64[n], ascending from 0 on.
    division
        Divides the work among the instances.
    policy
        Function that returns the policy, given the pool and a function that returns the instances.
    first
        Number of instances at the beginning.
    start_time
        Time that a further instance takes to start, such as ``"60s"``.
    sample_every, step_every
        Intervals at which the queue is looked at, and at which the policy may act.
    counted
        Events whose arrivals the policy gets, bool[n]; None: all.

    Raises
    ------
    ValidationError
        If arrivals or an option are invalid, or SimPy is not installed.
    """
    if arrivals.ndim != 1 or not (np.isfinite(arrivals).all() and (np.diff(arrivals, prepend=0.0) >= 0).all()):
        raise ValidationError("arrivals: expected times in ns in one dimension, ascending from 0 on")
    if counted is not None and counted.shape != arrivals.shape:
        raise ValidationError(f"counted: {counted.shape[0]:,} flags for {len(arrivals):,} arrivals; give one for each")
    check_whole("first", first, 1)
    start = duration_option("start_time", start_time)
    look_every = duration_option("sample_every", sample_every, positive=True)
    act_every = duration_option("step_every", step_every, positive=True)
    environment = load("simpy").Environment()
    pool = _Pool(environment, division, start, first)
    acting = policy(pool, lambda: pool.workers)
    log: list[float] = []
    flags = np.ones(len(arrivals), bool) if counted is None else counted

    def arrive() -> Generator[Any, Any, None]:
        last = 0.0
        for event, (time, counts) in enumerate(zip(arrivals.tolist(), flags.tolist(), strict=True)):
            yield environment.timeout(max(0.0, time - environment.now))
            pool.give(event, division.divide(event, environment.now, pool.workers))
            for worker in [worker for worker in pool.workers if worker.is_leaving]:
                pool.notify(worker)
            if counts:
                log.append(time - last)
                last = time

    def act() -> Generator[Any, Any, None]:
        while True:
            yield environment.timeout(act_every)
            if log:
                acting.arrived(np.array(log))
                log.clear()
            acting.step(int(environment.now))

    seen: list[tuple[float, int, int, int]] = []

    def look() -> Generator[Any, Any, None]:
        while True:
            yield environment.timeout(look_every)
            counts = pool.counts()
            alive = counts.ready + counts.starting + counts.leaving
            seen.append((environment.now, pool.queue, counts.ready, alive))

    for process in (act(), look(), arrive()):
        environment.process(process)
    environment.run(until=float(arrivals[-1]) + 1 if len(arrivals) else 1)
    times, queue, instances, alive = np.array(seen).reshape(-1, 4).T
    queue, instances, alive = (column.astype(np.int64) for column in (queue, instances, alive))
    return Simulation(times, queue, instances, alive, acting)
