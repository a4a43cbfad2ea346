"""The hybrid paper's queries and streams."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq

import fastcep as fc
from bench.queries import SAME, SCHEMA
from fastcep.datasets import bike_chains, ds1, ds2, path, task_lives

__all__ = [
    "CITIBIKE",
    "EXAMPLES",
    "LEARNED",
    "SEED",
    "b_often",
    "bayarea",
    "chains",
    "changing",
    "citibike",
    "cluster",
    "hot_paths",
    "of_c",
    "q1",
    "q2",
    "q3",
    "q4",
    "seconds",
    "stream",
    "tasks",
]  # fmt: skip

ROOT = Path(__file__).resolve().parents[3]
EXAMPLES = ROOT / "examples" / "papers"
#: Data that do not ship: New Jersey's trips from December 2018 to March 2019.
CITIBIKE = ROOT / os.environ.get("FASTCEP_SHARED", "../shared") / "data" / "citibike"
_MONTHS = ("201812", "201901", "201902", "201903")
#: Of what is judged, and of what is learned from.
SEED, LEARNED = 7, 8
#: By so much real trips are faster here than they were, and those that are fitted to them: an hour is a day, five days.
FASTER, CHAINS_FASTER = 24, 120


@cache
def q1(within: str = "8ms") -> fc.Query:
    """Q1; the paper's window has 8 ms."""
    return fc.parse(f"PATTERN SEQ(A a, B b, C c) WHERE {SAME} AND a.V + b.V = c.V WITHIN {within}", SCHEMA, name="q1")


@cache
def q2(elements: int) -> fc.Query:
    """Q2 with so many elements of the Kleene closure, within 8 ms."""
    return fc.parse(
        f"PATTERN SEQ(A a, A{{{elements}}} b[], B c, C d) WHERE a.ID = b[i].ID AND a.ID = c.ID "
        "AND a.ID = d.ID AND b[i].V = a.V AND a.V + c.V = d.V WITHIN 8ms",
        SCHEMA, name="q2",
    )  # fmt: skip


@cache
def q3() -> fc.Query:
    """Q3, over DS2."""
    return fc.parse_document((EXAMPLES / "hybrid_q3.cep").read_text(encoding="utf-8")).queries[0]


@cache
def q4() -> fc.Query:
    """Q4, within 1 ms: a C after an A without a B between them."""
    return fc.parse(f"PATTERN {_NEGATION} WITHIN 1ms", SCHEMA, name="q4")


_NEGATION = "SEQ(A a, NEG B b, C c) WHERE a.ID = b.ID AND a.ID = c.ID"


@cache
def hot_paths(least: int = 1, ends: tuple[int, ...] = (), users: bool = False) -> fc.Query:
    """Hot paths with at least so many trips before the last one: to these stations or any; by users' types."""
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
    """The seven steps of a task that is evicted twice and fails."""
    return fc.parse_document((EXAMPLES / "cluster.cep").read_text(encoding="utf-8")).queries[0]


def stream(events: int, seed: int = SEED) -> pa.Table:
    """DS1 with V of C from 2 to 10."""
    return ds1(events, seed, c_values=(2, 10))


def of_c(events: int, most: int, seed: int = SEED) -> pa.Table:
    """DS1 with V of C from 2 to a largest value."""
    return ds1(events, seed, c_values=(2, most))


def seconds(events: int, seed: int = SEED) -> pa.Table:
    """DS2."""
    return ds2(events, seed)


def changing(events: int, seed: int = SEED) -> pa.Table:
    """DS1 where V of C is 2 to 10 in the first third and 12 to 20 behind it; all else goes on as it was."""
    before, after = (ds1(events, seed, c_values=values) for values in ((2, 10), (12, 20)))
    return pa.concat_tables([before.slice(0, events // 3), after.slice(events // 3)]).combine_chunks()


def b_often(events: int, share: float, seed: int = SEED) -> pa.Table:
    """DS1 where B has a share of the events, and the other types the same share each."""
    table = ds1(events, seed)
    draws = np.random.default_rng(seed).spawn(2)  # DS1 itself spawns one for V of C
    others = np.array(["A", "C", "D"])[draws[1].integers(0, 3, events)]
    names = np.where(draws[0].random(events) < share, "B", others)
    return table.set_column(0, "type", pa.array(names.astype(object), pa.string()))


def bayarea(events: int, *, learned: bool = False, faster: int = 1) -> pa.Table:
    """Trips of 2014: the first ones of the second half, or as many to learn from, the last ones of the first half."""
    return _half(pq.read_table(path("bayarea_2014")), events, learned, faster)


def citibike(events: int, *, learned: bool = False, faster: int = 1) -> pa.Table:
    """Trips of four months, as `bayarea` has those of a year."""
    return _half(_citibike(), events, learned, faster)


def chains(events: int, seed: int = SEED) -> pa.Table:
    """Trips fitted to the Bay Area's."""
    return bike_chains(events, seed, compress=CHAINS_FASTER)


def tasks(events: int, seed: int = SEED) -> pa.Table:
    """Life cycles fitted to the Google trace."""
    return task_lives(events, seed)


@cache
def _citibike() -> pa.Table:
    """The trips by their begin, with the columns of ``bayarea_2014``, and the user."""
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


def _half(table: pa.Table, events: int, learned: bool, faster: int) -> pa.Table:
    middle = len(table) // 2
    half = table.slice(max(0, middle - events), min(events, middle)) if learned else table.slice(middle, events)
    times = half["start_date"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
    begin = int(times[0])
    times = begin + (times - begin) // faster
    return half.set_column(0, "start_date", pa.array(times).cast(pa.timestamp("us"))).combine_chunks()
