"""Cumulative utility occurrences of a window, and the utility threshold that drops a number of events from it."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError

__all__ = ["BEST", "cumulative_utility", "utility_threshold"]

Floats = npt.NDArray[np.float64]

#: Largest utility.
BEST = 100
#: Relative rounding error of a sum of shares.
_ROUNDING = 1e-9


def cumulative_utility(utility: npt.ArrayLike, share: npt.ArrayLike) -> Floats:
    """Return the cumulative utility occurrences of a window (eSPICE, section 3.3, Algorithm 1).

    Parameters
    ----------
    utility
        Utility of an event by type and position: int[types, positions] from 0 to 100.
    share
        Expected number of events of the type at the position: float64[types, positions], not negative. For one position
        it is the probability that an event there has this type.

    Returns
    -------
    numpy.ndarray
        CDT: float64[101]. Entry ``u`` is the expected number of events in a window whose utility is at most ``u``, the
        sum of the shares of these cells.

    Raises
    ------
    ValidationError
        If the shapes differ, a utility is not a whole number from 0 to 100, or a share is negative or not finite.

    Examples
    --------
    >>> import fastcep as fc
    >>> cdt = fc.shedding.cumulative_utility([[70, 15, 10], [0, 60, 30]], [[1.0, 0.5, 0.25], [0.0, 0.5, 0.75]])
    >>> cdt[[10, 15, 30, 60, 70]].tolist()
    [0.25, 0.75, 1.5, 2.0, 3.0]
    """
    values, shares = np.asarray(utility), np.asarray(share, np.float64)
    if values.shape != shares.shape or values.ndim != 2:
        raise ValidationError(
            f"cumulative_utility: found utility of the shape {values.shape} and share of the shape {shares.shape}; "
            "expected both as (types, positions)"
        )
    if values.dtype.kind not in "iu" or (values.size and not (values.min() >= 0 and values.max() <= BEST)):
        raise ValidationError(
            f"cumulative_utility: utility is an array of {values.dtype} from {values.min(initial=0)} to "
            f"{values.max(initial=0)}; expected whole numbers from 0 to {BEST}: scale and round it first"
        )
    if not (np.isfinite(shares) & (shares >= 0)).all():
        raise ValidationError(
            "cumulative_utility: share has a value that is negative or not finite; expected 0 or more"
        )
    return np.cumsum(np.bincount(values.ravel().astype(np.int64), shares.ravel(), BEST + 1))


def utility_threshold(cumulative: npt.ArrayLike, amount: float) -> int:
    """Return the utility threshold that drops a number of events from each window (eSPICE, section 3.2).

    Parameters
    ----------
    cumulative
        CDT of `cumulative_utility`: float64[101], ascending.
    amount
        Number of events to drop from each window, 0 or more.

    Returns
    -------
    int
        Smallest ``u`` with ``cumulative[u] >= amount``: the events of a utility of at most ``u`` are dropped. If the
        window has fewer than ``amount`` events (``cumulative[100] < amount``), 100: all of them are dropped.

    Raises
    ------
    ValidationError
        If `cumulative` is not an ascending array of 101 numbers, or `amount` is negative or not finite.

    Examples
    --------
    >>> import fastcep as fc
    >>> cdt = fc.shedding.cumulative_utility([[70, 15, 10], [0, 60, 30]], [[1.0, 0.5, 0.25], [0.0, 0.5, 0.75]])
    >>> fc.shedding.utility_threshold(cdt, 1)
    30
    """
    values = np.asarray(cumulative, np.float64)
    if values.shape != (BEST + 1,) or not np.isfinite(values).all() or (np.diff(values) < 0).any():
        raise ValidationError(
            f"utility_threshold: cumulative has the shape {values.shape}; expected {BEST + 1} ascending numbers, as "
            "cumulative_utility() returns them"
        )
    if not 0 <= amount < np.inf:
        raise ValidationError(f"utility_threshold: amount={amount!r}; expected a number of events, 0 or more")
    return min(int(np.searchsorted(values * (1 + _ROUNDING), amount)), BEST)
