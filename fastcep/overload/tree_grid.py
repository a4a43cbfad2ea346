"""Decision trees as tables, in which the matcher finds the class of a partial match in constant time.

The thresholds of a feature divide its values into intervals. All values of an interval go the same way at every split
of the tree. So a table with a cell for each combination of intervals gives the same classes as the tree.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

import numpy as np

from fastcep.overload.protocols import Floats, Tree

if TYPE_CHECKING:
    from fastcep._core.shed.classify import Axis, Grid

__all__ = ["grid_of"]

_MOST_CELLS = 1 << 16  #: larger tables would not stay in the processor's cache, and offsets have 16 bits
_MOST_RANKS = 1 << 16
_EXACT = 2.0**53  #: all integers below are exact as float64


def grid_of(tree: Tree) -> Grid | None:
    """Return a table with the classes of a tree; None if it would have too many cells.

    Parameters
    ----------
    tree
        A tree that `Tree.check` accepts.

    Returns
    -------
    The axes by feature, and the class of each cell: uint8[cells]. An axis has the thresholds, the offset of each
    interval in the table, the integer at which its ranks begin, and the ranks: the offset of each integer from there
    on. An axis has no ranks if its thresholds are too far apart.
    """
    inner = tree.feature >= 0
    thresholds = [np.unique(tree.threshold[inner & (tree.feature == number)]) for number in range(len(tree.features))]
    shape = tuple(len(borders) + 1 for borders in thresholds)
    if not thresholds or prod(shape) > _MOST_CELLS or not all(np.isfinite(borders).all() for borders in thresholds):
        return None
    largest = [np.append(borders, np.inf) for borders in thresholds]  # the largest value of each interval
    values = np.stack([axis.reshape(-1) for axis in np.meshgrid(*largest, indexing="ij")], axis=1)
    cells = tree.classify(values, np.zeros(values.shape, np.bool_))
    strides = [prod(shape[number + 1 :]) for number in range(len(shape))]
    return tuple(_axis(borders, stride) for borders, stride in zip(thresholds, strides, strict=True)), cells


def _axis(thresholds: Floats, stride: int) -> Axis:
    offsets = np.arange(len(thresholds) + 1) * stride
    ranks, low = np.zeros(0, np.uint16), 0
    if len(thresholds) and np.abs(thresholds).max() < _EXACT:
        low, high = int(np.floor(thresholds[0])), int(np.floor(thresholds[-1])) + 1
        if high - low < _MOST_RANKS:
            ranks = offsets[np.searchsorted(thresholds, np.arange(low, high + 1), "left")].astype(np.uint16)
    return thresholds, offsets, low, ranks
