"""The best order in which to drop whole classes of events and partial matches, computed from all records.

`Flow.steps` uses counts by class and slice. This module does the same for every single partial match of a record, which
takes seconds. Each step drops the group with the least contribution per consumption, both after all earlier drops:
either all events of a class for a variable, or all partial matches of a class from a slice of their window on (from the
first slice on: none is born). If a repeated variable of a partial match binds several events of one class, the partial
match counts for each of them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from fastcep.evaluation.clairvoyant_input import first_after
from fastcep.overload.costs import CostTable
from fastcep.query import ast
from fastcep.shedding.hybrid.flow import Step
from fastcep.shedding.lineage import Lineage

__all__ = ["Groups", "drops"]

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bits = npt.NDArray[np.bool_]

#: No more steps than these; groups are a few hundred.
_MOST = 4096


def drops(record: Lineage, times: Ints, slices: int, table: CostTable) -> list[Step]:
    """Find the steps.

    Parameters
    ----------
    record
        Record of a query WITHIN a time or number of events, with classes.
    times
        Times of the stream's events, ns.
    slices
        Number of slices of the window.
    table
        Cost of each operation.
    """
    return Groups(record, times, slices, table).steps()


class Groups:
    """The groups of each class, and the shares that remain."""

    def __init__(self, record: Lineage, times: Ints, slices: int, table: CostTable) -> None:
        self.table, self.slices = table, slices
        self.parents, self.events, self.states = record.parents, record.events, record.states
        self.matched = np.zeros(len(self.parents), bool)
        self.matched[record.matches] = True
        self.levels = _levels(self.parents)
        starts = self._starts()
        limits = _limits(record.plan.query.window, times, starts, slices)
        self.born = np.zeros(len(self.parents), np.int64)
        for limit in limits[:-1]:
            self.born += self.events > limit
        self.n_classes = 1 + int((record.classes & 255).max(initial=0))
        seen = int((record.asked >> 32).max(initial=0))  # of events that asked and made nothing, too
        self.n_kinds = 1 + max(seen, int((record.classes >> 8).max(initial=0)))
        self.group = self.states * self.n_classes + (record.classes & 255)
        self.kind = record.variables * self.n_kinds + (record.classes >> 8)
        self._place(record, limits)
        asked = np.array([edge.variable for edge in record.plan.edges], np.int64)[record.asked & 0xFFFFFFFF]
        self.asked = (asked * self.n_kinds + (record.asked >> 32))[self.order]
        self.n_groups = len(record.plan.states) * self.n_classes
        self.cut = np.full(self.n_groups, slices, np.int64)
        self.refused = np.zeros(len(record.plan.negated) * self.n_kinds, bool)

    def _starts(self) -> Ints:
        """Return the position of the first event of each record."""
        starts = self.events.copy()
        for level in self.levels[1:]:
            starts[level] = starts[self.parents[level]]
        return starts

    def _place(self, record: Lineage, limits: list[Ints]) -> None:
        """Find where the probes of each row of an index start and where its slices end, in the sorted probes."""
        self.order = np.lexsort((record.probed, record.probes))
        names, probed = record.probes[self.order], record.probed[self.order]
        begin, until = np.searchsorted(names, record.places), np.searchsorted(names, record.places, "right")
        self.placed = record.placed
        self.stored = np.zeros(len(self.parents), bool)
        self.stored[self.placed] = True
        own = self.events[self.placed]
        self.edges = np.array(
            [first_after(probed, begin, until, own)]
            + [first_after(probed, begin, until, np.maximum(limit[self.placed], own)) for limit in limits]
        )  # [slices + 1][rows]: what is met in slice s lies between s and s + 1

    # ------------------------------------------------------------------------------------------------------- a state

    def _made(self) -> tuple[Bits, Bits]:
        """Return the records that exist, and those of them that are rows, after all drops so far."""
        made = ~self.refused[self.kind]
        lives = self.stored & (self.cut[self.group] > self.born)
        rows = np.zeros(len(made), bool)
        for depth, level in enumerate(self.levels):
            if depth:
                parents = self.parents[level]
                made[level] &= rows[parents] & (self.cut[self.group[parents]] > self.born[level])
            rows[level] = made[level] & lives[level]
        return made, rows

    def weigh(self) -> tuple[Floats, Floats, Floats, Floats, float, int]:
        """Return losses and savings of all groups: rows [group, slice], events [kind]; also cost and matches."""
        table, slices = self.table, self.slices
        made, rows = self._made()
        asks = ~self.refused[self.asked]
        before = np.concatenate([[0], np.cumsum(asks)])
        here = rows[self.placed]
        placed, group = self.placed[here], self.group[self.placed[here]]
        cut = self.cut[group]
        spent = np.zeros((self.n_groups, slices))
        visits = np.zeros(len(made))
        edges = self.edges[:, here]
        for s in range(slices):
            seen = np.where(cut > s, before[edges[s + 1]] - before[edges[s]], 0)
            spent[:, s] = table.visited * np.bincount(group, seen, self.n_groups)
            visits += np.bincount(placed, seen, len(made))
        last = np.take_along_axis(edges, cut[None, :], axis=0)[0]
        met = np.cumsum(np.bincount(edges[0], minlength=len(before)) - np.bincount(last, minlength=len(before)))
        own = table.created * rows + table.visited * visits + table.match * (made & self.matched)
        needed, below = (made & self.matched).astype(float), own.copy()
        for level in self.levels[:0:-1]:
            parents = self.parents[level]
            needed += np.bincount(parents, needed[level] * made[level], len(made))
            below += np.bincount(parents, below[level] * made[level], len(made))
        children = np.flatnonzero(made & (self.parents >= 0))
        at = self.group[self.parents[children]] * slices + self.born[children]
        cells = self.n_groups * slices
        lost = np.bincount(at, needed[children], cells).astype(np.float64).reshape(-1, slices)
        spent += np.bincount(at, below[children], cells).reshape(-1, slices)
        births = np.bincount(self.group[rows] * slices + self.born[rows], minlength=cells)
        spent += max(0.0, table.created - table.refused) * births.reshape(-1, slices)
        meets = np.bincount(self.asked, met[:-1] * asks, len(self.refused)).astype(np.float64)
        event_lost = np.bincount(self.kind[made], needed[made], len(self.refused)).astype(np.float64)
        event_spent = table.visited * meets + np.bincount(
            self.kind[made], below[made], len(self.refused)
        ).astype(np.float64)
        return lost, spent, event_lost, event_spent, float(own[made].sum()), int((made & self.matched).sum())

    # ------------------------------------------------------------------------------------------------------ the steps

    def steps(self) -> list[Step]:
        """Drop one group after the other until no match is left."""
        found: list[Step] = []
        lost, spent, event_lost, event_spent, whole, matches = self.weigh()
        cost, left = whole, matches
        while left > 0 and len(found) < _MOST:
            chosen = self._least(lost, spent, event_lost, event_spent)
            if not chosen:
                break
            for events, item, at in chosen:
                if events:
                    self.refused[item] = True
                else:
                    self.cut[item] = at
            lost, spent, event_lost, event_spent, cost, left = self.weigh()
            saved, kept = 1 - cost / whole, left / matches
            for events, item, at in chosen:
                of, number = divmod(item, self.n_kinds if events else self.n_classes)
                found.append(Step(events, of, number, at, saved, kept))
        return found

    def _least(
        self, lost: Floats, spent: Floats, event_lost: Floats, event_spent: Floats
    ) -> list[tuple[bool, int, int]]:
        """Return the group of the least ratio, or all that lose nothing: is event, group, first slice."""
        behind_lost = np.cumsum(lost[:, ::-1], axis=1)[:, ::-1]
        behind_spent = np.cumsum(spent[:, ::-1], axis=1)[:, ::-1]
        ratios = np.divide(behind_lost, behind_spent, out=np.full(lost.shape, np.inf), where=behind_spent > 0)
        event_ratios = np.divide(event_lost, event_spent, out=np.full(len(event_lost), np.inf), where=event_spent > 0)
        free = [(True, int(item), 0) for item in np.flatnonzero(event_ratios == 0)]
        for item in np.flatnonzero((ratios == 0).any(axis=1)).tolist():
            free.append((False, item, int(np.argmax(ratios[item] == 0))))
        if free:
            return free
        row, event = int(np.argmin(ratios)), int(np.argmin(event_ratios))
        least = min(ratios.flat[row], event_ratios[event])
        if least == np.inf:
            return []
        if event_ratios[event] == least:
            return [(True, event, 0)]
        return [(False, *divmod(row, self.slices))]


def _levels(parents: Ints) -> list[Ints]:
    """Group records by their distance from the start."""
    level = np.flatnonzero(parents < 0)
    levels = [level]
    place = np.full(len(parents), -1, np.int64)
    place[level] = 0
    rest = np.flatnonzero(parents >= 0)
    while len(rest):
        reached = place[parents[rest]] >= 0
        level = rest[reached]
        levels.append(level)
        rest = rest[~reached]
        place[level] = 0
    return levels


def _limits(window: ast.Window, times: Ints, starts: Ints, slices: int) -> list[Ints]:
    """Return for each slice and record the position of the last event in it."""
    if isinstance(window, ast.CountWindow):
        return [starts + window.events * (s + 1) // slices - 1 for s in range(slices)]
    span = window.nanoseconds if isinstance(window, ast.TimeWindow) else 0
    begin = times[starts]
    last = [np.searchsorted(times, begin + span * (s + 1) // slices, "right") - 1 for s in range(slices)]
    return last if span else [np.full(len(starts), len(times)) for _ in range(slices)]
