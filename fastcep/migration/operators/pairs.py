"""Find the rows of two tables with equal keys and times that are close."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.migration.states import Ints

__all__ = ["close_pairs", "key_codes"]


def key_codes(first: Sequence[Any], second: Sequence[Any]) -> tuple[Ints, Ints]:
    """Return a number for the key of each row, equal for equal keys; int64[n], int64[m].

    Parameters
    ----------
    first, second
        The key columns of two tables, of the same types, without nulls.
    """
    count = len(first[0])
    codes = np.zeros(count + len(second[0]), np.int64)
    for left, right in zip(first, second, strict=True):
        both = pa.chunked_array([*_chunks(left), *_chunks(right)], left.type).combine_chunks()
        values = both.dictionary_encode().indices.to_numpy().astype(np.int64)
        codes = codes * (values.max(initial=0) + 1) + values
        codes = np.unique(codes, return_inverse=True)[1].astype(np.int64)
    return codes[:count], codes[count:]


def close_pairs(key: Ints, time: Ints, stored_key: Ints, stored_time: Ints, distance: int) -> tuple[Ints, Ints]:
    """Return the pairs of a row and a stored row with the same key, whose times differ by at most a distance.

    Parameters
    ----------
    key, time
        int64[n]: keys and times of the rows.
    stored_key, stored_time
        int64[m]: keys and times of the stored rows.
    distance
        Largest difference of the times.

    Returns
    -------
    row, stored
        int64[pairs]: positions of the rows and the stored rows, ordered by row and then by stored row.
    """
    # Times become ranks, so that key and time fit one int64, by which the stored rows are searched.
    low, high = time - distance, time + distance
    ranks = np.unique(np.concatenate([stored_time, low, high]))
    order = np.lexsort((np.arange(len(stored_key)), stored_time, stored_key))
    search = stored_key[order] * len(ranks) + np.searchsorted(ranks, stored_time[order])
    begin = np.searchsorted(search, key * len(ranks) + np.searchsorted(ranks, low), side="left")
    end = np.searchsorted(search, key * len(ranks) + np.searchsorted(ranks, high), side="right")
    counts = end - begin
    row = np.repeat(np.arange(len(key)), counts)
    offset = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    stored = order[np.repeat(begin, counts) + offset]
    sort = np.lexsort((stored, row))
    return row[sort].astype(np.int64), stored[sort].astype(np.int64)


def _chunks(column: Any) -> Sequence[Any]:
    return column.chunks if isinstance(column, pa.ChunkedArray) else [column]
