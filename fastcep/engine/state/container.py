"""The file format of snapshots: a JSON header and named tables, each part with a checksum (docs/reliability.md).

======  =====  ====================================================================================================
offset  bytes  holds
======  =====  ====================================================================================================
0       8      `MAGIC`
8       2      format version
10      2      flags, 0
12      4      *n*, length of the header
16      8      length of the whole
24      *n*    the header: JSON in UTF-8, filled up with spaces to a multiple of 8. What the caller gave, and ``parts``:
               of each its name, its size in bytes, its rows and its checksum
24 + n  8      checksum of all before
32 + n         the parts, one behind the other: Arrow IPC streams, each a multiple of 8 bytes
======  =====  ====================================================================================================

Integers are little-endian; Arrow marks its byte order itself. A checksum is the XXH64 with seed 0, in the header as 16
hexadecimal digits. The first 24 bytes, the header and its checksum keep their place in all versions of the format, so
that damage can be told from another version.

A release reads the format that it writes and the two before it: `_READERS` has one function for each. The format's
number goes up whenever a reader of the old one would not understand, or would misunderstand, a new snapshot; also when
only the tables change that the engine puts into it. For each version that is read there are golden files in
``tests/golden``, written by a release that wrote it and never written again.
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

#: No text begins with this byte, and what takes bytes for text changes the line ends.
MAGIC = b"\xfcCEP\r\n\x1a\n"
FORMAT = 1  #: the version that is written

_START = Struct("<8sHHIQ")
_CHECKSUM = Struct("<Q")
_SHORTEST = _START.size + _CHECKSUM.size
#: How `MAGIC` begins when CR LF became LF, LF became CR LF, the eighth bit is lost, or bytes were recoded as text.
_MANGLED = (b"\xfcCEP\n", b"\xfcCEP\r\r", b"\xfcCEP\r\n\x1a\r", b"|CEP", b"\xc3\xbcCEP", b"\xef\xbf\xbdCEP", b"?CEP")
_PARTS = listed(record({"name": TEXT, "size": whole(1), "rows": COUNT, "xxh64": TEXT}))
_SMALL = 1 << 14
_AGAIN = "take the snapshot again, or use an older one"
#: What a stream that is not as it should be makes the readers raise.
_FAULTS = (pa.ArrowException, ValueError, TypeError, LookupError, OverflowError, OSError, error)

_json = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode


def pack(header: Mapping[str, Any], tables: Mapping[str, Mapping[str, Column]]) -> bytes:
    """Write a snapshot.

    Parameters
    ----------
    header
        What JSON can hold; without the key ``parts``.
    tables
        By name their columns, all of one length: NumPy arrays of int64, int32, uint8, uint16, float64 or bool, or Arrow
        string arrays. A table without rows is left out.

    Raises
    ------
    TypeError, ValueError
        Header or tables are not like that.
    """
    if "parts" in header:
        raise ValueError("found the key 'parts' in the header of a snapshot, expected another name: it has its own use")
    pieces: list[Any] = [b""]
    parts = []
    whole = 0
    for name, columns in tables.items():
        rows, size, blocks = write_table(columns)
        if not rows:
            continue
        if size < _SMALL:  # one copy more, but one call
            blocks = [b"".join(blocks)]
        checksum = xxh64()
        for block in blocks:
            checksum.update(block)
        pieces += blocks
        whole += size
        parts.append({"name": name, "size": size, "rows": rows, "xxh64": checksum.hexdigest()})
    text = _json({**header, "parts": parts}).encode()
    text += b" " * (-len(text) % 8)
    whole += len(text) + _SHORTEST
    start = _START.pack(MAGIC, FORMAT, 0, len(text), whole) + text
    pieces[0] = start + _CHECKSUM.pack(xxh64_intdigest(start))
    return b"".join(pieces)


def unpack(data: bytes | bytearray | memoryview, origin: str = "snapshot") -> tuple[dict[str, Any], Tables]:
    """Read a snapshot.

    Parameters
    ----------
    data
        The whole snapshot.
    origin
        What errors call it: the name of a file.

    Returns
    -------
    header, tables
        What `pack` was given, without the tables that have no rows. The arrays are read-only, and views of `data` where
        its address and their type allow.

    Raises
    ------
    SnapshotError
        It is no snapshot, damaged, incomplete, or in a version of the format that is not read.
    """
    try:
        view = memoryview(data).toreadonly().cast("B")
    except TypeError as fault:
        found = type(data).__name__
        raise SnapshotError(f"{origin}: found {found}, expected the bytes of a snapshot: {fault}") from None
    header, at, number = _open(view, origin)
    reader = _READERS.get(number)
    if reader is None:
        raise _other_version(number, origin)
    whole = _START.unpack_from(view)[4]
    if len(view) < whole:
        raise _truncated(len(view), f"{whole:,}", origin)
    if len(view) > whole:
        raise SnapshotError(
            f"{origin}: has {len(view):,} bytes, expected {whole:,}: something was written behind the snapshot; "
            f"give the first {whole:,} bytes alone"
        )
    return reader(view, header, at, origin)


def _open(view: memoryview, origin: str) -> tuple[dict[str, Any], int, int]:
    """Check the part that all versions share: give the header, where it ends, and the version."""
    first = bytes(view[:16])
    if not first.startswith(MAGIC):
        raise _foreign(first, origin)
    if len(view) < _SHORTEST:
        raise _truncated(len(view), f"at least {_SHORTEST}", origin)
    _, number, flags, length, whole = _START.unpack_from(view)
    end = _START.size + length
    if end + _CHECKSUM.size > len(view):
        if whole > len(view) and end + _CHECKSUM.size <= whole:
            raise _truncated(len(view), f"{whole:,}", origin)
        raise SnapshotError(
            f"{origin}: its header is damaged: it says that it has {length:,} bytes, and the snapshot {whole:,}, of "
            f"which {len(view):,} are there; {_AGAIN}"
        )
    (expected,) = _CHECKSUM.unpack_from(view, end)
    found = xxh64_intdigest(view[:end])
    if found != expected:
        raise SnapshotError(
            f"{origin}: its header is damaged: found the checksum {found:016x}, expected {expected:016x}; {_AGAIN}"
        )
    try:
        header = json.loads(bytes(view[_START.size : end]), parse_constant=_no_number)
    except (ValueError, RecursionError) as fault:
        raise _malformed(f"its header is not JSON: {fault}", origin) from None
    if not isinstance(header, dict) or not isinstance(header.get("parts"), list):
        raise _malformed("its header does not list its parts", origin)
    if flags and number in _READERS:
        raise _malformed(f"its flags are {flags}, expected 0", origin)
    return header, end + _CHECKSUM.size, number


def _no_number(text: str) -> None:
    """Refuse what Python reads as a number though JSON has none: NaN, Infinity."""
    raise ValueError(f"it has {text}")


def _read_1(view: memoryview, header: dict[str, Any], at: int, origin: str) -> tuple[dict[str, Any], Tables]:
    """Read what follows the header of a whole snapshot; every checksum is looked at before anything is decoded."""
    places = []
    parts = header.pop("parts")
    try:
        _PARTS(parts, "parts")
    except Misfit as fault:
        raise _malformed(f"its header does not describe its parts: {fault}", origin) from None
    if len({part["name"] for part in parts}) < len(parts):
        raise _malformed("its header has two parts of one name", origin)
    for part in parts:
        name, size, rows, expected = part["name"], part["size"], part["rows"], part["xxh64"]
        end = at + size
        if size > len(view) - at or size % 8:
            raise _malformed(f"part {name!r} has {size} bytes, of {len(view) - at} that follow", origin)
        found = xxh64_hexdigest(view[at:end])
        if found != expected:
            raise SnapshotError(
                f"{origin}: part {name!r} is damaged: found the checksum {found}, expected {expected}; {_AGAIN}"
            )
        places.append((name, rows, at, end))
        at = end
    if at != len(view):
        raise _malformed(f"{len(view) - at} bytes follow its last part", origin)
    tables: Tables = {}
    for name, rows, start, end in places:
        try:
            found_rows, tables[name] = read_table(view, start, end)
        except _FAULTS as fault:
            raise _malformed(f"part {name!r} cannot be decoded: {fault}", origin) from fault
        if found_rows != rows:
            raise _malformed(f"part {name!r} has {found_rows} rows, expected {rows}", origin)
    return header, tables


#: Of each version that is read.
_READERS: dict[int, Callable[[memoryview, dict[str, Any], int, str], tuple[dict[str, Any], Tables]]] = {1: _read_1}


def _foreign(first: bytes, origin: str) -> SnapshotError:
    """The error on what begins with other bytes than a snapshot."""
    if first and MAGIC.startswith(first):
        return _truncated(len(first), f"at least {_SHORTEST}", origin)
    if not first:
        return SnapshotError(f"{origin}: is empty, expected a snapshot; was writing it broken off? {_AGAIN}")
    if first.startswith(_MANGLED):
        return SnapshotError(
            f"{origin}: found a snapshot that was read, written or sent as text, which changed its bytes: it begins "
            f"with {first[:8]!r}, expected {MAGIC!r}; open files in mode 'rb' and 'wb', send bytes, and {_AGAIN}"
        )
    return SnapshotError(
        f"{origin}: is not a snapshot: found {first!r} as its first bytes, expected {MAGIC!r}; give what "
        f"Engine.snapshot() or Engine.extract() returned"
    )


def _truncated(found: int, expected: str, origin: str) -> SnapshotError:
    return SnapshotError(f"{origin}: is truncated: has {found:,} of {expected} bytes; copy all of it, or {_AGAIN}")


def _malformed(what: str, origin: str) -> SnapshotError:
    """The error on a snapshot whose checksums are right, but that `pack` never wrote."""
    return SnapshotError(f"{origin}: {what}. Its checksums are right, so it was written like that; {_AGAIN}")


def _other_version(number: int, origin: str) -> SnapshotError:
    oldest, newest = min(_READERS), max(_READERS)
    try:
        this = f"this fastcep {version('fastcep')}"
    except PackageNotFoundError:  # run from its sources
        this = "this fastcep"
    mend = (
        "read it with the version that wrote it or a newer one"
        if number > newest
        else f"restore it with an older fastcep that reads format {number}, and take a snapshot there"
    )
    return SnapshotError(f"{origin}: is written in format {number}; {this} reads {oldest} to {newest}: {mend}")
