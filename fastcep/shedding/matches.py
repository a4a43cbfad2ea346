"""Baselines that drop partial matches: at random, or by the selectivity of what they bind."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from fastcep.overload.protocols import DropPlan, Floats, QueryView
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.drop_probabilities import Counts, bound_by, keep_of, weights_of
from fastcep.shedding.state_paths import StatePaths, ways_of

__all__ = ["BernoulliMatches", "RandomMatches", "SelectivityMatches"]


class _Births(Baseline):
    """Refuses births, and drops what would not have been born; what is different is how much more in some states.

    As long as a demand stands, births alone bring the load down, but only in the course of a window. So when it grows,
    live partial matches are dropped until as few are left as if it had always been so: of those of a state, the share
    that would have got there is known from the chances of the births on the way. A demand that comes and goes does not
    drop them anew.
    """

    drops_matches = True

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Say for each query what to drop, to save the share ``demand`` of the work."""
        if demand <= 0:
            return [DropPlan() for _ in views]
        return [self._order(demand, before, view) for view in views]

    def _order(self, demand: float, before: float, view: QueryView) -> DropPlan:
        ways = ways_of(view.plan)
        weights = self._weights(view, ways)
        keep = np.where(ways.stored, keep_of(demand, ways.births) ** weights, 1.0)
        left = ways.along(keep)
        orders = DropPlan(births=_by_class(1 - keep, view), kept=ways.of_matches(left))
        if demand > before:
            held = ways.along(np.where(ways.stored, keep_of(before, ways.births) ** weights, 1.0))
            drops = np.where(ways.stored, 1 - np.divide(left, held, out=np.ones_like(left), where=held > 0), 0.0)
            orders.drops = _by_cell(drops.clip(0, 1), view)
            orders.left = ways.of_matches(left) / max(ways.of_matches(held), 1e-9)
        return orders

    @abstractmethod
    def _weights(self, view: QueryView, ways: StatePaths) -> Floats:
        """How much more than others each is dropped: 1 in the mean."""


class RandomMatches(_Births):
    """Drops partial matches at random: the baseline *RS*.

    Births are refused with the same chance in all states.

    Parameters
    ----------
    seed
        Of what is drawn.
    """

    name = "rs"

    def _weights(self, view: QueryView, ways: StatePaths) -> Floats:
        return np.ones(len(ways.stored))


class SelectivityMatches(_Births):
    """Drops more partial matches whose events are of low selectivity: the baseline *SS*.

    What a partial match is worth is the product of the selectivities (see `SelectivityEvents`) of the types of what it
    binds, as counted so far.

    Parameters
    ----------
    seed
        Of what is drawn.
    """

    name = "ss"

    def _weights(self, view: QueryView, ways: StatePaths) -> Floats:
        plan, counts = view.plan, Counts([view])
        member_of = np.array([bound_by(plan, number) for number in range(len(plan.type_members))])
        by_member = [counts.mean(np.flatnonzero(types).tolist(), counts.selectivity) for types in member_of.T]
        utility = np.array([np.prod([by_member[member] for member in bound]) for bound in ways.members])
        born = (view.counted["born"] + view.counted["refused"]).sum(axis=1).astype(float)
        weights = np.ones(len(ways.stored))
        weights[ways.stored] = weights_of(utility[ways.stored], born[ways.stored])
        return weights


class BernoulliMatches(Baseline):
    """Drops live partial matches, each with the same chance: the baseline *PM-BL* of pSPICE.

    "A random partial match dropper (denoted by PM-BL) that uses Bernoulli distribution to drop PMs" (pSPICE, section
    IV-A): at every decision with a demand each is dropped with this chance. No birth is refused. The chance is the one
    with which, decision after decision, the demanded share of the work is saved; when the demand grows, as much more as
    saves it at once.

    Parameters
    ----------
    seed
        Of what is drawn.
    """

    name = "pm-bl"
    drops_matches = True
    often = True

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Say for each query what to drop now."""
        if demand <= 0:
            return [DropPlan() for _ in views]
        orders = []
        for view in views:
            ways = ways_of(view.plan)
            steady = _chance(1 - demand, view.decisions)
            chance = min(max(steady, 1 - (1 - demand) / (1 - before)), 1.0)
            drops = _by_cell(np.where(ways.stored, chance, 0.0), view)
            orders.append(DropPlan(drops=drops, left=1 - chance if ways.stored.any() else 1.0))
        return orders


def _chance(keep: float, decisions: float) -> float:
    """With which chance a row is dropped at each of a window's decisions, if it is to be there for a share of it.

    It is there, on the mean, for ``(1 - (1 - p) ** D) / (D * p)`` of the window.
    """
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if (1 - (1 - middle) ** decisions) / (decisions * middle) > keep:
            low = middle
        else:
            high = middle
    return high


def _by_class(chances: Floats, view: QueryView) -> Floats:
    return np.repeat(chances[:, None], view.classes, axis=1)


def _by_cell(chances: Floats, view: QueryView) -> Floats:
    return np.repeat(_by_class(chances, view)[:, :, None], view.slices, axis=2)
