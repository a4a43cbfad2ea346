"""Drop probabilities for a demand: keep events or births so that the work shrinks by the demanded share.

These are estimates; the controller corrects them, as long as they are monotone and continuous in the demand. They
assume that

* the work is proportional to the matches: if each event is kept with probability ``q``, a match of ``m`` events is kept
  with ``q ** m``, and so is, roughly, the work;
* the same holds for the births of partial matches, ``m`` of which lead to a match.

A *weight* expresses how much more likely than others something is dropped: it is kept with probability ``q ** weight``.
Weights have mean 1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from fastcep.overload.protocols import Floats, QueryView
from fastcep.overload.survival import survival
from fastcep.plan import Plan
from fastcep.query import ast

__all__ = ["LEAST_WEIGHT", "TypeCounts", "drop_weights", "events_per_match", "keep_probability", "survival"]

#: Smallest weight, so that even the most useful items can be dropped if the demand requires it.
LEAST_WEIGHT = 0.05


def keep_probability(demand: float, parts: float) -> float:
    """Return the probability of keeping each of ``parts`` events or births that saves the share ``demand``."""
    return float((1 - min(max(demand, 0.0), 1.0)) ** (1 / max(parts, 1.0)))


def drop_weights(utility: Floats, frequency: Floats) -> Floats:
    """Return the weight of each item: inversely proportional to its utility, with mean 1 over its frequency.

    A twentieth of the largest utility is added to each utility, which limits the weights.
    """
    best = float(utility.max(initial=0.0))
    if best <= 0:
        return np.ones(len(utility))
    inverse = best / (utility + LEAST_WEIGHT * best)
    total = float(frequency.sum())
    mean = float(inverse @ frequency) / total if total > 0 else float(inverse.mean())
    return LEAST_WEIGHT + (1 - LEAST_WEIGHT) * inverse / mean


def events_per_match(pattern: ast.Pattern) -> float:
    """Return the number of events in a match, counted as in `survival`."""
    return -math.log2(survival(pattern, lambda _: 0.5))


class TypeCounts:
    """Counters by event type, summed over all queries by weight. All arrays are by type, in the schema's order.

    Parameters
    ----------
    views
        Views of all queries, which have one schema.

    Attributes
    ----------
    relevant
        True for types that some query can bind, including negated variables.
    bindable
        True for types that some query can bind to a variable that is not negated.
    repetition
        Number of variables that can bind events of the type.
    frequency
        Number of events that some variable could bind, including dropped ones.
    selectivity
        Number of partial matches and matches created per partial match tried; 1 if none was tried.
    """

    def __init__(self, views: Sequence[QueryView]) -> None:
        types = len(views[0].plan.type_variables)
        self.relevant = np.zeros(types, bool)
        self.bindable = np.zeros(types, bool)
        self.repetition, self.frequency, tried, yielded = np.zeros((4, types))
        for view in views:
            plan, counted = view.plan, view.counted
            variables = np.array([binding_variables(plan, number) for number in range(types)]).reshape(types, -1)
            weight = plan.query.weight
            self.relevant |= variables.any(axis=1)
            self.bindable |= (variables & ~np.array(plan.negated, bool)).any(axis=1)
            self.repetition += weight * variables.sum(axis=1)
            self.frequency += weight * counted["seen"] / 256
            tried += weight * counted["tried"]
            yielded += weight * counted["yielded"]
        self.selectivity = np.divide(yielded, tried, out=np.ones(types), where=tried > 0)

    def mean(self, types: Sequence[int], values: Floats) -> float:
        """Return the mean of a value by type over the events of some types; over the types, if there was no event."""
        chosen, frequency = values[list(types)], self.frequency[list(types)]
        total = float(frequency.sum())
        return float(chosen @ frequency) / total if total > 0 else float(chosen.mean())


def binding_variables(plan: Plan, number: int) -> list[bool]:
    """Return, per variable, whether it can bind events of the type with this number."""
    return [bool(plan.type_variables[number] >> variable & 1) for variable in range(len(plan.negated))]
