"""The packing knapsack: the table against all sets, and its checks."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep._core.fit.packing_knapsack import least_sizes, take_fitting

UNREACHABLE = np.iinfo(np.int64).max

#: Per class: its value, the ascending sizes of its items, and the number of items to start from.
classes = st.dictionaries(
    st.integers(1, 9), st.lists(st.integers(1, 20), min_size=1, max_size=4).map(sorted), min_size=1, max_size=4
)


def table(drawn: dict[int, list[int]], bases: list[int], low: int, high: int) -> Any:
    starts = np.cumsum([0, *map(len, drawn.values())])
    return least_sizes([*drawn], [size for sizes in drawn.values() for size in sizes], starts, bases, low, high)


def counts_at(counts: Any, values: list[int], place: int) -> list[int]:
    gained = [0] * len(values)
    for k in range(len(values) - 1, -1, -1):
        gained[k] = int(counts[k, place])
        place = max(place - gained[k] * values[k], 0)
    return gained


@given(classes, st.data())
def test_least_sizes_are_those_of_all_sets(drawn: dict[int, list[int]], data: st.DataObject) -> None:
    bases = [data.draw(st.integers(0, len(sizes))) for sizes in drawn.values()]
    values, low = [*drawn], -sum(value * base for value, base in zip(drawn, bases, strict=True))
    high = sum(value * len(sizes) for value, sizes in drawn.items()) + low + 3
    least, counts = table(drawn, bases, low, high)
    expected = np.full(high - low + 1, UNREACHABLE)
    for numbers in itertools.product(*(range(len(sizes) + 1) for sizes in drawn.values())):
        value = sum(v * n for v, n in zip(values, numbers, strict=True)) + low
        size = sum(sum(sizes[:n]) - sum(sizes[:b]) for sizes, n, b in zip(drawn.values(), numbers, bases, strict=True))
        expected[: value - low + 1] = np.minimum(expected[: value - low + 1], size)
    assert least.tolist() == expected.tolist()
    for place in np.flatnonzero(least < UNREACHABLE).tolist():
        gained = counts_at(counts, values, place)
        assert sum(v * n for v, n in zip(values, gained, strict=True)) >= low + place
        size = sum(
            sum(sizes[: b + n]) - sum(sizes[:b]) for sizes, n, b in zip(drawn.values(), gained, bases, strict=True)
        )
        assert size == least[place]


@given(classes, st.integers(0, 12), st.integers(0, 12), st.data())
def test_a_narrow_range_has_sets_that_exist(drawn: dict[int, list[int]], below: int, above: int, data: Any) -> None:
    bases = [data.draw(st.integers(0, len(sizes))) for sizes in drawn.values()]
    least, counts = table(drawn, bases, -below, above)
    assert (np.diff(least[least < UNREACHABLE]) >= 0).all() and least[below] <= 0
    for place in np.flatnonzero(least < UNREACHABLE).tolist():
        gained = counts_at(counts, [*drawn], place)
        assert all(
            0 <= b + n <= len(sizes) for sizes, n, b in zip(drawn.values(), gained, bases, strict=True)
        )  # fmt: skip
        assert sum(v * n for v, n in zip(drawn, gained, strict=True)) >= place - below


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1], [1], [0, 1], [0], 1, 2), "the range of the extra value is 1 to 2: expected a range with 0"),
        (([1], [1], [0, 1], [0], -2, -1), "expected a range with 0"),
        (([1], [1], [0, 2], [0], 0, 1), "expected one base for each, and the starts of all items"),
        (([1], [1], [0], [0], 0, 1), "1 classes: expected one base"),
        (([1], [1], [0, 1], [], 0, 1), "1 classes: expected one base"),
        (([0], [1], [0, 1], [0], 0, 1), "class 0 has the value 0"),
        (([1], [1], [0, 1], [2], 0, 1), "a base of 2: expected .* at most all of them"),
        (([1, 2], [1], [0, 1, 1], [0, 0], 0, 1), "class 1 has the value 2, 0 items"),
        (([1], np.ones(40_000), [0, 40_000], [0], 0, 40_000), "more than 32767 items of class 0"),
    ],
)
def test_wrong_classes(arguments: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        least_sizes(*arguments)


def test_items_that_do_not_fit_are_skipped() -> None:
    assert take_fitting([5, 9, 3, 2], [0, 1, 2, 3], 10).tolist() == [1, 0, 1, 1]
    assert take_fitting([5, 9, 3, 2], [3, 1], 10).tolist() == [1, 0]
    assert take_fitting([], [], 0).tolist() == []
    with pytest.raises(ValueError, match="entry 1 of the order is 4: expected the number of one of 4 items"):
        take_fitting([5, 9, 3, 2], [0, 4], 10)
