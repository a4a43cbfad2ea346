"""Mutual information between the cell of an event, its type and position, and its part in matches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

__all__ = ["mutual_information"]

Floats = npt.NDArray[np.float64]


def mutual_information(events: Floats, matched: Floats) -> float:
    """Return in bits how much the cell reveals about whether an event is one of the stream or one of a match.

    Both are taken as equally likely, so the result is the Jensen-Shannon divergence of the distributions of both over
    the cells: 0 if matches take events of all cells alike, 1 if they take events of cells that no other event is in. It
    does not depend on how many matches there are. The expected value for distributions that are equal (Miller and
    Madow) is subtracted.

    Parameters
    ----------
    events, matched
        Numbers of events, and of events in matches, by cell: float64[cells].
    """
    totals = float(events.sum()), float(matched.sum())
    if min(totals) <= 0:
        return 0.0
    shares = [events / totals[0], matched / totals[1]]
    middle = (shares[0] + shares[1]) / 2
    information = _entropy(middle) - (_entropy(shares[0]) + _entropy(shares[1])) / 2
    used = int(np.count_nonzero(middle))
    chance = (used - 1) / (8 * np.log(2)) * (1 / totals[0] + 1 / totals[1])
    return float(min(max(information - chance, 0.0), 1.0))


def _entropy(share: Floats) -> float:
    positive = share[share > 0]
    return float(-(positive * np.log2(positive)).sum())
