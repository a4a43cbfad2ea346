"""Summaries of members to fit classes to: a sample, and statistics of all features. They add up over pieces.

The sample is chosen by a hash of the identity of each member, so it does not depend on how the stream is cut: each
stratum keeps the members with the smallest hashes, and merged samples again keep these.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.overload.protocols import Floats, Ints
from fastcep.shedding.hybrid.columns import (
    CONTRIBUTION,
    ORDINAL,
    POSITION,
    column,
    features_in,
    identity,
    vectors,
)
from fastcep.shedding.hybrid.trees import all_integers

__all__ = ["FeatureStats", "Summary", "merged"]

Hashes = npt.NDArray[np.uint64]

#: Size of the sample, and largest number of members that are kept of each stratum.
_ROWS = 100_000
_MASK = 2**64 - 1


@dataclass(frozen=True)
class FeatureStats:
    """Statistics of a feature over all members.

    Attributes
    ----------
    low, high
        Smallest and largest value; inf and -inf if there is none.
    nulls
        Number of members without a value.
    integers
        Whether all values are integers, see `all_integers`.
    """

    low: float
    high: float
    nulls: int
    integers: bool

    @classmethod
    def of(cls, values: Floats, null: npt.NDArray[np.bool_]) -> FeatureStats:
        """Compute the statistics of a column."""
        nulls = int(null.sum())
        present = values[~null] if nulls else values
        low, high = float(present.min(initial=np.inf)), float(present.max(initial=-np.inf))
        return cls(low, high, nulls, all_integers(present))

    def __add__(self, other: FeatureStats) -> FeatureStats:
        low, high = min(self.low, other.low), max(self.high, other.high)
        return FeatureStats(low, high, self.nulls + other.nulls, self.integers and other.integers)


@dataclass(frozen=True)
class Summary:
    """Summary of the members of one variable.

    Attributes
    ----------
    seed
        Seed of the sample.
    members, contributing
        Number of members, and of those with a contribution.
    feature_stats
        Statistics by feature.
    with_contribution, without_contribution
        Up to 100,000 members with a contribution, and without one, in the order of the stream.
    """

    seed: int
    members: int
    contributing: int
    feature_stats: dict[str, FeatureStats]
    with_contribution: pa.Table
    without_contribution: pa.Table

    @classmethod
    def of(cls, members: pa.Table, seed: int = 0) -> Summary:
        """Summarise members in the order of the stream; without `POSITION`, they are identified by their rows."""
        contributes = vectors(members, CONTRIBUTION).any(axis=1)
        if POSITION not in members.column_names:
            positions, ordinals = identity(members)
            members = members.append_column(POSITION, pa.array(positions)).append_column(ORDINAL, pa.array(ordinals))
        feature_stats = {name: FeatureStats.of(*column(members, name)) for name in features_in(members)}
        hashes = _hashes(members, seed) if len(members) > _ROWS else None
        strata = [_drawn(members, hashes, np.flatnonzero(mask), _ROWS) for mask in (contributes, ~contributes)]
        return cls(seed, len(members), int(contributes.sum()), feature_stats, *strata)

    @cached_property
    def sample(self) -> pa.Table:
        """Up to 100,000 members in the order of the stream; half have a contribution, if there are enough."""
        rows = min(self.contributing, max(_ROWS // 2, _ROWS - (self.members - self.contributing)))
        contributing = _lowest(self.with_contribution, self.seed, rows)
        return _in_order([contributing, _lowest(self.without_contribution, self.seed, _ROWS - rows)])


def merged(summaries: Sequence[Summary]) -> Summary:
    """Merge the summaries of pieces of one stream, in any order."""
    first = summaries[0]
    feature_stats = dict(first.feature_stats)
    for other in summaries[1:]:
        feature_stats = {name: stats + other.feature_stats[name] for name, stats in feature_stats.items()}
    with_contribution, without_contribution = (
        _lowest(_in_order(tables), first.seed, _ROWS)
        for tables in (
            [summary.with_contribution for summary in summaries],
            [summary.without_contribution for summary in summaries],
        )
    )
    return replace(
        first,
        members=sum(summary.members for summary in summaries),
        contributing=sum(summary.contributing for summary in summaries),
        feature_stats=feature_stats,
        with_contribution=with_contribution,
        without_contribution=without_contribution,
    )


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables).combine_chunks()
    positions, ordinals = identity(table)
    return table.take(np.lexsort((ordinals, positions)))


def _lowest(members: pa.Table, seed: int, rows: int) -> pa.Table:
    """Return the members with the smallest hashes, in their order."""
    return members if len(members) <= rows else _drawn(members, _hashes(members, seed), np.arange(len(members)), rows)


def _drawn(members: pa.Table, hashes: Hashes | None, stratum: Ints, rows: int) -> pa.Table:
    if rows <= 0:
        return members.slice(0, 0)
    if hashes is not None and len(stratum) > rows:
        smallest = np.argpartition(hashes[stratum], rows - 1)[:rows]
        stratum = stratum[np.sort(smallest)]
    return members.take(stratum).combine_chunks()


def _hashes(members: pa.Table, seed: int) -> Hashes:
    positions, ordinals = identity(members)
    mixed = _mixed(positions.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 & _MASK))
    return _mixed(mixed ^ _mixed(ordinals.astype(np.uint64) + np.uint64(0xD1B54A32D192ED03)))


def _mixed(words: Hashes) -> Hashes:
    """Apply the finaliser of SplitMix64 (Steele, Lea and Flood, 2014), a bijection of 64-bit words."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
