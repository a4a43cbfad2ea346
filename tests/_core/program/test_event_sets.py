"""Selection of events by type and by comparisons: the portable loops and those for AVX2 against NumPy."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from reference.values import INT_MAX, INT_MIN

from fastcep._core.program.event_sets import select

#: In the order of event_sets.h; those of float64 follow those of int64.
OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge,
]  # fmt: skip
INTS = [0, 1, -1, 2, 7, INT_MAX, INT_MAX - 1, INT_MIN, INT_MIN + 1, 2**32, -(2**32), 2**53 + 1]
FLOATS = [0.0, -0.0, 1.5, -1.5, np.nan, np.inf, -np.inf, 5e-324, 1e308, 2.0**53]
LENGTHS = [*range(71), 127, 128, 129, 191, 192, 255, 256]
BOTH = pytest.mark.parametrize("simd", [False, True], ids=["portable", "simd"])


def ones(length: int) -> NDArray[np.uint16]:
    return np.ones(length, np.uint16)


def unaligned(values: NDArray[Any], start: int) -> NDArray[Any]:
    """Return a copy that begins at the element ``start`` of its buffer, with other values before and after it."""
    buffer = np.concatenate([values[:1].repeat(start), values, values[:1].repeat(8)])
    return buffer[start : start + len(values)]


def words(values: Sequence[Any], dtype: type[Any]) -> NDArray[np.int64]:
    return np.array(values, dtype).view(np.int64)


@BOTH
@pytest.mark.parametrize(("dtype", "cells"), [(np.int64, INTS), (np.float64, FLOATS)], ids=["int64", "float64"])
@pytest.mark.parametrize("number", range(6), ids=lambda number: OPERATORS[number].__name__)
def test_comparisons(number: int, dtype: type[Any], cells: list[Any], simd: bool) -> None:
    random = np.random.default_rng(1)
    operation = number + (6 if dtype is np.float64 else 0)
    for length in LENGTHS:
        values = random.choice(np.array(cells, dtype), length)
        start = length % 4
        for constant in cells:
            expected = np.flatnonzero(OPERATORS[number](values, dtype(constant)))
            column = unaligned(values, start).view(np.int64)
            comparison = (operation, column, int(words([constant], dtype)[0]), None)
            assert select(ones(length), [1], 2, [comparison], simd).tolist() == expected.tolist()


@BOTH
@pytest.mark.parametrize("length", LENGTHS)
def test_a_null_passes_no_comparison(length: int, simd: bool) -> None:
    random = np.random.default_rng(length)
    nulls = random.integers(0, 2, length).astype(np.uint8)
    values = np.zeros(length, np.int64)
    comparison = (OPERATORS.index(operator.ge), values, 0, unaligned(nulls, length % 32))
    expected = np.flatnonzero(nulls == 0).tolist()
    assert select(ones(length), [1], 2, [comparison], simd).tolist() == expected


@BOTH
@pytest.mark.parametrize("n_types", [1, 2, 4, 15, 16, 17, 127, 128, 129, 255, 256, 257, 1_000, 65_535])
def test_sets_of_types(n_types: int, simd: bool) -> None:
    random = np.random.default_rng(n_types)
    for length in LENGTHS if n_types <= 1_000 else [LENGTHS[-1]]:
        for size in {0, 1, min(3, n_types), n_types // 2, n_types}:
            members = random.choice(n_types, size, replace=False)
            types = unaligned(random.integers(0, n_types, length).astype(np.uint16), length % 16)
            expected = np.flatnonzero(np.isin(types, members)).tolist()
            assert select(types, members.tolist(), n_types, [], simd).tolist() == expected


@BOTH
@pytest.mark.parametrize("share", [0.0, 0.02, 0.3, 0.9, 1.0])
def test_all_conditions_must_hold(share: float, simd: bool) -> None:
    """Types, two comparisons and nulls together, from empty to full sets."""
    random = np.random.default_rng(3)
    for length in LENGTHS:
        types = (random.random(length) < share).astype(np.uint16)
        values = random.integers(0, 4, length)
        prices = random.choice([np.nan, 1.0, 2.0, 3.0], length)
        nulls = (random.random(length) < 0.1).astype(np.uint8)
        comparisons = [
            (OPERATORS.index(operator.ne), values, 2, None),
            (6 + OPERATORS.index(operator.le), prices.view(np.int64), int(words([2.0], np.float64)[0]), nulls),
        ]
        expected = np.flatnonzero((types == 1) & (values != 2) & (prices <= 2.0) & (nulls == 0)).tolist()
        assert select(types, [1], 2, comparisons, simd).tolist() == expected


def test_columns_of_another_length_are_refused() -> None:
    with pytest.raises(ValueError, match="at most 256"):
        select(ones(257), [1], 2, [], False)
    with pytest.raises(ValueError, match="same length"):
        select(ones(3), [1], 2, [(0, np.zeros(2, np.int64), 0, None)], False)
