"""Measure load shedding on Q1 over DS1 and write ``results/shedding.json``, which docs/shedding.md describes.

``buys``      time saved by dropping partial matches of classes that hold 60 % of the pairs
``bounds``    every baseline under bounds on the mean latency, on the virtual clock
``rates``     every baseline at arrival rates above the maximum, on the virtual clock
``bursts``    ten times the arrival rate for 2 s of every 20 s, on the virtual clock
``wall``      arrival rates above the maximum on the wall clock, with a replay thread
``ready``     CPU time of an engine that can shed but does not have to
"""

from __future__ import annotations

import argparse
import json
import logging
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from bench.queries import QUERIES, RESULTS, SCHEMA, events, store
from fastcep.arrivals.generated_sources import ds1_blocks
from fastcep.datasets import ds1
from fastcep.shedding import Classes, FixedClasses, QueueLength, by_name

BASELINES = ("ri", "si", "rs", "ss", "pm-bl", "e-bl", "bl")
BOUNDS = (0.9, 0.7, 0.5, 0.3, 0.1)
WARM_UP = 0.02  #: share of a run at its start that is not evaluated
SEED = 1
BLOCK = 65_536
QUERY = fc.parse(QUERIES["Q1"], SCHEMA, name="q1")
SUMS = Classes(("a.V + b.V",), (2,), np.arange(19, dtype=np.uint8))


class ConstantDetector(fc.shedding.Detector):
    """Detector with a constant reading: always shed, or never."""

    name = "always"

    def __init__(self, sheds: bool) -> None:
        self._reading = fc.shedding.DetectorReading(0.0, amount=0.5 if sheds else 0.0)

    def read(self, load: fc.shedding.Load) -> fc.shedding.DetectorReading:
        return self._reading

    def spec(self) -> dict[str, Any]:
        return {}


def random_classes(pairs: np.ndarray[Any, Any], share: float = 0.6) -> tuple[int, list[int]]:
    """Return the first seed whose random classes hold a share of the pairs, to within 0.01, and these classes."""
    for seed in range(1000):
        order = np.random.default_rng(seed).permutation(len(pairs))
        shares = np.cumsum(pairs[order]) / pairs.sum()
        last = int(np.argmin(np.abs(shares - share)))
        if abs(shares[last] - share) <= 0.01:
            return seed, sorted(order[: last + 1].tolist())
    raise AssertionError("no seed gives classes with this share")


def saved_time(table: pa.Table, passes: int) -> dict[str, Any]:
    """Drop classes that hold 60 % of the pairs; count operations, and take medians of interleaved times."""
    results: dict[str, Any] = {}
    for index in ("key", "full"):

        def run(refuse: list[int], sheds: bool, index: str = index) -> tuple[float, dict[str, Any]]:
            shedder = FixedClasses({"b": SUMS}, {"b": [float(number in refuse) for number in range(19)]}, SEED)
            engine = fc.Engine(
                QUERY, index=index, latency_bound="1s", shedder=shedder, detector=ConstantDetector(sheds), store="rows"
            )
            assert engine.compile("5min")
            start = time.process_time()
            engine.process(table)
            return time.process_time() - start, engine.metrics()

        born = run([], False)[1]["shedding"]["queries"]["q1"]["partial_matches"]["b"]["born"]
        seed, refuse = random_classes(np.array(born))
        pairs = [(run(refuse, False), run(refuse, True)) for _ in range(passes)]
        (_, before), (_, after) = pairs[0]
        visited = [metrics["rows_visited"] + metrics["rows_created"] for metrics in (before, after)]
        counts = after["shedding"]["queries"]["q1"]["partial_matches"]["b"]
        results[index] = {
            "seed": seed, "classes": [number + 2 for number in refuse],
            "share_refused": sum(counts["refused"]) / (sum(counts["born"]) + sum(counts["refused"])),
            "operations": visited, "fewer_operations": visited[0] / visited[1],
            "cpu_seconds": [statistics.median(seconds for seconds, _ in runs) for runs in zip(*pairs, strict=True)],
            "matches": [before["matches"], after["matches"]],
        }  # fmt: skip
        seconds = results[index]["cpu_seconds"]
        results[index]["faster"] = seconds[0] / seconds[1]
        print(index, json.dumps(results[index]))
    return results


class Latencies:
    """Record of the latencies of every event."""

    def __init__(self, engine: fc.Engine) -> None:
        self._blocks: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        engine.listen(lambda processing, event: self._blocks.append((processing, event)))

    def all(self, kind: int) -> np.ndarray[Any, Any]:
        """Return all processing latencies (0) or event latencies (1)."""
        return np.concatenate([block[kind] for block in self._blocks])


