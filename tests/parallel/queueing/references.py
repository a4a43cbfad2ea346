"""Slow, obvious computations that the formulas are compared with."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

__all__ = ["birth_death_chain", "embedded_chain", "simulated_departures", "simulated_share"]

Floats = npt.NDArray[np.float64]


def birth_death_chain(load: float, instances: int, states: int) -> Floats:
    """Return P(N <= n), float64[states]: arrivals at the rate `load`, of n events min(n, c) end at the rate 1."""
    rates = np.zeros((states, states))
    for n in range(states - 1):
        rates[n, n + 1] = load
        rates[n + 1, n] = min(n + 1, instances)
    return _stationary(rates - np.diag(rates.sum(axis=1)))


def embedded_chain(load: float, instances: int) -> Floats:
    """Return P(N <= n) of N' = max(N - c, 0) + Poisson(a), up to a probability of about 1 - 1e-15."""
    decay = optimize.brentq(lambda s: instances * s - load * np.expm1(s), 1e-12, 60)
    states = int(instances + load + 12 * np.sqrt(load) + 35 / decay) + 20
    arrivals = stats.poisson.pmf(np.arange(states), load)
    moves = np.zeros((states, states))
    for n in range(states):
        left = max(n - instances, 0)
        moves[n, left:] = arrivals[: states - left]
    moves[:, -1] += 1 - moves.sum(axis=1)
    return _stationary(moves - np.eye(states))


def _stationary(generator: Floats) -> Floats:
    equations = generator.T.copy()
    equations[-1] = 1
    return np.cumsum(np.linalg.solve(equations, np.eye(len(generator))[-1]))


def simulated_departures(arrivals: Sequence[float], service: float, instances: int) -> list[float]:
    """Process each event by the instance that is free first; return when each leaves."""
    free = [-np.inf] * instances
    leaves = []
    for arrival in arrivals:
        leaves.append(max(arrival, heapq.heappop(free)) + service)
        heapq.heappush(free, leaves[-1])
    return leaves


def simulated_share(arrivals: Sequence[float], service: float, instances: int, limit: int) -> float:
    """Count the events between all pairs of successive changes; return the share of time with at most `limit`."""
    leaves = simulated_departures(arrivals, service, instances)
    changes = sorted({*arrivals, *(leave for leave in leaves if leave < arrivals[-1])})
    within = 0.0
    for start, stop in itertools.pairwise(changes):
        there = sum(arrival <= start < leave for arrival, leave in zip(arrivals, leaves, strict=True))
        within += (stop - start) * (there <= limit)
    return within / (arrivals[-1] - arrivals[0])
