"""Put the matches of the slices in the order of a single engine.

Slices own consecutive times, and each answers in the order of its events. So the merger passes on the answers of the
oldest unfinished slice as they come, and keeps those of younger ones until it is their turn. The answers of a slice are
counted: if it is run again elsewhere, those that were received before are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fastcep.engine import Matches
from fastcep.engine.results.matches import Layout
from fastcep.engine.results.query_matches import QueryMatches, one_array, received_matches
from fastcep.parallel.slice_run import EVENT, MOMENT
from fastcep.query import ast

__all__ = ["Merger"]


@dataclass
class _Answers:
    """Answers of a slice: the number received, those of the present run, and those that are not passed on yet."""

    received: int = 0
    of_run: int = 0
    ended: bool = False
    waiting: list[list[pa.Table]] = field(default_factory=list)


class Merger:
    """Merges the answers of slices.

    Parameters
    ----------
    queries
        The queries of the engine, in order.
    nothings
        Matches of each query with all of its columns, and no rows.

    Attributes
    ----------
    oldest
        Number of the oldest slice that has not ended.
    waiting
        Number of matches that wait for older slices.
    taken
        Answers in the result of the last call of `take`. The caller sets an empty list when the result is returned;
        otherwise the next call returns them again.
    """

    def __init__(self, queries: Sequence[ast.Query], nothings: Sequence[QueryMatches]) -> None:
        self._queries, self._nothings = queries, list(nothings)
        self._layout = Layout(self._nothings)
        self._slices: dict[int, _Answers] = {}
        self._ready: list[list[pa.Table]] = []
        self.taken: list[list[pa.Table]] = []
        self.oldest = self.waiting = 0

    def restart(self, number: int) -> None:
        """Expect the answers of a slice from its beginning on."""
        self._slices.setdefault(number, _Answers()).of_run = 0

    def add(self, number: int, tables: list[pa.Table] | None, ends: bool) -> None:
        """Take an answer of a slice: the matches of each query, None without any; ``ends`` if it is the last one."""
        answers = self._slices.setdefault(number, _Answers())
        answers.of_run += 1
        if answers.of_run <= answers.received:
            return
        answers.received = answers.of_run
        answers.ended = ends
        if tables is not None:
            answers.waiting.append(tables)
            self.waiting += sum(map(len, tables))
        self._pass_on()

    def _pass_on(self) -> None:
        while (answers := self._slices.get(self.oldest)) is not None:
            self._ready += answers.waiting
            self.waiting -= sum(len(table) for tables in answers.waiting for table in tables)
            answers.waiting = []
            if not answers.ended:
                return
            del self._slices[self.oldest]
            self.oldest += 1

    def take(self) -> Matches:
        """Return the matches that are next in order, and those in `taken`, to which they are added."""
        self.taken, self._ready = self.taken + self._ready, []
        parts = self._nothings if not self.taken else [
            _received(query, pa.concat_tables([tables[number] for tables in self.taken]))
            for number, query in enumerate(self._queries)
        ]
        return Matches(parts, self._layout)


def _received(query: ast.Query, table: pa.Table) -> QueryMatches:
    events, times = one_array(table[EVENT]).to_numpy(), one_array(table[MOMENT]).to_numpy()
    return received_matches(query, table.select(table.column_names[:-2]), events, times)
