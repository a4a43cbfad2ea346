"""From what became of partial matches, or events, to classes of them and what each class is worth.

Pure functions, Arrow in, parts of a model out: those of different states and variables can be fitted anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.engine.overload.protocols import Classes, Floats, Ints, Tree
from fastcep.errors import ValidationError
from fastcep.shedding.hybrid.cells import cells_of
from fastcep.shedding.hybrid.clusters import cluster
from fastcep.shedding.hybrid.telling import Parts, responses_of, tells
from fastcep.shedding.hybrid.trees import MOST_LEAVES, Bytes, Flags, as_table, fit_tree, pruned

__all__ = ["Fitted", "choose_features", "fit_classes"]

#: How many members features are chosen by, and clusters and trees fitted to.
_ROWS = 100_000
_CLUSTERS = 10
_BINS = 32
#: So many members without a value are a class of their own.
_NULLS = 20
_CONTRIBUTION, _CONSUMPTION = "contribution", "consumption"


@dataclass(frozen=True)
class Fitted:
    """Classes of the partial matches of a state, or of the events of a variable.

    Attributes
    ----------
    classes
        How they are told apart: by a table where one says the same as the tree. None: no feature tells anything, and
        all are of class 0.
    values
        A row per class, from the one that is worth least to the one that is worth most: ``class`` and ``members``
        (int64), ``contribution`` and ``consumption`` (float64[slices]: percentiles over the members that are told to
        be of the class), ``mean_contribution`` and ``mean_consumption``.
    """

    classes: Classes | Tree | None
    values: pa.Table


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
    rows = _sample(_vectors(members, _CONTRIBUTION), seed)
    drawn = members if rows is None else members.take(rows)
    responses = responses_of(*(_vectors(drawn, name) for name in (_CONTRIBUTION, _CONSUMPTION)))
    names = _features(members) if candidates is None else candidates
    return tuple(name for name in names if tells(_bins(*_column(drawn, name)), responses))


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
    leaves are the classes, but those whose members differ by chance are one. No more than 100,000 members are fitted
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
    if not 0 <= percentile <= 100:
        raise ValidationError(f"found percentile={percentile}; expected a number from 0 to 100")
    if per not in ("value", "leaf", "cluster"):
        raise ValidationError(f"found per={per!r}; expected 'value', 'leaf' or 'cluster'")
    contribution, consumption = _vectors(members, _CONTRIBUTION), _vectors(members, _CONSUMPTION)
    rows = _sample(contribution, seed)
    drawn, own, cost = members, contribution, consumption
    if rows is not None:
        drawn, own, cost = members.take(rows), contribution[rows], consumption[rows]
    names = choose_features(drawn, seed=seed)
    tree = None
    if names and per == "value":
        columns, missing = _matrix(members, names)
        cells = None if missing.any() else cells_of(names, columns)
        if cells is not None:
            found = cells.of(columns, missing)
            return Fitted(cells, _values(found, cells.count, contribution, consumption, percentile))
    if names:
        labels = cluster(np.hstack([own, cost]), clusters, seed)
        if not labels.any() and clusters == "gap":  # it takes heaps of equal counts for one; but features do tell
            labels = cluster(np.hstack([own, cost]), _CLUSTERS, seed)
        values, null = _matrix(drawn, names)
        depth, responses = int(labels.max()) + 1, responses_of(own, cost)
        own_class: Literal["leaf", "cluster"] = "cluster" if per == "cluster" else "leaf"
        tree = fit_tree(names, values, null, labels, depth=depth, per=own_class, leaves=leaves, seed=seed)
        if per != "cluster" and tree.features:
            tree = pruned(tree, *_matrix(drawn, tree.features), responses)
        # Members without a value are not in the tree; that there is none may tell more than which.
        also = (name for name, gone in zip(names, null.T, strict=True) if tells(gone.astype(np.int64), responses))
        tree = replace(tree, features=tuple(dict.fromkeys((*tree.features, *also))))
    if tree is None or not tree.features:
        return Fitted(None, _values(np.zeros(len(members), np.uint8), 1, contribution, consumption, percentile))
    return _valued(tree, members, contribution, consumption, percentile)


def _valued(tree: Tree, members: pa.Table, contribution: Parts, consumption: Parts, percentile: float) -> Fitted:
    """Number the classes of a tree by what they are worth, and make it a table."""
    values, null = _matrix(members, tree.features)
    missing = null.any(axis=1)
    own_class = int(missing.sum()) >= _NULLS
    tree = replace(tree, other=tree.count if own_class else 0)
    count, found = tree.count, tree.of(values, null)
    known = np.ones(len(found), np.bool_) if own_class else ~missing
    worth = np.bincount(found[known], contribution[known].sum(axis=1, dtype=np.float64), count)
    order = np.argsort(worth / np.maximum(np.bincount(found[known], minlength=count), 1), kind="stable")
    rank = np.empty(count, np.uint8)
    rank[order] = np.arange(count)
    tree = replace(tree, value=rank[tree.value], other=int(rank[tree.other]) if own_class else count - 1)
    found = np.where(known, rank[found], tree.other).astype(np.uint8)
    table = None if own_class else as_table(tree, values[~missing])
    return Fitted(table or tree, _values(found, count, contribution, consumption, percentile))


# ----------------------------------------------------------------------------------------------------------- columns


def _features(members: pa.Table) -> list[str]:
    return [name for name in members.column_names if name not in (_CONTRIBUTION, _CONSUMPTION)]


def _vectors(members: pa.Table, name: str) -> Parts:
    """A column of lists as float32[n, slices]."""
    kind: Any = members.schema.field(name).type if name in members.column_names else None
    if kind is None or not pa.types.is_fixed_size_list(kind) or members[name].null_count:
        raise ValidationError(
            f"found {kind} as column {name!r} of members, expected FixedSizeList<float32>[slices] without null"
        )
    chunks: list[Any] = members[name].chunks
    parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in chunks]
    return np.concatenate([np.empty(0, np.float32), *parts], dtype=np.float32).reshape(-1, kind.list_size)


def _column(members: pa.Table, name: str) -> tuple[Floats, Flags]:
    """A feature as float64[n], and where it has no value."""
    column: Any = members[name].combine_chunks()
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
        raise ValidationError(f"found {column.type} as feature {name!r} of members, expected int64 or float64")
    null = column.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
    return pc.cast(column, pa.float64(), safe=False).fill_null(0.0).to_numpy(zero_copy_only=False), null


def _matrix(members: pa.Table, names: Sequence[str]) -> tuple[Floats, Flags]:
    columns = [_column(members, name) for name in names]
    return np.column_stack([values for values, _ in columns]), np.column_stack([null for _, null in columns])


def _sample(contribution: Parts, seed: int) -> Ints | None:
    """Which members to fit to; None: all. Half of them have a contribution, if so many have."""
    if len(contribution) <= _ROWS:
        return None
    random = np.random.default_rng([seed, 2])
    worth = contribution.any(axis=1)
    with_, without = np.flatnonzero(worth), np.flatnonzero(~worth)
    first = min(len(with_), max(_ROWS // 2, _ROWS - len(without)))
    drawn = [random.choice(of, size, replace=False) for of, size in ((with_, first), (without, _ROWS - first))]
    return np.sort(np.concatenate(drawn))


# ------------------------------------------------------------------------------------------------------------ values


def _bins(values: Floats, null: Flags) -> Ints:
    """Bins of as many members each, of one value if there are few; null is a bin of its own."""
    known = values[~null]
    edges = np.unique(known)
    if len(edges) > _BINS:
        edges = np.unique(np.quantile(known, np.arange(1, _BINS) / _BINS, method="lower"))
    bins = np.searchsorted(edges, values)
    return np.where(null, len(edges) + 1, bins)


def _values(found: Bytes, count: int, contribution: Parts, consumption: Parts, percentile: float) -> pa.Table:
    """What the classes are worth and cost."""
    order = np.argsort(found, kind="stable")
    ends = np.cumsum(np.bincount(found, minlength=count))
    members = np.diff(ends, prepend=0)
    columns: dict[str, Any] = {"class": pa.array(range(count), pa.int64()), "members": pa.array(members, pa.int64())}
    means: dict[str, Any] = {}
    for name, parts in ((_CONTRIBUTION, contribution), (_CONSUMPTION, consumption)):
        groups = np.split(parts[order], ends[:-1])
        typical = [np.percentile(group, percentile, axis=0) if len(group) else group.sum(axis=0) for group in groups]
        columns[name] = _lists(typical)
        means[f"mean_{name}"] = _lists([group.sum(axis=0, dtype=np.float64) / max(len(group), 1) for group in groups])
    return pa.table(columns | means)


def _lists(rows: Sequence[npt.NDArray[Any]]) -> Any:
    flat = pa.array(np.array(rows, np.float64).ravel(), pa.float64())
    return pa.FixedSizeListArray.from_arrays(flat, len(rows[0]))
