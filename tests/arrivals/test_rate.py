"""Rates of arrivals, against exact arithmetic."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep import Rate
from fastcep.arrivals.rate import ArrivalCounter
from fastcep.errors import ValidationError

RATES = st.one_of(st.integers(1, 10**9).map(float), st.floats(0.01, 1e9))


@st.composite
def rates(draw: Any) -> Rate:
    if draw(st.booleans()):
        return Rate.constant(draw(RATES))
    lengths = draw(st.lists(st.integers(1, 10**11), min_size=1, max_size=4))
    return Rate(tuple(draw(RATES) for _ in lengths), tuple(lengths))


def test_a_constant_rate() -> None:
    assert Rate.constant(1_000_000).arrivals(7, 3).tolist() == [7000, 8000, 9000]
    assert Rate.constant(3).arrivals(0, 4).tolist() == [0, 333_333_333, 666_666_666, 1_000_000_000]
    assert Rate.constant(3).arrived([-1, 0, 333_333_332, 333_333_333, 10**9]).tolist() == [0, 1, 1, 2, 4]
    assert Rate.constant(5).mean == 5


def test_bursts_as_a_loop_has_them() -> None:
    """Compare with exact arithmetic: 3 events per second, and 30 in the last two of seven seconds."""
    rate = Rate.bursts(3, 10, every="7s", length="2s")
    time, expected = Fraction(0), []
    for _ in range(300):
        expected.append(floor(time * 10**9))
        events = Fraction(1)
        while True:
            inside = time % 7
            speed, end = (3, 5) if inside < 5 else (30, 7)
            if (end - inside) * speed > events:
                time += events / speed
                break
            events -= (end - inside) * speed
            time += end - inside
    arrivals = rate.arrivals(0, 300)
    assert np.abs(arrivals - np.array(expected)).max() <= 1
    assert rate.mean == pytest.approx((15 + 60) / 7)
    assert Rate.bursts(100).lengths == (18 * 10**9, 2 * 10**9)
    assert rate.arrived(7 * 10**9 - 1) == 75


@given(rates(), st.integers(0, 10**8), st.lists(st.integers(0, 40), max_size=6))
def test_arrivals_ascend_and_do_not_depend_on_blocks(rate: Rate, first: int, sizes: list[int]) -> None:
    expected = rate.arrivals(first, sum(sizes) + 1)
    assert expected.dtype == np.int64
    assert (np.diff(expected) >= 0).all()
    position = first
    for size in sizes:
        assert rate.arrivals(position, size).tolist() == expected[position - first : position - first + size].tolist()
        position += size
    assert rate.arrivals(0, 1).tolist() == [0]


@given(rates(), st.integers(0, 300), st.integers(-3, 3))
def test_arrived_counts_arrivals(rate: Rate, number: int, shift: int) -> None:
    arrivals = rate.arrivals(0, 500)
    time = int(arrivals[number]) + shift
    if time < arrivals[-1]:
        assert int(rate.arrived(time)) == np.searchsorted(arrivals, time, side="right")


@given(rates(), st.lists(st.tuples(st.integers(0, 20_000), st.integers(-2, 2)), max_size=8))
def test_times_that_only_grow(rate: Rate, places: list[tuple[int, int]]) -> None:
    arrived = ArrivalCounter(rate)
    times = sorted(int(rate.arrivals(number, 1)[0]) + shift for number, shift in places)
    assert [arrived(time) for time in times] == [int(rate.arrived(time)) for time in times]


@pytest.mark.parametrize("wrong", [0, -1, 2e9, float("nan"), float("inf")])
def test_wrong_rates(wrong: float) -> None:
    with pytest.raises(ValidationError, match="expected events per second, above 0 and at most 1e\\+09"):
        Rate.constant(wrong)


def test_wrong_profiles() -> None:
    with pytest.raises(ValidationError, match="length='2s' every='2s': expected a length below the period"):
        Rate.bursts(1, every="2s", length="2s")
    with pytest.raises(ValidationError, match="no duration"):
        Rate.bursts(1, every="often")
    with pytest.raises(ValidationError, match="0 ns long: expected at least 1"):
        Rate((1.0, 2.0), (0, 1))
    with pytest.raises(ValidationError, match="1 rates, 2 lengths"):
        Rate((1.0,), (5, 6))
