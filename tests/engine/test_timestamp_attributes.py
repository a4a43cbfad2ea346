"""Attributes of dtype timestamp: every input, conditions, RETURN, and what is refused."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.harness import TIME, without_times

import fastcep as fc
from fastcep.io import open_source, write_matches

STREAM = """STREAM TIME 'ts' UNIT s{} TYPE 'kind'
EVENT A (booked timestamp FROM 'booked_at', k int64)
EVENT B (booked timestamp FROM 'booked_at', k int64)
QUERY q PATTERN SEQ((A|B) x) WITHIN 1h RETURN x.booked
"""
HOUR = 3600 * 10**9
MIN, MAX = -(2**63), 2**63 - 1
NEW_YEAR = 1_767_225_600 * 10**9  # 2026-01-01 UTC


def document(options: str = "") -> Any:
    return fc.parse_document(STREAM.format(options))


def read(data: Any, options: str = "", **how: Any) -> list[int | None]:
    """Return the values that the engine reads from a file or a table, in ns."""
    queries = document(options)
    engine = fc.Engine(queries.queries)
    found: list[int | None] = []
    with open_source(data, queries.schema, **how) as source:
        for batch in source:
            column = engine.process(batch).to_arrow()["x.booked"]
            assert column.type == TIME
            found += column.cast(pa.int64()).to_pylist()
    return found


def file(folder: Path, name: str, *values: str) -> Path:
    """Write a CSV file, or JSON lines, with these texts (JSON values) in the column of the attribute."""
    path = folder / name
    if name.endswith("csv"):
        lines = ["ts,kind,booked_at,k", *(f"{n},A,{value},1" for n, value in enumerate(values))]
    else:
        lines = [f'{{"ts": {n}, "kind": "B", "booked_at": {value}}}' for n, value in enumerate(values)]
    path.write_text("\n".join(lines) + "\n")
    return path


# ------------------------------------------------------------------------------------------------------- input


def test_csv(tmp_path: Path) -> None:
    """ISO text, with and without offset, and integers in the stream's unit; an empty field is null."""
    path = file(
        tmp_path, "e.csv", "", "2026-01-01", "2026-01-01 00:00:00.000000001", "2026-01-01T02:00:00+01:00", "1767225600",
        "2026-07-01T00:00:00",
    )  # fmt: skip
    summer = 181 * 24 * HOUR
    assert read(path) == [None, NEW_YEAR, NEW_YEAR + 1, NEW_YEAR + HOUR, NEW_YEAR, NEW_YEAR + summer]
    berlin = read(path, " ZONE 'Europe/Berlin'")
    assert berlin == [None, NEW_YEAR - HOUR, NEW_YEAR - HOUR + 1, NEW_YEAR + HOUR, NEW_YEAR,
                      NEW_YEAR + summer - 2 * HOUR]  # fmt: skip
    assert read(path, sort=True) == read(path)


def test_format_of_the_stream(tmp_path: Path) -> None:
    path = tmp_path / "e.csv"
    path.write_text("ts,kind,booked_at,k\n01.01.1970,A,01.01.2026,1\n02.01.1970,A,,1\n")
    assert read(path, " FORMAT '%d.%m.%Y'") == [NEW_YEAR, None]


@pytest.mark.parametrize("many", [1, 300])
def test_json_lines(tmp_path: Path, many: int) -> None:
    texts = file(tmp_path, "e.jsonl", *["null"] * many, '"2026-01-01T00:00:00Z"', '"2026-01-01"')
    assert read(texts) == [None] * many + [NEW_YEAR] * 2
    numbers = file(tmp_path, "e.jsonl", "1767225600", "null", "-1")
    assert read(numbers) == [NEW_YEAR, None, -(10**9)]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "America/New_York", "+05:30"])
def test_arrow_of_any_unit_and_zone(tmp_path: Path, unit: Any, zone: str | None) -> None:
    values = pa.array([1_767_225_600, None, -3], pa.int64()).cast(pa.timestamp("s")).cast(pa.timestamp(unit))
    values = values.cast(pa.int64()).cast(pa.timestamp(unit, zone))
    table = pa.table({"ts": [0, 1, 2], "kind": ["A", "B", "A"], "booked_at": values, "k": [1, 2, 3]})
    expected = [NEW_YEAR, None, -3 * 10**9]
    pq.write_table(table, tmp_path / "e.parquet")
    kept = pq.read_schema(tmp_path / "e.parquet").field("booked_at").type
    assert kept == values.type or unit == "s"
    for data in (table, tmp_path / "e.parquet", table if unit == "s" or zone == "+05:30" else pl.DataFrame(table)):
        assert read(data) == expected
    moved = read(table, " ZONE 'Europe/Berlin'")
    assert moved == ([NEW_YEAR - HOUR, None, -3 * 10**9 - HOUR] if zone is None else expected)


