"""Sums over the lives of partial matches, by pairs of states."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep.overload.costs import CostTable
from fastcep.plan import Plan
from fastcep.plan.explain.facts import facts
from fastcep.plan.explain.text_helpers import place
from fastcep.shedding.counts.lifetimes import GONE, MATCH, START, Lifetimes
from fastcep.shedding.counts.piece import Ints, Piece

__all__ = ["GONE", "MATCH", "START", "TransitionSums", "state_names_of"]

Floats = npt.NDArray[np.float64]

_OTHERS = 3  # what is no state of the plan


def state_names_of(plan: Plan) -> list[str]:
    """The names of a plan's states, as `explain` gives them."""
    told = facts(plan)
    return [place(told, number) for number in range(len(plan.states))]


class TransitionSums:
    """Observations and their time, by pairs of states; times in picoseconds, so that they add up exactly.

    Parameters
    ----------
    states
        How many states the plan has.
    prices
        What operations cost.
    """

    def __init__(self, states: int, prices: CostTable) -> None:
        self._width = states + _OTHERS
        self._observed, self._stayed, self._time = np.zeros((3, self._width * self._width), np.int64)
        self._price = {key: round(value * 1000) for key, value in prices.nanoseconds.items()}

    def count(self, lives: Lifetimes, piece: Piece) -> None:
        """Count what partial matches met, and what came of them."""
        record, states = lives.record, lives.record.states
        for number, last in lives.windows(np.flatnonzero(lives.stored)):
            stays, moves = lives.met(number, last, piece)
            self._add(states[number], states[number], stays, stayed=True)
            used_up = moves & (lives.heir[number] == GONE)
            self._add(states[number[used_up]], GONE, 1)
        for number, last, row in lives.rows():
            staying, moving = lives.looks(number, last, row, piece)
            self._spend(states[number], states[number], staying, "visited")
            self._spend(states[number], lives.heir[number], moving, "visited")
        made = np.flatnonzero(lives.born & piece.owns(record.events))
        source = np.where(record.parents < 0, START, states[record.parents])
        for number, _ in lives.windows(made):
            rows, matches = number[lives.stored[number]], number[lives.matched[number]]
            self._add(source[rows], states[rows], 1)
            self._spend(source[rows], states[rows], 1, "created")
            self._add(source[matches], MATCH, 1)
            self._spend(source[matches], MATCH, 1, "match")

    def add_start(self, stays: int, events: int, relevant: int) -> None:
        """Count what begins partial matches: how often it stayed, and what the events cost that are owned."""
        at = np.array([START])
        self._add(at, START, stays, stayed=True)
        self._spend(at, START, events, "event")
        self._spend(at, START, relevant, "relevant")

    def _summed(self, source: Ints, target: Ints | int, counts: Ints | int) -> Ints:
        cells = (source + _OTHERS) * self._width + (np.asarray(target) + _OTHERS)
        weights = np.broadcast_to(np.asarray(counts, np.float64), cells.shape)
        found: Ints = np.bincount(cells, weights, len(self._observed)).astype(np.int64)
        return found

    def _add(self, source: Ints, target: Ints | int, counts: Ints | int, stayed: bool = False) -> None:
        found = self._summed(source, target, counts)
        self._observed += found
        if stayed:
            self._stayed += found

    def _spend(self, source: Ints, target: Ints | int, counts: Ints | int, operation: str) -> None:
        self._time += self._summed(source, target, counts) * self._price[operation]

    def pairs(self) -> tuple[Ints, Ints]:
        """Source and target of the pairs that were observed, ascending."""
        source, target = np.divmod(self._seen(), self._width)
        return source - _OTHERS, target - _OTHERS

    def sums(self) -> tuple[Ints, Ints, Floats]:
        """Per pair observations, those that stayed, and time in ns."""
        seen = self._seen()
        return self._observed[seen], self._stayed[seen], self._time[seen] / 1000

    def _seen(self) -> Ints:
        return np.flatnonzero((self._observed > 0) | (self._time > 0))
