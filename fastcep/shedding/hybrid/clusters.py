"""Clusters of partial matches by what they are worth and what they cost; how many there are.

scikit-learn is slow to import and is loaded inside the functions that fit. All of it runs in one thread: sums that
several threads add up in any order would make the clusters a matter of timing.
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

#: Applies a function to each item, in their order, maybe in other processes: what it is given can be pickled.
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]

#: How many vectors K-means looks at, and the gap statistic; the others go to the closest centre.
_ROWS = 20_000
_GAP_ROWS = 2_000
#: The most clusters that ``"gap"`` finds.
_MOST = 30
#: From how many starts K-means runs, so that it does not end in a poor optimum.
_STARTS = 4
#: Dispersion below this share of that of one cluster is rounding.
_NOTHING = 1e-12


@dataclass(frozen=True)
class Gap:
    """How many clusters there are, by the gap statistic.

    Attributes
    ----------
    k
        So many.
    gaps
        Of 1, 2, … clusters, up to the last one that had to be looked at.
    errors
        Their standard errors ``s``, which take in that there are few references.
    """

    k: int
    gaps: tuple[float, ...]
    errors: tuple[float, ...]


def load(module: str) -> Any:
    """Import a library that only fitting needs."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise ValidationError(f"fitting needs {error.name}; install it with: pip install 'fastcep[fit]'") from error


def standardised(vectors: npt.NDArray[np.floating[Any]]) -> Floats:
    """The columns that are not constant, each with mean 0 and deviation 1: float64[n, at most d]."""
    own = np.asarray(vectors, np.float64)
    if not len(own):
        return own
    own = own[:, own.min(axis=0) < own.max(axis=0)]
    deviations: Floats = own.std(axis=0)
    own = own[:, deviations > 0]  # that of values hardly above 0 may be rounded away
    scaled: Floats = (own - own.mean(axis=0)) / deviations[deviations > 0]
    return scaled


def cluster(
    vectors: npt.NDArray[np.floating[Any]], clusters: int | Literal["gap"] = 10, seed: int = 0, map: Map = map
) -> Ints:
    """Find clusters of vectors, by K-means on standardised columns.

    Raw columns would make clusters by the one of the largest numbers: costs in ns, not matches.

    Parameters
    ----------
    vectors
        float[n, d], finite.
    clusters
        How many; fewer if there are fewer distinct vectors. ``"gap"``: as many as `gap_statistic` finds.
    seed
        Of the starts, and of the sample if there are more than 20,000 vectors.
    map
        See `gap_statistic`.

    Returns
    -------
    int64[n]
        Of each vector its cluster, from 0 on.

    Raises
    ------
    ValidationError
        scikit-learn is not installed, or `clusters` is no number of clusters.
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
    """Find out how many clusters there are (Tibshirani, Walther and Hastie, 2001).

    ``Gap(k)`` says how much less the vectors scatter around k centres than uniform ones would, in logarithms; these are
    drawn from the smallest box around the vectors that is aligned with their principal components. The smallest k is
    taken with ``Gap(k) >= Gap(k + 1) - s(k + 1)``; larger k are not looked at.

    Parameters
    ----------
    vectors
        float[n, d], finite, as they are: see `standardised`. 2,000 of them are looked at.
    most
        The most clusters there may be: the answer where no smaller number fits.
    references
        How many times uniform vectors are drawn.
    seed
        Of all that is drawn.
    map
        Looks at the references, for each k: they may be looked at in other processes.

    Raises
    ------
    ValidationError
        scikit-learn is not installed, or a number is too small.
    """
    if most < 1 or references < 1:
        raise ValidationError(f"found most={most}, references={references}; expected both to be at least 1")
    own = _sample(np.asarray(vectors, np.float64), _GAP_ROWS, seed)
    distinct = len(np.unique(own, axis=0))
    if distinct <= 1:
        return Gap(1, (0.0,), (0.0,))
    drawn = _references(own, references, np.random.default_rng([seed, 1]))
    gaps: list[float] = []
    errors: list[float] = []
    for k in range(1, most + 1):
        scatter = np.array(list(map(partial(_log_dispersion, k=k, seed=seed), drawn)))
        gaps.append(float(scatter.mean()) - _log_dispersion(own, min(k, distinct), seed))
        errors.append(float(scatter.std()) * (1 + 1 / references) ** 0.5)
        if k > 1 and gaps[-2] >= gaps[-1] - errors[-1]:
            return Gap(k - 1, tuple(gaps), tuple(errors))
    return Gap(most, tuple(gaps), tuple(errors))


def _references(vectors: Floats, count: int, random: np.random.Generator) -> list[Floats]:
    """Uniform vectors in the box around the vectors that is aligned with their principal components."""
    centred = vectors - vectors.mean(axis=0)
    axes = np.linalg.svd(centred, full_matrices=False)[2]
    along = centred @ axes.T
    low, high = along.min(axis=0), along.max(axis=0)
    return [random.uniform(low, high, along.shape) @ axes for _ in range(count)]


def _log_dispersion(vectors: Floats, k: int, seed: int) -> float:
    """The logarithm of how far vectors are from the closest of k centres: the sum of the squares."""
    whole = float(np.square(vectors - vectors.mean(axis=0)).sum())
    if k == 1:
        scatter = whole
    else:
        with _one_thread():  # here, as it may be another process
            scatter = float(_k_means(vectors, k, seed).inertia_)
    return float(np.log(max(scatter, whole * _NOTHING)))


def _sample(vectors: Floats, rows: int, seed: int) -> Floats:
    if len(vectors) <= rows:
        return vectors
    chosen = np.random.default_rng([seed, 0]).choice(len(vectors), rows, replace=False)
    return vectors[np.sort(chosen)]


def _k_means(vectors: Floats, k: int, seed: int) -> Any:
    return load("sklearn.cluster").KMeans(k, n_init=_STARTS, random_state=seed).fit(vectors)


def _one_thread() -> AbstractContextManager[Any]:
    load("sklearn.cluster")  # what is to be limited must be there
    limits: AbstractContextManager[Any] = load("threadpoolctl").threadpool_limits(1)
    return limits
