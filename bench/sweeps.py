"""Measure the speed over window, keys, queries, width, type of key and selectivity; write ``results/sweeps.json``.

``python -m bench.sweeps [NAME …]`` measures the named sweeps and keeps the stored results of the others. A run is a new
process in which all points of a sweep alternate pass by pass (CPU time, Arrow in to Arrow out, generated kernels). A
result is the median over runs of the median pass. ``python -m bench.plots`` draws the sweeps.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import fastcep as fc
from bench.c_limit import CLimit
from bench.interleaved import Facts, Run, Sides, engine_side, limit_side, median_facts, median_ms, runs_of
from bench.many_queries import FILTERS, queries
from bench.queries import QUERIES, RESULTS, SAME, SCHEMA, TYPES, events, store

RUNS, PASSES = 3, 3
EVENTS = 1_000_000
KEYED = "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V * 10 < b.V"


@dataclass(frozen=True)
class Sweep:
    """Measurement of several series over the values of a parameter.

    Attributes
    ----------
    x
        Label of the parameter.
    values, series
        Values of the parameter, and names of the series.
    events
        Number of events of each pass.
    sides
        Function that returns the side of every point.
    facts
        Facts to store in addition to the time and the matches.
    relative
        Whether to store the time relative to that of the first value.
    """

    x: str
    values: tuple[float, ...]
    series: tuple[str, ...]
    events: int
    sides: Callable[[Sweep], Sides]
    facts: tuple[str, ...] = ()
    relative: bool = False

    def points(self) -> list[tuple[str, float]]:
        """Return each pair of a series and a value."""
        return [(series, value) for value in self.values for series in self.series]


def side_name(series: str, value: float) -> str:
    """Return the name of a point's side."""
    return f"{series}|{value:g}"


def windows(sweep: Sweep) -> Sides:
    """Return Q1 with windows of different lengths, in fastcep and in C."""
    program, table = CLimit(sweep.events), events(sweep.events)
    text = QUERIES["Q1"].removesuffix("8ms")
    sides = {}
    for value in sweep.values:
        sides[side_name("fastcep", value)] = engine_side(fc.parse(f"{text}{value}ms", SCHEMA, name="q1"), table)
        sides[side_name("C", value)] = limit_side(program, "Q1", int(1000 * value))
    return sides


