"""Forget the texts of string attributes that nothing holds any more."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastcep._core.match import Matcher
from fastcep.engine.reorder import Reorderer
from fastcep.events import EventBatch, EventRing, Schema, StringTable

__all__ = ["UnusedStrings"]

#: Strings are counted again, and unused ones forgotten, when there are more than this many and twice the last count.
_STRINGS = 1 << 16


class UnusedStrings:
    """Finds and frees the strings of an engine that are not in use.

    Parameters
    ----------
    strings
        The engine's strings; those in it now, which the queries name, are kept for good.
    schema, kept
        Of the events, and which of its columns the ring keeps.
    """

    def __init__(self, strings: StringTable, schema: Schema, kept: Sequence[int]) -> None:
        self._strings = strings
        self._columns = [column for column in kept if schema.columns[column].dtype == "string"]
        self._literals = len(strings)
        self._due = _STRINGS

    @property
    def due(self) -> bool:
        """Whether there are enough strings to look through them."""
        return len(self._strings) > self._due

    def forget(
        self,
        matchers: Sequence[Matcher],
        ring: EventRing | None,
        order: Reorderer | None,
        batch: EventBatch | None = None,
    ) -> None:
        """Free the codes that no partial match, no event in the ring, held back or in ``batch``, no literal holds."""
        marks = np.zeros(self._strings.limit, np.uint8)
        marks[: self._literals] = 1
        if batch is not None:
            batch.mark_codes(marks)
        if order is not None:
            order.mark_codes(marks)
        for matcher in matchers:
            matcher.mark_codes(marks)
        if ring is not None:
            for column in self._columns:
                codes, nulls = ring.take(column, np.arange(ring.head, ring.tail))
                marks[codes if nulls is None else codes[nulls == 0]] = 1
        self._strings.reclaim(np.flatnonzero(marks))
        self._due = max(_STRINGS, 2 * len(self._strings))
