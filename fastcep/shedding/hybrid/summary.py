"""What classes are fitted to: a sample of members and facts on all of them, which add up over pieces of a stream.

Who is in the sample is decided by a hash of who a member is, so that it does not depend on how the stream is cut: of
each stratum those with the smallest hashes are kept, and of several such samples again those.
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
from fastcep.shedding.hybrid.trees import whole

__all__ = ["FeatureStats", "Summary", "merged"]

Hashes = npt.NDArray[np.uint64]

#: How many members classes are fitted to, and the most that are kept of each stratum.
_ROWS = 100_000
_MASK = 2**64 - 1


@dataclass(frozen=True)
class FeatureStats:
    """What is known of a feature of all members.

    Attributes
    ----------
    low, high
        The smallest and the largest value; inf and -inf: there is none.
    nulls
        How many members have no value.
    whole
        Whether all values are whole numbers, see `whole`.
    """

    low: float
    high: float
    nulls: int
    whole: bool

    @classmethod
    def of(cls, values: Floats, null: npt.NDArray[np.bool_]) -> FeatureStats:
        """Of a column."""
        nulls = int(null.sum())
        known = values[~null] if nulls else values
        low, high = float(known.min(initial=np.inf)), float(known.max(initial=-np.inf))
        return cls(low, high, nulls, whole(known))

    def __add__(self, other: FeatureStats) -> FeatureStats:
        low, high = min(self.low, other.low), max(self.high, other.high)
        return FeatureStats(low, high, self.nulls + other.nulls, self.whole and other.whole)


@dataclass(frozen=True)
class Summary:
    """Of the members of one variable.

    Attributes
    ----------
    seed
        Of the sample.
    members, worth
        How many there are, and how many have a contribution.
    facts
        By feature.
    with_, without
        Up to 100,000 members that have a contribution, and that have none, in the order of the stream.
    """

    seed: int
    members: int
    worth: int
    facts: dict[str, FeatureStats]
    with_: pa.Table
    without: pa.Table

    @classmethod
    def of(cls, members: pa.Table, seed: int = 0) -> Summary:
        """Summarise members, in the order of the stream; without `POSITION`, by the numbers of their rows."""
        some = vectors(members, CONTRIBUTION).any(axis=1)
        if POSITION not in members.column_names:
            places, ordinals = identity(members)
            members = members.append_column(POSITION, pa.array(places)).append_column(ORDINAL, pa.array(ordinals))
        facts = {name: FeatureStats.of(*column(members, name)) for name in features_in(members)}
        hashes = _hashes(members, seed) if len(members) > _ROWS else None
        strata = [_drawn(members, hashes, np.flatnonzero(of), _ROWS) for of in (some, ~some)]
        return cls(seed, len(members), int(some.sum()), facts, *strata)

    @cached_property
    def sample(self) -> pa.Table:
        """Up to 100,000 members, in the order of the stream. Half have a contribution, if so many have."""
        first = min(self.worth, max(_ROWS // 2, _ROWS - (self.members - self.worth)))
        return _in_order([_lowest(self.with_, self.seed, first), _lowest(self.without, self.seed, _ROWS - first)])


def merged(summaries: Sequence[Summary]) -> Summary:
    """The summary of the members of all of them, which are of one stream, in any order."""
    first = summaries[0]
    facts = dict(first.facts)
    for other in summaries[1:]:
        facts = {name: known + other.facts[name] for name, known in facts.items()}
    with_, without = (
        _lowest(_in_order(tables), first.seed, _ROWS)
        for tables in ([own.with_ for own in summaries], [own.without for own in summaries])
    )
    members, worth = sum(own.members for own in summaries), sum(own.worth for own in summaries)
    return replace(first, members=members, worth=worth, facts=facts, with_=with_, without=without)


def _in_order(tables: Sequence[pa.Table]) -> pa.Table:
    table = pa.concat_tables(tables).combine_chunks()
    places, ordinals = identity(table)
    return table.take(np.lexsort((ordinals, places)))


def _lowest(members: pa.Table, seed: int, rows: int) -> pa.Table:
    """Those with the smallest hashes, in their order."""
    return members if len(members) <= rows else _drawn(members, _hashes(members, seed), np.arange(len(members)), rows)


def _drawn(members: pa.Table, hashes: Hashes | None, of: Ints, rows: int) -> pa.Table:
    if rows <= 0:
        return members.slice(0, 0)
    if hashes is not None and len(of) > rows:
        own = hashes[of]
        of = of[np.sort(np.argpartition(own, rows - 1)[:rows])]
    return members.take(of).combine_chunks()


def _hashes(members: pa.Table, seed: int) -> Hashes:
    places, ordinals = identity(members)
    mixed = _mixed(places.astype(np.uint64) + np.uint64((seed + 1) * 0x9E3779B97F4A7C15 & _MASK))
    return _mixed(mixed ^ _mixed(ordinals.astype(np.uint64) + np.uint64(0xD1B54A32D192ED03)))


def _mixed(words: Hashes) -> Hashes:
    """The last steps of SplitMix64 (Steele, Lea and Flood, 2014), which give different words for different words."""
    words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return words ^ (words >> np.uint64(31))
