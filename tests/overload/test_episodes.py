"""Estimated recall: each match found is weighted by the inverse of its keep probability."""

from __future__ import annotations

import numpy as np
import pytest

from fastcep.overload.episodes import Episodes


def recall_after(decisions: list[tuple[float, float]], by_window: float, matches: int = 1000) -> float:
    """Return the estimated recall if all matches end after decisions with these shares kept and left."""
    episodes = Episodes()
    for kept, left in decisions:
        episodes.record_matches(0, kept, left, by_window, 1, 0)
    episodes.record_matches(matches, 1.0, 1.0, by_window, 1, 0)
    assert episodes.recall is not None
    return episodes.recall


def test_what_is_kept_is_that_of_the_last_window() -> None:
    assert recall_after([(0.1, 1.0)] * 8 + [(0.5, 1.0)] * 4 + [(1.0, 1.0)] * 4, 8) == pytest.approx(0.75)


@pytest.mark.parametrize("probability", [0.05, 0.2, 0.5])
def test_what_is_dropped_at_each_decision(probability: float) -> None:
    """The span of three events has the density 2 x on 0..1 of the window: the integral of 2 x (1 - p)^(8 x)."""
    rate = -8 * np.log(1 - probability)
    expected = 2 * (1 - np.exp(-rate) * (1 + rate)) / rate**2
    assert recall_after([(1.0, 1 - probability)] * 20, 8) == pytest.approx(expected, rel=0.1)


def test_what_was_dropped_once_is_forgotten_after_a_window() -> None:
    assert recall_after([(1.0, 0.2)] + [(1.0, 1.0)] * 8, 8) == 1
    near, far = (recall_after([(1.0, 1.0)] * 8 + [(1.0, 0.2)] + [(1.0, 1.0)] * later, 8) for later in (0, 6))
    assert 0.2 < near < far < 1


def test_rare_decisions_are_not_seen_by_every_window() -> None:
    assert recall_after([(1.0, 0.0)] * 5, 0.5) == pytest.approx(0.75)


def test_matches_of_events_that_were_missed_are_expected() -> None:
    episodes = Episodes()
    episodes.record_matches(100, 1.0, 1.0, 8, 1000, 0)
    episodes.record_matches(100, 1.0, 1.0, 8, 1000, 1000)
    assert episodes.recall == pytest.approx(0.5)
