"""Classes by each combination of values, where there are few.

Clusters tell apart what differs in contribution and consumption. What differs only in *which* events complete it, such
as sums of which each is as frequent, is one cluster, and yet should not be one class: when the events of some value are
dropped, the partial matches that wait for them are worth nothing any more. So where features have few values, each
combination is a class, and so is each of as many more values on either side, which history did not have: nothing is
known of them, so they are not dropped; when they come, they are counted by themselves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fastcep.overload.protocols import Classes, Floats
from fastcep.shedding.hybrid.trees import whole

__all__ = ["cells_in", "cells_of"]

#: The most combinations, and how many members each has on the mean at least.
_CELLS = 64
_MEMBERS = 25


def cells_of(features: Sequence[str], values: Floats) -> Classes | None:
    """A class for each combination of values; None if there are too many, or they are no whole numbers.

    Parameters
    ----------
    features
        Of the columns.
    values
        float64[n, features], without null.
    """
    if not values.size or not whole(values):
        return None
    return cells_in(features, values.min(axis=0), values.max(axis=0), len(values))


def cells_in(features: Sequence[str], low: Floats, high: Floats, members: int) -> Classes | None:
    """The same, by the range of each feature, all values of which are whole, and by how many members there are."""
    if math.prod((high - low + 1).tolist()) > min(_CELLS, members / _MEMBERS):
        return None
    for spare in (high - low + 1, 0 * low):
        shape = [int(size) for size in high - low + 1 + 2 * spare]
        if math.prod(shape) <= _CELLS:
            break
    table = np.arange(math.prod(shape), dtype=np.uint8).reshape(shape)
    return Classes(tuple(features), tuple(int(value) for value in low - spare), table, table.size)
