"""Decision trees as tables: same classes as of the tree, at and between all thresholds; large trees stay trees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from strategies.trees import tree, trees

from fastcep.overload.protocols import Tree
from fastcep.overload.tree_grid import grid_of


def looked_up(grid: Any, row: Sequence[float]) -> int:
    axes, cells = grid
    pairs = zip(axes, row, strict=True)
    return int(cells[sum(offsets[np.searchsorted(thresholds, value)] for (thresholds, offsets, _, _), value in pairs)])


@given(trees("x", "y", "z"))
def test_same_classes(of: Tree) -> None:
    grid = grid_of(of)
    assert grid is not None
    numbers = np.array([-np.inf, -1.5, -1.0, -0.5, 0.0, 0.25, 0.3, 0.5, 0.75, 1.0, 1.5, 1.75, 2.0, 2.5, np.inf])
    rows = np.stack(np.meshgrid(numbers, numbers, numbers), axis=-1).reshape(-1, 3)[::7]
    assert [looked_up(grid, row) for row in rows] == of.classify(rows, np.zeros(rows.shape, bool)).tolist()


@given(trees("x"))
def test_ranks_of_integers(of: Tree) -> None:
    """The ranks are the offsets of the integers from ``low`` on; the first and the last also hold beyond."""
    grid = grid_of(of)
    assert grid is not None
    ((thresholds, offsets, low, ranks),) = grid[0]
    if not len(thresholds):
        assert len(ranks) == 0
        return
    expected = offsets[np.searchsorted(thresholds, np.arange(low, low + len(ranks)))]
    assert ranks.tolist() == expected.tolist() and (ranks[0], ranks[-1]) == (0, offsets[-1])


def chain(*thresholds: float, features: int = 1) -> Tree:
    """Return a tree with one split per threshold, by each feature in turn."""
    nodes: list[tuple[int, float, int, int, int]] = []
    for number, threshold in enumerate(thresholds):
        nodes += [(number % features, threshold, 2 * number + 1, 2 * number + 2, 0), (-1, 0.0, 0, 0, number % 200)]
    return tree(tuple("xyz"[:features]), [*nodes, (-1, 0.0, 0, 0, 200)])


@pytest.mark.parametrize("far", [2.0**53, -(2.0**60), 1e300])
def test_distant_thresholds_have_no_ranks(far: float) -> None:
    grid = grid_of(chain(1.0, far))
    assert grid is not None
    ((thresholds, _, _, ranks),) = grid[0]
    assert len(ranks) == 0 and sorted([1.0, far]) == thresholds.tolist()


@pytest.mark.parametrize("of", [chain(1.0, np.inf), chain(np.nan), chain(*np.arange(120.0), features=3)])
def test_trees_without_a_table(of: Tree) -> None:
    """Thresholds are not finite, or there are more than 65,536 cells."""
    assert grid_of(of) is None
