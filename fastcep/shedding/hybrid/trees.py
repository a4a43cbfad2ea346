"""Decision trees that predict the class of a partial match or event from its features.

A tree is fitted by scikit-learn and converted to arrays. If the features are integers of a small range, it is converted
to a table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Classes, Floats, Ints, Tree
from fastcep.shedding.hybrid.clusters import load
from fastcep.shedding.hybrid.feature_selection import Response, is_informative

__all__ = ["MOST_LEAVES", "all_integers", "as_table", "fit_tree", "pruned", "table_in", "with_range"]

Bytes = npt.NDArray[np.uint8]
Flags = npt.NDArray[np.bool_]

#: Largest number of leaves: the number of a class fits into a byte, and nulls and unseen values may need a class each.
MOST_LEAVES = 254
_CELLS = 65_536
_EXACT = 2.0**53  # float64 does not distinguish larger integers
#: Smallest size of a leaf, in members and as a share.
_MEMBERS = 5
_SHARE = 2e-4
#: Limits of the impurity decrease that a split must reach.
_LEAST_GAIN, _MOST_GAIN = 2e-4, 5e-3
#: Required impurity decrease, as a multiple of that expected by chance.
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
    """Fit a tree that predicts the cluster of members from their features.

    All clusters have the same total weight, because the clusters of members with a contribution are small.

    Parameters
    ----------
    features
        Names of the columns.
    values, null
        Features as for `Tree.classify`. Members without a value are left out.
    labels
        Cluster of each member: int64[n].
    depth
        Largest depth of the tree.
    per
        ``"leaf"``: each leaf is a class. ``"cluster"``: a leaf has the class of its cluster, as in the paper; a cluster
        without a leaf has no class.
    leaves
        Largest number of leaves, up to 254.
    seed
        Seed of the choice among equally good splits.

    Returns
    -------
    Tree
        Tree with only the features that it uses, in their order.

    Raises
    ------
    ValidationError
        If scikit-learn is not installed, or an option is out of range.
    """
    if per not in ("leaf", "cluster"):
        raise ValidationError(f"found per={per!r}; expected 'leaf' or 'cluster'")
    if not 1 <= leaves <= MOST_LEAVES or depth < 1:
        raise ValidationError(
            f"found a tree with depth={depth} and leaves={leaves}; expected at least 1, and up to {MOST_LEAVES} leaves"
        )
    complete = ~(null | np.isnan(values)).any(axis=1)
    present, labels = values[complete], labels[complete]
    if leaves == 1 or not present.size or labels.min() == labels.max():
        return _leaf()
    # scikit-learn converts to float32, in which the ranks of values are exact even if the values are not.
    distinct = [np.unique(column, return_inverse=True) for column in present.T]
    ranks = np.column_stack([rank for _, rank in distinct])
    grown = load("sklearn.tree").DecisionTreeClassifier(
        class_weight="balanced",
        max_depth=depth,
        max_leaf_nodes=leaves,
        min_samples_leaf=max(_MEMBERS, int(len(present) * _SHARE)),
        min_impurity_decrease=_least_gain(labels),
        random_state=seed,
    )
    return _compiled(grown.fit(ranks, labels).tree_, features, [values for values, _ in distinct], per)


def _least_gain(labels: Ints) -> float:
    """Return the impurity decrease that a split must reach to be unlikely by chance.

    For a split that is not informative, the share of a cluster of n members that goes left has the variance
    q (1 - q) / n. Gini impurity then decreases on average by the sum of 1 / (k^2 n) over all k clusters.
    """
    members = np.unique(labels, return_counts=True)[1]
    return min(max(_CHANCE * float((1 / members).sum()) / len(members) ** 2, _LEAST_GAIN), _MOST_GAIN)


def _leaf() -> Tree:
    none = np.zeros(1, np.int32)
    return Tree((), none - 1, np.zeros(1), none, none, np.zeros(1, np.uint8))


def pruned(tree: Tree, values: Floats, null: Flags, responses: Sequence[Response]) -> Tree:
    """Merge sibling leaves whose members differ in contribution and consumption only by chance.

    Clusters differ by more than the features explain, so a tree overfits to some degree.

    Parameters
    ----------
    tree
        Tree in which each leaf is a class.
    values, null
        Features as for `Tree.classify`.
    responses
        Responses of the same members, which leaves should explain.
    """
    classes, complete = tree.classify(values, null), ~(null | np.isnan(values)).any(axis=1)
    leaf = tree.feature < 0
    rows: dict[int, Ints] = {}
    for node in reversed(range(len(leaf))):
        if leaf[node]:
            rows[node] = np.flatnonzero(complete & (classes == tree.value[node]))
            continue
        left, right = rows[int(tree.left[node])], rows[int(tree.right[node])]
        rows[node] = both = np.sort(np.concatenate([left, right]))  # in the order of the stream, for `is_informative`
        if leaf[tree.left[node]] and leaf[tree.right[node]]:
            side = np.isin(both, right, assume_unique=True).astype(np.int64)
            leaf[node] = not is_informative(side, [(response[both], weights[both]) for response, weights in responses])
    return _truncated(tree, leaf)


def _truncated(tree: Tree, leaf: Flags) -> Tree:
    """Return the part of a tree down to the first leaves, each of which is a class."""
    kept = [0]
    for node in kept:  # grows during the loop
        if not leaf[node]:
            kept += [int(tree.left[node]), int(tree.right[node])]
    ends = leaf[kept]
    feature, number = np.where(ends, -1, tree.feature[kept]), np.zeros(len(leaf), np.int32)
    number[kept] = np.arange(len(kept))
    used = np.unique(feature[~ends])
    return Tree(
        tuple(tree.features[f] for f in used),
        np.where(ends, -1, np.searchsorted(used, feature)).astype(np.int32),
        np.where(ends, 0.0, tree.threshold[kept]),
        np.where(ends, 0, number[tree.left[kept]]).astype(np.int32),
        np.where(ends, 0, number[tree.right[kept]]).astype(np.int32),
        np.where(ends, np.cumsum(ends) - 1, 0).astype(np.uint8),
    )


def _compiled(grown: Any, features: Sequence[str], distinct: Sequence[Floats], per: str) -> Tree:
    inner = grown.children_left >= 0
    used = np.unique(grown.feature[inner])
    feature = np.full(len(inner), -1, np.int32)
    feature[inner] = np.searchsorted(used, grown.feature[inner])
    threshold = np.zeros(len(inner))
    for node in np.flatnonzero(inner):
        threshold[node] = _threshold(distinct[grown.feature[node]], int(grown.threshold[node]))
    value = np.zeros(len(inner), np.uint8)
    clusters = np.arange(len(inner)) if per == "leaf" else grown.value[:, 0, :].argmax(axis=1)
    value[~inner] = np.unique(clusters[~inner], return_inverse=True)[1]
    left, right = (np.where(inner, child, 0).astype(np.int32) for child in (grown.children_left, grown.children_right))
    return Tree(tuple(features[f] for f in used), feature, threshold, left, right, value)


def _threshold(distinct: Floats, rank: int) -> float:
    """Return a threshold between the value of a rank and the next larger value.

    For integers it is just below an integer, so that a fraction is rounded down, as in a table.
    """
    low, high = float(distinct[rank]), float(distinct[rank + 1])
    middle = low / 2 + high / 2
    if all_integers(distinct):
        return math.nextafter(math.floor(middle) + 1, -math.inf)
    return middle if low <= middle < high else low


def all_integers(values: Floats) -> bool:
    """Return whether all values are integers that float64 represents exactly."""
    return bool(np.all(np.abs(values) < _EXACT) and np.all(np.floor(values) == values))


def with_range(tree: Tree, low: Floats, high: Floats, integers: bool, unseen: int) -> Tree:
    """Return a tree that also checks the range of the features that it splits by.

    Parameters
    ----------
    tree
        Tree to extend.
    low, high
        Range of each feature in the history: float64[features]. An infinite end is not checked.
    integers
        Whether all values are integers. Fractions are then rounded down, as in a table.
    unseen
        Class of members with a value outside the range.
    """
    ends = []  # feature, threshold, and whether values above the threshold are outside the range
    for feature in np.unique(tree.feature[tree.feature >= 0]).tolist():
        top = math.nextafter(high[feature] + 1, -math.inf) if integers else float(high[feature])
        ends += [(feature, top, True)] if math.isfinite(top) else []
        ends += [(feature, math.nextafter(low[feature], -math.inf), False)] if math.isfinite(low[feature]) else []
    # Each check is a node and a leaf, before the nodes of the tree.
    first = 2 * len(ends)
    feature, left, right, value = (np.zeros(first, np.int32) for _ in range(4))
    threshold = np.zeros(first)
    for number, (of, limit, above) in enumerate(ends):
        node, leaf = 2 * number, 2 * number + 1
        feature[node], feature[leaf], threshold[node], value[leaf] = of, -1, limit, unseen
        left[node], right[node] = (node + 2, leaf) if above else (leaf, node + 2)
    inner = tree.feature >= 0
    return replace(
        tree,
        feature=np.concatenate([feature, tree.feature]).astype(np.int32),
        threshold=np.concatenate([threshold, tree.threshold]),
        left=np.concatenate([left, np.where(inner, tree.left + first, 0)]).astype(np.int32),
        right=np.concatenate([right, np.where(inner, tree.right + first, 0)]).astype(np.int32),
        value=np.concatenate([value, tree.value]).astype(np.uint8),
    )


def as_table(tree: Tree, values: Floats) -> Classes | None:
    """Convert a tree to a table that is equal in the range of the given values.

    Outside this range the tree classifies as at the closest value, and the table returns `Tree.other`.

    Parameters
    ----------
    tree
        Tree with at least one feature.
    values
        Values of the features: float64[n, features], without nulls.

    Returns
    -------
    Classes
        None if a feature has other values than integers, or the table would have more than 65,536 cells.
    """
    if not values.size:
        return None
    return table_in(tree, values.min(axis=0), values.max(axis=0), all_integers(values))


def table_in(tree: Tree, low: Floats, high: Floats, are_integers: bool) -> Classes | None:
    """Return the table of `as_table` from the range of each feature, and whether all values are integers."""
    if not len(low) or not are_integers or not np.isfinite(low).all():
        return None
    shape = [int(size) for size in high - low + 1]
    if math.prod(shape) > _CELLS:
        return None
    cells = np.indices(shape).reshape(len(shape), -1).T + low
    table = tree.classify(cells, np.zeros(cells.shape, np.bool_)).reshape(shape)
    return Classes(tree.features, tuple(int(value) for value in low), table, tree.other)
