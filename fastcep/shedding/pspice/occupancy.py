"""Partial matches, work and matches of a window, given from which slice on the partial matches of a state are dropped.

The transition matrix of pSPICE, applied forwards: a window begins with the partial matches that its first event creates
(under an explicit window, its events create them until the next window opens). In each slice of the window
they stay, create others and complete by the matrix. What a drop saves and what it loses follows from the difference,
including the partial matches and matches that no longer come into being.

Explicit windows may overlap; partial matches then have the age in the latest of their windows, see `Overlap`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np
import numpy.typing as npt

from fastcep.query import ast
from fastcep.shedding.pspice.markov import capped
from fastcep.shedding.pspice.model import PSpiceModel

__all__ = ["Occupancy", "Outcome"]

Floats = npt.NDArray[np.float64]

_PIECES = 64  #: least number of pieces of a window for which the number of open windows is computed


@dataclass(frozen=True)
class Outcome:
    """Work and matches per event of the stream, for each of n choices of cells to drop.

    Attributes
    ----------
    work
        Expected time of matching in ns, without the costs of every event: float64[n].
    matches
        Expected number of matches: float64[n].
    """

    work: Floats
    matches: Floats


class Occupancy:
    """Expected partial matches of one query by state and slice of the window.

    Parameters
    ----------
    model
        Model of the query.
    window
        Number of events in a window.
    slices
        Number of slices.
    shared
        Whether the matcher has a partial match once for all its windows, not once in each.

    Attributes
    ----------
    fixed
        Time per event that no drop of partial matches saves, in ns.
    rate
        Time that an event takes for a partial match, by state and slice, in ns: float64[states, slices].
    births
        Number of partial matches that an event creates alone, by state: float64[states].
    """

    def __init__(self, model: PSpiceModel, window: float, slices: int, *, shared: bool = True) -> None:
        self._slices, self._lengths = slices, events_by_slice(model.query.window, window, slices)
        chain = model.chain()
        self._chain, self._states = chain, len(model.states)
        self.fixed = chain.fixed / chain.events
        # Under WITHIN each event of the stream begins a window; explicit windows begin less often, and each of their
        # events creates partial matches.
        self._opens = isinstance(model.query.window, ast.ExplicitWindow)
        self._size = sum(self._lengths)
        self._windows = chain.met / chain.events / self._size if self._opens else 1.0
        each = chain.met if self._opens else chain.events
        self._births, self._begin_work = chain.births / each, chain.begin_work / each
        self._overlap = model.overlap(self._size, shared=shared)
        begun = sum(length * self._overlap.is_latest(age + length / 2) for _, length, age in self._pieces())
        self.births = self._births * (self._windows * begun if self._opens else 1.0)
        self.rate = (chain.stay_work + chain.birth_work.sum(axis=1))[:, None] + (
            chain.match_work[:, None] * self._overlap.windows(self._size * (np.arange(slices) + 0.5) / slices)
        )

    def rows(self) -> Floats:
        """Return the expected number of live partial matches by state and slice without drops: float64[states, slices].

        Counted are those that an event meets, so not those that it creates.
        """
        rows = np.zeros((self._states, self._slices))
        self._run(np.ones((1, self._states, self._slices)), rows)
        return rows

    def outcome(self, keep: Floats) -> Outcome:
        """Return what happens if the partial matches of some cells are dropped.

        Parameters
        ----------
        keep
            Share of the partial matches to keep by state and slice: float64[n, states, slices].
        """
        end = self._run(keep, None)
        alone = self._chain.begin_matches / self._chain.events  # no drop of partial matches loses these
        return Outcome(self._windows * end[:, -2], self._windows * end[:, -1] + alone)

    def _run(self, keep: Floats, rows: Floats | None) -> Floats:
        """Pass through a window; return float64[n, states + 3]: partial matches at its end, 1, work and matches.

        ``rows``, float64[states, slices], receives the sums of the partial matches before each event, for n = 1.
        """
        n, states = len(keep), self._states
        one, work, matches = states, states + 1, states + 2
        chain = self._chain
        met = slice(states + 3, states + 3 + (0 if rows is None else states))
        state = np.zeros((n, met.stop))
        state[:, one] = 1.0
        if not self._opens:
            state[:, :states] = self._births * keep[:, :, 0]
            state[:, work] = keep[:, :, 0] @ self._begin_work
        entered = -1
        for number, length, age in self._pieces():
            kept = keep[:, :, number]
            windows = float(self._overlap.windows(age + length / 2))
            step = np.zeros((n, met.stop, met.stop))
            step[:, :states, :states] = chain.children * kept[:, None, :]
            step[:, range(states), range(states)] += chain.stays
            step[:, :states, work] = chain.stay_work + kept @ chain.birth_work.T + windows * chain.match_work
            step[:, :states, matches] = windows * chain.matches
            if self._opens:
                latest = float(self._overlap.is_latest(age + length / 2))
                step[:, one, :states] = latest * self._births * kept
                step[:, one, work] = latest * (kept @ self._begin_work)
            step[:, range(one, met.stop), range(one, met.stop)] = 1.0
            if rows is not None:
                step[:, range(states), range(met.start, met.stop)] = 1.0
            if number != entered:
                state[:, :states] *= kept  # those that reach a slice in which they are dropped
                entered = number
            with np.errstate(over="ignore", invalid="ignore"):
                after = capped(np.matmul(state[:, None, :], _power(step, length))[:, 0, :])
                if rows is not None:
                    rows[:, number] += capped(self._windows * after[0, met])
                    after[:, met] = 0.0
            state = after
        return state[:, : met.start]

    def _pieces(self) -> Iterator[tuple[int, int, int]]:
        """Yield slice, number of events and age of pieces of a window, in which about as many windows are open."""
        gap = self._overlap.gap
        most = ceil(self._size / _PIECES) if gap < np.inf else self._size
        ends = round(gap) if gap < self._size and not self._overlap.random else self._size  # of the latest window
        age = 0
        for number, length in enumerate(self._lengths):
            end = age + length
            while age < end:
                piece = min(end - age, most, ends - age if age < ends else end)
                yield number, piece, age
                age += piece


def events_by_slice(window: ast.Window, size: float, slices: int) -> list[int]:
    """Return how many events partial matches meet in each slice of a window, after the event that begins it.

    Parameters
    ----------
    window
        Window clause: an explicit window includes the event that opens it, WITHIN n EVENTS the first event of a match.
    size
        Number of events in a window.
    slices
        Number of slices.
    """
    first = 0 if isinstance(window, ast.ExplicitWindow) else 1
    end = max(first, round(size) + (1 if isinstance(window, ast.TimeWindow) else 0))
    bounds = [first, *(min(max(ceil(number * size / slices), first), end) for number in range(1, slices)), end]
    return [after - before for before, after in pairwise(bounds)]


def _power(matrices: Floats, exponent: int) -> Floats:
    """Return a power of each matrix: float64[n, m, m]."""
    result: Floats | None = None
    while exponent:
        if exponent & 1:
            result = matrices if result is None else capped(np.matmul(result, matrices))
        exponent >>= 1
        if exponent:
            matrices = capped(np.matmul(matrices, matrices))
    assert result is not None
    return result
