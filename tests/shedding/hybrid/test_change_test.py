"""The test for changes: false alarms, and small but lasting changes."""

from __future__ import annotations

import numpy as np
import pytest

from fastcep.shedding.hybrid.change_test import FALSE_ALARMS, ChangeTest

CHARTS = np.arange(20)


def steps(shift: float, count: int, seed: int, size: float = 100.0) -> int:
    """Return after how many steps the test reports a change by ``shift`` standard deviations of all counts."""
    random, test = np.random.default_rng(seed), ChangeTest()
    for number in range(count):
        found = size + np.sqrt(size) * (random.normal(size=len(CHARTS)) + shift)
        if test.step(CHARTS, found, np.full(len(CHARTS), size), np.full(len(CHARTS), size)):
            return number + 1
    return count


@pytest.mark.thorough
def test_false_alarms_are_as_rare_as_stated() -> None:
    assert FALSE_ALARMS == 1e-4
    assert sum(steps(0.0, 200, seed) < 200 for seed in range(50)) <= 4  # one is expected in 10,000 steps


@pytest.mark.parametrize("sign", [1, -1])
def test_a_lasting_change_is_found_that_no_step_shows(sign: int) -> None:
    assert steps(sign * 3.0, 200, 1, size=20.0) < 15  # two thirds of the counts


def test_a_change_too_small_to_matter_is_none() -> None:
    assert steps(2.5, 200, 1, size=10_000.0) == 200  # 2.5 % of the counts


def test_evidence_raises_the_level() -> None:
    test, size = ChangeTest(), np.full(1, 20.0)
    levels = []
    for _ in range(3):
        assert not test.step(CHARTS[:1], size / 2, size, size)
        levels.append(test.level)
    assert levels == sorted(levels) and 0 < levels[0] < levels[-1]


def test_its_state_is_stored() -> None:
    one, other, size = ChangeTest(), ChangeTest(), np.full(20, 100.0)
    one.step(CHARTS, size - 60, size, size)
    other.restore(one.state())
    assert one.state() == other.state()
    assert one.step(CHARTS, size - 60, size, size) == other.step(CHARTS, size - 60, size, size)
    assert one.state() == other.state()
