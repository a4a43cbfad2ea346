"""Reading files: formats, mapping of columns, times, errors."""

from __future__ import annotations

import gzip
import io
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.tables import CITIBIKE, SHARED, arrow_file, arrow_stream, parquet, read

from fastcep import datasets
from fastcep.errors import DataError, SchemaError, ValidationError
from fastcep.events import EventBatch, Schema, StringTable
from fastcep.io import open_source

TRIPS = Schema(
    {"Trip": {"bike": "int64", "fare": "float64", "member": "bool", "to": "string"}},
    time="starttime",
    sources={"Trip": {"bike": "bike id"}},
)
TEXT = """unused,starttime,bike id,fare,member,to
x,2018-05-01 07:30:00,7,1.5,true,"Pier, 3"
y,2018-05-01 07:30:00.250,,,False,
z,2018-05-01T09:00:00Z,9,2,1,"two
lines"
"""
ROWS = {
    "starttime": [1525159800 * 10**9, 1525159800 * 10**9 + 250_000_000, 1525165200 * 10**9],
    "bike id": [7, None, 9],
    "fare": [1.5, None, 2.0],
    "member": [True, False, True],
    "to": ["Pier, 3", None, "two\nlines"],
}
MICRO = Schema(
    {kind: {"ID": "int64", "V": "int64"} for kind in "ABCD"},
    type=0,
    time=3,
    time_unit="us",
    header=False,
    sources={kind: {"ID": 1, "V": 2} for kind in "ABCD"},
)


