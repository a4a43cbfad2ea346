"""The format of snapshots: packed data comes back, and no other data is accepted."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from fastcep.engine.state import container
from fastcep.engine.state.container import FORMAT, MAGIC, pack, unpack
from fastcep.engine.state.ipc_table import write_table
from fastcep.errors import SnapshotError
from fastcep.events.convert import from_texts

GOLDEN = Path(__file__).resolve().parents[2] / "golden"
DTYPES = ("int64", "int32", "uint8", "uint16", "float64", "bool")
# Also the content of the golden files: do not change these.
HEADER = {"queries": ["PATTERN SEQ(A a) WHERE a.n = 'ä'"], "position": 2**53 + 1, "none": None}
TABLES: dict[str, dict[str, Any]] = {
    "rows": {name: np.arange(5).astype(name) for name in DTYPES},
    "texts": {"text": from_texts(["", "one", "zwölf"]), "code": np.array([2, 1, 0])},
}
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def same(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Return True if two sets of tables are equal, bit by bit, in the same order of columns."""
    return list(left) == list(right) and all(
        list(left[name]) == list(right[name]) and all(map(equal, left[name].values(), right[name].values()))
        for name in left
    )


def equal(left: Any, right: Any) -> bool:
    if isinstance(left, pa.Array):
        return isinstance(right, pa.Array) and left.type == right.type and left.to_pylist() == right.to_pylist()
    return left.dtype == right.dtype and left.tobytes() == right.tobytes()


def refused(data: Any, expected: str = "") -> str:
    with pytest.raises(SnapshotError) as caught:
        unpack(data, "a.snapshot")
    message = str(caught.value)
    assert message.startswith("a.snapshot: ") and expected in message
    return message


def sealed(data: bytes, header: Any = None, number: int = FORMAT, flags: int = 0, whole: int | None = None) -> bytes:
    """Return the snapshot with another header, version or length, and a correct checksum of these."""
    _, _, _, length, size = container._START.unpack_from(data)
    text = data[24 : 24 + length] if header is None else json.dumps(header).encode()
    if header is not None:
        text += b" " * (-len(text) % 8)
        size += len(text) - length
    start = container._START.pack(MAGIC, number, flags, len(text), size if whole is None else whole) + text
    return start + struct.pack("<Q", xxhash.xxh64_intdigest(start)) + data[32 + length :]


def parts_of(data: bytes) -> list[dict[str, Any]]:
    length = container._START.unpack_from(data)[3]
    return json.loads(data[24 : 24 + length])["parts"]  # type: ignore[no-any-return]


def with_part(stream: bytes, **fields: Any) -> bytes:
    """Return a snapshot whose only part is this stream, with correct checksums."""
    part = {"name": "rows", "size": len(stream), "rows": 1, "xxh64": xxhash.xxh64_hexdigest(stream)} | fields
    size = len(sealed(pack({}, {}), {"parts": [part]})) + len(stream)
    return sealed(pack({}, {}), {"parts": [part]}, whole=size) + stream


# ------------------------------------------------------------------------------------------------- there and back


def test_what_is_packed_comes_back() -> None:
    data = pack(HEADER, TABLES)
    assert data.startswith(MAGIC) and len(data) % 8 == 0
    header, tables = unpack(data)
    assert header == HEADER and same(tables, TABLES)
    for column in [*tables["rows"].values(), tables["texts"]["code"]]:
        assert not column.flags.writeable and column.flags.aligned and column.flags.c_contiguous


def test_numbers_are_views() -> None:
    data = pack(HEADER, TABLES)
    whole = np.frombuffer(data, np.uint8)
    _, tables = unpack(data)
    views = {name: np.shares_memory(column, whole) for name, column in tables["rows"].items()}
    assert views == {name: name != "bool" for name in DTYPES}


@pytest.mark.parametrize("offset", [1, 3, 8])
def test_bytes_at_any_address(offset: int) -> None:
    data = memoryview(b"x" * offset + pack(HEADER, TABLES))[offset:]
    _, tables = unpack(data)
    assert same(tables, TABLES)
    assert all(column.flags.aligned and not column.flags.writeable for column in tables["rows"].values())


def test_a_bytearray_is_not_written_through() -> None:
    data = bytearray(pack(HEADER, TABLES))
    _, tables = unpack(data)
    with pytest.raises(ValueError, match="read-only"):
        tables["rows"]["int64"][0] = 1
    assert same(tables, TABLES)


