"""Forget the texts of string attributes that nothing holds any more."""

from __future__ import annotations

import numpy as np

from fastcep.engine.query_set import QuerySet
from fastcep.engine.reorder import Reorderer
from fastcep.events import EventBatch, Schema, StringTable

__all__ = ["UnusedStrings"]

#: Strings are counted again, and unused ones forgotten, when there are more than this many and twice the last count.
_STRINGS = 1 << 16


class UnusedStrings:
    """Finds and frees the strings of an engine that are not in use.

    Parameters
    ----------
    strings
        The engine's strings.
    schema
        Of the events.
    """

    def __init__(self, strings: StringTable, schema: Schema) -> None:
        self._strings = strings
        self._columns = [at for at, column in enumerate(schema.columns) if column.dtype == "string"]
        self._due = _STRINGS

    @property
    def limit(self) -> int:
        """With how many strings there are not yet enough to look through them."""
        return self._due

    @property
    def due(self) -> bool:
        """Whether there are enough strings to look through them."""
        return len(self._strings) > self._due

    def forget(self, queries: QuerySet, order: Reorderer | None, batch: EventBatch | None = None) -> None:
        """Free the codes that no query, no partial match, no event in the ring, held back or in ``batch`` holds."""
        marks = np.zeros(self._strings.limit, np.uint8)
        if batch is not None:
            batch.mark_codes(marks)
        if order is not None:
            order.mark_codes(marks)
        for item in queries:
            marks[list(item.link.codes)] = 1
            for matcher in (*item.matchers, *(item.windows.matchers if item.windows is not None else ())):
                matcher.mark_codes(marks)
        ring = queries.ring
        if ring is not None:
            for column in ring.columns.intersection(self._columns):
                codes, nulls = ring.take(column, np.arange(ring.head, ring.tail))
                marks[codes if nulls is None else codes[nulls == 0]] = 1
        self._strings.reclaim(np.flatnonzero(marks))
        self._due = max(_STRINGS, 2 * len(self._strings))