def keyed_events(count: int, keys: int, to_key: Callable[[Any], Any] = pa.array) -> pa.Table:
    """Return events of types A, B, A, B, … with a number of keys in shuffled order, and V from 0 to 99."""
    generator = np.random.default_rng(7)
    order = generator.permutation(keys)
    position = np.arange(count)
    numbers = np.where(position % 2 == 0, order[(position // 2) % keys], order[(position // 2 * 7919 + 1) % keys])
    kinds = pa.DictionaryArray.from_arrays((position % 2).astype(np.int8), pa.array(["A", "B"]))
    return pa.table({"type": kinds, "ID": to_key(numbers), "V": generator.integers(0, 100, count), "ts": position})


def keys(sweep: Sweep) -> Sides:
    """Return a query with four live rows per key (one with the most keys); one in twenty leads to a match."""
    return {
        side_name("fastcep", value): engine_side(
            fc.parse(f"{KEYED} WITHIN {8 * int(value)} EVENTS", SCHEMA, name="keyed"),
            keyed_events(sweep.events, int(value)),
        )
        for value in sweep.values
    }


def many(sweep: Sweep) -> Sides:
    """Return engines with growing numbers of queries, each on a hundredth of the events."""
    return {
        side_name(series, value): engine_side(queries(FILTERS[series])[: int(value)])
        for series, value in sweep.points()
    }


def widths(sweep: Sweep) -> Sides:
    """Return Q1s over events with unread attributes, and QS that returns all attributes."""
    generator, table = np.random.default_rng(7), events(sweep.events)
    sides = {}
    for value in sweep.values:
        added = [f"x{number}" for number in range(int(value) - 2)]
        wide = table
        for name in added:
            wide = wide.append_column(name, pa.array(generator.integers(0, 100, sweep.events)))
        types = {kind: {**attributes, **dict.fromkeys(added, "int64")} for kind, attributes in TYPES.items()}
        schema = fc.Schema(types, time="ts", type="type", time_unit="us")
        unread = fc.parse(QUERIES["Q1s"], schema, name="q1s")
        returned = fc.with_attributes(fc.parse(QUERIES["QS"], schema, name="qs"))
        sides[side_name("Q1s, not read", value)] = engine_side(unread, wide)
        sides[side_name("QS, all returned", value)] = engine_side(returned, wide)
    return sides


def key_types(sweep: Sweep) -> Sides:
    """Return the query of `keys` with integers, strings and dictionary-encoded strings as keys."""

    def texts(numbers: Any) -> Any:
        return pa.array([f"user-{number:08d}" for number in numbers.tolist()])

    conversions: dict[str, Callable[[Any], Any]] = {
        "int64": pa.array,
        "string": texts,
        "dictionary": lambda numbers: texts(numbers).dictionary_encode(),
    }
    sides = {}
    for series, value in sweep.points():
        dtype = "int64" if series == "int64" else "string"
        types = {kind: {"ID": dtype, "V": "int64"} for kind in "AB"}
        query = fc.parse(
            f"{KEYED} WITHIN {8 * int(value)} EVENTS",
            fc.Schema(types, time="ts", type="type", time_unit="us"), name="keyed",
        )  # fmt: skip
        table = keyed_events(sweep.events, int(value), conversions[series])
        sides[side_name(series, value)] = engine_side(query, table)
    return sides


def selectivities(sweep: Sweep) -> Sides:
    """Return Q1s with an event-local condition that a given percentage of the events passes."""
    table = events(sweep.events)
    generator = np.random.default_rng(7)
    table = table.append_column("S", pa.array(generator.integers(0, 1000, sweep.events)))
    types = {kind: {**attributes, "S": "int64"} for kind, attributes in TYPES.items()}
    schema = fc.Schema(types, time="ts", type="type", time_unit="us")
    sides = {}
    for value in sweep.values:
        passing = " AND ".join(f"{x}.S < {round(10 * value)}" for x in "abc")
        text = f"PATTERN SEQ(A a, B b, C c) WHERE {SAME} AND a.V + b.V = c.V AND {passing} WITHIN 1ms"
        sides[side_name("fastcep", value)] = engine_side(fc.parse(text, schema, name="q"), table)
    return sides


SWEEPS = {
    "window": Sweep(
        "window of Q1 in ms", (1, 2, 4, 8, 16, 32, 64), ("fastcep", "C"), 200_000, windows, ("system_ms",), True
    ),
    "keys": Sweep(
        "keys", (1, 10, 100, 1e3, 1e4, 1e5, 1e6), ("fastcep",), 2 * EVENTS, keys,
        ("keys", "stored_rows", "bytes_per_key", "bytes_per_row"),
    ),
    "queries": Sweep("queries in one engine", (1, 3, 10, 30, 100), tuple(FILTERS)[:2], EVENTS, many),
    "width": Sweep(
        "attributes of each type", (2, 5, 10, 20, 50, 100, 200), ("Q1s, not read", "QS, all returned"), 200_000, widths
    ),
    "key_kind": Sweep(
        "keys", (10, 1e3, 1e5), ("int64", "string", "dictionary"), EVENTS, key_types, ("bytes_per_key",)
    ),
    "selectivity": Sweep(
        "events that pass their own condition, in %", (0.1, 1, 3, 10, 30, 100), ("fastcep",), EVENTS, selectivities
    ),
}  # fmt: skip


def figures(sweep: Sweep, runs: list[Run]) -> dict[str, list[Facts]]:
    """Return the points of each series."""
    points: dict[str, list[Facts]] = {series: [] for series in sweep.series}
    for series, value in sweep.points():
        name = side_name(series, value)
        ms, facts = median_ms(runs, name), median_facts([run[name] for run in runs])
        points[series].append(
            {"x": value, "ms": ms, "million_events_per_cpu_second": round(sweep.events / ms / 1e3, 2)}
            | {fact: facts[fact] for fact in ("matches", *sweep.facts) if fact in facts}
        )
        if sweep.relative:
            first, user_ms = points[series][0], ms - facts.get("system_ms", 0)
            points[series][-1]["growth"] = round(ms / first["ms"], 2)
            points[series][-1]["growth_without_system"] = round(user_ms / (first["ms"] - first.get("system_ms", 0)), 2)
    return points


def main() -> None:
    """Measure, print the tables, write the results."""
    path = RESULTS / "sweeps.json"
    stored: Mapping[str, Any] = json.loads(path.read_text())["sweeps"] if path.exists() else {}
    cases = {name: (lambda sweep=sweep: sweep.sides(sweep)) for name, sweep in SWEEPS.items()}
    for name, runs in runs_of("bench.sweeps", __doc__.splitlines()[0], cases, PASSES, RUNS):
        sweep = SWEEPS[name]
        series = figures(sweep, runs)
        if name == "window":
            assert [p["matches"] for p in series["fastcep"]] == [p["matches"] for p in series["C"]], "matches differ"
        stored = {**stored, name: {"x": sweep.x, "events": sweep.events, "series": series}}
        for label, points in series.items():
            print(f"{name}, {label}")
            for point in points:
                print("   ", "  ".join(f"{fact} {value:,}" for fact, value in point.items()))
        store(
            "sweeps",
            {"runs": RUNS, "passes": PASSES, "sweeps": {name: stored[name] for name in SWEEPS if name in stored}},
        )


if __name__ == "__main__":
    main()
