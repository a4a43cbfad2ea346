"""Measure load shedding on Q1 over DS1 and write ``results/shedding.json``; what is where in docs/shedding.md.

``buys``      refusing partial matches of classes that hold 60 % of the pairs: operations and time
``bounds``    every baseline under bounds on the mean latency, on the virtual clock
``rates``     every baseline while events arrive faster than they can be taken, on the virtual clock
``bursts``    ten times as many events for 2 s of every 20 s, on the virtual clock
``wall``      the same overload for real, by a replay thread
``ready``     what it costs to be ready to shed, and not to
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
WARM = 0.02  #: the share of a run that is left out at its beginning
SEED = 1
BLOCK = 65_536
QUERY = fc.parse(QUERIES["Q1"], SCHEMA, name="q1")
SUMS = Classes(("a.V + b.V",), (2,), np.arange(19, dtype=np.uint8))


class Alike(fc.shedding.Detector):
    """A detector that always sees the same: shed, or not."""

    name = "always"

    def __init__(self, sheds: bool) -> None:
        self._reading = fc.shedding.DetectorReading(0.0, amount=0.5 if sheds else 0.0)

    def read(self, load: fc.shedding.Load) -> fc.shedding.DetectorReading:
        return self._reading

    def spec(self) -> dict[str, Any]:
        return {}


def chosen(pairs: np.ndarray[Any, Any], share: float = 0.6) -> tuple[int, list[int]]:
    """The first seed with which classes in random order hold that share of the pairs, to a hundredth, and those."""
    for seed in range(1000):
        order = np.random.default_rng(seed).permutation(len(pairs))
        held = np.cumsum(pairs[order]) / pairs.sum()
        place = int(np.argmin(np.abs(held - share)))
        if abs(held[place] - share) <= 0.01:
            return seed, sorted(order[: place + 1].tolist())
    raise AssertionError("no such classes")


def buys(table: pa.Table, passes: int) -> dict[str, Any]:
    """Refuse classes that hold 60 % of the pairs; operations are counted, times are medians of both in turn."""
    results: dict[str, Any] = {}
    for index in ("key", "full"):

        def run(refuse: list[int], sheds: bool, index: str = index) -> tuple[float, dict[str, Any]]:
            shedder = FixedClasses({"b": SUMS}, {"b": [float(number in refuse) for number in range(19)]}, SEED)
            engine = fc.Engine(
                QUERY, index=index, latency_bound="1s", shedder=shedder, detector=Alike(sheds), store="rows"
            )
            assert engine.compile("5min")
            begin = time.process_time()
            engine.process(table)
            return time.process_time() - begin, engine.metrics()

        born = run([], False)[1]["shedding"]["queries"]["q1"]["partial_matches"]["b"]["born"]
        seed, refuse = chosen(np.array(born))
        turns = [(run(refuse, False), run(refuse, True)) for _ in range(passes)]
        (_, before), (_, after) = turns[0]
        visited = [each["rows_visited"] + each["rows_created"] for each in (before, after)]
        own = after["shedding"]["queries"]["q1"]["partial_matches"]["b"]
        results[index] = {
            "seed": seed, "classes": [number + 2 for number in refuse],
            "share_refused": sum(own["refused"]) / (sum(own["born"]) + sum(own["refused"])),
            "operations": visited, "fewer_operations": visited[0] / visited[1],
            "cpu_seconds": [statistics.median(side[0] for side in sides) for sides in zip(*turns, strict=True)],
            "matches": [before["matches"], after["matches"]],
        }  # fmt: skip
        seconds = results[index]["cpu_seconds"]
        results[index]["faster"] = seconds[0] / seconds[1]
        print(index, json.dumps(results[index]))
    return results


class Latencies:
    """Keeps what a monitor is told, per event."""

    def __init__(self, engine: fc.Engine) -> None:
        self._blocks: list[tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]] = []
        engine.listen(lambda processing, event: self._blocks.append((processing, event)))

    def all(self, kind: int) -> np.ndarray[Any, Any]:
        return np.concatenate([block[kind] for block in self._blocks])


def bounds(table: pa.Table) -> dict[str, Any]:
    """Every baseline under every bound: the mean latency against it, recall, its estimate, what was dropped."""
    results: dict[str, Any] = {}
    for index in ("key", "full"):
        engine = fc.Engine(QUERY, clock="virtual", cost_table="paper", index=index, latency_bound=1e12)
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
                found = len(engine.process(table))
                told = engine.metrics()["shedding"]
                own = latencies.all(0)
                rows.append({
                    "shedder": name, "bound": share,
                    "mean": float(own[int(WARM * len(own)) :].mean() / (share * mean)),
                    "recall": found / truth, "estimated_recall": told["estimated_recall"],
                    "dropped_events": told["dropped_events"],
                    "dropped_partial_matches": told["dropped_partial_matches"],
                })  # fmt: skip
                print(index, _rounded(rows[-1]))
        results[index] = {"mean_ns": mean, "matches": truth, "rows": rows}
    return results


def rates(table: pa.Table) -> dict[str, Any]:
    """Every baseline at 120, 150 and 200 % of what is possible, with a bound of 2,000 events' time."""
    results: dict[str, Any] = {}
    blocks = table.to_batches(max_chunksize=BLOCK)
    for costs in ("paper", "measured"):
        base = {"clock": "virtual", "cost_table": costs, "index": "key"}
        engine = fc.Engine(QUERY, latency_bound=1e12, **base)
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
    """Ten times as many events for 2 s of every 20 s; operations take a microsecond each, so that this is a load."""
    costs = fc.CostTable("paper, in us", visited=1000, created=1000)
    base = {"clock": "virtual", "cost_table": costs, "index": "key"}
    engine = fc.Engine(QUERY, latency_bound=1e12, **base)
    engine.process(table)
    mean = engine.metrics()["shedding"]["processing_latency"]["mean"]
    rows = []
    for name in BASELINES:
        engine = fc.Engine(
            QUERY, latency_bound=2000 * mean, shedder=by_name(name, seed=SEED), detector=QueueLength(), **base
        )
        calm = Calm(engine)
        rate = fc.Rate.bursts(0.25 * 1e9 / mean, factor=10, every="20s", length="2s")
        run = fc.replay(engine, table.to_batches(max_chunksize=4096), rate, collect=calm.look)
        rows.append({
            "shedder": name, "bursts": run.seconds / 20, "episodes": run.metrics["shedding"]["episodes"],
            "longest": run.longest_event / (2000 * mean), "over": run.over,
            "shed_between": calm.between, "memory_bytes": [min(calm.memory), max(calm.memory)],
        })  # fmt: skip
        print(_rounded(rows[-1]))
    return {"mean_ns": mean, "rows": rows}


