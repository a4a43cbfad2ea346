# cython: language_level=3
"""Order in which to drop classes of events and of partial matches, computed from the flow of partial matches.

The input is a *flow*. It counts the children that each group (state and class) makes in each slice of the window by
each kind of event (variable and class), how many of them are stored, and how many are matches. It also counts the
visits of the rows of each group by each kind of event in each slice.

A choice drops kinds of events, and groups from some slice on (from the first slice on, no row of the group is born).
The flow determines what is left: the population of a group in a slice is reduced in proportion to its births in this
slice and in earlier ones, and the children of a group are reduced in proportion to its population. From this, the
contribution of every group and kind (matches lost with it) and its consumption (work for it and for all its
descendants; hybrid, section IV-A) are computed *as they are after all drops so far*. Each step drops the item with the
least contribution per consumption. This is the greedy algorithm for the covering knapsack of section IV-B, with items
that depend on each other; the knapsack itself counts the work for a pair twice, with the pair and with its first event.

Assumptions: rows are born evenly over a slice, rows of START at its beginning. Cycles of states are solved by
iteration.

Invariant: if nothing is dropped, the work and the matches are those of the flow; both never grow from step to step;
items without contribution are dropped first, and all of them.
"""
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

import numpy as np

cdef enum:
    MOST_ROUNDS = 64         # rounds of an iteration
cdef double TOLERANCE = 1e-9  # an iteration ends when no share changes by more


