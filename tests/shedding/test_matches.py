"""Baselines that drop partial matches: drop probabilities by state for a demand."""

from __future__ import annotations

import numpy as np
import pytest
from support.shedding.shed_views import Q1, view

from fastcep.overload.drop_plan import DropPlan
from fastcep.shedding import BernoulliMatches, RandomMatches, SelectivityMatches
from fastcep.shedding.state_paths import StatePaths

COUNTED = {
    "seen": [100, 300, 50, 0], "tried": [100, 900, 400, 0], "yielded": [100, 300, 20, 0], "born": [100, 300, 0],
}  # fmt: skip
Q3 = "PATTERN SEQ(A a, B b, C c, D d) WITHIN 5ms"


def order(shedder: RandomMatches | BernoulliMatches, demand: float, before: float = 0.0, text: str = Q1) -> DropPlan:
    (drop_plan,) = shedder.decide(demand, before, [view(text, **(COUNTED if text == Q1 else {}))])
    return drop_plan


@pytest.mark.parametrize("shedder", [RandomMatches(), SelectivityMatches()])
def test_births_are_refused_the_more_the_more_is_demanded(shedder: RandomMatches) -> None:
    found = []
    for demand in np.linspace(0.01, 1, 100):
        births = order(shedder, demand).births
        assert births is not None
        found.append(births[:, 0])
    assert (np.diff(found, axis=0) >= 0).all()
    assert found[-1].tolist() == [1, 1, 0]  # the last state has no rows
    assert (found[0] < 0.05).all()
    assert order(shedder, 0.0) == DropPlan()
    again = order(shedder, 0.4).births
    assert again is not None and again[:, 0].tolist() == found[39].tolist()


def test_at_random_all_states_have_the_same_chance() -> None:
    drop_plan = order(RandomMatches(), 0.75)
    assert drop_plan.births is not None and drop_plan.drops is not None
    assert drop_plan.births[:, 0] == pytest.approx([0.5, 0.5, 0])
    assert drop_plan.kept == pytest.approx(0.25)


def test_growing_demand_drops_what_would_not_have_been_born() -> None:
    """From q = 0.8 to q = 0.6: the share left of (a) is 0.6 / 0.8, that of (a, b), with two births, its square."""
    drops = order(RandomMatches(), 0.64, 0.36).drops
    assert drops is not None
    assert drops[:, 0, 0] == pytest.approx([1 - 0.6 / 0.8, 1 - (0.6 / 0.8) ** 2, 0])
    first = order(RandomMatches(), 0.75).drops
    assert first is not None and first[:, 0, 0] == pytest.approx([0.5, 0.75, 0])
    assert order(RandomMatches(), 0.64, 0.64).drops is None
    assert order(RandomMatches(), 0.64, 0.9).drops is None
    assert order(RandomMatches(), 0.64, 1.0).drops is None


def test_tables_have_the_shapes_of_the_matcher() -> None:
    (drop_plan,) = RandomMatches().decide(0.5, 0.0, [view(classes=3, slices=4)])
    assert drop_plan.births is not None and drop_plan.births.shape == (3, 3)
    assert drop_plan.drops is not None and drop_plan.drops.shape == (3, 3, 4)


def test_low_selectivity_is_refused_more() -> None:
    births = order(SelectivityMatches(), 0.5).births  # (a): 1, (a, b): 1/3
    assert births is not None and births[0, 0] < births[1, 0]


def test_bernoulli_drops_live_ones_only() -> None:
    drop_plan = order(BernoulliMatches(), 0.3, 0.5)
    assert drop_plan.births is None and drop_plan.drops is not None
    probability = drop_plan.drops[0, 0, 0]
    assert drop_plan.drops[:, 0, 0].tolist() == [probability, probability, 0]
    lifetime = (1 - (1 - probability) ** 8) / (8 * probability)  # as a share of the window
    assert lifetime == pytest.approx(0.7)
    assert (drop_plan.known_kept(), drop_plan.left) == (1.0, 1 - probability)  # future matches are kept
    assert order(BernoulliMatches(), 0.0, 0.5) == DropPlan()
    grown = order(BernoulliMatches(), 0.3, 0.0)
    assert grown.drops is not None and grown.drops[0, 0, 0] == pytest.approx(0.3)  # at once


@pytest.mark.parametrize(
    ("pattern", "births"),
    [
        ("SEQ(A a, B b)", 1),
        ("SEQ(A a, B b, C c, D d)", 3),
        ("SEQ(A a, B+ b[], C c)", 2),
        ("SEQ(A a, B? b, C c)", 1),
        ("ANY(3, A a, B b, C c)", 2),
        ("OR(SEQ(A a, B b), SEQ(A x, C y, D z))", 2),
        ("ANY(3, A a[])", 1),
        ("SEQ(A a)", 1),
    ],
)
def test_how_many_births_lead_to_a_match(pattern: str, births: float) -> None:
    paths = StatePaths(view(f"PATTERN {pattern} WITHIN 8ms").plan)
    assert paths.births == births
    left = paths.survival(np.where(paths.stored, 0.5, 1.0))
    assert ((left > 0) & (left <= 1)).all()


def test_groups_bind_all_their_variables() -> None:
    paths = StatePaths(view("PATTERN SEQ(A a, (SEQ(B b, C c))+ g[], D d) WITHIN 1ms").plan)
    assert paths.variables == [(0,), (0, 1, 2), (0, 1, 2), (0, 3, 1, 2)]


def test_queries_are_shed_each_for_itself() -> None:
    first, second = RandomMatches().decide(0.488, 0.0, [view(), view(Q3)])
    assert first.births is not None and second.births is not None
    assert second.births[:, 0] == pytest.approx([0.2, 0.2, 0.2, 0])
    assert (first.kept, second.kept) == pytest.approx((0.512, 0.512))
