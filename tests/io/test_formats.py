"""Every format, folder and object gives the same events."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import random
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.dataset as pads
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastcep import Engine, datasets, parse
from fastcep.errors import DataError, SchemaError, ValidationError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.io import open_source

DS1 = Schema({kind: {"ID": "int64", "V": "int64"} for kind in "ABCD"}, type="type", time="ts", time_unit="us")


def csv(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pv.write_csv(table, out)
    return out.getvalue()


def tsv(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pv.write_csv(table, out, pv.WriteOptions(delimiter="\t"))
    return out.getvalue()


def jsonl(table: pa.Table) -> bytes:
    if all(kind in (pa.int64(), pa.string()) for kind in table.schema.types) and not table.column(0).null_count:
        frame = pl.from_arrow(table)
        assert isinstance(frame, pl.DataFrame)
        return frame.write_ndjson().encode()
    return b"".join(json.dumps(row, ensure_ascii=False).encode() + b"\n" for row in table.to_pylist())


def parquet(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, row_group_size=100_000)
    return out.getvalue()


def arrow_file(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=50_000)
    return out.getvalue()


def arrow_stream(table: pa.Table) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=50_000)
    return out.getvalue()


def feather(table: pa.Table) -> bytes:
    out = io.BytesIO()
    pyarrow.feather.write_feather(table, out)
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


PLAIN = {
    ".csv": csv, ".tsv": tsv, ".jsonl": jsonl, ".ndjson": jsonl, ".parquet": parquet,
    ".arrow": arrow_file, ".arrows": arrow_stream, ".ipc": arrow_stream, ".feather": feather,
}  # fmt: skip
PACKED = {
    ending + suffix: (make, pack)
    for suffix, pack in ((".gz", lambda data: gzip.compress(data, 1)), (".zst", zstd))
    for ending, make in PLAIN.items()
    if ending in (".csv", ".jsonl", ".arrow", ".arrows")
}


def written(table: pa.Table, ending: str) -> bytes:
    if ending in PLAIN:
        return PLAIN[ending](table)
    make, pack = PACKED[ending]
    return pack(make(table))


def read(data: Any, schema: Schema = DS1, **options: Any) -> pa.Table:
    with open_source(data, schema, **options) as source:
        batches = list(source)
        assert source.rows_read == sum(batch.num_rows for batch in batches)
    return pa.Table.from_batches(batches) if batches else pa.table({})


@pytest.fixture(scope="module")
def million() -> pa.Table:
    return datasets.ds1(1_000_000)


@pytest.mark.parametrize("ending", [*PLAIN, *PACKED])
def test_a_million_rows_of_each_format(million: pa.Table, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"ds1{ending}"
    path.write_bytes(written(million, ending))
    assert read(path).equals(million)


def events(table: pa.Table | EventBatch, schema: Schema) -> list[list[Any]]:
    batch = table if isinstance(table, EventBatch) else EventBatch.from_data(schema, table, StringTable())
    return [batch.time.tolist(), batch.type.tolist(), *(column.tolist() for column in batch.columns)]


OBJECTS: dict[str, Callable[[pa.Table], Any]] = {
    "table": lambda table: table,
    "batch": lambda table: table.combine_chunks().to_batches()[0],
    "reader": lambda table: table.to_reader(1000),
    "dataset": pads.dataset,
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "duckdb": lambda table: duckdb.from_arrow(table),
    "mapping": lambda table: {name: table.column(name) for name in table.column_names},
}


@pytest.mark.parametrize("kind", OBJECTS)
def test_objects(kind: str) -> None:
    table = datasets.ds1(5_000)
    expected = events(table, DS1)
    assert events(read(OBJECTS[kind](table), chunk_rows=700), DS1) == expected
    query = parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms", DS1)
    whole = Engine(query).process(table)
    assert Engine(query).process(OBJECTS[kind](table)).to_arrow().equals(whole.to_arrow())


def test_duckdb_decimals_dates_and_times() -> None:
    relation = duckdb.sql(
        "select * from (values (timestamp '2020-01-01 00:00:00.25', 1.50, 7::decimal(10,2)), "
        "(timestamp '2020-01-02', 2.25, null)) as t(moment, price, item) order by moment"
    )
    schema = Schema({"T": {"price": "float64", "item": "int64"}}, time="moment")
    batch = EventBatch.from_data(schema, read(relation, schema), StringTable())
    assert batch.time.tolist() == [1_577_836_800_250_000_000, 1_577_923_200_000_000_000]
    assert [column.tolist() for column in batch.columns] == [[1.5, 2.25], [7, 0]]
    days = Schema({"T": {"k": "int64"}}, time="at", time_zone="America/New_York")
    frame = pl.DataFrame({"at": ["2020-01-01", "2020-01-02"], "k": [1, 2]}).with_columns(pl.col("at").str.to_date())
    assert EventBatch.from_data(days, read(frame, days), StringTable()).time[0] == 1_577_854_800 * 10**9


def test_what_is_no_table() -> None:
    for data in (7, [1, 2], [], object()):
        with pytest.raises(ValidationError, match="cannot read events from"):
            open_source(data, DS1)
    with pytest.raises(SchemaError, match=r"pandas DataFrame: no column 'type' for the type"):
        open_source(pd.DataFrame({"ts": [1]}), DS1)


# ---------------------------------------------------------------- random tables

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ['"', '""', "a,b", "x\ny", "\r\n", "\t", " ", "null", "NaN", "5' 10\"", "é", "𝄞", "\u2028", "{}", "[1]", "#"]
)
ROW = st.tuples(
    st.sampled_from("AB"),
    st.integers(-(2**63), 2**63 - 1) | st.none(),
    st.floats(allow_nan=False, allow_infinity=False) | st.none(),
    st.booleans() | st.none(),
    TEXT.filter(bool) | st.none(),  # CSV cannot tell an empty text from null
)
MIXED = Schema(
    {kind: {"n": "int64", "x": "float64", "ok": "bool", "name": "string"} for kind in "AB"}, type="kind", time="ts"
)


@given(st.lists(ROW, max_size=40), st.integers(1, 50))
def test_random_tables_read_back_equal(rows: list[Any], chunk: int) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    kinds = [pa.string(), pa.int64(), pa.float64(), pa.bool_(), pa.string()]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)]
    table = pa.table([*arrays, pa.array(range(len(rows)), pa.int64())], ["kind", "n", "x", "ok", "name", "ts"])
    for ending in (".csv", ".tsv", ".jsonl", ".parquet", ".arrow", ".arrows", ".csv.gz", ".jsonl.zst"):
        if ending.startswith(".jsonl") and not rows:
            continue  # no object, no columns
        with StandardInput(written(table, ending)):
            result = read("-", MIXED, chunk_rows=chunk, delimiter="\t" if ending == ".tsv" else None)
        assert result.to_pylist() == table.to_pylist(), ending


class StandardInput:
    def __init__(self, data: bytes) -> None:
        self._patch = pytest.MonkeyPatch()
        self._input = type("Input", (), {"buffer": io.BytesIO(data)})

    def __enter__(self) -> None:
        self._patch.setattr(sys, "stdin", self._input)

    def __exit__(self, *_: object) -> None:
        assert not self._input.buffer.closed
        self._patch.undo()


@given(st.binary(max_size=200), st.sampled_from(["csv", "jsonl", "arrow", "parquet", None]))
def test_any_bytes_are_rows_or_an_error(data: bytes, format: str | None) -> None:
    with StandardInput(data), contextlib.suppress(DataError, SchemaError):
        read("-", Schema({"T": {"k": "int64"}}, time=0, header=False, sources={"T": {"k": 0}}), format=format)


@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.zst", ".jsonl", ".parquet", ".arrow", ".arrows"])
def test_damaged_files_are_rows_or_an_error(tmp_path: Path, ending: str) -> None:
    """Never a crash of a library below, never an error of another kind."""
    rows = {"kind": ["A", "B"] * 20, "n": range(40), "x": [0.5] * 40, "ok": [True, None] * 20, "ts": range(40)}
    good = written(pa.table({**rows, "name": [f"é{k}" for k in range(40)]}), ending)
    chance = random.Random(ending)
    path = tmp_path / f"t{ending}"
    outcomes = set()
    for _ in range(60):
        data = bytearray(good)
        for _ in range(chance.choice([1, 1, 3])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path.write_bytes(data[: chance.choice([len(data), len(data), chance.randrange(len(data))])])
        try:
            with open_source(path, MIXED) as source:
                for batch in source:
                    EventBatch.from_data(MIXED, batch, StringTable(), source.origin, source.first_row)
        except (DataError, SchemaError) as error:
            assert str(path) in str(error)
            outcomes.add("error")
    assert outcomes == {"error"}


# ---------------------------------------------------------------- columns

NUMBERED = Schema({"A": {"n": "int64"}, "B": {"n": "int64"}}, time=2, type=0, time_unit="ms", codes={"A": 3, "B": 5},
                  sources={"A": {"n": 3}, "B": {"n": 3}})  # fmt: skip


@pytest.mark.parametrize("ending", [*PLAIN, ".csv.gz", ".arrow.zst", "polars"])
def test_numbers_and_codes(tmp_path: Path, ending: str) -> None:
    table = pa.table({"kind": [3, 5], "x": [0.5, None], "at": [1, 2], "n": [7, None]})
    path = tmp_path / f"t{ending}"
    path.write_bytes(b"" if ending == "polars" else written(table, ending))
    result = read(pl.from_arrow(table) if ending == "polars" else path, NUMBERED)
    assert events(result, NUMBERED) == [[10**6, 2 * 10**6], [0, 1], [7, 0]]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".arrow", "pandas"])
def test_times_as_text_in_a_zone(tmp_path: Path, ending: str) -> None:
    table = pa.table({"at": ["01/07/2018 00:00:00", "01/07/2018 00:00:00.5"], "k": [1, 2]})
    path = tmp_path / f"t{ending}"
    path.write_bytes(b"" if ending == "pandas" else written(table, ending))
    schema = Schema({"T": {"k": "int64"}}, time="at", time_format="%d/%m/%Y %H:%M:%S", time_zone="America/New_York")
    result = read(table.to_pandas() if ending == "pandas" else path, schema)
    assert events(result, schema)[0] == [1_530_417_600 * 10**9, 1_530_417_600_500_000_000]


def test_delimiter_and_encoding(tmp_path: Path) -> None:
    schema = Schema({"T": {"name": "string"}})
    for encoding in ("latin-1", "utf-16", "cp1252"):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes('ts;name\n1;"é;è"\n2;ü\n'.encode(encoding))
        assert read(path, schema, delimiter=";", encoding=encoding).to_pydict() == {"ts": [1, 2], "name": ["é;è", "ü"]}
    for wrong in ({"delimiter": ";;"}, {"delimiter": '"'}, {"encoding": "utf-9"}, {"format": "xml"}):
        with pytest.raises(ValidationError, match=r"expected (one|a name)"):
            read(path, schema, **wrong)
    with pytest.raises(DataError, match=r"latin-1\.csv: cannot be read after 0 rows.*'ascii' codec"):
        read(tmp_path / "latin-1.csv", schema, delimiter=";", encoding="ascii")


# ---------------------------------------------------------------- folders, patterns, standard input


def parts(table: pa.Table, folder: Path) -> None:
    """A folder as Spark writes them, and a bit of everything."""
    folder.mkdir()
    (folder / "_SUCCESS").write_bytes(b"")
    (folder / ".part-00000.parquet.crc").write_bytes(b"crc")
    (folder / "notes.txt").write_text("no events")
    for number, ending in enumerate([".snappy.parquet", ".snappy.parquet", ".csv", ".jsonl.gz", ".arrow"]):
        piece = table.slice(1000 * (number - 1), 1000) if number else table.slice(0, 0)  # the first without rows
        data = parquet(piece) if "parquet" in ending else written(piece, ending)
        (folder / f"part-{number:05}{ending}").write_bytes(data)
    (folder / "part-00009.csv").write_bytes(b"")
    (folder / "year=2024").mkdir()
    (folder / "year=2024" / "part-0.csv").write_bytes(csv(table.slice(4000)))


def test_folders_and_patterns(tmp_path: Path) -> None:
    table = datasets.ds1(5_000)
    parts(table, tmp_path / "events")
    assert read(tmp_path / "events").equals(table)
    assert read(str(tmp_path / "events" / "part-0*.parquet")).equals(table.slice(0, 1000))
    both = [tmp_path / "events" / "part-00001.snappy.parquet", str(tmp_path / "events" / "part-00002.csv")]
    assert read(both).equals(table.slice(0, 2000))
    with open_source(tmp_path / "events", DS1, chunk_rows=600) as source:
        places = [(Path(source.origin).name, source.first_row) for _ in source]
    assert places[:4] == [("part-00001.snappy.parquet", 0), ("part-00001.snappy.parquet", 600), ("part-00002.csv", 0),
                          ("part-00002.csv", 600)]  # fmt: skip
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match=r"none: no file in this folder ends in \.csv"):
        read(tmp_path / "none")
    with pytest.raises(DataError, match="no file is called like this"):
        read(str(tmp_path / "events" / "*.xml"))
    (tmp_path / "none" / "a.log").write_bytes(csv(table))
    assert read(tmp_path / "none", format="csv").equals(table)


def test_a_fault_in_a_folder_names_its_file(tmp_path: Path) -> None:
    for name, at in (("a.csv", 5), ("b.csv", 3)):
        (tmp_path / name).write_text(f"type,ts,ID,V\nA,{at},1,1\nB,{'x' if name == 'b.csv' else at},1,1\n")
    with pytest.raises(DataError, match=r"b\.csv, row 1, column 'ts': found 'x'"):
        read(tmp_path)


@pytest.mark.parametrize("ending", [*PLAIN, *PACKED])
def test_standard_input(tmp_path: Path, ending: str) -> None:
    table = datasets.ds1(3_000)
    (tmp_path / "q.cep").write_text(
        "STREAM TIME 'ts' UNIT us TYPE 'type'\n"
        + "".join(f"EVENT {kind} (ID int64, V int64)\n" for kind in "ABCD")
        + "QUERY q PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms\n"
    )
    command = [sys.executable, "-m", "fastcep", "run", str(tmp_path / "q.cep"), "--input", "-", "--json"]
    if ending == ".tsv":
        command += ["--delimiter", "\t"]
    done = subprocess.run(command, input=written(table, ending), capture_output=True, check=True)
    query = parse("PATTERN SEQ(A a, B b) WHERE a.ID = b.ID WITHIN 1ms", DS1)
    assert json.loads(done.stdout)["matches"] == len(Engine(query).process(table))


# ---------------------------------------------------------------- memory


class Endless(io.RawIOBase):
    """Text that is made while it is read."""

    def __init__(self, head: bytes, row: Callable[[int], bytes], rows: int) -> None:
        self._rest = head
        self._rows: Iterator[bytes] = (b"".join(map(row, range(k, k + 1000))) for k in range(0, rows, 1000))

    def readable(self) -> bool:
        return True

    def read1(self, size: int = -1) -> bytes:
        while len(self._rest) < size and (more := next(self._rows, b"")):
            self._rest += more
        part, self._rest = self._rest[:size], self._rest[size:]
        return part

    read = read1  # type: ignore[assignment]


def lines(rows: int) -> Endless:
    return Endless(b"", lambda k: b'{"type": "A", "ts": %d, "ID": 1, "V": 2, "pad": "%s"}\n' % (k, b"x" * 60), rows)


def fields(rows: int) -> Endless:
    return Endless(b"type,ts,ID,V,pad\n", lambda k: b'A,%d,1,2,"%s"\n' % (k, b"x" * 80), rows)


@pytest.mark.parametrize("make", [lines, fields])
def test_memory_does_not_grow_with_the_input(monkeypatch: pytest.MonkeyPatch, make: Callable[[int], Endless]) -> None:
    peaks = []
    for rows in (60_000, 400_000):
        monkeypatch.setattr(sys, "stdin", type("Input", (), {"buffer": make(rows)}))
        peak, before = 0, pa.total_allocated_bytes()
        tracemalloc.start()
        try:
            with open_source("-", DS1, chunk_rows=10_000) as source:
                for batch in source:
                    peak = max(peak, pa.total_allocated_bytes() - before)
                    del batch
                assert source.rows_read == rows
            peaks.append(peak + tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    assert peaks[1] < 1.5 * peaks[0] + (1 << 20)


def test_memory_of_an_arrow_stream_on_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    data = arrow_stream(datasets.ds1(1_000_000))
    monkeypatch.setattr(sys, "stdin", type("Input", (), {"buffer": io.BytesIO(data)}))
    peak, before = 0, pa.total_allocated_bytes()
    with open_source("-", DS1) as source:
        for batch in source:
            peak = max(peak, pa.total_allocated_bytes() - before)
            del batch
    assert source.rows_read == 1_000_000
    assert peak < len(data) / 4
    assert np.iinfo(np.int64).max > peak >= 0


# ---------------------------------------------------------------- real data

SHARED = Path(os.environ.get("FASTCEP_SHARED", "../shared")) / "data"
GOOGLE = Schema(
    {"Event": {"job": "int64", "task": "int64", "machine": "int64", "cpu": "float64", "user": "string"}},
    time=0, time_unit="us", header=False,
    sources={"Event": {"job": 2, "task": 3, "machine": 4, "cpu": 9, "user": 6}},
)  # fmt: skip
MINUTES = Schema(
    {"Bar": {"symbol": "string", "open": "float64", "volume": "int64"}},
    time=1, time_format="%Y%m%d%H%M", time_zone="America/New_York", header=False,
    sources={"Bar": {"symbol": 0, "open": 2, "volume": 6}},
)  # fmt: skip
CARDS = Schema(
    {"Payment": {"CUSTOMER_ID": "int64", "TX_AMOUNT": "float64", "TX_FRAUD": "bool"}}, time="TX_DATETIME"
)


@pytest.mark.shared
@pytest.mark.skipif(not SHARED.is_dir(), reason="needs the data of FASTCEP_SHARED")
@pytest.mark.parametrize(
    ("name", "schema", "rows"),
    [
        ("google2011/task_events-part-00000-of-00500.csv.gz", GOOGLE, 450_146),
        ("stocks/NASDAQ_20080201_first_10k_bars.csv.gz", MINUTES, 10_000),
        ("cardfraud/simulated_transactions_201804_201805.csv.gz", CARDS, 585_177),
    ],
)
def test_real_data_in_each_format(tmp_path: Path, name: str, schema: Schema, rows: int) -> None:
    expected = read(SHARED / name, schema)
    assert expected.num_rows == rows
    texts = pl.read_csv(SHARED / name, has_header=schema.header, infer_schema=False).to_arrow()
    if not schema.header:
        texts = texts.rename_columns([str(k) for k in range(texts.num_columns)])
    numbers = {field.name: field.type for field in expected.schema if pa.types.is_primitive(field.type)}
    numbers = {name: kind for name, kind in numbers.items() if not pa.types.is_timestamp(kind)}
    table = texts.cast(pa.schema({name: numbers.get(name, pa.string()) for name in texts.column_names}))
    for ending in (".parquet", ".arrows", ".jsonl.gz"):
        path = tmp_path / f"t{ending}"
        if ending == ".jsonl.gz":
            path.write_bytes(gzip.compress(pl.from_arrow(table).write_ndjson().encode(), 1))  # type: ignore[union-attr]
        else:
            path.write_bytes(written(table, ending))
        result = read(path, schema)
        for k, column in enumerate(expected.columns):
            if not pa.types.is_null(column.type):
                assert result.column(k).cast(column.type).equals(column), (ending, k)