def test_frames_and_arrays() -> None:
    moments = [dt.datetime(2026, 1, 1), None, dt.datetime(1969, 12, 31)]
    expected = [NEW_YEAR, None, -24 * HOUR]
    columns = {"ts": [0, 1, 2], "kind": ["A", "A", "A"], "k": [1, 1, 1]}
    for data in (
        pd.DataFrame({**columns, "booked_at": pd.to_datetime(pd.Series(moments))}),
        pl.DataFrame({**columns, "booked_at": moments}),
        pl.DataFrame({**columns, "booked_at": [moment and moment.date() for moment in moments]}),
        {**columns, "booked_at": np.array(["2026-01-01", "NaT", "1969-12-31"], "M8[ns]")},
        {**columns, "booked_at": moments},
    ):
        assert read(data) == expected


def test_single_events() -> None:
    """Integers count the stream's unit; other times are read as in a batch."""
    engine = fc.Engine(document().queries)
    zone = dt.timezone(dt.timedelta(hours=1))
    for value, expected in (
        (1_767_225_600, NEW_YEAR), (None, None), (np.int64(7), 7 * 10**9), (-9_223_372_036, -9_223_372_036 * 10**9),
        (dt.datetime(2026, 1, 1, 1, tzinfo=zone), NEW_YEAR), (np.datetime64(5, "ns"), 5),
        (pd.Timestamp("2026-01-01"), NEW_YEAR),
    ):  # fmt: skip
        match = engine.send("A", ts=1, booked=value, k=1)[0]
        assert match["x.booked"] == (None if expected is None else np.datetime64(expected, "ns"))
    assert engine.send("B", ts=1)[0]["x.booked"] is None
    with pytest.raises(fc.DataError, match=r"found time 9223372037 s, expected one that fits int64 nanoseconds"):
        engine.send("A", ts=1, booked=9_223_372_037)
    with pytest.raises(fc.SchemaError, match="found string, expected integers in s or timestamps; give an int or"):
        engine.send("A", ts=1, booked="2026-01-01")


def test_bad_values(tmp_path: Path) -> None:
    path = file(tmp_path, "e.csv", "2026-01-01", "tomorrow", "99999999999", "2026-02-31")
    with pytest.raises(fc.DataError, match=r"line 3, row 1, column 'booked_at': found .tomorrow., expected an ISO"):
        read(path)
    bad = tmp_path / "bad.jsonl"
    assert read(path, bad_rows=bad) == [NEW_YEAR]
    rows = [json.loads(line) for line in bad.read_text().splitlines()]
    assert [(row["row"], row["column"]) for row in rows] == [(1, "booked_at"), (2, "booked_at"), (3, "booked_at")]
    table = pa.table({"ts": [0, 1], "kind": ["A", "A"], "booked_at": [1, 2**40], "k": [1, 1]})
    with pytest.raises(fc.DataError, match=r"row 1, column 'booked_at': found time 1099511627776 s, expected one that"):
        fc.Engine(document().queries).process(table)
    text = table.set_column(2, "booked_at", pa.array(["2026-01-01"] * 2))
    with pytest.raises(fc.SchemaError, match="found string, expected integers in s or timestamps; parse it to"):
        fc.Engine(document().queries).process(text)
    assert read(text) == [NEW_YEAR] * 2
    plain = fc.Schema({"A": {"v": "int64"}}, time="ts")
    with pytest.raises(fc.SchemaError, match=r"found timestamp\[us\], expected int64; declare the attribute timestamp"):
        one = fc.parse("PATTERN SEQ(A a) WITHIN 1s", plain)
        fc.Engine(one).process({"ts": [1], "v": [dt.datetime(2026, 1, 1)]})


