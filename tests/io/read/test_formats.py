"""All formats, folders and objects give the same events."""

from __future__ import annotations

import contextlib
import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.feather
import pyarrow.ipc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.tables import DS1, PACKED, PLAIN, SHARED, StandardInput, read, written

from fastcep import Engine, datasets, parse
from fastcep.errors import DataError, SchemaError, ValidationError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.io import open_source

ALIASES = (".ndjson", ".ipc", ".tsv")  # endings of formats that other endings cover


@pytest.fixture(scope="module")
def million() -> pa.Table:
    return datasets.ds1(1_000_000)


@pytest.mark.thorough
@pytest.mark.parametrize("ending", [ending for ending in (*PLAIN, *PACKED) if ending not in ALIASES])
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
    matches = Engine(query).process(table)
    assert Engine(query).process(OBJECTS[kind](table)).to_arrow().equals(matches.to_arrow())


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


def test_nonfinite_numbers() -> None:
    """NaN and the infinities are read as the writers spell them; finite numbers too large for float64 are rejected."""
    schema = Schema({"T": {"x": "float64"}}, time="ts")
    csv = b"ts,x\n1,nan\n1,NaN\n1,inf\n1,-inf\n1,Infinity\n"
    words = (b'"NaN"', b"NaN", b'"Infinity"', b'"-Infinity"', b"Infinity")
    for data, form in ((csv, "csv"), (b"".join(b'{"ts": 1, "x": %s}\n' % word for word in words), "jsonl")):
        with StandardInput(data):
            table = read("-", schema, format=form)
        assert [str(x) for x in table["x"].to_pylist()] == ["nan", "nan", "inf", "-inf", "inf"]
    for data, form in ((b"ts,x\n1,inf\n1,-1e309\n", "csv"), (b'{"ts":1}\n{"ts":1,"x":1e309}\n', "jsonl")):
        with StandardInput(data), pytest.raises(DataError, match=r"row 1, column 'x': found .*309.*, expected"):
            read("-", schema, format=form)


def test_nonfinite_words_in_other_columns() -> None:
    """Only the value of a float64 column is converted to a number; the same text elsewhere in the line is not."""
    schema = Schema({"T": {"x": "float64", "s": "string", 'a"x': "string"}}, time="ts")
    rows = [
        {"ts": 1, "x": "NaN", "s": "NaN", 'a"x': "Infinity"},
        {"ts": 1, "x": 1.5, "s": '"x": "NaN"', 'a"x': ', "x": "NaN"'},
        {"ts": 1, "s": '\\"x": "NaN"', "more": {"x": "NaN"}},
    ]
    for extra in (b"", b"\nnull"):  # the fast path, and the slow path line by line
        with StandardInput(b"\n".join(json.dumps(row).encode() for row in rows) + extra):
            source = open_source("-", schema, format="jsonl")
            with source, contextlib.suppress(DataError):
                result = [row for batch in source for row in batch.to_pylist()]
        assert [str(row["x"]) for row in result] == ["nan", "1.5", "None"]
        assert [(row["s"], row['a"x']) for row in result] == [(row["s"], row.get('a"x')) for row in rows]


def test_objects_without_a_table() -> None:
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
    TEXT.filter(bool) | st.none(),  # CSV cannot distinguish an empty string from null
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
    for ending in (*PLAIN, *PACKED):
        if "json" in ending and not rows:
            continue  # without an object there are no columns
        with StandardInput(written(table, ending)):
            result = read("-", MIXED, chunk_rows=chunk, delimiter="\t" if ending == ".tsv" else None)
        assert result.to_pylist() == table.to_pylist(), ending


@given(st.binary(max_size=200), st.sampled_from(["csv", "jsonl", "arrow", "parquet", None]))
def test_any_bytes_are_rows_or_an_error(data: bytes, format: str | None) -> None:
    with StandardInput(data), contextlib.suppress(DataError, SchemaError):
        read("-", Schema({"T": {"k": "int64"}}, time=0, header=False, sources={"T": {"k": 0}}), format=format)