def write(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def plain(table: pa.Table) -> dict[str, list[object]]:
    return table.set_column(0, "starttime", table["starttime"].cast(pa.int64())).to_pydict()


def as_csv(path: Path) -> Path:
    return write(path / "trips.csv", TEXT)


def as_gzip(path: Path) -> Path:
    return write(path / "trips.csv.gz", gzip.compress(TEXT.encode()))


def table() -> pa.Table:
    arrays = {name: pa.array(values) for name, values in ROWS.items()}
    return pa.table({"x": [1, 2, 3], **arrays, "starttime": arrays["starttime"].cast(pa.timestamp("ns", "UTC"))})


def as_parquet(path: Path) -> Path:
    return write(path / "trips.parquet", parquet(table(), 2))


def as_arrow(path: Path) -> Path:
    return write(path / "trips.arrow", arrow_file(table(), 2))


def as_stream(path: Path) -> Path:
    return write(path / "trips.arrow", arrow_stream(table(), 2))


@pytest.mark.parametrize("make", [as_csv, as_gzip, as_parquet, as_arrow, as_stream])
def test_formats_read_the_same(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path)
    result = read(path, TRIPS)
    assert result.column_names == ["starttime", "bike id", "fare", "member", "to"]
    assert result.schema.field("starttime").type == pa.timestamp("ns", "UTC")
    assert plain(result) == ROWS
    batch = EventBatch.from_data(TRIPS, result, StringTable())
    assert batch.time.tolist() == ROWS["starttime"]


@pytest.mark.parametrize("chunk", [1, 2, 7, 65_536])
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_chunks(tmp_path: Path, chunk: int, ending: str) -> None:
    n = 1000 if chunk < 100 else 140_000
    path = datasets.make("ds1", tmp_path / f"ds1.{ending}", events=n, header=True)
    schema = Schema({kind: {"ID": "int64", "V": "int64"} for kind in "ABCD"}, type="type", time="ts", time_unit="us")
    source = open_source(path, schema, chunk_rows=chunk)
    assert (source.path, source.rows_read) == (str(path), 0)
    batches = list(source)
    assert source.rows_read == n
    sizes = [batch.num_rows for batch in batches]
    assert set(sizes[:-1]) <= {chunk} and 0 < sizes[-1] <= chunk
    assert pa.Table.from_batches(batches).equals(datasets.ds1(n))


def test_numbers_instead_of_names(tmp_path: Path) -> None:
    path = write(tmp_path / "ds1.csv", "A,3,9,10\nB,,1,25\n")
    only = Schema({kind: {"V": "int64"} for kind in "AB"}, type=0, time=3, time_unit="us", header=False,
                  sources={kind: {"V": 2} for kind in "AB"})  # fmt: skip
    result = read(path, only)
    assert result.num_columns == 4 and result.column(1).type == pa.null()
    batch = EventBatch.from_data(only, result, StringTable())
    assert batch.time.tolist() == [10_000, 25_000]
    assert batch.type.tolist() == [0, 1]
    assert batch.columns[0].tolist() == [9, 1]


def test_numbers_with_header_and_codes(tmp_path: Path) -> None:
    schema = Schema({"Su": {"job": "int64"}, "Sc": {"job": "int64"}}, time="time", type=2, time_unit="us",
                    codes={"Su": 0, "Sc": 1}, sources={"Su": {"job": "job"}, "Sc": {"job": "job"}})  # fmt: skip
    text = "time,job,kind,rest\n5,100,1,a\n6,101,0,b\n"
    batch = EventBatch.from_data(schema, read(write(tmp_path / "g.csv", text), schema), StringTable())
    assert batch.type.tolist() == [1, 0] and batch.columns[0].tolist() == [100, 101]
    frame = pa.table({"time": [5, 6], "job": [100, 101], "kind": pa.array([1, 0], pa.int8()), "rest": ["a", "b"]})
    pq.write_table(frame, tmp_path / "g.parquet")
    batch = EventBatch.from_data(schema, read(tmp_path / "g.parquet", schema), StringTable())
    assert batch.type.tolist() == [1, 0] and batch.columns[0].tolist() == [100, 101]


def test_no_rows(tmp_path: Path) -> None:
    assert list(open_source(write(tmp_path / "none.csv", ""), MICRO)) == []
    assert list(open_source(write(tmp_path / "head.csv", TEXT.splitlines()[0] + "\n"), TRIPS)) == []
    with pytest.raises(DataError, match="is empty, expected a line with the column names"):
        open_source(tmp_path / "none.csv", TRIPS)


def test_byte_order_mark_and_line_ends(tmp_path: Path) -> None:
    text = "\ufeff" + '"ts","k"\r\n1,"5"\r\n2,6\r\n'
    schema = Schema({"T": {"k": "int64"}})
    assert read(write(tmp_path / "t.csv", text), schema).to_pydict() == {"ts": [1, 2], "k": [5, 6]}


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    class Input:
        buffer = io.BytesIO(TEXT.encode())

    monkeypatch.setattr(sys, "stdin", Input)
    assert plain(read("-", TRIPS)) == ROWS
    assert not Input.buffer.closed
    Input.buffer = io.BytesIO(TEXT.replace("9,2,1", "nine,2,1").encode())
    with pytest.raises(DataError, match="standard input, line 4, row 2, column 'bike id': found 'nine'"):
        read("-", TRIPS)


@pytest.mark.parametrize(
    ("format", "zone", "value", "expected"),
    [
        (None, None, "1970-01-02", 86_400 * 10**9),
        (None, None, " 1970-01-01 00:00:01.123456789 ", 1_123_456_789),
        (None, "America/New_York", "2018-07-01 00:00:00", 1_530_417_600 * 10**9),
        (None, "America/New_York", "2018-07-01T00:00:00+00:00", 1_530_403_200 * 10**9),
        ("%Y-%m-%d %H:%M:%S", "America/New_York", "2018-01-01 00:00:00.5410", 1_514_782_800_541_000_000),
        ("%Y-%m-%d %H:%M:%S.%f", None, "1970-01-01 00:00:02", 2 * 10**9),
        ("%d/%m/%Y %H:%M:%S", None, "2/1/1970 00:00:00.5", 86_400_500_000_000),
        ("%m/%d/%Y %H:%M", None, "1/2/1970 00:01", 86_460 * 10**9),
        ("%Y%m%d%H%M", None, "197001020000", 86_400 * 10**9),
        ("%Y-%m-%d %H:%M:%S%z", None, "1970-01-01 01:00:00+0100", 0),
        ("%H:%M:%S.%f %d.%m.%Y", "Europe/Paris", "01:00:00.25 01.01.1970", 250_000_000),
        # in a repeated hour the first occurrence, in a skipped hour the moment of the change
        (None, "America/New_York", "2018-11-04 01:30:00", 1_541_309_400 * 10**9),
        (None, "America/New_York", "2018-03-11 02:30:00", 1_520_751_600 * 10**9),
    ],
)
def test_times(tmp_path: Path, format: str | None, zone: str | None, value: str, expected: int) -> None:
    schema = Schema({"T": {"k": "int64"}}, time="at", time_format=format, time_zone=zone)
    path = write(tmp_path / "t.csv", f"at,k\n{value},1\n{value},2\n")
    assert EventBatch.from_data(schema, read(path, schema), StringTable()).time.tolist() == [expected] * 2
    pq.write_table(pa.table({"at": pa.array([value]).dictionary_encode(), "k": [1]}), tmp_path / "t.parquet")
    result = read(tmp_path / "t.parquet", schema)
    assert EventBatch.from_data(schema, result, StringTable()).time.tolist() == [expected]


def test_a_local_time_outside_of_int64_names_its_row(tmp_path: Path) -> None:
    path = tmp_path / "old.csv"
    path.write_text("ts\n1700-01-01\n1677-09-21 00:12:44\n")
    with pytest.raises(DataError, match=r"old.csv, line 3, row 1, column 'ts': found '1677-09-21 00:12:44', expected"):
        list(open_source(path, Schema({"A": {}}, time_zone="Pacific/Auckland")))


def test_zoneless_timestamps_are_local_to_the_zone_of_the_schema(tmp_path: Path) -> None:
    frame = pa.table({"ts": pa.array([0], pa.timestamp("ms")), "k": [1]})
    pq.write_table(frame, tmp_path / "t.parquet")
    for zone, expected in ((None, 0), ("America/New_York", 5 * 3600 * 10**9)):
        schema = Schema({"T": {"k": "int64"}}, time_zone=zone)
        batch = EventBatch.from_data(schema, read(tmp_path / "t.parquet", schema), StringTable())
        assert batch.time.tolist() == [expected]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("9,2,1", "nine,2,1", r"row 2, column 'bike id': found 'nine', expected int64; fix"),
        ("9,2,1", "9,two,1", r"row 2, column 'fare': found 'two', expected float64"),
        ("False", "no", r"row 1, column 'member': found 'no', expected bool"),
        ("07:30:00.250", "27:30", r"row 1, column 'starttime': found '2018-05-01 27:30', expected an ISO 8601 time"),
        ("2018-05-01 07:30:00,7", "2018-02-30 07:30:00,7", r"row 0, column 'starttime': found '2018-02-30"),
        (",,False,", ",,False,a,b", r"row 1: found 7 fields, expected 6"),
    ],
)
@pytest.mark.parametrize("zipped", [False, True])
def test_bad_values(tmp_path: Path, old: str, new: str, message: str, zipped: bool) -> None:
    text = TEXT.replace(old, new).encode()
    assert text != TEXT.encode()
    path = write(tmp_path / ("t.csv.gz" if zipped else "t.csv"), gzip.compress(text) if zipped else text)
    with pytest.raises(DataError, match=r"t\.csv.*, " + message):
        read(path, TRIPS)


