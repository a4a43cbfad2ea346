"""Build the input of `Clairvoyant` from the lineage of a query: sorted lists, positions in them, and matches."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fastcep._core.fit.clairvoyant import Clairvoyant
from fastcep.engine.results.match_identity import mix
from fastcep.overload.costs import CostTable
from fastcep.query.patterns import pattern_variables
from fastcep.shedding.lineage import Lineage

__all__ = ["clairvoyant_of", "first_after", "matches_of_records"]

Ints = npt.NDArray[np.int64]
Hashes = npt.NDArray[np.uint64]


def clairvoyant_of(record: Lineage, events: int, table: CostTable, matched: Ints | None = None) -> Clairvoyant:
    """Return the clairvoyant model of a query.

    Parameters
    ----------
    record
        Lineage of the partial matches of the query.
    events
        Number of events that were observed.
    table
        Cost table of the operations.
    matched
        int64[records]: number of matches that each record is (`matches_of_records`); by default one for each record
        that is a match.
    """
    records = len(record.parents)
    order = np.lexsort((record.probed, record.probes))
    names, probed = record.probes[order], record.probed[order]
    by_record = np.argsort(record.placed, kind="stable")
    placed, places = record.placed[by_record], record.places[by_record]
    begin, until = np.searchsorted(names, places, "left"), np.searchsorted(names, places, "right")
    if matched is None:
        matched = np.zeros(records, np.int64)
        matched[record.matches] = 1
    by_event = np.argsort(probed, kind="stable")
    return Clairvoyant(
        record.parents,
        record.events,
        matched,
        np.searchsorted(placed, np.arange(records + 1)),
        first_after(probed, begin, until, record.events[placed]),
        until,
        probed,
        np.searchsorted(probed[by_event], np.arange(events + 1)),
        by_event,
        table.picoseconds()[:6],
    )


def matches_of_records(record: Lineage, matches: pa.Table, sequence: Ints) -> Ints:
    """Return the number of matches that each record is: one for each explicit window that contains it.

    Windows that overlap share partial matches, so a record can be a match in several of them. Records and matches that
    bind the same events to the same variables belong together; they are compared by a 64-bit hash.

    Parameters
    ----------
    record
        Lineage of the partial matches of the query.
    matches
        All matches of the query, see ``Matches.to_arrow``.
    sequence
        int64[events]: sequence number of each event.

    Returns
    -------
    int64[records]
        The sum is the number of matches.
    """
    of_records = _hashes_of_records(record, sequence)[record.matches]
    distinct, places = np.unique(of_records, return_inverse=True)
    rows = np.bincount(np.searchsorted(distinct, _hashes_of_rows(record, matches)), minlength=len(distinct))
    matched = np.zeros(len(record.parents), np.int64)
    matched[record.matches] = rows[places]
    return matched


def _hashes_of_records(record: Lineage, sequence: Ints) -> Hashes:
    """Return a hash of the events that each record binds, with their variables."""
    hashes = _hashes(sequence[record.events], record.variables)
    totals, ancestors = hashes.copy(), record.parents.copy()
    while len(open_ := np.flatnonzero(ancestors >= 0)):
        totals[open_] += hashes[ancestors[open_]]
        ancestors[open_] = record.parents[ancestors[open_]]
    return totals


def _hashes_of_rows(record: Lineage, matches: pa.Table) -> Hashes:
    """Return the hash of `_hashes_of_records` for each match."""
    totals = np.zeros(len(matches), np.uint64)
    for number, variable in enumerate(pattern_variables(record.plan.query.pattern)):
        if variable.negated:
            continue
        column, rows = matches[variable.name].combine_chunks(), np.arange(len(matches))
        while pa.types.is_large_list(column.type) or pa.types.is_list(column.type):
            rows = np.repeat(rows, pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False))
            column = pc.list_flatten(column)
        bound = column.is_valid().to_numpy(zero_copy_only=False)
        values = column.drop_null().cast(pa.int64()).to_numpy(zero_copy_only=False)
        np.add.at(totals, rows[bound], _hashes(values, np.full(len(values), number)))
    return totals


def _hashes(sequence: Ints, variables: Ints) -> Hashes:
    return mix(mix(sequence.astype(np.uint64)) ^ variables.astype(np.uint64))


def first_after(ascending: Ints, begin: Ints, until: Ints, values: Ints) -> Ints:
    """Return in each range the first position with a value greater than `values`, or the end of the range.

    This is a binary search in all ranges at once.

    Parameters
    ----------
    ascending
        int64[k], ascending within each range.
    begin, until
        int64[n] each: bounds of the ranges.
    values
        int64[n]: values to compare with.
    """
    low, high = begin.copy(), until.copy()
    while (open_ := low < high).any():
        middle = (low + high) // 2
        go_right = open_ & (ascending[np.minimum(middle, len(ascending) - 1)] <= values)
        low = np.where(go_right, middle + 1, low)
        high = np.where(open_ & ~go_right, middle, high)
    return low
