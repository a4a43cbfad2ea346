"""What classes are worth and cost: from members themselves, or from counts of their values, which add up over pieces.

Both ways tell the same: the same percentiles to the last bit, and means but for how sums are rounded.
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
from fastcep.shedding.hybrid.trees import table_in, whole

__all__ = ["Counts", "Fitted", "Members", "Raw", "merged_counts", "value_counts", "valued"]

Raw = Classes | Tree | None  #: classes as they were found, not yet numbered by worth

#: So many members without a value are a class of their own.
_NULLS = 20
_WHAT = (CONTRIBUTION, CONSUMPTION)
_KEYS = ("class", "missing", "what", "slice", "value")


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


@dataclass(frozen=True)
class Range:
    """Of the features of raw classes over the members that have a value of each: the smallest and largest, if whole."""

    low: Floats
    high: Floats
    whole: bool


class Source(Protocol):
    """Where values are taken from."""

    @property
    def range(self) -> Range:
        """Of the features of the raw classes."""

    def totals(self, count: int) -> tuple[Floats, Ints]:
        """By raw class, and whether a value is missing: the sum of contributions, and the number of members."""

    def table(self, to: Ints, count: int, percentile: float) -> pa.Table:
        """The values of classes, ``to[raw class, missing]`` of them."""


class Members:
    """The members themselves: of one piece."""

    def __init__(self, members: pa.Table, raw: Raw) -> None:
        self.found, self.missing, self.range = _told(members, raw)
        self.parts = {name: vectors(members, name) for name in _WHAT}

    def totals(self, count: int) -> tuple[Floats, Ints]:
        """See `Source`."""
        at = self.found.astype(np.int64) * 2 + self.missing
        worth = np.bincount(at, self.parts[CONTRIBUTION].sum(axis=1, dtype=np.float64), 2 * count)
        members = np.bincount(at, minlength=2 * count).astype(np.int64)
        return worth.astype(np.float64).reshape(-1, 2), members.reshape(-1, 2)

    def table(self, to: Ints, count: int, percentile: float) -> pa.Table:
        """See `Source`."""
        found = to[self.found, self.missing.astype(np.int8)].astype(np.uint8)
        order = np.argsort(found, kind="stable")
        ends = np.cumsum(np.bincount(found, minlength=count))
        sums, typical = {}, {}
        for name, parts in self.parts.items():
            groups = np.split(parts[order], ends[:-1])
            sums[name] = [group.sum(axis=0, dtype=np.float64) for group in groups]
            typical[name] = [_percentile(group, percentile) for group in groups]
        return _table(np.diff(ends, prepend=0), typical, sums)


@dataclass(frozen=True)
class Counts:
    """How often each value occurs: those of several pieces add up, see `merged_counts`.

    Attributes
    ----------
    counts
        ``class`` (uint8, raw), ``missing`` (bool: of members without a value of some feature), ``what``
        (``contribution`` or ``consumption``), ``slice`` (int32), ``value`` (float32), ``count`` (int64).
    slices
        How many there are.
    range
        Of the features of the raw classes.
    """

    counts: pa.Table
    slices: int
    range: Range

    @cached_property
    def _columns(self) -> dict[str, npt.NDArray[Any]]:
        """Rows by what, slice, and value."""
        table = self.counts.sort_by([(name, "ascending") for name in ("what", "slice", "value", "class", "missing")])
        return {name: table[name].combine_chunks().to_numpy(zero_copy_only=False) for name in table.column_names}

    def totals(self, count: int) -> tuple[Floats, Ints]:
        """See `Source`."""
        own = self._columns
        worth, members = np.zeros(2 * count), np.zeros(2 * count, np.int64)
        at = own["class"].astype(np.int64) * 2 + own["missing"]
        of = own["what"] == CONTRIBUTION
        np.add.at(worth, at[of], own["value"][of].astype(np.float64) * own["count"][of])
        of &= own["slice"] == 0
        np.add.at(members, at[of], own["count"][of])
        return worth.reshape(-1, 2), members.reshape(-1, 2)

    def table(self, to: Ints, count: int, percentile: float) -> pa.Table:
        """See `Source`."""
        own = self._columns
        found = to[own["class"], own["missing"].astype(np.int8)]
        members = np.zeros(count, np.int64)
        sums = {name: list(np.zeros((count, self.slices))) for name in _WHAT}
        typical = {name: list(np.zeros((count, self.slices))) for name in _WHAT}
        for name in _WHAT:
            for at in range(self.slices):
                rows = np.flatnonzero((own["what"] == name) & (own["slice"] == at))
                for number in np.unique(found[rows]):
                    of = rows[found[rows] == number]
                    values, counts = own["value"][of].astype(np.float64), own["count"][of]
                    members[number] = counts.sum()
                    sums[name][number][at] = (values * counts).sum()
                    typical[name][number][at] = _weighted(values, counts, percentile)
        return _table(members, typical, sums)


def value_counts(members: pa.Table, raw: Raw) -> Counts:
    """Count the values of the members of raw classes."""
    found, missing, known = _told(members, raw)
    kind = found.astype(np.int64) << 33 | missing.astype(np.int64) << 32
    tables, slices = [], 1
    for name in _WHAT:
        parts = vectors(members, name) + np.float32(0)  # no -0, so that equal values have equal bits
        slices = parts.shape[1]
        for at in range(slices):
            bits = np.ascontiguousarray(parts[:, at]).view(np.uint32).astype(np.int64)
            counted: Any = pc.value_counts(pa.array(kind | bits))
            words = counted.field(0).to_numpy(zero_copy_only=False)
            columns = {
                "class": (words >> 33).astype(np.uint8), "missing": pa.array((words >> 32 & 1).astype(np.bool_)),
                "what": pa.array([name] * len(words), pa.string()), "slice": np.full(len(words), at, np.int32),
                "value": (words & 0xFFFFFFFF).astype(np.uint32).view(np.float32),
                "count": counted.field(1).cast(pa.int64()),
            }  # fmt: skip
            tables.append(pa.table(columns))
    return Counts(pa.concat_tables(tables), slices, known)


def merged_counts(counts: Sequence[Counts]) -> Counts:
    """The counts of the members of all of them."""
    summed = pa.concat_tables([own.counts for own in counts]).group_by(list(_KEYS)).aggregate([("count", "sum")])
    known = [own.range for own in counts]
    low, high = np.min([own.low for own in known], axis=0), np.max([own.high for own in known], axis=0)
    table = summed.rename_columns([*_KEYS, "count"])
    return Counts(table, counts[0].slices, Range(low, high, all(own.whole for own in known)))


def valued(raw: Raw, source: Source, percentile: float = 90) -> Fitted:
    """Number the classes of a tree by what they are worth, make it a table, and tell what all classes are worth."""
    if not isinstance(raw, Tree):
        count = 1 if raw is None else raw.count
        return Fitted(raw, source.table(np.repeat(np.arange(count), 2).reshape(-1, 2), count, percentile))
    trees = replace(raw, other=0).count
    worth, members = source.totals(trees)
    own_class = int(members[:, 1].sum()) >= _NULLS
    worths, sizes = worth[:, 0], members[:, 0]
    if own_class:
        worths, sizes = np.append(worths, worth[:, 1].sum()), np.append(sizes, members[:, 1].sum())
    count = len(sizes)
    order = np.argsort(worths / np.maximum(sizes, 1), kind="stable")
    rank = np.empty(count, np.uint8)
    rank[order] = np.arange(count)
    other = int(rank[-1]) if own_class else count - 1
    tree = replace(raw, value=rank[raw.value], other=other)
    known = source.range
    table = None if own_class else table_in(tree, known.low, known.high, known.whole)
    to = np.column_stack([rank[:trees], np.full(trees, other)]).astype(np.int64)
    return Fitted(table or tree, source.table(to, count, percentile))


def _told(members: pa.Table, raw: Raw) -> tuple[npt.NDArray[np.uint8], Flags, Range]:
    """Of members their raw class (0 where a value is missing), whether one is, and the range of the others' values."""
    if raw is None:
        none = np.zeros(len(members), np.uint8)
        return none, none.astype(np.bool_), Range(np.empty(0), np.empty(0), False)
    values, null = matrix(members, raw.features)
    missing: Flags = np.asarray(null.any(axis=1))
    found = np.where(missing, np.uint8(0), raw.classify(values, null)).astype(np.uint8)
    known = values[~missing] if missing.any() else values
    low, high = known.min(axis=0, initial=np.inf), known.max(axis=0, initial=-np.inf)
    return found, missing, Range(low, high, whole(known))