def bounds(table: pa.Table) -> dict[str, Any]:
    """Run every baseline under every bound: the mean latency relative to it, recall, estimated recall and drops."""
    results: dict[str, Any] = {}
    for index in ("key", "full"):
        engine = fc.Engine(QUERY, clock="virtual", cost_table="paper", index=index, latency_bound=1e12, shedder=None)
        truth = len(engine.process(table))
        mean = engine.metrics()["shedding"]["processing_latency"]["mean"]
        rows = []
        for name in BASELINES:
            for share in BOUNDS:
                engine = fc.Engine(
                    QUERY, clock="virtual", cost_table="paper", index=index, latency_bound=share * mean,
                    shedder=by_name(name, seed=SEED),
                )  # fmt: skip
                latencies = Latencies(engine)
                matches = len(engine.process(table))
                metrics = engine.metrics()["shedding"]
                processing = latencies.all(0)
                rows.append({
                    "shedder": name, "bound": share,
                    "mean": float(processing[int(WARM_UP * len(processing)) :].mean() / (share * mean)),
                    "recall": matches / truth, "estimated_recall": metrics["estimated_recall"],
                    "dropped_events": metrics["dropped_events"],
                    "dropped_partial_matches": metrics["dropped_partial_matches"],
                })  # fmt: skip
                print(index, _rounded(rows[-1]))
        results[index] = {"mean_ns": mean, "matches": truth, "rows": rows}
    return results


def rates(table: pa.Table) -> dict[str, Any]:
    """Run every baseline at 120, 150 and 200 % of the maximum rate, with a bound of the time for 2,000 events."""
    results: dict[str, Any] = {}
    blocks = table.to_batches(max_chunksize=BLOCK)
    for costs in ("paper", "measured"):
        base = {"clock": "virtual", "cost_table": costs, "index": "key"}
        engine = fc.Engine(QUERY, latency_bound=1e12, shedder=None, **base)
        truth = len(engine.process(table))
        mean = engine.metrics()["shedding"]["processing_latency"]["mean"]
        rows = []
        for name in BASELINES:
            for share in (1.2, 1.5, 2.0):
                engine = fc.Engine(
                    QUERY, latency_bound=2000 * mean, shedder=by_name(name, seed=SEED), detector=QueueLength(), **base
                )
                run = fc.replay(engine, blocks, share * 1e9 / mean, maximum=1e9 / mean)
                rows.append({
                    "shedder": name, "rate": share, "longest": run.longest_event / (2000 * mean), "over": run.over,
                    "longest_queue": run.longest_queue, "recall": run.matches / truth,
                    "estimated_recall": run.metrics["shedding"]["estimated_recall"],
                })  # fmt: skip
                print(costs, _rounded(rows[-1]))
        results[costs] = {"mean_ns": mean, "rows": rows}
    return results


def bursts(table: pa.Table) -> dict[str, Any]:
    """Run every baseline with ten times the rate for 2 s of every 20 s; an operation takes a microsecond."""
    costs = fc.CostTable("paper, in us", visited=1000, created=1000)
    base = {"clock": "virtual", "cost_table": costs, "index": "key"}
    engine = fc.Engine(QUERY, latency_bound=1e12, shedder=None, **base)
    engine.process(table)
    mean = engine.metrics()["shedding"]["processing_latency"]["mean"]
    rows = []
    for name in BASELINES:
        engine = fc.Engine(
            QUERY, latency_bound=2000 * mean, shedder=by_name(name, seed=SEED), detector=QueueLength(), **base
        )
        observer = CalmObserver(engine)
        rate = fc.Rate.bursts(0.25 * 1e9 / mean, factor=10, every="20s", length="2s")
        run = fc.replay(engine, table.to_batches(max_chunksize=4096), rate, collect=observer.observe)
        rows.append({
            "shedder": name, "bursts": run.seconds / 20, "episodes": run.metrics["shedding"]["episodes"],
            "longest": run.longest_event / (2000 * mean), "over": run.over,
            "shed_between": observer.shedding, "memory_bytes": [min(observer.memory), max(observer.memory)],
        })  # fmt: skip
        print(_rounded(rows[-1]))
    return {"mean_ns": mean, "rows": rows}


