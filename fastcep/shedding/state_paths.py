"""Paths of partial matches through the states of a plan."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep.overload.protocols import Floats
from fastcep.plan import Plan

__all__ = ["StatePaths", "state_paths"]

_START = -1
_MOST = 64  # number of plans whose paths are cached


def state_paths(plan: Plan) -> StatePaths:
    """Return the paths of a plan, cached because decisions are frequent."""
    entry = _CACHE.get(id(plan))
    if entry is None or entry[0] is not plan:
        while len(_CACHE) >= _MOST:
            del _CACHE[next(iter(_CACHE))]
        entry = _CACHE[id(plan)] = plan, StatePaths(plan)
    return entry[1]


class StatePaths:
    """Shortest path from the start to each state of a plan.

    Parameters
    ----------
    plan
        Plan with the row store.

    Attributes
    ----------
    stored
        Per state, whether it has rows, which can be refused and dropped. A state without an index only reports matches.
    variables
        Per state, the variables that its rows bind, including all variables of a repeated group.
    births
        Number of births that lead to a match, on the longest of the paths; at least 1.
    """

    def __init__(self, plan: Plan) -> None:
        self.stored: npt.NDArray[np.bool_] = np.array([bool(state.indexes) for state in plan.states], bool)
        variables_of = [(variable,) for variable in range(len(plan.negated))] + list(plan.groups)
        self.variables = [
            tuple(variable for binding in state.bindings for variable in variables_of[binding]) for state in plan.states
        ]
        self._order, self._before = _shortest(plan)
        loops = {edge.target for edge in plan.edges if edge.source == edge.target}
        # A match is reported even if its own row is refused, but most matches with a further round of a loop come from
        # rows of the accepting state itself.
        self._reporting = [
            number if number in loops and self.stored[number] else self._before[number]
            for number in self._order
            if plan.states[number].accepting
        ]
        passed = self._sum(self.stored.astype(float))
        self.births = max((passed[number] for number in self._reporting if number != _START), default=1.0) or 1.0

    def survival(self, keep: Floats) -> Floats:
        """Return per state the share of partial matches of which no birth was refused, given ``keep`` per state."""
        left = np.ones(len(keep))
        for number in self._order:
            before = self._before[number]
            left[number] = keep[number] * (1.0 if before == _START else left[before])
        return left

    def match_survival(self, left: Floats) -> float:
        """Return the share of the matches that are found, given the share left per state; all paths weigh the same."""
        return float(np.mean([1.0 if number == _START else left[number] for number in self._reporting] or [1.0]))

    def _sum(self, values: Floats) -> Floats:
        total = np.zeros(len(values))
        for number in self._order:
            before = self._before[number]
            total[number] = values[number] + (0.0 if before == _START else total[before])
        return total


def _shortest(plan: Plan) -> tuple[list[int], dict[int, int]]:
    """Return the states by distance from the start, and the predecessor of each."""
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


#: Cached paths by the address of their plan; the reference to the plan keeps the address valid.
_CACHE: dict[int, tuple[Plan, StatePaths]] = {}
