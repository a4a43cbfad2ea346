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
from fastcep.shedding.hybrid.values import Counts, Members, evaluate_classes, merged_counts, value_counts

ROWS = 60


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(summary, "_ROWS", ROWS)


def members(rows: int = 900, rate: float = 4.0) -> pa.Table:
    """Return members, two per event."""
    table = sums(rows, rate)
    number = np.arange(rows)
    table = table.append_column("position", pa.array(10**12 + number // 2))
    return table.append_column("ordinal", pa.array(number % 2))


def same(one: Summary, other: Summary) -> bool:
    counts = [(summary.members, summary.contributing, summary.feature_stats) for summary in (one, other)]
    tables = ("with_contribution", "without_contribution", "sample")
    return counts[0] == counts[1] and all(getattr(one, name).equals(getattr(other, name)) for name in tables)


@given(st.lists(st.integers(0, 900), max_size=6), st.permutations(range(7)), st.integers(0, 3))
def test_however_members_are_cut(places: list[int], order: list[int], seed: int) -> None:
    own, edges = members(), sorted([0, *places, 900])
    whole = Summary.of(own, seed)
    parts = [Summary.of(own.slice(low, high - low), seed) for low, high in itertools.pairwise(edges)]
    assert same(merged(parts), whole)
    shuffled = [parts[number] for number in order if number < len(parts)]
    assert same(merged([merged(shuffled[:2]), *shuffled[2:]]), whole)
    assert same(merged([*shuffled[:-2], merged(shuffled[-2:])]), whole)


@pytest.mark.parametrize(("rate", "expected"), [(0.02, None), (4.0, ROWS // 2), (400.0, None)])
def test_strata(rate: float, expected: int | None) -> None:
    found = Summary.of(members(rate=rate))
    contributes = np.array(found.sample["contribution"].to_pylist()).any(axis=1)
    if expected is None:
        expected = min(found.contributing, max(ROWS // 2, ROWS - (found.members - found.contributing)))
    assert len(found.sample) == ROWS and contributes.sum() == expected
    assert len(found.with_contribution) <= ROWS and len(found.without_contribution) <= ROWS
    identities = list(zip(found.sample["position"].to_pylist(), found.sample["ordinal"].to_pylist(), strict=True))
    assert identities == sorted(identities) and len(set(identities)) == ROWS


def test_the_seed_chooses_a_uniform_sample() -> None:
    table = members()
    samples = [Summary.of(table, seed).without_contribution["position"].to_numpy() - 10**12 for seed in range(100)]
    assert len(set(samples[1].tolist()) - set(samples[2].tolist())) > ROWS // 4
    drawn = np.concatenate(samples)
    assert abs(drawn.mean() / 225 - 1) < 0.05


def test_feature_stats() -> None:
    own = table(np.ones((4, 1)), np.ones((4, 1)), x=pa.array([None, 3.0, float("nan"), -1.0]), y=[0.5, 1.0, 2.0, 3.0])
    stats = Summary.of(own).feature_stats
    assert stats["x"] == summary.FeatureStats(-1.0, 3.0, 2, True)
    assert stats["y"] == summary.FeatureStats(0.5, 3.0, 0, False)
    assert merged([Summary.of(own.slice(0, 1)), Summary.of(own.slice(1))]).feature_stats == stats


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
    by_counts = evaluate_classes(CLASSES, counts, percentile).values
    by_members = evaluate_classes(CLASSES, Members(own, CLASSES), percentile).values
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
