"""Share of the matches of a pattern whose events are all kept."""

from __future__ import annotations

import math
from collections.abc import Callable

from fastcep.query import ast
from fastcep.query.patterns import sub_patterns

__all__ = ["survival"]


def survival(pattern: ast.Pattern, keep: Callable[[tuple[str, ...]], float], *, repeats: bool = True) -> float:
    """Return the share of a pattern's matches whose events are all kept.

    Parameters
    ----------
    pattern
        The pattern. A repeated variable counts as often as it must be bound, at least once, because the number of
        events that it will bind is unknown. The branches of an ``OR`` count as equally frequent.
    keep
        Function from the event types of a variable to the probability of keeping an event.
    repeats
        Whether each event that a variable must bind counts. Otherwise a variable counts once, as does an ``ANY``.
    """

    def part_survival(part: ast.Pattern) -> float:
        return survival(part, keep, repeats=repeats)

    match pattern:
        case ast.Variable():
            return keep(pattern.types) ** (max(pattern.minimum, 1) if repeats else 1)
        case ast.Negation():
            return 1.0
        case ast.Disjunction():
            return sum(map(part_survival, pattern.patterns)) / len(pattern.patterns)
        case ast.AnyOf() if not pattern.variables[0].repeated:
            mean = sum(map(part_survival, pattern.variables)) / len(pattern.variables)
            return float(mean ** (pattern.count if repeats else 1))
        case ast.Group():
            return part_survival(pattern.pattern) ** (max(pattern.minimum, 1) if repeats else 1)
        case ast.Aperiodic() | ast.Periodic():
            return math.prod(map(part_survival, sub_patterns(pattern)[:-1]))
    return math.prod(map(part_survival, sub_patterns(pattern)))
