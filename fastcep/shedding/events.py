"""Baselines that drop events: at random, by selectivity, by how often types are in the pattern and in the stream.

An event is dropped for all queries or for none, so that their orders are one and the same table. Where the pattern has
a negated variable, dropping its events may bring matches that are none.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from fastcep.overload.protocols import DropPlan, Floats, QueryView
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.drop_probabilities import Counts, events_of, keep_of, survival, weights_of

__all__ = ["PatternWeightedEvents", "RandomEvents", "SelectivityEvents", "TypeWeightedEvents"]


class _Events(Baseline):
    """Drops events with chances per type; what is different is how much more some types are dropped."""

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Say for each query what to drop, to save the share ``demand`` of the work."""
        if demand <= 0 or not views:
            return [DropPlan() for _ in views]
        counts = Counts(views)
        keep = np.where(counts.relevant, keep_of(demand, _events_of(views)) ** self._weights(counts), 1.0)
        chances = 1 - keep
        return [self._order(view, chances, _survivors(view, keep, counts)) for view in views]

    @abstractmethod
    def _weights(self, counts: Counts) -> Floats:
        """How much more than others each is dropped: 1 in the mean."""

    def _order(self, view: QueryView, chances: Floats, kept: float) -> DropPlan:
        return DropPlan(events=chances, kept=kept)


class RandomEvents(_Events):
    """Drops events of all types that a query can bind with the same chance: the baseline *RI*.

    Parameters
    ----------
    seed
        Of what is drawn.
    """

    name = "ri"

    def _weights(self, counts: Counts) -> Floats:
        return np.ones(len(counts.frequency))


class SelectivityEvents(_Events):
    """Drops more events of types of low selectivity: the baseline *SI*.

    The selectivity of a type is the number of partial matches and matches that its events have led to, per partial
    match that was tried, as counted so far. That of events of negated variables, which lead to none, says nothing: they
    are dropped as the mean.

    Parameters
    ----------
    seed
        Of what is drawn.
    """

    name = "si"

    def _weights(self, counts: Counts) -> Floats:
        counted = counts.bindable
        weights = np.ones(len(counted))
        weights[counted] = weights_of(counts.selectivity[counted], counts.frequency[counted])
        return weights


class TypeWeightedEvents(_Events):
    """Drops events of types that are seldom in the pattern and in the stream: the baseline *E-BL* of pSPICE.

    "An event type … receives a higher utility proportional to its repetition in patterns and in windows. Then,
    depending on event type utilities, it uses uniform sampling to decide which events to drop from the same event type"
    (pSPICE, section IV-A). Here the utility is the product of both counts. The paper drops from windows; here an event
    is dropped as a whole, so that it works with every window.

    Parameters
    ----------
    seed
        Of what is drawn.
    """

    name = "e-bl"

    def _weights(self, counts: Counts) -> Floats:
        known = counts.relevant
        weights = np.ones(len(known))
        utility = counts.repetition * counts.frequency
        weights[known] = weights_of(utility[known], counts.frequency[known])
        return weights


class PatternWeightedEvents(TypeWeightedEvents):
    """Drops events from windows, by how often their types are in pattern and windows: the baseline *BL* of eSPICE.

    "BL assigns utility values to the primitive events in a window depending on the repetition of those primitive events
    in the pattern and on their frequencies in windows … Depending on the event utility, BL decides the amount of events
    that should be dropped from each event type in a window, where it uses uniform sampling" (eSPICE, evaluation). It is
    `TypeWeightedEvents`, but with explicit windows an event is dropped for each of its windows by itself, wherever in
    the window it stands. With ``WITHIN`` there are no windows to choose from, and an event is dropped as a whole.

    Parameters
    ----------
    seed
        Of what is drawn.
    """

    name = "bl"
    in_windows = True

    def _order(self, view: QueryView, chances: Floats, kept: float) -> DropPlan:
        windows = view.plan.windows
        if windows is None or not windows.isolated:
            return DropPlan(events=chances, kept=kept)
        return DropPlan(windows=np.ascontiguousarray(chances[:, None]), bin=1, kept=kept)


def _events_of(views: Sequence[QueryView]) -> float:
    """How many events a match has, as a mean over the queries by their weight."""
    weights = [view.plan.query.weight for view in views]
    lengths = [events_of(view.plan.query.pattern) for view in views]
    return float(np.average(lengths, weights=weights if sum(weights) > 0 else None))


def _survivors(view: QueryView, keep: Floats, counts: Counts) -> float:
    query = view.plan.query
    number = {name: place for place, name in enumerate(query.schema.type_names)}

    def chance(types: tuple[str, ...]) -> float:
        return counts.mean([number[name] for name in types], keep)

    return survival(query.pattern, chance)
