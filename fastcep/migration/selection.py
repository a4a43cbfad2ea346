"""Choose the partial states to send before a deadline: the most utility within a capacity in bytes (paper 4, RQ3)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from fastcep.errors import ValidationError
from fastcep.migration.approximation import SMALLEST_EPSILON, approximate
from fastcep.migration.automatic import best_within
from fastcep.migration.greedy import Mask, greedy, in_random_order, upper_bound
from fastcep.migration.scaled import dynamic_programming
from fastcep.migration.states import Ints, States
from fastcep.option_checks import check_whole, duration_option

__all__ = ["METHODS", "Method", "Plan", "plan"]

Method = Literal["auto", "greedy", "dp", "fptas", "random"]
METHODS: tuple[str, ...] = get_args(Method)


@dataclass(frozen=True, eq=False)
class Plan:
    """The states to send, in their order.

    Attributes
    ----------
    selected
        int64[k]: positions of the states that fit in the capacity, in the order in which to send them: by descending
        utility density; random order for the method ``"random"``.
    rest
        int64[n - k]: positions of the other states, in the order in which to send them while the old host still lives.
    method
        The method that was used: ``"greedy"``, ``"dp"``, ``"fptas"`` or ``"random"``.
    capacity
        The capacity, in bytes.
    size
        Size of the selected states, in bytes.
    utility
        Utility of the selected states.
    upper_bound
        No selection has more utility than this.
    """

    selected: Ints
    rest: Ints
    method: str
    capacity: int
    size: int
    utility: float
    upper_bound: float

    @property
    def order(self) -> Ints:
        """int64[n]: all states in the order in which to send them, first the selected ones."""
        return np.concatenate([self.selected, self.rest])


def plan(
    states: States,
    capacity: int,
    method: str = "auto",
    *,
    epsilon: float = 0.02,
    seed: int = 0,
    time_budget: str = "200ms",
) -> Plan:
    """Select the partial states that are sent before the deadline.

    Parameters
    ----------
    states
        The partial states.
    capacity
        Bytes that can be sent, at least 0; see `capacity_of`.
    method
        - ``"greedy"``: by descending utility per byte; a state that does not fit is skipped.
        - ``"dp"``: the best selection for utilities that are scaled to 0..100 and rounded.
        - ``"fptas"``: at least ``1 - epsilon`` of the largest possible utility.
        - ``"random"``: in a random order; for comparison.
        - ``"auto"``: greedy, and if that can be far from the best selection, also dp and fptas, as far as they are
          expected to keep the time budget; the best result.
    epsilon
        Share of the utility that ``"fptas"`` may lose, from 0.001 to below 1.
    seed
        Seed of ``"random"``.
    time_budget
        Time that ``"auto"`` may take, such as ``"200ms"``. The times of the methods are estimated from the number of
        states, not measured, so the same states give the same plan.

    Returns
    -------
    Plan

    Raises
    ------
    ValidationError
        If an argument is wrong, or ``"fptas"`` needs more than 512 MiB.
    """
    _check_arguments(states, capacity, method, epsilon, seed)
    budget = duration_option("time_budget", time_budget)
    room = min(int(capacity), states.total_size)
    order: Ints | None = None
    if method == "random":
        chosen, order = in_random_order(states, room, int(seed))
    elif method == "auto":
        chosen, method = best_within(states, room, epsilon, budget)
    else:
        chosen = _SOLVERS[method](states, room, epsilon)
    return _plan(states, chosen, states.by_density if order is None else order, method, int(capacity), room)


_SOLVERS = {
    "greedy": lambda states, capacity, epsilon: greedy(states, capacity),
    "dp": lambda states, capacity, epsilon: dynamic_programming(states, capacity),
    "fptas": approximate,
}


def _plan(states: States, chosen: Mask, order: Ints, method: str, capacity: int, room: int) -> Plan:
    selected, rest = order[chosen[order]], order[~chosen[order]]
    utility = float(states.utility[selected].sum())
    return Plan(
        selected, rest, method, capacity, int(states.size[selected].sum()), utility,
        max(upper_bound(states, room), utility),
    )  # fmt: skip


def _check_arguments(states: Any, capacity: Any, method: Any, epsilon: Any, seed: Any) -> None:
    if not isinstance(states, States):
        raise ValidationError(f"states: {type(states).__name__}; expected fc.migration.States(size, utility)")
    if not _is_integer(capacity) or capacity < 0:
        raise ValidationError(f"capacity={capacity!r}: expected a whole number of bytes, at least 0; see capacity_of")
    if method not in METHODS:
        raise ValidationError(f"method={method!r}: expected one of {', '.join(METHODS)}")
    number = isinstance(epsilon, int | float | np.floating) and not isinstance(epsilon, bool)
    if not (number and SMALLEST_EPSILON <= epsilon < 1):
        raise ValidationError(f"epsilon={epsilon!r}: expected a number from {SMALLEST_EPSILON} to below 1")
    check_whole("seed", int(seed) if isinstance(seed, np.integer) else seed, 0)


def _is_integer(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)
