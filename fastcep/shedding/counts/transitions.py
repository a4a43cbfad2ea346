"""Transition counts: from which state to which partial matches went with each event of the stream, and what it cost.

pSPICE, section III-C: an observation <s, s', t> is that a partial match in state s met an event of its window, was in
s' behind it, and that this took the time t. They are counted from the record of all partial matches
(`fastcep.shedding.lineage`), never made one by one: a partial match meets every event behind the one that made
it until its window ends, so that it is known from two positions how often it stayed.
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
from fastcep.shedding.counts.tables import described, same
from fastcep.shedding.counts.transition_sums import GONE, MATCH, START, TransitionSums, state_names_of
from fastcep.shedding.lineage import observe

__all__ = ["added", "transition_counts"]

_WHO = "transition_counts"
_FIELDS = ("source", "target", "source_name", "target_name")
_SUMS = ("observations", "stayed", "time")


def transition_counts(
    query: ast.Query,
    events: Any,
    *,
    cost_table: CostTable | str = "measured",
    index: Index = "full",
    owned: tuple[int, int] | None = None,
    base: int = 0,
) -> pa.Table:
    """Count how partial matches went from state to state.

    All is counted with the event that was met, so that a piece needs no events *behind* what it owns; *before* it, it
    needs what `fastcep.plan.slicing.slicing_of` says under ``time``: as a rule the length of a window (``CLOSE ON``: of
    the longest), and under ``OPEN EVERY t`` the time t before that, which tells whether its first event opens a window.

    Parameters
    ----------
    query
        Of one of the strategies skip_till_any and skip_till_next, without policies and without negated variables
        that look to the end of a window.
    events
        What `Engine.process` takes, in order. All partial matches are held in memory, see `observe`.
    cost_table, index
        Of the engines that are to shed: what operations cost, and which partial matches an event looks at.
    owned
        Positions in the piece, of events of declared types: from the first that is owned to behind the last. None: all.
    base
        How many events of the stream come before the piece (for ``OPEN EVERY n EVENTS``).

    Returns
    -------
    pyarrow.Table
        A row for each pair of states that was observed, ascending: ``source``, ``target`` int32 (numbers of the
        plan's states; -1 is ``start``, -2 ``gone``, -3 ``match``), ``source_name``, ``target_name`` string (as
        `explain` names them), ``observations`` int64, ``stayed`` int64 (of these, those in which it was the partial
        match itself that was there afterwards, not one that was made), ``time`` float64 (ns).

        Under skip_till_any a partial match stays and forks: one that meets an event of which k others come counts
        once as (i, i), and each of the others once. Under skip_till_next it moves, (i, j) in the place of (i, i).
        ``start`` is what begins partial matches: (start, start) is an event of the stream, or of an explicit window,
        (under skip_till_next: with which none began), (start, j) a birth. What an event used up without a partial
        match or match coming of it (a key without a value) is ``gone``. In explicit windows each window has partial
        matches of its own.

        ``time`` is by the cost table: looks at a partial match count where it stayed or moved, what was made counts
        with what it came of, what every event costs with (start, start). Looks and births count in each window,
        also where the engine shares them among windows.

    Raises
    ------
    ValidationError
        If the query has what cannot be counted yet, or an option is wrong.
    """
    prices = cost_table_of(cost_table)
    plan = check_query(_WHO, query, owned is not None)
    piece = piece_of(_WHO, query, events, owned, base)
    spans = None if plan.windows is None else Spans.of(piece, plan)
    (record,) = observe(query, piece.events, cost_table=prices, index=index).records
    lives = Lifetimes(_WHO, record, piece, spans)
    tally = TransitionSums(len(record.plan.states), prices)
    tally.count(lives, piece)
    _count_start(tally, lives, piece, spans)
    if piece.head_owned[0] < piece.head_owned[1]:  # only their costs are left to count
        first, last = piece.head_owned
        (ahead,) = observe(query, piece.head, cost_table=prices, index=index).records
        tried = np.unique(ahead.tried)
        tally.add_start(0, last - first, int(((tried >= first) & (tried < last)).sum()))
    names = state_names_of(record.plan)
    told = {
        "counts": "transitions", "query": to_text(query), "strategy": query.strategy, "states": names,
        "index": index, "cost_table": prices.hash,
    }  # fmt: skip
    return described(_table(tally, names), told)


def _count_start(tally: TransitionSums, lives: Lifetimes, piece: Piece, spans: Spans | None) -> None:
    """Count the events that were met by what begins partial matches."""
    roots = lives.born & (lives.record.parents < 0) & piece.owns(lives.record.events)
    beginning = np.unique(lives.record.events[roots])
    if spans is None:
        met, moved = piece.last - piece.first, len(beginning)
    else:
        inside = np.minimum(spans.lasts, piece.last - 1) - np.maximum(spans.opens, piece.first) + 1
        met = int(np.maximum(inside, 0).sum())
        moved = sum(len(number) for number, _ in spans.holding(beginning, beginning))
    stays = met - moved if lives.record.plan.must_advance else met
    relevant = int(piece.owns(np.unique(lives.record.tried)).sum())
    tally.add_start(stays, piece.last - piece.first, relevant)


def _table(tally: TransitionSums, names: Sequence[str]) -> pa.Table:
    known = {START: "start", GONE: "gone", MATCH: "match"} | dict(enumerate(names))
    source, target = tally.pairs()
    order = np.lexsort((_place(target, len(names)), source))
    source, target = source[order], target[order]
    named = [pa.array([known[number] for number in of.tolist()], pa.string()) for of in (source, target)]
    columns = [source.astype(np.int32), target.astype(np.int32), *named]
    sums = [pa.array(values[order]) for values in tally.sums()]
    return pa.table([*columns, *sums], names=[*_FIELDS, *_SUMS])


def _place(numbers: Ints, states: int) -> Ints:
    """Where states stand in order: start, those of the plan, gone, match."""
    return np.where(numbers < START, states - 2 - numbers, numbers)


def added(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up the transition counts of the pieces of a stream; times to the picosecond.

    Parameters
    ----------
    tables
        Of `transition_counts`, of one query with the same options, in any order.

    Raises
    ------
    ValidationError
        If there are none, or they are of different queries or options.
    """
    told = same("added_transitions", tables, "transitions")[0]
    parts = [table.replace_schema_metadata(None) for table in tables]
    whole = pa.concat_tables(parts)
    ticks = np.rint(whole["time"].to_numpy() * 1000).astype(np.int64)
    whole = whole.set_column(whole.column_names.index("time"), "time", pa.array(ticks))
    sums = whole.group_by(list(_FIELDS), use_threads=False).aggregate([(name, "sum") for name in _SUMS])
    place = _place(sums["target"].to_numpy(), len(told["states"]))
    order = np.lexsort((place, sums["source"].to_numpy()))
    sums = sums.select([*_FIELDS, *(f"{name}_sum" for name in _SUMS)]).take(order).combine_chunks()
    time = pa.array(sums["time_sum"].to_numpy() / 1000)
    return described(sums.rename_columns([*_FIELDS, *_SUMS]).set_column(6, "time", time), told)
