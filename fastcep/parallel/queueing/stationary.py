"""Stationary distribution of the number of events in a queueing system with several instances.

The number includes the events that are being processed. Both functions return P(N <= n) for n = 0 to a limit. They are
accurate to about 1e-9 for any utilisation below 1 and for hundreds of instances (compared with the solution of the
Markov chain in `tests/parallel/queueing`).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import optimize, special, stats

__all__ = ["exponential_service", "fixed_service"]

Floats = npt.NDArray[np.float64]
Complexes = npt.NDArray[np.complex128]

#: Error that is accepted for evaluating a generating function at finitely many points.
_ALIASING = 1e-11


def exponential_service(load: float, instances: int, limit: int) -> Floats:
    """Return the distribution function of N in an M/M/c system: Poisson arrivals, exponential service times.

    Parameters
    ----------
    load
        Arrival rate times mean service time, above 0 and below `instances`.
    instances
        Number c of instances.
    limit
        Largest n.

    Returns
    -------
    float64[limit + 1]
        P(N <= n), by the closed form with Erlang's formulas (e.g. Bolch et al., *Queueing Networks and Markov Chains*,
        section 6.4).
    """
    blocked = stats.poisson.pmf(instances, load) / stats.poisson.cdf(instances, load)  # Erlang B
    ratio = load / instances
    all_busy = blocked / (1 - ratio * (1 - blocked))  # Erlang C: P(N >= c)
    idle = np.arange(min(instances, limit + 1))
    free = (1 - all_busy) * stats.poisson.cdf(idle, load) / stats.poisson.cdf(instances - 1, load)
    queued = 1 - all_busy * ratio ** np.arange(1, limit + 2 - len(idle))
    return np.concatenate([free, queued])


def fixed_service(load: float, instances: int, limit: int) -> Floats:
    """Return the distribution function of N in an M/D/c system: Poisson arrivals, a constant service time.

    Parameters
    ----------
    load
        Arrival rate times service time, above 0 and below `instances`.
    instances
        Number c of instances.
    limit
        Largest n.

    Returns
    -------
    float64[limit + 1]
        P(N <= n).

    Notes
    -----
    All events that are processed now have left after one service time D, and those that arrived meanwhile, A of them,
    are still there: N(t + D) = max(N(t) - c, 0) + A (Crommelin 1932; Tijms, *A First Course in Stochastic Models*,
    section 9.6). So the generating function of N is

        Q(z) = exp(a (z - 1)) (c - a) (z - 1) / (z^c - exp(a (z - 1))) prod_k (z - z_k) / (1 - z_k)

    with the load a and the c - 1 roots z_k of z^c = exp(a (z - 1)) inside the unit circle, which Lambert's W function
    gives. The coefficients of Q(z) / (1 - z), the distribution function, follow from its values on a circle of a radius
    below 1 by an FFT. The radius bounds the error of using finitely many points, whatever the utilisation. Beyond
    2 c + 200, where only the smallest pole outside the unit circle counts, P(N > n) falls geometrically.
    """
    most = 2 * instances + 200
    if limit > most:
        exact = fixed_service(load, instances, most)
        tail = (1 - exact[-1]) * np.exp(-_decay(load / instances) * np.arange(1, limit - most + 1))
        return np.concatenate([exact, 1 - tail])
    roots = _roots(load, instances)
    points = 1 << max(6, int(np.ceil(np.log2(4 * (limit + 1)))))
    least = _ALIASING ** (1 / points)
    # A root on the circle would divide 0 by 0: of a few radii, take the one farthest from all roots.
    radii = least ** np.linspace(1, 1.2, 7)
    distance = np.abs(np.abs(roots)[None, :] - radii[:, None]).min(axis=1) if len(roots) else np.ones(len(radii))
    radius = radii[np.argmax(distance)]
    z = radius * np.exp(2j * np.pi * np.arange(points) / points)
    power = instances * np.log(z) + load * (1 - z)  # Q(z) / (1 - z) has the divisor 1 - exp(power)
    large = power.real > 0
    values = np.log(instances - load) - np.where(
        large, power + np.log(np.exp(-np.where(large, power, 1)) - 1), np.log(1 - np.exp(np.where(large, 0.5, power)))
    )
    for block in np.array_split(roots, -(-len(roots) * points // 1_000_000) or 1):
        values += np.log((z[:, None] - block) / (1 - block)).sum(axis=1)
    coefficients = np.fft.fft(np.exp(values)).real[: limit + 1] / points
    cumulative = coefficients / radius ** np.arange(limit + 1)
    return np.clip(np.maximum.accumulate(cumulative), 0.0, 1.0)


def _decay(ratio: float) -> float:
    """Return the logarithm of the pole: s > 0 with s = ratio * (exp(s) - 1)."""
    peak = -np.log(ratio)  # of the difference of both sides, which is negative at twice this value
    return float(optimize.brentq(lambda s: s - ratio * np.expm1(s), peak, 2 * peak, xtol=1e-300))


def _roots(load: float, instances: int) -> Complexes:
    """Return the roots of z^c = exp(a (z - 1)) inside the unit circle, complex128[c - 1]."""
    ratio = load / instances
    unit = np.exp(2j * np.pi * np.arange(1, instances) / instances)  # z = unit * exp(ratio * (z - 1))
    z = -special.lambertw(-ratio * np.exp(-ratio) * unit) / ratio
    return np.asarray(z, np.complex128)
