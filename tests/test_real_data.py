"""Known results on real streams: bike trips, cluster tasks, and the papers' queries as they ship."""

from __future__ import annotations

import os
from collections import defaultdict
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from support import harness

import fastcep as fc
from fastcep import datasets
from fastcep.plan import make_plan

ROOT = Path(__file__).resolve().parents[1]
SHARED = ROOT / os.environ.get("FASTCEP_SHARED", "../shared")
PAPERS = sorted((ROOT / "examples" / "papers").glob("*.cep"))
HOUR = 3_600 * 10**9
HOT_PATHS = (
    "PATTERN SEQ(BikeTrip{%d,} a[], BikeTrip b) "
    "WHERE a[i+1].bike = a[i].bike AND a[i+1].start = a[i].end AND a[last].bike = b.bike WITHIN 1h"
)
TRIP = {"bike": "int64", "start": "int64", "end": "int64"}


# ---------------------------------------------------------------------- bikes


@pytest.fixture(scope="module")
def bayarea() -> pa.Table:
    return pq.read_table(datasets.path("bayarea_2014"))


@pytest.mark.parametrize(
    ("least", "matches"), [(1, 118_165), (2, 18_638), (3, 2_035), (4, 160), (5, 10), (6, 2)]
)
def test_bayarea_hot_paths(bayarea: pa.Table, least: int, matches: int) -> None:
    schema = fc.Schema(
        {"BikeTrip": TRIP},
        time="start_date",
        sources={"BikeTrip": {"bike": "bike_id", "start": "start_terminal", "end": "end_terminal"}},
    )
    engine = fc.Engine(fc.parse(HOT_PATHS % least, schema))
    found = engine.process(bayarea)
    assert len(found) == matches
    lengths = pc.list_value_length(found.to_arrow()["a"])
    assert pc.min(lengths).as_py() >= least


def chains(table: pa.Table, least: int) -> set[tuple[tuple[int, ...], int]]:
    """Return all hot paths by bike, computed from the words of the query, without the engine."""
    trips: defaultdict[int, list[tuple[int, int, int, int]]] = defaultdict(list)
    columns = [table[name].to_pylist() for name in ("bike", "time", "start", "end")]
    for seq, (bike, time, start, end) in enumerate(zip(*columns, strict=True)):
        trips[bike].append((seq, time, start, end))
    found: set[tuple[tuple[int, ...], int]] = set()
    for own in trips.values():
        for first in range(len(own)):
            begin = own[first][1]
            open_chains = [[first]]
            while open_chains:
                chain = open_chains.pop()
                for place in range(chain[-1] + 1, len(own)):
                    seq, time, start, _ = own[place]
                    if time - begin > HOUR:
                        break
                    if len(chain) >= least:
                        found.add((tuple(own[k][0] for k in chain), seq))
                    if start == own[chain[-1]][3]:
                        open_chains.append([*chain, place])
    return found


@pytest.mark.shared
@pytest.mark.parametrize("month", ["201805", "201812"])
def test_citibike_hot_paths(month: str) -> None:
    path = SHARED / "data" / "citibike" / f"JC-{month}-citibike-tripdata.csv.gz"
    if not path.exists():
        pytest.skip(f"no {path.name} in the folder that FASTCEP_SHARED names")
    raw = pv.read_csv(path)
    table = pa.table(
        {
            "bike": raw["bikeid"].cast(pa.int64()),
            "start": raw["start station id"].cast(pa.int64()),
            "end": raw["end station id"].cast(pa.int64()),
            "time": raw["starttime"].cast(pa.timestamp("ns")).cast(pa.int64()),
        }
    )
    table = table.append_column("row", pa.array(range(len(table))))
    table = table.sort_by([("time", "ascending"), ("row", "ascending")])
    schema = fc.Schema({"BikeTrip": TRIP}, time="at")
    for least in (1, 2):
        found = fc.Engine(fc.parse(HOT_PATHS % least, schema)).process(table.rename_columns({"time": "at"})).to_arrow()
        rows = [(tuple(a), b) for a, b in zip(found["a"].to_pylist(), found["b"].to_pylist(), strict=True)]
        expected = chains(table, least)
        assert len(rows) == len(set(rows)) == len(expected) > 0
        assert set(rows) == expected


