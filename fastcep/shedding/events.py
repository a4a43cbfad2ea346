"""Baselines that drop events: at random, by selectivity, or by the frequency of types in the pattern and the stream.

An event is dropped for all queries or for none: the drop plans of all queries have the same table. Dropping events of a
negated variable can cause false matches.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Floats, QueryView
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.drop_probabilities import TypeCounts, drop_weights, events_per_match, keep_probability, survival

__all__ = ["PatternWeightedEvents", "RandomEvents", "SelectivityEvents", "TypeWeightedEvents"]


class _Events(Baseline):
    """Drops events with a probability per type; subclasses define the weights of the types."""

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return a drop plan for each query that saves the share ``demand`` of the work."""
        if demand <= 0 or not views:
            return [DropPlan() for _ in views]
        counts = TypeCounts(views)
        mean_keep = keep_probability(demand, _mean_events_per_match(views))
        keep = np.where(counts.relevant, mean_keep ** self._weights(counts), 1.0)
        probabilities = 1 - keep
        return [self._drop_plan(view, probabilities, _kept_share(view, keep, counts)) for view in views]

    @abstractmethod
    def _weights(self, counts: TypeCounts) -> Floats:
        """Return the weight of each type, with mean 1."""

    def _drop_plan(self, view: QueryView, probabilities: Floats, kept: float) -> DropPlan:
        return DropPlan(events=probabilities, kept=kept)


class RandomEvents(_Events):
    """Drops events of all types that a query can bind with the same probability: the baseline *RI*.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    """

    name = "ri"

    def _weights(self, counts: TypeCounts) -> Floats:
        return np.ones(len(counts.frequency))


class SelectivityEvents(_Events):
    """Drops events of types of low selectivity with higher probability: the baseline *SI*.

    The selectivity of a type is the number of partial matches and matches created with its events, per partial match
    tried, as counted so far. Events of negated variables create none, so they get the mean weight.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    """

    name = "si"

    def _weights(self, counts: TypeCounts) -> Floats:
        counted = counts.bindable
        weights = np.ones(len(counted))
        weights[counted] = drop_weights(counts.selectivity[counted], counts.frequency[counted])
        return weights


class TypeWeightedEvents(_Events):
    """Drops events of types that are rare in the pattern and in the stream: the baseline *E-BL* of pSPICE.

    "An event type … receives a higher utility proportional to its repetition in patterns and in windows. Then,
    depending on event type utilities, it uses uniform sampling to decide which events to drop from the same event type"
    (pSPICE, section IV-A). Here the utility is the product of both counts. The paper drops events from single windows;
    here an event is dropped from all windows, so that any kind of window is supported.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    """

    name = "e-bl"

    def _weights(self, counts: TypeCounts) -> Floats:
        relevant = counts.relevant
        weights = np.ones(len(relevant))
        utility = counts.repetition * counts.frequency
        weights[relevant] = drop_weights(utility[relevant], counts.frequency[relevant])
        return weights


class PatternWeightedEvents(TypeWeightedEvents):
    """Drops events from single windows by the frequency of their types: the baseline *BL* of eSPICE.

    "BL assigns utility values to the primitive events in a window depending on the repetition of those primitive events
    in the pattern and on their frequencies in windows … Depending on the event utility, BL decides the amount of events
    that should be dropped from each event type in a window, where it uses uniform sampling" (eSPICE, evaluation). The
    weights are those of `TypeWeightedEvents`. With explicit windows an event is dropped from each of its windows
    independently, whatever its position in the window. Under ``WITHIN`` an event is dropped as a whole.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    """

    name = "bl"
    in_windows = True

    def _drop_plan(self, view: QueryView, probabilities: Floats, kept: float) -> DropPlan:
        windows = view.plan.windows
        if windows is None or not windows.isolated:
            return DropPlan(events=probabilities, kept=kept)
        return DropPlan(windows=np.ascontiguousarray(probabilities[:, None]), bin=1, kept=kept)


def _mean_events_per_match(views: Sequence[QueryView]) -> float:
    """Return the number of events in a match, as a mean over the queries by weight."""
    weights = [view.plan.query.weight for view in views]
    lengths = [events_per_match(view.plan.query.pattern) for view in views]
    return float(np.average(lengths, weights=weights if sum(weights) > 0 else None))


def _kept_share(view: QueryView, keep: Floats, counts: TypeCounts) -> float:
    query = view.plan.query
    number = {name: place for place, name in enumerate(query.schema.type_names)}

    def keep_any(types: tuple[str, ...]) -> float:
        return counts.mean([number[name] for name in types], keep)

    return survival(query.pattern, keep_any)