@pytest.mark.sample(3)
@pytest.mark.parametrize("ending", [".csv", ".csv.gz", ".csv.zst", ".jsonl", ".parquet", ".arrow", ".arrows"])
def test_damaged_files_are_rows_or_an_error(tmp_path: Path, ending: str) -> None:
    """No library crashes, and every error is a DataError or SchemaError."""
    rows = {"kind": ["A", "B"] * 20, "n": range(40), "x": [0.5] * 40, "ok": [True, None] * 20, "ts": range(40)}
    undamaged = written(pa.table({**rows, "name": [f"é{k}" for k in range(40)]}), ending)
    generator = random.Random(ending)
    path = tmp_path / f"t{ending}"
    outcomes = set()
    for _ in range(60):
        data = bytearray(undamaged)
        for _ in range(generator.choice([1, 1, 3])):
            data[generator.randrange(len(data))] = generator.randrange(256)
        path.write_bytes(data[: generator.choice([len(data), len(data), generator.randrange(len(data))])])
        try:
            with open_source(path, MIXED) as source:
                for batch in source:
                    EventBatch.from_data(MIXED, batch, StringTable(), source.origin, rows=source.rows)
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


@pytest.mark.parametrize("ending", [".csv", ".parquet", ".arrow", ".arrows.gz"])
def test_two_columns_of_one_name_by_number(tmp_path: Path, ending: str) -> None:
    table = pa.table([pa.array([1, 2]), pa.array([5, 6]), pa.array([7, 8])], names=["ts", "k", "k"])
    path = tmp_path / f"t{ending}"
    path.write_bytes(written(table, ending))
    schema = Schema({"T": {"k": "int64"}}, sources={"T": {"k": 2}})
    assert events(read(path, schema), schema) == [[1, 2], [0, 0], [7, 8]]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet", ".arrow", "pandas"])
def test_times_as_text_in_a_zone(tmp_path: Path, ending: str) -> None:
    table = pa.table({"at": ["01/07/2018 00:00:00", "01/07/2018 00:00:00.5"], "k": [1, 2]})
    path = tmp_path / f"t{ending}"
    path.write_bytes(b"" if ending == "pandas" else written(table, ending))
    schema = Schema({"T": {"k": "int64"}}, time="at", time_format="%d/%m/%Y %H:%M:%S", time_zone="America/New_York")
    result = read(table.to_pandas() if ending == "pandas" else path, schema)
    assert events(result, schema)[0] == [1_530_417_600 * 10**9, 1_530_417_600_500_000_000]


@pytest.mark.parametrize("ending", [".csv", ".jsonl", ".parquet"])
def test_digits_with_a_format(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"t{ending}"
    path.write_bytes(written(pa.table({"at": [197001020000, 197001020130], "k": [1, 2]}), ending))
    schema = Schema({"T": {"k": "int64"}}, time="at", time_format="%Y%m%d%H%M")
    assert events(read(path, schema), schema)[0] == [86_400 * 10**9, 91_800 * 10**9]


def test_delimiter_and_encoding(tmp_path: Path) -> None:
    schema = Schema({"T": {"name": "string"}})
    for encoding in ("latin-1", "utf-16", "cp1252"):
        path = tmp_path / f"{encoding}.csv"
        path.write_bytes('ts;name\n1;"é;è"\n2;ü\n'.encode(encoding))
        assert read(path, schema, delimiter=";", encoding=encoding).to_pydict() == {"ts": [1, 2], "name": ["é;è", "ü"]}
    for option, value in (("delimiter", ";;"), ("delimiter", '"'), ("encoding", "utf-9"), ("encoding", "hex"),
                          ("format", "xml")):  # fmt: skip
        with pytest.raises(ValidationError, match=r"expected (one|a name)"):
            read(path, schema, **{option: value})
    with pytest.raises(DataError, match=r"latin-1\.csv: cannot be read after 0 rows.*'ascii' codec"):
        read(tmp_path / "latin-1.csv", schema, delimiter=";", encoding="ascii")


# ---------------------------------------------------------------- real data

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
