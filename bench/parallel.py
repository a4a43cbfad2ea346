"""Measure `fastcep.parallel.ParallelEngine` against one engine, and the splitter by itself; ``results/parallel.json``.

*Speed-up*: two queries without a key whose partial matches take some 20 and 3 us for each event, in one engine, and in
one and two instances, as processes and as threads; runs alternate. *Splitter*: conversion, cutting and packing of
events, without instances, over the number of windows of 10,000 events that are open at a time (as in Fig. 8(f) of the
paper on parallel operators). *Light query*: one that takes less than a microsecond, for which one engine is the better
choice.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from bench.queries import RESULTS, store
from bench.section import Section, wrapped
from fastcep.engine.order import check_order
from fastcep.events import EventBatch, StringTable
from fastcep.parallel import ParallelEngine
from fastcep.parallel.channel import packed
from fastcep.parallel.plain_events import plain_events
from fastcep.parallel.splitter import Splitter
from fastcep.plan import make_plan
from fastcep.plan.slicing import Context, slicing_of
from fastcep.query.plain_schema import TIME, columns_read

SCHEMA = fc.Schema({kind: {"k": "int64", "v": "float64"} for kind in "ABC"}, time="ts", type="type", time_unit="us")
HEAVY, MEDIUM = (
    fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE a.v < b.v AND a.v * b.v * c.v > 0.97 WITHIN {events} EVENTS", SCHEMA,
             name=name)
    for name, events in (("heavy", 900), ("medium", 300))
)  # fmt: skip
LIGHT = fc.parse("PATTERN SEQ(A a, B b, C c) WHERE [k] WITHIN 1ms", SCHEMA, name="light")
BATCH, WINDOW = 16_384, 10_000
SECTION = Section(
    Path(__file__).resolve().parent.parent / "docs/parallel.md", "<!-- results of bench.parallel -->",
    "<!-- end of the results -->",
)  # fmt: skip
WINDOWS = (1, 10, 100, 1_000, 10_000)


def stream(events: int, seed: int = 1) -> pa.Table:
    """Draw events of three types."""
    random = np.random.default_rng(seed)
    return pa.table({
        "ts": np.cumsum(random.integers(1, 4, events)), "type": random.choice(["A", "B", "C"], events),
        "k": random.integers(0, 2_000, events), "v": random.random(events),
    })  # fmt: skip


def timed(make: Callable[[], Any], table: pa.Table) -> tuple[float, float, int]:
    """Return the wall time and this process's CPU time of a run, in seconds, and the number of matches."""
    with make() as engine:
        engine.process(table.slice(0, 0))
        engine.process(table.slice(0, BATCH))  # instances have started when they have answered it
        while isinstance(engine, ParallelEngine) and engine.metrics()["waiting_events"]:
            engine.poll("1s")
        wall, cpu = time.perf_counter(), time.process_time()
        matches = sum(
            len(engine.process(table.slice(at, BATCH)).to_arrow()) for at in range(BATCH, len(table), BATCH)
        )
        matches += len(engine.flush().to_arrow())
        return time.perf_counter() - wall, time.process_time() - cpu, matches


class _One:
    """One engine as a context manager."""

    def __init__(self, query: fc.Query) -> None:
        self.engine = fc.Engine(query)
        self.engine.compile("5min")

    def __enter__(self) -> fc.Engine:
        return self.engine

    def __exit__(self, *_: object) -> None:
        pass


def speed(query: fc.Query, events: int, passes: int) -> dict[str, Any]:
    """Measure one engine and instances, alternating."""
    table = stream(events)
    ways: dict[str, Callable[[], Any]] = {
        "engine": lambda: _One(query),
        "processes=1": lambda: ParallelEngine(query, instances=1),
        "processes=2": lambda: ParallelEngine(query, instances=2),
        "threads=2": lambda: ParallelEngine(query, instances=2, workers="threads"),
    }
    runs: dict[str, list[tuple[float, float, int]]] = {name: [] for name in ways}
    for _ in range(passes):
        for name, make in ways.items():
            runs[name].append(timed(make, table))
    counts = {run[2] for of_way in runs.values() for run in of_way}
    assert len(counts) == 1 or min(counts) >= 0, counts
    rows = {}
    for name, of_way in runs.items():
        wall, cpu = (statistics.median(run[number] for run in of_way) for number in (0, 1))
        rows[name] = {
            "seconds": round(wall, 3), "events_per_second": round((events - BATCH) / wall),
            "caller_cpu": round(cpu, 3),
        }  # fmt: skip
    one = rows["engine"]["seconds"]
    for row in rows.values():
        row["faster"] = round(one / row["seconds"], 2)
    result = {"events": events, "us_per_event": round(one / (events - BATCH) * 1e6, 2), "ways": rows}
    print(query.name, result)
    return result