@st.composite
def any_tables(draw: st.DrawFn) -> dict[str, dict[str, Any]]:
    tables = {}
    for name in draw(st.lists(TEXTS, max_size=3, unique=True)):
        rows = draw(st.integers(0, 20))
        columns: dict[str, Any] = {}
        for column in draw(st.lists(TEXTS, max_size=4, unique=True)):
            kind = draw(st.sampled_from([*DTYPES, "string"]))
            if kind == "string":
                texts = draw(st.lists(st.none() | TEXTS, min_size=rows + 2, max_size=rows + 2))
                columns[column] = pa.array(texts, pa.string())[1 : rows + 1]
            else:
                columns[column] = np.frombuffer(draw(st.binary(min_size=rows * 8, max_size=rows * 8)), np.int64)
                columns[column] = columns[column].astype(kind)
        tables[name] = columns
    return tables


@given(any_tables(), st.dictionaries(st.text(max_size=3), st.text(max_size=3) | st.integers() | st.none(), max_size=3))
def test_anything_comes_back(tables: dict[str, dict[str, Any]], header: dict[str, Any]) -> None:
    header.pop("parts", None)
    data = pack(header, tables)
    kept = {name: columns for name, columns in tables.items() if columns and len(next(iter(columns.values())))}
    found, back = unpack(data)
    assert found == header and same(back, kept)
    assert pack(found, back) == data


def test_tables_without_rows_are_left_out() -> None:
    data = pack({}, {"none": {}, "empty": {"a": np.zeros(0, int), "s": from_texts([])}})
    assert unpack(data) == ({}, {}) and len(data) < 64


def test_strided_and_sliced_columns() -> None:
    columns = {"a": np.arange(9)[::2], "b": (np.arange(9) > 3)[::2], "s": from_texts(list("abcdefghi"))[2:7]}
    _, tables = unpack(pack({}, {"t": columns}))
    assert same(tables, {"t": {**columns, "a": np.arange(9)[::2].copy()}})


def test_large_tables() -> None:
    tables = {"t": {"a": np.arange(100_000), "s": from_texts([str(k) for k in range(100_000)])}}
    assert same(unpack(pack({}, tables))[1], tables)


def test_every_part_is_a_stream_of_arrow() -> None:
    data = pack(HEADER, TABLES)
    at = 32 + container._START.unpack_from(data)[3]
    assert at % 8 == 0
    for part in parts_of(data):
        with pa.ipc.open_stream(data[at : at + part["size"]]) as reader:
            table = reader.read_all()
        table.validate(full=True)
        columns = TABLES[part["name"]]
        assert table.num_rows == part["rows"] == len(next(iter(columns.values())))
        assert table.to_pydict() == {name: list(np.asarray(column)) for name, column in columns.items()}
        at += part["size"]
    assert at == len(data)


@pytest.mark.parametrize(
    ("columns", "error", "expected"),
    [
        ({"a": np.zeros(2), "b": np.zeros(3)}, ValueError, "found 3 rows in column 'b', expected 2"),
        ({"a": np.zeros(0), "b": np.zeros(3)}, ValueError, "found 3 rows in column 'b', expected 0"),
        ({"a": np.zeros((2, 2))}, ValueError, "found 2 dimensions in column 'a'"),
        ({"a": np.zeros(2, ">i8")}, TypeError, "found >i8 as column 'a'"),
        ({"a": np.zeros(2, np.float32)}, TypeError, "found float32 as column 'a'"),
        ({"a": [1]}, TypeError, "found list as column 'a'"),
        ({"a": pa.array([1])}, TypeError, "found an Arrow array of int64, expected one of string"),
    ],
)
def test_tables_that_cannot_be_packed(columns: dict[str, Any], error: type[Exception], expected: str) -> None:
    with pytest.raises(error, match=expected):
        pack({}, {"t": columns})


