"""Find the family of distributions that measured times come from (paper 5, section V-A).

The parameters of the exponential, uniform and normal distribution are found from mean and variance, those of the Pareto
distribution by maximum likelihood. Of the families, the one whose distribution function is closest to that of the times
is chosen (Kolmogorov-Smirnov distance). A test decides then whether the times can come from it at all: the test of
Lilliefors, which has tables for exponential and normal distributions with estimated parameters, and otherwise the
chi-square test of homogeneity with times drawn from the fitted distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy import stats

from fastcep.errors import ValidationError
from fastcep.extras import load
from fastcep.parallel.queueing.distributions import (
    Deterministic,
    Distribution,
    Exponential,
    Family,
    Normal,
    Pareto,
    Samples,
    Uniform,
)
from fastcep.parallel.queueing.target import LEAST_SAMPLES

__all__ = ["Fit", "fit"]

Floats = npt.NDArray[np.float64]

#: Times within this share of their mean are constant.
_CONSTANT = 0.01
#: Probability of the test below which a family is rejected.
_REJECTED = 0.01
_BINS = 20


@dataclass(frozen=True)
class Fit:
    """Result of `fit`.

    Attributes
    ----------
    distribution
        Closest distribution.
    distance
        Largest difference of the two distribution functions.
    probability
        Probability of times that differ as much or more if they came from `distribution`.
    distances
        Distance of each family that was tried, by name.
    """

    distribution: Distribution
    distance: float
    probability: float
    distances: dict[str, float]

    @property
    def is_accepted(self) -> bool:
        """True if the times can come from the distribution: its test does not reject it at 1 %."""
        return self.probability >= _REJECTED


def fit(times: Floats | Samples, *, seed: int = 0) -> Fit:
    """Find the distribution that is closest to measured times.

    Parameters
    ----------
    times
        Times in ns, float64[n], not negative.
    seed
        Seed of the times that are drawn for the test of homogeneity.

    Raises
    ------
    ValidationError
        If there are fewer than 100 times, or all are 0.
    """
    samples = times if isinstance(times, Samples) else Samples(times)
    values = samples.times
    if len(values) < LEAST_SAMPLES:
        raise ValidationError(
            f"{samples.name}: {len(values)} times; expected at least {LEAST_SAMPLES}: 400 give the mean to ±10 %, and "
            "1,600 to ±5 %"
        )
    mean = float(values.mean())
    if mean == 0:
        raise ValidationError(f"{samples.name}: all {len(values):,} times are 0; expected times above 0")
    deviation = mean * float((values / mean).std())  # the square of a tiny time would be 0
    if np.abs(values - mean).max() <= _CONSTANT * mean:
        return Fit(Deterministic(mean), 0.0, 1.0, {"deterministic": 0.0})
    half = np.sqrt(3) * deviation
    families: dict[str, Family] = {
        "exponential": Exponential(mean),
        "normal": Normal(mean, deviation),
        "uniform": Uniform(max(mean - half, 0.0), mean + half),
    }
    logarithms = np.log(values / values.min()).sum() if values.min() > 0 else 0.0
    if logarithms > 0 and len(values) / logarithms > 1:
        families["pareto"] = Pareto(float(values.min()), len(values) / logarithms)
    distances = {name: float(stats.ks_1samp(values, family.law.cdf).statistic) for name, family in families.items()}
    best = min(distances, key=lambda name: distances[name])
    return Fit(families[best], distances[best], _TESTS[best](values, families[best], seed), distances)


def _lilliefors(kind: str) -> Callable[[Floats, Family, int], float]:
    def probability(values: Floats, family: Family, seed: int) -> float:
        lilliefors = load("statsmodels.stats.diagnostic").lilliefors
        return float(lilliefors(values, dist=kind, pvalmethod="table")[1])

    return probability


def _homogeneity(values: Floats, family: Family, seed: int) -> float:
    """Return the probability of the chi-square test that measured and drawn times have the same distribution."""
    drawn = family.law.rvs(len(values), random_state=np.random.default_rng(seed))
    edges = family.law.ppf(np.linspace(0, 1, min(_BINS, len(values) // 5) + 1))
    edges[0], edges[-1] = 0, np.inf
    counts = np.array([np.histogram(of, edges)[0] for of in (values, drawn)])
    return float(stats.chi2_contingency(counts[:, counts.sum(axis=0) > 0]).pvalue)


_TESTS: dict[str, Callable[[Floats, Family, int], float]] = {
    "exponential": _lilliefors("exp"),
    "normal": _lilliefors("norm"),
    "uniform": _homogeneity,
    "pareto": _homogeneity,
}
