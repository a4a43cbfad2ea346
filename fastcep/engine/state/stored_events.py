"""Events in a snapshot: those of the ring, held ones and late ones, as tables."""

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
    """The columns of a batch of its own, for a table."""
    rows: dict[str, Any] = {"time": batch.time, "type": batch.type, "seq": batch.sequence}
    rows |= {f"c{k}": column for k, column in enumerate(batch.columns)}
    return rows | {f"n{k}": nulls for k, nulls in enumerate(batch.nulls) if nulls is not None}


def text_columns(schema: Schema, rows: Mapping[str, Any]) -> Iterator[tuple[Ints, Flags | None]]:
    """Where numbers of texts stand in a table of events: the column, and which of its entries (None: all)."""
    for k, column in enumerate(schema.columns):
        if column.dtype == "string" and f"c{k}" in rows:
            nulls = rows.get(f"n{k}")
            yield rows[f"c{k}"], None if nulls is None else nulls == 0


def check_tables(tables: Mapping[str, Any], known: set[str]) -> None:
    """Refuse a table that nothing would read: `Misfit`."""
    for name in tables:
        if name not in known:
            raise Misfit("tables", f"a table {name!r}", "only those of its queries, of events and of texts")


def check_bound(bound: Sequence[Ints], rows: Rows, ring: EventRing, position: int) -> None:
    """Refuse positions of which the snapshot has no event, where the engine keeps events: `Misfit`."""
    own = np.empty(0, np.int64)
    if rows is not None:
        check_columns("events", rows, *_dtypes(ring))
        own = rows["position"]
        check_within("table 'events', position", own, 0, position - 1)
        if not (np.diff(own) > 0).all():
            raise Misfit("table 'events', position", "one that is not behind the one before", "ascending positions")
    for positions in bound:
        some = np.unique(positions[positions >= 0])
        missing = some[~np.isin(some, own)]
        if len(missing):
            raise Misfit("table 'events'", f"no event at position {int(missing[0])}", "one, as it is bound")


def put_events(ring: EventRing, schema: Schema, rows: Rows, codes: Codes, position: int) -> None:
    """Put the events that partial matches bind, which `check_bound` has seen, into the ring.

    Raises
    ------
    Misfit
        The machine has no memory for a ring from the first of them to the position.
    """
    if rows is None:
        return
    needed, there = ring.bytes_with(position - int(rows["position"][0])), _memory()
    if needed > there:
        what = f"events that need a ring of {needed:,} bytes"
        raise Misfit("table 'events', position", what, f"at most {there:,}, the memory of this machine")
    ring.put(_with_codes("events", schema, rows, codes))


def read_batches(schema: Schema, name: str, rows: Rows, codes: Codes) -> Iterator[EventBatch]:
    """Batches that were written as one table, a number each."""
    if rows is None:
        return
    columns = range(len(schema.columns))
    dtypes = {f"c{k}": np.float64 if schema.columns[k].dtype == "float64" else np.int64 for k in columns}
    check_columns(name, rows, {**_BUILTINS, **dtypes, "batch": np.int64}, {f"n{k}" for k in columns})
    own = _with_codes(name, schema, rows, codes)
    steps = np.diff(own["batch"], prepend=0)
    if not ((steps == 0) | (steps == 1)).all() or own["batch"][0] != 0:
        raise Misfit(f"table {name!r}, batch", "a number that does not follow the one before", "0, 1, 2, … in order")
    whole = EventBatch(
        schema, own["time"], own["type"], own["seq"],
        tuple(own[f"c{k}"] for k in columns), tuple(own.get(f"n{k}") for k in columns),
    )  # fmt: skip
    ends = np.cumsum(np.bincount(own["batch"]))
    for first, end in zip([0, *ends[:-1]], ends, strict=True):
        yield whole.slice(int(first), int(end))


def _with_codes(name: str, schema: Schema, rows: Mapping[str, Any], codes: Codes) -> dict[str, Any]:
    """A copy of a table of events, with codes instead of numbers of texts; its types, bools and nulls are checked."""
    own: dict[str, Any] = {column: np.array(values) for column, values in rows.items()}
    check_within(f"table {name!r}, type", own["type"], 0, len(schema.type_names) - 1)
    for k, column in enumerate(schema.columns):
        if f"n{k}" in own:
            if own[f"n{k}"].dtype != np.uint8:
                raise Misfit(f"table {name!r}, column 'n{k}'", f"{own[f'n{k}'].dtype}", "uint8")
            check_within(f"table {name!r}, n{k}", own[f"n{k}"], 0, 1)
        if column.dtype == "bool" and f"c{k}" in own:
            check_within(f"table {name!r}, c{k}", own[f"c{k}"], 0, 1)
    for numbers, where in text_columns(schema, own):
        codes.put(numbers, where, f"table {name!r}")
    return own


def _dtypes(ring: EventRing) -> tuple[dict[str, Any], set[str]]:
    """The columns of the ring's table with their types, and those that it may have beside."""
    kept = {f"c{column}": ring.arrays(column)[0].dtype for column in ring.columns}
    return {"position": np.int64, **_BUILTINS, **kept}, {f"n{column}" for column in ring.columns}


def _memory() -> int:
    """Bytes that this machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
