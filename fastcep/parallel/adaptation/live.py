"""The adaptation loop of a running engine: what it measures, and when it acts."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.engine.instance_pool import InstancePool
from fastcep.errors import FastcepError
from fastcep.parallel.adaptation.loop import AdaptationLoop
from fastcep.parallel.adaptation.options import Adaptation
from fastcep.parallel.queueing.distributions import Deterministic
from fastcep.parallel.splitter import Splitter

__all__ = ["LiveAdaptation", "MeasuredService"]

Ints = npt.NDArray[np.int64]

#: Blocks whose service times are kept, and the number of events in a block as a share of the buffer limit.
_BLOCKS, _SHARE = 400, 4


class MeasuredService:
    """Service time of an event, measured by the instances.

    A time is the mean over a block of a quarter of the buffer limit: the queue absorbs shorter fluctuations. The last
    400 blocks count.

    Parameters
    ----------
    buffer_limit
        Largest number of events that should wait.
    """

    def __init__(self, buffer_limit: int) -> None:
        self._block = max(1, buffer_limit // _SHARE)
        self._times: deque[float] = deque(maxlen=_BLOCKS)
        self._events = self._taken = 0

    def add(self, events: int, nanoseconds: int) -> None:
        """Add events, and the time in ns that an instance took for them."""
        self._events += events
        self._taken += nanoseconds
        if self._events >= self._block:
            self._times.append(self._taken / self._events)
            self._events = self._taken = 0

    def p99(self) -> float | None:
        """Return the 99th percentile of the time for an event in ns; None if no block is complete."""
        return float(np.quantile(self._times, 0.99)) if self._times else None


class LiveAdaptation:
    """Adapts the number of instances of an engine.

    Parameters
    ----------
    pool
        The engine.
    options
        The options.
    splitter
        The splitter, which knows the share of the events that are processed twice.
    start
        Time in ns on a monotonic clock.
    """

    def __init__(self, pool: InstancePool, options: Adaptation, splitter: Splitter, start: int) -> None:
        self.measured = MeasuredService(options.buffer_limit)
        self._options, self._splitter = options, splitter
        self._loop = AdaptationLoop(pool, self._service, options, start)
        self._last = start
        self._time: int | None = None
        self._failure = ""

    def arrived(self, times: Ints, now: int) -> None:
        """Log the arrival of a batch.

        The time since the batch before is divided among its events in proportion to the differences of their times,
        which may be those of another day. Without differences, it is divided equally.

        Parameters
        ----------
        times
            Times of the events in ns, int64[n], ascending.
        now
            Time in ns.
        """
        first = times[0] if self._time is None else self._time
        gaps = np.diff(times, prepend=first).view(np.uint64).astype(np.float64)  # may exceed the largest int64
        elapsed, total = now - self._last, gaps.sum()
        gaps = gaps * (elapsed / total) if total > 0 else np.full(len(times), elapsed / len(times))
        self._time, self._last = int(times[-1]), now
        self._loop.arrived(gaps)

    def step(self, now: int) -> None:
        """Decide if a decision is due at a time in ns.

        If no decision can be made, or instances cannot be started, the present ones continue; `metrics` has the reason,
        and the next decision tries again.
        """
        try:
            if self._loop.step(now) is not None:
                self._failure = ""
        except (FastcepError, OSError, MemoryError, RuntimeError) as error:  # no process, no memory, or no thread
            self._failure = f"the number of instances cannot be changed: {error}"

    def _service(self, rate: float) -> Deterministic | None:
        if self._options.profile is not None:
            p99: float | None = self._options.profile.p99(rate)
        else:
            p99 = self.measured.p99()
        return None if p99 is None else Deterministic(p99 * (1 + self._splitter.overlap))

    def metrics(self) -> dict[str, Any]:
        """Return the last decision: see `ParallelEngine.metrics`."""
        loop = self._loop
        last = loop.decisions[-1] if loop.decisions else None
        return {
            "wanted_instances": loop.instances,
            "rate": None if last is None else last.rate,
            "forecast": None if last is None else last.forecast.value,
            "forecast_method": None if last is None else last.forecast.method,
            "service_ns": None if last is None or last.degree is None else last.degree.service.mean,
            "probability": None if last is None or last.degree is None else last.degree.probability,
            "problem": self._failure or ("" if last is None else last.problem),
        }
