"""How the speed changes with window, keys, queries, width, kind of key and selectivity; write ``results/sweeps.json``.

``python -m bench.sweeps [NAME …]``; those not named keep what the file says. A run is a new process in which all points
of a sweep take turns, a pass each (CPU time, Arrow in to Arrow out, generated kernels); a figure is the median of the
runs' median passes. ``python -m bench.plots`` draws them.
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
from bench.many_queries import FILTERS, queries
from bench.queries import QUERIES, RESULTS, SAME, SCHEMA, TYPES, events, store
from bench.turns import Facts, Run, Sides, engine_side, limit_side, median_facts, median_ms, runs_of

RUNS, PASSES = 3, 3
EVENTS = 1_000_000
KEYED = "PATTERN SEQ(A a, B b) WHERE a.ID = b.ID AND a.V * 10 < b.V"


@dataclass(frozen=True)
class Sweep:
    """A sweep: what changes (``x``), over which values, in which series, and how a point's side is made.

    ``facts`` are those stored beside time and matches; ``relative`` adds the time relative to the first value.
    """

    x: str
    values: tuple[float, ...]
    series: tuple[str, ...]
    events: int
    sides: Callable[[Sweep], Sides]
    facts: tuple[str, ...] = ()
    relative: bool = False

    def points(self) -> list[tuple[str, float]]:
        """All series with all values."""
        return [(series, value) for value in self.values for series in self.series]


def side_name(series: str, value: float) -> str:
    """The name of a point's side."""
    return f"{series}|{value:g}"


def windows(sweep: Sweep) -> Sides:
    """Q1 with shorter and longer windows, here and in C."""
    program, table = CLimit(sweep.events), events(sweep.events)
    text = QUERIES["Q1"].removesuffix("8ms")
    found = {}
    for value in sweep.values:
        found[side_name("fastcep", value)] = engine_side(fc.parse(f"{text}{value}ms", SCHEMA, name="q1"), table)
        found[side_name("C", value)] = limit_side(program, "Q1", int(1000 * value))
    return found


