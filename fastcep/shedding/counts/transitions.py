"""Transition counts: transitions of partial matches between states per event of the stream, with their cost.

pSPICE, section III-C: an observation <s, s', t> states that a partial match in state s met an event of its window, was
in s' afterwards, and that this took the time t. Observations are counted from the lineage of all partial matches
(`fastcep.shedding.lineage`), not one by one: a partial match meets every event after the one that created it until its
window ends, so two positions give the number of times that it stayed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from fastcep.option_types import Index
from fastcep.overload.costs import CostTable
from fastcep.overload.costs import cost_table as cost_table_of
from fastcep.query import ast, to_text
from fastcep.shedding.counts.lifetimes import Lifetimes
from fastcep.shedding.counts.piece import Ints, Piece, Spans, piece_of
from fastcep.shedding.counts.refused import check_query
from fastcep.shedding.counts.tables import checked_metadata, metadata_of, with_metadata
from fastcep.shedding.counts.transition_sums import GONE, MATCH, START, TransitionSums
from fastcep.shedding.lineage import observe

__all__ = ["added", "transition_counts", "window_size"]

_CALLER = "transition_counts"
_FIELDS = ("source", "target", "source_name", "target_name")
_SUMS = ("observations", "stayed", "met", "time")


def transition_counts(
    query: ast.Query,
    events: Any,
    *,
    cost_table: CostTable | str = "measured",
    index: Index = "full",
    owned: tuple[int, int] | None = None,
    base: int = 0,
) -> pa.Table:
    """Count the transitions of partial matches between states.

    An observation belongs to the event that was met, so a piece needs no events *after* those that it owns. *Before*
    them it needs the context that `fastcep.plan.slicing.slicing_of` gives under ``time``: usually the length of a
    window (``CLOSE ON``: of the longest window), and under ``OPEN EVERY t`` additionally the time t, which determines
    whether its first event opens a window.

    Parameters
    ----------
    query
        Query under skip_till_any or skip_till_next, without policies and without negated variables that depend on the
        end of a window.
    events
        Events as `Engine.process` accepts them, in order. All partial matches are held in memory, see `observe`.
    cost_table, index
        Cost table and index option of the engines that are to shed.
    owned
        Range of owned positions in the piece, counting events of declared types: the first one, and the one after the
        last. None: all.
    base
        Number of events of the stream before the piece (for ``OPEN EVERY n EVENTS``).

    Returns
    -------
    pyarrow.Table
        A row for each observed pair of states, ascending: ``source``, ``target`` int32 (numbers of the states; -1 is
        ``start``, -2 ``gone``, -3 ``match``), ``source_name``, ``target_name`` string, ``observations`` int64,
        ``stayed`` int64 (the observations after which the partial match itself is present, not a new one), ``met``
        int64 (in the row of a state with itself: how often its partial matches met an event), ``time`` float64 (ns).

        States are those of the plan, as `explain` names them. If a variable binds several events, up to 16 states say
        how many it has bound, see `fastcep.shedding.counts.chain_states`.

        Under skip_till_any a partial match stays and forks: if an event extends it in k ways, it counts once as (i, i),
        and each of the k new ones counts once. Under skip_till_next it moves: (i, j) replaces (i, i). ``start`` begins
        partial matches: (start, start) is an event of the stream, or of an explicit window (under skip_till_next: one
        that began no partial match), and (start, j) a birth. ``gone`` counts partial matches that an event used up
        without creating a partial match or match (a key without a value). Each explicit window has its own partial
        matches.

        ``time`` is by the cost table. Visits of a partial match count with the pair in which it stayed or moved; new
        partial matches and matches count with their source; the cost of every event counts with (start, start). Visits
        and births count once per window, even if the engine shares them among windows.

    Raises
    ------
    ValidationError
        If the query cannot be counted yet, or an option is invalid.
    """
    costs = cost_table_of(cost_table)
    plan = check_query(_CALLER, query, owned is not None)
    piece = piece_of(_CALLER, query, events, owned, base)
    spans = None if plan.windows is None else Spans.of(piece, plan)
    (record,) = observe(query, piece.events, cost_table=costs, index=index).records
    lifetimes = Lifetimes(_CALLER, record, piece, spans)
    names = lifetimes.chain.names
    sums = TransitionSums(len(names), costs)
    sums.count(lifetimes, piece)
    _count_start(sums, lifetimes, piece, spans)
    if piece.head_owned[0] < piece.head_owned[1]:  # skipped events contribute only their costs
        first, last = piece.head_owned
        (head_record,) = observe(query, piece.head, cost_table=costs, index=index).records
        tried = np.unique(head_record.tried)
        sums.add_start(0, 0, last - first, int(((tried >= first) & (tried < last)).sum()))
    metadata = {
        "counts": "transitions", "query": to_text(query), "strategy": query.strategy, "states": names,
        "plan_states": lifetimes.chain.plan_states,
        "index": index, "cost_table": costs.hash, "match_time": costs.nanoseconds["match"],
        "stream": _stream(piece, spans),
    }  # fmt: skip
    return with_metadata(_table(sums, names), metadata)


def _count_start(sums: TransitionSums, lifetimes: Lifetimes, piece: Piece, spans: Spans | None) -> None:
    """Count the events for the start state."""
    roots = lifetimes.born & (lifetimes.record.parents < 0) & piece.owns(lifetimes.record.events)
    starting = np.unique(lifetimes.record.events[roots])
    if spans is None:
        met, moved = piece.last - piece.first, len(starting)
    else:
        inside = np.minimum(spans.lasts, piece.last - 1) - np.maximum(spans.opens, piece.first) + 1
        met = int(np.maximum(inside, 0).sum())
        moved = sum(len(number) for number, _ in spans.holding(starting, starting))
    stays = met - moved if lifetimes.record.plan.must_advance else met
    relevant = int(piece.owns(np.unique(lifetimes.record.tried)).sum())
    sums.add_start(met, stays, piece.last - piece.first, relevant)


def _stream(piece: Piece, spans: Spans | None) -> dict[str, Any]:
    """Return what `window_size` needs: number, first and last time of the owned events, and of windows opened there."""
    owned = piece.batch.time[piece.first : piece.last]
    head = piece.head_owned[1] - piece.head_owned[0]
    windows = 0 if spans is None else int(piece.owns(spans.opens).sum())
    events, timed = len(owned) + head, len(owned) if spans is None else 0  # explicit windows need no rate
    times = (int(owned[0]), int(owned[-1])) if timed else None
    return {"events": events, "times": times, "timed": timed, "windows": windows}


def _table(sums: TransitionSums, names: Sequence[str]) -> pa.Table:
    name_of = {START: "start", GONE: "gone", MATCH: "match"} | dict(enumerate(names))
    source, target = sums.pairs()
    order = np.lexsort((_place(target, len(names)), source))
    source, target = source[order], target[order]
    labels = [pa.array([name_of[number] for number in states.tolist()], pa.string()) for states in (source, target)]
    columns = [source.astype(np.int32), target.astype(np.int32), *labels]
    values = [pa.array(column[order]) for column in sums.sums()]
    return pa.table([*columns, *values], names=[*_FIELDS, *_SUMS])


def _place(numbers: Ints, states: int) -> Ints:
    """Return sort keys of states: start, those of the plan, gone, match."""
    return np.where(numbers < START, states - 2 - numbers, numbers)


def added(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up the transition counts of the pieces of a stream; times to the picosecond.

    Parameters
    ----------
    tables
        Tables of `transition_counts`, for one query with the same options, in any order.

    Raises
    ------
    ValidationError
        If there are none, or their queries or options differ.
    """
    all_metadata = checked_metadata("added_transitions", tables, "transitions", but=("stream",))
    metadata = all_metadata[0] | {"stream": _added_streams([item["stream"] for item in all_metadata])}
    rows = pa.concat_tables([table.replace_schema_metadata(None) for table in tables])
    picoseconds = np.rint(rows["time"].to_numpy() * 1000).astype(np.int64)
    rows = rows.set_column(rows.column_names.index("time"), "time", pa.array(picoseconds))
    sums = rows.group_by(list(_FIELDS), use_threads=False).aggregate([(name, "sum") for name in _SUMS])
    place = _place(sums["target"].to_numpy(), len(metadata["states"]))
    order = np.lexsort((place, sums["source"].to_numpy()))
    sums = sums.select([*_FIELDS, *(f"{name}_sum" for name in _SUMS)]).take(order).combine_chunks()
    time = pa.array(sums["time_sum"].to_numpy() / 1000)
    return with_metadata(sums.rename_columns([*_FIELDS, *_SUMS]).set_column(7, "time", time), metadata)


