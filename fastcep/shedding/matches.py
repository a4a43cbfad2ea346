"""Baselines that drop partial matches: at random, or by the selectivity of their events."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from fastcep.overload.drop_plan import DropPlan
from fastcep.overload.protocols import Floats, QueryView
from fastcep.shedding.baseline import Baseline
from fastcep.shedding.drop_probabilities import TypeCounts, binding_variables, drop_weights, keep_probability
from fastcep.shedding.state_paths import StatePaths, state_paths

__all__ = ["BernoulliMatches", "RandomMatches", "SelectivityMatches"]


#: Largest probability of dropping a live partial match. A few are always kept, as the recall is estimated from them.
_MOST = 0.99


class _Births(Baseline):
    """Refuses births, and drops the live partial matches whose births would have been refused.

    Refusing births alone lowers the load only in the course of a window. When the demand grows, live partial matches
    are therefore dropped until as few are left as if the demand had always been that large. The share to keep of a
    state follows from the probabilities of the births along its path. A demand that falls and rises again within a
    window does not drop them again. Subclasses define the weights of the states.
    """

    drops_matches = True
    limits_backlog = False

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return a drop plan for each query that saves the share ``demand`` of the work."""
        if demand <= 0:
            return [DropPlan() for _ in views]
        return [self._drop_plan(demand, before, view) for view in views]

    def _drop_plan(self, demand: float, before: float, view: QueryView) -> DropPlan:
        paths = state_paths(view.plan)
        weights = self._weights(view, paths)
        keep = np.where(paths.stored, keep_probability(demand, paths.births) ** weights, 1.0)
        left = paths.survival(keep)
        drop_plan = DropPlan(births=_by_class(1 - keep, view), kept=paths.match_survival(left))
        if demand > before:
            present = paths.survival(np.where(paths.stored, keep_probability(before, paths.births) ** weights, 1.0))
            share_left = np.divide(left, present, out=np.ones_like(left), where=present > 0)
            drops = np.where(paths.stored, 1 - share_left, 0.0)
            drop_plan.drops = _by_cell(drops.clip(0, 1), view)
            drop_plan.left = paths.match_survival(left) / max(paths.match_survival(present), 1e-9)
        return drop_plan

    @abstractmethod
    def _weights(self, view: QueryView, paths: StatePaths) -> Floats:
        """Return the weight of each state, with mean 1."""


class RandomMatches(_Births):
    """Drops partial matches at random: the baseline *RS*.

    Births are refused with the same probability in all states.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    """

    name = "rs"

    def _weights(self, view: QueryView, paths: StatePaths) -> Floats:
        return np.ones(len(paths.stored))


class SelectivityMatches(_Births):
    """Drops partial matches of low selectivity with higher probability: the baseline *SS*.

    The utility of a partial match is the product of the selectivities (see `SelectivityEvents`) of the types of its
    events, as counted so far.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    """

    name = "ss"

    def _weights(self, view: QueryView, paths: StatePaths) -> Floats:
        plan, counts = view.plan, TypeCounts([view])
        bindable = np.array([binding_variables(plan, number) for number in range(len(plan.type_variables))])
        by_variable = [counts.mean(np.flatnonzero(types).tolist(), counts.selectivity) for types in bindable.T]
        utility = np.array([np.prod([by_variable[variable] for variable in bound]) for bound in paths.variables])
        born = (view.counted["born"] + view.counted["refused"]).sum(axis=1).astype(float)
        weights = np.ones(len(paths.stored))
        weights[paths.stored] = drop_weights(utility[paths.stored], born[paths.stored])
        return weights


class BernoulliMatches(Baseline):
    """Drops live partial matches with the same probability: the baseline *PM-BL* of pSPICE.

    "A random partial match dropper (denoted by PM-BL) that uses Bernoulli distribution to drop PMs" (pSPICE, section
    IV-A): while there is a demand, each decision drops every live partial match with this probability. No birth is
    refused. The probability is the one that saves the demanded share of the work if applied at each decision. When the
    demand grows, the probability is increased so that one decision saves the additional share.

    Parameters
    ----------
    seed
        Seed of all random decisions.
    """

    name = "pm-bl"
    drops_matches = True
    limits_backlog = False
    often = True

    def decide(self, demand: float, before: float, views: Sequence[QueryView]) -> Sequence[DropPlan]:
        """Return a drop plan for each query with the live partial matches to drop now."""
        if demand <= 0:
            return [DropPlan() for _ in views]
        drop_plans = []
        for view in views:
            paths = state_paths(view.plan)
            steady = _steady_probability(1 - demand, view.decisions)
            probability = min(max(steady, 1 - (1 - demand) / (1 - before)), _MOST)
            drops = _by_cell(np.where(paths.stored, probability, 0.0), view)
            drop_plans.append(DropPlan(drops=drops, left=1 - probability if paths.stored.any() else 1.0))
        return drop_plans


def _steady_probability(keep: float, decisions: float) -> float:
    """Return the probability of dropping a row at each decision of a window so that it lives for the share ``keep``.

    With probability ``p`` and ``D`` decisions it lives on average for ``(1 - (1 - p) ** D) / (D * p)`` of the window.
    """
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        if (1 - (1 - middle) ** decisions) / (decisions * middle) > keep:
            low = middle
        else:
            high = middle
    return high


def _by_class(probabilities: Floats, view: QueryView) -> Floats:
    return np.repeat(probabilities[:, None], view.classes, axis=1)


def _by_cell(probabilities: Floats, view: QueryView) -> Floats:
    return np.repeat(_by_class(probabilities, view)[:, :, None], view.slices, axis=2)
