"""Compute the figures of docs/degree.md: ``python -m bench.degree [PART …]``, then the page and its pictures.

Parts: ``traffic`` (Fig. 8(a) to (d) of paper 5), ``approximations`` (Fig. 8(e)), ``day``, ``streams`` and ``live``; by
default all. Results go to ``results/degree.json``; ``--page`` only writes the page and pictures from them.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from bench.degree import draw, page
from bench.degree.live import live
from bench.degree.scenarios import APPROXIMATED, approximation, distribution, run, series, summary
from bench.degree.streams import arrivals, evaluate
from bench.degree.traffic import day, rush_hour, steady
from bench.queries import RESULTS, store

SEEDS = (1, 2, 3)
#: Mean service time as a share of its 99th percentile; of the pictures and most rows, and of the others.
MEAN, OTHER_MEANS = 0.8, (0.7, 0.9, 1.0)

#: Scenario, division, policy, samples, mean service time.
Row = tuple[str, str, str, int, float]


def rows() -> list[Row]:
    """Return the runs of the traffic scenario."""
    found: list[Row] = []
    for division in ("shared", "turn", "fewest"):
        found += [("static", division, policy, 1_600, MEAN) for policy in ("paper", "window")]
        found += [("static", division, "cpu", 0, MEAN)]
        found += [
            ("dynamic", division, policy, samples, MEAN) for policy in ("paper", "window") for samples in (400, 1_600)
        ]
        found += [("dynamic", division, "cpu", 0, MEAN)]
    for mean in OTHER_MEANS:
        found += [("static", "shared", "paper", 1_600, mean), ("dynamic", "shared", "paper", 400, mean)]
        found += [("static", "turn", "window", 1_600, mean), ("dynamic", "turn", "window", 400, mean)]
    return found


def traffic_run(row: Row, seed: int) -> dict[str, Any]:
    """Run a row with a seed."""
    scenario, division, policy, samples, mean = row
    traffic = steady(8.0, seed) if scenario == "static" else rush_hour(seed)
    of = run(traffic, policy, division, samples or 1_600, mean, seed)
    result = {
        "scenario": scenario, "division": division, "policy": policy, "samples": samples, "mean": mean, "seed": seed,
        **summary(of),
    }  # fmt: skip
    if seed == SEEDS[0] and mean == MEAN:
        result |= {"series": series(of), "queue": distribution(of)}
    print({name: value for name, value in result.items() if name not in ("series", "queue")}, flush=True)
    return result


def traffic(jobs: int) -> Any:
    """Run all rows with all seeds."""
    with ProcessPoolExecutor(jobs) as pool:
        runs = [pool.submit(traffic_run, row, seed) for row in rows() for seed in SEEDS]
        return [of.result() for of in runs]


def approximations(jobs: int) -> Any:
    """Run the cases of Fig. 8(e)."""
    return {name: {str(seed): approximation(name, 50_000, seed) for seed in SEEDS} for name in APPROXIMATED}


def one_day(jobs: int) -> Any:
    """Run a day whose rate follows that of real trips."""
    traffic = day(seed=1)
    of = run(traffic, "window", "turn", 400, MEAN, 1)
    rates = [[round(time / 3600, 2), round(rate, 3)] for time, rate in traffic.rates]
    return {**summary(of), "series": series(of, 480), "rates": rates}


def streams(jobs: int) -> Any:
    """Evaluate arrivals that nobody tuned to."""
    found: dict[str, Any] = {}
    for seed in SEEDS:
        for name, gaps in arrivals(seed):
            if seed == SEEDS[0] or "real" not in name:
                found.setdefault(name, {})[str(seed)] = evaluate(gaps)
    return found


PARTS: dict[str, Callable[[int], Any]] = {
    "traffic": traffic, "approximations": approximations, "day": one_day, "streams": streams,
    "live": lambda jobs: live(),
}  # fmt: skip


def main() -> None:
    """Compute parts, write the results, the page and the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[[], *PARTS], default=[])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--page", action="store_true", help="only write the stored results into the page")
    options = parser.parse_args()
    path = RESULTS / "degree.json"
    results = json.loads(path.read_text()) if path.exists() else {}
    if not options.page:
        results |= {part: PARTS[part](options.jobs) for part in options.parts or PARTS}
        results.pop("environment", None)
        store("degree", results)
        results = json.loads(path.read_text())
    draw.draw(results)
    page.write(results)


if __name__ == "__main__":
    main()
