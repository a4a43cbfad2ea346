"""Feature selection: test whether a division of members explains their contribution or consumption.

`is_informative` tests it within a history, `held_out_gain` on a later part.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from fastcep.overload.protocols import Floats, Ints
from fastcep.shedding.hybrid.clusters import load, standardised
from fastcep.shedding.hybrid.columns import Flags, Parts

__all__ = ["Response", "explained_share", "held_out_gain", "is_informative", "responses_of"]

Response = tuple[Floats, Floats]  #: value and weight of each member

#: Significance level, and smallest share of the variance to explain.
_SIGNIFICANCE, _EXPLAINED = 1e-6, 0.005
_STRETCHES = 8  # stretches of time, alternating between two halves
#: Smallest bin that counts, in members and as a share: one match in a small bin would seem significant.
_FEW, _SHARE = 5, 1e-3
_CHANCE = 10  # squared correlation that counts, as a multiple of that expected by chance


def responses_of(contribution: Parts, consumption: Parts) -> list[Response]:
    """Return the responses that features should explain.

    They are the standardised contribution and consumption, summed over slices, and whether there is any contribution.
    In the latter, members with and without a contribution have the same total weight: matches are rare, and a feature
    that identifies exactly the useless members would otherwise explain next to none of the variance.

    Parameters
    ----------
    contribution, consumption
        float32[n, slices].
    """
    ones = np.ones(len(contribution))
    sums = [(standardised(parts).sum(axis=1), ones) for parts in (contribution, consumption)]
    useful = contribution.any(axis=1)
    shares = np.where(useful, 1 / max(useful.sum(), 1), 1 / max((~useful).sum(), 1))
    return [*sums, (useful.astype(np.float64), shares)]


def is_informative(bins: Ints, responses: Sequence[Response]) -> bool:
    """Return whether the bins explain any of the responses, by a one-way analysis of variance.

    Parameters
    ----------
    bins
        Bin of each member, from 0 on: int64[n].
    responses
        Responses of the same members, see `responses_of`.
    """
    counts = np.bincount(bins)
    enough = np.flatnonzero(counts[bins] >= max(_FEW, len(bins) * _SHARE))
    bins = np.unique(bins[enough], return_inverse=True)[1]
    between = int(bins.max(initial=0))
    within = len(bins) - between - 1
    if between < 1 or within < 1:
        return False
    for response, weights in ((response[enough], weights[enough]) for response, weights in responses):
        explained, residual = _variance(bins, response, weights)
        if explained <= _EXPLAINED * (explained + residual) or not _generalises(bins, response, weights):
            continue
        explained, residual = _variance(bins, response, np.ones(len(bins)))
        if not residual:
            return True
        ratio = explained / between / (residual / within)
        if load("scipy.special").fdtrc(between, within, ratio) < _SIGNIFICANCE:
            return True
    return False


def explained_share(bins: Ints, responses: Sequence[Response]) -> float:
    """Return the share of the variance that bins explain, added up over the responses."""
    shares = [_variance(bins, response, weights) for response, weights in responses]
    return sum(explained / (explained + residual) for explained, residual in shares if explained + residual > 0)


def held_out_gain(bins: Ints, responses: Sequence[Response], early: Flags, late: Flags) -> float:
    """Return the share of the variance of later members that the means of bins over earlier members explain.

    It is the squared weighted correlation, 0 if it is negative or may be chance, summed over the responses. Correlation
    does not depend on the level of the response, which may change with time without effect on the order of classes.

    Parameters
    ----------
    bins
        Bin of each member, from 0 on: int64[n].
    responses
        Responses of the same members, see `responses_of`.
    early, late
        Masks of the earlier members and of the later ones: bool[n].
    """
    gain, size = 0.0, int(bins.max(initial=0)) + 1
    for response, weights in responses:
        if not (weights[early].sum() > 0 and weights[late].sum() > 0):
            continue
        mean = float(np.average(response[early], weights=weights[early]))
        total = np.bincount(bins[early], weights[early], size)
        means = np.bincount(bins[early], response[early] * weights[early], size) / np.where(total > 0, total, 1)
        predicted, actual, weight = np.where(total > 0, means, mean)[bins[late]], response[late], weights[late]
        predicted = predicted - np.average(predicted, weights=weight)
        actual = actual - np.average(actual, weights=weight)
        product = float((predicted * actual * weight).sum())
        scale = float((predicted**2 * weight).sum() * (actual**2 * weight).sum())
        explained = product**2 / scale if product > 0 and scale > 0 else 0.0
        independent = float(weight.sum() ** 2 / (weight**2).sum())  # effective number of members
        gain += explained if explained > max(_EXPLAINED, _CHANCE / independent) else 0.0
    return gain


def _generalises(bins: Ints, response: Floats, weights: Floats) -> bool:
    """Return whether the means of bins over half of the time also explain the response in the other half.

    Members of one time share the partial matches and events that they meet, so fewer of them are independent than an
    analysis of variance assumes.
    """
    half = np.arange(len(bins)) * _STRETCHES // max(len(bins), 1) % 2
    for number in (0, 1):
        train, test = half == number, half != number
        if not (weights[train].sum() > 0 and weights[test].sum() > 0):
            return False
        size = int(bins.max()) + 1
        mean = float(np.average(response[train], weights=weights[train]))
        total = np.bincount(bins[train], weights[train], size)
        means = np.bincount(bins[train], response[train] * weights[train], size) / np.where(total > 0, total, 1)
        predicted = np.where(total > 0, means, mean)[bins[test]]
        residual = ((response[test] - predicted) ** 2 * weights[test]).sum()
        if residual > (1 - _EXPLAINED) * ((response[test] - mean) ** 2 * weights[test]).sum():
            return False
    return True


def _variance(bins: Ints, response: Floats, weights: Floats) -> tuple[float, float]:
    """Return the sums of squares of a response that bins explain, and that they do not."""
    centred = response - np.average(response, weights=weights)
    explained = float((np.bincount(bins, centred * weights) ** 2 / np.bincount(bins, weights)).sum())
    return explained, max(float((centred**2 * weights).sum()) - explained, 0.0)
