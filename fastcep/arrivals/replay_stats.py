"""Statistics of the events of a replay."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.overload.clock import WallClock, exact_sum

if TYPE_CHECKING:
    from fastcep.engine.results.matches import Matches

__all__ = ["ReplayStats"]

Floats = npt.NDArray[np.float64]


class ReplayStats:
    """Latency statistics of the events after the warm-up, without stalled events.

    It is a listener of a `LatencyMonitor`. Sums are in integer picoseconds, so they do not depend on batch boundaries.

    Parameters
    ----------
    skip
        Number of events to skip as warm-up.
    bound
        Latency bound in ns; None without one.
    collect
        Function that receives all matches; None: none.
    clock
        Clock that is stopped while `collect` runs and latencies are counted; None: no clock.

    Attributes
    ----------
    events, matches
        Numbers of events and matches so far.
    late
        Ranges of the numbers of events that a stall delayed, ascending: (first, last + 1).
    watch
        Function that receives the number of the first event and the event latencies in ns of each batch; None: none.
    """

    def __init__(
        self, skip: int, bound: float | None, collect: Callable[[Matches], None] | None, clock: WallClock | None = None
    ) -> None:
        self.events = self.matches = 0
        self.late: deque[tuple[int, int]] = deque()
        self.watch: Callable[[int, Floats], None] | None = None
        self._skip, self._bound, self._collect = skip, bound, collect
        self._paused: Callable[[], AbstractContextManager[None]] = nullcontext if clock is None else clock.paused
        self._counted = self._over = self._processing = self._event = 0
        self._longest = [0.0, 0.0]

    def take(self, matches: Matches) -> None:
        """Count matches, and pass them to `collect`."""
        self.matches += len(matches)
        if self._collect is not None:
            with self._paused():
                self._collect(matches)

    def __call__(self, processing: Floats, event: Floats) -> None:
        """Add the latencies of the next events, in ns."""
        with self._paused():
            self._count(processing, event)

    def _count(self, processing: Floats, event: Floats) -> None:
        first, last = self.events, self.events + len(event)
        self.events = last
        if self.watch is not None:
            self.watch(first, event)
        is_counted = np.ones(last - first, bool)
        is_counted[: max(0, self._skip - first)] = False
        while self.late and self.late[0][0] < last:
            begin, end = self.late[0]
            is_counted[max(0, begin - first) : max(0, end - first)] = False
            if end > last:
                break
            self.late.popleft()
        processing, event = processing[is_counted], event[is_counted]
        self._counted += len(event)
        if self._bound is not None:
            self._over += int(np.count_nonzero(event > self._bound))
        self._processing += exact_sum(np.rint(processing * 1000).astype(np.int64))
        self._event += exact_sum(np.rint(event * 1000).astype(np.int64))
        for kind, values in enumerate((processing, event)):
            self._longest[kind] = max(self._longest[kind], float(values.max(initial=0.0)))

    def results(self) -> dict[str, Any]:
        """Return the statistics by the attribute names of `Replay`."""
        count = max(1, self._counted) * 1000
        return {
            "counted": self._counted, "over": self._over,
            "mean_processing": self._processing / count, "mean_event": self._event / count,
            "longest_processing": self._longest[0], "longest_event": self._longest[1],
        }  # fmt: skip
