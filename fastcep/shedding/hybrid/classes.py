"""Fit classes of partial matches or events, and their contribution and consumption.

These are pure functions from Arrow tables to parts of a model, so different variables can be fitted in any process.
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
from fastcep.shedding.hybrid.feature_selection import Response, explained_share, is_informative, responses_of
from fastcep.shedding.hybrid.summary import Summary
from fastcep.shedding.hybrid.trees import MOST_LEAVES, fit_tree, pruned
from fastcep.shedding.hybrid.values import Fitted, Members, Raw, evaluate_classes

__all__ = [
    "Fitted", "bins_of", "check_options", "choose_features", "find_classes", "fit_classes", "informative_features",
]  # fmt: skip

_CLUSTERS = 10
_BINS = 32
#: Quantiles of the contribution at which its levels begin.
_LEVELS = (0.0, 0.5, 0.9)


def choose_features(members: pa.Table, candidates: Sequence[str] | None = None, seed: int = 0) -> tuple[str, ...]:
    """Choose the features that are informative about the contribution or consumption of members.

    Features such as equally frequent keys are not informative and would only split classes. Each feature is tested
    alone, so a feature that is informative only together with another is not chosen: their sum, or any other expression
    of a condition, should be a feature itself.

    Parameters
    ----------
    members
        Members as for `fit_classes`.
    candidates
        Names of columns; all features by default.
    seed
        Seed of the sample, if there are more than 100,000 members.
    """
    return informative_features(Summary.of(members, seed).sample, candidates)


def informative_features(sample: pa.Table, candidates: Sequence[str] | None = None) -> tuple[str, ...]:
    """Return the features that are informative about the members of a sample, see `choose_features`."""
    responses = responses_of(vectors(sample, CONTRIBUTION), vectors(sample, CONSUMPTION))
    names = features_in(sample) if candidates is None else candidates
    return tuple(name for name in names if is_informative(bins_of(*column(sample, name)), responses))


def fit_classes(
    members: pa.Table,
    *,
    clusters: int | Literal["gap"] = _CLUSTERS,
    per: Literal["value", "leaf", "cluster"] = "value",
    percentile: float = 90,
    leaves: int = MOST_LEAVES,
    seed: int = 0,
) -> Fitted:
    """Fit classes of members with similar contribution and consumption, distinguished by their features.

    Members are clustered by contribution and consumption per slice. A decision tree over the features predicts the
    clusters. Its leaves are the classes, but leaves whose members differ only by chance are merged. If matches are
    rare, clusters mostly reflect consumption and a few outliers; a second tree therefore predicts levels of the
    contribution, and the tree whose leaves explain more variance is used. Trees are fitted to at most 100,000 members,
    half of which have a contribution, if there are enough. The values of classes are computed from all members.

    Values outside the range of the history go to a class of their own, which no drop order contains: nothing is known
    about them. Nulls do so too if the history had none. If it had at least 20, they are a class of their own; fewer go
    to the class of the largest contribution. With nulls, the classes are a tree.

    Parameters
    ----------
    members
        A row per partial match or event. A column per feature, int64 or float64; ``contribution`` and ``consumption``,
        FixedSizeList<float32>[slices].
    clusters
        Number of clusters, which is also the depth of the tree, or ``"gap"``, see `cluster`.
    per
        Definition of a class. ``"value"``: each combination of values, if there are few (`cells_of`), otherwise as
        ``"leaf"``. For ``"leaf"`` and ``"cluster"`` see `fit_tree`.
    percentile
        Percentile of its members' contribution and consumption that a class gets, from 0 to 100.
    leaves
        Largest number of leaves of the tree, up to 254.
    seed
        Seed of all random decisions.

    Raises
    ------
    ValidationError
        If scikit-learn or SciPy are not installed, or an option or column is invalid.
    """
    check_options(per, percentile)
    raw = find_classes(Summary.of(members, seed), clusters=clusters, per=per, leaves=leaves, seed=seed)
    return evaluate_classes(raw, Members(members, raw), percentile)


def check_options(per: str, percentile: float) -> None:
    """Check options of `fit_classes`."""
    if not 0 <= percentile <= 100:
        raise ValidationError(f"found percentile={percentile}; expected a number from 0 to 100")
    if per not in ("value", "leaf", "cluster"):
        raise ValidationError(f"found per={per!r}; expected 'value', 'leaf' or 'cluster'")


def find_classes(
    summary: Summary,
    *,
    clusters: int | Literal["gap"] = _CLUSTERS,
    per: Literal["value", "leaf", "cluster"] = "value",
    leaves: int = MOST_LEAVES,
    seed: int = 0,
    map: Map = map,
    candidates: Sequence[str] | None = None,
) -> Raw:
    """Find classes from the summary of the members; None: a single class.

    `evaluate_classes` numbers the classes of a tree.

    Parameters
    ----------
    summary
        Summary of all members.
    clusters, per, leaves, seed
        See `fit_classes`.
    map
        See `gap_statistic`.
    candidates
        Names of the features that may be used; all by default.
    """
    sample = summary.sample
    contribution, consumption = vectors(sample, CONTRIBUTION), vectors(sample, CONSUMPTION)
    names = informative_features(sample, candidates)
    if not names:
        return None
    if per == "value":
        stats = [summary.feature_stats[name] for name in names]
        if all(feature.integers and not feature.nulls for feature in stats):
            low, high = np.array([feature.low for feature in stats]), np.array([feature.high for feature in stats])
            cells: Classes | None = cells_in(names, low, high, summary.members)
            if cells is not None:
                return cells
    labels = cluster(np.hstack([contribution, consumption]), clusters, seed, map)
    if not labels.any() and clusters == "gap":  # many equal counts count as one cluster
        labels = cluster(np.hstack([contribution, consumption]), _CLUSTERS, seed)
    values, null = matrix(sample, names)
    responses = responses_of(contribution, consumption)
    grow = partial(fit_tree, names, values, null, depth=int(labels.max()) + 1, leaves=leaves, seed=seed)
    if per == "cluster":
        tree = grow(labels, per="cluster")
    else:
        targets = (labels, _levels(contribution))
        trees = [_pruned(grow(target, per="leaf"), sample, responses) for target in targets]
        tree = max(trees, key=partial(_explained, sample=sample, responses=responses))
    # Members without a value are not in the tree. Add the features whose nulls are informative.
    by_null = (
        name for name, nulls in zip(names, null.T, strict=True) if is_informative(nulls.astype(np.int64), responses)
    )
    tree = replace(tree, features=tuple(dict.fromkeys((*tree.features, *by_null))))
    return tree if tree.features else None


def _levels(contribution: Parts) -> Ints:
    """Return the level of each member's total contribution: 0 for none, then by the quantiles `_LEVELS`."""
    total = contribution.sum(axis=1, dtype=np.float64)
    positive = total[total > 0]
    edges = np.unique(np.quantile(positive, _LEVELS)) if len(positive) else positive
    return np.asarray(np.searchsorted(edges, total, "right"), np.int64)


def _pruned(tree: Tree, members: pa.Table, responses: Sequence[Response]) -> Tree:
    return pruned(tree, *matrix(members, tree.features), responses) if tree.features else tree


def _explained(tree: Tree, sample: pa.Table, responses: Sequence[Response]) -> float:
    if not tree.features:
        return 0.0
    return explained_share(tree.classify(*matrix(sample, tree.features)).astype(np.int64), responses)


def bins_of(values: Floats, null: Flags) -> Ints:
    """Return the bin of each member: one per value if there are few, otherwise equally large; nulls have their own."""
    present = values[~null]
    edges = np.unique(present)
    if len(edges) > _BINS:
        edges = np.unique(np.quantile(present, np.arange(1, _BINS) / _BINS, method="lower"))
    bins = np.searchsorted(edges, values)
    return np.where(null, len(edges) + 1, bins)
