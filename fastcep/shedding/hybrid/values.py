"""Contribution and consumption of classes, from members or from counts of their values, which add up over pieces.

Both give equal results: percentiles to the last bit, means up to the rounding of sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.overload.protocols import Classes, Floats, Ints, Tree
from fastcep.shedding.hybrid.columns import CONSUMPTION, CONTRIBUTION, Flags, Parts, matrix, vectors
from fastcep.shedding.hybrid.trees import all_integers, table_in, with_range

__all__ = ["Counts", "Fitted", "Members", "Raw", "evaluate_classes", "merged_counts", "value_counts"]

Raw = Classes | Tree | None  #: classes as found, not yet numbered by contribution

#: Smallest number of members without a value that form a class of their own.
_NULLS = 20
_QUANTITIES = (CONTRIBUTION, CONSUMPTION)
_KEYS = ("class", "missing", "what", "slice", "value")


@dataclass(frozen=True)
class Fitted:
    """Classes of the partial matches, or of the events, of a variable.

    Attributes
    ----------
    classes
        Table, if it is equal to the tree, or tree. None: no feature is informative, and all members have class 0.
    values
        A row per class, by ascending contribution: ``class`` and ``members`` (int64), ``contribution`` and
        ``consumption`` (float64[slices]: percentiles over the members classified so), ``mean_contribution`` and
        ``mean_consumption``.
    """

    classes: Classes | Tree | None
    values: pa.Table


@dataclass(frozen=True)
class Range:
    """Range of the features of raw classes, over the members that have all of them, and whether they are integers."""

    low: Floats
    high: Floats
    integers: bool


class Source(Protocol):
    """Source of the values of members."""

    @property
    def range(self) -> Range:
        """Range of the features of the raw classes."""

    def totals(self, count: int) -> tuple[Floats, Ints]:
        """Return total contribution and number of members, by raw class and whether a value is missing."""

    def table(self, to: Ints, count: int, percentile: float) -> pa.Table:
        """Return the values of ``count`` classes; ``to[raw class, missing]`` is the class of a member."""


class Members:
    """Values from the members of one piece."""

    def __init__(self, members: pa.Table, raw: Raw) -> None:
        self.raw_class, self.missing, self.range = _classified(members, raw)
        self.parts = {name: vectors(members, name) for name in _QUANTITIES}

    def totals(self, count: int) -> tuple[Floats, Ints]:
        """See `Source`."""
        cell = self.raw_class.astype(np.int64) * 2 + self.missing
        contribution = np.bincount(cell, self.parts[CONTRIBUTION].sum(axis=1, dtype=np.float64), 2 * count)
        members = np.bincount(cell, minlength=2 * count).astype(np.int64)
        return contribution.astype(np.float64).reshape(-1, 2), members.reshape(-1, 2)

    def table(self, to: Ints, count: int, percentile: float) -> pa.Table:
        """See `Source`."""
        classes = to[self.raw_class, self.missing.astype(np.int8)].astype(np.uint8)
        order = np.argsort(classes, kind="stable")
        ends = np.cumsum(np.bincount(classes, minlength=count))
        sums, percentiles = {}, {}
        for name, parts in self.parts.items():
            groups = np.split(parts[order], ends[:-1])
            sums[name] = [group.sum(axis=0, dtype=np.float64) for group in groups]
            percentiles[name] = [_percentile(group, percentile) for group in groups]
        return _table(np.diff(ends, prepend=0), percentiles, sums)


@dataclass(frozen=True)
class Counts:
    """Frequencies of the values of members; those of several pieces add up, see `merged_counts`.

    Attributes
    ----------
    counts
        ``class`` (uint8, raw), ``missing`` (bool: members without a value of some feature), ``what`` (``contribution``
        or ``consumption``), ``slice`` (int32), ``value`` (float32), ``count`` (int64).
    slices
        Number of slices.
    range
        Range of the features of the raw classes.
    """

    counts: pa.Table
    slices: int
    range: Range

    @cached_property
    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        """Columns, sorted by what, slice and value."""
        table = self.counts.sort_by([(name, "ascending") for name in ("what", "slice", "value", "class", "missing")])
        return {name: table[name].combine_chunks().to_numpy(zero_copy_only=False) for name in table.column_names}

    def totals(self, count: int) -> tuple[Floats, Ints]:
        """See `Source`."""
        columns = self._columns
        contribution, members = np.zeros(2 * count), np.zeros(2 * count, np.int64)
        cell = columns["class"].astype(np.int64) * 2 + columns["missing"]
        rows = columns["what"] == CONTRIBUTION
        np.add.at(contribution, cell[rows], columns["value"][rows].astype(np.float64) * columns["count"][rows])
        rows &= columns["slice"] == 0
        np.add.at(members, cell[rows], columns["count"][rows])
        return contribution.reshape(-1, 2), members.reshape(-1, 2)

    def table(self, to: Ints, count: int, percentile: float) -> pa.Table:
        """See `Source`."""
        columns = self._columns
        classes = to[columns["class"], columns["missing"].astype(np.int8)]
        members = np.zeros(count, np.int64)
        sums = {name: list(np.zeros((count, self.slices))) for name in _QUANTITIES}
        percentiles = {name: list(np.zeros((count, self.slices))) for name in _QUANTITIES}
        for name in _QUANTITIES:
            for age in range(self.slices):
                rows = np.flatnonzero((columns["what"] == name) & (columns["slice"] == age))
                for number in np.unique(classes[rows]):
                    of_class = rows[classes[rows] == number]
                    values, counts = columns["value"][of_class].astype(np.float64), columns["count"][of_class]
                    members[number] = counts.sum()
                    sums[name][number][age] = (values * counts).sum()
                    percentiles[name][number][age] = _weighted_percentile(values, counts, percentile)
        return _table(members, percentiles, sums)


def value_counts(members: pa.Table, raw: Raw) -> Counts:
    """Count the values of the members of raw classes."""
    raw_class, missing, feature_range = _classified(members, raw)
    kind = raw_class.astype(np.int64) << 33 | missing.astype(np.int64) << 32
    tables, slices = [], 1
    for name in _QUANTITIES:
        parts = vectors(members, name) + np.float32(0)  # no -0, so that equal values have equal bits
        slices = parts.shape[1]
        for age in range(slices):
            bits = np.ascontiguousarray(parts[:, age]).view(np.uint32).astype(np.int64)
            counted: Any = pc.value_counts(pa.array(kind | bits))
            words = counted.field(0).to_numpy(zero_copy_only=False)
            columns = {
                "class": (words >> 33).astype(np.uint8), "missing": pa.array((words >> 32 & 1).astype(np.bool_)),
                "what": pa.array([name] * len(words), pa.string()), "slice": np.full(len(words), age, np.int32),
                "value": (words & 0xFFFFFFFF).astype(np.uint32).view(np.float32),
                "count": counted.field(1).cast(pa.int64()),
            }  # fmt: skip
            tables.append(pa.table(columns))
    return Counts(pa.concat_tables(tables), slices, feature_range)


def merged_counts(counts: Sequence[Counts]) -> Counts:
    """Add up the counts of several pieces."""
    summed = pa.concat_tables([each.counts for each in counts]).group_by(list(_KEYS)).aggregate([("count", "sum")])
    ranges = [each.range for each in counts]
    low, high = np.min([each.low for each in ranges], axis=0), np.max([each.high for each in ranges], axis=0)
    table = summed.rename_columns([*_KEYS, "count"])
    return Counts(table, counts[0].slices, Range(low, high, all(each.integers for each in ranges)))


def evaluate_classes(raw: Raw, source: Source, percentile: float = 90) -> Fitted:
    """Number the classes of a tree by contribution, convert it to a table if possible, and compute the values.

    Values outside the range of the history get a class of their own, the last one. It has no members, so no drop order
    contains it.
    """
    if not isinstance(raw, Tree):
        count = 1 if raw is None else raw.count
        return Fitted(raw, source.table(np.repeat(np.arange(count), 2).reshape(-1, 2), count, percentile))
    trees = replace(raw, other=0).count
    totals, members = source.totals(trees)
    nulls = int(members[:, 1].sum())
    null_class = nulls >= _NULLS
    contribution, sizes = totals[:, 0], members[:, 0]
    if null_class:
        contribution, sizes = np.append(contribution, totals[:, 1].sum()), np.append(sizes, nulls)
    count = len(sizes)
    order = np.argsort(contribution / np.maximum(sizes, 1), kind="stable")
    rank = np.empty(count, np.uint8)
    rank[order] = np.arange(count)
    # Few nulls go to the class of the largest contribution; if there were none, they are unseen values.
    other = int(rank[-1]) if null_class else count - 1 if nulls else count
    tree = replace(raw, value=rank[raw.value], other=other)
    low, high, integers = source.range.low, source.range.high, source.range.integers
    cells = None if nulls else table_in(tree, low, high, integers)
    classes = cells or with_range(tree, low, high, integers, count)
    to = np.column_stack([rank[:trees], np.full(trees, other)]).astype(np.int64)
    return Fitted(classes, source.table(to, max(count, classes.count), percentile))


def _classified(members: pa.Table, raw: Raw) -> tuple[npt.NDArray[np.uint8], Flags, Range]:
    """Return the raw class of members (0 if a value is missing), whether one is, and the range of complete members."""
    if raw is None:
        zeros = np.zeros(len(members), np.uint8)
        return zeros, zeros.astype(np.bool_), Range(np.empty(0), np.empty(0), False)
    values, null = matrix(members, raw.features)
    missing: Flags = np.asarray(null.any(axis=1))
    raw_class = np.where(missing, np.uint8(0), raw.classify(values, null)).astype(np.uint8)
    present = values[~missing] if missing.any() else values
    low, high = present.min(axis=0, initial=np.inf), present.max(axis=0, initial=-np.inf)
    return raw_class, missing, Range(low, high, all_integers(present))


def _place(members: int, percentile: float) -> tuple[int, int, float]:
    """Return the places of the two sorted values next to a percentile, and the fraction between them."""
    place = (members - 1) * (percentile / 100)
    low = min(int(place), members - 1)
    return low, min(low + 1, members - 1), place - low


def _percentile(group: Parts, percentile: float) -> Floats:
    """Return the percentile of each column, 0 without members.

    NumPy would compute the place in float32 for columns of float32, which is not exact enough.
    """
    if not len(group):
        return np.zeros(group.shape[1])
    low, high, share = _place(len(group), percentile)
    sorted_ = np.partition(group, sorted({low, high}), axis=0)
    return np.asarray(_between(sorted_[low].astype(np.float64), sorted_[high].astype(np.float64), share))


def _weighted_percentile(values: Floats, counts: Ints, percentile: float) -> float:
    """Return the percentile of ascending values with their counts."""
    ends = np.cumsum(counts)
    low, high, share = _place(int(ends[-1]), percentile)
    below, above = values[np.searchsorted(ends, [low, high], "right")].tolist()
    return float(_between(below, above, share))


def _between(low: Any, high: Any, share: float) -> Any:
    return low + (high - low) * share


def _table(members: Ints, percentiles: dict[str, list[Floats]], sums: dict[str, list[Floats]]) -> pa.Table:
    columns: dict[str, Any] = {"class": pa.array(range(len(members)), pa.int64()), "members": members}
    means = {}
    for name in _QUANTITIES:
        columns[name] = _lists(percentiles[name])
        pairs = zip(sums[name], members.tolist(), strict=True)
        means[f"mean_{name}"] = _lists([total / max(count, 1) for total, count in pairs])
    return pa.table(columns | means)


def _lists(rows: Sequence[Floats]) -> Any:
    flat = pa.array(np.array(rows, np.float64).ravel(), pa.float64())
    return pa.FixedSizeListArray.from_arrays(flat, len(rows[0]))
