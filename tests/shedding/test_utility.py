"""The requested share is dropped, in the order of utility."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep.errors import ValidationError
from fastcep.shedding import below, lowest

cells = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 30)), min_size=1, max_size=24)


@given(cells, st.floats(0, 1))
def test_lowest(drawn: list[tuple[int, int]], share: float) -> None:
    utility = np.array([float(worth) for worth, _ in drawn]).reshape(1, -1, 1)
    counts = np.array([count for _, count in drawn]).reshape(1, -1, 1)
    chances = lowest(utility, counts, share)
    assert chances.shape == utility.shape
    assert float((chances * counts).sum()) == pytest.approx(share * counts.sum())
    for cheap, dear in zip(*np.nonzero(utility.ravel()[:, None] < utility.ravel()[None, :]), strict=True):
        if counts.ravel()[cheap] and counts.ravel()[dear] and chances.ravel()[dear] > 1e-9:
            assert chances.ravel()[cheap] == pytest.approx(1)
    for one, other in zip(*np.nonzero(utility.ravel()[:, None] == utility.ravel()[None, :]), strict=True):
        assert chances.ravel()[one] == chances.ravel()[other]


def test_below() -> None:
    assert below(np.array([[[0.5, 1.0, 2.0]]]), 1.0).tolist() == [[[1, 0, 0]]]


def test_a_share_is_a_share() -> None:
    with pytest.raises(ValidationError, match="expected a number from 0 to 1"):
        lowest(np.zeros((1, 1, 1)), np.zeros((1, 1, 1), np.int64), 1.5)