def test_fast_and_slow_readers_agree() -> None:
    schema = fc.Schema({"A": {"t": "timestamp"}}, time="ts")
    query = fc.parse("PATTERN SEQ(A a) WITHIN 1s RETURN a.t", schema)
    values = pa.array([5, None, MIN, MAX])
    for column in (values, values.cast(TIME), values.cast(pa.timestamp("ns"))):
        results = []
        for is_direct in (True, False):
            engine = fc.Engine(query)
            engine._loop.is_direct = is_direct
            results.append(engine.process(pa.table({"ts": [1, 2, 3, 4], "t": column})).to_arrow())
        assert results[0].equals(results[1])
        assert without_times(results[0]["a.t"]).to_pylist() == [5, None, MIN, MAX]


def test_the_time_as_an_attribute() -> None:
    schema = fc.Schema({"A": {"t": "timestamp"}}, time="ts", time_unit="s", sources={"A": {"t": "ts"}})
    query = fc.parse("PATTERN SEQ(A a) WHERE a.t = a.time WITHIN 1s RETURN a.t", schema)
    assert len(fc.Engine(query).process({"ts": [1, 2]})) == 2
    with open_source({"ts": ["2026-01-01"]}, schema) as source:
        assert len(fc.Engine(query).process(next(source))) == 1


# -------------------------------------------------------------------------------------------------- expressions

SCHEMA = fc.Schema({"A": {"t": "timestamp", "u": "timestamp", "k": "int64"}}, time="ts")


@pytest.mark.parametrize(
    ("where", "found"),
    [
        ("a.t = TIMESTAMP '2026-01-01'", [0]),
        ("a.t < TIMESTAMP '2026-01-01 01:00'", [0, 2]),
        ("a.t > a.time", [0, 1]),
        ("a.t < a.u", [0]),
        ("a.u - a.t > 30min", [0]),
        ("a.t + 1h = a.u", [0]),
        ("a.t - 1h = a.u", [1]),
        ("a.t BETWEEN TIMESTAMP '2026-01-01' AND TIMESTAMP '2026-01-02'", [0, 1]),
        ("a.t IN {TIMESTAMP '2026-01-01', TIMESTAMP '1970-01-01'}", [0]),
        ("a.t IS NULL", [3]),
        ("a.t IS NOT NULL AND a.u IS NULL", [2]),
        ("hour(a.t) = 2", [1]),
        ("hour(a.t, 'Europe/Berlin') = 1", [0]),
        ("minute(a.t) = 59", [2]),
        ("dayofweek(a.t) = 4", [0, 1]),
        ("date(a.t) = TIMESTAMP '2026-01-01'", [0, 1]),
        ("date(a.u, 'Asia/Tokyo') = TIMESTAMP '2026-01-01 00:00+09:00'", [0, 1]),
        ("nanoseconds(a.t) = -1", [2]),
        ("coalesce(a.t, a.time) = a.time", [3]),
        ("CASE WHEN a.k = 1 THEN a.t ELSE a.u END = TIMESTAMP '2026-01-01'", [0]),
        ("max(a.t, a.u) = TIMESTAMP '2026-01-01 02:00'", [1]),
    ],
)
def test_conditions(where: str, found: list[int]) -> None:
    query = fc.parse(f"PATTERN SEQ(A a) WHERE {where} WITHIN 1s", SCHEMA)
    assert fc.parse(fc.to_text(query), SCHEMA) == query
    two = NEW_YEAR + 2 * HOUR
    data = {
        "ts": [1, 2, 3, 4], "k": [1, 2, 3, 4],
        "t": pa.array([NEW_YEAR, two, -1, None]), "u": pa.array([NEW_YEAR + HOUR, NEW_YEAR + HOUR, None, None]),
    }  # fmt: skip
    for kernels in (True, False):
        engine = fc.Engine(query)
        if kernels:
            engine.compile()
        assert engine.process(data).to_arrow()["a"].to_pylist() == found


