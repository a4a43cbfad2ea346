"""The states of the paper's queries Qpm1 to Qpm3 on real data: sizes and utilities, and the time that they need.

The data is read from the folder that ``FASTCEP_SHARED`` names (``../shared``); the results are stored.
"""

from __future__ import annotations

import os
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
from fastcep.migration import States, simulate
from fastcep.migration.states import Ints

__all__ = ["SOURCES", "KeyStates", "Source", "key_states", "real_data"]

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / os.environ.get("FASTCEP_SHARED", "../shared") / "data"
SEEDS = tuple(range(10))

# As the sizes "trips": a key and the number of events; of each event the time and three attributes.
_HEADER, _EVENT = 16, 32
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
    events
        int64[n]: number of events that the state of each key contains, each of which begins a partial match.
    matches
        int64[n]: number of later matches that began before the cut. They are lost if the state is.
    """

    events: Ints
    matches: Ints

    @property
    def size(self) -> Ints:
        """Size of each state in bytes; int64[n]."""
        return _HEADER + _EVENT * self.events


def key_states(query: fc.Query, table: pa.Table, key: str, cut: int) -> KeyStates:
    """Run a query; return its states by key after a number of events, and the matches that need them later."""
    engine = fc.Engine(query, store="rows")
    for begin in range(0, cut, _BATCH):
        engine.process(table.slice(begin, min(_BATCH, cut - begin)))
    codes = table[key].combine_chunks().dictionary_encode().indices.to_numpy()
    # The strategy is contiguity: a partial match has all events of its key since its start.
    starts = np.unique(engine.partial_matches()["started"].to_numpy())
    keys, events = np.unique(codes[starts], return_counts=True)
    matches = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    for begin in range(cut, table.num_rows, _BATCH):
        found = engine.process(table.slice(begin, _BATCH)).to_arrow()
        began = pc.list_element(found["a"], 0).to_numpy()
        np.add.at(matches, codes[began[began < cut]], 1)
    return KeyStates(events.astype(np.int64), matches[keys])


def real_data() -> list[dict[str, Any]]:
    """Compute the time for 80 % of the utility with the states of each query, by descending density and at random."""
    results = []
    for name, source in SOURCES.items():
        table = source.table()
        query = fc.parse_file(ROOT / "examples" / "papers" / f"{source.query}.cep").queries[0]
        cut = table.num_rows // 2
        states = key_states(query, table, source.key, cut)
        results.append({
            "query": name, "data": source.data, "events": table.num_rows, "cut": cut, "states": len(states.size),
            "bytes": int(states.size.sum()), "smallest": int(states.size.min()),
            "median": float(np.median(states.size)), "largest": int(states.size.max()), "shares": _shares(states),
        })  # fmt: skip
    return results


def _shares(states: KeyStates) -> list[dict[str, Any]]:
    """Return the shares of the full time after which 80 % of the utility has arrived, by utility and method."""
    rows = []
    for utility in ("matches", "count", "uniform", "skew10", "skew50"):
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
    if name == "count":
        return states.events
    drawn = np.random.default_rng(seed).uniform(0, 100, len(states.size))
    limit = {"uniform": 100.0, "skew10": 90.0, "skew50": 50.0}[name]
    return np.where(drawn > limit, 10 * drawn, drawn)
