"""Drop what is worth least: from utilities of cells to chances."""

from __future__ import annotations

import numpy as np

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Floats, Ints

__all__ = ["below", "lowest"]


def below(utility: Floats, threshold: float) -> Floats:
    """Chances with which everything of a utility below a threshold is dropped, as `DropPlan.drops` has them.

    Parameters
    ----------
    utility
        Per cell: float64[states, classes, slices].
    threshold
        The least utility that stays.
    """
    return (utility < threshold).astype(np.float64)


def lowest(utility: Floats, counts: Ints, share: float) -> Floats:
    """Chances with which a share of all partial matches is dropped, those of the lowest utility.

    Nothing is sorted but the cells: partial matches of one cell are worth the same (pSPICE, Algorithm 2, sorts them).

    Parameters
    ----------
    utility
        Per cell: float64[states, classes, slices].
    counts
        How many live partial matches it has: the same shape (`QueryView.live`).
    share
        Of their sum, from 0 to 1.

    Returns
    -------
    float64[states, classes, slices]
        1 below some utility, 0 above it; for the cells that have it the same chance, so that in the mean as many fall
        as are asked for.

    Raises
    ------
    ValidationError
        If the share is none.
    """
    if not 0 <= share <= 1:
        raise ValidationError(f"share={share}: expected a number from 0 to 1")
    levels, level = np.unique(utility, return_inverse=True)
    level = level.reshape(utility.shape)
    held = np.bincount(level.ravel(), counts.ravel(), len(levels))
    asked = share * held.sum() - np.concatenate([[0.0], np.cumsum(held)[:-1]])  # of each level, after those below it
    chances = np.divide(asked, held, out=np.zeros(len(levels)), where=held > 0).clip(0, 1)
    return np.asarray(chances[level])
