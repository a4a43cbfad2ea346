"""Read and write a table of a snapshot as an Arrow IPC stream: a schema, one record batch, the end.

Arrow's own reader and writer take several microseconds per column, and the writer copies. So this module writes the
message of the record batch itself, because its layout is fixed except for its numbers, and reads messages of this
layout. Arrow reads any other stream of one record batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from struct import Struct
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from fastcep.events.convert import null_bytes

__all__ = ["Column", "read_table", "write_table"]

Column = npt.NDArray[Any] | Any  #: a 1-d array of one of `_KINDS`, or a pyarrow string array

_KINDS: dict[Any, Any] = {
    np.dtype(np.int64): pa.int64(),
    np.dtype(np.int32): pa.int32(),
    np.dtype(np.uint8): pa.uint8(),
    np.dtype(np.uint16): pa.uint16(),
    np.dtype(np.float64): pa.float64(),
    np.dtype(np.bool_): pa.bool_(),
}
_DTYPES = {kind: dtype for dtype, kind in _KINDS.items()}
_BOOL = np.dtype(np.bool_)
_TEXT = pa.string()
_END = b"\xff\xff\xff\xff\0\0\0\0"
_PREFIX = Struct("<iI")
_PADDING = [b"\0" * (-size % 8) for size in range(8)]


# ---------------------------------------------------------------------------------------------------------- writing


def write_table(columns: Mapping[str, Column]) -> tuple[int, int, list[Any]]:
    """Write columns of equal length.

    Returns
    -------
    rows, size, pieces
        The length of the columns; the length of the stream in bytes, a multiple of 8; the buffers of the stream in
        order, including the memory of the columns. There are no pieces if there are no rows.

    Raises
    ------
    TypeError
        A column has a type that is not supported.
    ValueError
        A column is not one-dimensional, or has another length than the others.
    """
    rows, kinds, body = -1, [], []
    nodes: list[int] = []
    places: list[int] = []  # offset and size of each buffer
    offset = 0
    for name, column in columns.items():
        kind, nulls, blocks = _text_blocks(column) if isinstance(column, pa.Array) else _number_blocks(name, column)
        if len(column) != rows:
            if rows >= 0:
                raise ValueError(f"found {len(column)} rows in column {name!r}, expected {rows} as in the others")
            rows = len(column)
        kinds.append(kind)
        nodes += (rows, nulls)
        for block, size in blocks:
            places += (offset, size)
            if size:
                body.append(block)
                if size % 8:
                    body.append(_PADDING[size % 8])
                offset += (size + 7) & ~7
    if rows <= 0:
        return 0, 0, []
    layout, first, second, third = _message(len(nodes) // 2, len(places) // 2)
    message = layout.pack(*first, offset, *second, rows, *third, *nodes, len(places) // 2, *places)
    schema = _schema(tuple(columns), tuple(kinds))
    return rows, len(schema) + len(message) + offset + len(_END), [schema, message, *body, _END]


def _number_blocks(name: str, column: Any) -> tuple[Any, int, Iterable[tuple[Any, int]]]:
    """Return the Arrow type of an array, its number of nulls, and its buffers with their sizes."""
    kind = _KINDS.get(column.dtype) if isinstance(column, np.ndarray) else None
    if kind is None:
        found = column.dtype if isinstance(column, np.ndarray) else type(column).__name__
        raise TypeError(f"found {found} as column {name!r}, expected {', '.join(map(str, _KINDS))} or strings of Arrow")
    if column.ndim != 1:
        raise ValueError(f"found {column.ndim} dimensions in column {name!r}, expected 1")
    if column.dtype == _BOOL:
        column = np.packbits(column, bitorder="little")
    elif not column.flags.c_contiguous:
        column = np.ascontiguousarray(column)
    return kind, 0, ((b"", 0), (column, column.nbytes))


def _text_blocks(column: Any) -> tuple[Any, int, Iterable[tuple[Any, int]]]:
    """Return the same for a string array, which may be a slice."""
    if column.type != _TEXT:
        raise TypeError(f"found an Arrow array of {column.type}, expected one of string")
    nulls = null_bytes(column)
    valid = b"" if nulls is None else np.packbits(nulls == 0, bitorder="little").tobytes()
    rows, (_, offsets, data) = len(column), column.buffers()
    if not rows:
        return _TEXT, 0, ()
    ends = np.frombuffer(offsets, np.int32, rows + 1, 4 * column.offset)
    start, stop = int(ends[0]), int(ends[-1])
    if start:
        ends = ends - np.int32(start)
    text = memoryview(b"" if data is None else data)[start:stop]
    return _TEXT, column.null_count, ((valid, len(valid)), (ends, ends.nbytes), (text, stop - start))


@lru_cache(maxsize=256)
def _schema(names: tuple[str, ...], kinds: tuple[Any, ...]) -> bytes:
    """Return the first message of a stream, the schema; cached, because there are few different ones."""
    return bytes(pa.schema([pa.field(*field) for field in zip(names, kinds, strict=True)]).serialize())


@lru_cache(maxsize=256)
def _message(nodes: int, buffers: int) -> tuple[Struct, tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """Return the layout of the message of a record batch, and its constant numbers.

    The message has Arrow's ``Message`` and ``RecordBatch`` as FlatBuffers (``Message.fbs``), each table after its
    vtable. The size of the body follows the first constants, the number of rows the second. The third are followed by
    the nodes (rows and nulls of each column), the number of buffers, and the offset and size of each buffer.
    """
    layout = Struct(
        "<iI"  # continuation, size of the bytes from here to the body
        "I6H"  # 0: offset of Message; its vtable: size, size of the table, version, header type, header, body length
        "iIq"  # 16: Message: distance to the vtable; offset of the header; body length
        "hBx"  # 32: version, header type
        "5H2x"  # 36: vtable of RecordBatch: size, size of the table, length, nodes, buffers
        "iIqI"  # 48: RecordBatch: distance to the vtable; offset of the nodes; length; offset of the buffers
        f"I{2 * nodes}q"  # 68
        f"4xI{2 * buffers}q"
    )
    first = (-1, layout.size - 8, 16, 12, 20, 16, 18, 4, 8, 12, 28)
    second = (4, 3, 10, 20, 8, 4, 16, 12, 16)  # 4 means version 5 of the metadata; 3 is a RecordBatch
    third = (12 + 16 * nodes, nodes)
    return layout, first, second, third


# ---------------------------------------------------------------------------------------------------------- reading


def read_table(data: memoryview, start: int, stop: int) -> tuple[int, dict[str, Column]]:
    """Read the stream in read-only ``data[start:stop]``; where possible, the columns are views of it.

    Returns
    -------
    rows, columns
        NumPy arrays, read-only, and Arrow string arrays.

    Raises
    ------
    ValueError, TypeError, OverflowError, struct.error, pyarrow.ArrowException
        The stream is invalid.
    """
    end = start + 8 + _PREFIX.unpack_from(data, start)[1]
    fields = _fields(bytes(data[start:end])) if end < stop else None
    if fields is None:
        return _read_any(data[start:stop])
    nodes = len(fields)
    buffers = sum(3 if kind is None else 2 for _, kind in fields)
    layout, first, second, third = _message(nodes, buffers)
    if end + layout.size > stop:
        return _read_any(data[start:stop])
    values = layout.unpack_from(data, end)
    size_at, rows_at = len(first), len(first) + 1 + len(second)
    is_fixed_layout = values[:size_at] == first and values[size_at + 1 : rows_at] == second
    if not is_fixed_layout or values[rows_at + 1 : rows_at + 1 + len(third)] != third:
        return _read_any(data[start:stop])
    body_size, rows = values[size_at], values[rows_at]
    body = end + layout.size
    if not 0 <= body_size <= stop - body or rows < 1:
        raise ValueError(f"a record batch of {body_size} bytes and {rows} rows in {stop - body} bytes")
    return rows, _columns(data[body : body + body_size], rows, fields, values[-2 * buffers :])


def _columns(
    body: memoryview, rows: int, fields: tuple[tuple[str, Any], ...], places: tuple[int, ...]
) -> dict[str, Column]:
    """Return the columns in a body; ``places`` has the offset and size of each buffer."""
    columns: dict[str, Column] = {}
    k = 0
    for name, dtype in fields:
        if dtype is None:
            columns[name] = _texts(body, rows, places[k : k + 6])
            k += 6
        else:
            columns[name] = _numbers(body, rows, dtype, places[k + 2])
            k += 4
    return columns


def _texts(body: Any, rows: int, places: tuple[int, ...]) -> Any:
    """View `rows` texts; ``places``: offset and size of validity bits, offsets and text."""
    buffer = pa.py_buffer(body)
    valid = buffer.slice(*places[:2]) if places[1] else None
    array: Any = pa.Array.from_buffers(_TEXT, rows, [valid, buffer.slice(*places[2:4]), buffer.slice(*places[4:])])
    array.validate(full=True)
    return array


def _numbers(data: Any, rows: int, dtype: Any, offset: int) -> npt.NDArray[Any]:
    """View `rows` numbers in a buffer; bits and numbers that are not aligned are copied."""
    if dtype == _BOOL:
        packed = np.frombuffer(data, np.uint8, (rows + 7) // 8, offset)
        values = np.unpackbits(packed, count=rows, bitorder="little").view(np.bool_)
    else:
        values = np.frombuffer(data, dtype, rows, offset)
        if values.flags.aligned:
            return values
        values = values.copy()
    values.flags.writeable = False
    return values


@lru_cache(maxsize=256)
def _fields(schema: bytes) -> tuple[tuple[str, Any], ...] | None:
    """Return name and dtype (None: text) of each column, or None if `write_table` would not write this schema.

    For a stream in the other byte order it is None too, so that Arrow reads it and swaps the bytes.
    """
    fields = pa.ipc.read_schema(pa.py_buffer(schema))
    if bytes(fields.serialize()) != schema or any(
        field.type != _TEXT and field.type not in _DTYPES for field in fields
    ):
        return None
    return tuple((field.name, None if field.type == _TEXT else _DTYPES[field.type]) for field in fields)


def _read_any(stream: memoryview) -> tuple[int, dict[str, Column]]:
    """Read any stream of one record batch with supported types."""
    buffer: Any = stream
    with pa.ipc.open_stream(pa.py_buffer(buffer)) as reader:
        batches = list(reader)
    if len(batches) != 1:
        raise ValueError(f"{len(batches)} record batches instead of 1")
    batch: Any = batches[0]
    batch.validate(full=True)
    columns: dict[str, Column] = {}
    for name, array in zip(batch.schema.names, batch.columns, strict=True):
        if array.type == _TEXT:
            columns[name] = array
        elif array.type not in _DTYPES or array.null_count or array.offset:
            raise TypeError(f"column {name!r} of type {array.type} with {array.null_count} nulls")
        else:
            columns[name] = _numbers(array.buffers()[1], len(array), _DTYPES[array.type], 0)
    return batch.num_rows, columns