def test_returned_columns_and_files(tmp_path: Path) -> None:
    query = fc.parse(
        "PATTERN SEQ(A+ a[], A b) WITHIN 9ns PARTITION BY t RETURN a[].t AS ts, MIN(a[].t) AS low, MAX(a[].u), "
        "b.t - a[first].t AS d, AVG(a[].t) AS mean, COUNT(a[].t)", SCHEMA,
    )  # fmt: skip
    engine = fc.Engine(query, attributes=True)
    table = engine.process({"ts": [1, 2], "k": [1, 1], "t": [7, 7], "u": pa.array([None, 1])}).to_arrow()
    kinds = {name: table.schema.field(name).type for name in table.column_names}
    assert kinds["low"] == kinds["MAX(a[].u)"] == kinds["b.u"] == TIME and kinds["d"] == pa.int64()
    assert kinds["ts"] == kinds["a.t"] == kinds["a.time"] == pa.large_list(TIME) and kinds["mean"] == pa.float64()
    write_matches(table, tmp_path / "m.jsonl")
    row = json.loads((tmp_path / "m.jsonl").read_text())
    assert (row["ts"], row["low"]) == (["1970-01-01T00:00:00.000000007Z"], "1970-01-01T00:00:00.000000007Z")
    assert (row["MAX(a[].u)"], row["a.u"], row["b.u"], row["mean"]) == (
        None, [None], "1970-01-01T00:00:00.000000001Z", 7.0,
    )  # fmt: skip


def test_builder() -> None:
    a, b = SCHEMA.A("a"), SCHEMA.A("b")
    built = fc.seq(a, b).where(b.t - a.t > dt.timedelta(hours=1), a.t >= dt.datetime(2026, 1, 1)).within("1h").build()
    assert built == fc.parse(
        "PATTERN SEQ(A a, A b) WHERE b.t - a.t > 1h AND a.t >= TIMESTAMP '2026-01-01' WITHIN 1h", SCHEMA
    )


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("a.t = '2026-01-01'", "write TIMESTAMP '2026-01-01'"),
        ("a.t LIKE '2026%'", "LIKE compares texts, but a.t is a timestamp"),
        ("lower(a.t) = 'x'", "lower needs a text, but a.t is a timestamp"),
        ("a.t", "has the type timestamp; compare it"),
        ("a.t = TRUE", "compares a.t, which is a timestamp, with TRUE"),
        ("SUM(b[].t) > 5s", r"SUM of times has no meaning, but b\[\].t is a timestamp; use MIN, MAX, AVG or COUNT"),
        ("SUM(b[].time) > 5s", r"SUM of times has no meaning"),
    ],
)
def test_refusals(where: str, message: str) -> None:
    with pytest.raises(fc.ParseError, match=message):
        fc.parse(f"PATTERN SEQ(A a, A+ b[]) WHERE {where} WITHIN 1s", SCHEMA)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("a.t > 5", "a.t is a time, so 5 means 5 ns after the start of 1970; write a time such as TIMESTAMP"),
        ("a.t - a.u < 5", "a.t - a.u is a duration, so 5 means 5 ns; write a unit, as in 5s"),
        ("a.t + 5 > a.u", "a.t is a time, so 5 means 5 ns; write a unit, as in 5s, or 5ns if you mean that"),
        ("a.time - 60 > a.u", "a.time is a time, so 60 means 60 ns; write a unit, as in 60s"),
    ],
)
def test_numbers_without_a_unit_warn(where: str, message: str) -> None:
    with pytest.warns(fc.QueryWarning, match=re.escape(message)):
        fc.parse(f"PATTERN SEQ(A a) WHERE {where} WITHIN 1s", SCHEMA)


@pytest.mark.parametrize("name", ["datetime", "timestamptz", "Timestamps"])
def test_other_names_of_the_dtype(name: str) -> None:
    with pytest.raises(fc.SchemaError, match="did you mean 'timestamp'"):
        fc.Schema({"A": {"x": name}}, time="ts")
    with pytest.raises(fc.ParseError, match="did you mean 'timestamp'"):
        fc.parse_document(f"STREAM TIME 'ts'\nEVENT A (x {name})")


def test_late_events_and_snapshots() -> None:
    query = fc.parse("PATTERN SEQ(A a, A b) WHERE a.t = b.t AND b.u > a.u WITHIN 1h RETURN a.u, b.t", SCHEMA)
    engine = fc.Engine(query, allowed_lateness="1ns", late_limit=9)
    engine.process({"ts": [10, 20, 3], "k": [1, 2, 3], "t": [7, 8, 9], "u": pa.array([1, None, 5])})
    late = engine.late()
    assert late["t"].type == TIME and without_times(late["t"]).to_pylist() == [9]
    restored = fc.Engine.restore(engine.snapshot(), query)
    for one in (engine, restored):
        one.process({"ts": [30], "k": [4], "t": [7], "u": [2]})
        table = one.flush().to_arrow()
        assert [without_times(table[name]).to_pylist() for name in ("a", "b", "a.u", "b.t")] == [[0], [3], [1], [7]]
