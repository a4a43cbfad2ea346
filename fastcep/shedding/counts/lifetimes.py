"""Lifetimes of partial matches: from the event that created one to the last event that it met."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.overload.costs import CostTable
from fastcep.plan import Plan
from fastcep.plan.plan import EdgePlan
from fastcep.query.patterns import pattern_variables
from fastcep.shedding.counts.chain_states import ChainStates
from fastcep.shedding.counts.piece import Ints, Piece, Spans
from fastcep.shedding.hybrid.attribution import Account
from fastcep.shedding.lineage import Lineage

__all__ = ["GONE", "MATCH", "START", "Lifetimes"]

#: Numbers of further states, beside those of the chain.
START, GONE, MATCH = -1, -2, -3

Bits = npt.NDArray[np.bool_]
_PLAIN = re.compile(r"\w+(\[\w+\])?\.\w+")  # an attribute of an event
_NEVER = np.iinfo(np.int64).max


class Lifetimes:
    """Partial matches of a lineage record, in each of their windows.

    Parameters
    ----------
    caller
        Name of the calling function, for error messages.
    record
        Lineage of a query that `check_query` accepts.
    piece
        Piece of the stream that was observed.
    spans
        Explicit windows of the piece; None under WITHIN.

    Attributes
    ----------
    chain
        States of the Markov chain.
    states
        Per record, its state of the chain.
    stored, matched
        Per record, whether it is a partial match, and whether it is a match.
    born
        Per record, whether it is either of these.
    ends
        Per record, the position of the event with which it moved under skip_till_next: it was replaced by another one
        or by nothing. A position that is never reached if it did not move.
    successor
        Per record, the state that it moved to; GONE if nothing replaced it.
    """

    def __init__(self, caller: str, record: Lineage, piece: Piece, spans: Spans | None) -> None:
        account = Account(record, piece.batch.time, 1, CostTable("none"), {}, {})
        self.record, self._spans, self._n = record, spans, len(piece)
        self.stored, self.matched, self._starts = account.stored, account.matched, account.starts
        self._limits = np.minimum(account.limits[0], self._n - 1)
        self.chain = ChainStates.of(record.plan)
        self.states = self.chain.of_records(record)
        self.born = self.stored | self.matched
        self.ends = np.full(len(record.parents), _NEVER)
        self.successor = np.full(len(record.parents), GONE)
        if record.plan.must_advance:
            self._find_successors(caller, all(null is None for null in piece.batch.nulls))
        self._sort_probes()
        self._check_visits(caller)

    def _find_successors(self, caller: str, no_nulls: bool) -> None:
        """Find the event with which each partial match moved, and its successor, as `_core/matcher/commit.pyx` does."""
        record, plan = self.record, self.record.plan
        edges, states = plan.edges, plan.states
        moves = np.array([edge.source >= 0 and not edge.keeps for edge in edges], bool)[record.edges]
        checked = [bool(edge.forall or edge.absences) for edge in edges]
        always = [
            states[edge.target].accept_guard < 0
            and not (states[edge.target].accept_forall or states[edge.target].accept_absences)
            for edge in edges
        ]
        extensible = [bool(states[edge.target].indexes) for edge in edges]
        # Without a check, a child that can be extended, or that always ends, uses up its parent even if it is rejected.
        uses = [not test and (more or end) for test, more, end in zip(checked, extensible, always, strict=True)]
        unsure = [not sure and self._may_be_rejected(edge, no_nulls) for sure, edge in zip(uses, edges, strict=True)]
        used = moves & (self.born | np.array(uses, bool)[record.edges])
        np.minimum.at(self.ends, record.parents[used], record.events[used])
        lost = np.flatnonzero(moves & ~self.born & np.array(unsure, bool)[record.edges])
        if (record.events[lost] < self.ends[record.parents[lost]]).any():
            variables = pattern_variables(plan.query.pattern)
            names = sorted({repr(variables[variable].name) for variable in np.unique(record.variables[lost]).tolist()})
            raise ValidationError(
                f"{caller}: query {plan.query.name!r}: under skip_till_next it cannot be determined yet for every "
                f"event bound to {', '.join(names)} whether it used up a partial match, because of a condition on all "
                "elements of a variable or on a negated variable; count with index='off', leave out this condition, "
                "or take skip_till_any"
            )
        first = np.flatnonzero(moves & self.born)[::-1]
        first = first[record.events[first] == self.ends[record.parents[first]]]
        targets = np.where(self.stored[first], self.states[first], MATCH)
        self.successor[record.parents[first]] = targets  # the first one is written last

    def _may_be_rejected(self, edge: EdgePlan, no_nulls: bool) -> bool:
        """Return whether a child can be neither partial match nor match although all checks of its edge hold."""
        plan, target = self.record.plan, self.record.plan.states[edge.target]
        if not target.indexes:
            return bool(plan.sets)
        not_null = {output for output, kind, number in edge.copies if _has_value(plan, edge, kind, number)}
        for index in (plan.indexes[number] for number in target.indexes):
            keys = zip(index.keys, index.key_texts, strict=True)
            always = index.guard < 0 and not index.forall
            if always and all(key in not_null or (no_nulls and _PLAIN.fullmatch(text)) for key, text in keys):
                return False
        return True

    # ---------------------------------------------------------------------------------------------------- in windows

    def windows(self, numbers: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Yield some records in each of their windows: the record, and the position of the window's last event."""
        if self._spans is None:
            yield numbers, self._limits[self._starts[numbers]]
            return
        for number, last in self._spans.holding(self._starts[numbers], self.record.events[numbers]):
            yield numbers[number], last

    def rows(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """Yield the rows of all indexes in each window: record, position of the window's last event, and row number."""
        placed = self.record.placed
        if self._spans is None:
            yield placed, self._limits[self._starts[placed]], np.arange(len(placed))
            return
        for row, last in self._spans.holding(self._starts[placed], self.record.events[placed]):
            yield placed[row], last, row

    def met(self, numbers: Ints, last: Ints, piece: Piece) -> tuple[Ints, Bits]:
        """Return how many owned events partial matches met without moving, and whether they moved with an owned one."""
        ends = self.ends[numbers]
        moves = (ends <= last) & piece.owns(ends)
        before = np.maximum(self.record.events[numbers], piece.first - 1)
        until = np.minimum(np.minimum(last, ends), piece.last - 1)
        return np.maximum(until - before, 0) - moves, moves

    # --------------------------------------------------------------------------------------------------------- visits

    def _sort_probes(self) -> None:
        """Sort the probes by bucket and event, so that the probes between two events are consecutive."""
        record, width = self.record, self._n + 1
        ids, bucket = np.unique(record.probes, return_inverse=True)
        self._probes = np.sort(bucket.astype(np.int64) * width + record.probed)
        place = np.searchsorted(ids, record.places)
        probed = place < len(ids)
        probed[probed] = ids[place[probed]] == record.places[probed]
        self._bucket = np.where(probed, place, len(ids)) * width  # the last number: buckets without probes

    def _visits_between(self, row: Ints, after: Ints, until: Ints) -> Ints:
        """Return how often rows were visited by events after one position, up to another."""
        bucket = self._bucket[row]
        high = np.searchsorted(self._probes, bucket + np.maximum(until, after), "right")
        return np.asarray(high - np.searchsorted(self._probes, bucket + after, "right"))

    def visits(self, numbers: Ints, last: Ints, row: Ints, piece: Piece) -> tuple[Ints, Ints]:
        """Return how often rows were visited by owned events with which they stayed, and with which they moved."""
        ends = self.ends[numbers]
        moves = (ends <= last) & piece.owns(ends)
        before = np.maximum(self.record.events[numbers], piece.first - 1)
        until = np.minimum(np.minimum(last, ends), piece.last - 1)
        total = self._visits_between(row, before, until)
        at_end = np.zeros(len(numbers), np.int64)
        at_end[moves] = self._visits_between(row[moves], ends[moves] - 1, ends[moves])
        return total - at_end, at_end

    def _check_visits(self, caller: str) -> None:
        """Check that the lifetimes give the same number of visits as the engine counted."""
        last = np.full(len(self.record.placed), -1)
        for _, until, row in self.rows():
            np.maximum.at(last, row, until)
        events = self.record.events[self.record.placed]
        until = np.minimum(last, self.ends[self.record.placed])
        computed = int(self._visits_between(np.arange(len(last)), events, until).sum())
        counted = int(self.record.visited.sum())
        if computed != counted:
            query = self.record.plan.query
            raise ValidationError(
                f"{caller}: query {query.name!r}: the engine visited its partial matches {counted:,} times, but "
                f"their lifetimes give {computed:,} visits, so they cannot be counted yet; simplify the pattern"
            )


def _has_value(plan: Plan, edge: EdgePlan, kind: str, number: int) -> bool:
    """Return whether a copied value cannot be null, because it is part of the key by which the parent was found."""
    return number in (edge.probe if kind == "event" else plan.indexes[edge.index].keys) if edge.source >= 0 else False
