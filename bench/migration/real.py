"""The states of the paper's queries Qpm1 to Qpm3 on real data: sizes and utilities, and the time that they need.

The data is read from the folder that ``FASTCEP_SHARED`` names (``../shared``); the results are stored.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import fastcep as fc
from fastcep.datasets import bike_trips, bus_reports
from fastcep.migration import States, partition, simulate
from fastcep.migration.states import Floats, Ints

__all__ = ["SOURCES", "KeyStates", "Source", "key_states", "real_data"]

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / os.environ.get("FASTCEP_SHARED", "../shared") / "data"
SEEDS = tuple(range(10))

_BATCH = 500  # events; a match has a list of all its events


@dataclass(frozen=True)
class Source:
    """A query and its data; states are cut after half of the events, one for each key."""

    query: str
    key: str
    read: Callable[[Path], pa.Table]
    file: str
    data: str

    def table(self) -> pa.Table:
        """Read the data."""
        return self.read(DATA / self.file)


SOURCES = {
    "Qpm1": Source(
        "migration_q1", "bike", bike_trips, "citibike/JC-201805-citibike-tripdata.csv.gz",
        "Citi Bike, Jersey City, May 2018",
    ),
    "Qpm2": Source(
        "migration_q2", "operator", bus_reports, "dublinbus/siri_20121130_0000_0040_10k.csv.gz",
        "buses in Dublin, 2012-11-30",
    ),
    "Qpm3": Source(
        "migration_q3", "vehicle", bus_reports, "dublinbus/siri_20121130_0000_0040_10k.csv.gz",
        "buses in Dublin, 2012-11-30",
    ),
}  # fmt: skip


@dataclass(frozen=True)
class KeyStates:
    """States by key, at one event of a stream.

    Attributes
    ----------
    size
        int64[n]: bytes of each state as sent.
    events
        int64[n]: number of events that begin a partial match.
    matches
        int64[n]: number of later matches that began before the cut. They are lost if the state is.
    shedder
        float64[n]: utility of each state for a shedder; None without a model.
    """

    size: Ints
    events: Ints
    matches: Ints
    shedder: Floats | None = None


def key_states(query: fc.Query, table: pa.Table, key: str, cut: int, model: Any = None) -> KeyStates:
    """Run a query; return its states by key after a number of events, and the matches that need them later."""
    engine = _after(fc.Engine(query, store="rows"), table, cut)
    rows: list[pa.Table] = []

    def ones(live: pa.Table) -> Any:
        rows.append(live)
        return np.ones(live.num_rows)

    size = partition(engine, by="key", utility=ones).states.size
    codes = table[key].combine_chunks().dictionary_encode().indices.to_numpy()
    starts, first = np.unique(rows[0]["started"].to_numpy(), return_index=True)
    owner = rows[0]["state"].to_numpy()[first]
    state_of = np.full(int(codes.max(initial=0)) + 1, -1)
    state_of[codes[starts]] = owner
    matches = np.zeros(len(size), np.int64)
    for begin in range(cut, table.num_rows, _BATCH):
        found = engine.process(table.slice(begin, _BATCH)).to_arrow()
        began = pc.list_element(found["a"], 0).to_numpy()
        np.add.at(matches, state_of[codes[began[began < cut]]], 1)
    shedder = None
    if model is not None:
        shed = _after(fc.Engine(query, store="rows", shedder="hybrid", model=model, latency_bound="1h"), table, cut)
        shedder = partition(shed, by="key", utility="shedder").states.utility
    return KeyStates(size, np.bincount(owner, minlength=len(size)).astype(np.int64), matches, shedder)


def _after(engine: fc.Engine, table: pa.Table, cut: int) -> fc.Engine:
    """Return the engine after it has processed the events before a cut."""
    for begin in range(0, cut, _BATCH):
        engine.process(table.slice(begin, min(_BATCH, cut - begin)))
    return engine


def real_data() -> list[dict[str, Any]]:
    """Compute the time for 80 % of the utility with the states of each query, by descending density and at random."""
    results = []
    for name, source in SOURCES.items():
        table = source.table()
        query = fc.parse_file(ROOT / "examples" / "papers" / f"{source.query}.cep").queries[0]
        cut = table.num_rows // 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # half of the stream is too short to validate the model
            model = fc.fit(query, table.slice(0, cut), kind="hybrid")
        states = key_states(query, table, source.key, cut, model)
        results.append({
            "query": name, "data": source.data, "events": table.num_rows, "cut": cut, "states": len(states.size),
            "bytes": int(states.size.sum()), "smallest": int(states.size.min()),
            "median": float(np.median(states.size)), "largest": int(states.size.max()), "shares": _shares(states),
        })  # fmt: skip
    return results


def _shares(states: KeyStates) -> list[dict[str, Any]]:
    """Return the shares of the full time after which 80 % of the utility has arrived, by utility and method."""
    rows = []
    for utility in ("matches", "hybrid", "count", "uniform", "skew10", "skew50"):
        shares: dict[str, list[float]] = {method: [] for method in ("greedy", "random")}
        for seed in SEEDS:
            drawn = States(states.size, _utility(states, utility, seed))
            for method, of_method in shares.items():
                found = simulate(drawn, method, bandwidth=100_000, seed=seed).time_share(0.8)
                assert found is not None
                of_method.append(found)
        rows.append({"utility": utility} | {method: median(of_method) for method, of_method in shares.items()})
    return rows


def _utility(states: KeyStates, name: str, seed: int) -> Any:
    if name == "matches":
        return states.matches
    if name == "hybrid":
        return states.shedder
    if name == "count":
        return states.events
    drawn = np.random.default_rng(seed).uniform(0, 100, len(states.size))
    limit = {"uniform": 100.0, "skew10": 90.0, "skew50": 50.0}[name]
    return np.where(drawn > limit, 10 * drawn, drawn)
