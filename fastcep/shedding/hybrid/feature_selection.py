"""Whether what members are divided by tells anything of what they are worth, or of what they cost."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastcep.overload.protocols import Floats, Ints
from fastcep.shedding.hybrid.clusters import load, standardised
from fastcep.shedding.hybrid.columns import Parts

__all__ = ["Response", "explained", "responses_of", "tells"]

Response = tuple[Floats, Floats]  #: a number per member, and what the member weighs

#: Something is told if chance does it as rarely as this, and if it explains as much of the variance.
_CHANCE, _EXPLAINED = 1e-6, 0.005
_STRETCHES = 8  # of time, in turns
#: Bins of fewer members, or of a smaller share, do not count: a single match among few would seem to be no chance.
_FEW, _SHARE = 5, 1e-3


def responses_of(contribution: Parts, consumption: Parts) -> list[Response]:
    """What is to be told of members.

    The sums of what is contributed, and of what is consumed, by slice; and whether anything is contributed at all.
    Those that do and those that do not weigh the same in the latter: matches are rare, and next to nothing of the
    variance would be explained by what tells exactly where there are none.

    Parameters
    ----------
    contribution, consumption
        float32[n, slices].
    """
    ones = np.ones(len(contribution))
    sums = [(standardised(parts).sum(axis=1), ones) for parts in (contribution, consumption)]
    worth = contribution.any(axis=1)
    shares = np.where(worth, 1 / max(worth.sum(), 1), 1 / max((~worth).sum(), 1))
    return [*sums, (worth.astype(np.float64), shares)]


def tells(bins: Ints, responses: Sequence[Response]) -> bool:
    """Whether the bins tell any of the responses: a one-way analysis of variance.

    Parameters
    ----------
    bins
        int64[n]: of each member its bin, from 0 on.
    responses
        As of `responses_of`, of the same members.
    """
    counts = np.bincount(bins)
    enough = np.flatnonzero(counts[bins] >= max(_FEW, len(bins) * _SHARE))
    bins = np.unique(bins[enough], return_inverse=True)[1]
    between = int(bins.max(initial=0))
    within = len(bins) - between - 1
    if between < 1 or within < 1:
        return False
    for response, weights in ((response[enough], weights[enough]) for response, weights in responses):
        told, rest = _variance(bins, response, weights)
        if told <= _EXPLAINED * (told + rest) or not _lasts(bins, response, weights):
            continue
        told, rest = _variance(bins, response, np.ones(len(bins)))
        if not rest or load("scipy.special").fdtrc(between, within, told / between / (rest / within)) < _CHANCE:
            return True
    return False


def explained(bins: Ints, responses: Sequence[Response]) -> float:
    """Which shares of the variance of the responses bins explain, added up."""
    shares = [_variance(bins, response, weights) for response, weights in responses]
    return sum(told / (told + rest) for told, rest in shares if told + rest > 0)


def _lasts(bins: Ints, response: Floats, weights: Floats) -> bool:
    """Whether what bins tell of some stretches of time they also tell of the others.

    Members of one time share the partial matches that they meet and the events that come, so that there are fewer
    independent ones than an analysis of variance takes them for.
    """
    part = np.arange(len(bins)) * _STRETCHES // max(len(bins), 1) % 2
    for known in (0, 1):
        own, other = part == known, part != known
        if not (weights[own].sum() > 0 and weights[other].sum() > 0):
            return False
        size = int(bins.max()) + 1
        mean = float(np.average(response[own], weights=weights[own]))
        total = np.bincount(bins[own], weights[own], size)
        means = np.bincount(bins[own], response[own] * weights[own], size) / np.where(total > 0, total, 1)
        told = np.where(total > 0, means, mean)[bins[other]]
        left = ((response[other] - told) ** 2 * weights[other]).sum()
        if left > (1 - _EXPLAINED) * ((response[other] - mean) ** 2 * weights[other]).sum():
            return False
    return True


def _variance(bins: Ints, response: Floats, weights: Floats) -> tuple[float, float]:
    """The squares of a response that bins explain, and those that they do not."""
    centred = response - np.average(response, weights=weights)
    told = float((np.bincount(bins, centred * weights) ** 2 / np.bincount(bins, weights)).sum())
    return told, max(float((centred**2 * weights).sum()) - told, 0.0)
