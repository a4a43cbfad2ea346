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
from fastcep.shedding import Classes, FixedClasses, by_name

BASELINES = ("ri", "si", "rs", "ss", "pm-bl", "e-bl", "bl")
BOUNDS = (0.9, 0.7, 0.5, 0.3, 0.1)
WARM = 0.02  #: the share of a run that is left out at its beginning
SEED = 1
QUERY = fc.parse(QUERIES["Q1"], SCHEMA, name="q1")
SUMS = Classes(("a.V + b.V",), (2,), np.arange(19, dtype=np.uint8))


class Alike:
    """A detector that always sees the same: shed, or not."""

    name, statistic = "always", "mean"

    def __init__(self, sheds: bool) -> None:
        self._reading = fc.shedding.Reading(0.0, amount=0.5 if sheds else 0.0)

    def read(self, load: fc.shedding.Load) -> fc.shedding.Reading:
        return self._reading

    def note_decision(self, partial_matches: int, cost: float) -> None:
        pass

    def spec(self) -> dict[str, Any]:
        return {}

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: Any) -> None:
        pass


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
                print(index, {key: round(value, 3) if isinstance(value, float) else value
                              for key, value in rows[-1].items()})  # fmt: skip
        results[index] = {"mean_ns": mean, "matches": truth, "rows": rows}
    return results


PARTS: dict[str, Callable[..., dict[str, Any]]] = {"buys": buys, "bounds": bounds}


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
        more = {"passes": options.passes} if name == "buys" else {}
        results[name] = PARTS[name](table, **more)
    store("shedding", {"parts": results})


if __name__ == "__main__":
    main()
