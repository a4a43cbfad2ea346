"""The words for numbers of the hybrid paper's figures: they say whether what was asked for is reached."""

from __future__ import annotations

import pytest

from bench.papers.hybrid.asked import _back, _told
from bench.papers.hybrid.words import asked, between, joined, times
from bench.papers.stored import Stored


def part(**recalls: float) -> Stored:
    rows = [
        {"shedder": name, "target": "20%", "recall": recall, "shed_event_ratio": recall / 2, "why": ""}
        for name, recall in recalls.items()
    ]
    return Stored({"rows": rows, "truth": {}, "setting": {"targets": ["20%"], "strategies": []}})


def test_asked() -> None:
    assert asked("This", 5.04, 5.0, "x") == "This is 5.04x (asked for: at least 5x; reached)."
    assert "NOT reached" in asked("This", 4.99, 5.0)
    assert asked("This", float("nan"), 5.0) == "This is not known (asked for: at least 5)."


def test_times() -> None:
    assert times(part(hybrid=0.5, ri=0.1), "hybrid", "ri", "20%") == pytest.approx(5)
    assert times(part(hybrid=0.5, ri=0.0), "hybrid", "ri", "20%") == float("inf")
    assert times(part(hybrid=0.0, ri=0.0), "hybrid", "ri", "20%") != times(part(hybrid=0.5), "hybrid", "ri", "20%")


def test_joined() -> None:
    assert [joined("abc"[:size]) for size in range(4)] == ["", "a", "a and b", "a, b and c"]


def test_between_two_points() -> None:
    rows = [
        {"shedder": "ri", "target": target, "recall": recall, "shed_event_ratio": share, "why": ""}
        for target, recall, share in (("10%", 1.0, 0.2), ("50%", 0.4, 0.6))
    ]
    stored = Stored({"rows": rows, "truth": {}, "setting": {"targets": ["10%", "50%"], "strategies": []}})
    assert between(stored, "ri", "shed_event_ratio", "recall", 0.5) == pytest.approx(0.55)
    assert between(stored, "ri", "shed_event_ratio", "recall", 0.9) != between(stored, "ri", "recall", "recall", 0.5)


@pytest.mark.parametrize(
    ("recalls", "back", "said"),
    [
        ([1.0, 0.1, 0.2, 0.9, 1.0], 4, "after 2 windows (reached)"),
        ([0.1, *[0.2] * 8, 0.9], 10, "after 5 windows (NOT reached)"),
        ([0.1, 0.2], None, "does not come back"),
        ([0.9, 1.0], 0, "never below"),
    ],
)
def test_how_soon_recall_is_back(recalls: list[float], back: int | None, said: str) -> None:
    assert _back(recalls, 0.9) == back
    assert said in _told(back)
