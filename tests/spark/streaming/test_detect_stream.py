"""``detect`` on a streaming DataFrame: a streaming DataFrame with the rows of one engine, for any sink."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from support.micro_batches import (
    LETTERS,
    PROVIDER,
    QUERIES,
    ROCKSDB,
    canonical,
    collected,
    in_milliseconds,
    pieces,
    query,
    rows_of_one_engine,
    slow_query,
    stream,
    write,
)

import fastcep as fc
import fastcep.spark
from fastcep.errors import ValidationError
from fastcep.spark.streaming import checks

pytestmark = [pytest.mark.spark, pytest.mark.thorough]


@pytest.mark.usefixtures("rocksdb")
def test_rows_of_one_engine(spark: Any, tmp_path: Path) -> None:
    """The driver stops in the middle; events are late as in one engine, and the end needs no event."""
    tables = in_milliseconds(pieces(4_000, 4, disorder=3_000))
    kleene = fc.parse(
        "PATTERN SEQ(A a, B+ k[], NEG C c) WHERE [ID] AND k[i].V = a.V WITHIN 200ms", query("kleene").schema, name="k"
    )
    rows: list[Any] = []
    for first, last in ((0, 2), (2, 5)):
        write(tmp_path / "in", tables[first:last], first=first)
        frame = stream(spark, tmp_path / "in").transform(
            fastcep.spark.detect, kleene, allowed_lateness="500ms", slices=3
        )
        assert frame.isStreaming and frame.columns[:3] == ["kind", "query", "window_id"]
        rows += collected(frame, tmp_path / "state")
    expected = rows_of_one_engine(kleene, tables, "500ms", "ABC")
    late = [row for row in expected if "'late'" in row]
    assert 5 < len(late) < len(expected) - 5
    assert canonical(rows) == expected


@pytest.mark.usefixtures("rocksdb")
def test_time_outs_without_numbers(spark: Any, tmp_path: Path) -> None:
    """Large integers and NaN beside nulls keep their values."""
    schema = fc.Schema({"A": {"key": "string", "n": "int64", "x": "float64"}}, time="at", time_unit="ms")
    pair = fc.parse("PATTERN SEQ(A a, A b) WHERE [key] WITHIN 5ms STRATEGY skip_till_next "
                    "RETURN a.n AS first, b.n AS n, b.x AS x", schema, name="pair")  # fmt: skip
    rows = [{"key": "uvwxy"[n * n % 5], "n": None if n % 4 else 2**62 + n, "at": 2 * n,
             "x": [None, float("nan"), 1.5][n * n % 7 % 3]} for n in range(1, 80)]  # fmt: skip
    rows.append({"key": "z", "n": 0, "x": None, "at": 10**6})
    table = pa.Table.from_pylist(rows)
    write(tmp_path / "in", [table.slice(0, 30), table.slice(30)])
    frame = fastcep.spark.detect(stream(spark, tmp_path / "in"), pair, timed_out=True, slices=2)
    found = collected(frame, tmp_path / "state")
    engine = fc.Engine(pair, timed_out=True)
    matches = engine.process(table).to_arrow().to_pylist()
    outs = engine.timed_out().to_pylist()
    assert len(matches) > 20 and len(outs) > 20
    for kind, expected, names in (
        ("match", matches, ["first", "n", "x"]),
        ("timed_out", outs, ["timed_out_at", "bound"]),
    ):
        values = [[repr(row[name]) for name in names] for row in found if row["kind"] == kind]
        wanted = [[repr(row[name].to_pydatetime() if name == "timed_out_at" else row[name]) for name in names]
                  for row in expected]  # fmt: skip
        assert len(values) == len(wanted)
        if kind == "match":
            assert sorted(values) == sorted(wanted)


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize(
    ("column", "message"),
    [
        ("CAST(NULL AS BIGINT) AS ts", "column 'ts': found null, expected a time; drop these rows"),
        ("CAST(NULL AS STRING) AS type", "column 'type': found null, expected an event type"),
        ("'Z' AS type", "column 'type': found undeclared event types, expected declared ones"),
        ("CAST(NULL AS BIGINT) AS row", "column 'row': found null, expected a sequence number"),
        ("9223372036854775807L AS ts", "column 'ts': found a time out of range in units of 1000 ns"),
    ],
)
def test_invalid_events(spark: Any, tmp_path: Path, column: str, message: str) -> None:
    """Also events that the query would not read end the streaming query."""
    write(tmp_path / "in", pieces(200, 1)[:1])
    names = [name for name in ("ts", "type", "row", "ID", "V") if not column.endswith(f" {name}")]
    frame = stream(spark, tmp_path / "in").selectExpr(*names, column)
    with pytest.raises(StreamingQueryException, match=message):
        collected(fastcep.spark.detect(frame, query("kleene"), slices=2), tmp_path / "state")


@pytest.mark.usefixtures("rocksdb")
def test_watermarks_are_rounded_down(spark: Any, tmp_path: Path) -> None:
    """Times of today in ns have more digits than a float64: the watermark is not after the last event."""
    schema = fc.Schema({"A": {"k": "int64"}}, time="ts", time_unit="ns", sequence="row")
    pair = fc.parse("PATTERN SEQ(A a, A b) WHERE [k] WITHIN 1s", schema, name="pair")
    last = 1_700_000_000_000_999_999
    times = [last, last, last, last + 10**12]
    write(tmp_path / "in", [pa.table({"ts": [at], "row": [row], "k": [row // 3]}) for row, at in enumerate(times)])
    rows = collected(fastcep.spark.detect(stream(spark, tmp_path / "in"), pair, slices=1), tmp_path / "state")
    assert [row["kind"] for row in rows] == ["match"] * 3


@pytest.mark.usefixtures("rocksdb")
@pytest.mark.parametrize(
    ("name", "slices", "types"), [("silence", 2, "ABC"), ("longest", 2, "AB"), ("windowed", 1, "ABCD")]
)
def test_waiting_clauses(spark: Any, tmp_path: Path, name: str, slices: int, types: str) -> None:
    """Explicit windows also end when the watermark passes them; one slice gets the events of all types."""
    tables = in_milliseconds(pieces(2_000, 3, disorder=3_000))
    waits = slow_query(name)
    write(tmp_path / "in", tables)
    frame = fastcep.spark.detect(stream(spark, tmp_path / "in"), waits, allowed_lateness="500ms", slices=slices)
    expected = rows_of_one_engine(waits, tables, "500ms", types)
    for kind in ("match", "late"):
        assert len([row for row in expected if f"'{kind}'" in row]) > 10
    assert canonical(collected(frame, tmp_path / "state")) == expected


@pytest.mark.usefixtures("rocksdb")
def test_time_outs_of_one_engine(spark: Any, tmp_path: Path) -> None:
    """All values of partial matches that time out, among matches and late events."""
    tables = in_milliseconds(pieces(2_000, 3, disorder=3_000))
    write(tmp_path / "in", tables)
    kleene = slow_query("kleene")
    options: dict[str, Any] = {"allowed_lateness": "500ms", "timed_out": True}
    frame = fastcep.spark.detect(stream(spark, tmp_path / "in"), kleene, slices=2, **options)
    expected = rows_of_one_engine(kleene, tables, "500ms", "ABC", timed_out=True)
    outs = [row for row in expected if "('kind', 'timed_out')" in row]
    assert len(outs) > 100
    assert all(f"('{name}', " in row for row in outs for name in ("a", "bound", "k", "timed_out_at", "waits_for"))
    assert canonical(collected(frame, tmp_path / "state")) == expected


@pytest.mark.usefixtures("rocksdb")
def test_overload(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine of each slice sheds, also after a restart, and finds some of the matches of one engine."""
    monkeypatch.setattr(checks, "_OPTIONS", (*checks._OPTIONS, "clock"))
    tables = in_milliseconds(pieces(4_000, 2))
    many = fc.parse(QUERIES["kleene"].replace("500us", "2s"), LETTERS, name="kleene")
    options: dict[str, Any] = {"latency_bound": 0.3, "shedder": "rs", "clock": "virtual", "cost_table": "paper"}
    whole, seen, found = rows_of_one_engine(many, tables, "0s"), 0, list[Any]()
    for first, last in ((0, 1), (1, 3)):
        write(tmp_path / "in", tables[first:last], first=first)
        frame = fastcep.spark.detect(stream(spark, tmp_path / "in"), many, slices=2, **options)
        rows = canonical(collected(frame, tmp_path / "state"))
        until = len(rows_of_one_engine(many, tables[:last], "0s"))
        assert 50 < len(rows) < 0.8 * (until - seen)
        seen, found = until, found + rows
    assert set(found) < set(whole)


def test_refused_sessions(spark: Any, tmp_path: Path) -> None:
    write(tmp_path / "in", pieces(200, 1))
    frame = stream(spark, tmp_path / "in")
    with pytest.raises(ValidationError, match=r"expected RocksDB: .* or use fastcep.spark.write_matches"):
        fastcep.spark.detect(frame, query("kleene"), slices=2)
    for option in ({"slicing": "time"}, {"slicing": "other"}, {"longest_window": "1h"}):
        with pytest.raises(ValidationError, match="a streaming DataFrame is cut by key"):
            fastcep.spark.detect(frame, query("kleene"), **option)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValidationError, match="pass slices=1"):
            spark.conf.set(PROVIDER, ROCKSDB)
            try:
                fastcep.spark.detect(frame, query("windowed"), slices=2)
            finally:
                spark.conf.unset(PROVIDER)
