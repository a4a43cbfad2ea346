"""The matches of one slice of the stream: an engine over its events, of which only owned matches are kept.

A run depends on nothing but its events, so that it can be repeated in another instance with the same result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep._core.memory.vectors import repeated
from fastcep.engine import Engine, Matches
from fastcep.engine.longest_windows import check_longest
from fastcep.engine.queries import already_warned
from fastcep.engine.results.query_matches import QueryMatches, read
from fastcep.events.convert import from_numpy
from fastcep.query import ast
from fastcep.query.plain_schema import TIME

__all__ = ["EVENT", "MOMENT", "SliceRun"]

#: Columns added to those of the matches: the time of detection in ns, and the position of the event that completed the
#: match, -1 if a time decided it. Names of queries' columns cannot begin with a space.
MOMENT, EVENT = " moment", " event"

Ints = npt.NDArray[np.int64]


class SliceRun:
    """Engine over the events of a slice.

    Parameters
    ----------
    queries, watches
        Queries over plain events, and those that find windows longer than slices allow.
    options
        Options of the engine.
    stores
        Store of each query, if a trial in an earlier slice has chosen it; otherwise None.
    position
        Position of the slice's first event in the stream.
    owns
        Whether the slice owns matches from its begin on.
    """

    def __init__(
        self, queries: Sequence[ast.Query], watches: Sequence[ast.Query], options: dict[str, Any],
        stores: Sequence[str] | None, position: int, owns: bool,
    ) -> None:  # fmt: skip
        with already_warned():
            self._engine = Engine([*queries, *watches], shedder=None, **options)
        self._engine._stream.begin_at(position, stores)
        self._queries = len(queries)
        self._last = 0
        self._owns, self._start = owns, None if owns else 0
        self.stop: int | None = None

    def start(self, time: int) -> None:
        """Own the matches detected at ``time`` (ns) or later."""
        self._owns, self._start = True, time

    def process(self, events: pa.Table) -> list[pa.Table]:
        """Return the owned matches that events complete, one table per query."""
        self._last = events[TIME][-1].as_py()
        return self._owned(self._engine.process(events))

    def end(self, complete: bool) -> list[pa.Table]:
        """Return the owned matches that wait for the `stop` of the slice, or without one for the end of the stream.

        ``complete`` as for `Engine.flush`.
        """
        if self.stop is None:
            return self._owned(self._engine.flush(complete=complete))
        return self._owned(self._engine.advance(self.stop))

    @property
    def stores(self) -> list[str] | None:
        """Store of each query; None while a trial goes on."""
        running = self._engine._stream.queries.running
        return None if any(item.trial is not None for item in running) else [item.plan.store for item in running]

    @property
    def peak(self) -> int:
        """Largest number of partial matches so far."""
        return int(self._engine.metrics()["peak_partial_matches"])

    def _owned(self, matches: Matches) -> list[pa.Table]:
        for longer in matches._parts[self._queries :]:
            check_longest(read(longer), self._last if self.stop is None else self.stop, "stream")
        return [self._table(read(part)) for part in matches._parts[: self._queries]]

    def _table(self, part: QueryMatches) -> pa.Table:
        times, events = repeated(part.times, part.counts), repeated(part.detected, part.counts)
        table = pa.table(part.columns() | {MOMENT: from_numpy(times), EVENT: from_numpy(events)})
        owned = np.full(part.n, self._owns)
        if self._start is not None:
            owned &= times >= self._start
        return table if owned.all() else table.filter(from_numpy(owned))
