"""Operators on real streams: the number of matches equals that of an SQL query with the same meaning."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fastcep as fc
from fastcep import datasets
from fastcep.query import i

PAPERS = Path(__file__).resolve().parents[1] / "examples" / "papers"
CLUSTER = fc.parse_file(PAPERS / "cluster.cep").schema
TRIPS = fc.parse_file(PAPERS / "hot_paths.cep").schema
MINUTE = "60000000::BIGINT"  # µs, like the times in the trace


@pytest.fixture(scope="module")
def database() -> duckdb.DuckDBPyConnection:
    """Create table e: the cluster's events, with the row number as seq; and table trip: bike trips, time in minutes."""
    connection = duckdb.connect()
    for name, dataset in (("google", "google_2011"), ("bikes", "bayarea_2014")):
        table = pq.read_table(datasets.path(dataset))
        if name == "bikes":  # DuckDB 2.0.1 cannot convert timestamp[ms]
            start = table.column("start_date").cast(pa.int64())
            table = table.set_column(table.column_names.index("start_date"), "start_ms", start)
        connection.register(name, table.append_column("seq", pa.array(range(len(table)), pa.int64())))
    connection.execute("CREATE TABLE e AS SELECT seq, time AS t, job, task, machine, kind FROM google")
    connection.execute(
        "CREATE TABLE trip AS SELECT seq, start_ms // 60000 AS t, bike_id AS bike, start_terminal AS s, "
        "end_terminal AS e FROM bikes"
    )
    return connection


