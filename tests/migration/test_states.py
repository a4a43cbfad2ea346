"""Columns of partial states: checks and the density order."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

import fastcep as fc
from fastcep.migration import States


def test_columns_are_converted_and_cannot_be_changed() -> None:
    size = np.array([3, 5], np.int32)
    states = States(size, [1, 2], pa.array([7, 8]))
    assert (states.size.dtype, states.utility.dtype, states.key.dtype) == (np.int64, np.float64, np.int64)
    assert (len(states), states.total_size, states.total_utility, states.key.tolist()) == (2, 8, 3.0, [7, 8])
    size[0] = 9
    assert states.size[0] == 3
    with pytest.raises(ValueError, match="read-only"):
        states.size[0] = 1


def test_no_states() -> None:
    states = States([], [])
    assert (len(states), states.total_size, states.total_utility, len(states.by_density)) == (0, 0, 0.0, 0)


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (([1], [math.nan]), "utility: nan of state 0; expected a finite number, at least 0"),
        (([1, 1], [0, -1]), "utility: -1.0 of state 1; expected"),
        (([1], [math.inf]), "utility: inf of state 0; expected"),
        (([1, 1], [1e308, 1e308]), "the sum of the utilities is not finite; express them in a larger unit"),
        (([1, 0], [1, 1]), "size: 0 of state 1; expected a whole number of bytes, at least 1"),
        (([-1], [1]), "size: -1 of state 0; expected"),
        (([1.5], [1]), "size: an array of type float64; expected one integer for each state"),
        (([True], [1]), "size: an array of 1 dimensions and type bool; expected one integer"),
        (([2**63], [1]), "size: 9223372036854775808 does not fit int64"),
        (([2**61, 2**61], [1, 1]), "the sizes add up to 2^62 bytes or more"),
        (([[1]], [1]), "size: an array of 2 dimensions"),
        (([[1], [1, 2]], [1]), "size: .* expected one integer"),
        ((["1"], [1]), "size: .* expected one integer"),
        ((1, 1), "size: an array of 0 dimensions"),
        (([1], ["1"]), "utility: .* expected one number"),
        (([1], [None]), "utility: .* expected one number"),
        (([1, 2], [1]), "utility: 1 values for 2 states; give one value for each size"),
        (([1], [1], [1, 2]), "key: 2 values for 1 states"),
        (([1], [1], [0.5]), "key: an array of type float64"),
    ],
)
def test_wrong_columns(columns: tuple[object, ...], message: str) -> None:
    with pytest.raises(fc.ValidationError, match=message.replace("^", r"\^")):
        States(*columns)  # type: ignore[arg-type]


def test_density_order_with_ties_by_size_then_key() -> None:
    states = States([4, 2, 2, 1, 9], [4, 2, 2, 1, 18], [0, 5, 3, 9, 7])
    assert states.by_density.tolist() == [4, 3, 2, 1, 0]


def test_equal_keys_keep_the_position() -> None:
    assert States([2, 2, 2], [1, 1, 1], [0, 0, 0]).by_density.tolist() == [0, 1, 2]


@pytest.mark.parametrize("unit", [1.0, 2.0**-1070, 2.0**1010])
def test_the_unit_of_utilities_does_not_change_the_order(unit: float) -> None:
    states = States([5, 3, 2, 9], np.array([5, 6, 2, 1]) * unit)
    assert states.by_density.tolist() == [1, 2, 0, 3]
    assert 0.5 <= states.relative.max() < 1