def splitter(events: int) -> dict[str, Any]:
    """Measure the work of the calling process by itself: conversion, slices, packing; events per second."""
    table, rows = stream(events), {}
    for windows in WINDOWS:
        query = fc.parse(
            f"PATTERN SEQ(A a, B b) WINDOW EVERY {WINDOW // windows} EVENTS CLOSE AFTER {WINDOW} EVENTS", SCHEMA
        )
        context = slicing_of(make_plan(query)).time
        assert isinstance(context, Context)
        cut, columns, parts = Splitter(context, 16_384, 500_000), columns_read(query), 0
        begin, cutting = time.process_time(), 0.0
        for at in range(0, events, BATCH):
            strings = StringTable()
            batch = EventBatch.from_data(SCHEMA, table.slice(at, BATCH), strings)
            check_order(batch, None, None, "batch", 0)
            plain = plain_events(batch, strings, columns)
            start = time.process_time()
            cut.split(plain[TIME].to_numpy())
            cutting += time.process_time() - start
            parts += packed([plain]).size
        seconds = time.process_time() - begin
        rows[str(windows)] = {
            "events_per_second": round(events / seconds), "cutting": round(cutting / seconds, 4),
            "bytes_per_event": round(parts / events, 1), "overlap": round(cut.fed / events - 1, 3),
        }  # fmt: skip
        print("splitter", windows, rows[str(windows)])
    return rows


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    environment, events = results["environment"], results["heavy"]["events"]
    lines = [
        f"{environment['machine']}, two shared cores, Python {environment['python']}, {environment['date']}; "
        f"{events:,} events, medians of {results['passes']} runs. *CPU of the caller*: what checking, cutting and "
        "merging take, with processes.", "",
        "| | events/s | faster than one engine | CPU of the caller |", "|---|---:|---:|---:|",
    ]  # fmt: skip
    for name in ("heavy", "medium", "light"):
        of_query = results[name]
        lines.append(f"| **{of_query['us_per_event']:.2g} us for an event** | | | |")
        for way, row in of_query["ways"].items():
            share = f"{row['caller_cpu'] / row['seconds']:.1%}" if way.startswith("processes") else ""
            lines.append(f"| `{way}` | {row['events_per_second']:,} | {row['faster']:.2f} | {share} |")
    rates = [row["events_per_second"] for row in results["splitter"].values()]
    lines += [
        "",
        "The caller's work by itself (checking, cutting and packing, without instances, for a query that reads no "
        f"attributes) takes {min(rates) / 1e6:.0f} to {max(rates) / 1e6:.0f} million events per second with 1 to "
        f"10,000 windows of {WINDOW:,} events open at a time; the paper reports 0.38 million, falling in proportion to "
        "the number of windows.",
    ]  # fmt: skip
    return wrapped(["\n".join(lines)])


def main() -> None:
    """Measure, print, write the results and the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--page", action="store_true", help="only write the stored results into the page")
    options = parser.parse_args()
    if options.page:
        SECTION.write(page(json.loads((RESULTS / "parallel.json").read_text())))
        return
    before = os.getloadavg()[0]
    results = {
        "splitter": splitter(options.events),
        "heavy": speed(HEAVY, options.events, options.passes),
        "medium": speed(MEDIUM, options.events, options.passes),
        "light": speed(LIGHT, options.events, options.passes),
    }
    store("parallel", {"passes": options.passes, "load": [round(before, 2), round(os.getloadavg()[0], 2)], **results})
    SECTION.write(page(json.loads((RESULTS / "parallel.json").read_text())))


if __name__ == "__main__":
    main()
