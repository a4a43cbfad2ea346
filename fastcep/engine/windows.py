"""Which events of a batch open explicit windows, and which close which: found out before the query's matcher runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep._core.input.batch import Batch
from fastcep._core.matcher.matcher import Matcher
from fastcep.events import EventBatch
from fastcep.plan import Plan

__all__ = ["WindowBounds"]

Ints = npt.NDArray[np.int64]
_NONE = np.empty(0, np.int64)


class WindowBounds:
    """Follows the events of a stream for the windows of one plan; holds the matchers of its small plans."""

    def __init__(self, plan: Plan, link: Any) -> None:
        assert plan.windows is not None
        self._plan = plan.windows
        self._opening = None if self._plan.opening is None else Matcher(self._plan.opening, link)
        self._pairs = None if self._plan.pairs is None else Matcher(self._plan.pairs, link)
        self._closers = None if self._plan.closers is None else Matcher(self._plan.closers, link)
        self.slide: int | None = None  #: the last of EVERY t that has begun

    @property
    def matchers(self) -> list[Matcher]:
        """Those of the small plans."""
        return [matcher for matcher in (self._opening, self._pairs, self._closers) if matcher is not None]

    @property
    def nbytes(self) -> int:
        """Bytes that the small matchers hold."""
        return sum(matcher.nbytes for matcher in self.matchers)

    @property
    def refused(self) -> bool:
        """Whether the last want of memory was the limit's doing."""
        return any(matcher.refused for matcher in self.matchers)

    def set_limit(self, limit: int) -> None:
        """Let each small matcher hold so many bytes."""
        for matcher in self.matchers:
            matcher.set_limit(limit)

    def sweep(self, time: int, position: int, ring: Any) -> None:
        """Give back the memory of what has passed."""
        for matcher in self.matchers:
            matcher.advance(time, position, ring)

    def end(self) -> None:
        """Forget the windows that are open."""
        for matcher in self.matchers:
            matcher.clear()

    def find(self, events: Batch, ring: Any) -> tuple[Ints, Ints, Ints, Ints]:
        """Find what a batch opens and closes, see ``Matcher.use_bounds``."""
        batch: EventBatch = events.source
        position: int = events.position
        opens = self._opens(events, ring)
        ids = position + opens if batch.sequence is None else batch.sequence[opens]
        closes, closed = _NONE, _NONE
        if self._pairs is not None:
            closed, closes = _run(self._pairs, events, ring)
        elif self._closers is not None:
            (closes,) = _run(self._closers, events, ring)
            closed = np.full(len(closes), -1)
        return opens, ids, closes - position, closed

    def _opens(self, events: Batch, ring: Any) -> Ints:
        batch: EventBatch = events.source
        if self._opening is not None:
            (opens,) = _run(self._opening, events, ring)
            return opens - events.position
        if self._plan.every_events:
            every = self._plan.every_events
            return np.arange(-events.position % every, len(batch), every, dtype=np.int64)
        slides = batch.time // self._plan.every_time
        before = np.concatenate([slides[:1] - 1 if self.slide is None else [self.slide], slides[:-1]])
        self.slide = int(slides[-1])
        return np.flatnonzero(slides != before)


def _run(matcher: Matcher, events: Batch, ring: Any) -> list[Ints]:
    taken = matcher.process(events, ring)
    values: list[Ints] = matcher.take_output().arrays()[0]
    if taken < len(events.source):
        raise MemoryError("no memory for the explicit windows that are open; all of them were closed")
    return values