cdef class Cascade:
    """A flow and its drops.

    Parameters
    ----------
    source, slice, kind, target
        int32[children]: for each set of children, the group of their parents (-1: START), the slice in which they are
        made, the kind of their event, and their own group.
    stored, matched
        float64[children]: number of children that are stored, and number that are matches.
    visit_group, visit_slice, visit_kind
        int32[visits]: for each set of visits, the group of the rows, the slice, and the kind of the event.
    visits
        float64[visits]: number of visits.
    groups, slices, kinds
        Number of groups, slices and kinds.
    prices
        float64[3]: price of a visit, of a match, and of a refused birth.
    rows_cost
        float64[groups]: price of a row.
    events, rows
        True if kinds of events, and groups of partial matches, may be dropped.

    Attributes
    ----------
    cost
        Work that is left after all drops.
    matches
        Number of matches that are left after all drops.
    updates
        Number of rows of the flow that were read so far: the work of the computation, the same on every machine.
    """
    cdef int32_t[::1] source, slice, kind, target, visit_group, visit_slice, visit_kind
    cdef double[::1] stored, matched, visits
    cdef Py_ssize_t children, looks  # rows that are left of the flow
    cdef Py_ssize_t[::1] first       # [group + 1]: first child of START (0), and of each group
    cdef bint forward                # all children are of groups after their parents'
    cdef readonly int64_t updates
    cdef int32_t groups, slices, kinds
    cdef double visit, match, refused
    cdef const double[::1] row
    cdef double[:, ::1] births       # [group, slice]: births in the flow
    cdef double[:, ::1] share        # [group, slice]: mean share of the slice that rows born in it live
    cdef double[:, ::1] population   # [group, slice]: population in the flow
    cdef double[:, ::1] born         # [group, slice]: share of the births that is left
    cdef double[:, ::1] alive        # [group, slice]: share of the population that is left
    cdef double[:, ::1] good         # [group, slice]: matches that the undiminished population leads to,
    cdef double[:, ::1] work         # and its work
    cdef double[:, ::1] worth        # [group, slice]: matches that a row born in the slice leads to,
    cdef double[:, ::1] burden       # and its work
    cdef double[:, ::1] thinned      # scratch
    cdef uint8_t[::1] withheld       # [kind]: 1 if it is dropped
    cdef int32_t[::1] cut            # [group]: slice from which on it is dropped
    cdef readonly double cost        # work that is left
    cdef readonly double matches     # matches that are left
    cdef double[::1] event_lost      # [kind]: matches lost by dropping it,
    cdef double[::1] event_spent     # and work saved
    cdef double[:, ::1] lost         # [group, slice]: matches lost by dropping the group from the slice on,
    cdef double[:, ::1] spent        # and work saved
    cdef bint events, rows           # kinds of events, and groups of rows, may be dropped

    def __init__(self, source, slice, kind, target, stored, matched, visit_group, visit_slice, visit_kind, visits,
                 int groups, int slices, int kinds, prices, rows_cost, bint events=True, bint rows=True):
        cdef Py_ssize_t i
        cdef int32_t g, s
        by_source = np.argsort(source, kind="stable")
        self.source, self.slice, self.kind, self.target = (
            np.asarray(column, np.int32)[by_source] for column in (source, slice, kind, target))
        self.stored, self.matched = (np.asarray(column, np.float64)[by_source] for column in (stored, matched))
        self.visit_group, self.visit_slice, self.visit_kind = (
            np.array(column, np.int32) for column in (visit_group, visit_slice, visit_kind))
        self.visits = np.array(visits, np.float64)
        self.children, self.looks = self.source.shape[0], self.visits.shape[0]
        self.forward = bool((np.asarray(self.target) > np.asarray(self.source)).all())
        self.groups, self.slices, self.kinds = groups, slices, kinds
        self.visit, self.match, self.refused = prices
        self.row = np.ascontiguousarray(rows_cost, np.float64)
        assert self.row.shape[0] == groups
        self.events, self.rows = events, rows
        self.births, self.share, self.population = (np.zeros((groups, slices)) for _ in range(3))
        self.born, self.alive = (np.ones((groups, slices)) for _ in range(2))
        self.good, self.work, self.worth, self.burden = (np.zeros((groups, slices)) for _ in range(4))
        self.thinned, self.lost, self.spent = (np.zeros((groups, slices)) for _ in range(3))
        self.event_lost, self.event_spent = np.zeros(kinds), np.zeros(kinds)
        self.withheld, self.cut = np.zeros(kinds, np.uint8), np.full(groups, slices, np.int32)
        self.first = np.zeros(groups + 2, np.intp)
        for i in range(self.source.shape[0]):
            assert -1 <= self.source[i] < groups and 0 <= self.target[i] < groups
            assert 0 <= self.slice[i] < slices and 0 <= self.kind[i] < kinds
            self.births[self.target[i], self.slice[i]] += self.stored[i]
            self.share[self.target[i], self.slice[i]] += self.stored[i] * (1.0 if self.source[i] < 0 else 0.5)
        for i in range(self.visits.shape[0]):
            assert 0 <= self.visit_group[i] < groups and 0 <= self.visit_slice[i] < slices
            assert 0 <= self.visit_kind[i] < kinds
        for g in range(groups):
            for s in range(slices):
                self.share[g, s] = self.share[g, s] / self.births[g, s] if self.births[g, s] > 0 else 1.0
                self.population[g, s] = self._present(g, s)
        self._compact()
        self._weigh()

    cdef double _present(self, int32_t g, int32_t s) noexcept nogil:
        """Return the population of a group in a slice, given the births that are left."""
        cdef double total = self.share[g, s] * self.born[g, s] * self.births[g, s]
        cdef int32_t before
        for before in range(s):
            total += self.born[g, before] * self.births[g, before]
        return total

    # ------------------------------------------------------------------------------------------------- propagation

    cdef void _compact(self) noexcept nogil:
        """Remove the rows of the flow that the drops so far leave nothing of, as nothing brings them back."""
        cdef Py_ssize_t i, n = 0
        cdef int32_t g
        memset(&self.first[0], 0, (self.groups + 2) * sizeof(Py_ssize_t))
        for i in range(self.children):
            g = self.source[i]
            if self.withheld[self.kind[i]] or (g >= 0 and self.alive[g, self.slice[i]] <= 0):
                continue
            self.source[n], self.slice[n], self.kind[n], self.target[n] = g, self.slice[i], self.kind[i], self.target[i]
            self.stored[n], self.matched[n] = self.stored[i], self.matched[i]
            self.first[g + 2] += 1
            n += 1
        self.children = n
        for g in range(self.groups + 1):
            self.first[g + 1] += self.first[g]
        n = 0
        for i in range(self.looks):
            g = self.visit_group[i]
            if self.withheld[self.visit_kind[i]] or self.alive[g, self.visit_slice[i]] <= 0:
                continue
            self.visit_group[n], self.visit_slice[n], self.visit_kind[n] = g, self.visit_slice[i], self.visit_kind[i]
            self.visits[n] = self.visits[i]
            n += 1
        self.looks = n

    cdef void _thin(self) noexcept nogil:
        """Compute the shares of births and of populations that are left."""
        cdef Py_ssize_t i
        cdef int32_t g, s, rounds
        cdef double change, share_left, parent_share
        for rounds in range(MOST_ROUNDS):
            change = 0.0
            self.updates += self.children
            memset(&self.thinned[0, 0], 0, self.groups * self.slices * sizeof(double))
            for g in range(-1, self.groups):
                if g >= 0 and self.forward:  # all children of this group have been added
                    self._survive(g)
                for i in range(self.first[g + 1], self.first[g + 2]):
                    if self.withheld[self.kind[i]]:
                        continue
                    s = self.slice[i]
                    parent_share = 1.0 if g < 0 else self.alive[g, s]
                    self.thinned[self.target[i], s] += parent_share * self.stored[i]
            if self.forward:
                return
            for g in range(self.groups):
                change = max(change, self._survive(g))
            if change < TOLERANCE:
                return

    cdef double _survive(self, int32_t g) noexcept nogil:
        """Compute the shares of a group from the children that are left of it; return the largest change."""
        cdef double share_left, change = 0.0
        cdef int32_t s
        for s in range(self.slices):
            self.born[g, s] = (
                self.thinned[g, s] / self.births[g, s] if self.births[g, s] > 0 and s < self.cut[g] else 0.0)
        for s in range(self.slices):
            share_left = 0.0
            if self.population[g, s] > 0 and s < self.cut[g]:
                share_left = self._present(g, s) / self.population[g, s]
            change = max(change, fabs(share_left - self.alive[g, s]))
            self.alive[g, s] = share_left
        return change

    cdef void _value(self) noexcept nogil:
        """Compute the matches and the work of undiminished populations, and of single rows."""
        cdef Py_ssize_t i
        cdef int32_t g, s, t, rounds
        cdef double change, stored
        memset(&self.worth[0, 0], 0, self.groups * self.slices * sizeof(double))
        memset(&self.burden[0, 0], 0, self.groups * self.slices * sizeof(double))
        for rounds in range(MOST_ROUNDS):
            self.updates += self.children + self.looks
            memset(&self.good[0, 0], 0, self.groups * self.slices * sizeof(double))
            memset(&self.work[0, 0], 0, self.groups * self.slices * sizeof(double))
            for i in range(self.looks):
                self.work[self.visit_group[i], self.visit_slice[i]] += self.visit * self.visits[i]
            change = 0.0
            for g in range(self.groups - 1, -1, -1):
                for i in range(self.first[g + 2] - 1, self.first[g + 1] - 1, -1):
                    t, s = self.target[i], self.slice[i]
                    stored = self.stored[i] if s < self.cut[t] else 0.0
                    self.good[g, s] += self.matched[i] + stored * self.worth[t, s]
                    self.work[g, s] += (self.match * self.matched[i] + stored * (self.row[t] + self.burden[t, s])
                                        + self.refused * (self.stored[i] - stored))
                if self.forward:  # the groups of its children have been valued
                    self._value_rows(g)
            if self.forward:
                return
            for g in range(self.groups):
                change = max(change, self._value_rows(g))
            if change < TOLERANCE:
                return

    cdef double _value_rows(self, int32_t g) noexcept nogil:
        """Compute the matches and the work of single rows of a group; return the change."""
        cdef double good, work, fraction, change = 0.0
        cdef int32_t s, later
        for s in range(self.slices):
            good = work = 0.0
            for later in range(s, min(self.slices, self.cut[g])):
                if self.population[g, later] > 0:
                    fraction = (self.share[g, s] if later == s else 1.0) / self.population[g, later]
                    good += fraction * self.good[g, later]
                    work += fraction * self.work[g, later]
            change = max(change, fabs(good - self.worth[g, s]) + fabs(work - self.burden[g, s]) * 1e-3)
            self.worth[g, s], self.burden[g, s] = good, work
        return change

    cdef void _weigh(self) noexcept nogil:
        """Compute the work and matches that are left after all drops so far, and the loss and saving of each next drop."""
        cdef Py_ssize_t i
        cdef int32_t g, s, t, k
        cdef double parent_share, stored, matched, spent
        self._thin()
        self._compact()
        self._value()
        self.cost = self.matches = 0.0
        self.updates += self.children + self.looks
        memset(&self.event_lost[0], 0, self.kinds * sizeof(double))
        memset(&self.event_spent[0], 0, self.kinds * sizeof(double))
        memset(&self.spent[0, 0], 0, self.groups * self.slices * sizeof(double))
        for i in range(self.looks):
            spent = self.visit * self.visits[i] * self.alive[self.visit_group[i], self.visit_slice[i]]
            self.event_spent[self.visit_kind[i]] += spent
            self.cost += spent
        for i in range(self.children):
            k, t, s = self.kind[i], self.target[i], self.slice[i]
            parent_share = 1.0 if self.source[i] < 0 else self.alive[self.source[i], s]
            stored = parent_share * self.stored[i] if s < self.cut[t] else 0.0
            matched = parent_share * self.matched[i]
            spent = self.match * matched + self.row[t] * stored + self.refused * (parent_share * self.stored[i] - stored)
            self.matches += matched
            self.cost += spent
            self.event_lost[k] += matched + stored * self.worth[t, s]
            self.event_spent[k] += spent + stored * self.burden[t, s]
            self.spent[t, s] += stored * max(0.0, self.row[t] - self.refused)
        for g in range(self.groups):
            for s in range(self.slices):
                self.lost[g, s] = self.alive[g, s] * self.good[g, s]
                self.spent[g, s] += self.alive[g, s] * self.work[g, s]
            for s in range(self.slices - 2, -1, -1):  # sums over this slice and all later ones
                self.lost[g, s] += self.lost[g, s + 1]
                self.spent[g, s] += self.spent[g, s + 1]

    # ----------------------------------------------------------------------------------------------- order of drops

    def steps(self, int most=4096):
        """Drop one item after another until no match is left.

        Parameters
        ----------
        most
            Largest number of steps.

        Returns
        -------
        steps
            int32[steps, 3]: 1 for events or 0 for partial matches, number of the kind or group, slice from which on it
            is dropped.
        left
            float64[steps, 2]: work and matches that are left after the step. Items that lose no match are dropped
            together, so their rows are equal.
        """
        cdef int32_t number = 0, first, i
        steps, left = np.zeros((most, 3), np.int32), np.zeros((most, 2))
        cdef int32_t[:, ::1] to = steps
        cdef double[:, ::1] to_left = left
        with nogil:
            while number < most and self.matches > 0:
                first = number
                number = self._least(to, number, most)
                if number == first:
                    break
                for i in range(first, number):
                    self._drop(to[i, 0], to[i, 1], to[i, 2])
                self._weigh()
                for i in range(first, number):
                    to_left[i, 0], to_left[i, 1] = self.cost, self.matches
        return steps[:number], left[:number]

    def drop(self, steps):
        """Drop kinds of events, and groups from a slice on: int[n, 3], as `steps` returns them."""
        for events, item, at in steps:
            assert 0 <= item < (self.kinds if events else self.groups) and 0 <= at <= self.slices
            self._drop(events, item, at)
        self._weigh()

    def weights(self):
        """Return the loss and the saving of each next drop.

        Returns
        -------
        lost, spent
            float64[groups, slices]: matches lost and work saved by dropping a group from a slice on.
        event_lost, event_spent
            float64[kinds]: matches lost and work saved by dropping a kind of events.
        """
        return np.array(self.lost), np.array(self.spent), np.array(self.event_lost), np.array(self.event_spent)

    cdef void _drop(self, bint events, int32_t item, int32_t slice) noexcept nogil:
        if events:
            self.withheld[item] = 1
        else:
            self.cut[item] = min(self.cut[item], slice)

    cdef int32_t _least(self, int32_t[:, ::1] to, int32_t number, int32_t most) noexcept nogil:
        """Append the item with the least contribution per consumption, or all items without contribution.

        Returns the new number of steps.
        """
        cdef double least = INFINITY, ratio
        cdef int32_t g, s, k, first = number
        cdef int32_t[3] best
        if self.events:
            for k in range(self.kinds):
                if self.withheld[k] or self.event_spent[k] <= 0:
                    continue
                ratio = self.event_lost[k] / self.event_spent[k]
                if ratio <= 0 and number < most:
                    to[number, 0], to[number, 1], to[number, 2] = 1, k, 0
                    number += 1
                elif ratio < least:
                    least = ratio
                    best[0], best[1], best[2] = 1, k, 0
        if self.rows:
            for g in range(self.groups):
                for s in range(min(self.slices, self.cut[g])):
                    if self.spent[g, s] <= 0:
                        continue
                    ratio = self.lost[g, s] / self.spent[g, s]
                    if ratio <= 0 and number < most:
                        to[number, 0], to[number, 1], to[number, 2] = 0, g, s
                        number += 1
                        break
                    if ratio < least:
                        least = ratio
                        best[0], best[1], best[2] = 0, g, s
        if number == first and least < INFINITY:
            to[number, 0], to[number, 1], to[number, 2] = best[0], best[1], best[2]
            number += 1
        return number
