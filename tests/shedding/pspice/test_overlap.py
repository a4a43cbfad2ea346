"""The number of open windows of a partial match, compared with windows that are opened one by one."""

from __future__ import annotations

import numpy as np
import pytest
from support.shedding.drop_plans import Quiet, controlled, made
from support.shedding.markov_models import fitted, letters
from support.shedding.shed_runs import query

from fastcep.query import ast
from fastcep.shedding.pspice.overlap import Overlap

PATTERNS = ("SEQ(A a, B b, C c)", "OR(SEQ(A a, B b), C c)", "SEQ(A a, B b, NEG C n, D d)", "SEQ(A a, B+ b[])")
WINDOWS = ("OPEN EVERY 3 EVENTS CLOSE AFTER 12 EVENTS", "OPEN ON D o CLOSE AFTER 12 EVENTS",
           "OPEN ON D o CLOSE AFTER 90us",
           "OPEN ON D o CLOSE ON B e WHERE e.V = o.V", "OPEN EVERY 5 EVENTS CLOSE ON A e")  # fmt: skip


def windows_at(random: bool, size: int, gap: int, seed: int = 7, length: int = 40_000) -> np.ndarray:
    """Return for each event the ages of the windows that contain it, the latest first; -1 for others."""
    draws = np.random.default_rng(seed).random(length)
    print(f"seed {seed}")
    opened = np.flatnonzero(draws < 1 / gap) if random else np.arange(0, length, gap)
    place = np.searchsorted(opened, np.arange(length), "right")
    ages = [np.arange(length) - opened[np.maximum(place - 1 - back, 0)] for back in range(3 * size)]
    known = [(place - 1 - back >= 0) & (age < size) for back, age in enumerate(ages)]
    return np.where(known, ages, -1)[:, size:]


@pytest.mark.sample(1)
@pytest.mark.parametrize("random", [True, False])
@pytest.mark.parametrize(("size", "gap"), [(200, 10), (200, 70), (200, 100)])
def test_open_windows(random: bool, size: int, gap: int) -> None:
    """By age in the latest window: how many are open, how often it is the latest, and when the others opened."""
    ages = windows_at(random, size, gap)
    overlap = Overlap(size, gap, random)
    latest, number = ages[0], (ages >= 0).sum(axis=0)
    for low in range(0, size, size // 4):
        here = (latest >= low) & (latest < low + size // 4)
        middle = low + np.arange(size // 4) + 0.5
        assert here.mean() * gap / (size // 4) == pytest.approx(overlap.is_latest(middle).mean(), abs=0.06)
        if here.mean() > 0.02:
            assert number[here].mean() == pytest.approx(
                np.average(overlap.windows(middle), weights=overlap.is_latest(middle)), rel=0.1
            )
    earlier, weights = overlap.weights()
    begins = latest == 0  # those that begin with a window
    for most in (size // 2, size):
        seen = (ages[:, begins] >= 0) & (ages[:, begins] < most)
        assert seen.sum(axis=0).mean() == pytest.approx(weights[earlier < most].sum(), rel=0.1)


@pytest.mark.parametrize(
    ("window", "opened", "expected"),
    [
        (ast.CountWindow(events=8), 3.0, Overlap(8.0)),
        (ast.ExplicitWindow(ast.Bound(events=2), ast.Bound(events=8)), 4.0, Overlap(8.0, 2.0)),
        (ast.ExplicitWindow(ast.Bound(events=16), ast.Bound(events=8)), 0.5, Overlap(8.0)),
        (ast.ExplicitWindow(ast.Bound(types=("A",), variable="o"), ast.Bound(events=8)), 0.5, Overlap(8.0, 16.0, True)),
    ],
)  # fmt: skip
def test_overlap_of_a_query(window: ast.Window, opened: float, expected: Overlap) -> None:
    assert Overlap.of(window, 8.0, opened) == expected


def test_many_windows_are_sampled() -> None:
    """Beyond 256 open windows each that is looked at stands for several; their number is right."""
    for overlap in (Overlap(10_000, 5), Overlap(10_000, 5, random=True)):
        earlier, weights = overlap.weights()
        assert len(earlier) <= 257 and earlier[0] == 0 and earlier.max() < 10_000
        assert weights.sum() == pytest.approx(2_000, rel=0.01)


def test_matches_in_all_windows() -> None:
    model = fitted("PATTERN SEQ(A a, B b) WINDOW OPEN EVERY 16 EVENTS CLOSE AFTER 64 EVENTS")
    overlap = model.overlap(model.window)
    remaining = np.array([0.0, 10.0, 16.0, 40.0, 64.0])
    found = model.expected_matches(remaining, overlap)
    for left, row in zip(remaining.tolist(), found, strict=True):
        windows = [model.at([left - 16 * back])[0][0] for back in range(4) if left >= 16 * back]
        assert row == pytest.approx(np.sum(windows, axis=0))
    alone = model.overlap(model.window, shared=False)
    assert model.expected_matches(remaining, alone) == pytest.approx(model.at(remaining)[0])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_match_weighs_as_much_as_it_is_reported(pattern: str, window: str) -> None:
    """Without drops, the sums of weights are the number of matches in all windows, and the variance is 0."""
    live = made(query(f"PATTERN {pattern} WINDOW {window}"), Quiet())
    controlled(live).shedding.weigh(True)
    found = len(live.process(letters().slice(0, 600))) + len(live.flush())
    assert found > 0 and controlled(live).shedding.weighed == (found, found, found)