def _place(members: int, percentile: float) -> tuple[int, int, float]:
    """Between which two of so many sorted values a percentile is, and how far."""
    at = (members - 1) * (percentile / 100)
    low = min(int(at), members - 1)
    return low, min(low + 1, members - 1), at - low


def _percentile(group: Parts, percentile: float) -> Floats:
    """That of each column, 0 of none: of float32 NumPy would tell the place in float32, which has too few digits."""
    if not len(group):
        return np.zeros(group.shape[1])
    low, high, share = _place(len(group), percentile)
    sorted_ = np.partition(group, sorted({low, high}), axis=0)
    return np.asarray(_between(sorted_[low].astype(np.float64), sorted_[high].astype(np.float64), share))


def _weighted(values: Floats, counts: Ints, percentile: float) -> float:
    """The same of ascending values that occur so often."""
    behind = np.cumsum(counts)
    low, high, share = _place(int(behind[-1]), percentile)
    below, above = values[np.searchsorted(behind, [low, high], "right")].tolist()
    return float(_between(below, above, share))


def _between(low: Any, high: Any, share: float) -> Any:
    return low + (high - low) * share


def _table(members: Ints, typical: dict[str, list[Floats]], sums: dict[str, list[Floats]]) -> pa.Table:
    columns: dict[str, Any] = {"class": pa.array(range(len(members)), pa.int64()), "members": members}
    means = {}
    for name in _WHAT:
        columns[name] = _lists(typical[name])
        pairs = zip(sums[name], members.tolist(), strict=True)
        means[f"mean_{name}"] = _lists([total / max(of, 1) for total, of in pairs])
    return pa.table(columns | means)


def _lists(rows: Sequence[Floats]) -> Any:
    flat = pa.array(np.array(rows, np.float64).ravel(), pa.float64())
    return pa.FixedSizeListArray.from_arrays(flat, len(rows[0]))