class CalmObserver:
    """Observer of an engine between bursts.

    Attributes
    ----------
    shedding
        Number of observations, from 5 s after a burst to 1 s before the next one, at which the engine sheds.
    memory
        Bytes held at each observation after the first burst.
    """

    def __init__(self, engine: fc.Engine) -> None:
        self._engine = engine
        self.shedding = 0
        self.memory: list[int] = []

    def observe(self, matches: fc.Matches) -> None:
        """Read the metrics of the engine."""
        metrics = self._engine.metrics()
        phase = self._engine.now() / 1e9 % 20
        self.shedding += 5 < phase < 17 and metrics["shedding"]["demand"] > 0
        if self._engine.now() > 20e9:
            self.memory.append(metrics["memory_bytes"])


def wall_clock(table: pa.Table) -> dict[str, Any]:
    """Run Q1 within 64 ms at 120, 150 and 200 % of the maximum rate on the wall clock, for 10 s each.

    One thread generates events, another one matches. The model of ``hybrid`` is fitted on other events of DS1.
    """
    query = fc.parse(QUERIES["Q1"].replace("8ms", "64ms"), SCHEMA, name="q1")
    options: dict[str, Any] = {"index": "key", "latency_bound": "100ms"}
    rows = []
    maximum = fc.maximum_rate(
        lambda: fc.Engine(query, index="key", latency_bound="1h", shedder=None),
        table.slice(0, 200_000).to_batches(max_chunksize=BLOCK),
        "wall",
    )
    model = fc.fit(query, ds1(events=150_000, seed=77), index="key")
    truth: dict[float, int] = {}
    for name in (*BASELINES, "hybrid"):
        model_option = {"model": model} if name == "hybrid" else {}
        for share in (1.2, 1.5, 2.0):
            shedder = by_name(name, seed=SEED, **model_option)
            engine = fc.Engine(query, shedder=shedder, detector=QueueLength(f=0.7), **options)
            events = int(share * maximum * 10)
            if share not in truth:
                plain = fc.Engine(query)
                truth[share] = sum(len(plain.process(block)) for block in ds1_blocks(events, seed=7))
            run = fc.replay(
                engine, ds1_blocks(events, seed=7), share * maximum, maximum=maximum, skip=0.1, capacity=1 << 21
            )
            metrics = run.metrics["shedding"]
            rows.append({
                "shedder": name, "rate": share, "seconds": run.seconds, "events": run.events,
                "within": 1 - run.share_over_bound, "longest_ms": run.longest_event / 1e6,
                "mean_ms": run.mean_event / 1e6, "longest_queue": run.longest_queue,
                "recall": run.matches / truth[share],
                "estimated_recall": metrics["estimated_recall"], "overhead": metrics["overhead"] / 1e9 / run.seconds,
                "stalls": run.stalls.count, "stalled_ms": run.stalls.total / 1e6, "stalled_events": run.stalls.events,
            })  # fmt: skip
            print(_rounded(rows[-1]))
    return {"maximum": maximum, "rows": rows}


def cost_without_overload(table: pa.Table, passes: int) -> dict[str, Any]:
    """Return the CPU time of Q1 plain, with latencies measured, with a shedder, and with a shedder with classes."""
    no_drops = {"b": [0.0] * 19}
    sides: dict[str, Callable[[], dict[str, Any]]] = {
        "plain": dict,
        "measured": lambda: {"latency_bound": "1s"},
        "ready": lambda: {"latency_bound": "1s", "shedder": by_name("rs"), "detector": ConstantDetector(False)},
        "classes": lambda: {
            "latency_bound": "1s", "shedder": FixedClasses({"b": SUMS}, no_drops),
            "detector": ConstantDetector(False),
        },
    }  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(passes):
        for name, options in sides.items():
            engine = fc.Engine(QUERY, store="rows" if name in ("plain", "measured") else "auto", **options())
            assert engine.compile("5min")
            start = time.process_time()
            engine.process(table)
            times[name].append(time.process_time() - start)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print({name: round(value / medians["plain"], 3) for name, value in medians.items()})
    return {"cpu_seconds": medians, "passes": passes}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}


#: From the name of a part in the results to its function.
PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "buys": saved_time, "bounds": bounds, "rates": rates, "bursts": bursts, "wall": wall_clock,
    "ready": cost_without_overload,
}  # fmt: skip


def main() -> None:
    """Run the named parts, by default all, and add them to the stored results."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="parts to run; by default all")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=5)
    options = parser.parse_args()
    logging.getLogger("fastcep.shedding").setLevel(logging.ERROR)
    table = events(options.events)
    file = RESULTS / "shedding.json"
    results = json.loads(file.read_text())["parts"] if file.exists() else {}
    for name in options.parts or PARTS:
        passes = {"passes": options.passes} if name in ("buys", "ready") else {}
        results[name] = PARTS[name](table, **passes)
    store("shedding", {"parts": results})


if __name__ == "__main__":
    main()
