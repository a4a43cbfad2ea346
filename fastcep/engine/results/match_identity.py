"""Hash matches to 64-bit identities, so that the matches of two runs can be compared by sorting.

A match is identified by its query, its window and the events that it binds, with their variables; the variables of an
``ANY`` that may bind the same events in several ways do not count. These values are hashed in order with the finaliser
of splitmix64. Two different matches collide with a probability of 2^-64, so the probability that a run with m matches
has a false match counted as true, among n true ones, is at most ``n * m / 2^64``: 5 in a million for ten million each.
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
from fastcep.query.patterns import pattern_variables

__all__ = ["Identities", "count_found", "identities", "identities_of", "mix"]

Identities = npt.NDArray[np.uint64]

_STEP = np.uint64(0x9E3779B97F4A7C15)
_MIXERS = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))

#: Value of null; sequence numbers and window ids are not negative as int64.
_NULL = np.uint64(1 << 63)


def identities(matches: Matches, queries: Sequence[ast.Query]) -> Identities:
    """Return the identities of the matches of all queries: uint64[n], by query, not sorted."""
    parts = [identities_of(matches.query(query.name).to_arrow(), query, number) for number, query in enumerate(queries)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def identities_of(table: pa.Table, query: ast.Query, number: int = 0) -> Identities:
    """Return the identities of the matches of one query.

    Parameters
    ----------
    table
        Result of `Matches.to_arrow`; columns that RETURN adds are ignored.
    query, number
        Query, and its index.

    Returns
    -------
    uint64[n]
        Identity of each row.
    """
    variables = pattern_variables(query.pattern)
    groups = _interchangeable(query)
    grouped = {index for indices in groups for index in indices}
    ungrouped = [one for index, one in enumerate(variables) if not one.negated and index not in grouped]
    names = ["window_id", *(variable.name for variable in ungrouped)]
    if isinstance(query.pattern, ast.Periodic):
        names.append("detected_at")  # the tick, which no bound event determines
    hashes = np.full(len(table), mix(np.array([number], np.uint64))[0])
    for name in names:
        hashes = mix(hashes ^ _values(table[name].combine_chunks()))
    for indices in groups:
        values = [mix(_values(table[variables[index].name].combine_chunks())) for index in indices]
        hashes = mix(hashes ^ np.add.reduce(values))
    return hashes


@lru_cache(maxsize=64)
def _interchangeable(query: ast.Query) -> tuple[tuple[int, ...], ...]:
    """Return the variables of each ANY that may bind the same events in several ways."""
    return make_plan(query).sets


def count_found(identities: Identities, truth: Identities) -> int:
    """Count the identities that are in ``truth``, which is sorted."""
    if not len(truth):
        return 0
    positions = np.searchsorted(truth, identities)
    positions[positions == len(truth)] = 0
    return int(np.count_nonzero(truth[positions] == identities))


def mix(values: Identities) -> Identities:
    """Mix the bits of each value; one-to-one."""
    values = values + _STEP
    values = (values ^ (values >> np.uint64(30))) * _MIXERS[0]
    values = (values ^ (values >> np.uint64(27))) * _MIXERS[1]
    return np.asarray(values ^ (values >> np.uint64(31)))


def _values(column: Any) -> Identities:
    """Return a 64-bit value per row of a column of numbers, or of lists of numbers."""
    if pa.types.is_large_list(column.type) or pa.types.is_list(column.type):
        return _lists(column)
    return _numbers(column)


def _numbers(column: Any) -> Identities:
    values = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False).view(np.uint64)
    if column.null_count:
        values = np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, values)
    return np.asarray(values)


def _lists(column: Any) -> Identities:
    """Return a hash of each list: the sum of its elements, each mixed with its position, mixed with its length."""
    ends = column.offsets.to_numpy().astype(np.int64)
    lengths = np.diff(ends)
    elements = _numbers(column.values.slice(int(ends[0]), int(ends[-1] - ends[0])))
    ends = ends - ends[0]
    positions = (np.arange(len(elements), dtype=np.int64) - np.repeat(ends[:-1], lengths)).view(np.uint64)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(mix(elements ^ mix(positions)), dtype=np.uint64)])
    hashes = mix((sums[ends[1:]] - sums[ends[:-1]]) ^ mix(lengths.view(np.uint64)))
    return np.where(column.is_null().to_numpy(zero_copy_only=False), _NULL, hashes) if column.null_count else hashes
