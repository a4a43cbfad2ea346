"""Runs of the traffic scenario, and of arrivals and service times that bounds replace."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from bench.degree.traffic import PROFILE, CpuRule, Traffic, WindowSplit, work_per_comparison
from fastcep.engine.instance_pool import InstancePool
from fastcep.parallel import Adaptation, AdaptationLoop, degree, parse_distribution, simulate
from fastcep.parallel.adaptation.simulation import Division, Policy, SharedQueue, Simulation, Worker

__all__ = [
    "APPROXIMATED", "BUFFER_LIMIT", "POLICIES", "approximation", "distribution", "run", "series", "summary",
]  # fmt: skip

Floats = npt.NDArray[np.float64]

BUFFER_LIMIT, PROBABILITY, START_TIME, FIRST = 15, 0.95, "60s", 8
_MOST = 100

#: Policies of a run: the paper's loop; the loop with a horizon that includes the longest window, 15 minutes; the rule.
POLICIES: dict[str, dict[str, Any]] = {
    "paper": {"horizon": "60s", "forecast": "naive", "margin": 0},
    "window": {"horizon": "16min", "forecast": "trend"},
    "auto": {"horizon": "16min", "forecast": "auto"},
    "cpu": {},
}


def run(traffic: Traffic, policy: str, division: str, samples: int, mean: float, seed: int) -> Simulation:
    """Simulate traffic.

    Parameters
    ----------
    traffic
        The events.
    policy
        Name in `POLICIES`.
    division
        ``turn`` and ``fewest``: the paper's splitter, which gives whole windows to the instances in turn, or to the one
        with the fewest; ``shared``: the first free instance takes an event.
    samples
        Number of measurements of a time slice.
    mean
        Mean service time as a share of its 99th percentile, which `PROFILE` gives.
    seed
        Seed of the service times.
    """
    factors = np.clip(np.random.default_rng(seed).normal(mean, (1 - mean) / 2.326, len(traffic.times)), 0.05, None)
    split: Division
    if division != "shared":
        split = WindowSplit(traffic, work_per_comparison(), factors, in_turn=division == "turn")
        times, counted = traffic.times, traffic.leaves
    else:
        times = traffic.times[traffic.leaves]
        work = np.array([PROFILE.p99(rate) for rate in _rates(times)]) * factors[traffic.leaves]
        split, counted = SharedQueue(work), np.ones(len(times), bool)

    def make(pool: InstancePool, workers: Callable[[], Sequence[Worker]]) -> Policy:
        if policy == "cpu":
            return CpuRule(pool, workers, FIRST)
        options = Adaptation(
            BUFFER_LIMIT, PROBABILITY, most=_MOST, initial=FIRST, samples=samples, interval=None, **POLICIES[policy]
        )
        return AdaptationLoop(pool, PROFILE.service, options, 0)

    return simulate(times, split, make, first=FIRST, start_time=START_TIME, counted=counted)


def summary(of: Simulation) -> dict[str, Any]:
    """Return the figures of a run."""
    return {
        "p95": of.percentile(), "within": round(float((of.queue <= BUFFER_LIMIT).mean()), 4),
        "longest": int(of.queue.max()), "degree": [int(of.instances.min()), int(of.instances.max())],
        "instances": round(float(of.alive.mean()), 2),
    }  # fmt: skip


def series(of: Simulation, points: int = 300) -> dict[str, list[float]]:
    """Return the number of instances and the 95th percentile of the queue in equal parts of a run."""
    parts = np.array_split(np.arange(len(of.times)), min(points, len(of.times)))
    return {
        "hours": [round(float(of.times[part[0]] / 3600e9), 3) for part in parts],
        "instances": [int(of.instances[part[0]]) for part in parts],
        "queue": [int(np.quantile(of.queue[part], 0.95, method="inverted_cdf")) for part in parts],
    }


def distribution(of: Simulation) -> dict[str, list[float]]:
    """Return the distribution function of the queue: lengths, and the share of the times with at most that length."""
    values, counts = np.unique(of.queue, return_counts=True)
    shares = np.cumsum(counts) / counts.sum()
    keep = np.unique(np.searchsorted(shares, np.linspace(0, 1, 101)[1:] - 1e-12))
    return {"length": values[keep].tolist(), "share": shares[keep].round(4).tolist()}


def _rates(times: Floats, events: int = 400) -> Floats:
    """Return the rate at each event in events/s, from the events before it."""
    before = np.maximum(np.arange(len(times)) - events, 0)
    elapsed = np.maximum(times - times[before], 1.0)
    rates = (np.arange(len(times)) - before) / elapsed * 1e9
    return np.maximum(np.where(np.arange(len(times)) < 50, rates[min(50, len(rates) - 1)], rates), 1e-3)


class _Fixed:
    """Policy that changes nothing."""

    def arrived(self, gaps: Floats) -> None:
        """Ignore the arrivals."""

    def step(self, now: int) -> None:
        """Do nothing."""


#: Fig. 8(e): the distributions that bounds replace, and those that are used as they are.
APPROXIMATED = {
    "uniform arrivals": ("uniform:100ms:200ms", "exponential:300ms"),
    "uniform service": ("exponential:40ms", "uniform:100ms:200ms"),
    "Pareto arrivals": ("pareto:50ms:2", "exponential:300ms"),
    "Pareto service": ("exponential:66.67ms", "pareto:50ms:2"),
}


def approximation(name: str, events: int, seed: int) -> dict[str, Any]:
    """Simulate a queue whose arrivals or service times a bound replaces, with the degree that follows from it."""
    arrival, service = APPROXIMATED[name]
    found = degree(arrival, service, BUFFER_LIMIT, PROBABILITY)
    random = np.random.default_rng(seed)
    times = np.cumsum(parse_distribution(arrival).law.rvs(events, random_state=random))
    work = parse_distribution(service).law.rvs(events, random_state=random)
    of = simulate(
        times, SharedQueue(work), lambda pool, workers: _Fixed(), first=found.instances, start_time=START_TIME,
        sample_every="1s",
    )  # fmt: skip
    return {
        "degree": found.instances, "predicted": round(found.probability, 4), **summary(of),
        "queue": distribution(of),
    }  # fmt: skip
