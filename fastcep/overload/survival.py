"""Share of the matches of a pattern whose events are all kept."""

from __future__ import annotations

import math
from collections.abc import Callable

from fastcep.query import ast
from fastcep.query.patterns import sub_patterns

__all__ = ["survival"]


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
