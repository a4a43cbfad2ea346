"""Decision trees that tell from the values of its features of which class a partial match, or an event, is.

A tree is fitted by scikit-learn and compiled to arrays; where the features are whole numbers of a small range, a table
says the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Classes, Floats, Ints, Tree
from fastcep.shedding.hybrid.clusters import load
from fastcep.shedding.hybrid.feature_selection import Response, tells

__all__ = ["MOST_LEAVES", "as_table", "fit_tree", "pruned", "table_in", "whole"]

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

#: A byte holds the number of a class, and one may be for what has no value.
MOST_LEAVES = 255
_CELLS = 65_536
_FAR = 2.0**53  # whole numbers beyond are not told apart
#: How many members a leaf has at least, and what share of them.
_MEMBERS = 5
_SHARE = 2e-4
#: By how much a split must make the leaves purer, in all; no more is asked for, however few members there are.
_PURER, _PUREST = 2e-4, 5e-3
#: The same, by how much one does by chance.
_CHANCE = 4


def fit_tree(
    features: Sequence[str],
    values: Floats,
    null: Flags,
    labels: Ints,
    *,
    depth: int,
    per: Literal["leaf", "cluster"] = "leaf",
    leaves: int = MOST_LEAVES,
    seed: int = 0,
) -> Tree:
    """Fit a tree that tells from their features of which cluster members are.

    All clusters count the same, however many members they have: those of the members that matches come from are small.

    Parameters
    ----------
    features
        Of the columns.
    values, null
        As `Tree.of` takes them. Members without a value are left out.
    labels
        int64[n]: the cluster of each member.
    depth
        How many features at most are asked for one after the other.
    per
        ``"leaf"``: each leaf is a class of its own. ``"cluster"``: it is of the class of its cluster, as in the paper;
        a cluster that no leaf is of is no class.
    leaves
        How many there are at most, up to 255.
    seed
        Of what is drawn where several splits are as good.

    Returns
    -------
    Tree
        With those features only that it asks for, in their order.

    Raises
    ------
    ValidationError
        scikit-learn is not installed, or an option is out of range.
    """
    if per not in ("leaf", "cluster"):
        raise ValidationError(f"found per={per!r}; expected 'leaf' or 'cluster'")
    if not 1 <= leaves <= MOST_LEAVES or depth < 1:
        raise ValidationError(
            f"found a tree with depth={depth} and leaves={leaves}; expected at least 1, and up to {MOST_LEAVES} leaves"
        )
    sound = ~(null | np.isnan(values)).any(axis=1)
    own, labels = values[sound], labels[sound]
    if leaves == 1 or not own.size or labels.min() == labels.max():
        return _leaf()
    # scikit-learn takes float32; the ranks of values are exact there, however large these are.
    known = [np.unique(column, return_inverse=True) for column in own.T]
    ranks = np.column_stack([rank for _, rank in known])
    grown = load("sklearn.tree").DecisionTreeClassifier(
        class_weight="balanced",
        max_depth=depth,
        max_leaf_nodes=leaves,
        min_samples_leaf=max(_MEMBERS, int(len(own) * _SHARE)),
        min_impurity_decrease=_least_gain(labels),
        random_state=seed,
    )
    return _compiled(grown.fit(ranks, labels).tree_, features, [found for found, _ in known], per)


def _least_gain(labels: Ints) -> float:
    """How much purer a split must make the leaves, so that it is none of noise.

    If what is asked tells nothing, the share of a cluster with n members that goes left has the variance q (1 - q) / n,
    so that Gini's impurity falls by the sum of 1 / (k^2 n) over all k clusters, on average.
    """
    members = np.unique(labels, return_counts=True)[1]
    return min(max(_CHANCE * float((1 / members).sum()) / len(members) ** 2, _PURER), _PUREST)


def _leaf() -> Tree:
    none = np.zeros(1, np.int32)
    return Tree((), none - 1, np.zeros(1), none, none, np.zeros(1, np.uint8))


def pruned(tree: Tree, values: Floats, null: Flags, responses: Sequence[Response]) -> Tree:
    """Make two leaves one again where the members of both are worth as much and cost as much, but by chance.

    Clusters differ in more than features know, and a tree learns some of that by heart.

    Parameters
    ----------
    tree
        Each of its leaves is a class.
    values, null
        As `Tree.of` takes them.
    responses
        What leaves are to tell, of the same members.
    """
    found, sound = tree.classify(values, null), ~(null | np.isnan(values)).any(axis=1)
    leaf = tree.feature < 0
    rows: dict[int, Ints] = {}
    for node in reversed(range(len(leaf))):
        if leaf[node]:
            rows[node] = np.flatnonzero(sound & (found == tree.value[node]))
            continue
        left, right = rows[int(tree.left[node])], rows[int(tree.right[node])]
        rows[node] = both = np.sort(np.concatenate([left, right]))  # in the order of the stream, see `tells`
        if leaf[tree.left[node]] and leaf[tree.right[node]]:
            side = np.isin(both, right, assume_unique=True).astype(np.int64)
            leaf[node] = not tells(side, [(response[both], weights[both]) for response, weights in responses])
    return _cut(tree, leaf)


def _cut(tree: Tree, leaf: Flags) -> Tree:
    """The part of a tree down to the first leaves, each of which is a class."""
    kept = [0]
    for node in kept:  # grows on the way
        if not leaf[node]:
            kept += [int(tree.left[node]), int(tree.right[node])]
    ends = leaf[kept]
    feature, number = np.where(ends, -1, tree.feature[kept]), np.zeros(len(leaf), np.int32)
    number[kept] = np.arange(len(kept))
    asked = np.unique(feature[~ends])
    return Tree(
        tuple(tree.features[f] for f in asked),
        np.where(ends, -1, np.searchsorted(asked, feature)).astype(np.int32),
        np.where(ends, 0.0, tree.threshold[kept]),
        np.where(ends, 0, number[tree.left[kept]]).astype(np.int32),
        np.where(ends, 0, number[tree.right[kept]]).astype(np.int32),
        np.where(ends, np.cumsum(ends) - 1, 0).astype(np.uint8),
    )


def _compiled(grown: Any, features: Sequence[str], known: Sequence[Floats], per: str) -> Tree:
    inner = grown.children_left >= 0
    asked = np.unique(grown.feature[inner])
    feature = np.full(len(inner), -1, np.int32)
    feature[inner] = np.searchsorted(asked, grown.feature[inner])
    threshold = np.zeros(len(inner))
    for node in np.flatnonzero(inner):
        threshold[node] = _between(known[grown.feature[node]], int(grown.threshold[node]))
    value = np.zeros(len(inner), np.uint8)
    clusters = np.arange(len(inner)) if per == "leaf" else grown.value[:, 0, :].argmax(axis=1)
    value[~inner] = np.unique(clusters[~inner], return_inverse=True)[1]
    left, right = (np.where(inner, of, 0).astype(np.int32) for of in (grown.children_left, grown.children_right))
    return Tree(tuple(features[f] for f in asked), feature, threshold, left, right, value)


def _between(known: Floats, rank: int) -> float:
    """A threshold between a value and the next larger one that there is.

    Of whole numbers it is just below one, so that whatever lies between two goes with the lower one, as in a table.
    """
    low, high = float(known[rank]), float(known[rank + 1])
    middle = low / 2 + high / 2
    if whole(known):
        return math.nextafter(math.floor(middle) + 1, -math.inf)
    return middle if low <= middle < high else low


def whole(values: Floats) -> bool:
    """Whether all values are whole numbers that float64 tells apart."""
    return bool(np.all(np.abs(values) < _FAR) and np.all(np.floor(values) == values))


def as_table(tree: Tree, values: Floats) -> Classes | None:
    """Make a table that says the same as a tree wherever features are in the range that they have.

    Outside of it the tree goes by the closest value that it knows, and the table says `Tree.other`.

    Parameters
    ----------
    tree
        It asks for something.
    values
        float64[n, features], without null: which values the features have.

    Returns
    -------
    Classes
        None if a feature has other values than whole numbers, or the table had more than 65,536 cells.
    """
    if not values.size:
        return None
    return table_in(tree, values.min(axis=0), values.max(axis=0), whole(values))


def table_in(tree: Tree, low: Floats, high: Floats, are_whole: bool) -> Classes | None:
    """The same, by the range of each feature and whether all their values are whole numbers."""
    if not len(low) or not are_whole or not np.isfinite(low).all():
        return None
    shape = [int(size) for size in high - low + 1]
    if math.prod(shape) > _CELLS:
        return None
    cells = np.indices(shape).reshape(len(shape), -1).T + low
    table = tree.classify(cells, np.zeros(cells.shape, np.bool_)).reshape(shape)
    return Classes(tree.features, tuple(int(value) for value in low), table, tree.other)
