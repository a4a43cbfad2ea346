"""The ways that partial matches go through the states of a plan."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import Floats
from fastcep.plan import Plan

__all__ = ["StatePaths", "ways_of"]

_START = -1
_MOST = 64  # plans whose ways are kept


def ways_of(plan: Plan) -> StatePaths:
    """The ways of a plan, found once: decisions are many."""
    known = _KNOWN.get(id(plan))
    if known is None or known[0] is not plan:
        while len(_KNOWN) >= _MOST:
            del _KNOWN[next(iter(_KNOWN))]
        known = _KNOWN[id(plan)] = plan, StatePaths(plan)
    return known[1]


class StatePaths:
    """From where partial matches come into each state, each state by the shortest way.

    Parameters
    ----------
    plan
        With rows.

    Attributes
    ----------
    stored
        By state whether there are rows of it, which may be refused and dropped; a state without an index only reports.
    members
        By state which variables its rows bind; those of a repeated group all count.
    births
        How many births lead to a match, by the longest of the ways; at least one.
    """

    def __init__(self, plan: Plan) -> None:
        self.stored: npt.NDArray[np.bool_] = np.array([bool(state.indexes) for state in plan.states], bool)
        of = [(member,) for member in range(len(plan.negated))] + list(plan.groups)
        self.members = [tuple(member for bound in state.bindings for member in of[bound]) for state in plan.states]
        self._order, self._before = _shortest(plan)
        loops = {edge.target for edge in plan.edges if edge.source == edge.target}
        # A match is reported also if its own row is refused; but most of those with one more round come from such rows.
        self._reporting = [
            number if number in loops and self.stored[number] else self._before[number]
            for number in self._order
            if plan.states[number].accepting
        ]
        passed = self._sum(self.stored.astype(float))
        self.births = max((passed[number] for number in self._reporting if number != _START), default=1.0) or 1.0

    def along(self, keep: Floats) -> Floats:
        """By state the share of its partial matches for which all births on the way were kept, by chance per state."""
        left = np.ones(len(keep))
        for number in self._order:
            before = self._before[number]
            left[number] = keep[number] * (1.0 if before == _START else left[before])
        return left

    def of_matches(self, left: Floats) -> float:
        """The share of the matches that are found, by what is left of each state; all ways count the same."""
        return float(np.mean([1.0 if number == _START else left[number] for number in self._reporting] or [1.0]))

    def _sum(self, values: Floats) -> Floats:
        total = np.zeros(len(values))
        for number in self._order:
            before = self._before[number]
            total[number] = values[number] + (0.0 if before == _START else total[before])
        return total


def _shortest(plan: Plan) -> tuple[list[int], dict[int, int]]:
    """The states in the order of their distance from the start, and of each the one before it."""
    before: dict[int, int] = {}
    order: list[int] = []
    frontier = [_START]
    while frontier:
        reached = []
        for source in frontier:
            for edge in plan.edges:
                if edge.source == source and edge.target not in before:
                    before[edge.target] = source
                    reached.append(edge.target)
        order += reached
        frontier = reached
    return order, before


#: By address; the plan is kept, so that the address is its own.
_KNOWN: dict[int, tuple[Plan, StatePaths]] = {}
