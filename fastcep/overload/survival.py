"""Probabilities with which matches, and their events and partial matches, survive a drop plan."""

from __future__ import annotations

import math
from collections.abc import Callable

from fastcep.overload.protocols import DropPlan, drops
from fastcep.query import ast
from fastcep.query.patterns import sub_patterns

__all__ = ["drops_anything", "largest_weights", "survival"]


def drops_anything(plan: DropPlan) -> bool:
    """Return whether any probability of a drop plan is above 0."""
    return any(map(drops, (plan.events, plan.binds, plan.windows, plan.births, plan.drops)))


def largest_weights(plan: DropPlan) -> tuple[float, float] | None:
    """Return the two largest weights of types, variables or states; None if something is dropped for certain.

    A weight is the inverse of the probability of keeping.
    """
    keep = [1.0, 1.0]
    for table in (plan.events, plan.binds, plan.windows, plan.births, plan.drops):
        if table is not None:
            keep += (1 - table.reshape(len(table), -1).max(axis=1, initial=0.0)).tolist()
    smallest, second = sorted(keep)[:2]
    return (1 / smallest, 1 / second) if smallest > 1e-9 else None


def survival(pattern: ast.Pattern, keep: Callable[[tuple[str, ...]], float]) -> float:
    """Return the share of a pattern's matches whose events are all kept.

    Parameters
    ----------
    pattern
        The pattern. A repeated variable counts as often as it must be bound, at least once, because the number of
        events that it will bind is unknown. The branches of an ``OR`` count as equally frequent.
    keep
        Function from the event types of a variable to the probability of keeping an event.
    """
    match pattern:
        case ast.Variable():
            return keep(pattern.types) ** max(pattern.minimum, 1)
        case ast.Negation():
            return 1.0
        case ast.Disjunction():
            return sum(survival(part, keep) for part in pattern.patterns) / len(pattern.patterns)
        case ast.AnyOf() if not pattern.variables[0].repeated:
            mean = sum(survival(variable, keep) for variable in pattern.variables) / len(pattern.variables)
            return float(mean**pattern.count)
        case ast.Group():
            return survival(pattern.pattern, keep) ** max(pattern.minimum, 1)
        case ast.Aperiodic() | ast.Periodic():
            return math.prod(survival(part, keep) for part in sub_patterns(pattern)[:-1])
    return math.prod(survival(part, keep) for part in sub_patterns(pattern))
