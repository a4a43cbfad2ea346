"""Read and write the file format of snapshots: a JSON header and named tables with checksums (docs/reliability.md).

======  =====  ====================================================================================================
offset  bytes  holds
======  =====  ====================================================================================================
0       8      `MAGIC`
8       2      format version
10      2      flags, 0
12      4      *n*, length of the header
16      8      length of the snapshot
24      *n*    the header: JSON in UTF-8, padded with spaces to a multiple of 8. It has the fields of the caller, and
               ``parts``: name, size in bytes, rows and checksum of each part
24 + n  8      checksum of all preceding bytes
32 + n         the parts, without gaps: Arrow IPC streams, each a multiple of 8 bytes
======  =====  ====================================================================================================

Integers are little-endian; Arrow marks its byte order itself. Checksums are XXH64 with seed 0, in the header as 16
hexadecimal digits. The first 24 bytes, the header and its checksum keep their place in all versions of the format, so
that a reader can distinguish damage from another version.

A release reads the format that it writes and the two before it: `_READERS` has one function for each. The version of
the format increases whenever a reader of the old version would reject or misread a new snapshot, even if only the
tables of the engine change. ``tests/golden`` has files for each version that is read. They were written by a release
that wrote this version, and are never written again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from importlib.metadata import PackageNotFoundError, version
from struct import Struct, error
from typing import Any

import pyarrow as pa
from xxhash import xxh64, xxh64_hexdigest, xxh64_intdigest

from fastcep.engine.state.ipc_table import Column, read_table, write_table
from fastcep.errors import SnapshotError
from fastcep.stored import COUNT, TEXT, Misfit, listed, record, whole

__all__ = ["FORMAT", "MAGIC", "pack", "unpack"]

Tables = dict[str, dict[str, Column]]

#: No text starts with the first byte, and programs that treat bytes as text change the line ends.
MAGIC = b"\xfcCEP\r\n\x1a\n"
FORMAT = 1  #: version that `pack` writes

_START = Struct("<8sHHIQ")
_CHECKSUM = Struct("<Q")
_SHORTEST = _START.size + _CHECKSUM.size
#: Start of `MAGIC` if CR LF became LF, LF became CR LF, the eighth bit was lost, or the bytes were recoded as text.
_MANGLED = (b"\xfcCEP\n", b"\xfcCEP\r\r", b"\xfcCEP\r\n\x1a\r", b"|CEP", b"\xc3\xbcCEP", b"\xef\xbf\xbdCEP", b"?CEP")
_PARTS = listed(record({"name": TEXT, "size": whole(1), "rows": COUNT, "xxh64": TEXT}))
_SMALL = 1 << 14
_REMEDY = "take the snapshot again, or use an older one"
#: Exceptions that the readers raise for an invalid stream.
_INVALID = (pa.ArrowException, ValueError, TypeError, LookupError, OverflowError, OSError, error)

_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def pack(header: Mapping[str, Any], tables: Mapping[str, Mapping[str, Column]]) -> bytes:
    """Write a snapshot.

    Parameters
    ----------
    header
        A JSON object, without the key ``parts``.
    tables
        Columns of each table by name. All columns of a table have one length; they are NumPy arrays of int64, int32,
        uint8, uint16, float64 or bool, or Arrow string arrays. A table without rows is left out.

    Raises
    ------
    TypeError, ValueError
        Header or tables are invalid.
    """
    if "parts" in header:
        raise ValueError("found the key 'parts' in the header of a snapshot, expected another name: it is reserved")
    pieces: list[Any] = [b""]
    parts = []
    length = 0
    for name, columns in tables.items():
        rows, size, blocks = write_table(columns)
        if not rows:
            continue
        if size < _SMALL:  # one more copy, but only one call of `update`
            blocks = [b"".join(blocks)]
        checksum = xxh64()
        for block in blocks:
            checksum.update(block)
        pieces += blocks
        length += size
        parts.append({"name": name, "size": size, "rows": rows, "xxh64": checksum.hexdigest()})
    text = _json({**header, "parts": parts}).encode()
    text += b" " * (-len(text) % 8)
    length += len(text) + _SHORTEST
    start = _START.pack(MAGIC, FORMAT, 0, len(text), length) + text
    pieces[0] = start + _CHECKSUM.pack(xxh64_intdigest(start))
    return b"".join(pieces)


def unpack(data: bytes | bytearray | memoryview, origin: str = "snapshot") -> tuple[dict[str, Any], Tables]:
    """Read a snapshot.

    Parameters
    ----------
    data
        The whole snapshot.
    origin
        Name of the snapshot for error messages, such as the name of a file.

    Returns
    -------
    header, tables
        The arguments of `pack`, without the tables that have no rows. The arrays are read-only. They are views of
        `data` if its address and their type allow that.

    Raises
    ------
    SnapshotError
        The data is not a snapshot, is damaged or incomplete, or has a version of the format that cannot be read.
    """
    try:
        view = memoryview(data).toreadonly().cast("B")
    except TypeError:
        found = type(data).__name__
        raise SnapshotError(
            f"{origin}: found {found}, expected the bytes of a snapshot; read a file first, as in "
            "pathlib.Path('engine.snapshot').read_bytes()"
        ) from None
    header, end, version_number = _open(view, origin)
    reader = _READERS.get(version_number)
    if reader is None:
        raise _other_version(version_number, origin)
    length = _START.unpack_from(view)[4]
    if len(view) < length:
        raise _truncated(len(view), f"{length:,}", origin)
    if len(view) > length:
        raise SnapshotError(
            f"{origin}: has {len(view):,} bytes, expected {length:,}: something was written after the snapshot; use "
            f"only the first {length:,} bytes"
        )
    return reader(view, header, end, origin)


def _open(view: memoryview, origin: str) -> tuple[dict[str, Any], int, int]:
    """Check the part that all versions share; return the header, the position after it, and the version."""
    first = bytes(view[:16])
    if not first.startswith(MAGIC):
        raise _foreign(first, origin)
    if len(view) < _SHORTEST:
        raise _truncated(len(view), f"at least {_SHORTEST}", origin)
    _, version_number, flags, header_length, length = _START.unpack_from(view)
    end = _START.size + header_length
    if end + _CHECKSUM.size > len(view):
        if length > len(view) and end + _CHECKSUM.size <= length:
            raise _truncated(len(view), f"{length:,}", origin)
        raise SnapshotError(
            f"{origin}: its header is damaged: it gives itself {header_length:,} bytes and the snapshot {length:,}, of "
            f"which {len(view):,} exist; {_REMEDY}"
        )
    (expected,) = _CHECKSUM.unpack_from(view, end)
    found = xxh64_intdigest(view[:end])
    if found != expected:
        raise SnapshotError(
            f"{origin}: its header is damaged: found the checksum {found:016x}, expected {expected:016x}; {_REMEDY}"
        )
    try:
        header = json.loads(bytes(view[_START.size : end]), parse_constant=_no_number)
    except (ValueError, RecursionError) as json_error:
        raise _malformed(f"its header is not JSON: {json_error}", origin) from None
    if not isinstance(header, dict) or not isinstance(header.get("parts"), list):
        raise _malformed("its header does not list its parts", origin)
    if flags and version_number in _READERS:
        raise _malformed(f"its flags are {flags}, expected 0", origin)
    return header, end + _CHECKSUM.size, version_number


def _no_number(text: str) -> None:
    """Reject numbers that Python reads but JSON does not have: NaN, Infinity."""
    raise ValueError(f"it has {text}")


def _read_1(view: memoryview, header: dict[str, Any], start: int, origin: str) -> tuple[dict[str, Any], Tables]:
    """Read the parts of a snapshot, from ``start`` on; every checksum is checked before anything is decoded."""
    ranges = []
    parts = header.pop("parts")
    try:
        _PARTS(parts, "parts")
    except Misfit as misfit:
        raise _malformed(f"its header does not describe its parts: {misfit}", origin) from None
    if len({part["name"] for part in parts}) < len(parts):
        raise _malformed("its header has two parts of one name", origin)
    for part in parts:
        name, size, rows, expected = part["name"], part["size"], part["rows"], part["xxh64"]
        end = start + size
        if size > len(view) - start or size % 8:
            raise _malformed(f"part {name!r} has {size} bytes, of {len(view) - start} that follow", origin)
        found = xxh64_hexdigest(view[start:end])
        if found != expected:
            raise SnapshotError(
                f"{origin}: part {name!r} is damaged: found the checksum {found}, expected {expected}; {_REMEDY}"
            )
        ranges.append((name, rows, start, end))
        start = end
    if start != len(view):
        raise _malformed(f"{len(view) - start} bytes follow its last part", origin)
    tables: Tables = {}
    for name, rows, first, end in ranges:
        try:
            table_rows, tables[name] = read_table(view, first, end)
        except _INVALID as decode_error:
            raise _malformed(f"part {name!r} cannot be decoded: {decode_error}", origin) from decode_error
        if table_rows != rows:
            raise _malformed(f"part {name!r} has {table_rows} rows, expected {rows}", origin)
    return header, tables


#: Reader of each version.
_READERS: dict[int, Callable[[memoryview, dict[str, Any], int, str], tuple[dict[str, Any], Tables]]] = {1: _read_1}


def _foreign(first: bytes, origin: str) -> SnapshotError:
    """Return the error for data that does not start like a snapshot."""
    if first and MAGIC.startswith(first):
        return _truncated(len(first), f"at least {_SHORTEST}", origin)
    if not first:
        return SnapshotError(f"{origin}: is empty, expected a snapshot; was writing it interrupted? {_REMEDY}")
    if first.startswith(_MANGLED):
        return SnapshotError(
            f"{origin}: found a snapshot that was read, written or sent as text, which changed its bytes: it begins "
            f"with {first[:8]!r}, expected {MAGIC!r}; open files in mode 'rb' and 'wb', send bytes, and {_REMEDY}"
        )
    return SnapshotError(
        f"{origin}: is not a snapshot: found {first!r} as its first bytes, expected {MAGIC!r}; use the result of "
        "Engine.snapshot() or Engine.extract()"
    )


def _truncated(found: int, expected: str, origin: str) -> SnapshotError:
    return SnapshotError(f"{origin}: is truncated: has {found:,} of {expected} bytes; copy all of it, or {_REMEDY}")


def _malformed(problem: str, origin: str) -> SnapshotError:
    """Return the error for a snapshot whose checksums are right, but that `pack` never wrote."""
    return SnapshotError(f"{origin}: {problem}. Its checksums are right, so it was written like that; {_REMEDY}")


def _other_version(version_number: int, origin: str) -> SnapshotError:
    oldest, newest = min(_READERS), max(_READERS)
    try:
        this = f"this fastcep {version('fastcep')}"
    except PackageNotFoundError:  # fastcep runs from its sources
        this = "this fastcep"
    remedy = (
        "read it with the version that wrote it or a newer one"
        if version_number > newest
        else f"restore it with an older fastcep that reads format {version_number}, and take a snapshot there"
    )
    written = f"is written in format {version_number}"
    return SnapshotError(f"{origin}: {written}; {this} reads {oldest} to {newest}: {remedy}")
