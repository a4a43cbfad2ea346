"""Samples do not depend on how members are cut, and add up; so do counts of values."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.shedding.fit_members import sums, table

from fastcep.overload.protocols import Classes
from fastcep.shedding.hybrid import summary
from fastcep.shedding.hybrid.summary import Summary, merged
from fastcep.shedding.hybrid.values import Counts, Members, merged_counts, value_counts, valued

ROWS = 60


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_ROWS", ROWS)


def members(rows: int = 900, rate: float = 4.0) -> pa.Table:
    """Of each event two."""
    own = sums(rows, rate)
    at = np.arange(rows)
    return own.append_column("position", pa.array(10**12 + at // 2)).append_column("ordinal", pa.array(at % 2))


def same(one: Summary, other: Summary) -> bool:
    counted = (one.members, one.worth, one.facts) == (other.members, other.worth, other.facts)
    tables = ("with_", "without", "sample")
    return counted and all(getattr(one, name).equals(getattr(other, name)) for name in tables)


@given(st.lists(st.integers(0, 900), max_size=6), st.permutations(range(7)), st.integers(0, 3))
def test_however_members_are_cut(places: list[int], order: list[int], seed: int) -> None:
    own, edges = members(), sorted([0, *places, 900])
    whole = Summary.of(own, seed)
    parts = [Summary.of(own.slice(low, high - low), seed) for low, high in itertools.pairwise(edges)]
    assert same(merged(parts), whole)
    shuffled = [parts[number] for number in order if number < len(parts)]
    assert same(merged([merged(shuffled[:2]), *shuffled[2:]]), whole)
    assert same(merged([*shuffled[:-2], merged(shuffled[-2:])]), whole)


@pytest.mark.parametrize(("rate", "worth"), [(0.02, None), (4.0, ROWS // 2), (400.0, None)])
def test_strata(rate: float, worth: int | None) -> None:
    own = members(rate=rate)
    found = Summary.of(own)
    some = np.array(found.sample["contribution"].to_pylist()).any(axis=1)
    expected = min(found.worth, max(ROWS // 2, ROWS - (found.members - found.worth))) if worth is None else worth
    assert len(found.sample) == ROWS and some.sum() == expected
    assert len(found.with_) <= ROWS and len(found.without) <= ROWS
    who = list(zip(found.sample["position"].to_pylist(), found.sample["ordinal"].to_pylist(), strict=True))
    assert who == sorted(who) and len(set(who)) == ROWS


def test_the_seed_decides_who_is_drawn_evenly() -> None:
    own = members()
    one, other = (set(Summary.of(own, seed).without["position"].to_pylist()) for seed in (1, 2))
    assert len(one - other) > ROWS // 4
    drawn = np.concatenate([Summary.of(own, seed).without["position"].to_numpy() - 10**12 for seed in range(100)])
    assert abs(drawn.mean() / 225 - 1) < 0.05


def test_facts() -> None:
    own = table(np.ones((4, 1)), np.ones((4, 1)), x=pa.array([None, 3.0, float("nan"), -1.0]), y=[0.5, 1.0, 2.0, 3.0])
    facts = Summary.of(own).facts
    assert facts["x"] == summary.FeatureStats(-1.0, 3.0, 2, True)
    assert facts["y"] == summary.FeatureStats(0.5, 3.0, 0, False)
    assert merged([Summary.of(own.slice(0, 1)), Summary.of(own.slice(1))]).facts == facts


CLASSES = Classes(("x",), (0,), np.arange(4, dtype=np.uint8))


@given(
    st.lists(st.tuples(st.integers(0, 2), st.floats(0, 1e9, width=32)), min_size=1, max_size=60),
    st.one_of(st.sampled_from([0, 50, 75, 90, 100]), st.floats(0, 100)),
    st.integers(0, 60),
)
def test_percentiles_and_means(drawn: list[tuple[int, float]], percentile: float, place: int) -> None:
    """By members, by counts, and by NumPy."""
    x, cost = np.array([of for of, _ in drawn]), np.array([value for _, value in drawn], np.float32)
    own = table(np.column_stack([x, x]), np.column_stack([cost, cost[::-1]]), x=x)
    parts = [value_counts(piece, CLASSES) for piece in (own.slice(0, place), own.slice(place))]
    counts = merged_counts(parts)
    by_counts = valued(CLASSES, counts, percentile).values
    by_members = valued(CLASSES, Members(own, CLASSES), percentile).values
    for column in ("class", "members", "contribution", "consumption"):
        assert by_counts[column].equals(by_members[column])
    for row, again in zip(by_counts.to_pylist(), by_members.to_pylist(), strict=True):
        mine = np.column_stack([cost, cost[::-1]])[x == row["class"]].astype(np.float64)
        expected = np.percentile(mine, percentile, axis=0) if len(mine) else np.zeros(2)
        assert row["consumption"] == pytest.approx(expected.tolist(), rel=1e-12)
        assert row["mean_consumption"] == pytest.approx(again["mean_consumption"], rel=1e-9)
    swapped = merged_counts([parts[1], parts[0]])
    assert _rows(swapped) == _rows(counts) == _rows(value_counts(own, CLASSES))


def _rows(counts: Counts) -> list[Any]:
    return sorted(tuple(row.values()) for row in counts.counts.to_pylist())
