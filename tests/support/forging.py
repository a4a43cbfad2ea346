"""Forge stored state: change one thing in a way that nobody has written it, and correct its checksums."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path as FilePath
from struct import Struct
from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh64_hexdigest, xxh64_intdigest

from fastcep.engine.state.container import FORMAT, MAGIC, pack, unpack

Tables = dict[str, dict[str, Any]]
Path = tuple[Any, ...]

_START, _CHECKSUM = Struct("<8sHHIQ"), Struct("<Q")
_INTS = (-1, 0, 1, 2, 63, 64, 255, 2**31, 2**48, 2**62, 2**63 - 1, -(2**63))
_VALUES = (
    None, True, False, -1, 0, 1, 2.5, -1e300, 1e300, float("nan"), 2**31, 2**62, -(2**63), 2**64, 10**30, "", "x", "1",
    "../x", "/x", [], [1], [None], [[]], {}, {"x": 1}, [0] * 100,
)  # fmt: skip


# ------------------------------------------------------------------------- JSON


def paths(value: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values in JSON, including the value itself."""
    yield path
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from paths(inner, (*path, key))


def forge_json(value: Any, draw: random.Random) -> tuple[Any, str]:
    """Copy a value with one change; return the copy, and a description of the change."""
    value = copy.deepcopy(value)
    path = draw.choice(list(paths(value))[1:] or [()])
    if not path:
        return draw.choice(_VALUES), "all of it"
    holder = value
    for key in path[:-1]:
        holder = holder[key]
    old = holder[path[-1]]
    ways = ["other", "other", "drop"]
    ways += ["near", "near", "near"] if isinstance(old, int | float) else []
    ways += ["shorter", "longer", "turned"] if isinstance(old, list) and old else []
    ways += ["renamed"] if isinstance(holder, dict) else []
    ways += ["added"] if isinstance(old, dict) else []
    way = draw.choice(ways)
    if way == "drop":
        del holder[path[-1]]
    elif way == "near":
        holder[path[-1]] = draw.choice([old - 1, old + 1, -old, 2 * old, int(old), float(old), draw.choice(_INTS)])
    elif way == "shorter":
        holder[path[-1]] = old[: draw.randrange(len(old))]
    elif way == "longer":
        holder[path[-1]] = [*old, draw.choice(old)]
    elif way == "turned":
        holder[path[-1]] = old[::-1]
    elif way == "renamed":
        holder["strange"] = holder.pop(path[-1])
    elif way == "added":
        old["strange"] = draw.choice(_VALUES)
    else:
        holder[path[-1]] = draw.choice(_VALUES)
    return value, f"{way} {'.'.join(map(str, path))}, which was {old!r:.60}"


# ----------------------------------------------------------------------- tables


def _forged_numbers(values: Any, draw: random.Random) -> tuple[Any, str]:
    """Return numbers of which one, two or all are different."""
    values, at = np.array(values), draw.randrange(len(values))
    old, way = values[at], draw.choice(("value", "value", "near", "near", "near", "swap", "all", "random"))
    low, high = (0, 1) if values.dtype == np.bool_ else (None, None)
    if values.dtype.kind in "iu":
        low, high = int(np.iinfo(values.dtype).min), int(np.iinfo(values.dtype).max)
    if way == "swap":
        other = draw.randrange(len(values))
        values[[at, other]] = values[[other, at]]
        return values, f"entries {at} and {other} swapped"
    if values.dtype.kind == "f":
        new: Any = draw.choice((0.0, -1.0, 1e300, float("nan"), float("inf"), -float("inf"), float(old) + 1))
    else:
        near = draw.choice((-1, 1, 2, -2, 1 << 48, 1 << 49, 1 << 56))
        new = {"near": int(old) + near, "random": draw.getrandbits(64) - 2**63}.get(way, draw.choice(_INTS))
        new = min(max(new, low), high)
    values[slice(None) if way == "all" else at] = new
    return values, f"{'all entries' if way == 'all' else f'entry {at}'}: {old} is {new}"


