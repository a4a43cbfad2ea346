"""From a demand to chances: what shall be kept, so that the work shrinks by the share that is demanded.

The control corrects what is wrong with these estimates, as long as they are monotone and continuous. They take it that

* an event costs partial matches and matches that it is part of: where each event is kept with chance ``q``, a match of
  ``m`` events is left with ``q ** m``, and so is, roughly, the work;
* the same holds for the births of partial matches, ``m`` of which lead to a match.

A *weight* says how much more than others something is dropped: it is kept with ``q ** weight``. Weights have mean 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from fastcep.overload.protocols import Floats, QueryView
from fastcep.plan import Plan
from fastcep.query import ast
from fastcep.query.patterns import sub_patterns

__all__ = ["LEAST_WEIGHT", "Counts", "events_of", "keep_of", "survival", "weights_of"]

#: Nothing is so dear that it is dropped less than this: else there could be no relief without it.
LEAST_WEIGHT = 0.05


def keep_of(demand: float, parts: float) -> float:
    """With which chance each of so many parts is kept, if a share ``demand`` of their work is to be saved."""
    return float((1 - min(max(demand, 0.0), 1.0)) ** (1 / max(parts, 1.0)))


def weights_of(utility: Floats, frequency: Floats) -> Floats:
    """How much more than others each is dropped: the more, the less its utility; of mean 1 over what is counted.

    Inversely proportional to the utility, which is taken to be at least a twentieth of the largest one: so what differs
    little is treated nearly alike.
    """
    best = float(utility.max(initial=0.0))
    if best <= 0:
        return np.ones(len(utility))
    inverse = best / (utility + LEAST_WEIGHT * best)
    total = float(frequency.sum())
    mean = float(inverse @ frequency) / total if total > 0 else float(inverse.mean())
    return LEAST_WEIGHT + (1 - LEAST_WEIGHT) * inverse / mean


def survival(pattern: ast.Pattern, keep: Callable[[tuple[str, ...]], float]) -> float:
    """The share of a pattern's matches all of whose events are kept, by the chance for an event of some types.

    A repeated variable counts as often as it must be bound, at least once: how many events it will bind is not known.
    The branches of an ``OR`` count as equally frequent.
    """
    match pattern:
        case ast.Member():
            return keep(pattern.types) ** max(pattern.minimum, 1)
        case ast.Negation():
            return 1.0
        case ast.Disjunction():
            return sum(survival(part, keep) for part in pattern.members) / len(pattern.members)
        case ast.AnyOf() if not pattern.members[0].repeated:
            mean = sum(survival(part, keep) for part in pattern.members) / len(pattern.members)
            return float(mean**pattern.count)
        case ast.Group():
            return survival(pattern.pattern, keep) ** max(pattern.minimum, 1)
        case ast.Aperiodic() | ast.Periodic():
            return math.prod(survival(part, keep) for part in sub_patterns(pattern)[:-1])
    return math.prod(survival(part, keep) for part in sub_patterns(pattern))


def events_of(pattern: ast.Pattern) -> float:
    """How many events a match has, counted as in `survival`: the power to which a chance for all of them comes in."""
    return -math.log2(survival(pattern, lambda _: 0.5))


class Counts:
    """What the matchers have counted by event type, over all queries, each with its weight.

    Parameters
    ----------
    views
        Of all queries, which have one schema.

    Attributes
    ----------
    relevant
        Which types some query can bind, negated variables included.
    bindable
        Which types some query can bind to a variable that is not negated.
    repetition
        How many variables bind events of the type.
    frequency
        Events that some variable could bind, those that were dropped included.
    selectivity
        Partial matches and matches per partial match that was tried; 1 as long as none was.
    """

    def __init__(self, views: Sequence[QueryView]) -> None:
        types = len(views[0].plan.type_members)
        self.relevant = np.zeros(types, bool)
        self.bindable = np.zeros(types, bool)
        self.repetition, self.frequency, tried, yielded = np.zeros((4, types))
        for view in views:
            plan, counted = view.plan, view.counted
            members = np.array([bound_by(plan, number) for number in range(types)]).reshape(types, -1)
            weight = plan.query.weight
            self.relevant |= members.any(axis=1)
            self.bindable |= (members & ~np.array(plan.negated, bool)).any(axis=1)
            self.repetition += weight * members.sum(axis=1)
            self.frequency += weight * counted["seen"] / 256
            tried += weight * counted["tried"]
            yielded += weight * counted["yielded"]
        self.selectivity = np.divide(yielded, tried, out=np.ones(types), where=tried > 0)

    def mean(self, types: Sequence[int], values: Floats) -> float:
        """The mean over events of some types of a value by type; over the types, as long as no event was seen."""
        chosen, frequency = values[list(types)], self.frequency[list(types)]
        total = float(frequency.sum())
        return float(chosen @ frequency) / total if total > 0 else float(chosen.mean())


def bound_by(plan: Plan, number: int) -> list[bool]:
    """By variable whether it may bind events of the type with this number."""
    return [bool(plan.type_members[number] >> member & 1) for member in range(len(plan.negated))]
