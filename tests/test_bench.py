"""Verdicts and tables of `bench/`, without measurements."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.__main__ import TABLES, rows
from bench.queries import RESULTS
from bench.verdict import FLOOR, judge

QUIET = [0.995, 1.0, 1.005, 0.998, 1.002, 1.001, 0.999]
LOUD = [0.8, 1.25, 0.85, 1.1, 0.95, 1.2, 1.0]


def scaled(ratios, speed):
    return [ratio * speed for ratio in ratios]


@pytest.mark.parametrize(
    ("head", "twin", "slower"),
    [
        (QUIET, QUIET, False),
        (scaled(QUIET, 1 / 1.04), QUIET, False),  # below the floor
        (scaled(QUIET, 1 / 1.08), QUIET, True),
        (scaled(QUIET, 1.5), QUIET, False),  # faster
        (LOUD, LOUD, False),
        (scaled(QUIET, 1 / 1.08), LOUD, False),  # the base differs more from itself
        (scaled(LOUD, 1 / 1.08), QUIET, False),  # the runs of the head are too noisy
        (scaled(LOUD, 1 / 1.6), LOUD, True),
        ([*scaled(QUIET, 1.0)[:-1], 0.2], QUIET, False),  # one disturbed run
    ],
)
def test_a_slowdown_beyond_the_noise_is_slower(head, twin, slower):
    verdict = judge(head, twin)
    assert verdict.slower is slower
    assert verdict.allowed == max(verdict.noise, FLOOR)
    assert verdict.speed == pytest.approx(np.median(head))


RATIOS = st.lists(st.floats(0.2, 5), min_size=3, max_size=20)


@given(RATIOS, RATIOS, st.floats(0, 0.5))
def test_equal_builds_pass_and_doubled_noise_does_not_fail_what_passed(head, twin, floor):
    verdict = judge(head, twin, floor)
    assert verdict == judge(head, twin, floor)
    assert verdict.allowed >= floor
    if verdict.slower:
        assert verdict.speed < 1 and 1 / verdict.speed - 1 > verdict.noise
    louder = [math.exp(2 * math.log(ratio)) for ratio in twin]
    assert not (judge(head, louder, floor).slower and not verdict.slower)


@pytest.mark.parametrize("wrong", [[], [1.0, 1.0], [1.0, 1.0, 0.0], [1.0, 1.0, math.nan], [1.0, 1.0, math.inf]])
def test_too_few_or_impossible_ratios_are_refused(wrong):
    with pytest.raises(ValueError, match="make more runs"):
        judge(wrong, QUIET)
    with pytest.raises(ValueError, match="make more runs"):
        judge(QUIET, wrong)


def test_the_table_has_rows_of_all_results():
    stored = {name for name in TABLES if (RESULTS / f"{name}.json").exists()}
    assert stored >= {"limit", "io", "sweeps", "memory"}
    assert {suite for suite, _, _ in rows()} == stored
