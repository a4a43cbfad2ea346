"""Sort a stream by time in bounded memory: write sorted runs to temporary files, and merge them."""

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

#: Rows beyond this many bytes go to temporary files.
SORT_BYTES = 1 << 26
RUN_ROWS = 1 << 14  # rows of each run in memory while they are merged
KEYS = ("time", "sequence", "place")  # columns appended while sorting

Keys = tuple[npt.NDArray[np.int64], ...]


def sorted_batches(
    batches: Iterator[pa.RecordBatch], schema: Schema, limit: int | None = None
) -> Iterator[pa.RecordBatch]:
    """Sort rows by time, then sequence number if there is one, then position in the input.

    Parameters
    ----------
    batches
        Valid rows; those of ignored types are left out.
    schema
        Names the columns of time and sequence number.
    limit
        Bytes of rows held in memory before they are written to a temporary file; None is `SORT_BYTES`. Peak memory is
        about three times that, plus `RUN_ROWS` rows of each temporary file.

    Yields
    ------
    pyarrow.RecordBatch
        Sorted rows, in batches of any length. The temporary files are deleted at the end.

    Raises
    ------
    DataError
        If files have incompatible types for a column, or different columns that names or numbers alone cannot match.
    """
    limit = SORT_BYTES if limit is None else limit
    with tempfile.TemporaryDirectory(prefix="fastcep-sort-") as folder:
        runs: list[Path] = []
        held: list[pa.RecordBatch] = []
        size, position = 0, 0
        target: pa.Schema | None = None
        for batch in batches:
            keyed = _with_keys(batch, schema, position)
            position += batch.num_rows
            if target is None:
                target = keyed.schema
            held.append(_cast(_aligned(keyed, target.names, schema), target))
            size += held[-1].nbytes
            if size > limit:
                runs.append(Path(folder) / f"{len(runs)}.arrow")
                _write(runs[-1], _sorted(held))
                held, size = [], 0
        if target is None:
            return
        last = iter(_sorted(held).to_batches(max_chunksize=RUN_ROWS)) if held else iter(())
        if runs:
            yield from _merged([*map(_read, runs), last])
        else:
            yield from map(_without_keys, last)


def _with_keys(batch: pa.RecordBatch, schema: Schema, first_position: int) -> pa.RecordBatch:
    """Append the sort keys, widen the columns, and remove the rows of ignored types."""
    events, keep = read_without_strings(schema, batch)
    positions = np.arange(first_position, first_position + batch.num_rows)
    if keep is not None:
        batch = batch.filter(from_numpy(keep))
        positions = positions[keep]
    sequence = np.zeros(len(positions), np.int64) if events.sequence is None else events.sequence
    keys = [from_numpy(np.ascontiguousarray(key)) for key in (events.time, sequence, positions)]
    return pa.RecordBatch.from_arrays([*map(_widened, batch.columns), *keys], [*batch.schema.names, *KEYS])


def _widened(array: Any) -> Any:
    """Cast a column to the widest type of its family, which the columns of all files share."""
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
    """Order the columns as in the first file; if the schema gives them by number, rename them instead."""
    if batch.schema.names == names:
        return batch
    sources = [schema.time, schema.type, schema.sequence, *(column.source for column in schema.columns)]
    numbered = {isinstance(source, int) for source in sources if source is not None}
    if numbered == {False}:
        columns = batch.schema.names[: -len(KEYS)]  # readers leave out columns that the schema does not name
        places = [columns.index(name) for name in names[: -len(KEYS)]]
        return batch.select([*places, *range(len(columns), batch.num_columns)])
    if numbered == {True}:
        return batch.rename_columns(names)
    raise DataError(
        f"files to be sorted together have the columns {', '.join(batch.schema.names[: -len(KEYS)])} and "
        f"{', '.join(names[: -len(KEYS)])}; the schema should give all columns by name, or all by number"
    )


def _cast(batch: pa.RecordBatch, target: pa.Schema) -> pa.RecordBatch:
    if batch.schema == target:
        return batch
    for name, found, expected in zip(target.names, batch.schema.types, target.types, strict=True):
        if found != expected and not pa.types.is_null(found):
            raise DataError(
                f"column {name!r} is {found} in one file and {expected} in another; to sort the files together, give "
                "it the same type in all"
            )
    return batch.cast(target)


def _sorted(batches: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    time, sequence, position = (table.column(k).to_numpy() for k in range(-3, 0))
    return table.take(from_numpy(np.lexsort((position, sequence, time))))


def _write(run: Path, table: pa.Table) -> None:
    try:
        with pa.ipc.new_file(str(run), table.schema) as writer:
            writer.write_table(table, max_chunksize=RUN_ROWS)
    except OSError as error:
        raise DataError(
            f"cannot write {table.nbytes >> 20} MiB of rows to be sorted to {run.parent} ({error}); "
            "set the environment variable TMPDIR to a folder with free space"
        ) from error


def _read(run: Path) -> Iterator[pa.RecordBatch]:
    with pa.memory_map(str(run)) as file:
        reader = pa.ipc.open_file(file)
        for k in range(reader.num_record_batches):
            yield reader.get_batch(k)


def _keys(batch: pa.RecordBatch) -> Keys:
    return tuple(batch.column(k).to_numpy() for k in range(batch.num_columns - len(KEYS), batch.num_columns))


def _without_keys(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.select(list(range(batch.num_columns - len(KEYS))))


def _merged(runs: list[Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge sorted runs: in each step, all rows up to the smallest last key among the current batches of the runs."""
    heads = [next(run, None) for run in runs]
    while any(head is not None for head in heads):
        active = [(k, head, _keys(head)) for k, head in enumerate(heads) if head is not None]
        bound = min(tuple(int(key[-1]) for key in keys) for _, _, keys in active)
        parts: list[pa.RecordBatch] = []
        for k, head, keys in active:
            count = _rows_up_to(keys, bound)
            parts.append(head.slice(0, count))
            heads[k] = head.slice(count) if count < head.num_rows else next(runs[k], None)
        for batch in _sorted(parts).to_batches():
            yield _without_keys(batch)


def _rows_up_to(keys: Keys, bound: tuple[int, ...]) -> int:
    """Return the number of rows whose key is at most `bound`."""
    time, sequence, position = keys
    not_above = (sequence < bound[1]) | ((sequence == bound[1]) & (position <= bound[2]))
    return int(np.count_nonzero((time < bound[0]) | ((time == bound[0]) & not_above)))
