"""Position counts: where in its windows a type stands, and takes part in matches.

eSPICE, section 3.3: the utility of an event of type T at position P is how often such an event took part in a detected
match, and the share of the position is how often an event at P is of type T.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fastcep.engine.engine import Engine
from fastcep.errors import ValidationError
from fastcep.plan import make_plan
from fastcep.query import ast, to_text
from fastcep.query.patterns import positive_leaves
from fastcep.shedding.counts.piece import Ints, Piece, Spans, chunks, piece_of
from fastcep.shedding.counts.tables import about, described, same
from fastcep.shedding.options import as_count

__all__ = ["added", "position_counts", "window_sizes"]

_WHO = "position_counts"


def position_counts(
    query: ast.Query, events: Any, *, bins: int = 1, owned: tuple[int, int] | None = None, base: int = 0
) -> pa.Table:
    """Count, over all explicit windows of a query, by type and position in the window.

    Windows belong to the piece that owns their opening event. So a piece needs, *behind* what it owns, the length of a
    window (``CLOSE ON``: of the longest), and *before* it only what tells which events open one: nothing, but under
    ``OPEN EVERY t`` the time t, where it is no beginning of the stream.

    Parameters
    ----------
    query
        Over explicit windows.
    events
        What `Engine.process` takes, in order.
    bins
        How many positions are one bin.
    owned
        Positions in the piece, of events of declared types: from the first that is owned to behind the last. None: all.
    base
        How many events of the stream come before the piece (for ``OPEN EVERY n EVENTS``).

    Returns
    -------
    pyarrow.Table
        A row for each ``type`` and ``position`` where there was an event, ascending by type (in the schema's order)
        and position: ``type`` string, ``position`` int64 (the number of the bin; the opening event is in bin 0),
        ``events`` int64 (how many of the type stood there, in all windows), ``matched`` int64 (in how many of the
        reported matches one of them took part: once per match and event). A window is as long as the piece if nothing
        closes it. The sizes of the windows are in the metadata, see `window_sizes`.

    Raises
    ------
    ValidationError
        If the query has no explicit windows, or an option is wrong.
    """
    as_count(_WHO, "bins", bins)
    if not isinstance(query.window, ast.ExplicitWindow):
        clause = to_text(query).partition("WITHIN ")[2].splitlines()[0].strip()
        raise ValidationError(
            f"{_WHO}: query {query.name!r} has WITHIN {clause}, under which an event has no position in a window; "
            "expected explicit windows, such as WINDOW OPEN ON A o CLOSE AFTER 100 EVENTS"
        )
    piece = piece_of(_WHO, query, events, owned, base)
    plan = make_plan(dataclasses.replace(query, returns=()))
    spans = Spans.of(piece, plan)
    own = piece.owns(spans.opens)
    spans = Spans(spans.opens[own], spans.lasts[own])
    sizes = spans.lasts - spans.opens + 1
    width = int(sizes.max(initial=1) - 1) // bins + 1
    types = query.schema.type_names
    there = _stood(piece, spans, sizes, bins, width, len(types))
    matched = _matched(piece, plan.query, spans, bins, width, len(types))
    cells = np.flatnonzero(there)
    of_type, position = np.divmod(cells, width)
    table = pa.table(
        {
            "type": pa.array([types[number] for number in of_type.tolist()], pa.string()),
            "position": position.astype(np.int64),
            "events": there[cells],
            "matched": matched[cells],
        }
    )
    size, windows = np.unique(sizes, return_counts=True)
    told = {"counts": "positions", "query": to_text(query), "bins": bins, "types": list(types)}
    return described(table, told | {"windows": list(zip(size.tolist(), windows.tolist(), strict=True))})


def _stood(piece: Piece, spans: Spans, sizes: Ints, bins: int, width: int, types: int) -> Ints:
    """How many events there were: int64[types * width]."""
    found = np.zeros(types * width, np.int64)
    for window, offset in chunks(sizes):
        of_type = piece.batch.type[spans.opens[window] + offset].astype(np.int64)
        found += np.bincount(of_type * width + offset // bins, minlength=len(found))
    return found


def _matched(piece: Piece, query: ast.Query, spans: Spans, bins: int, width: int, types: int) -> Ints:
    """How many of them took part in a match: int64[types * width]."""
    if len(piece) == 0 or len(spans.opens) == 0:
        return np.zeros(types * width, np.int64)
    engine = Engine(query)
    matches = pa.concat_tables([engine.process(piece.events).to_arrow(), engine.flush().to_arrow()])
    parts = [_bound(matches[leaf.name].combine_chunks()) for leaf in positive_leaves(query.pattern)]
    match = np.concatenate([rows for rows, _ in parts])
    event = _positions(piece, np.concatenate([numbers for _, numbers in parts]))
    if query.select == "cumulative":  # else a match binds an event once
        match, event = np.divmod(np.unique(match * len(piece) + event), len(piece))
    opened = _positions(piece, matches["window_id"].to_numpy())[match]
    own = piece.owns(opened)
    offset = (event[own] - opened[own]) // bins
    of_type = piece.batch.type[event[own]].astype(np.int64)
    return np.bincount(of_type * width + offset, minlength=types * width).astype(np.int64)


def _bound(column: Any) -> tuple[Ints, Ints]:
    """Of a column of matches the row of each event, and its sequence number."""
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_large_list(column.type) or pa.types.is_list(column.type):
        rows, column = pc.list_parent_indices(column).to_numpy(), pc.list_flatten(column)
    else:
        rows = np.arange(len(column))
    there = column.is_valid().to_numpy(zero_copy_only=False)
    return rows[there].astype(np.int64), column.drop_null().to_numpy().astype(np.int64)


def _positions(piece: Piece, numbers: Ints) -> Ints:
    """Positions in the piece of sequence numbers."""
    return numbers if piece.batch.sequence is None else np.searchsorted(piece.batch.sequence, numbers)


def window_sizes(counts: pa.Table) -> pa.Table:
    """How large the counted windows were.

    Parameters
    ----------
    counts
        Of `position_counts`.

    Returns
    -------
    pyarrow.Table
        ``size`` int64, in events, ascending; ``windows`` int64, how many were of this size. N, the mean size, is the
        sum of ``size * windows`` over that of ``windows`` (eSPICE, section 3.6).
    """
    pairs = about("window_sizes", counts, "positions")["windows"]
    size, windows = ([pair[at] for pair in pairs] for at in (0, 1))
    return pa.table({"size": pa.array(size, pa.int64()), "windows": pa.array(windows, pa.int64())})


def added(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up the position counts of the pieces of a stream.

    Parameters
    ----------
    tables
        Of `position_counts`, of one query with the same bins, in any order.

    Raises
    ------
    ValidationError
        If there are none, or they are of different queries or bins.
    """
    told = same("added_positions", tables, "positions", but=("windows",))
    whole = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
    whole = whole.group_by(["type", "position"], use_threads=False).aggregate([("events", "sum"), ("matched", "sum")])
    place = pc.index_in(whole["type"], value_set=pa.array(told[0]["types"], pa.string()))
    order = np.lexsort((whole["position"].to_numpy(), place.to_numpy()))
    whole = whole.select(["type", "position", "events_sum", "matched_sum"]).take(order)
    sizes: dict[int, int] = {}
    for one in told:
        for size, windows in one["windows"]:
            sizes[size] = sizes.get(size, 0) + windows
    whole = whole.rename_columns(["type", "position", "events", "matched"]).combine_chunks()
    return described(whole, told[0] | {"windows": [list(pair) for pair in sorted(sizes.items())]})
