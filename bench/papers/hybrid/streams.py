"""Queries and streams of the hybrid paper."""

from __future__ import annotations

from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

import fastcep as fc
from bench.papers.data import EXAMPLES, SEED, SHARED
from bench.queries import SAME, SCHEMA
from fastcep.datasets import bike_chains, ds1, ds2, path, task_lives

__all__ = [
    "CITIBIKE",
    "bayarea",
    "chains",
    "changing",
    "citibike",
    "cluster",
    "ds1_with_b_share",
    "ds1_with_c_below",
    "hot_paths",
    "q1",
    "q2",
    "q3",
    "q3_stream",
    "q4",
    "stream",
    "tasks",
]  # fmt: skip

#: Data outside the repository: New Jersey's trips from December 2018 to March 2019.
CITIBIKE = SHARED / "citibike"
_MONTHS = ("201812", "201901", "201902", "201903")
#: Time compression of the real trips (an hour holds a day) and of the generated ones (an hour holds five days).
SPEED_UP, CHAINS_SPEED_UP = 24, 120


@cache
def q1(within: str = "8ms") -> fc.Query:
    """Return Q1, by default with the paper's window of 8 ms."""
    return fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE {SAME} AND a.V + b.V = c.V WITHIN {within}", SCHEMA, name="q1")


@cache
def q2(elements: int) -> fc.Query:
    """Return Q2 within 8 ms, with a fixed number of elements of the Kleene closure."""
    return fc.parse(
        f"PATTERN SEQ(A a, A{{{elements}}} b[], B c, C d) WHERE a.ID = b[i].ID AND a.ID = c.ID "
        "AND a.ID = d.ID AND b[i].V = a.V AND a.V + c.V = d.V WITHIN 8ms",
        SCHEMA, name="q2",
    )  # fmt: skip


@cache
def q3() -> fc.Query:
    """Return Q3, which runs over DS2."""
    return fc.parse_document((EXAMPLES / "hybrid_q3.cep").read_text(encoding="utf-8")).queries[0]


@cache
def q4() -> fc.Query:
    """Return Q4 within 1 ms: a C after an A without a B in between."""
    return fc.parse(f"PATTERN {_NEGATION} WITHIN 1ms", SCHEMA, name="q4")


_NEGATION = "SEQ(A a, NEG B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID"


@cache
def hot_paths(least: int = 1, ends: tuple[int, ...] = (), users: bool = False) -> fc.Query:
    """Return the query for hot paths.

    Parameters
    ----------
    least
        Smallest number of trips before the last one.
    ends
        Stations where the last trip may end; empty: any.
    users
        Whether types of users, rather than ``BikeTrip``, are the event types.
    """
    text = (EXAMPLES / "hot_paths.cep").read_text(encoding="utf-8").replace("BikeTrip+", f"BikeTrip{{{least},}}")
    text = text.replace(" AND b.end IN {7, 8, 9}", f" AND b.end IN {{{', '.join(map(str, ends))}}}" if ends else "")
    if users:
        event = next(line for line in text.splitlines() if line.startswith("EVENT BikeTrip"))
        both = "\n".join(event.replace("BikeTrip", kind) for kind in ("Subscriber", "Customer"))
        text = text.replace(event, both).replace("TIME 'start_date'", "TIME 'start_date' TYPE 'user'")
        text = text.replace("(BikeTrip{", "((Subscriber|Customer){").replace("BikeTrip b", "(Subscriber|Customer) b")
    return fc.parse_document(text).queries[0]


@cache
def cluster() -> fc.Query:
    """Return the query for the seven steps of a task that is evicted twice and fails."""
    return fc.parse_document((EXAMPLES / "cluster.cep").read_text(encoding="utf-8")).queries[0]


def stream(events: int, seed: int = SEED) -> pa.Table:
    """Generate DS1 with V of C from 2 to 10."""
    return ds1(events, seed, c_values=(2, 10))


def ds1_with_c_below(events: int, largest: int, seed: int = SEED) -> pa.Table:
    """Generate DS1 with V of C from 2 to a largest value."""
    return ds1(events, seed, c_values=(2, largest))


def q3_stream(events: int, seed: int = SEED) -> pa.Table:
    """Generate DS2."""
    return ds2(events, seed)


def changing(events: int, seed: int = SEED) -> pa.Table:
    """Generate DS1 with V of C from 2 to 10 in the first third and from 12 to 20 after it."""
    before, after = (ds1(events, seed, c_values=values) for values in ((2, 10), (12, 20)))
    return pa.concat_tables([before.slice(0, events // 3), after.slice(events // 3)]).combine_chunks()


def ds1_with_b_share(events: int, share: float, seed: int = SEED) -> pa.Table:
    """Generate DS1 with a given share of events of type B; the other types have equal shares."""
    table = ds1(events, seed)
    generators = np.random.default_rng(seed).spawn(2)  # DS1 itself spawns one for V of C
    others = np.array(["A", "C", "D"])[generators[1].integers(0, 3, events)]
    names = np.where(generators[0].random(events) < share, "B", others)
    return table.set_column(0, "type", pa.array(names.astype(object), pa.string()))


def bayarea(events: int, *, history: bool = False, speed_up: int = 1) -> pa.Table:
    """Return Bay Area trips of 2014: the first of the second half or, as history, the last of the first half."""
    return _half(pq.read_table(path("bayarea_2014")), events, history, speed_up)


def citibike(events: int, *, history: bool = False, speed_up: int = 1) -> pa.Table:
    """Return trips of Citi Bike in New Jersey, split as those of `bayarea`."""
    return _half(_citibike(), events, history, speed_up)


def chains(events: int, seed: int = SEED) -> pa.Table:
    """Generate trips from a model fitted to the Bay Area's."""
    return bike_chains(events, seed, compress=CHAINS_SPEED_UP)


def tasks(events: int, seed: int = SEED) -> pa.Table:
    """Generate life cycles of tasks from a model fitted to the Google trace."""
    return task_lives(events, seed)


@cache
def _citibike() -> pa.Table:
    """Read the trips, ordered by their start, with the columns of ``bayarea_2014`` and the type of user."""
    names = {
        "starttime": "start_date", "start station id": "start_terminal", "end station id": "end_terminal",
        "bikeid": "bike_id", "usertype": "user",
    }  # fmt: skip
    types = [pa.timestamp("us"), pa.int64(), pa.int64(), pa.int64(), pa.string()]
    options = pv.ConvertOptions(column_types=dict(zip(names, types, strict=True)), include_columns=list(names))
    files = [CITIBIKE / f"JC-{month}-citibike-tripdata.csv.gz" for month in _MONTHS]
    months = [pv.read_csv(file, convert_options=options) for file in files]
    table = pa.concat_tables(months).rename_columns(list(names.values()))
    order = np.argsort(table["start_date"].cast(pa.int64()).to_numpy(), kind="stable")
    return table.take(pa.array(order)).combine_chunks()


def _half(table: pa.Table, events: int, history: bool, speed_up: int) -> pa.Table:
    middle = len(table) // 2
    half = table.slice(max(0, middle - events), min(events, middle)) if history else table.slice(middle, events)
    times = half["start_date"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    start = int(times[0])
    times = start + (times - start) // speed_up
    return half.set_column(0, "start_date", pa.array(times).cast(pa.timestamp("us"))).combine_chunks()