def _added_streams(streams: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Add up the descriptions of the pieces of a stream."""
    times = [time for stream in streams for time in stream["times"] or ()]
    sums = {key: sum(stream[key] for stream in streams) for key in ("events", "timed", "windows")}
    span = [min(times), max(times)] if times else None
    return {"events": sums["events"], "times": span, "timed": sums["timed"], "windows": sums["windows"]}


def window_size(query: ast.Query, counts: pa.Table) -> float:
    """Return the mean number of events in a window of the counted stream; 0 if that is unknown.

    Under ``WITHIN t`` it follows from the mean rate of the stream.

    Parameters
    ----------
    query
        The query that was counted.
    counts
        Table of `transition_counts` or `added_transitions`.
    """
    metadata, window = metadata_of("window_size", counts, "transitions"), query.window
    stream = metadata["stream"]
    if isinstance(window, ast.CountWindow):
        return float(window.events)
    if isinstance(window, ast.TimeWindow):
        passed = stream["times"][1] - stream["times"][0] if stream["times"] else 0
        return window.nanoseconds * (stream["timed"] - 1) / passed if passed > 0 else float(stream["timed"])
    met = counts["met"].to_numpy()[counts["source"].to_numpy() == START].sum()
    return float(met) / stream["windows"] if stream["windows"] else 0.0
