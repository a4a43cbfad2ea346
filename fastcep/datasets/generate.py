"""Generators of the synthetic streams DS1 and DS2. The same seed gives the same events for any chunk size."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from os import PathLike
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pv

from fastcep.errors import ValidationError

__all__ = [
    "CHUNK",
    "C_VALUES",
    "by_quantiles",
    "check_share",
    "check_size",
    "check_values",
    "ds1",
    "ds1_batches",
    "ds2",
    "ds2_batches",
    "rechunk",
    "write_csv",
    "write_ds1_csv",
]

CHUNK = 65_536  # events
C_VALUES = (1, 10)  # range of V of events of type C in DS1; the same as for all other types
TYPES = ["A", "B", "C", "D"]  # not an Arrow array: creating one at import would load pandas
_DS1: dict[str, pa.DataType] = {"type": pa.string(), "ID": pa.int64(), "V": pa.int64(), "ts": pa.int64()}
_DS2: dict[str, pa.DataType] = {
    "type": pa.string(),
    "ID": pa.int64(),
    "x": pa.float64(),
    "y": pa.float64(),
    "v": pa.int64(),
    "ts": pa.int64(),
}
DS1_SCHEMA, DS2_SCHEMA = pa.schema(_DS1), pa.schema(_DS2)

_STEPS = 1 << 20  # interpolation steps between two quantiles

Ints = npt.NDArray[np.int64]
_KINDS, _IDS, _VALUES, _GAPS = (0, 4), (1, 11), (1, 11), (1, 20)  # half-open ranges of the draws of DS1


def ds1_batches(
    events: int = 1_000_000, seed: int = 7, chunk: int = CHUNK, c_values: tuple[int, int] = C_VALUES
) -> Iterator[pa.RecordBatch]:
    """Generate DS1 batch by batch, in memory bounded by the chunk size.

    The concatenated batches equal ``ds1(events, seed, c_values)`` exactly. DS1 draws one column after the other from a
    single random stream. Therefore each column uses its own copy of the stream, advanced past the columns before it
    (a few nanoseconds per event, once at the start).

    Parameters
    ----------
    events
        Number of events, at least 1.
    seed
        Seed of ``numpy.random.default_rng``.
    chunk
        Number of events of a batch, at least 1; the last batch can have fewer.
    c_values
        Smallest and largest ``V`` of the events of type C; all values in between are equally likely. If it is not
        (1, 10), they are drawn from a random stream of their own, spawned from the seed, and all other columns are
        unchanged.

    Yields
    ------
    pyarrow.RecordBatch
        Columns ``type`` (string, A to D), ``ID`` (int64, 1 to 10), ``V`` (int64, 1 to 10) and ``ts`` (int64,
        microseconds, strictly ascending, mean gap 10).

    Raises
    ------
    ValidationError
        If ``events`` or ``chunk`` is below 1, or ``c_values`` is not a range.
    """
    check_size(events=events, chunk=chunk)
    check_values(c_values)
    return _ds1_batches(events, seed, chunk, c_values)


def ds2_batches(events: int = 1_000_000, seed: int = 7, chunk: int = CHUNK) -> Iterator[pa.RecordBatch]:
    """Generate DS2 batch by batch, in memory bounded by the chunk size.

    The concatenated batches equal ``ds2(events, seed)`` exactly: every column is drawn from its own random stream,
    spawned from the seed.

    Parameters
    ----------
    events, seed, chunk
        See `ds1_batches`.

    Yields
    ------
    pyarrow.RecordBatch
        Columns ``type`` (string, A to D), ``ID`` (int64, 1 to 10), ``x`` and ``y`` (float64; null for C and D),
        ``v`` (int64; null for A) and ``ts`` (int64, microseconds, strictly ascending, mean gap 10).

    Raises
    ------
    ValidationError
        If ``events`` or ``chunk`` is below 1.
    """
    check_size(events=events, chunk=chunk)
    return _ds2_batches(events, seed, chunk)


def ds1(events: int = 1_000_000, seed: int = 7, c_values: tuple[int, int] = C_VALUES) -> pa.Table:
    """Generate the stream DS1 as one table.

    Parameters
    ----------
    events, seed, c_values
        See `ds1_batches`.

    Returns
    -------
    pyarrow.Table
        ``events`` rows with the columns of `ds1_batches`.

    Raises
    ------
    ValidationError
        If ``events`` is below 1, or ``c_values`` is not a range.
    """
    return pa.Table.from_batches(ds1_batches(events, seed, c_values=c_values), DS1_SCHEMA).combine_chunks()


def ds2(events: int = 1_000_000, seed: int = 7) -> pa.Table:
    """Generate the stream DS2 as one table.

    Type, ID and times are as in DS1. For A and B, ``x`` and ``y`` are in (0, 2] with probability 0.33 and in (2, 4]
    with 0.67, uniform in each interval; ``B.v`` is 2 (0.33) or 5 (0.67), ``C.v`` 3 or 5 (0.5 each), ``D.v`` 5 (0.33) or
    2 (0.67). Attributes that the papers do not specify are null: ``v`` of A, ``x`` and ``y`` of C and D.

    Parameters
    ----------
    events, seed
        See `ds1_batches`.

    Returns
    -------
    pyarrow.Table
        ``events`` rows with the columns of `ds2_batches`.

    Raises
    ------
    ValidationError
        If ``events`` is below 1.
    """
    return pa.Table.from_batches(ds2_batches(events, seed), DS2_SCHEMA).combine_chunks()


def write_ds1_csv(path: str | PathLike[str], events: int = 1_000_000, seed: int = 7, *, header: bool = False) -> None:
    """Write DS1 as CSV, in bounded memory.

    With seed 7, 1,000,000 events and no header, the file is byte for byte the stream that the C limit was measured on
    (sha256 ``c54f9ea3…``).

    Parameters
    ----------
    path
        File to write; an existing one is replaced.
    events, seed
        See `ds1_batches`.
    header
        Write a first line with the column names.

    Raises
    ------
    ValidationError
        If ``events`` is below 1.
    """
    write_csv(ds1_batches(events, seed), DS1_SCHEMA, path, header=header)


def write_csv(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, path: str | PathLike[str], *, header: bool = False
) -> None:
    """Write batches as CSV without quotes, with null as the empty field, and lines that end with a line feed.

    Parameters
    ----------
    batches
        Batches of this schema. Their strings contain no comma, quote or line end.
    schema
        Arrow schema of the batches.
    path
        File to write; an existing one is replaced.
    header
        Write a first line with the column names.
    """
    options = pv.WriteOptions(include_header=False, quoting_style="none")
    with open(path, "wb") as file:
        if header:
            file.write((",".join(schema.names) + "\n").encode())
        with pv.CSVWriter(file, schema, write_options=options) as writer:
            for batch in batches:
                writer.write_batch(batch)


def check_size(**sizes: int) -> None:
    """Raise ValidationError if one of the named sizes is below 1."""
    for name, value in sizes.items():
        if value < 1:
            raise ValidationError(f"{name}={value}: expected at least 1")


def check_values(c_values: tuple[int, int]) -> None:
    """Raise ValidationError if `c_values` is not a range of whole numbers."""
    pair = isinstance(c_values, tuple | list) and len(c_values) == 2
    if not pair or not all(_is_integer(value) for value in c_values) or c_values[0] > c_values[1]:
        raise ValidationError(
            f"c_values={c_values!r}: expected two whole numbers, the smallest and the largest value, such as (2, 10)"
        )


def check_share(**shares: float) -> None:
    """Raise ValidationError if one of the named shares is not from 0 to 1."""
    for name, value in shares.items():
        if not 0 <= value <= 1:
            raise ValidationError(f"{name}={value}: expected a share from 0 to 1")


def by_quantiles(stream: np.random.Generator, knots: Ints, size: int) -> Ints:
    """Draw whole numbers from a distribution given by its quantiles, with linear interpolation between them.

    Parameters
    ----------
    stream
        Random generator; one number is drawn for each value.
    knots
        Evenly spaced quantiles, from the smallest to the largest value.
    size
        Number of values.

    Returns
    -------
    numpy.ndarray
        int64[size], computed with integers, so that all machines give the same values.
    """
    interval, step = np.divmod(stream.integers(0, (len(knots) - 1) * _STEPS, size), _STEPS)
    return np.asarray(knots[interval] + np.diff(knots)[interval] * step // _STEPS)


def rechunk(batches: Iterator[pa.RecordBatch], events: int, chunk: int) -> Iterator[pa.RecordBatch]:
    """Convert an endless stream of batches to a finite one with batches of another size.

    Parameters
    ----------
    batches
        Endless iterator over batches of one schema.
    events
        Number of rows to yield.
    chunk
        Number of rows of a batch; the last one can have fewer.

    Yields
    ------
    pyarrow.RecordBatch
        The first ``events`` rows.
    """
    held: list[pa.RecordBatch] = []
    rows = 0
    for size in _sizes(events, chunk):
        while rows < size:
            batch = next(batches)
            held.append(batch)
            rows += batch.num_rows
        table = pa.Table.from_batches(held).combine_chunks()
        yield table.slice(0, size).to_batches()[0]
        held = table.slice(size).to_batches()
        rows -= size


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 62


def _sizes(events: int, chunk: int) -> Iterator[int]:
    for start in range(0, events, chunk):
        yield min(chunk, events - start)


def _ds1_batches(events: int, seed: int, chunk: int, c_values: tuple[int, int]) -> Iterator[pa.RecordBatch]:
    stream = np.random.default_rng(seed)
    c_stream = stream.spawn(1)[0] if tuple(c_values) != C_VALUES else None  # spawning does not advance the stream
    draws: list[Callable[[int], Ints]] = []
    for low, high in (_KINDS, _IDS, _VALUES, _GAPS):
        draws.append(_integers(_copy(stream), low, high))
        if len(draws) < 4:
            for size in _sizes(events, CHUNK):
                stream.integers(low, high, size)
    kinds, ids, values, gaps = draws
    last = 0
    for size in _sizes(events, chunk):
        kind, ts = kinds(size), np.cumsum(gaps(size)) + last
        last = int(ts[-1])
        value = values(size)
        if c_stream is not None:
            value = np.where(kind == TYPES.index("C"), c_stream.integers(*c_values, size, endpoint=True), value)
        yield pa.record_batch([_type_names(kind), ids(size), value, ts], schema=DS1_SCHEMA)


def _ds2_batches(events: int, seed: int, chunk: int) -> Iterator[pa.RecordBatch]:
    streams = np.random.default_rng(seed).spawn(8)
    last = 0
    for size in _sizes(events, chunk):
        kind = streams[0].integers(*_KINDS, size)
        ts = np.cumsum(streams[1].integers(*_GAPS, size)) + last
        last = int(ts[-1])
        x, y = (_coordinate(streams[k], streams[k + 1], size) for k in (2, 4))
        u = streams[6].random(size)
        v = np.choose(kind, [0, np.where(u < 0.33, 2, 5), np.where(u < 0.5, 3, 5), np.where(u < 0.33, 5, 2)])
        columns = [
            _type_names(kind),
            pa.array(streams[7].integers(*_IDS, size)),
            pa.array(x, mask=kind >= 2),
            pa.array(y, mask=kind >= 2),
            pa.array(v.astype(np.int64), mask=kind == 0),
            pa.array(ts),
        ]
        yield pa.record_batch(columns, schema=DS2_SCHEMA)


def _coordinate(interval: np.random.Generator, offset: np.random.Generator, size: int) -> npt.NDArray[np.float64]:
    """Draw from (0, 2] with probability 0.33, otherwise from (2, 4]."""
    upper = np.where(interval.random(size) < 0.33, 2.0, 4.0)
    return np.asarray(upper - 2.0 * offset.random(size))


def _integers(stream: np.random.Generator, low: int, high: int) -> Callable[[int], Ints]:
    return lambda size: stream.integers(low, high, size)


def _copy(stream: np.random.Generator) -> np.random.Generator:
    copy = np.random.default_rng(0)
    copy.bit_generator.state = stream.bit_generator.state
    return copy


def _type_names(kind: Ints) -> Any:
    return pa.DictionaryArray.from_arrays(kind.astype(np.int8), pa.array(TYPES)).cast(pa.string())
