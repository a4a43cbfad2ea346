"""Classes by combination of feature values, for features of few values.

Clusters separate members of different contribution and consumption. Members that differ only in *which* events complete
them, such as equally frequent sums, are one cluster, but should not be one class: when the events of some value are
dropped, the partial matches that wait for them become useless. If features have few values, each combination is
therefore a class. Further classes cover a margin of values on either side that the history did not have: they are not
dropped at first, and their counts are separate when they occur.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fastcep.overload.protocols import Classes, Floats
from fastcep.shedding.hybrid.trees import all_integers

__all__ = ["cells_in", "cells_of"]

#: Largest number of combinations, and smallest mean number of members per combination.
_CELLS = 64
_MEMBERS = 25


def cells_of(features: Sequence[str], values: Floats) -> Classes | None:
    """Return a class for each combination of values; None if there are too many, or values are not integers.

    Parameters
    ----------
    features
        Names of the columns.
    values
        float64[n, features], without nulls.
    """
    if not values.size or not all_integers(values):
        return None
    return cells_in(features, values.min(axis=0), values.max(axis=0), len(values))


def cells_in(features: Sequence[str], low: Floats, high: Floats, members: int) -> Classes | None:
    """Return the classes of `cells_of` from the range of each feature, all integers, and the number of members."""
    if math.prod((high - low + 1).tolist()) > min(_CELLS, members / _MEMBERS):
        return None
    for margin in (high - low + 1, 0 * low):
        shape = [int(size) for size in high - low + 1 + 2 * margin]
        if math.prod(shape) <= _CELLS:
            break
    table = np.arange(math.prod(shape), dtype=np.uint8).reshape(shape)
    return Classes(tuple(features), tuple(int(value) for value in low - margin), table, table.size)
