"""Sentences on the results of the hybrid paper's figures."""

from __future__ import annotations

import pytest

from bench.papers.hybrid.findings_fig7_16 import _recovery, _recovery_clause
from bench.papers.results import PartResult
from bench.papers.sentences import goal_sentence, interpolate, join_words, ratio


def part(**recalls: float) -> PartResult:
    rows = [
        {"shedder": name, "target": "20%", "recall": recall, "shed_event_ratio": recall / 2, "why": ""}
        for name, recall in recalls.items()
    ]
    return PartResult({"rows": rows, "truth": {}, "setting": {"targets": ["20%"], "strategies": []}})


def test_a_sentence_on_a_goal() -> None:
    assert goal_sentence("This", 5.04, 5.0, "x") == "This is 5.04x (goal ≥ 5x: met)."
    assert "NOT met" in goal_sentence("This", 4.99, 5.0)
    assert goal_sentence("This", float("nan"), 5.0) == "This is not known (goal ≥ 5)."


def test_the_ratio_of_two_recalls() -> None:
    assert ratio(part(hybrid=0.5, ri=0.1), "hybrid", "ri", "20%") == pytest.approx(5)
    assert ratio(part(hybrid=0.5, ri=0.0), "hybrid", "ri", "20%") == float("inf")
    assert ratio(part(hybrid=0.0, ri=0.0), "hybrid", "ri", "20%") != ratio(part(hybrid=0.5), "hybrid", "ri", "20%")


def test_words_are_joined() -> None:
    assert [join_words("abc"[:size]) for size in range(4)] == ["", "a", "a and b", "a, b and c"]


def test_interpolation_between_two_points() -> None:
    rows = [
        {"shedder": "ri", "target": target, "recall": recall, "shed_event_ratio": share, "why": ""}
        for target, recall, share in (("10%", 1.0, 0.2), ("50%", 0.4, 0.6))
    ]
    result = PartResult({"rows": rows, "truth": {}, "setting": {"targets": ["10%", "50%"], "strategies": []}})
    assert interpolate(result, "ri", "shed_event_ratio", "recall", 0.5) == pytest.approx(0.55)
    assert interpolate(result, "ri", "shed_event_ratio", "recall", 0.9) != interpolate(
        result, "ri", "recall", "recall", 0.5
    )


@pytest.mark.parametrize(
    ("recalls", "half_windows", "clause"),
    [
        ([1.0, 0.1, 0.2, 0.9, 1.0], 4, "after 2 windows (met)"),
        ([0.1, *[0.2] * 8, 0.9], 10, "after 5 windows (NOT met)"),
        ([0.1, 0.2], None, "does not return"),
        ([0.9, 1.0], 0, "never below"),
    ],
)
def test_the_recovery_of_recall(recalls: list[float], half_windows: int | None, clause: str) -> None:
    assert _recovery(recalls, 0.9) == half_windows
    assert clause in _recovery_clause(half_windows)