class Calm:
    """Looks at an engine between bursts: from 5 s behind a burst until 1 s before the next."""

    def __init__(self, engine: fc.Engine) -> None:
        self._engine = engine
        self.between = 0
        self.memory: list[int] = []

    def look(self, matches: fc.Matches) -> None:
        metrics = self._engine.metrics()
        phase = self._engine.now() / 1e9 % 20
        self.between += 5 < phase < 17 and metrics["shedding"]["demand"] > 0
        if self._engine.now() > 20e9:
            self.memory.append(metrics["memory_bytes"])


def wall(table: pa.Table) -> dict[str, Any]:
    """Q1 with 64 ms at 120, 150 and 200 % for real, for 10 s each: a thread generates, the other one matches.

    Hybrid has a model of other events of DS1.
    """
    query = fc.parse(QUERIES["Q1"].replace("8ms", "64ms"), SCHEMA, name="q1")
    options: dict[str, Any] = {"index": "key", "latency_bound": "100ms"}
    rows = []
    maximum = fc.maximum_rate(
        lambda: fc.Engine(query, index="key", latency_bound="1h"),
        table.slice(0, 200_000).to_batches(max_chunksize=BLOCK),
        "wall",
    )
    model = fc.fit(query, ds1(events=150_000, seed=77), index="key")
    truth: dict[float, int] = {}
    for name in (*BASELINES, "hybrid"):
        more = {"model": model} if name == "hybrid" else {}
        for share in (1.2, 1.5, 2.0):
            engine = fc.Engine(query, shedder=by_name(name, seed=SEED, **more), detector=QueueLength(f=0.7), **options)
            events = int(share * maximum * 10)
            if share not in truth:
                plain = fc.Engine(query)
                truth[share] = sum(len(plain.process(block)) for block in ds1_blocks(events, seed=7))
            run = fc.replay(
                engine, ds1_blocks(events, seed=7), share * maximum, maximum=maximum, skip=0.1, capacity=1 << 21
            )
            told = run.metrics["shedding"]
            rows.append({
                "shedder": name, "rate": share, "seconds": run.seconds, "events": run.events,
                "within": 1 - run.share_over_bound, "longest_ms": run.longest_event / 1e6,
                "mean_ms": run.mean_event / 1e6, "longest_queue": run.longest_queue,
                "recall": run.matches / truth[share],
                "estimated_recall": told["estimated_recall"], "overhead": told["overhead"] / 1e9 / run.seconds,
                "stalls": run.stalls.count, "stalled_ms": run.stalls.total / 1e6, "stalled_events": run.stalls.events,
            })  # fmt: skip
            print(_rounded(rows[-1]))
    return {"maximum": maximum, "rows": rows}


def ready(table: pa.Table, passes: int) -> dict[str, Any]:
    """CPU time of Q1 with rows: plain, with latencies measured, ready to shed without and with classes; in turns."""
    none = {"b": [0.0] * 19}
    sides: dict[str, Callable[[], dict[str, Any]]] = {
        "plain": dict,
        "measured": lambda: {"latency_bound": "1s"},
        "ready": lambda: {"latency_bound": "1s", "shedder": by_name("rs"), "detector": Alike(False)},
        "classes": lambda: {
            "latency_bound": "1s", "shedder": FixedClasses({"b": SUMS}, none), "detector": Alike(False),
        },
    }  # fmt: skip
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(passes):
        for name, options in sides.items():
            engine = fc.Engine(QUERY, store="rows" if name in ("plain", "measured") else "auto", **options())
            assert engine.compile("5min")
            begin = time.process_time()
            engine.process(table)
            taken[name].append(time.process_time() - begin)
    medians = {name: statistics.median(values) for name, values in taken.items()}
    print({name: round(value / medians["plain"], 3) for name, value in medians.items()})
    return {"cpu_seconds": medians, "passes": passes}


def _rounded(row: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 3) if isinstance(value, float) else value for key, value in row.items()}


PARTS: dict[str, Callable[..., dict[str, Any]]] = {
    "buys": buys, "bounds": bounds, "rates": rates, "bursts": bursts, "wall": wall, "ready": ready,
}  # fmt: skip


def main() -> None:
    """Run the parts that are asked for, all by default, and put them beside what is stored."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="which parts; all by default")
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=5)
    options = parser.parse_args()
    logging.getLogger("fastcep.shedding").setLevel(logging.ERROR)
    table = events(options.events)
    file = RESULTS / "shedding.json"
    results = json.loads(file.read_text())["parts"] if file.exists() else {}
    for name in options.parts or PARTS:
        more = {"passes": options.passes} if name in ("buys", "ready") else {}
        results[name] = PARTS[name](table, **more)
    store("shedding", {"parts": results})


if __name__ == "__main__":
    main()
