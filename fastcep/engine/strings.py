"""Free the strings of an engine's string table that are no longer in use."""

from __future__ import annotations

import numpy as np

from fastcep.engine.query_set import QuerySet
from fastcep.engine.reorder import Reorderer
from fastcep.events import EventBatch, Schema, StringTable

__all__ = ["UnusedStrings"]

#: Unused strings are freed when the table has more strings than this, and more than twice those in use the last time.
_STRINGS = 1 << 16


class UnusedStrings:
    """Find and free the strings of an engine that are not in use.

    Parameters
    ----------
    strings
        The string table of the engine.
    schema
        Schema of the events.

    Attributes
    ----------
    limit
        Number of strings up to which it does not pay to look for unused ones.
    """

    def __init__(self, strings: StringTable, schema: Schema) -> None:
        self._strings = strings
        self._columns = [number for number, column in enumerate(schema.columns) if column.dtype == "string"]
        self.limit = _STRINGS

    @property
    def due(self) -> bool:
        """True if there are enough strings to look for unused ones."""
        return len(self._strings) > self.limit

    def forget(self, queries: QuerySet, reorder: Reorderer | None, batch: EventBatch | None = None) -> None:
        """Free the strings that are used by no query, partial match, event in the ring, held event or ``batch``."""
        marks = np.zeros(self._strings.limit, np.uint8)
        if batch is not None:
            batch.mark_codes(marks)
        if reorder is not None:
            reorder.mark_codes(marks)
        for item in queries:
            marks[list(item.link.codes)] = 1
            for matcher in (*item.matchers, *(item.windows.matchers if item.windows is not None else ())):
                matcher.mark_codes(marks)
        queries.earlier.mark_codes(marks)
        ring = queries.ring
        if ring is not None:
            for column in ring.columns.intersection([*self._columns, *queries.earlier.columns.texts]):
                codes, nulls = ring.take(column, np.arange(ring.head, ring.tail))
                marks[codes if nulls is None else codes[nulls == 0]] = 1
        self._strings.reclaim(np.flatnonzero(marks))
        self.limit = max(_STRINGS, 2 * len(self._strings))
