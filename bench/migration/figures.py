"""The runs of figure 4 of the paper, in simulated time, and the comparison of the methods."""

from __future__ import annotations

import time
from statistics import median
from typing import Any

import numpy as np

from fastcep.migration import States, plan, scenario, simulate
from fastcep.migration.states import Ints

__all__ = ["METHODS", "SEEDS", "comparison", "freeze", "over_time", "run_times", "shares"]

SEEDS = tuple(range(10))
METHODS = ("greedy", "dp", "fptas", "auto", "random")
UTILITIES = ("uniform", "skew10", "skew50")
_POINTS = 50

#: All states take this time; with it, the figures have the paper's axis.
FULL_SECONDS = 10


def over_time(deadline: str = "5500ms") -> list[dict[str, Any]]:
    """Run figures 4(a) and (b): 8,000 states with sizes of trips, without deadline and with one."""
    found = []
    for utility, method in (*((name, "greedy") for name in UTILITIES), ("uniform", "random")):
        states = scenario(utility, "trips")
        rate = states.total_size // FULL_SECONDS
        whole = simulate(states, method, bandwidth=rate, latency="1ms")
        part = simulate(states, method, bandwidth=rate, latency="1ms", deadline=deadline)
        times = [at * FULL_SECONDS / _POINTS for at in range(_POINTS + 1)]
        found.append({
            "utility": utility, "method": method, "seconds": times,
            "share": [round(whole.utility_share(at / _POINTS), 5) for at in range(_POINTS + 1)],
            "states": np.searchsorted(part.times, np.array(times) * 1e9, side="right").tolist(),
            "deadline": part.deadline / 1e9, "received_states": len(part.received),
            "received_share": part.utility_share(1.0),
            "received_bytes": int(part.size[-1]), "bytes": states.total_size,
        })  # fmt: skip
    return found


def shares(count: int = 8_000) -> list[dict[str, Any]]:
    """Compute the share of the full time after which 80 % of the utility has arrived, for each seed."""
    found = []
    for utility in UTILITIES:
        for sizes in ("equal", "trips"):
            runs = []
            for seed in SEEDS:
                states = scenario(utility, sizes, count, seed)
                runs.append(simulate(states, "greedy", bandwidth=states.total_size // FULL_SECONDS).time_share(0.8))
            found.append({"utility": utility, "sizes": sizes, "shares": runs})
    return found


def few_large(seed: int, spread: float) -> States:
    """Return 8 states of log-normal sizes, whose utility grows with the size."""
    size = _varied(8, seed, spread)
    return States(size, size**1.5)


def _varied(count: int, seed: int, spread: float = 0.7) -> Ints:
    return np.ceil(np.exp(np.random.default_rng(seed).normal(8.0, spread, count))).astype(np.int64)


def many_small(seed: int) -> States:
    """Return 8,000 states with sizes of trips, whose utility grows with the size."""
    return scenario("size", "trips", 8_000, seed)


def comparison(points: int = 20, seeds: int = 100) -> dict[str, list[dict[str, Any]]]:
    """Run figures 4(c) and (d): utility received by the deadline, few large and many small states."""
    cases = {
        "few": [few_large(seed, 0.3) for seed in range(seeds)],
        "varied": [few_large(seed, 0.7) for seed in range(seeds)],
        "many": [many_small(seed) for seed in SEEDS[:3]],
    }
    return {name: _received(of, points) for name, of in cases.items()}


def _received(cases: list[States], points: int) -> list[dict[str, Any]]:
    """Return the received share of the utility by deadline, of each method: of the first case, and the mean of all."""
    found = []
    greedy = None
    for method in METHODS:
        table = np.array([[_planned_share(of, method, at / points) for at in range(1, points + 1)] for of in cases])
        greedy = table if greedy is None else greedy
        gain = table - greedy
        found.append({
            "method": method, "time_share": [at / points for at in range(1, points + 1)],
            "first": table[0].round(5).tolist(), "mean": float(table.mean()),
            "better": float((gain > 1e-9).mean()), "worse": float((gain < -1e-9).mean()),
            "largest_gain": float(gain.max()), "largest_loss": float(max(0.0, -gain.min())),
        })  # fmt: skip
    return found


def _planned_share(states: States, method: str, time_share: float) -> float:
    """Return the share of the utility that has arrived at a share of the full time; the bandwidth is 1 MB/s."""
    deadline = f"{int(states.total_size * time_share * 1_000)}ns"
    return simulate(states, method, bandwidth=10**6, deadline=deadline).utility_share(1.0)


def freeze(rate: float = 200) -> list[dict[str, Any]]:
    """Simulate the events of all four nodes: time without output, on both tracks, with all of the state and a part."""
    states = scenario("skew50", "trips")
    found = []
    for track in ("single", "parallel"):
        for deadline in (None, "5500ms", "2s"):
            moved = simulate(
                states, "greedy", bandwidth=states.total_size // FULL_SECONDS, latency="1ms", deadline=deadline,
                resume="100ms", event_rate=rate, service="1ms", track=track,
            )  # fmt: skip
            events = moved.events
            assert events is not None and events.resumed is not None and events.caught_up is not None
            found.append({
                "track": track, "deadline": None if deadline is None else moved.deadline / 1e9,
                "freeze": events.freeze / 1e9, "resumed": events.resumed / 1e9, "caught_up": events.caught_up / 1e9,
                "most_buffered": events.most_buffered, "output_share": events.output_share,
                "utility": moved.utility_share(1.0), "rate": rate,
            })  # fmt: skip
    return found


def run_times(repeats: int = 5) -> list[dict[str, Any]]:
    """Measure the time of the methods in ms, the median of some runs in CPU time."""
    found = []
    for count in (100, 8_000, 100_000):
        for name in ("even", "trips", "varied"):
            states = _timed(name, count)
            for method in ("greedy", "dp", "fptas", "auto"):
                times = []
                for _ in range(repeats):
                    fresh = States(states.size, states.utility)  # nothing is cached
                    start = time.process_time()
                    plan(fresh, states.total_size // 3, method)
                    times.append((time.process_time() - start) * 1e3)
                made = plan(states, states.total_size // 3, method)
                found.append({
                    "states": count, "sizes": name, "method": method, "used": made.method,
                    "ms": round(median(times), 3), "of_bound": made.utility / made.upper_bound,
                })  # fmt: skip
    return found


def _timed(name: str, count: int) -> States:
    if name == "trips":
        return scenario("skew10", "trips", count)
    random = np.random.default_rng(1)
    if name == "even":  # utilities near the largest: the rounded utilities have the largest sum
        return States(random.integers(1, 10_000, count), random.uniform(90, 100, count))
    size = _varied(count, 1)
    return States(size, size * random.uniform(0.9, 1.1, count))
