"""Matches as numbers, so that those of two runs can be compared by sorting.

A match is identified by its query, its window and the events that it binds: to which variable, unless an ``ANY`` may
bind the same ones in several ways, of which one is told. Of these, in their order, 64 bits are mixed (the finaliser of
splitmix64). Two different matches get one number with a probability of 2^-64, so that a run of m
matches against a truth of n has a wrong one taken for right with at most ``n * m / 2^64``: 5 in a million for ten
million of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.engine import Matches
from fastcep.plan import make_plan
from fastcep.query import ast
from fastcep.query.patterns import leaves_of

__all__ = ["Words", "found_in", "identities", "identities_of"]

Words = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

#: What stands for null; sequence numbers and windows are not negative as int64.
_NULL = np.uint64(1 << 63)


def identities(matches: Matches, queries: Sequence[ast.Query]) -> Words:
    """Number the matches of all queries: uint64[n], not sorted; those of the first query first."""
    parts = [
        identities_of(matches.query(query.name).to_arrow(), query, number) for number, query in enumerate(queries)
    ]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def identities_of(table: pa.Table, query: ast.Query, number: int = 0) -> Words:
    """Number the matches of one query.

    Parameters
    ----------
    table
        What `Matches.to_arrow` gives; what RETURN adds does not count.
    query, number
        The query, and which one it is.

    Returns
    -------
    uint64[n]
        By row.
    """
    leaves, alike = leaves_of(query.pattern), {member for members in _alike(query) for member in members}
    names = ["window_id", *(leaf.name for m, leaf in enumerate(leaves) if not leaf.negated and m not in alike)]
    if isinstance(query.pattern, ast.Periodic):
        names.append("detected_at")  # the tick, which no event tells
    mixed = np.full(len(table), _mix(np.array([number], np.uint64))[0])
    for name in names:
        mixed = _mix(mixed ^ _cells(table[name].combine_chunks()))
    for members in _alike(query):
        cells = [_mix(_cells(table[leaves[member].name].combine_chunks())) for member in members]
        mixed = _mix(mixed ^ np.add.reduce(cells))
    return mixed


@lru_cache(maxsize=64)
def _alike(query: ast.Query) -> tuple[tuple[int, ...], ...]:
    """The variables of each ANY that may bind the same events in several ways."""
    return make_plan(query).sets


def found_in(found: Words, truth: Words) -> int:
    """How many of the numbers are among those of ``truth``, which is sorted."""
    if not len(truth):
        return 0
    places = np.searchsorted(truth, found)
    places[places == len(truth)] = 0
    return int(np.count_nonzero(truth[places] == found))


def _mix(words: Words) -> Words:
    """Spread every bit over all others; one-to-one."""
    words = words + _STEP
    words = (words ^ (words >> np.uint64(30))) * _MIXERS[0]
    words = (words ^ (words >> np.uint64(27))) * _MIXERS[1]
    return np.asarray(words ^ (words >> np.uint64(31)))


def _cells(column: Any) -> Words:
    """A word per row of a column of numbers, or of lists of numbers."""
    if pa.types.is_large_list(column.type) or pa.types.is_list(column.type):
        return _lists(column)
    return _numbers(column)


def _numbers(column: Any) -> Words:
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    if column.null_count:
        values = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, values)
    return np.asarray(values)


def _lists(column: Any) -> Words:
    """A sum over the elements, each mixed with its place in the list, and over the length."""
    ends = column.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(ends)
    elements = _numbers(column.values.slice(int(ends[0]), int(ends[-1] - ends[0])))
    ends = ends - ends[0]
    places = (np.arange(len(elements), dtype=np.int64) - np.repeat(ends[:-1], lengths)).view(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_mix(elements ^ _mix(places)), dtype=np.uint64)])
    words = _mix((sums[ends[1:]] - sums[ends[:-1]]) ^ _mix(lengths.view(np.uint64)))
    return np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, words) if column.null_count else words