def number(connection: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = connection.execute(f"SELECT COUNT(*) FROM {sql}").fetchone()
    assert row is not None
    return int(row[0])


def found(query: fc.Query, table: pa.Table) -> int:
    engine = fc.Engine(query)
    return sum(len(engine.process(part)) for part in table.to_batches(max_chunksize=50_000)) + len(engine.flush())


def between(kinds: str, more: str = "TRUE") -> str:
    """SQL: no event n of the task, of these kinds, between a and b."""
    return (
        f"NOT EXISTS (SELECT 1 FROM e n WHERE n.job = a.job AND n.task = a.task AND n.kind IN ({kinds}) "
        f"AND n.seq > a.seq AND n.seq < b.seq AND {more})"
    )


def after(event: str, kinds: str, minutes: str) -> str:
    """SQL: no event n of the task, of these kinds, after an event until ``minutes`` minutes after a."""
    return (
        f"NOT EXISTS (SELECT 1 FROM e n WHERE n.job = a.job AND n.task = a.task AND n.kind IN ({kinds}) "
        f"AND n.seq > {event}.seq AND n.t <= a.t + {minutes} * {MINUTE})"
    )


CASES = {
    # scheduled, finished, and neither evicted, killed nor failed between
    "middle_neg": (
        "SEQ(Sc a, NEG (Ev|Ki|Fa) n, Fi b) WHERE [job, task] WITHIN 10min",
        "e a JOIN e b USING (job, task) WHERE a.kind = 1 AND b.kind = 4 AND b.seq > a.seq "
        f"AND b.t <= a.t + 10 * {MINUTE} AND {between('2, 5, 3')}",
        28_728,
    ),
    # finished, and not moved to another machine between; NULL machines exclude nothing
    "middle_neg_with_a_condition": (
        "SEQ(Sc a, NEG Sc n, Fi b) WHERE [job, task] AND n.machine != a.machine WITHIN 1h",
        "e a JOIN e b USING (job, task) WHERE a.kind = 1 AND b.kind = 4 AND b.seq > a.seq "
        f"AND b.t <= a.t + 60 * {MINUTE} AND {between('1', 'n.machine <> a.machine')}",
        38_438,
    ),
    # submitted, and not scheduled for five minutes
    "trailing_neg": (
        "SEQ(Su a, NEG Sc n) WHERE [job, task] WITHIN 5min",
        f"e a WHERE a.kind = 0 AND {after('a', '1', '5')}",
        764,
    ),
    "trailing_neg_of_two": (
        "SEQ(Ev a, Sc b, NEG (Ev|Fa|Ki) n) WHERE [job, task] WITHIN 20min",
        "e a JOIN e b USING (job, task) WHERE a.kind = 2 AND b.kind = 1 AND b.seq > a.seq "
        f"AND b.t <= a.t + 20 * {MINUTE} AND {after('b', '2, 3, 5', '20')}",
        3_930,
    ),
    # scheduled, and not submitted in the minute before
    "leading_neg": (
        "SEQ(NEG Su n, Sc a) WHERE [job, task] WITHIN 1min",
        "e a WHERE a.kind = 1 AND NOT EXISTS (SELECT 1 FROM e n WHERE n.job = a.job AND n.task = a.task "
        f"AND n.kind = 0 AND n.seq < a.seq AND n.t >= a.t - {MINUTE})",
        789,
    ),
    "and": (
        "AND(Ev a, Fa b) WHERE a.machine = b.machine WITHIN 1min",
        f"e a JOIN e b USING (machine) WHERE a.kind = 2 AND b.kind = 3 AND abs(b.t - a.t) <= {MINUTE}",
        27,
    ),
    # each branch has a condition of its own
    "or": (
        "SEQ(Sc a, OR(Ev b, Fa c, Ki d)) WHERE [job, task] AND a.machine = b.machine AND a.machine != c.machine "
        "WITHIN 10min",
        "e a JOIN e b USING (job, task) WHERE a.kind = 1 AND b.seq > a.seq "
        f"AND b.t <= a.t + 10 * {MINUTE} AND ((b.kind = 2 AND a.machine = b.machine) "
        "OR (b.kind = 3 AND a.machine <> b.machine) OR b.kind = 5)",
        101_519,
    ),
    # failures on three machines
    "any_distinct": (
        "ANY(3, Fa x[] DISTINCT machine) WITHIN 10s",
        "e a JOIN e b ON b.seq > a.seq JOIN e c ON c.seq > b.seq AND c.t <= a.t + 10000000 "
        "WHERE a.kind = 3 AND b.kind = 3 AND c.kind = 3 "
        "AND a.machine <> b.machine AND b.machine <> c.machine AND a.machine <> c.machine",
        11_654,
    ),
    "any": (
        "ANY(2, Ev a, Fa b, Ki c) WHERE [job] WITHIN 2s",
        "e a JOIN e b USING (job) WHERE a.kind IN (2, 3, 5) AND b.kind IN (2, 3, 5) AND a.kind < b.kind "
        "AND abs(a.t - b.t) <= 2000000",
        121,
    ),
    # twice scheduled and evicted, each time on one machine
    "group_of_two_rounds": (
        "SEQ((SEQ(Sc a, Ev b)){2} g[]) WHERE [job, task] AND g[i].a.machine = g[i].b.machine WITHIN 1h",
        "e a JOIN e b USING (job, task) JOIN e c USING (job, task) JOIN e d USING (job, task) "
        "WHERE a.kind = 1 AND b.kind = 2 AND c.kind = 1 AND d.kind = 2 AND a.seq < b.seq AND b.seq < c.seq "
        f"AND c.seq < d.seq AND d.t <= a.t + 60 * {MINUTE} AND a.machine = b.machine AND c.machine = d.machine",
        30,
    ),
    # a machine that lost a task gets others, until one finishes there
    "aperiodic": (
        "APERIODIC(Ev a, Sc b, Fi c) WHERE a.machine = b.machine AND c.machine = a.machine WITHIN 2min",
        "e a JOIN e b USING (machine) WHERE a.kind = 2 AND b.kind = 1 AND b.seq > a.seq "
        f"AND b.t <= a.t + 2 * {MINUTE} AND NOT EXISTS (SELECT 1 FROM e n WHERE n.kind = 4 "
        "AND n.machine = a.machine AND n.seq > a.seq AND n.seq < b.seq)",
        5_288,
    ),
    # every minute in which a submitted task still waits
    "periodic": (
        "PERIODIC(Su a, 1min, Sc c) WHERE [job, task] WITHIN 5min",
        f"e a, range(1, 6) tick(k) WHERE a.kind = 0 AND {after('a', '1', 'tick.k')}",
        4_107,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_cluster(case: str, database: duckdb.DuckDBPyConnection) -> None:
    pattern, sql, matches = CASES[case]
    query = fc.parse(f"PATTERN {pattern}", CLUSTER)
    expected = number(database, sql)
    assert found(query, pq.read_table(datasets.path("google_2011"))) == expected == matches


def test_cluster_out_of_order() -> None:
    """All queries in one engine, events up to 20 s late: the same numbers."""
    schema = fc.Schema(
        {name: CLUSTER.attributes(name) for name in CLUSTER.type_names},
        time="time", type="kind", time_unit="us", codes=CLUSTER.codes, sequence="row",
    )  # fmt: skip
    table = pq.read_table(datasets.path("google_2011"))
    table = table.append_column("row", pa.array(range(len(table)), pa.int64()))
    delay = np.random.default_rng(1).integers(0, 20_000_000, len(table))
    table = table.take(np.argsort(table["time"].to_numpy() + delay, kind="stable"))
    engine = fc.Engine(
        [fc.parse(f"PATTERN {pattern}", schema, name=case) for case, (pattern, _, _) in CASES.items()],
        allowed_lateness="20s",
    )
    counts: Counter[str] = Counter()
    for part in table.to_batches(max_chunksize=7_000):
        counts.update(engine.process(part).counts())
    counts.update(engine.flush().counts())
    assert engine.metrics()["late_events"] == 0
    assert counts == {case: matches for case, (_, _, matches) in CASES.items()}


def test_a_bike_that_nobody_rides_on(database: duckdb.DuckDBPyConnection) -> None:
    """Not taken for a day from the station where it was left; built in Python."""
    a, n = TRIPS.BikeTrip("a"), TRIPS.BikeTrip("n").negated()
    query = fc.seq(a, n).where(n.bike == a.bike, n.start == a.end).within("1d").build()
    expected = number(
        database,
        "trip a WHERE NOT EXISTS (SELECT 1 FROM trip n WHERE n.bike = a.bike AND n.s = a.e AND n.seq > a.seq "
        "AND n.t <= a.t + 1440)",
    )
    assert found(query, pq.read_table(datasets.path("bayarea_2014"))) == expected == 82_761


@pytest.mark.thorough
def test_bikes_that_go_there_and_back(database: duckdb.DuckDBPyConnection) -> None:
    """Both trips in either order; and two round trips of one bike, as a group."""
    trips = pq.read_table(datasets.path("bayarea_2014"))
    a, b = TRIPS.BikeTrip("a"), TRIPS.BikeTrip("b")
    both = fc.all_of(a, b).where(a.start == b.end, a.end == b.start, a.bike == b.bike, a.start < b.start)
    expected = number(
        database,
        "trip a JOIN trip b USING (bike) WHERE a.seq <> b.seq AND abs(a.t - b.t) <= 30 AND a.s = b.e AND a.e = b.s "
        "AND a.s < b.s",
    )
    assert found(both.within("30min").build(), trips) == expected == 3_708
    g = fc.group("g", fc.seq(a, b)).times(2)
    twice = fc.seq(g).where(g[i].a.start == g[i].b.end, g[i].a.end == g[i].b.start).partition_by("bike")
    expected = number(
        database,
        "trip a JOIN trip b USING (bike) JOIN trip c USING (bike) JOIN trip d USING (bike) WHERE a.seq < b.seq "
        "AND b.seq < c.seq AND c.seq < d.seq AND d.t <= a.t + 120 AND a.s = b.e AND a.e = b.s AND c.s = d.e "
        "AND c.e = d.s",
    )
    assert found(twice.within("2h").build(), trips) == expected > 0


def test_hybrid_q4() -> None:
    """In SQL: a C sees the same last B of its ID as the A."""
    table = datasets.ds1(1_000_000, 7)
    connection = duckdb.connect()
    connection.register("ds1", table.append_column("seq", pa.array(range(len(table)), pa.int64())))
    connection.execute(
        "CREATE TABLE e AS SELECT *, max(CASE WHEN type = 'B' THEN seq END) OVER (PARTITION BY ID ORDER BY seq) AS b "
        "FROM ds1"
    )
    expected = number(
        connection,
        "e a JOIN e c ON a.ID = c.ID AND c.seq > a.seq AND c.ts BETWEEN a.ts AND a.ts + 1000 "
        "WHERE a.type = 'A' AND c.type = 'C' AND a.b IS NOT DISTINCT FROM c.b",
    )
    (query,) = fc.parse_file(PAPERS / "hybrid_q4.cep").queries
    assert found(query, table) == expected == 229_893
