"""Position counts: how often a type occurs, and takes part in matches, at each position in its windows.

eSPICE, section 3.3: the utility of an event of type T at position P is how often such an event took part in a detected
match; the share of the position is how often an event at P is of type T.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.engine.engine import Engine
from fastcep.errors import ValidationError
from fastcep.plan import Plan, make_plan
from fastcep.query import ast, to_text
from fastcep.query.patterns import positive_variables
from fastcep.shedding.counts.bindable import bindable_events
from fastcep.shedding.counts.piece import Ints, Piece, Spans, chunks, piece_of
from fastcep.shedding.counts.tables import checked_metadata, metadata_of, with_metadata
from fastcep.shedding.options import as_count

__all__ = ["added", "position_counts", "size_counts", "window_sizes"]

_CALLER = "position_counts"
_COUNTS = ("position", "events", "matched")


def position_counts(
    query: ast.Query, events: Any, *, bins: int = 1, positions: int | None = None, bindable: bool = False,
    owned: tuple[int, int] | None = None, base: int = 0,
) -> pa.Table:  # fmt: skip
    """Count events and matches by type and position in the window, over all explicit windows of a query.

    A window belongs to the piece that owns its opening event. A piece therefore needs, *after* the events that it owns,
    the length of a window (``CLOSE ON``: of the longest window). *Before* them it needs nothing, except the time t
    under ``OPEN EVERY t`` if the piece is not the start of the stream.

    Parameters
    ----------
    query
        Query over explicit windows.
    events
        Events as `Engine.process` accepts them, in order.
    bins
        Number of positions per bin.
    positions
        Number of positions to which each window is scaled: the event at offset i of a window of n events is counted at
        position ``(i + 1/2) * positions / n``, rounded down (eSPICE, section 3.6). None: windows are not scaled.
    bindable
        Whether to count only events that some variable can bind, by type and by the conditions on the event alone.
        Dropping the others saves no work.
    owned
        Range of owned positions in the piece, counting events of declared types: the first one, and the one after the
        last. None: all.
    base
        Number of events of the stream before the piece (for ``OPEN EVERY n EVENTS``).

    Returns
    -------
    pyarrow.Table
        A row for each ``type`` and ``position`` with an event, ascending by type (in the schema's order) and position:
        ``type`` string, ``position`` int64 (the number of the bin; the opening event is in bin 0), ``events`` int64
        (number of events of the type at the position, in all windows), ``matched`` int64 (number of reported matches
        in which one of them took part: once per match and event). A window that nothing closes ends with the piece.
        The metadata has the sizes of the windows, see `window_sizes`.

    Raises
    ------
    ValidationError
        If the query has no explicit windows, or an option is invalid.
    """
    piece, plan, spans = _spans(_CALLER, query, events, bins, positions, owned, base)
    sizes = spans.lasts - spans.opens + 1
    scale = _Scale(sizes, positions, bins)
    types = query.schema.type_names
    occurred = _occurrences(piece, spans, scale, len(types), bindable_events(piece, plan.query) if bindable else None)
    matched = _matched(piece, plan.query, spans, scale, len(types))
    cells = np.flatnonzero(occurred)
    of_type, position = np.divmod(cells, scale.width)
    table = pa.table(
        {
            "type": pa.array([types[number] for number in of_type.tolist()], pa.string()),
            "position": position.astype(np.int64),
            "events": occurred[cells],
            "matched": matched[cells],
        }
    )
    return with_metadata(table, _metadata(query, sizes, bins, positions, bindable))


def size_counts(query: ast.Query, events: Any, *, owned: tuple[int, int] | None = None, base: int = 0) -> pa.Table:
    """Count the windows by size only: a table of `position_counts` without rows, for `window_sizes`.

    The parameters and errors are those of `position_counts`.
    """
    _, _, spans = _spans(_CALLER, query, events, 1, None, owned, base)
    table = pa.table({"type": pa.array([], pa.string()), **{name: pa.array([], pa.int64()) for name in _COUNTS}})
    return with_metadata(table, _metadata(query, spans.lasts - spans.opens + 1, 1, None, False))


@dataclass(frozen=True)
class _Scale:
    """Conversion of offsets in windows of these sizes to bins: int64[windows]."""

    sizes: Ints
    positions: int | None
    bins: int

    @property
    def width(self) -> int:
        """Number of bins of the largest window."""
        largest = int(self.sizes.max(initial=1)) if self.positions is None else self.positions
        return (largest - 1) // self.bins + 1

    def bin(self, offset: Ints, window: Ints) -> Ints:
        """Return the bin of each offset in a window."""
        if self.positions is not None:
            offset = (2 * offset + 1) * self.positions // (2 * self.sizes[window])
        return offset // self.bins


def _spans(
    caller: str, query: ast.Query, events: Any, bins: int, positions: int | None, owned: tuple[int, int] | None,
    base: int,
) -> tuple[Piece, Plan, Spans]:  # fmt: skip
    """Return the piece, the plan and the owned windows; raise `ValidationError` for what `position_counts` rejects."""
    as_count(caller, "bins", bins)
    if positions is not None:
        as_count(caller, "positions", positions)
    if not isinstance(query.window, ast.ExplicitWindow):
        clause = to_text(query).partition("WITHIN ")[2].splitlines()[0].strip()
        raise ValidationError(
            f"{caller}: query {query.name!r} has WITHIN {clause}, under which an event has no position in a window; "
            "expected explicit windows, such as WINDOW OPEN ON A o CLOSE AFTER 100 EVENTS. For WITHIN use "
            "kind='hybrid' or 'pspice'"
        )
    piece = piece_of(caller, query, events, owned, base)
    plan = make_plan(dataclasses.replace(query, returns=()))
    spans = Spans.of(piece, plan)
    owns = piece.owns(spans.opens)
    return piece, plan, Spans(spans.opens[owns], spans.lasts[owns])


def _metadata(query: ast.Query, sizes: Ints, bins: int, positions: int | None, bindable: bool) -> dict[str, Any]:
    size, windows = np.unique(sizes, return_counts=True)
    return {
        "counts": "positions", "query": to_text(query), "bins": bins, "positions": positions, "bindable": bindable,
        "types": list(query.schema.type_names),
        "windows": [list(pair) for pair in zip(size.tolist(), windows.tolist(), strict=True)],
    }  # fmt: skip


def _occurrences(piece: Piece, spans: Spans, scale: _Scale, types: int, counted: npt.NDArray[np.bool_] | None) -> Ints:
    """Count events by type and bin, all or those of a mask: int64[types * width]."""
    counts = np.zeros(types * scale.width, np.int64)
    for window, offset in chunks(scale.sizes):
        event = spans.opens[window] + offset
        if counted is not None:
            kept = counted[event]
            window, offset, event = window[kept], offset[kept], event[kept]
        of_type = piece.batch.type[event].astype(np.int64)
        counts += np.bincount(of_type * scale.width + scale.bin(offset, window), minlength=len(counts))
    return counts


def _matched(piece: Piece, query: ast.Query, spans: Spans, scale: _Scale, types: int) -> Ints:
    """Count events in matches by type and bin: int64[types * width]."""
    width = scale.width
    if len(piece) == 0 or len(spans.opens) == 0:
        return np.zeros(types * width, np.int64)
    engine = Engine(query)
    matches = pa.concat_tables([engine.process(piece.events).to_arrow(), engine.flush().to_arrow()])
    parts = [_bound(matches[variable.name].combine_chunks()) for variable in positive_variables(query.pattern)]
    match = np.concatenate([rows for rows, _ in parts])
    event = piece.positions(np.concatenate([numbers for _, numbers in parts]))
    if query.select == "cumulative":  # only then a match can bind an event more than once
        match, event = np.divmod(np.unique(match * len(piece) + event), len(piece))
    opened = piece.positions(matches["window_id"].to_numpy())[match]
    owns = piece.owns(opened)
    offset = scale.bin(event[owns] - opened[owns], np.searchsorted(spans.opens, opened[owns]))
    of_type = piece.batch.type[event[owns]].astype(np.int64)
    return np.bincount(of_type * width + offset, minlength=types * width).astype(np.int64)


def _bound(column: Any) -> tuple[Ints, Ints]:
    """Return the row and the sequence number of each event in a column of matches."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_large_list(column.type) or pa.types.is_list(column.type):
        rows, column = pc.list_parent_indices(column).to_numpy(), pc.list_flatten(column)
    else:
        rows = np.arange(len(column))
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    return rows[valid].astype(np.int64), column.drop_null().to_numpy().astype(np.int64)


def window_sizes(counts: pa.Table) -> pa.Table:
    """Return the sizes of the counted windows.

    Parameters
    ----------
    counts
        Table of `position_counts`.

    Returns
    -------
    pyarrow.Table
        ``size`` int64, in events, ascending; ``windows`` int64, the number of windows of this size. N, the mean size,
        is the sum of ``size * windows`` divided by that of ``windows`` (eSPICE, section 3.6).
    """
    pairs = metadata_of("window_sizes", counts, "positions")["windows"]
    size, windows = ([pair[column] for pair in pairs] for column in (0, 1))
    return pa.table({"size": pa.array(size, pa.int64()), "windows": pa.array(windows, pa.int64())})


def added(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up the position counts of the pieces of a stream.

    Parameters
    ----------
    tables
        Tables of `position_counts`, for one query with the same bins, in any order.

    Raises
    ------
    ValidationError
        If there are none, or their queries or bins differ.
    """
    metadata = checked_metadata("added_positions", tables, "positions", but=("windows",))
    total = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
    total = total.group_by(["type", "position"], use_threads=False).aggregate([("events", "sum"), ("matched", "sum")])
    place = pc.index_in(total["type"], value_set=pa.array(metadata[0]["types"], pa.string()))
    order = np.lexsort((total["position"].to_numpy(), place.to_numpy()))
    total = total.select(["type", "position", "events_sum", "matched_sum"]).take(order)
    sizes: dict[int, int] = {}
    for of_piece in metadata:
        for size, windows in of_piece["windows"]:
            sizes[size] = sizes.get(size, 0) + windows
    total = total.rename_columns(["type", "position", "events", "matched"]).combine_chunks()
    return with_metadata(total, metadata[0] | {"windows": [list(pair) for pair in sorted(sizes.items())]})
