"""Compiled decision trees, and equal tables."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Classes, Floats, Ints, Tree
from fastcep.shedding.hybrid.trees import as_table, fit_tree, pruned

INT32 = np.int32
#: Class 3 for x <= 2.5 and y <= 1.5, class 0 for x <= 2.5 and other y, class 1 for other x.
SMALL = Tree(
    ("x", "y"), np.array([0, 1, -1, -1, -1], INT32), np.array([2.5, 1.5, 0, 0, 0]), np.array([1, 3, 0, 0, 0], INT32),
    np.array([2, 4, 0, 0, 0], INT32), np.array([9, 9, 1, 3, 0], np.uint8), 2,
)  # fmt: skip


def fitted(values: Any, labels: Any, null: Any = None, **options: Any) -> Tree:
    own = np.asarray(values, np.float64)
    own = own if own.ndim == 2 else own[:, None]
    missing = np.zeros(own.shape, np.bool_) if null is None else np.asarray(null).reshape(own.shape)
    names = [f"f{number}" for number in range(own.shape[1])]
    return fit_tree(names, own, missing, np.asarray(labels, np.int64), **{"depth": 10} | options)


def of(tree: Tree, *columns: Any) -> list[int]:
    values = np.column_stack([np.asarray(column, np.float64) for column in columns])
    found: list[int] = tree.classify(values, np.isnan(values)).tolist()
    return found


def walked(tree: Tree, row: Floats) -> int:
    node = 0
    while tree.feature[node] >= 0:
        left = row[tree.feature[node]] <= tree.threshold[node]
        node = int(tree.left[node] if left else tree.right[node])
    return int(tree.value[node])


def looked_up(table: Classes, row: Floats) -> int:
    """Look up classes as the matcher does: floats are rounded down."""
    at = tuple(int(np.floor(value)) - low for value, low in zip(row, table.low, strict=True))
    inside = all(0 <= place < size for place, size in zip(at, table.table.shape, strict=True))
    return int(table.table[at]) if inside else table.other


def mixed(rows: int = 4_000, seed: int = 1) -> tuple[Floats, Ints]:
    """Draw integers, and clusters by their sum, by the parity of the third, and at random."""
    random = np.random.default_rng(seed)
    values = random.integers([-3, 0, 5], [8, 11, 9], (rows, 3)).astype(float)
    labels = values[:, :2].sum(axis=1) // 4 + 5 * (values[:, 2] % 2) + random.integers(0, 2, rows)
    return values, labels.astype(np.int64) - int(labels.min())


def test_a_tree_is_walked_from_its_root() -> None:
    assert of(SMALL, [2, 2.5, 2.6, 1, 3], [1, 1.6, 1, 1.5, np.inf]) == [3, 0, 1, 3, 1]
    assert SMALL.count == 4


def test_what_is_null_is_of_the_other_class() -> None:
    null = np.array([[False, True], [False, False], [True, True]])
    values = np.array([[2.0, 0.0], [3.0, np.nan], [0.0, 0.0]])
    assert SMALL.classify(values, null).tolist() == [2, 2, 2]
    assert SMALL.classify(values[:0], null[:0]).dtype == np.uint8


@pytest.mark.parametrize("per", ["leaf", "cluster"])
def test_all_rows_are_walked_as_one(per: str) -> None:
    values, labels = mixed(70_000)
    tree = fitted(values, labels, per=per)
    found = tree.classify(values, np.zeros(values.shape, np.bool_))
    some = range(0, len(values), 97)
    assert found[some].tolist() == [walked(tree, values[row]) for row in some]
    assert set(found.tolist()) == set(range(tree.count))


def test_leaves_are_classes_or_clusters_are() -> None:
    x = np.repeat(np.arange(6.0), 50)
    labels = np.repeat([0, 1, 0, 2, 1, 0], 50)
    leaf, cluster = (fitted(x, labels, per=per) for per in ("leaf", "cluster"))
    assert sorted(of(leaf, range(6))) == list(range(6)) and leaf.count == 6
    first, second, *rest = of(cluster, range(6))
    assert rest == [first, 3 - first - second, second, first] and cluster.count == 3


def test_small_clusters_count_as_much_as_large_ones() -> None:
    x = np.array([0.0] * 9_000 + [1.0] * 1_000)
    labels = np.array([0] * 9_500 + [1] * 500)  # half of the members with the second value are in the small cluster
    assert of(fitted(x, labels, per="cluster"), [0, 1]) == [0, 1]


def test_a_tree_is_no_deeper_than_asked_and_has_no_more_leaves() -> None:
    x = np.repeat(np.arange(600.0), 20)
    labels = np.repeat(np.arange(600), 20)
    assert fitted(x, labels, depth=2).count <= 4
    assert fitted(x, labels, depth=300, leaves=7).count == 7
    assert fitted(x, labels, depth=300).count == 254
    assert fitted(x, labels, depth=300, leaves=1).features == ()


def test_features_that_are_not_asked_for_are_left_out() -> None:
    random = np.random.default_rng(2)
    noise, x = random.integers(0, 1_000, 5_000), random.integers(0, 4, 5_000)
    tree = fitted(np.column_stack([noise, x, noise]), x)
    assert tree.features == ("f1",) and tree.count == 4


def test_what_tells_nothing_is_one_class() -> None:
    random = np.random.default_rng(3)
    assert fitted(random.integers(0, 10, 5_000), random.integers(0, 10, 5_000)).features == ()
    for none in (fitted([1, 2, 3], [0, 0, 0]), fitted(np.empty((0, 1)), []), fitted(np.empty((4, 0)), [0, 1, 0, 1])):
        assert (none.features, none.count, of(none, np.ones((2, 0)))) == ((), 1, [0, 0])


def test_members_without_a_value_are_left_out() -> None:
    x = [0.0] * 50 + [1.0] * 50 + [0.0] * 100 + [np.nan] * 100
    tree = fitted(x, [0] * 50 + [1] * 250, [False] * 100 + [True] * 100 + [False] * 100, per="cluster")
    assert of(tree, [0, 1]) == [0, 1]


def test_large_numbers_are_told_apart() -> None:
    """scikit-learn itself would not distinguish them: it uses 24 bits."""
    x = 1_700_000_000_000_000_000.0 + 256 * np.repeat(np.arange(3.0), 50)
    assert sorted(of(fitted(x, np.repeat([0, 1, 2], 50)), np.unique(x))) == [0, 1, 2]
    far = np.repeat([-np.inf, 1e308, 1.5e308, np.inf], 50)
    assert sorted(of(fitted(far, np.repeat([0, 1, 2, 3], 50)), np.unique(far))) == [0, 1, 2, 3]


@pytest.mark.parametrize("per", ["leaf", "cluster"])
def test_a_table_says_what_the_tree_says(per: str) -> None:
    values, labels = mixed()
    tree = fitted(values, labels, per=per)
    table = as_table(tree, values)
    assert table is not None and table.features == tree.features == ("f0", "f1", "f2")
    assert (table.low, table.table.shape, table.count) == ((-3, 0, 5), (11, 11, 4), tree.count)
    for row in product(range(-3, 8), range(11), range(5, 9)):
        assert looked_up(table, np.array(row, float)) == walked(tree, np.array(row, float))


def test_tree_and_table_round_down_alike() -> None:
    """The history had integers in a float column, and then fractions occur."""
    values, labels = mixed()
    values *= [1, 3, 1]  # including distant values
    tree = fitted(values, labels)
    table = as_table(tree, values)
    assert table is not None
    random = np.random.default_rng(5)
    for row in random.uniform([-3, 0, 5], [8, 31, 9], (2_000, 3)):
        assert looked_up(table, row) == walked(tree, row) == walked(tree, np.floor(row))


def test_outside_of_the_table_is_the_other_class() -> None:
    tree = Tree(**{**vars(SMALL), "other": 3})
    table = as_table(tree, np.array([[1.0, 0.0], [4.0, 2.0]]))
    assert table is not None and table.table.tolist() == [[3, 3, 0], [3, 3, 0], [1, 1, 1], [1, 1, 1]]
    assert looked_up(table, np.array([5.0, 0.0])) == looked_up(table, np.array([0.0, 0.0])) == table.other == 3
    assert of(tree, [5, 0], [0, 0]) == [1, 3]


@pytest.mark.parametrize("column", [[0.0, 0.5], [0.0, 70_000.0], [2.0**53, 2.0**53 + 2], [0.0, np.inf], []])
def test_there_is_no_table_of_reals_or_many_values(column: list[float]) -> None:
    values = np.zeros((len(column), 2))
    values[:, 1] = column
    assert as_table(SMALL, values) is None


def test_the_seed_decides() -> None:
    values, labels = mixed()
    values = np.column_stack([values, values])  # every split is equally good on another column
    one, again = fitted(values, labels, seed=1), fitted(values, labels, seed=1)
    assert all(np.array_equal(vars(one)[name], vars(again)[name]) for name in vars(one))
    assert len({tuple(fitted(values, labels, seed=seed).feature) for seed in range(8)}) > 1


@pytest.mark.parametrize("wrong", [{"per": "node"}, {"leaves": 0}, {"leaves": 256}, {"depth": 0}])
def test_other_options_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match="expected"):
        fitted([1.0, 2.0], [0, 1], **wrong)


# -------------------------------------------------------------------------------------------------------------- pruning


def responses(values: Any) -> list[Any]:
    return [(np.asarray(values, np.float64), np.ones(len(values)))]


def test_leaves_that_differ_by_chance_become_one() -> None:
    x = np.arange(8_000) % 8
    tree = fitted(x, x)  # a comb: 0, or 1, or 2, ...
    assert tree.count == 8
    values, null = x[:, None].astype(float), np.zeros((8_000, 1), np.bool_)
    noise = np.random.default_rng(7).normal(size=8_000)
    upper = pruned(tree, values, null, responses(np.minimum(x, 4) + noise))
    found = of(upper, range(8))
    assert upper.count == 5 and sorted(found[:5]) == list(range(5)) and set(found[4:]) == {found[4]}
    assert pruned(tree, values, null, responses(x + noise)).count == 8
    nothing = pruned(tree, values, null, responses(noise))
    assert (nothing.features, nothing.count, len(nothing.feature)) == ((), 1, 1)


def test_a_pruned_tree_asks_for_what_is_left_of_it() -> None:
    random = np.random.default_rng(8)
    a, b, c = random.integers(0, 3, (3, 9_000))
    values, null = np.column_stack([a, b, c]).astype(float), np.zeros((9_000, 3), np.bool_)
    tree = fitted(values, 9 * a + 3 * b + c, depth=30)
    assert tree.features == ("f0", "f1", "f2") and tree.count == 27
    worth = np.where(a == 1, c, a)
    less = pruned(tree, values, null, responses(worth))
    assert less.count < 27 and less.features[0] == "f0"
    columns = [tree.features.index(name) for name in less.features]
    found = less.classify(values[:, columns], null[:, : len(less.features)])
    assert set(found.tolist()) == set(range(less.count))
    assert all(len(set(worth[found == number].tolist())) == 1 for number in range(less.count))
