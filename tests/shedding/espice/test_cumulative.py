"""The example of the paper, with every value computed by hand, and the limits of both functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from fastcep.errors import ValidationError
from fastcep.shedding import cumulative_utility, utility_threshold

#: Table 1 of the paper, and shares of the types at each position, which are not printed in the paper.
UTILITY = np.array([[70, 15, 10, 5, 0], [0, 60, 30, 10, 0]])
SHARE = np.array([[0.8, 0.5, 0.1, 0.4, 0.3], [0.2, 0.5, 0.9, 0.6, 0.7]])

#: From each utility on, the sum of the shares of the cells up to it.
BY_HAND = {
    0: 0.2 + 0.3 + 0.7,  # B at 1, A and B at 5
    5: 1.2 + 0.4,  # A at 4
    10: 1.6 + 0.1 + 0.6,  # A at 3, B at 4: 2 + S(A, 3) + S(B, 1) = 2.3
    15: 2.3 + 0.5,  # A at 2
    30: 2.8 + 0.9,  # B at 3
    60: 3.7 + 0.5,  # B at 2
    70: 4.2 + 0.8,  # A at 1: all five events of the window
}


def test_the_example_of_the_paper() -> None:
    cdt = cumulative_utility(UTILITY, SHARE)
    assert cdt.shape == (101,) and cdt.dtype == np.float64
    expected, level = [], 0.0
    for utility in range(101):
        level = BY_HAND.get(utility, level)
        expected.append(level)
    assert cdt == pytest.approx(np.array(expected), abs=1e-12)
    assert cdt[10] == pytest.approx(2.3) and cdt[9] < 2
    assert utility_threshold(cdt, 2) == 10


@pytest.mark.parametrize(
    ("amount", "threshold"), [(0, 0), (1.2, 0), (1.21, 5), (2.3, 10), (2.31, 15), (4.2, 60), (5, 70), (5.1, 100)]
)
def test_thresholds(amount: float, threshold: int) -> None:
    """Of exactly the events up to a utility, none more is dropped; more than there are: all."""
    assert utility_threshold(cumulative_utility(UTILITY, SHARE), amount) == threshold


SHAPES = st.tuples(st.integers(1, 4), st.integers(1, 6))


@given(st.data())
def test_definition(data: st.DataObject) -> None:
    shape = data.draw(SHAPES)
    utility = data.draw(arrays.arrays(np.int64, shape, elements=st.integers(0, 100)))
    share = data.draw(arrays.arrays(np.float64, shape, elements=st.integers(0, 8).map(lambda eighths: eighths / 8)))
    amount = data.draw(st.integers(0, 200)) / 8
    cdt = cumulative_utility(utility, share)
    assert cdt.tolist() == [share[utility <= level].sum() for level in range(101)]  # exact, as eighths are
    reached = [level for level in range(101) if cdt[level] >= amount]
    assert utility_threshold(cdt, amount) == (reached[0] if reached else 100)


@pytest.mark.parametrize(
    ("utility", "share", "error"),
    [
        ([[1, 2]], [[1.0]], r"utility of the shape \(1, 2\) and share of the shape \(1, 1\)"),
        ([1, 2], [1.0, 1.0], "expected both as"),
        ([[0.5]], [[1.0]], "an array of float64 .* expected whole numbers from 0 to 100"),
        ([[101]], [[1.0]], "whole numbers from 0 to 100"),
        ([[-1]], [[1.0]], "whole numbers from 0 to 100"),
        ([[1]], [[-1.0]], "share has a value that is negative or not finite"),
        ([[1]], [[np.nan]], "share has a value that is negative or not finite"),
    ],
)
def test_wrong_tables(utility: Any, share: Any, error: str) -> None:
    with pytest.raises(ValidationError, match=error):
        cumulative_utility(utility, share)


@pytest.mark.parametrize(
    ("cumulative", "amount", "error"),
    [
        (np.zeros(100), 1, r"cumulative has the shape \(100,\); expected 101 ascending numbers"),
        (np.arange(101.0)[::-1], 1, "ascending"),
        (np.full(101, np.nan), 1, "ascending"),
        (np.arange(101.0), -1, "amount=-1; expected a number of events, 0 or more"),
        (np.arange(101.0), np.nan, "amount=nan"),
        (np.arange(101.0), np.inf, "amount=inf"),
    ],
)
def test_wrong_arguments(cumulative: Any, amount: float, error: str) -> None:
    with pytest.raises(ValidationError, match=error):
        utility_threshold(cumulative, amount)
