"""Order in which the partial matches of all queries of an engine are dropped: the lowest utility first.

A *cell* has the partial matches of a query in one state and one slice of their window; they have the same utility.
Cells are dropped in ascending utility up to a *cut*, a number of cells: with the cut 7.25 these are the first seven,
and a quarter of the partial matches of the eighth one. What that saves and which share of the matches it keeps is
computed in advance (`Occupancy`) for some cuts, so close to each other that a straight line fits in between; a decision
is a binary search.

At most one cell is dropped in part. If several were, a partial match could be drawn again in each state that it passes,
and much more would be lost than one draw loses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from fastcep.shedding.pspice.model import PSpiceModel
from fastcep.shedding.pspice.occupancy import Occupancy

__all__ = ["DropOrder", "Selection", "scaled_utilities"]

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_CUTS = 64  #: number of cuts between which the cells have about the same work
_GAP = 1 / _CUTS  #: share of the work that two neighbouring cuts may differ by; otherwise more are computed
_NARROW = 2**-20  #: least distance of two cuts, in cells, between which another one is computed
_LEAST_TIME = 1e-6  #: least remaining time, relative to the largest, by which a probability is divided (pSPICE)


def scaled_utilities(
    models: Sequence[PSpiceModel], weights: Sequence[float], remaining: Sequence[Floats], *, by_time: bool,
    matches: Sequence[Floats] | None = None,
) -> list[Floats]:  # fmt: skip
    """Return the utility of partial matches of each query (pSPICE, section III-C).

    It is the weight of the query times the completion probability, divided by the remaining time; both are scaled by
    their maximum over all queries.

    Parameters
    ----------
    models, weights
        Models and weights of the queries.
    remaining
        Numbers of remaining events of each query: float64[n].
    by_time
        Whether to divide by the remaining time.
    matches
        Expected number of matches in all windows of a partial match, float64[n, states] for each query. None: the
        completion probability in one window.

    Returns
    -------
    list of numpy.ndarray
        float64[states, n] for each query.
    """
    most = max(float(model.probability.max()) for model in models) or 1.0
    longest = max(float(model.time.max()) for model in models) or 1.0
    utilities = []
    for number, (model, weight, events) in enumerate(zip(models, weights, remaining, strict=True)):
        probability, time = model.at(events)
        expected = probability if matches is None else matches[number]
        utility = weight * expected / most
        if by_time:
            time = time + model.match_time() * (expected - probability)  # the matches in earlier windows
            utility = utility / np.maximum(time / longest, _LEAST_TIME)
        utilities.append(np.ascontiguousarray(utility.T))
    return utilities


@dataclass(frozen=True)
class Selection:
    """Cells to drop for a demand, with the expected effect.

    Attributes
    ----------
    cells
        Drop probability of each query's partial matches by state and slice: float64[states, slices].
    kept
        Expected share of each query's matches that is kept.
    saved
        Expected share of the work that is saved.
    """

    cells: tuple[Floats, ...]
    kept: tuple[float, ...]
    saved: float


class DropOrder:
    """Drop order for the queries of an engine.

    Parameters
    ----------
    models, weights
        Models and weights of the queries.
    windows
        Number of events in a window of each query.
    slices
        Number of slices of a window of each query.
    by_time
        Whether utilities are divided by the remaining time.
    shared
        Whether the matcher has a partial match once for all its windows, by query. None: it has.

    Attributes
    ----------
    saved
        Share of the work saved by cut, ascending: float64[cuts].
    kept
        Share of the matches kept by cut and query: float64[cuts, queries].
    utilities, completions
        Utility of each query's partial matches, and their expected number of matches: float64[states, slices].
    rates
        Time that an event takes for a partial match of each query, in ns: float64[states, slices].
    """

    def __init__(
        self, models: Sequence[PSpiceModel], weights: Sequence[float], windows: Sequence[float],
        slices: Sequence[int], *, by_time: bool, shared: Sequence[bool] | None = None,
    ) -> None:  # fmt: skip
        remaining = [
            window * (1 - (np.arange(number) + 0.5) / number) for window, number in zip(windows, slices, strict=True)
        ]
        share = [True] * len(models) if shared is None else shared
        matches = [
            model.expected_matches(events, model.overlap(window, shared=one))
            for model, events, window, one in zip(models, remaining, windows, share, strict=True)
        ]
        self.utilities = scaled_utilities(models, weights, remaining, by_time=by_time, matches=matches)
        self.completions = [of_query.T for of_query in matches]
        occupancies = [
            Occupancy(model, window, number, shared=one)
            for model, window, number, one in zip(models, windows, slices, share, strict=True)
        ]
        self.rates = [item.rate for item in occupancies]
        order = np.argsort(np.concatenate([utility.ravel() for utility in self.utilities]), kind="stable")
        self._ranks = _ranks(self.utilities, order)
        cuts = _cuts([item.rows() * item.rate for item in occupancies], order)
        work, found = self._outcomes(occupancies, cuts)
        total = float(work[0]) + sum(item.fixed for item in occupancies) or 1.0
        while True:
            wide = np.flatnonzero((np.abs(np.diff(work)) > _GAP * total) & (np.diff(cuts) > _NARROW))
            if not len(wide):
                break
            between = (cuts[wide] + cuts[wide + 1]) / 2
            between = np.where(cuts[wide + 1] - cuts[wide] > 1, np.floor(between), between)
            more_work, more_found = self._outcomes(occupancies, between)
            cuts, work = np.insert(cuts, wide + 1, between), np.insert(work, wide + 1, more_work)
            found = np.insert(found, wide + 1, more_found, axis=0)
        self._cuts = cuts
        self.saved = np.maximum.accumulate((work[0] - work) / total)
        self.kept = np.stack([_share(of_query) for of_query in found.T], axis=1)

    def _outcomes(self, occupancies: Sequence[Occupancy], cuts: Floats) -> tuple[Floats, Floats]:
        """Return the work of all queries, float64[cuts], and the matches of each, float64[cuts, queries]."""
        outcomes = [
            item.outcome(np.clip(ranks + 1 - cuts[:, None, None], 0.0, 1.0))
            for item, ranks in zip(occupancies, self._ranks, strict=True)
        ]
        work = np.sum([outcome.work for outcome in outcomes], axis=0)
        return work, np.stack([outcome.matches for outcome in outcomes], axis=1)

    def choose(self, demand: float) -> Selection:
        """Return the selection that saves the share ``demand`` of the work, or else as much as there is."""
        last = int(self.saved.searchsorted(self.saved[-1]))  # further drops save nothing
        lower = min(int(self.saved.searchsorted(demand, "right")) - 1, last) if demand > 0 else 0
        upper, part = min(lower + 1, last), 0.0
        if upper > lower and demand > self.saved[lower]:
            part = float((demand - self.saved[lower]) / (self.saved[upper] - self.saved[lower]))
        cut, kept, saved = (
            (1 - part) * values[lower] + part * values[upper] for values in (self._cuts, self.kept, self.saved)
        )
        cells = tuple(np.clip(cut - ranks, 0.0, 1.0) for ranks in self._ranks)
        return Selection(cells, tuple(kept.tolist()), float(saved))


def _ranks(utilities: Sequence[Floats], order: Ints) -> list[Ints]:
    """Return how many cells are dropped before each cell, given all cells in the order of dropping."""
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    ends = np.cumsum([utility.size for utility in utilities])[:-1]
    return [part.reshape(utility.shape) for part, utility in zip(np.split(ranks, ends), utilities, strict=True)]


def _cuts(work: Sequence[Floats], order: Ints) -> Floats:
    """Return cuts from 0 to the number of cells, between which the cells have about the same share of the work."""
    share = np.concatenate([item.ravel() for item in work])
    share = share / (float(share.max()) or 1.0)  # the sum of expected numbers may be beyond all bounds
    before = np.cumsum(share[order]) - share[order]
    total = float(share.sum()) or 1.0
    number = np.minimum(before / total * _CUTS, _CUTS - 1).astype(np.int64)
    return np.array([0, *(np.flatnonzero(np.diff(number)) + 1), len(order)], np.float64)


def _share(matches: Floats) -> Floats:
    """Return the share of the matches that is left at each cut, descending."""
    if not matches[0] > 0:
        return np.ones(len(matches))
    return np.minimum.accumulate(np.clip(matches / matches[0], 0.0, 1.0))
