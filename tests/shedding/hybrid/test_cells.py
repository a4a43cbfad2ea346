"""Classes by combination of feature values."""

from __future__ import annotations

import numpy as np
import pytest
from support.shedding.fit_members import sums

from fastcep.shedding.hybrid.cells import cells_of
from fastcep.shedding.hybrid.classes import fit_classes


def values(*columns: object) -> np.ndarray:
    return np.column_stack([np.asarray(column, float) for column in columns])


def test_each_value_is_a_class_and_so_are_as_many_on_either_side() -> None:
    found = cells_of(("x",), values(np.arange(1_000) % 4 + 5))
    assert found is not None and (found.low, found.table.shape, found.other, found.count) == ((1,), (12,), 12, 13)
    told = found.classify(np.array([[5.0], [8.0], [1.0], [12.0], [0.0], [13.0], [0.0]]), np.eye(7, 1, -6, bool))
    assert told.tolist() == [4, 7, 0, 11, 12, 12, 12]
    assert len(set(found.table.tolist())) == 12


def test_combinations() -> None:
    x, y = np.arange(1_000) % 3, np.arange(1_000) // 3 % 2
    found = cells_of(("x", "y"), values(x, y))
    assert found is not None and found.table.shape == (9, 6) and found.low == (-3, -2)
    told = found.classify(values(x, y), np.zeros((1_000, 2), bool))
    assert len({(a, b, c) for a, b, c in zip(x, y, told, strict=True)}) == 6 == len(set(told.tolist()))


def test_without_room_beside() -> None:
    found = cells_of(("x",), values(np.arange(3_000) % 40))
    assert found is not None and (found.low, found.table.shape, found.count) == ((0,), (40,), 41)


@pytest.mark.parametrize(
    "x",
    [
        np.arange(3_000) % 65,  # too many
        np.arange(500) % 21,  # too few members each
        np.arange(3_000) % 4 + 0.5,
        np.append(np.arange(3_000) % 4, 2.0**60),
        np.append(np.arange(3_000) % 4, np.inf),
        np.empty(0),
    ],
)
def test_where_there_are_none(x: np.ndarray) -> None:
    assert cells_of(("x",), values(x)) is None


@pytest.mark.thorough
def test_classes_by_value_of_what_differs_in_what_completes_it() -> None:
    """Equally useful sums below 10 are separate classes."""
    members = sums(20_000).select(["total", "contribution", "consumption"])
    fitted = fit_classes(members)
    leaves = fit_classes(members, per="leaf")
    assert fitted.classes is not None and leaves.classes is not None
    told = fitted.classes.classify(values(members["total"].to_numpy()), np.zeros((20_000, 1), bool))
    assert len(set(told.tolist())) == 19 > leaves.classes.count
    worth = [sum(row) for row in fitted.values["mean_contribution"].to_pylist()]
    counts = fitted.values["members"].to_pylist()
    assert sum(counts) == 20_000 and len(counts) == fitted.classes.count
    hopeless = set(told[members["total"].to_numpy() > 10].tolist())
    assert {number for number, count in enumerate(counts) if count and not worth[number]} == hopeless


@pytest.mark.thorough
def test_with_null_there_is_a_tree() -> None:
    members = sums(20_000).select(["total", "contribution", "consumption"])
    column = members["total"].to_pylist()
    column[:100] = [None] * 100
    fitted = fit_classes(members.set_column(0, "total", [column]))
    assert type(fitted.classes).__name__ == "Tree"
