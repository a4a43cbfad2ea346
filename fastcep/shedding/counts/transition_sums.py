"""Sums over the lifetimes of partial matches, by pairs of states."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep.overload.costs import CostTable
from fastcep.shedding.counts.lifetimes import GONE, MATCH, START, Lifetimes
from fastcep.shedding.counts.piece import Ints, Piece

__all__ = ["GONE", "MATCH", "START", "TransitionSums"]

Floats = npt.NDArray[np.float64]

_EXTRA = 3  # START, GONE and MATCH, beside the states of the chain


class TransitionSums:
    """Observations and their time, by pairs of states. Times are in picoseconds, so that they add up exactly.

    Parameters
    ----------
    states
        Number of states of the chain.
    costs
        Costs of operations.
    """

    def __init__(self, states: int, costs: CostTable) -> None:
        self._width = states + _EXTRA
        self._observed, self._stayed, self._met, self._time = np.zeros((4, self._width * self._width), np.int64)
        self._cost = {key: round(value * 1000) for key, value in costs.nanoseconds.items()}

    def count(self, lifetimes: Lifetimes, piece: Piece) -> None:
        """Count the events that partial matches met, and the partial matches and matches that resulted."""
        record, states = lifetimes.record, lifetimes.states
        for number, last in lifetimes.windows(np.flatnonzero(lifetimes.stored)):
            stays, moves = lifetimes.met(number, last, piece)
            self._add(states[number], states[number], stays, stayed=True)
            self._met += self._summed(states[number], states[number], stays + moves)
            used_up = moves & (lifetimes.successor[number] == GONE)
            self._add(states[number[used_up]], GONE, 1)
        for number, last, row in lifetimes.rows():
            staying, moving = lifetimes.visits(number, last, row, piece)
            self._spend(states[number], states[number], staying, "visited")
            self._spend(states[number], lifetimes.successor[number], moving, "visited")
        created = np.flatnonzero(lifetimes.born & piece.owns(record.events))
        source = np.where(record.parents < 0, START, states[record.parents])
        for number, _ in lifetimes.windows(created):
            rows, matches = number[lifetimes.stored[number]], number[lifetimes.matched[number]]
            self._add(source[rows], states[rows], 1)
            self._spend(source[rows], states[rows], 1, "created")
            self._add(source[matches], MATCH, 1)
            self._spend(source[matches], MATCH, 1, "match")

    def add_start(self, met: int, stays: int, events: int, relevant: int) -> None:
        """Count for the start state: how often it met an event and stayed, and the costs of the owned events."""
        start = np.array([START])
        self._met += self._summed(start, START, met)
        self._add(start, START, stays, stayed=True)
        self._spend(start, START, events, "event")
        self._spend(start, START, relevant, "relevant")

    def _summed(self, source: Ints, target: Ints | int, counts: Ints | int) -> Ints:
        cells = (source + _EXTRA) * self._width + (np.asarray(target) + _EXTRA)
        weights = np.broadcast_to(np.asarray(counts, np.float64), cells.shape)
        sums: Ints = np.bincount(cells, weights, len(self._observed)).astype(np.int64)
        return sums

    def _add(self, source: Ints, target: Ints | int, counts: Ints | int, stayed: bool = False) -> None:
        sums = self._summed(source, target, counts)
        self._observed += sums
        if stayed:
            self._stayed += sums

    def _spend(self, source: Ints, target: Ints | int, counts: Ints | int, operation: str) -> None:
        self._time += self._summed(source, target, counts) * self._cost[operation]

    def pairs(self) -> tuple[Ints, Ints]:
        """Return source and target of the observed pairs, ascending."""
        source, target = np.divmod(self._nonzero(), self._width)
        return source - _EXTRA, target - _EXTRA

    def sums(self) -> tuple[Ints, Ints, Ints, Floats]:
        """Return for each pair the observations, those that stayed, how often events were met, and the time in ns."""
        cells = self._nonzero()
        return self._observed[cells], self._stayed[cells], self._met[cells], self._time[cells] / 1000

    def _nonzero(self) -> Ints:
        return np.flatnonzero((self._observed > 0) | (self._met > 0) | (self._time > 0))