def forge_tables(tables: Tables, draw: random.Random) -> tuple[Tables, str]:
    """Return tables with one change, and a description of it."""
    tables = {name: dict(columns) for name, columns in tables.items()}
    name, column = draw.choice([(name, column) for name, columns in tables.items() for column in columns])
    columns = tables[name]
    values = columns[column]
    if not len(values):
        del tables[name]
        return tables, f"table {name!r} dropped, which had no rows"
    way = draw.choice(("number",) * 10 + ("table", "name", "column", "rename", "dtype", "rows", "more", "order"))
    change = f"table {name!r}, column {column!r}: "
    if way == "number" and isinstance(values, pa.Array):
        texts = values.to_pylist()
        texts[draw.randrange(len(texts))] = draw.choice((None, "", "x" * 1000, "\0"))
        columns[column] = pa.array(texts, pa.string())
    elif way == "number":
        columns[column], number_change = _forged_numbers(values, draw)
        change += number_change
    elif way == "table":
        del tables[name]
    elif way == "name":
        tables["strange"] = tables.pop(name)
    elif way == "column":
        del columns[column]
    elif way == "rename":
        columns["strange"] = columns.pop(column)
    elif way == "dtype":
        length = len(values)
        columns[column] = draw.choice((
            np.zeros(length, np.int32), np.full(length, 0.5), np.zeros(length, np.bool_), np.zeros(length, np.uint8),
            np.full(length, 7, np.uint16), np.zeros(length, np.int64), pa.array(["x"] * length),
        ))  # fmt: skip
    else:
        length = len(values)
        some = list(range(length))
        if way == "rows":
            some = some[: draw.randrange(length)] if draw.random() < 0.5 else some[draw.randrange(length) :]
        elif way == "more":
            some.insert(draw.randrange(length + 1), draw.choice(some))
        else:
            draw.shuffle(some)
        tables[name] = {
            key: own.take(pa.array(some, pa.int64())) if isinstance(own, pa.Array) else own[some]
            for key, own in columns.items()
        }
    return tables, f"{way}: {change}"


# -------------------------------------------------------------------- snapshots


