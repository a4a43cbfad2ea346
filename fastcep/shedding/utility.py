"""Drop probabilities from the utilities of cells: the least useful cells are dropped first."""

from __future__ import annotations

import numpy as np

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Floats, Ints

__all__ = ["below", "lowest"]


def below(utility: Floats, threshold: float) -> Floats:
    """Return drop probabilities for `DropPlan.drops`: 1 for a utility below a threshold, otherwise 0.

    Parameters
    ----------
    utility
        Utility of each cell: float64[states, classes, slices].
    threshold
        Smallest utility that is kept.
    """
    return (utility < threshold).astype(np.float64)


def lowest(utility: Floats, counts: Ints, share: float) -> Floats:
    """Return drop probabilities that drop a share of all partial matches, those of the lowest utility.

    Only cells are sorted, because partial matches of one cell have the same utility (pSPICE, Algorithm 2, sorts partial
    matches).

    Parameters
    ----------
    utility
        Utility of each cell: float64[states, classes, slices].
    counts
        Number of live partial matches of each cell, in the same shape (`QueryView.live`).
    share
        Share of all live partial matches to drop, from 0 to 1.

    Returns
    -------
    float64[states, classes, slices]
        1 below a threshold utility and 0 above it; cells at the threshold share one probability, so that the expected
        number of drops equals the share.

    Raises
    ------
    ValidationError
        If the share is not from 0 to 1.
    """
    if not 0 <= share <= 1:
        raise ValidationError(f"share={share}: expected a number from 0 to 1")
    levels, level = np.unique(utility, return_inverse=True)
    level = level.reshape(utility.shape)
    held = np.bincount(level.ravel(), counts.ravel(), len(levels))
    remaining = share * held.sum() - np.concatenate([[0.0], np.cumsum(held)[:-1]])  # after all lower levels
    probabilities = np.divide(remaining, held, out=np.zeros(len(levels)), where=held > 0).clip(0, 1)
    return np.asarray(probabilities[level])