@pytest.mark.parametrize("at", [0, 1, 99_998, 199_999])
def test_the_row_of_a_bad_value_in_a_large_file(tmp_path: Path, at: int) -> None:
    rows = [f"A,1,2,{k}" for k in range(200_000)]
    rows[at] = f"A,x,2,{at}"
    with pytest.raises(DataError, match=f"row {at}, column 1: found 'x', expected int64"):
        read(write(tmp_path / "t.csv", "\n".join(rows)), MICRO)
    rows[at] = f"A,1,{at}"
    with pytest.raises(DataError, match=f"row {at}: found 3 fields, expected 4") if at else pytest.raises(SchemaError):
        read(write(tmp_path / "t.csv", "\n".join(rows)), MICRO)


@pytest.mark.parametrize(
    "value", ["31/02/2018 10:00:00", "29/02/2019 10:00:00", "31/04/2018 10:00:00", "1/13/2018", ""]
)
def test_days_that_do_not_exist(tmp_path: Path, value: str) -> None:
    schema = Schema({"T": {"k": "int64"}}, time="at", time_format="%d/%m/%Y %H:%M:%S")
    path = write(tmp_path / "t.csv", f"at,k\n29/02/2020 10:00:00,1\n{value},2\n")
    with pytest.raises(DataError, match="row 1, column 'at'"):
        EventBatch.from_data(schema, read(path, schema), StringTable(), "t.csv")


