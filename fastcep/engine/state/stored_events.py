"""Write and read the events of a snapshot as tables: events of the ring, held events and late events."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from fastcep.engine.state.string_codes import Codes
from fastcep.engine.state.validation import check_columns, check_within
from fastcep.events import EventBatch, EventRing, Schema
from fastcep.stored import Misfit

__all__ = ["check_bound", "check_tables", "columns_of", "put_events", "read_batches", "text_columns"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
Rows = Mapping[str, Any] | None

_BUILTINS: dict[str, Any] = {"time": np.int64, "type": np.uint16, "seq": np.int64}


def columns_of(batch: EventBatch) -> dict[str, Any]:
    """Return the columns of a batch, for a table."""
    rows: dict[str, Any] = {"time": batch.time, "type": batch.type, "seq": batch.sequence}
    rows |= {f"c{k}": column for k, column in enumerate(batch.columns)}
    return rows | {f"n{k}": nulls for k, nulls in enumerate(batch.nulls) if nulls is not None}


def text_columns(
    schema: Schema, rows: Mapping[str, Any], others: Sequence[int] = ()
) -> Iterator[tuple[str, Flags | None]]:
    """Yield the string columns of a table of events, each with the mask of its non-null entries (None: all).

    ``others`` are the numbers of string columns that are not in the schema.
    """
    for k in (*(k for k, column in enumerate(schema.columns) if column.dtype == "string"), *others):
        if f"c{k}" in rows:
            nulls = rows.get(f"n{k}")
            yield f"c{k}", None if nulls is None else nulls == 0


def check_tables(tables: Mapping[str, Any], names: set[str]) -> None:
    """Check that all tables have one of these names; if not, raise `Misfit`."""
    for name in tables:
        if name not in names:
            raise Misfit("tables", f"a table {name!r}", "only those of its queries, of events and of texts")


def check_bound(bound: Sequence[Ints], rows: Rows, ring: EventRing, position: int) -> None:
    """Check that a snapshot has all bound events, if the engine keeps events; if not, raise `Misfit`.

    Parameters
    ----------
    bound
        Positions of the bound events; -1: no event.
    rows
        Columns of the snapshot's table of events; None: there is none.
    ring
        The event ring of the engine.
    position
        Position of the engine in the stream.
    """
    stored = np.empty(0, np.int64)
    if rows is not None:
        check_columns("events", rows, *_dtypes(ring))
        stored = rows["position"]
        check_within("table 'events', position", stored, 0, position - 1)
        if not (np.diff(stored) > 0).all():
            raise Misfit("table 'events', position", "one not after the previous one", "ascending positions")
    for positions in bound:
        needed = np.unique(positions[positions >= 0])
        missing = needed[~np.isin(needed, stored)]
        if len(missing):
            raise Misfit("table 'events'", f"no event at position {int(missing[0])}", "one, because it is bound")


def put_events(
    ring: EventRing, schema: Schema, rows: Rows, codes: Codes, position: int, others: Sequence[int] = ()
) -> None:
    """Put the events of a snapshot, which `check_bound` has checked, into the ring; ``others``: see `text_columns`.

    Raises
    ------
    Misfit
        The machine does not have the memory for a ring from the first event to ``position``.
    """
    if rows is None:
        return
    needed, available = ring.bytes_with(position - int(rows["position"][0])), _machine_memory()
    if needed > available:
        found = f"events that need a ring of {needed:,} bytes"
        raise Misfit("table 'events', position", found, f"at most {available:,}, the memory of this machine")
    ring.put(_with_codes("events", schema, rows, codes, others))


def read_batches(schema: Schema, name: str, rows: Rows, codes: Codes) -> Iterator[EventBatch]:
    """Yield the batches that were written as one table; its column ``batch`` has the number of the batch."""
    if rows is None:
        return
    columns = range(len(schema.columns))
    dtypes = {f"c{k}": np.float64 if schema.columns[k].dtype == "float64" else np.int64 for k in columns}
    check_columns(name, rows, {**_BUILTINS, **dtypes, "batch": np.int64}, {f"n{k}" for k in columns})
    copies = _with_codes(name, schema, rows, codes)
    steps = np.diff(copies["batch"], prepend=0)
    if not ((steps == 0) | (steps == 1)).all() or copies["batch"][0] != 0:
        raise Misfit(f"table {name!r}, batch", "a number that does not follow the previous one", "0, 1, 2, … in order")
    joined = EventBatch(
        schema, copies["time"], copies["type"], copies["seq"],
        tuple(copies[f"c{k}"] for k in columns), tuple(copies.get(f"n{k}") for k in columns),
    )  # fmt: skip
    ends = np.cumsum(np.bincount(copies["batch"]))
    for first, end in zip([0, *ends[:-1]], ends, strict=True):
        yield joined.slice(int(first), int(end))


def _with_codes(
    name: str, schema: Schema, rows: Mapping[str, Any], codes: Codes, others: Sequence[int] = ()
) -> dict[str, Any]:
    """Copy a table of events, check its types, bools and nulls, and replace numbers of texts by codes."""
    copies: dict[str, Any] = {column: np.array(values) for column, values in rows.items()}
    check_within(f"table {name!r}, type", copies["type"], 0, len(schema.type_names) - 1)
    for k, column in enumerate(schema.columns):
        if f"n{k}" in copies:
            if copies[f"n{k}"].dtype != np.uint8:
                raise Misfit(f"table {name!r}, column 'n{k}'", f"{copies[f'n{k}'].dtype}", "uint8")
            check_within(f"table {name!r}, n{k}", copies[f"n{k}"], 0, 1)
        if column.dtype == "bool" and f"c{k}" in copies:
            check_within(f"table {name!r}, c{k}", copies[f"c{k}"], 0, 1)
    for k in others:
        if f"n{k}" in copies:
            check_within(f"table {name!r}, n{k}", copies[f"n{k}"], 0, 1)
    for column_name, mask in text_columns(schema, copies, others):
        codes.put(copies[column_name], mask, f"table {name!r}")
    return copies


def _dtypes(ring: EventRing) -> tuple[dict[str, Any], set[str]]:
    """Return the dtypes of the required columns of the ring's table, and the names of its optional columns."""
    attributes = {f"c{column}": ring.arrays(column)[0].dtype for column in ring.columns}
    return {"position": np.int64, **_BUILTINS, **attributes}, {f"n{column}" for column in ring.columns}


def _machine_memory() -> int:
    """Return the memory of this machine in bytes."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