@pytest.mark.parametrize("header", [{"parts": []}, {"a": float("nan")}, {"a": np.int64(1)}])
def test_headers_that_cannot_be_packed(header: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        pack(header, {})


# ------------------------------------------------------------------------------------------------- what is refused

SMALL = pack({"q": "A"}, {"rows": {"a": np.arange(3), "b": np.arange(3) > 1}, "t": {"s": from_texts("xy")}})


def test_every_flipped_bit_is_found() -> None:
    unpack(SMALL)
    damaged = bytearray(SMALL)
    for at in range(len(SMALL)):
        for bit in range(8):
            damaged[at] ^= 1 << bit
            with pytest.raises(SnapshotError):
                unpack(damaged)
            damaged[at] ^= 1 << bit
    assert damaged == SMALL


def test_every_truncation_is_found() -> None:
    for length in range(len(SMALL)):
        message = refused(SMALL[:length])
        if length:
            assert "truncated" in message and f"has {length:,} of " in message
        if length >= 32:
            assert f"of {len(SMALL):,} bytes" in message


@given(any_tables(), st.data())
def test_damage_anywhere_is_found(tables: dict[str, dict[str, Any]], data: st.DataObject) -> None:
    whole = pack(HEADER, tables)
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = bytearray(whole)
    damaged[at] ^= data.draw(st.integers(1, 255))
    refused(bytes(damaged))
    refused(whole[:at])
    refused(whole + data.draw(st.binary(min_size=1)))
    end = data.draw(st.integers(at, len(whole)))
    if end > at:
        refused(whole[:at] + whole[end:])


@given(st.binary(max_size=200), st.sampled_from([b"", MAGIC, MAGIC + b"\1\0\0\0", SMALL[:24], SMALL[:-8]]))
def test_garbage_is_refused(garbage: bytes, first: bytes) -> None:
    if first + garbage != SMALL:
        refused(first + garbage)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", "is empty, expected a snapshot"),
        (b"PAR1\0", f"is not a snapshot: found {b'PAR1' + bytes(1)!r} as its first bytes, expected {MAGIC!r}"),
        (SMALL[:5], "is truncated: has 5 of at least 32 bytes"),
        (SMALL[:40], f"is truncated: has 40 of {len(SMALL):,} bytes; copy all of it"),
        (SMALL + b"\0", f"has {len(SMALL) + 1:,} bytes, expected {len(SMALL):,}: something was written after"),
        (SMALL[:30] + b"~" + SMALL[31:], "its header is damaged: found the checksum "),
        (SMALL[:8] + b"\3" + SMALL[9:], "its header is damaged: found the checksum "),
        (SMALL[:12] + b"\xff\xff\xff\x00" + SMALL[16:], "its header is damaged: it gives itself 16,777,215 bytes"),
        (SMALL[:-9] + b"~" + SMALL[-8:], "part 't' is damaged: found the checksum "),
        ("text", "found str, expected the bytes of a snapshot"),
        (None, "found NoneType, expected the bytes of a snapshot"),
        (memoryview(SMALL)[::2], "found memoryview, expected the bytes of a snapshot"),
    ],
)
def test_errors(data: Any, expected: str) -> None:
    refused(data, expected)


@pytest.mark.parametrize(
    "mangled",
    [
        SMALL.replace(b"\r\n", b"\n"),
        SMALL.replace(b"\n", b"\r\n"),
        SMALL.replace(b"\n", b"\r"),
        SMALL.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n"),
        bytes(byte & 127 for byte in SMALL),
        SMALL.decode("latin-1").encode(),
        SMALL.decode("ascii", "replace").encode(),
        SMALL.decode("ascii", "replace").encode("ascii", "replace"),
    ],
)
def test_mangled_as_text(mangled: bytes) -> None:
    refused(mangled, "read, written or sent as text")


def test_other_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    newer = sealed(SMALL, number=3)
    monkeypatch.setattr(container, "version", lambda name: "0.1.0")
    refused(newer, "format 3; this fastcep 0.1.0 reads 1 to 1: read it with the version that wrote it or a newer one")
    monkeypatch.setattr(container, "_READERS", dict.fromkeys((2, 3, 4), container._read_1))
    refused(SMALL, " reads 2 to 4: restore it with an older fastcep that reads format 1, and take a snapshot there")
    assert same(unpack(newer)[1], unpack(sealed(SMALL, number=4))[1])


# ------------------------------------------------------------- what has right checksums, but was never written by pack

BATCH = pa.RecordBatch.from_arrays([pa.array([7])], names=["a"])


