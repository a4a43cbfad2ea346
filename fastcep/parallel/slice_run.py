"""The matches of one slice of the stream: an engine over its events, of which only owned matches are kept.

A run depends on nothing but its events, so that it can be repeated in another instance with the same result.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.memory.vectors import repeated
from fastcep.engine import Engine, Matches
from fastcep.engine.matches import QueryMatches, read
from fastcep.events.convert import from_numpy

__all__ = ["EVENT", "MOMENT", "SliceRun"]

#: Columns added to those of the matches: the time of detection in ns, and the position of the event that completed the
#: match, -1 if a time decided it. Names of queries' columns cannot begin with a space.
MOMENT, EVENT = " moment", " event"

Ints = npt.NDArray[np.int64]


class SliceRun:
    """Engine over the events of a slice.

    Parameters
    ----------
    queries
        Queries over plain events.
    options
        Options of the engine.
    position
        Position of the slice's first event in the stream.
    owns
        Whether the slice owns matches from its begin on.
    """

    def __init__(self, queries: Iterable[Any], options: dict[str, Any], position: int, owns: bool) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the user has seen the warnings of the same queries
            self._engine = Engine(list(queries), shedder=None, **options)
        self._engine._stream.begin_at(position)
        self._owns, self._start = owns, None if owns else 0
        self.stop: int | None = None

    def start(self, time: int) -> None:
        """Own the matches detected at ``time`` (ns) or later."""
        self._owns, self._start = True, time

    def process(self, events: pa.Table) -> list[pa.Table]:
        """Return the owned matches that events complete, one table per query."""
        return self._owned(self._engine.process(events))

    def end(self, last: bool) -> list[pa.Table]:
        """Return the owned matches that wait for the `stop` of the slice, or for the end of the stream if ``last``."""
        if last:
            return self._owned(self._engine.flush())
        assert self.stop is not None
        return self._owned(self._engine.advance(self.stop))

    def _owned(self, matches: Matches) -> list[pa.Table]:
        return [self._table(read(part)) for part in matches._parts]

    def _table(self, part: QueryMatches) -> pa.Table:
        times, events = repeated(part.times, part.counts), repeated(part.detected, part.counts)
        table = pa.table(part.columns() | {MOMENT: from_numpy(times), EVENT: from_numpy(events)})
        owned = np.full(part.n, self._owns)
        if self._start is not None:
            owned &= times >= self._start
        if self.stop is not None:
            owned &= times < self.stop
        return table if owned.all() else table.filter(from_numpy(owned))
