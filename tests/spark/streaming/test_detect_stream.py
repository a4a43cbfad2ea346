"""``detect`` on a streaming DataFrame: a streaming DataFrame with the rows of one engine, for any sink."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import StreamingQueryException
from support.micro_batches import LETTERS, QUERIES, canonical, pieces, query, rows_of_one_engine, stream, write

import fastcep as fc
import fastcep.spark
from fastcep.errors import ValidationError

pytestmark = pytest.mark.spark

PROVIDER = "spark.sql.streaming.stateStore.providerClass"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


@pytest.fixture
def rocksdb(spark: Any) -> Iterator[None]:
    spark.conf.set(PROVIDER, ROCKSDB)
    yield
    spark.conf.unset(PROVIDER)


def collected(frame: Any, folder: Path) -> list[Any]:
    """Run a streaming DataFrame until all files are processed; return its rows."""
    found: dict[int, list[Any]] = {}

    def sink(rows: Any, batch: int) -> None:
        found[batch] = rows.toArrow().to_pylist()

    writer = frame.writeStream.foreachBatch(sink).option("checkpointLocation", str(folder))
    writer.trigger(availableNow=True).start().awaitTermination()
    return [row for batch in sorted(found) for row in found[batch]]


def in_milliseconds(tables: list[pa.Table]) -> list[pa.Table]:
    """Return events a thousand times slower, as Spark's watermark has milliseconds."""
    return [table.set_column(table.column_names.index("ts"), "ts",
                             pa.array(table["ts"].to_numpy() * 1_000)) for table in tables]  # fmt: skip


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
@pytest.mark.parametrize("more", [2, 5])
def test_another_number_of_slices_is_refused_at_a_restart(spark: Any, tmp_path: Path, more: int) -> None:
    """Otherwise an engine would get keys whose earlier events another one has seen, and matches would be missing.

    The new events have a key that a new slice may have: all slices compare the number.
    """
    tables = in_milliseconds(pieces(2_000, 2))
    write(tmp_path / "in", tables[:1])
    frame = stream(spark, tmp_path / "in")
    collected(fastcep.spark.detect(frame, query("kleene"), slices=3), tmp_path / "state")
    for number in range(1, 3):
        last = tables[1].slice(number, 1)
        later = last.set_column(last.column_names.index("ts"), "ts", pa.array([10**9 * number]))
        write(tmp_path / "in", [later], first=number)
    refused = f"the checkpoint has 3 slices, found slices={more}; pass slices=3"
    with pytest.raises(StreamingQueryException, match=refused):
        collected(fastcep.spark.detect(frame, query("kleene"), slices=more), tmp_path / "state")
    assert collected(fastcep.spark.detect(frame, query("kleene"), slices=3), tmp_path / "state") is not None


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
@pytest.mark.parametrize(("name", "types"), [("silence", "ABC"), ("longest", "AB")])
def test_waiting_clauses(spark: Any, tmp_path: Path, name: str, types: str) -> None:
    tables = in_milliseconds(pieces(2_000, 3, disorder=3_000))
    waits = fc.parse(QUERIES[name].replace("us", "ms"), LETTERS, name=name)
    write(tmp_path / "in", tables)
    frame = fastcep.spark.detect(stream(spark, tmp_path / "in"), waits, allowed_lateness="500ms", slices=2)
    expected = rows_of_one_engine(waits, tables, "500ms", types)
    assert len([row for row in expected if "'match'" in row]) > 10
    assert canonical(collected(frame, tmp_path / "state")) == expected


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
