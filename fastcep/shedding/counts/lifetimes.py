"""How long partial matches lived, by the record of a query: from the event that made them to the last that they met."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from fastcep.errors import ValidationError
from fastcep.overload.costs import CostTable
from fastcep.plan import Plan
from fastcep.plan.plan import EdgePlan
from fastcep.query.patterns import leaves_of
from fastcep.shedding.counts.piece import Ints, Piece, Spans
from fastcep.shedding.hybrid.attribution import Account
from fastcep.shedding.lineage import Lineage

__all__ = ["GONE", "MATCH", "START", "Lifetimes"]

#: Beside the states of the plan.
START, GONE, MATCH = -1, -2, -3

Bits = npt.NDArray[np.bool_]
_PLAIN = re.compile(r"\w+(\[\w+\])?\.\w+")  # an attribute of an event
_NEVER = np.iinfo(np.int64).max


class Lifetimes:
    """The partial matches of a record, each in each of its windows.

    Parameters
    ----------
    who
        Who asks, for messages.
    record
        Of a query that `check_query` lets pass.
    piece
        What was observed.
    spans
        Its explicit windows; None under WITHIN.

    Attributes
    ----------
    stored, matched
        Per record whether it is a partial match, and whether it is a match.
    born
        Per record whether it is any of these.
    ends
        Per record the position of the event with which it moved, under skip_till_next: another came of it instead, or
        nothing. A position that is never reached without.
    heir
        Per record the state of what came of it then; GONE where nothing did.
    """

    def __init__(self, who: str, record: Lineage, piece: Piece, spans: Spans | None) -> None:
        account = Account(record, piece.batch.time, 1, CostTable("none"), {}, {})
        self.record, self._spans, self._n = record, spans, len(piece)
        self.stored, self.matched, self._starts = account.stored, account.matched, account.starts
        self._limits = np.minimum(account.limits[0], self._n - 1)
        self.born = self.stored | self.matched
        self.ends = np.full(len(record.parents), _NEVER)
        self.heir = np.full(len(record.parents), GONE)
        if record.plan.must_advance:
            self._advance(who, all(null is None for null in piece.batch.nulls))
        self._find_looks()
        self._check(who)

    def _advance(self, who: str, no_nulls: bool) -> None:
        """Find with which event each was replaced, as `_core/matcher/commit.pyx` has it, and by what."""
        record, plan = self.record, self.record.plan
        edges, states = plan.edges, plan.states
        moves = np.array([edge.source >= 0 and not edge.keeps for edge in edges], bool)[record.edges]
        checked = [bool(edge.forall or edge.absences) for edge in edges]
        always = [
            states[edge.target].accept_guard < 0
            and not (states[edge.target].accept_forall or states[edge.target].accept_absences)
            for edge in edges
        ]
        goes_on = [bool(states[edge.target].indexes) for edge in edges]
        # Without a check a child that can go on, or ends for sure, uses its parent up even if nothing comes of it.
        uses = [not test and (on or end) for test, on, end in zip(checked, goes_on, always, strict=True)]
        unsure = [not sure and self._may_be_lost(edge, no_nulls) for sure, edge in zip(uses, edges, strict=True)]
        came = moves & (self.born | np.array(uses, bool)[record.edges])
        np.minimum.at(self.ends, record.parents[came], record.events[came])
        lost = np.flatnonzero(moves & ~self.born & np.array(unsure, bool)[record.edges])
        if (record.events[lost] < self.ends[record.parents[lost]]).any():
            leaves = leaves_of(plan.query.pattern)
            names = sorted({repr(leaves[member].name) for member in np.unique(record.members[lost]).tolist()})
            raise ValidationError(
                f"{who}: query {plan.query.name!r}: under skip_till_next it is not known yet of every event bound to "
                f"{', '.join(names)} whether it used a partial match up, because of a condition on all elements of a "
                "variable or on a negated one; count with index='off', leave out this condition, or take skip_till_any"
            )
        first = np.flatnonzero(moves & self.born)[::-1]
        first = first[record.events[first] == self.ends[record.parents[first]]]
        self.heir[record.parents[first]] = np.where(self.stored[first], record.states[first], MATCH)  # the first wins

    def _may_be_lost(self, edge: EdgePlan, no_nulls: bool) -> bool:
        """Whether a child may be neither partial match nor match though all checks of its edge hold."""
        plan, own = self.record.plan, self.record.plan.states[edge.target]
        if not own.indexes:
            return bool(plan.sets)
        known = {output for output, kind, number in edge.copies if _has_value(plan, edge, kind, number)}
        for index in (plan.indexes[number] for number in own.indexes):
            named = zip(index.keys, index.key_texts, strict=True)
            always = index.guard < 0 and not index.forall
            if always and all(key in known or (no_nulls and _PLAIN.fullmatch(text)) for key, text in named):
                return False
        return True

    # ---------------------------------------------------------------------------------------------------- in windows

    def windows(self, numbers: Ints) -> Iterator[tuple[Ints, Ints]]:
        """Of some records each in each of its windows: its number, and the position of the last event in the window."""
        if self._spans is None:
            yield numbers, self._limits[self._starts[numbers]]
            return
        for at, last in self._spans.holding(self._starts[numbers], self.record.events[numbers]):
            yield numbers[at], last

    def rows(self) -> Iterator[tuple[Ints, Ints, Ints]]:
        """The same of every row of an index: its record, the last position in the window, and the row's number."""
        placed = self.record.placed
        if self._spans is None:
            yield placed, self._limits[self._starts[placed]], np.arange(len(placed))
            return
        for at, last in self._spans.holding(self._starts[placed], self.record.events[placed]):
            yield placed[at], last, at

    def met(self, numbers: Ints, last: Ints, piece: Piece) -> tuple[Ints, Bits]:
        """How many owned events partial matches met and stayed, and whether they moved with an owned one."""
        ends = self.ends[numbers]
        moves = (ends <= last) & piece.owns(ends)
        before = np.maximum(self.record.events[numbers], piece.first - 1)
        until = np.minimum(np.minimum(last, ends), piece.last - 1)
        return np.maximum(until - before, 0) - moves, moves

    # --------------------------------------------------------------------------------------------------------- looks

    def _find_looks(self) -> None:
        """Sort the looks by bucket and event, so that those between two events are between two places."""
        record, width = self.record, self._n + 1
        names, bucket = np.unique(record.probes, return_inverse=True)
        self._looks = np.sort(bucket.astype(np.int64) * width + record.probed)
        at = np.searchsorted(names, record.places)
        known = at < len(names)
        known[known] = names[at[known]] == record.places[known]
        self._bucket = np.where(known, at, len(names)) * width  # the last: nobody looks

    def _between(self, row: Ints, after: Ints, until: Ints) -> Ints:
        """How often rows were looked at by events behind a position up to another."""
        bucket = self._bucket[row]
        high = np.searchsorted(self._looks, bucket + np.maximum(until, after), "right")
        return np.asarray(high - np.searchsorted(self._looks, bucket + after, "right"))

    def looks(self, numbers: Ints, last: Ints, row: Ints, piece: Piece) -> tuple[Ints, Ints]:
        """How often rows were looked at by owned events with which they stayed, and with which they moved."""
        ends = self.ends[numbers]
        moves = (ends <= last) & piece.owns(ends)
        before = np.maximum(self.record.events[numbers], piece.first - 1)
        until = np.minimum(np.minimum(last, ends), piece.last - 1)
        all_of_them = self._between(row, before, until)
        at_end = np.zeros(len(numbers), np.int64)
        at_end[moves] = self._between(row[moves], ends[moves] - 1, ends[moves])
        return all_of_them - at_end, at_end

    def _check(self, who: str) -> None:
        """Hold the lives against the engine: it has looked at so many partial matches."""
        last = np.full(len(self.record.placed), -1)
        for _, until, row in self.rows():
            np.maximum.at(last, row, until)
        events = self.record.events[self.record.placed]
        until = np.minimum(last, self.ends[self.record.placed])
        found = int(self._between(np.arange(len(last)), events, until).sum())
        if found != int(self.record.visited.sum()):
            query = self.record.plan.query
            raise ValidationError(
                f"{who}: query {query.name!r}: its partial matches were looked at {int(self.record.visited.sum()):,} "
                f"times, and {found:,} by how long they lived, so that they cannot be counted yet; simplify the pattern"
            )


def _has_value(plan: Plan, edge: EdgePlan, kind: str, number: int) -> bool:
    """Whether what is copied is no null for sure: it is a word of the key by which the parent was found."""
    return number in (edge.probe if kind == "event" else plan.indexes[edge.index].keys) if edge.source >= 0 else False
