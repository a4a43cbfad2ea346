"""Informative bins, by analysis of variance."""

from __future__ import annotations

import numpy as np
import pytest
from support.shedding.fit_members import sums

from fastcep.shedding.hybrid.clusters import load
from fastcep.shedding.hybrid.feature_selection import _variance, is_informative, responses_of

ONE = np.ones((1, 1), np.float32)


def plain(response: object) -> list[tuple[np.ndarray, np.ndarray]]:
    own = np.asarray(response, np.float64)
    return [(own, np.ones(len(own)))]


def test_it_is_scipys_analysis_of_variance() -> None:
    random = np.random.default_rng(1)
    bins = random.integers(0, 5, 400)
    response = random.normal(size=400) + 0.3 * bins
    told, rest = _variance(bins, response, np.ones(400))
    expected = load("scipy.stats").f_oneway(*(response[bins == number] for number in range(5)))
    assert told / 4 / (rest / 395) == pytest.approx(expected.statistic)
    assert told + rest == pytest.approx(400 * response.var())


def test_chance_and_share_both_decide() -> None:
    bins = np.arange(100_000) % 2
    noise = np.random.default_rng(2).normal(size=100_000)
    assert not is_informative(bins, plain(noise))
    assert not is_informative(bins, plain(noise + 0.1 * bins))  # significant, but explains only 0.0025
    assert is_informative(bins, plain(noise + 0.2 * bins))  # 0.01
    assert not is_informative(bins[:100], plain(noise[:100] + 0.5 * bins[:100]))  # 0.06, but may be chance
    assert is_informative(bins[:100], plain(noise[:100] + 2 * bins[:100]))


def test_what_is_told_exactly() -> None:
    bins = np.arange(20) % 2
    assert is_informative(bins, plain(bins)) and is_informative(bins + 7, plain(1e9 * bins))
    assert not is_informative(bins, plain(np.ones(20)))
    assert not is_informative(np.zeros(20, np.int64), plain(bins))
    assert not is_informative(np.zeros(0, np.int64), plain([]))


def test_bins_of_few_members_do_not_count() -> None:
    for rows, few, enough in ((54, 4, 5), (20_019, 19, 21)):
        for count, expected in ((few, False), (enough, True)):
            bins = np.zeros(rows, np.int64)
            bins[np.linspace(0, rows - 1, count).astype(int)] = 1
            assert is_informative(bins, plain(bins)) is expected


def test_what_is_told_at_one_time_only_does_not_count() -> None:
    """A key with many matches in only one stretch of time is not informative."""
    random = np.random.default_rng(4)
    bins = random.integers(0, 5, 8_000)
    worth = random.normal(size=8_000)
    once = worth + 3 * (bins == 2) * (np.arange(8_000) < 1_000)
    assert not is_informative(bins, plain(once)) and is_informative(bins, plain(worth + 3 * (bins == 2)))


def test_sums_are_of_standardised_slices() -> None:
    """Otherwise one slice with large numbers would dominate."""
    random = np.random.default_rng(3)
    x = np.arange(5_000) % 2
    parts = np.column_stack([1_000 * random.normal(size=5_000), x + random.normal(size=5_000)]).astype(np.float32)
    assert is_informative(x, responses_of(ONE.repeat(5_000, 0), parts))
    assert not is_informative(x, plain(parts.sum(axis=1)))


def test_rare_contributions_weigh_as_much_as_none() -> None:
    members = sums(150_000, rate=0.01)
    contribution = np.array(members["contribution"].to_pylist(), np.float32)
    hopeless = (members["total"].to_numpy() > 10).astype(np.int64)
    *_, (worth, weights) = responses = responses_of(contribution, ONE.repeat(150_000, 0))
    assert weights[worth > 0].sum() == pytest.approx(1) == weights[worth == 0].sum()
    assert is_informative(hopeless, responses) and not is_informative(hopeless, responses[:2])
    assert not is_informative(members["key"].to_numpy(), responses)
