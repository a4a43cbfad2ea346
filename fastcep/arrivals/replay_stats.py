"""What a replay counts of each event."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from fastcep.overload.clock import WallClock, exact_sum

if TYPE_CHECKING:
    from fastcep.engine.matches import Matches

__all__ = ["ReplayStats"]

Floats = npt.NDArray[np.float64]


class ReplayStats:
    """Counts exactly what comes after the share to skip, without events that a stall made late.

    It listens to a `LatencyMonitor`. Sums are of whole picoseconds, so that they do not depend on how events were cut.

    Parameters
    ----------
    skip
        How many events are not counted.
    bound
        Latency bound in ns; None for none.
    collect
        Is given all matches.
    clock
        Stands still meanwhile, and while latencies are counted.

    Attributes
    ----------
    events, matches
        How many came.
    late
        Events that a stall made late, from one number up to another, ascending.
    watch
        Is told the number of the first event, and the event latencies, of all events.
    """

    def __init__(
        self, skip: int, bound: float | None, collect: Callable[[Matches], None] | None, clock: WallClock | None = None
    ) -> None:
        self.events = self.matches = 0
        self.late: deque[tuple[int, int]] = deque()
        self.watch: Callable[[int, Floats], None] | None = None
        self._skip, self._bound, self._collect = skip, bound, collect
        self._apart: Callable[[], AbstractContextManager[None]] = nullcontext if clock is None else clock.paused
        self._counted = self._over = self._processing = self._event = 0
        self._longest = [0.0, 0.0]

    def take(self, found: Matches) -> None:
        """Count matches, and hand them on."""
        self.matches += len(found)
        if self._collect is not None:
            with self._apart():
                self._collect(found)

    def __call__(self, processing: Floats, event: Floats) -> None:
        """Take the latencies of the next events, in ns."""
        with self._apart():
            self._count(processing, event)

    def _count(self, processing: Floats, event: Floats) -> None:
        first, last = self.events, self.events + len(event)
        self.events = last
        if self.watch is not None:
            self.watch(first, event)
        counts = np.ones(last - first, bool)
        counts[: max(0, self._skip - first)] = False
        while self.late and self.late[0][0] < last:
            begin, end = self.late[0]
            counts[max(0, begin - first) : max(0, end - first)] = False
            if end > last:
                break
            self.late.popleft()
        processing, event = processing[counts], event[counts]
        self._counted += len(event)
        if self._bound is not None:
            self._over += int(np.count_nonzero(event > self._bound))
        self._processing += exact_sum(np.rint(processing * 1000).astype(np.int64))
        self._event += exact_sum(np.rint(event * 1000).astype(np.int64))
        for kind, values in enumerate((processing, event)):
            self._longest[kind] = max(self._longest[kind], float(values.max(initial=0.0)))

    def told(self) -> dict[str, Any]:
        """The attributes of `Replay` that it counts."""
        count = max(1, self._counted) * 1000
        return {
            "counted": self._counted, "over": self._over,
            "mean_processing": self._processing / count, "mean_event": self._event / count,
            "longest_processing": self._longest[0], "longest_event": self._longest[1],
        }  # fmt: skip