def forge_snapshot(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Return a snapshot with one change, and a description of it."""
    header, tables = unpack(data)
    if draw.random() < 0.06:
        return _forged_bytes(data, draw)
    changes = []
    for _ in range(2 if draw.random() < 0.15 else 1):
        if draw.random() < 0.35 or not any(tables.values()):
            header, change = forge_json(header, draw)
            header = header if isinstance(header, dict) else {"x": header}
        else:
            tables, change = forge_tables(tables, draw)
        changes.append(change)
    header.pop("parts", None)
    return _packed(header, tables), "; ".join(changes)


def _packed(header: dict[str, Any], tables: Tables) -> bytes:
    """Write a snapshot as `pack` does, but allow JSON numbers that are invalid, such as NaN."""
    plain = pack({}, tables)
    length = _START.unpack_from(plain)[3]
    parts = json.loads(plain[_START.size : _START.size + length])["parts"]
    return with_header({**header, "parts": parts}, plain[_START.size + length + _CHECKSUM.size :])


def with_header(header: dict[str, Any], behind: bytes) -> bytes:
    """Return a snapshot with this header, including parts, and the bytes after it."""
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    start = _START.pack(MAGIC, FORMAT, 0, len(text), _START.size + len(text) + _CHECKSUM.size + len(behind)) + text
    return start + _CHECKSUM.pack(xxh64_intdigest(start)) + behind


def _forged_bytes(data: bytes, draw: random.Random) -> tuple[bytes, str]:
    """Return a snapshot with other bytes in a part, or another list of parts, and correct checksums."""
    length = _START.unpack_from(data)[3]
    header = json.loads(data[_START.size : _START.size + length])
    behind = bytearray(data[_START.size + length + _CHECKSUM.size :])
    if not behind or draw.random() < 0.3:
        parts, change = forge_json(header["parts"], draw)
        return with_header({**header, "parts": parts}, bytes(behind)), f"parts: {change}"
    at = [draw.randrange(len(behind)) for _ in range(draw.choice((1, 2, 8)))]
    for place in at:
        behind[place] = draw.randrange(256)
    start = 0
    for part in header["parts"]:
        part["xxh64"] = xxh64_hexdigest(bytes(behind[start : start + part["size"]]))
        start += part["size"]
    return with_header(header, bytes(behind)), f"bytes {at} of the parts"


def forgeries(count: int, seed: int, forge: Callable[[random.Random], tuple[Any, str]]) -> Iterator[tuple[Any, str]]:
    """Yield a number of forgeries, each with its seed and a description."""
    for number in range(count):
        forged, change = forge(random.Random(seed * 1_000_003 + number))
        yield forged, f"seed {seed}, number {number}: {change}"


# ----------------------------------------------------------- models and records


def forge_model(folder: FilePath, draw: random.Random) -> str:
    """Change one thing of a saved model, in its manifest or in a part; return a description."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text("utf-8"))
    if draw.random() < 0.5:
        manifest.pop("xxh64")
        manifest, change = forge_json(manifest, draw)
    else:
        name = draw.choice(list(manifest["parts"]))
        file = folder / manifest["parts"][name]["file"]
        table = pa.ipc.open_file(pa.BufferReader(file.read_bytes())).read_all()
        table, change = _forged_part(table, draw)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
        data = bytearray(sink.getvalue().to_pybytes())
        if draw.random() < 0.15:
            at = draw.randrange(len(data))
            data[at] = draw.randrange(256)
            change += f"; byte {at}"
        file.write_bytes(data)
        manifest["parts"][name]["xxh64"] = xxh64_hexdigest(bytes(data))
        manifest.pop("xxh64")
        change = f"part {name!r}: {change}"
    text = json.dumps(manifest, sort_keys=True, separators=(",", ":"))
    if isinstance(manifest, dict):
        manifest["xxh64"] = xxh64_hexdigest(text.encode())
    path.write_text(json.dumps(manifest), "utf-8")
    return change


def _forged_part(table: pa.Table, draw: random.Random) -> tuple[pa.Table, str]:
    """Return a table with other metadata in its schema, or other numbers."""
    metadata = dict(table.schema.metadata or {})
    if metadata and draw.random() < 0.3:
        key = draw.choice(list(metadata))
        about, change = forge_json(json.loads(metadata[key]), draw)
        return table.replace_schema_metadata({key: json.dumps(about)}), change
    columns: dict[str, Any] = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        plain = pa.types.is_primitive(column.type) and not pa.types.is_boolean(column.type) and not column.null_count
        columns[name] = column.to_numpy() if plain else column
    numbers = {name: values for name, values in columns.items() if isinstance(values, np.ndarray)}
    if not numbers:
        return table.slice(0, draw.randrange(1 + len(table))), "cut"
    forged, change = forge_tables({"part": numbers}, draw)
    own = next(iter(forged.values()), {})
    others = {name: values for name, values in columns.items() if name not in numbers}
    rows = min([len(values) for values in (*own.values(), *others.values())], default=0)
    made = {name: pa.array(values)[:rows] for name, values in (own | others).items()}
    return pa.table(made).replace_schema_metadata(metadata), change


def forge_record(path: FilePath, draw: random.Random) -> str:
    """Change one thing of a checkpoint's record; return a description."""
    record = json.loads(path.read_text("utf-8"))
    record.pop("checksum")
    record, change = forge_json(record, draw)
    text = json.dumps(record, sort_keys=True)
    if isinstance(record, dict):
        record["checksum"] = xxh64_hexdigest(text.encode())
    path.write_text(json.dumps(record), "utf-8")
    return change
