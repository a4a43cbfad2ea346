"""What follows of dropping classes: the same as the formulas say in plain Python, and the order that comes of it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st
from reference.cascades import Plain, flows

from fastcep._core.fit.cascade import Cascade

NEAR: dict[str, Any] = {"rel": 1e-6, "abs": 1e-6}  # shares are settled to 1e-9, of numbers up to some hundreds


def assert_alike(cascade: Cascade, plain: Plain) -> None:
    cost, found, *weights = plain.weights()
    assert (cascade.cost, cascade.matches) == (pytest.approx(cost, **NEAR), pytest.approx(found, **NEAR))
    for own, expected in zip(cascade.weights(), weights, strict=True):
        assert own == pytest.approx(expected, **NEAR)


@st.composite
def drops(draw: Any) -> tuple[Plain, list[tuple[bool, int, int]]]:
    plain = draw(flows())
    of_rows = st.tuples(st.just(False), st.integers(0, plain.groups - 1), st.integers(0, plain.slices))
    of_events = st.tuples(st.just(True), st.integers(0, plain.kinds - 1), st.just(0))
    return plain, draw(st.lists(st.one_of(of_rows, of_events), max_size=4))


@given(drops())
@settings(max_examples=min(100, settings().max_examples))
def test_each_drop_against_plain_python(given: tuple[Plain, list[tuple[bool, int, int]]]) -> None:
    plain, dropped = given
    cascade = plain.cascade()
    assert_alike(cascade, plain)
    for step in dropped:
        before = cascade.cost, cascade.matches
        cascade.drop([step])
        plain.drop(*step)
        assert_alike(cascade, plain)
        assert cascade.matches <= before[1] + 1e-6
        if plain.prices[2] <= min(plain.rows):
            assert cascade.cost <= before[0] + 1e-6


@given(flows(), st.sampled_from([(True, True), (True, False), (False, True)]))
@settings(max_examples=min(100, settings().max_examples))
def test_steps(plain: Plain, what: tuple[bool, bool]) -> None:
    """Each step is the least ratio of what was weighed before it, all free ones at once and first; nothing grows."""
    assume(plain.prices[2] <= min(plain.rows))
    cascade = plain.cascade(*what)
    start = cascade.cost, cascade.matches
    steps, left = cascade.steps()
    event(f"steps: {min(len(steps), 5)}")
    again = plain.cascade(*what)
    at = 0
    while at < len(steps):
        assert again.matches > 0
        ratios = _ratios(again, what)
        least = min(ratios.values())
        if least <= 0:  # of a group the first slice from which on nothing is lost, and its rest with it
            free = {step for step, ratio in ratios.items() if ratio <= 0}
            first = {step for step in free if step[0] or (step[0], step[1], step[2] - 1) not in free}
            chosen = {tuple(step) for step in steps[at : at + len(first)].tolist()}
            assert chosen == first
        else:
            chosen = {tuple(steps[at].tolist())}
            assert ratios[next(iter(chosen))] == pytest.approx(least, rel=1e-9)
        for step in chosen:
            again.drop([step])
        at += len(chosen)
        assert left[at - 1].tolist() == pytest.approx([again.cost, again.matches], **NEAR)
    assert all((steps[:, 0] == 1) <= what[0]) and all((steps[:, 0] == 0) <= what[1])
    for column, first in zip(left.T, start, strict=True):
        assert (np.diff(np.append(first, column)) <= 1e-6).all()
    if len(steps) and what[0]:
        assert left[-1, 1] == pytest.approx(0, abs=1e-6) or min(_ratios(again, what).values(), default=None) is None


def _ratios(cascade: Cascade, what: tuple[bool, bool]) -> dict[tuple[int, int, int], float]:
    """What is lost by what is saved, of each drop that saves anything."""
    lost, spent, event_lost, event_spent = cascade.weights()
    found: dict[tuple[int, int, int], float] = {}
    if what[1]:
        found = {(0, g, s): lost[g, s] / spent[g, s] for g, s in np.ndindex(*lost.shape) if spent[g, s] > 0}
    if what[0]:
        found |= {(1, k, 0): event_lost[k] / of for k, of in enumerate(event_spent) if of > 0}
    return found


def line(slices: int = 2) -> Plain:
    """Of 100 A come 40 B in each slice, of these 10 matches; kinds: A, B, C. C is looked for by B only."""
    children = [(-1, 0, 0, 0, 100.0, 0.0)]
    looks = []
    for s in range(slices):
        children += [(0, s, 1, 1, 40.0, 0.0), (1, s, 2, 2, 0.0, 10.0)]
        looks += [(0, s, 1, 200.0), (1, s, 2, 50.0)]
    return Plain(sorted(children), looks, 3, slices, 3, (1.0, 0.0, 0.0), [1.0] * 3)


def test_by_hand() -> None:
    cascade = line().cascade()
    assert (cascade.cost, cascade.matches) == (2 * 200 + 2 * 50 + 100 + 80, 20)
    lost, _, event_lost, event_spent = cascade.weights()
    by = 20 / 60  # of the matches of B in the second slice, by those that are born in it
    assert lost.tolist() == pytest.approx(np.array([[20, 10 * by], [20, 10], [0, 0]]))
    assert event_lost.tolist() == pytest.approx([20, 20, 20])
    assert event_spent.tolist() == pytest.approx([cascade.cost, cascade.cost - 100, 100])
    cascade.drop([(False, 1, 1)])  # B in the second slice: neither born nor looked at
    assert (cascade.cost, cascade.matches) == (2 * 200 + 50 + 100 + 40, 10)
    cascade.drop([(True, 1, 0)])  # no B
    assert (cascade.cost, cascade.matches) == (100, 0)


def test_ages() -> None:
    """What falls with age has made its children before: half of the second slice's B wait for those of the first."""
    cascade = line().cascade()
    cascade.drop([(False, 0, 1)])  # A in the second slice: no B are born there, but those of the first slice go on
    by = 40 / (40 + 20)  # of the B that live in the second slice, 20 of 60 on the mean were born in it
    assert cascade.cost == pytest.approx(200 + 100 + 40 + 50 + 50 * by)
    assert cascade.matches == pytest.approx(10 + 10 * by)


def test_what_is_refused_is_paid_for() -> None:
    plain = line(1)
    plain.prices, plain.rows = (1.0, 0.0, 2.0), [5.0] * 3
    cascade = plain.cascade()
    assert cascade.cost == 200 + 50 + 5 * 140
    cascade.drop([(False, 1, 0)])
    assert cascade.cost == 200 + 5 * 100 + 2 * 40


def test_rows_may_cost_what_their_group_does() -> None:
    plain = line(1)
    plain.prices, plain.rows = (0.0, 0.0, 0.0), [1.0, 2.0, 3.0]
    cascade = plain.cascade()
    assert cascade.cost == 100 + 2 * 40
    assert cascade.weights()[1].tolist() == [[100 + 2 * 40], [2 * 40], [0]]


def test_nothing() -> None:
    cascade = Plain([], [], 1, 1, 1, (1.0, 1.0, 1.0), [1.0]).cascade()
    steps, left = cascade.steps()
    assert (cascade.cost, cascade.matches, len(steps), len(left)) == (0, 0, 0, 0)


def test_wrong_numbers() -> None:
    plain = line()
    plain.children = [(7, 0, 0, 0, 1.0, 0.0)]
    with pytest.raises(AssertionError):
        plain.cascade()
    cascade = line().cascade()
    for step in ((True, 3, 0), (False, 3, 0), (False, 0, 3), (False, -1, 0)):
        with pytest.raises(AssertionError):
            cascade.drop([step])
