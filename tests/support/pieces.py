"""Divide a stream into pieces, each with the context around it that a window needs."""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from reference.attribution import times_of

import fastcep as fc
from fastcep.query import ast
from fastcep.shedding.hybrid.history import Piece, Pieces


def cut(
    own: fc.Query,
    events: pa.Table,
    cuts: Iterable[int],
    span: int = 0,
    before: float = 1,
    after: float = 1,
    more: int = 1,
) -> list[Piece]:
    """Divide a stream at places.

    ``span``: length of explicit windows, ns; ``before``, ``after``, ``more``: windows and further events of context.
    """
    times, window = times_of(own, events), own.window
    places = sorted({0, len(events), *cuts})
    pieces = []
    for first, last in itertools.pairwise(places):
        if isinstance(window, ast.CountWindow):
            low, high = first - int(before * (window.events - 1)), last + int(after * (window.events - 1))
        else:
            length = window.nanoseconds if isinstance(window, ast.TimeWindow) else span
            low = int(np.searchsorted(times, times[first] - before * length, "left"))
            high = int(np.searchsorted(times, times[last - 1] + after * length, "right")) + more
        low, high = max(low, 0), min(high, len(events))
        pieces.append(Piece(events.slice(low, high - low), low, (first - low, last - low)))
    return pieces


def elsewhere(function: Callable[[Any], Any], items: Iterable[Any]) -> list[Any]:
    """Map items through pickle, as in other processes; the last item comes first."""
    results = []
    for item in reversed(list(items)):
        there, what = pickle.loads(pickle.dumps((function, item)))
        results.append(pickle.loads(pickle.dumps(there(what))))
    return results[::-1]


class Elsewhere(Pieces):
    """Pieces in other processes: everything sent and returned is pickled; sums are computed two by two."""

    def gather(self, name: str, function: Any, merge: Any, split: Any, each: Any) -> list[Any]:
        function, merge, split, each = pickle.loads(pickle.dumps((function, merge, split, each)))
        total, *more = elsewhere(function, self)
        total = pickle.loads(pickle.dumps(merge([total])))
        for found in more:
            total = pickle.loads(pickle.dumps(merge([total, found])))
        return elsewhere(each, split(total))


def equal_flows(one: Any, other: Any) -> bool:
    """Return True if two flows are equal to the last bit."""
    arrays: Sequence[str] = ("asked", "lengths", "dispersion")
    return (
        one.events == other.events
        and one.children.equals(other.children)
        and one.looks.equals(other.looks)
        and all(np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays)
    )