def keyed_events(count: int, keys: int, ident: Callable[[Any], Any] = pa.array) -> pa.Table:
    """A, B, A, B, … of as many keys, in an order that jumps; V is from 0 to 99."""
    draw = np.random.default_rng(7)
    order = draw.permutation(keys)
    at = np.arange(count)
    numbers = np.where(at % 2 == 0, order[(at // 2) % keys], order[(at // 2 * 7919 + 1) % keys])
    kinds = pa.DictionaryArray.from_arrays((at % 2).astype(np.int8), pa.array(["A", "B"]))
    return pa.table({"type": kinds, "ID": ident(numbers), "V": draw.integers(0, 100, count), "ts": at})


def keys(sweep: Sweep) -> Sides:
    """Four rows of each key alive at a time (with the most keys one), of which one in twenty makes a match."""
    return {
        side_name("fastcep", value): engine_side(
            fc.parse(f"{KEYED} WITHIN {8 * int(value)} EVENTS", SCHEMA, name="keyed"),
            keyed_events(sweep.events, int(value)),
        )
        for value in sweep.values
    }


def many(sweep: Sweep) -> Sides:
    """More and more queries in one engine, on a hundredth of the events each."""
    return {
        side_name(series, value): engine_side(queries(FILTERS[series])[: int(value)])
        for series, value in sweep.points()
    }


def widths(sweep: Sweep) -> Sides:
    """Q1s over events with attributes that nobody reads, and QS that returns them all."""
    draw, table = np.random.default_rng(7), events(sweep.events)
    found = {}
    for value in sweep.values:
        more = [f"x{number}" for number in range(int(value) - 2)]
        wide = table
        for name in more:
            wide = wide.append_column(name, pa.array(draw.integers(0, 100, sweep.events)))
        types = {kind: {**of, **dict.fromkeys(more, "int64")} for kind, of in TYPES.items()}
        schema = fc.Schema(types, time="ts", type="type", time_unit="us")
        unread = fc.parse(QUERIES["Q1s"], schema, name="q1s")
        returned = fc.with_attributes(fc.parse(QUERIES["QS"], schema, name="qs"))
        found[side_name("Q1s, not read", value)] = engine_side(unread, wide)
        found[side_name("QS, all returned", value)] = engine_side(returned, wide)
    return found


def kinds_of_keys(sweep: Sweep) -> Sides:
    """The query of `keys` with numbers, texts and dictionary-coded texts as keys."""

    def texts(numbers: Any) -> Any:
        return pa.array([f"user-{number:08d}" for number in numbers.tolist()])

    makers: dict[str, Callable[[Any], Any]] = {
        "int64": pa.array,
        "string": texts,
        "dictionary": lambda numbers: texts(numbers).dictionary_encode(),
    }
    found = {}
    for series, value in sweep.points():
        dtype = "int64" if series == "int64" else "string"
        types = {kind: {"ID": dtype, "V": "int64"} for kind in "AB"}
        query = fc.parse(
            f"{KEYED} WITHIN {8 * int(value)} EVENTS",
            fc.Schema(types, time="ts", type="type", time_unit="us"), name="keyed",
        )  # fmt: skip
        table = keyed_events(sweep.events, int(value), makers[series])
        found[side_name(series, value)] = engine_side(query, table)
    return found


def selectivities(sweep: Sweep) -> Sides:
    """Q1s over the events that pass a condition on themselves, so many per cent."""
    table = events(sweep.events)
    draw = np.random.default_rng(7)
    table = table.append_column("S", pa.array(draw.integers(0, 1000, sweep.events)))
    types = {kind: {**of, "S": "int64"} for kind, of in TYPES.items()}
    schema = fc.Schema(types, time="ts", type="type", time_unit="us")
    found = {}
    for value in sweep.values:
        passing = " AND ".join(f"{x}.S < {round(10 * value)}" for x in "abc")
        text = f"PATTERN SEQ(A a, B b, C c) WHERE {SAME} AND a.V + b.V = c.V AND {passing} WITHIN 1ms"
        found[side_name("fastcep", value)] = engine_side(fc.parse(text, schema, name="q"), table)
    return found


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
        "keys", (10, 1e3, 1e5), ("int64", "string", "dictionary"), EVENTS, kinds_of_keys, ("bytes_per_key",)
    ),
    "selectivity": Sweep(
        "events that pass their own condition, in %", (0.1, 1, 3, 10, 30, 100), ("fastcep",), EVENTS, selectivities
    ),
}  # fmt: skip


def figures(sweep: Sweep, runs: list[Run]) -> dict[str, list[Facts]]:
    """Per series, a point for each value."""
    found: dict[str, list[Facts]] = {series: [] for series in sweep.series}
    for series, value in sweep.points():
        name = side_name(series, value)
        ms, facts = median_ms(runs, name), median_facts([run[name] for run in runs])
        found[series].append(
            {"x": value, "ms": ms, "million_events_per_cpu_second": round(sweep.events / ms / 1e3, 2)}
            | {fact: facts[fact] for fact in ("matches", *sweep.facts) if fact in facts}
        )
        if sweep.relative:
            first, own = found[series][0], ms - facts.get("system_ms", 0)
            found[series][-1]["growth"] = round(ms / first["ms"], 2)
            found[series][-1]["growth_without_system"] = round(own / (first["ms"] - first.get("system_ms", 0)), 2)
    return found


def main() -> None:
    """Run, print the tables, write the results."""
    path = RESULTS / "sweeps.json"
    known: Mapping[str, Any] = json.loads(path.read_text())["sweeps"] if path.exists() else {}
    cases = {name: (lambda sweep=sweep: sweep.sides(sweep)) for name, sweep in SWEEPS.items()}
    for name, runs in runs_of("bench.sweeps", __doc__.splitlines()[0], cases, PASSES, RUNS):
        sweep = SWEEPS[name]
        series = figures(sweep, runs)
        if name == "window":
            assert [p["matches"] for p in series["fastcep"]] == [p["matches"] for p in series["C"]], "matches differ"
        known = {**known, name: {"x": sweep.x, "events": sweep.events, "series": series}}
        for label, points in series.items():
            print(f"{name}, {label}")
            for point in points:
                print("   ", "  ".join(f"{fact} {value:,}" for fact, value in point.items()))
        store(
            "sweeps",
            {"runs": RUNS, "passes": PASSES, "sweeps": {name: known[name] for name in SWEEPS if name in known}},
        )


if __name__ == "__main__":
    main()
