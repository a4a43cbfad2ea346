"""From what became of partial matches, or events, to classes of them and what each class is worth.

Pure functions, Arrow in, parts of a model out: those of different states and variables can be fitted anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Literal

import numpy as np
import pyarrow as pa

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Classes, Floats, Ints, Tree
from fastcep.shedding.hybrid.cells import cells_in
from fastcep.shedding.hybrid.clusters import Map, cluster
from fastcep.shedding.hybrid.columns import (
    CONSUMPTION,
    CONTRIBUTION,
    Flags,
    Parts,
    column,
    features_in,
    matrix,
    vectors,
)
from fastcep.shedding.hybrid.feature_selection import Response, explained, responses_of, tells
from fastcep.shedding.hybrid.summary import Summary
from fastcep.shedding.hybrid.trees import MOST_LEAVES, fit_tree, pruned
from fastcep.shedding.hybrid.values import Fitted, Members, Raw, valued

__all__ = ["Fitted", "check_options", "choose_features", "fit_classes", "told_apart"]

_CLUSTERS = 10
_BINS = 32
#: Where the levels of what members contribute begin.
_PARTS = (0.0, 0.5, 0.9)


def choose_features(members: pa.Table, candidates: Sequence[str] | None = None, seed: int = 0) -> tuple[str, ...]:
    """Choose the features that tell something of what members are worth, or of what they cost.

    Such as keys that are all equally frequent tell nothing, and would only cut classes into pieces. Each feature is
    looked at alone, so that one which tells something only together with another is not chosen: the sum of both, or
    whatever else a condition makes of them, should be a feature itself.

    Parameters
    ----------
    members
        As `fit_classes` takes them.
    candidates
        Names of columns; all features by default.
    seed
        Of the sample, if there are more than 100,000 members.
    """
    return _chosen(Summary.of(members, seed).sample, candidates)


def _chosen(sample: pa.Table, candidates: Sequence[str] | None = None) -> tuple[str, ...]:
    responses = responses_of(vectors(sample, CONTRIBUTION), vectors(sample, CONSUMPTION))
    names = features_in(sample) if candidates is None else candidates
    return tuple(name for name in names if tells(_bins(*column(sample, name)), responses))


def fit_classes(
    members: pa.Table,
    *,
    clusters: int | Literal["gap"] = _CLUSTERS,
    per: Literal["value", "leaf", "cluster"] = "value",
    percentile: float = 90,
    leaves: int = MOST_LEAVES,
    seed: int = 0,
) -> Fitted:
    """Make classes of members that are worth, and cost, about the same, told apart by their features.

    Members are clustered by contribution and consumption per slice; a tree of features tells the clusters apart; its
    leaves are the classes, but those whose members differ by chance are one. Where matches are rare, clusters are of
    costs, and of a few members far from all others; so another tree tells apart how much members contribute, and
    that is taken whose leaves explain more. No more than 100,000 members are fitted
    to, half of which have a contribution, if so many have: matches are rare. What classes are worth is taken from all.

    A value that history did not have may be worth anything. To keep what is worth nothing costs a little, to drop what
    is worth something costs matches, and such values are rare: so a table counts them to the class that is worth most,
    which is dropped last. Null, too; but where history had nulls, they are a class of their own, with a tree.

    Parameters
    ----------
    members
        A row per partial match or event. A column per feature, int64 or float64; ``contribution`` and ``consumption``,
        FixedSizeList<float32>[slices].
    clusters
        How many clusters, or ``"gap"``, see `cluster`; the tree is as deep.
    per
        What is a class: ``"value"``, each combination of values, where there are few (`cells_of`), else as ``"leaf"``;
        for this and ``"cluster"`` see `fit_tree`.
    percentile
        Which one of its members' contribution and consumption a class has, from 0 to 100.
    leaves
        How many leaves the tree has at most, up to 255.
    seed
        Of all that is drawn.

    Raises
    ------
    ValidationError
        scikit-learn or SciPy are not installed, or an option or column is not as it should be.
    """
    check_options(per, percentile)
    raw = told_apart(Summary.of(members, seed), clusters=clusters, per=per, leaves=leaves, seed=seed)
    return valued(raw, Members(members, raw), percentile)


def check_options(per: str, percentile: float) -> None:
    """Refuse what is no option of `fit_classes`."""
    if not 0 <= percentile <= 100:
        raise ValidationError(f"found percentile={percentile}; expected a number from 0 to 100")
    if per not in ("value", "leaf", "cluster"):
        raise ValidationError(f"found per={per!r}; expected 'value', 'leaf' or 'cluster'")


def told_apart(
    summary: Summary,
    *,
    clusters: int | Literal["gap"] = _CLUSTERS,
    per: Literal["value", "leaf", "cluster"] = "value",
    leaves: int = MOST_LEAVES,
    seed: int = 0,
    map: Map = map,
) -> Raw:
    """How members are told apart, by their summary alone; None: not at all. `valued` numbers the classes of a tree.

    Parameters
    ----------
    summary
        Of all members.
    clusters, per, leaves, seed
        See `fit_classes`.
    map
        See `gap_statistic`.
    """
    drawn = summary.sample
    own, cost = vectors(drawn, CONTRIBUTION), vectors(drawn, CONSUMPTION)
    names = _chosen(drawn)
    if not names:
        return None
    if per == "value":
        facts = [summary.facts[name] for name in names]
        if all(known.whole and not known.nulls for known in facts):
            low, high = (np.array(of) for of in ([known.low for known in facts], [known.high for known in facts]))
            cells: Classes | None = cells_in(names, low, high, summary.members)
            if cells is not None:
                return cells
    labels = cluster(np.hstack([own, cost]), clusters, seed, map)
    if not labels.any() and clusters == "gap":  # it takes heaps of equal counts for one; but features do tell
        labels = cluster(np.hstack([own, cost]), _CLUSTERS, seed)
    values, null = matrix(drawn, names)
    responses = responses_of(own, cost)
    grow = partial(fit_tree, names, values, null, depth=int(labels.max()) + 1, leaves=leaves, seed=seed)
    if per == "cluster":
        tree = grow(labels, per="cluster")
    else:
        trees = [_pruned(grow(of, per="leaf"), drawn, responses) for of in (labels, _levels(own))]
        tree = max(trees, key=partial(_explained, drawn=drawn, responses=responses))
    # Members without a value are not in the tree; that there is none may tell more than which.
    also = (name for name, gone in zip(names, null.T, strict=True) if tells(gone.astype(np.int64), responses))
    tree = replace(tree, features=tuple(dict.fromkeys((*tree.features, *also))))
    return tree if tree.features else None


def _levels(contribution: Parts) -> Ints:
    """By how much members contribute: nothing, or in which part of those that do."""
    whole = contribution.sum(axis=1, dtype=np.float64)
    some = whole[whole > 0]
    edges = np.unique(np.quantile(some, _PARTS)) if len(some) else some
    return np.asarray(np.searchsorted(edges, whole, "right"), np.int64)


def _pruned(tree: Tree, members: pa.Table, responses: Sequence[Response]) -> Tree:
    return pruned(tree, *matrix(members, tree.features), responses) if tree.features else tree


def _explained(tree: Tree, drawn: pa.Table, responses: Sequence[Response]) -> float:
    if not tree.features:
        return 0.0
    return explained(tree.classify(*matrix(drawn, tree.features)).astype(np.int64), responses)


def _bins(values: Floats, null: Flags) -> Ints:
    """Bins of as many members each, of one value if there are few; null is a bin of its own."""
    known = values[~null]
    edges = np.unique(known)
    if len(edges) > _BINS:
        edges = np.unique(np.quantile(known, np.arange(1, _BINS) / _BINS, method="lower"))
    bins = np.searchsorted(edges, values)
    return np.where(null, len(edges) + 1, bins)
