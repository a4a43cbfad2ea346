"""The queue of recorded arrivals, compared with a simulation of single events, and the formulas with such queues."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parallel.queueing.references import simulated_departures, simulated_share

from fastcep.parallel.queueing.stationary import fixed_service
from fastcep.parallel.queueing.trace import departures, lowest_share_within, share_within, share_within_by_bound

GAPS = st.lists(st.integers(0, 6), min_size=0, max_size=30)


@given(GAPS, st.integers(1, 20), st.integers(1, 8))
def test_departures_are_those_of_single_events(gaps: list[int], service: int, instances: int) -> None:
    arrivals = np.cumsum(gaps).astype(np.float64)
    leaves = departures(arrivals, float(service), instances)
    assert leaves.tolist() == simulated_departures(arrivals.tolist(), service, instances)


@given(GAPS.filter(lambda gaps: sum(gaps[1:]) > 0), st.integers(1, 20), st.integers(1, 8), st.data())
def test_the_share_is_that_of_single_events(gaps: list[int], service: int, instances: int, data: st.DataObject) -> None:
    limit = data.draw(st.integers(0, len(gaps) + 1), "limit")
    arrivals = np.cumsum(gaps).astype(np.float64)
    expected = simulated_share(arrivals.tolist(), service, instances, limit)
    assert share_within(arrivals, float(service), instances, limit) == pytest.approx(expected, abs=1e-12)


@given(GAPS, st.integers(1, 20), st.integers(1, 8), st.integers(0, 12))
def test_the_share_grows_with_instances_and_limit(gaps: list[int], service: int, instances: int, limit: int) -> None:
    arrivals = np.cumsum(gaps).astype(np.float64)
    share = share_within(arrivals, float(service), instances, limit)
    assert 0 <= share <= share_within(arrivals, float(service), instances + 1, limit) + 1e-12
    assert share <= share_within(arrivals, float(service), instances, limit + 1) + 1e-12 <= 1 + 1e-12


def test_one_event_more_than_the_limit_is_no_time_above_it() -> None:
    arrivals = np.arange(4.0)
    assert share_within(arrivals, 100.0, 2, 3) == 1.0
    assert share_within(arrivals, 100.0, 2, 2) == pytest.approx(2 / 3)
    assert share_within(arrivals, 100.0, 2, 1) == pytest.approx(1 / 3)


@given(GAPS, st.integers(1, 20), st.integers(1, 8), st.integers(0, 12))
def test_the_lower_limit_is_below_the_share(gaps: list[int], service: int, instances: int, limit: int) -> None:
    arrivals = np.cumsum(gaps).astype(np.float64)
    lowest = lowest_share_within(arrivals, float(service), instances, limit)
    assert 0 <= lowest <= share_within(arrivals, float(service), instances, limit) + 1e-12
    if len(gaps) < 17:
        assert lowest == 0


def test_the_lower_limit_is_below_the_probability_for_most_samples() -> None:
    """It exceeds the true probability for few of these long sequences; for shorter ones, more often."""
    expected = fixed_service(3.73, 5, 8)[-1]
    sequences = [np.random.default_rng(seed).standard_exponential(16_000) for seed in range(100)]
    lowest = np.array([lowest_share_within(np.cumsum(gaps), 3.73, 5, 8) for gaps in sequences])
    assert (lowest > expected - 0.1).all() and (lowest > expected).sum() < 15


def test_events_at_one_time() -> None:
    assert share_within(np.zeros(5), 1.0, 2, 5) == 1.0
    assert share_within(np.zeros(5), 1.0, 2, 4) == 0.0
    assert share_within(np.empty(0), 1.0, 2, 4) == 1.0
    assert departures(np.empty(0), 1.0, 2).tolist() == []


def test_the_lower_limit_covers_the_share_of_other_arrivals() -> None:
    """Most lower limits of sequences of the same kind are below the share of a long sequence, but not far."""
    random = np.random.default_rng(11)

    def groups(number: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.cumsum(np.where(random.random(number) < 0.5, 0.0, random.exponential(2.0, number)))

    share = share_within(groups(400_000), 4.0, 6, 12)
    lowest = np.array([lowest_share_within(groups(1_600), 4.0, 6, 12) for _ in range(300)])
    assert 0.85 <= (lowest <= share).mean() < 1 and np.median(lowest) > share - 0.1


@pytest.mark.parametrize(("load", "limit"), [(1.8, 60), (1.9, 100)])
def test_the_bound_of_a_large_limit_covers_the_share_of_other_arrivals(load: float, limit: int) -> None:
    random = np.random.default_rng(6)

    def groups(number: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.where(random.random(number) < 0.5, 0.0, random.exponential(2.0, number))

    share = share_within(np.cumsum(groups(1_000_000)), load, 2, limit)
    bounds = np.array([share_within_by_bound(groups(1_600), load, 2, limit) for _ in range(200)])
    assert 0.9 < share < 1 and (bounds <= share).mean() >= 0.9
    long = [share_within_by_bound(groups(200_000), load, 2, limit) for _ in range(10)]
    assert share - 0.05 < np.median(long) <= share, "with more arrivals it is closer"


def test_the_bound_at_its_ends() -> None:
    regular = np.full(400, 1.0)
    assert share_within_by_bound(regular, 1.9, 2, 1_000) == 1.0
    assert share_within_by_bound(regular, 2.1, 2, 1_000) == 0.0, "the queue grows without limit"
    assert share_within_by_bound(regular, 1.9, 2, 4) == 0.0, "the limit is within the events that are processed"
    assert share_within_by_bound(regular, 1.9, 2, 5) == 1.0


def test_the_lower_limit_of_few_arrivals_is_0() -> None:
    assert lowest_share_within(np.arange(10.0), 1.0, 2, 5) == 0
    assert lowest_share_within(np.zeros(100), 1.0, 2, 5) == 0
    assert lowest_share_within(np.arange(100.0), 1.0, 2, 5) == 1


@pytest.mark.parametrize(
    ("events", "tolerance"), [(10**6, 0.004), pytest.param(10**7, 0.0006, marks=pytest.mark.thorough)]
)
@pytest.mark.parametrize(("load", "instances"), [(7.5, 10), (6.25, 8), (3.73, 6)])
def test_the_formula_equals_a_simulation(events: int, tolerance: float, load: float, instances: int) -> None:
    arrivals = np.cumsum(np.random.default_rng(7).standard_exponential(events))
    expected = fixed_service(load, instances, 25)
    for limit in (instances - 1, 12, 15, 25):
        assert share_within(arrivals, load, instances, limit) == pytest.approx(expected[limit], abs=tolerance)
