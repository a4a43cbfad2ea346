"""K-means clusters on standardised vectors, and the number of clusters."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Floats, Ints
from fastcep.shedding.hybrid.clusters import cluster, gap_statistic, load, standardised

CENTRES = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0], [10.0, 10.0], [5.0, 20.0]])


def blobs(count: int, rows: int = 300, seed: int = 1) -> tuple[Floats, Ints]:
    """Return shuffled points around the first centres, and the centre of each."""
    random = np.random.default_rng(seed)
    whose = random.permutation(np.repeat(np.arange(count), rows))
    return CENTRES[whose] + random.normal(0, 1, (len(whose), 2)), whose


def same(left: Ints, right: Ints) -> float:
    """Return the share of rows on which two clusterings agree, after majority matching of their clusters."""
    counts = np.zeros((left.max() + 1, right.max() + 1))
    np.add.at(counts, (left, right), 1)
    return float(min(counts.max(axis=0).sum(), counts.max(axis=1).sum()) / len(left))


@pytest.mark.sample(2)
@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_the_gap_statistic_finds_how_many_there_are(count: int) -> None:
    points, whose = blobs(count)
    found = gap_statistic(points, 8, seed=2)
    assert found.k == count and len(found.gaps) == len(found.errors) == count + 1
    enough = [gap >= after - s for gap, after, s in zip(found.gaps, found.gaps[1:], found.errors[1:], strict=False)]
    assert enough == [False] * (count - 1) + [True]
    assert same(cluster(points, "gap", 2), whose) > 0.99


def test_the_gap_statistic_looks_along_the_axes_of_the_points() -> None:
    """A long thin oblique cloud is one cluster; a box along the coordinates would suggest several."""
    random = np.random.default_rng(3)
    along = random.uniform(0, 100, 1_000)
    cloud = np.column_stack([along, along]) + random.normal(0, 0.5, (1_000, 2))
    assert gap_statistic(cloud, 6).k == 1


def test_the_gap_statistic_ends_where_it_must() -> None:
    assert gap_statistic(np.ones((10, 2))).k == 1
    assert gap_statistic(np.repeat(CENTRES[:3], 100, axis=0), 8).k == 3
    points, _ = blobs(5)
    found = gap_statistic(points, 3)
    assert found.k == len(found.gaps) == 3


def test_columns_are_standardised() -> None:
    """Matches are counted in ones, costs in thousands of ns: raw clusters would separate costs only."""
    random = np.random.default_rng(4)
    worth = random.integers(0, 2, 2_000)
    points = np.column_stack([worth, random.uniform(0, 50_000, 2_000)])
    raw = load("sklearn.cluster").KMeans(2, n_init=4, random_state=0).fit_predict(points)
    assert same(raw.astype(np.int64), worth) < 0.6
    assert same(cluster(points, 2), worth) == 1.0


def test_constant_columns_are_dropped() -> None:
    points = np.column_stack([np.full(4, 7.0), [0.0, 0.0, 1.0, 1.0]]).astype(np.float32)
    assert standardised(points).tolist() == [[-1.0], [-1.0], [1.0], [1.0]]
    first, *rest = cluster(points, 2).tolist()
    assert rest == [first, 1 - first, 1 - first]


@pytest.mark.parametrize("clusters", [1, 3, 10, "gap"])
def test_fewer_vectors_than_clusters_are_fine(clusters: int) -> None:
    points = np.repeat(CENTRES[:3], 100, axis=0)
    found = cluster(points, clusters)
    assert found.dtype == np.int64 and len(np.unique(found)) == (1 if clusters == 1 else 3)
    assert cluster(points[:0], clusters).shape == (0,)
    assert cluster(np.ones((5, 0)), clusters).tolist() == [0] * 5
    assert cluster(points[:1], clusters).tolist() == [0]


def test_more_vectors_than_are_looked_at() -> None:
    points, whose = blobs(3, 20_000)
    assert same(cluster(points, 3, 5), whose) > 0.99


@pytest.mark.thorough
def test_the_seed_decides() -> None:
    points = np.random.default_rng(6).uniform(0, 1, (30_000, 3))
    assert cluster(points, 7, 1).tolist() == cluster(points, 7, 1).tolist()
    assert cluster(points, 7, 1).tolist() != cluster(points, 7, 2).tolist()
    assert gap_statistic(points, 3, seed=1) == gap_statistic(points, 3, seed=1)
    assert gap_statistic(points, 3, seed=1) != gap_statistic(points, 3, seed=2)


@pytest.mark.parametrize("wrong", [0, -1, 2.5, "many", True])
def test_other_numbers_of_clusters_are_refused(wrong: int) -> None:
    with pytest.raises(ValidationError, match="a whole number from 1 on, or 'gap'"):
        cluster(CENTRES, wrong)
    with pytest.raises(ValidationError, match="expected both to be at least 1"):
        gap_statistic(CENTRES, 0)


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.cluster", None)
    with pytest.raises(ValidationError, match=r"fitting needs sklearn.*pip install 'fastcep\[fit\]'"):
        cluster(CENTRES, 2)
