"""Order in which the partial matches of all queries of an engine are dropped: the lowest utility first.

A *cell* has the partial matches of a query in one state and one slice of their window; they have the same utility.
Cells in ascending utility form levels, each with about the same share of the work; at a level, all cells of the levels
before it are dropped. What that saves and which share of the matches it keeps is computed in advance (`Occupancy`), so
that a decision is a binary search.
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

_LEVELS = 64
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
        Share of the work saved by level, ascending: float64[levels].
    kept
        Share of the matches kept by level and query: float64[levels, queries].
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
        self._levels = _levels(self.utilities, [item.rows() * item.rate for item in occupancies])
        number = 1 + max(int(levels.max()) for levels in self._levels)
        outcomes = [
            item.outcome((levels[None] >= np.arange(number + 1)[:, None, None]).astype(np.float64))
            for item, levels in zip(occupancies, self._levels, strict=True)
        ]
        work = np.sum([outcome.work for outcome in outcomes], axis=0)
        total = work[0] + sum(item.fixed for item in occupancies)
        self.saved = np.maximum.accumulate((work[0] - work) / (total or 1.0))
        self.kept = np.stack([_share(outcome.matches) for outcome in outcomes], axis=1)

    def choose(self, demand: float) -> Selection:
        """Return the selection that saves the share ``demand`` of the work, or else as much as there is."""
        last = int(self.saved.searchsorted(self.saved[-1]))  # further drops save nothing
        level = min(int(self.saved.searchsorted(demand, "right")) - 1, last) if demand > 0 else 0
        upper, part = min(level + 1, last), 0.0
        if upper > level and demand > self.saved[level]:
            part = float((demand - self.saved[level]) / (self.saved[upper] - self.saved[level]))
        cells = tuple(np.where(levels < level, 1.0, np.where(levels < upper, part, 0.0)) for levels in self._levels)
        kept, saved = ((1 - part) * values[level] + part * values[upper] for values in (self.kept, self.saved))
        return Selection(cells, tuple(kept.tolist()), float(saved))


def _levels(utilities: Sequence[Floats], work: Sequence[Floats]) -> list[npt.NDArray[np.int64]]:
    """Divide the cells, in ascending utility, into levels that have about the same share of the work each."""
    flat = np.concatenate([utility.ravel() for utility in utilities])
    share = np.concatenate([item.ravel() for item in work])
    share = share / (float(share.max()) or 1.0)  # the sum of expected numbers may be beyond all bounds
    order = np.argsort(flat, kind="stable")
    before = np.cumsum(share[order]) - share[order]
    total = float(share.sum()) or 1.0
    levels = np.empty(len(flat), np.int64)
    wanted = np.minimum(before / total * _LEVELS, _LEVELS - 1).astype(np.int64)
    levels[order] = np.unique(wanted, return_inverse=True)[1]
    found, first = [], 0
    for utility in utilities:
        found.append(levels[first : first + utility.size].reshape(utility.shape))
        first += utility.size
    return found


def _share(matches: Floats) -> Floats:
    """Return the share of the matches that is left at each level, descending."""
    if not matches[0] > 0:
        return np.ones(len(matches))
    return np.minimum.accumulate(np.clip(matches / matches[0], 0.0, 1.0))