def stream(*batches: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return sink.getvalue().to_pybytes()


def test_any_stream_of_one_batch_is_read() -> None:
    for batch in (BATCH, BATCH.replace_schema_metadata({"other": "writer"})):
        assert unpack(with_part(stream(batch)))[1]["rows"]["a"].tolist() == [7]


@pytest.mark.parametrize("little", [True, False])
def test_a_stream_in_the_other_byte_order(little: bool) -> None:
    """Made by hand: pyarrow does not write one."""
    schema = bytearray(pa.schema([pa.field("a", pa.int64())]).serialize())
    table = 8 + struct.unpack_from("<I", schema, 8)[0]  # Message
    vtable = table - struct.unpack_from("<i", schema, table)[0]
    at = table + struct.unpack_from("<H", schema, vtable + 8)[0]  # its third field: the header
    table = at + struct.unpack_from("<I", schema, at)[0]  # Schema
    vtable = table - struct.unpack_from("<i", schema, table)[0]
    fields = table + struct.unpack_from("<H", schema, vtable + 6)[0]
    count = fields + struct.unpack_from("<I", schema, fields)[0]
    assert struct.unpack_from("<I", schema, count) == (1,)
    if not little:  # its first field, the byte order, is not written if it is 0; here it is the 1 of the count
        struct.pack_into("<H", schema, vtable + 4, count - table)
    body = bytes(stream(BATCH)[len(schema) :]).replace(struct.pack("<q", 7), struct.pack("<q" if little else ">q", 7))
    data = with_part(bytes(schema) + body)
    assert unpack(data)[1]["rows"]["a"].tolist() == [7]


NEGATIVE = b"".join(write_table({"a": np.array([7])})[2]).replace(struct.pack("<q", 1), struct.pack("<q", -1))


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (with_part(stream(BATCH)[:-48]), "part 'rows' cannot be decoded"),
        (with_part(b"\0" * 16), "part 'rows' cannot be decoded"),
        (with_part(b"\xff\xff\xff\xff\xff\xff\xff\x7f"), "part 'rows' cannot be decoded"),
        (with_part(b"\xff\xff\xff\xff\0\0\0\x80"), "part 'rows' cannot be decoded"),
        (with_part(stream(BATCH, BATCH)), "part 'rows' cannot be decoded: 2 record batches instead of 1"),
        (with_part(stream(pa.RecordBatch.from_pydict({"a": pa.array([None], pa.int64())}))), "cannot be decoded"),
        (with_part(stream(pa.RecordBatch.from_pydict({"a": pa.array([1.5], pa.float32())}))), "cannot be decoded"),
        (with_part(NEGATIVE, rows=-1), "parts[0].rows: found -1 (int), expected an int from 0"),
        (with_part(stream(BATCH), rows=2), "part 'rows' has 1 rows, expected 2"),
        (with_part(stream(BATCH), size=0), "parts[0].size: found 0 (int), expected an int from 1"),
        (with_part(stream(BATCH), size=-8), "parts[0].size: found -8 (int), expected an int from 1"),
        (with_part(stream(BATCH), size="8"), "does not describe its parts"),
        (with_part(stream(BATCH), size=8, xxh64=xxhash.xxh64_hexdigest(stream(BATCH)[:8])), "follow its last part"),
        (with_part(stream(BATCH), size=1 << 40), "part 'rows' has 1099511627776 bytes"),
        (with_part(stream(BATCH), name=[]), "parts[0].name: found [] (list), expected a text"),
        (sealed(SMALL, {"parts": [1]}), "does not describe its parts"),
        (sealed(SMALL, {"q": "A"}), "does not list its parts"),
        (sealed(SMALL, [1]), "does not list its parts"),
        (sealed(SMALL, {"parts": []}), "bytes follow its last part"),
        (sealed(SMALL, flags=1), "its flags are 1, expected 0"),
    ],
)
def test_right_checksums_of_something_else(data: bytes, expected: str) -> None:
    assert "Its checksums are right" in refused(data, expected)


@given(st.data())
def test_streams_changed_under_a_right_checksum(data: st.DataObject) -> None:
    """Whatever a part contains, it is decoded or rejected; decoded texts are valid."""
    at = 32 + container._START.unpack_from(SMALL)[3]
    first, second = (part["size"] for part in parts_of(SMALL))
    part = data.draw(st.sampled_from([SMALL[at : at + first], SMALL[at + first : at + first + second]]))
    changed = bytearray(part)
    for _ in range(data.draw(st.integers(1, 3))):
        changed[data.draw(st.integers(0, len(part) - 1))] = data.draw(st.integers(0, 255))
    snapshot = with_part(bytes(changed), rows=data.draw(st.sampled_from([2, 3])))
    try:
        _, tables = unpack(snapshot)
    except SnapshotError:
        return
    for column in tables["rows"].values():
        assert len(column) in (2, 3)
        column.tolist() if isinstance(column, np.ndarray) else column.to_pylist()


def test_deep_json_is_refused() -> None:
    text = b'{"parts":' + b"[" * 100_000
    text += b" " * (-len(text) % 8)
    start = container._START.pack(MAGIC, 1, 0, len(text), 32 + len(text)) + text
    refused(start + struct.pack("<Q", xxhash.xxh64_intdigest(start)), "its header is not JSON")


# ------------------------------------------------------------------------------------------------------ golden files


@pytest.mark.parametrize("number", sorted(container._READERS))
def test_golden_files_are_read(number: int) -> None:
    data = (GOLDEN / f"container_{number}.snapshot").read_bytes()
    header, tables = unpack(data)
    assert header == HEADER and same(tables, TABLES)
    assert struct.unpack_from("<H", data, 8) == (number,)


def test_the_format_that_is_written_is_read() -> None:
    assert max(container._READERS) == FORMAT
    assert len(container._READERS) == min(FORMAT, 3)