def test_missing_columns(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", TEXT.replace("bike id", "bike_id"))
    with pytest.raises(SchemaError, match=r"no column 'bike id' for Trip\.bike; did you mean 'bike_id'\?.*starttime"):
        open_source(path, TRIPS)
    pq.write_table(table().drop_columns(["starttime"]), tmp_path / "t.parquet")
    with pytest.raises(SchemaError, match="no column 'starttime' for the time"):
        open_source(tmp_path / "t.parquet", TRIPS)
    with pytest.raises(SchemaError, match="no column number 3 for the time: found 2 columns"):
        open_source(write(tmp_path / "n.csv", "A,1\n"), MICRO)
    with pytest.raises(SchemaError, match="2 columns are called 'starttime'"):
        open_source(write(tmp_path / "d.csv", TEXT.replace("unused", "starttime")), TRIPS)
    for mark in ";", "\t", "|":
        with pytest.raises(SchemaError, match=r"give the delimiter, which seems to be .* \(--delimiter\)"):
            open_source(write(tmp_path / "s.csv", TEXT.replace(",", mark)), TRIPS)
    twice = Schema({"T": {"at": "string"}}, time="ts", sources={"T": {"at": "ts"}})
    with pytest.raises(SchemaError, match=r"declared as time for the time and as string for T\.at"):
        open_source(write(tmp_path / "w.csv", "ts\n2018-01-01\n"), twice)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    write(tmp_path / "trips.csv", TEXT)
    with pytest.raises(DataError, match=r"trip\.csv: no such file; did you mean .*trips\.csv"):
        open_source(tmp_path / "trip.csv", TRIPS)
    with pytest.raises(DataError, match="no such file; check the path"):
        open_source(tmp_path / "nowhere" / "a.csv", TRIPS)
    with pytest.raises(ValidationError, match=r"expected a name that ends in \.csv"):
        open_source(tmp_path / "trips.xlsx", TRIPS)
    with pytest.raises(ValidationError, match="chunk_rows=0"):
        open_source(tmp_path / "trips.csv", TRIPS, chunk_rows=0)
    (tmp_path / "folder.csv").mkdir()
    with pytest.raises(DataError, match="no file in this folder ends in"):
        open_source(tmp_path / "folder.csv", TRIPS)
    with pytest.raises(DataError, match=r"latin\.csv, line 2, row 0, column 'to': found .*expected UTF-8 text"):
        read(write(tmp_path / "latin.csv", TEXT.encode().replace(b"Pier", b"Pi\xe8r")), TRIPS)
    with pytest.raises(DataError, match="column names are not UTF-8; give the encoding"):
        open_source(write(tmp_path / "head.csv", TEXT.encode().replace(b"fare", b"f\xe8re")), TRIPS)
    late = TEXT.encode().replace(b"Pier", b"Pier" * 20_000 + b"\xe8")
    with pytest.raises(DataError, match=r"late\.csv, line 2, row 0, column 'to': found .*expected UTF-8 text"):
        read(write(tmp_path / "late.csv", late), TRIPS)


@pytest.mark.parametrize("make", [as_gzip, as_parquet, as_arrow])
def test_broken_files(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    path = make(tmp_path)
    data = path.read_bytes()
    with pytest.raises(DataError, match="cannot be read after 0 rows"):
        read(write(path, data[: len(data) // 2]), TRIPS)
    with pytest.raises(DataError, match="cannot be read after 0 rows"):
        read(write(path, b"no such thing at all, only text"), TRIPS)


@pytest.mark.thorough
def test_large_truncated_gzip(tmp_path: Path) -> None:
    text = "\n".join(f"A,{k * 7919 % 10_007},{k % 11},{k}" for k in range(300_000))
    data = gzip.compress(text.encode())
    with pytest.raises(DataError, match=r"cut\.csv\.gz: cannot be read after [1-9]\d* rows"):
        read(write(tmp_path / "cut.csv.gz", data[: len(data) * 9 // 10]), MICRO)


@pytest.mark.shared
@pytest.mark.skipif(not (SHARED / "citibike").is_dir(), reason="needs the Citi Bike files of FASTCEP_SHARED")
def test_citibike() -> None:
    rows = {"201805": 34_456, "201812": 20_205, "202004": 9_268}
    for month, expected in rows.items():
        source = open_source(SHARED / f"citibike/JC-{month}-citibike-tripdata.csv.gz", CITIBIKE)
        total = sum(len(EventBatch.from_data(CITIBIKE, batch, StringTable())) for batch in source)
        assert total == source.rows_read == expected


def test_strings_with_descending_offsets_are_damage() -> None:
    offsets = pa.array([0, 3, 1, 4], pa.int32()).buffers()[1]
    names = pa.Array.from_buffers(pa.string(), 3, [None, offsets, pa.py_buffer(b"ABCD")])
    data = pa.RecordBatch.from_arrays([pa.array([1, 2, 3]), names], ["ts", "to"])
    with pytest.raises(DataError, match="cannot be read after 0 rows"):
        list(open_source(data, Schema({"A": {"to": "string"}})))
