"""Formatting of numbers, and line styles that depend on the name only."""

from __future__ import annotations

import pytest

from fastcep.report.evaluation.cells import Strategy
from fastcep.report.evaluation.number_text import count, duration, listed, percent, rate, times
from fastcep.report.evaluation.strategy_style import looks


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (0, "0 ns"), (0.5747, "0.57 ns"), (33, "33.0 ns"), (999.96, "1.00 µs"), (11_494, "11.5 µs"),
        (2.5e6, "2.50 ms"), (123_456_789, "123 ms"), (7.2e12, "7,200 s"), (None, "n/a"),
    ],
)  # fmt: skip
def test_durations(ns: float | None, text: str) -> None:
    assert duration(ns) == text


def test_numbers() -> None:
    assert [rate(value) for value in (None, 12.3, 2500, 1.74e8)] == ["n/a", "12.3/s", "2.50 k/s", "174 M/s"]
    assert [percent(value) for value in (None, 0.0, 0.0001, 0.4286, 0.9999)] == [
        "n/a", "0.0 %", "< 0.1 %", "42.9 %", "> 99.9 %",
    ]  # fmt: skip
    assert (times(2.014), count(1234), count(None)) == ("2.01×", "1,234", "n/a")
    assert [listed(items) for items in (["a"], ["a", "b"], ["a", "b", "c"])] == ["a", "a and b", "a, b and c"]


def test_looks_depend_on_the_name_only() -> None:
    ri, custom, oracle = Strategy("ri", "", False), Strategy("mine", "", False), Strategy("oracle", "", True)
    alone, together = looks([custom]), looks([ri, oracle, custom])
    assert alone["mine"] == together["mine"]
    assert (together["ri"].line, together["oracle"].line) == ("-", "--")


def test_looks_are_distinct() -> None:
    many = [Strategy(f"custom {number}", "", number % 2 == 0) for number in range(30)]
    assert len(set(looks(many).values())) == 30
