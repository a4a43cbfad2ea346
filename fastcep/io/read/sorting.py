"""Sort a stream by time in bounded memory: sorted runs in temporary files, merged."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.ipc

from fastcep.errors import DataError
from fastcep.events import Schema
from fastcep.events.convert import from_numpy
from fastcep.events.row_screening import read_without_strings
from fastcep.events.types import is_text

__all__ = ["SORT_BYTES", "sorted_batches"]

#: What exceeds this goes to temporary files.
SORT_BYTES = 1 << 26
RUN_ROWS = 1 << 14  # rows of each run in memory while they are merged
KEYS = ("time", "sequence", "place")  # appended to the columns while they are sorted

Keys = tuple[npt.NDArray[np.int64], ...]


def sorted_batches(
    batches: Iterator[pa.RecordBatch], schema: Schema, limit: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Sort rows by time, then sequence number if there is one, then place in the input.

    Parameters
    ----------
    batches
        The rows, all of which can be taken; those of types to ignore are left out.
    schema
        Says where time and sequence number are.
    limit
        Bytes of rows held before they go to a temporary file; None is `SORT_BYTES`. Memory is about three times that,
        and `RUN_ROWS` rows of each such file.

    Yields
    ------
    pyarrow.RecordBatch
        Of any length. The files are in a temporary folder, and gone in the end.

    Raises
    ------
    DataError
        If files have a column in types that do not fit together, or columns that cannot be told apart.
    """
    limit = SORT_BYTES if limit is None else limit
    with tempfile.TemporaryDirectory(prefix="fastcep-sort-") as folder:
        runs: list[Path] = []
        held: list[pa.RecordBatch] = []
        size, place = 0, 0
        kinds: pa.Schema | None = None
        for batch in batches:
            keyed = _keyed(batch, schema, place)
            place += batch.num_rows
            if kinds is None:
                kinds = keyed.schema
            held.append(_cast(_aligned(keyed, kinds.names, schema), kinds))
            size += held[-1].nbytes
            if size > limit:
                runs.append(Path(folder) / f"{len(runs)}.arrow")
                _write(runs[-1], _sorted(held))
                held, size = [], 0
        if kinds is None:
            return
        last = iter(_sorted(held).to_batches(max_chunksize=RUN_ROWS)) if held else iter(())
        if runs:
            yield from _merged([*map(_read, runs), last])
        else:
            yield from map(_plain, last)


def _keyed(batch: pa.RecordBatch, schema: Schema, place: int) -> pa.RecordBatch:
    events, keep = read_without_strings(schema, batch)
    places = np.arange(place, place + batch.num_rows)
    if keep is not None:
        batch = batch.filter(from_numpy(keep))
        places = places[keep]
    sequence = np.zeros(len(places), np.int64) if events.sequence is None else events.sequence
    keys = [from_numpy(np.ascontiguousarray(key)) for key in (events.time, sequence, places)]
    return pa.RecordBatch.from_arrays([*map(_widest, batch.columns), *keys], [*batch.schema.names, *KEYS])


def _widest(array: Any) -> Any:
    """Give a column the type that it may have in all files."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if is_text(kind):
        kind = pa.large_string()
    elif pa.types.is_integer(kind):
        kind = pa.int64()
    elif pa.types.is_floating(kind):
        kind = pa.float64()
    elif pa.types.is_timestamp(kind):
        kind = pa.timestamp("ns", kind.tz)
    return array.cast(kind)


def _aligned(batch: pa.RecordBatch, names: list[str], schema: Schema) -> pa.RecordBatch:
    """Give the columns the order of the first file, or its names if numbers say which is which."""
    if batch.schema.names == names:
        return batch
    sources = [schema.time, schema.type, schema.sequence, *(column.source for column in schema.columns)]
    numbered = {isinstance(source, int) for source in sources if source is not None}
    if numbered == {False}:
        return batch.select(names)
    if numbered == {True}:
        return batch.rename_columns(names)
    raise DataError(
        f"files to be sorted together have the columns {', '.join(batch.schema.names[: -len(KEYS)])} and "
        f"{', '.join(names[: -len(KEYS)])}; the schema should give all columns by name, or all by number"
    )


def _cast(batch: pa.RecordBatch, kinds: pa.Schema) -> pa.RecordBatch:
    if batch.schema == kinds:
        return batch
    for name, found, expected in zip(kinds.names, batch.schema.types, kinds.types, strict=True):
        if found != expected and not pa.types.is_null(found):
            raise DataError(
                f"column {name!r} is {found} in one file and {expected} in another; to sort them together give it one "
                "type in all"
            )
    return batch.cast(kinds)


def _sorted(batches: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    time, sequence, place = (table.column(k).to_numpy() for k in range(-3, 0))
    return table.take(from_numpy(np.lexsort((place, sequence, time))))


def _write(run: Path, table: pa.Table) -> None:
    try:
        with pa.ipc.new_file(str(run), table.schema) as writer:
            writer.write_table(table, max_chunksize=RUN_ROWS)
    except OSError as error:
        raise DataError(
            f"cannot write {table.nbytes >> 20} MiB of rows to be sorted to {run.parent} ({error}); "
            "let the environment variable TMPDIR name a folder with room"
        ) from error


def _read(run: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(run)) as file:
        reader = pa.ipc.open_file(file)
        for k in range(reader.num_record_batches):
            yield reader.get_batch(k)


def _keys(batch: pa.RecordBatch) -> Keys:
    return tuple(batch.column(k).to_numpy() for k in range(batch.num_columns - len(KEYS), batch.num_columns))


def _plain(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(list(range(batch.num_columns - len(KEYS))))


def _merged(runs: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs: again and again all rows up to the smallest of the runs' last keys in memory."""
    heads = [next(run, None) for run in runs]
    while any(head is not None for head in heads):
        present = [(k, head, _keys(head)) for k, head in enumerate(heads) if head is not None]
        bound = min(tuple(int(key[-1]) for key in keys) for _, _, keys in present)
        parts: list[pa.RecordBatch] = []
        for k, head, keys in present:
            count = _up_to(keys, bound)
            parts.append(head.slice(0, count))
            heads[k] = head.slice(count) if count < head.num_rows else next(runs[k], None)
        for batch in _sorted(parts).to_batches():
            yield _plain(batch)


def _up_to(keys: Keys, bound: tuple[int, ...]) -> int:
    """How many first rows are not above a key."""
    time, sequence, place = keys
    last = (sequence < bound[1]) | ((sequence == bound[1]) & (place <= bound[2]))
    return int(np.count_nonzero((time < bound[0]) | ((time == bound[0]) & last)))
