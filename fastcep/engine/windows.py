"""Find the events of a batch that open and close explicit windows, before the query's matcher processes the batch."""

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
_EMPTY = np.empty(0, np.int64)


class WindowBounds:
    """Finds the bounds of the explicit windows of one query.

    The opening and the closing conditions are small plans, each with a matcher.

    Parameters
    ----------
    plan
        Plan of the query.
    link
        Maps constants to words.

    Attributes
    ----------
    slide
        Number of the last period of ``EVERY t`` that has started; None: there is none.
    """

    def __init__(self, plan: Plan, link: Any) -> None:
        assert plan.windows is not None
        self._plan = plan.windows
        self._opening = None if self._plan.opening is None else Matcher(self._plan.opening, link)
        self._pairs = None if self._plan.pairs is None else Matcher(self._plan.pairs, link)
        self._closers = None if self._plan.closers is None else Matcher(self._plan.closers, link)
        self.slide: int | None = None

    @property
    def matchers(self) -> list[Matcher]:
        """The matchers of the small plans."""
        return [matcher for matcher in (self._opening, self._pairs, self._closers) if matcher is not None]

    @property
    def nbytes(self) -> int:
        """Bytes in use by the matchers."""
        return sum(matcher.nbytes for matcher in self.matchers)

    @property
    def refused(self) -> bool:
        """True if the limit, not the machine, refused the last request for memory."""
        return any(matcher.refused for matcher in self.matchers)

    def set_limit(self, limit: int) -> None:
        """Limit the bytes of each matcher."""
        for matcher in self.matchers:
            matcher.set_limit(limit)

    def sweep(self, time: int, position: int, ring: Any) -> None:
        """Free the state that ended before ``time``."""
        for matcher in self.matchers:
            matcher.advance(time, position, ring)

    def end(self) -> None:
        """Forget the open windows."""
        for matcher in self.matchers:
            matcher.clear()

    def find(self, events: Batch, ring: Any) -> tuple[Ints, Ints, Ints, Ints]:
        """Return the windows that a batch opens and closes, see ``Matcher.use_bounds``."""
        batch: EventBatch = events.source
        position: int = events.position
        opens = self._opens(events, ring)
        ids = position + opens if batch.sequence is None else batch.sequence[opens]
        closes, closed = _EMPTY, _EMPTY
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
        previous = np.concatenate([slides[:1] - 1 if self.slide is None else [self.slide], slides[:-1]])
        self.slide = int(slides[-1])
        return np.flatnonzero(slides != previous)


def _run(matcher: Matcher, events: Batch, ring: Any) -> list[Ints]:
    """Process a batch, and return the positions that each variable of a small plan has bound."""
    processed = matcher.process(events, ring)
    values: list[Ints] = matcher.take_output().arrays()[0]
    if processed < len(events.source):
        raise MemoryError("no memory for the open explicit windows; all of them were closed")
    return values
