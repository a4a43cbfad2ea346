"""Baselines that drop events: drop probabilities by type for a demand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shedding.shed_views import Q1, view

from fastcep.shedding import PatternWeightedEvents, RandomEvents, SelectivityEvents, TypeWeightedEvents
from fastcep.shedding.drop_probabilities import LEAST_WEIGHT, drop_weights, events_per_match, keep_probability

SHEDDERS = (RandomEvents, SelectivityEvents, TypeWeightedEvents, PatternWeightedEvents)
COUNTED = {"seen": [100, 300, 50, 0], "tried": [100, 900, 400, 0], "yielded": [100, 300, 20, 0]}
DEMANDS = np.linspace(0, 1, 101)


def probabilities(shedder: type[RandomEvents], demand: float, text: str = Q1) -> list[float]:
    (drop_plan,) = shedder().decide(demand, 0.0, [view(text, **COUNTED)])
    return [0.0] * 4 if drop_plan.events is None else drop_plan.events.tolist()


@pytest.mark.parametrize("shedder", SHEDDERS)
def test_chances_grow_with_the_demand_from_0_to_1(shedder: type[RandomEvents]) -> None:
    found = np.array([probabilities(shedder, demand) for demand in DEMANDS])
    assert (np.diff(found, axis=0) >= 0).all()
    assert found[0].tolist() == [0, 0, 0, 0]
    assert found[-1].tolist() == [1, 1, 1, 0]  # no variable binds D
    assert np.abs(np.diff(found[:91], axis=0)).max() < 0.15  # continuous
    assert (np.array(probabilities(shedder, 1e-9)) < 1e-6).all()


@pytest.mark.parametrize("shedder", SHEDDERS)
def test_the_same_each_time(shedder: type[RandomEvents]) -> None:
    assert probabilities(shedder, 0.37) == probabilities(shedder, 0.37)


def test_at_random_a_match_of_three_is_left_as_often_as_work_is() -> None:
    (drop_plan,) = RandomEvents().decide(0.488, 0.0, [view()])
    assert drop_plan.events == pytest.approx([0.2, 0.2, 0.2, 0])
    assert drop_plan.kept == pytest.approx(0.512)


def test_negated_types_are_dropped_too_but_cost_no_match() -> None:
    text = "PATTERN SEQ(A a, NEG D n, C c) WITHIN 8ms"
    (drop_plan,) = RandomEvents().decide(0.75, 0.0, [view(text)])
    assert drop_plan.events == pytest.approx([0.5, 0, 0.5, 0.5])
    assert drop_plan.kept == pytest.approx(0.25)
    (drop_plan,) = SelectivityEvents().decide(0.75, 0.0, [view(text, tried=[9, 0, 9, 9], yielded=[9, 0, 9, 0])])
    assert drop_plan.events == pytest.approx([0.5, 0, 0.5, 0.5])


def test_low_selectivity_is_dropped_more() -> None:
    a, b, c, _ = probabilities(SelectivityEvents, 0.5)  # selectivities 1, 1/3, 1/20
    assert a < b < c
    (drop_plan,) = SelectivityEvents().decide(0.5, 0.0, [view(seen=[5, 5, 5, 0])])  # nothing tried yet
    assert drop_plan.events is not None and np.ptp(drop_plan.events[:3]) == 0


def test_types_weigh_by_repetition_and_frequency() -> None:
    text = "PATTERN SEQ(A a, A b, B c, C d) WITHIN 8ms"
    a, b, c, _ = probabilities(TypeWeightedEvents, 0.5, text)  # 2 * 100, 1 * 300, 1 * 50
    assert b < a < c
    found = TypeWeightedEvents().decide(0.5, 0.0, [view(text, seen=[100, 200, 100, 0])])[0].events
    assert found is not None and found[0] == pytest.approx(found[1])


def test_what_was_dropped_changes_nothing() -> None:
    """Dropped events are included in the estimated frequencies."""
    one = TypeWeightedEvents().decide(0.5, 0.0, [view(seen=[100, 300, 50, 0], dropped_events=[60, 0, 0, 0])])[0].events
    assert one is not None and one.tolist() == probabilities(TypeWeightedEvents, 0.5)


def test_several_queries_drop_the_same_events() -> None:
    pair = "PATTERN SEQ(A a, D d) WITHIN 1ms"
    views = [view(**COUNTED), view(pair, weight=3.0, seen=[100, 0, 0, 900])]
    for shedder in (RandomEvents(), SelectivityEvents(), TypeWeightedEvents()):
        first, second = shedder.decide(0.6, 0.0, views)
        assert first.events is not None and second.events is first.events
        assert (first.events > 0).all()
    random = RandomEvents().decide(0.6, 0.0, views)
    q = 0.4 ** (1 / 2.25)  # events per match: (3 + 3 * 2) / (1 + 3)
    assert [drop_plan.kept for drop_plan in random] == pytest.approx([q**3, q**2])


def test_the_baseline_of_espice_drops_from_windows() -> None:
    explicit = "PATTERN SEQ(A a, B b) WINDOW EVERY 5 EVENTS CLOSE AFTER 10 EVENTS SELECT first"
    within, windowed = PatternWeightedEvents().decide(0.5, 0.0, [view(**COUNTED), view(explicit, **COUNTED)])
    assert within.windows is None and within.events is not None
    assert windowed.events is None and windowed.windows is not None and windowed.bin == 1
    assert windowed.windows[:, 0].tolist() == within.events.tolist()
    assert windowed.windows.shape == (4, 1)


@pytest.mark.parametrize(
    ("pattern", "events"),
    [
        ("SEQ(A a, B b, C c)", 3),
        ("SEQ(A a, B+ b[], NEG D n, C c)", 3),
        ("SEQ(A{3,} a[], B? b)", 4),
        ("AND(A a, B b)", 2),
        ("OR(SEQ(A a, B b), SEQ(C x, D y))", 2),
        ("ANY(2, A a, B b, C c)", 2),
        ("ANY(3, A a[])", 3),
        ("SEQ(A a, (SEQ(B b, C c)){2,} g[])", 5),
        ("APERIODIC(A a, B b, C c)", 2),
    ],
)
def test_how_many_events_a_match_has(pattern: str, events: float) -> None:
    assert events_per_match(view(f"PATTERN {pattern} WITHIN 8ms").plan.query.pattern) == pytest.approx(events)


def test_a_match_is_left_by_the_chances_of_its_types() -> None:
    (drop_plan,) = SelectivityEvents().decide(0.5, 0.0, [view("PATTERN SEQ((A|B) x, C c) WITHIN 8ms", **COUNTED)])
    assert drop_plan.events is not None
    a, b, c, _ = 1 - drop_plan.events
    assert drop_plan.kept == pytest.approx((100 * a + 300 * b) / 400 * c)


@given(
    st.lists(st.tuples(st.floats(0, 1e6), st.integers(0, 10**6)), min_size=1, max_size=6).filter(
        lambda drawn: sum(count for _, count in drawn) > 0
    )
)
def test_weights_have_mean_1_and_fall_with_the_utility(drawn: list[tuple[float, int]]) -> None:
    utility, frequency = np.array(drawn, float).T
    weights = drop_weights(utility, frequency)
    assert weights @ frequency / frequency.sum() == pytest.approx(1)
    assert (weights >= LEAST_WEIGHT).all()
    order = np.argsort(utility)
    assert (np.diff(weights[order]) <= 1e-9).all()


def test_what_is_kept() -> None:
    assert keep_probability(0.0, 3) == 1.0
    assert keep_probability(1.0, 3) == 0.0
    assert keep_probability(0.75, 2) == 0.5
    assert keep_probability(0.75, 0) == 0.25
