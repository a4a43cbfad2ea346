"""Cluster members by contribution and consumption, and find the number of clusters.

scikit-learn is slow to import and is loaded inside the functions that fit. It runs in one thread, because sums added up
by several threads in any order would make the clusters depend on timing.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.overload.protocols import Floats, Ints

__all__ = ["Gap", "Map", "cluster", "gap_statistic", "load", "standardised"]

#: Function that applies a function to each item, in order, possibly in other processes; arguments can be pickled.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

#: Sample sizes of K-means and of the gap statistic; other vectors are assigned to the closest centre.
_ROWS = 20_000
_GAP_ROWS = 2_000
#: Largest number of clusters that ``"gap"`` finds.
_MOST = 30
#: Number of starts of K-means, to avoid poor local optima.
_STARTS = 4
#: Smallest dispersion, as a share of that of one cluster; below it is rounding error.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Gap:
    """Result of the gap statistic.

    Attributes
    ----------
    k
        Number of clusters.
    gaps
        Gap for 1, 2, … clusters, up to the last number that was evaluated.
    errors
        Standard errors ``s`` of the gaps, corrected for the number of references.
    """

    k: int
    gaps: tuple[float, ...]
    errors: tuple[float, ...]


def load(module: str) -> Any:
    """Import a library that is needed only for fitting."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValidationError(f"fitting needs {error.name}; install it with: pip install 'fastcep[fit]'") from error


def standardised(vectors: npt.NDArray[np.floating[Any]]) -> Floats:
    """Return the columns that are not constant, each with mean 0 and standard deviation 1: float64[n, at most d]."""
    columns = np.asarray(vectors, np.float64)
    if not len(columns):
        return columns
    columns = columns[:, columns.min(axis=0) < columns.max(axis=0)]
    deviations: Floats = columns.std(axis=0)
    columns = columns[:, deviations > 0]  # the deviation of tiny values may underflow
    scaled: Floats = (columns - columns.mean(axis=0)) / deviations[deviations > 0]
    return scaled


def cluster(
    vectors: npt.NDArray[np.floating[Any]], clusters: int | Literal["gap"] = 10, seed: int = 0, map: Map = map
) -> Ints:
    """Cluster vectors by K-means on standardised columns.

    On raw columns the largest numbers would dominate: costs in ns, not matches.

    Parameters
    ----------
    vectors
        float[n, d], finite.
    clusters
        Number of clusters; fewer if there are fewer distinct vectors. ``"gap"``: the number that `gap_statistic` finds.
    seed
        Seed of the starts, and of the sample if there are more than 20,000 vectors.
    map
        See `gap_statistic`.

    Returns
    -------
    int64[n]
        Cluster of each vector, from 0 on.

    Raises
    ------
    ValidationError
        If scikit-learn is not installed, or `clusters` is invalid.
    """
    if clusters != "gap" and (isinstance(clusters, bool) or not isinstance(clusters, int) or clusters < 1):
        raise ValidationError(f"found clusters={clusters!r}; expected a whole number from 1 on, or 'gap'")
    scaled = standardised(vectors)
    if not scaled.size:
        return np.zeros(len(vectors), np.int64)
    sample = _sample(scaled, _ROWS, seed)
    k = gap_statistic(sample, _MOST, seed=seed, map=map).k if clusters == "gap" else clusters
    k = min(k, len(np.unique(sample, axis=0)))
    if k == 1:
        return np.zeros(len(vectors), np.int64)
    with _one_thread():
        return np.asarray(_k_means(sample, k, seed).predict(scaled), np.int64)


def gap_statistic(
    vectors: npt.NDArray[np.floating[Any]], most: int = _MOST, references: int = 10, seed: int = 0, map: Map = map
) -> Gap:
    """Find the number of clusters by the gap statistic (Tibshirani, Walther and Hastie, 2001).

    ``Gap(k)`` is the log dispersion around k centres of uniform reference vectors, minus that of the vectors.
    References are drawn from the smallest box around the vectors that is aligned with their principal components. The
    result is the smallest k with ``Gap(k) >= Gap(k + 1) - s(k + 1)``; larger k are not evaluated.

    Parameters
    ----------
    vectors
        float[n, d], finite; they are not standardised here, see `standardised`. A sample of 2,000 is used.
    most
        Largest number of clusters: the result if no smaller number fits.
    references
        Number of sets of uniform reference vectors.
    seed
        Seed of all random decisions.
    map
        Function that evaluates the references for each k, possibly in other processes.

    Raises
    ------
    ValidationError
        If scikit-learn is not installed, or a number is too small.
    """
    if most < 1 or references < 1:
        raise ValidationError(f"found most={most}, references={references}; expected both to be at least 1")
    sample = _sample(np.asarray(vectors, np.float64), _GAP_ROWS, seed)
    distinct = len(np.unique(sample, axis=0))
    if distinct <= 1:
        return Gap(1, (0.0,), (0.0,))
    uniform = _references(sample, references, np.random.default_rng([seed, 1]))
    gaps: list[float] = []
    errors: list[float] = []
    for k in range(1, most + 1):
        scatter = np.array(list(map(partial(_log_dispersion, k=k, seed=seed), uniform)))
        gaps.append(float(scatter.mean()) - _log_dispersion(sample, min(k, distinct), seed))
        errors.append(float(scatter.std()) * (1 + 1 / references) ** 0.5)
        if k > 1 and gaps[-2] >= gaps[-1] - errors[-1]:
            return Gap(k - 1, tuple(gaps), tuple(errors))
    return Gap(most, tuple(gaps), tuple(errors))


def _references(vectors: Floats, count: int, random: np.random.Generator) -> list[Floats]:
    """Draw uniform vectors from the box around the vectors that is aligned with their principal components."""
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    along = centred @ axes.T
    low, high = along.min(axis=0), along.max(axis=0)
    return [random.uniform(low, high, along.shape) @ axes for _ in range(count)]


def _log_dispersion(vectors: Floats, k: int, seed: int) -> float:
    """Return the logarithm of the sum of squared distances of the vectors from the closest of k centres."""
    total = float(np.square(vectors - vectors.mean(axis=0)).sum())
    if k == 1:
        scatter = total
    else:
        with _one_thread():  # set here, as this may run in another process
            scatter = float(_k_means(vectors, k, seed).inertia_)
    return float(np.log(max(scatter, total * _ROUNDING)))


def _sample(vectors: Floats, rows: int, seed: int) -> Floats:
    if len(vectors) <= rows:
        return vectors
    chosen = np.random.default_rng([seed, 0]).choice(len(vectors), rows, replace=False)
    return vectors[np.sort(chosen)]


def _k_means(vectors: Floats, k: int, seed: int) -> Any:
    return load("sklearn.cluster").KMeans(k, n_init=_STARTS, random_state=seed).fit(vectors)


def _one_thread() -> AbstractContextManager[Any]:
    load("sklearn.cluster")  # threadpoolctl limits only libraries that are loaded
    limits: AbstractContextManager[Any] = load("threadpoolctl").threadpool_limits(1)
    return limits