# --------------------------------------------------------------------- cluster

STEPS = ["Su a", "Sc b", "Ev c", "Sc d", "Ev e", "Sc f", "Fa g"]
MACHINES = {
    3: "b.machine = c.machine",
    4: "b.machine != d.machine",
    5: "d.machine = e.machine",
    6: "d.machine != f.machine",
    7: "f.machine = g.machine",
}


@pytest.fixture(scope="module")
def google() -> pa.Table:
    return pq.read_table(datasets.path("google_2011"))


@pytest.mark.parametrize(
    ("steps", "matches"), [(1, 57_152), (2, 459_058), (3, 578), (4, 507), (5, 21), (6, 18), (7, 0)]
)
def test_google_prefixes(google: pa.Table, steps: int, matches: int) -> None:
    schema = fc.parse_file(ROOT / "examples" / "papers" / "cluster.cep").schema
    where = " AND ".join(["[job, task]", *(text for step, text in MACHINES.items() if step <= steps)])
    query = fc.parse(f"PATTERN SEQ({', '.join(STEPS[:steps])}) WHERE {where} WITHIN 1h", schema)
    assert len(fc.Engine(query).process(google)) == matches


# ---------------------------------------------------------------------- papers


@pytest.mark.parametrize("path", PAPERS, ids=lambda path: path.stem)
def test_papers_parse_and_plan(path: Path) -> None:
    (query,) = fc.parse_file(path).queries
    assert query.name == path.stem
    plan = make_plan(query)
    assert any(state.accepting for state in plan.states)
    assert fc.parse_document(path.read_text()).queries == (query,)


def test_papers_are_all_there() -> None:
    assert [path.stem for path in PAPERS] == [
        "cluster", "espice_q1", "espice_q2", "espice_q3", "espice_q4", "hot_paths", "hybrid_q1", "hybrid_q2",
        "hybrid_q3", "hybrid_q4", "migration_q1", "migration_q2", "migration_q3", "overtaking", "pspice_q1",
        "pspice_q2", "pspice_q3", "pspice_q4",
    ]  # fmt: skip


def paper(name: str) -> fc.Query:
    (query,) = fc.parse_file(ROOT / "examples" / "papers" / f"{name}.cep").queries
    return query


def test_cluster_file_is_the_seven_steps(google: pa.Table) -> None:
    assert len(fc.Engine(paper("cluster")).process(google)) == 0


def test_hybrid_q1() -> None:
    assert len(fc.Engine(paper("hybrid_q1")).process(datasets.ds1(1_000_000, 7))) == 2_244_896


def events_of(query: fc.Query, table: pa.Table) -> list[harness.Event]:
    """Convert rows of a generated table (µs) to events of the reference matcher."""
    found = []
    for row in table.to_pylist():
        dtypes = query.schema.attributes(row["type"])
        values = {
            name: float(row[name]) if dtype == "float64" and row[name] is not None else row[name]
            for name, dtype in dtypes.items()
        }
        found.append(harness.Event(row["type"], row["ts"] * 1_000, len(found), values))
    return found


def check(query: fc.Query, table: pa.Table, least: int) -> None:
    """Check that engine and reference matcher agree, and that the sample is not trivial."""
    events = events_of(query, table)
    found = harness.table_rows(query, fc.Engine(query).process(table).to_arrow())
    assert len(found) >= least
    harness.assert_same(query, events, found, "a sample of the paper's stream")
    assert harness.rows(query, None, events, [5]) == found


@pytest.mark.parametrize(("seed", "window"), [(11, 8_000_000), pytest.param(7, 6_000_000, marks=pytest.mark.thorough)])
def test_hybrid_q2_sample(seed: int, window: int) -> None:
    """One ID, few values, a wider window for the thinned stream: few subsets, but some matches."""
    query = paper("hybrid_q2")
    table = datasets.ds1(4_000, seed).filter((pc.field("ID") == 1) & (pc.field("V") <= 3))
    check(replace(query, window=replace(query.window, nanoseconds=window)), table.slice(0, 100), 5)


@pytest.mark.thorough
def test_hybrid_q3_sample() -> None:
    table = datasets.ds2(3_000, 7).filter(pc.field("ID") == 1)
    check(paper("hybrid_q3"), table.slice(0, 200), 10)
