# cython: language_level=3
"""In which order whole classes of events and of partial matches are best dropped, by how one comes of the other.

Given is a *flow*: how many partial matches of each group (state and class) come of which group in which slice of the window by
which kind of event (variable and class), how many of them are stored and how many are matches; and how often those of a group
are looked at by which kind of event in each slice. A choice drops kinds of events, and groups from some slice on (from the
first one on: none is born). What it leaves follows from the flow: a group's population in a slice is thinned out as its
births were, in this slice and those before; its children are thinned out as the population is that they come of. So of
every group and kind the contribution (matches that go with it) and the consumption (work that is spent on it and on what comes
of it; hybrid, section IV-A) are known *as they are after all drops so far*, and again and again what has the least
contribution per consumption falls: greedy for the covering knapsack of section IV-B, but with items that know of each other,
where the knapsack counts the work for a pair with the pair and with its first event.

Rows are taken to be born evenly over a slice, those of a start at its beginning. States that come of themselves are settled
by iteration.

Invariant: where nothing is dropped the work and the matches are those of the flow; both never grow from step to step; what
contributes nothing falls first, and all of it.
"""
from libc.math cimport INFINITY, fabs
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.string cimport memset

import numpy as np

cdef enum:
    ROUNDS = 64              # of an iteration, at most
cdef double SETTLED = 1e-9   # change of a share at which it ends


cdef class Cascade:
    """A flow, and what of it is dropped.

    Parameters
    ----------
    source, slice, kind, target
        int32 per child of a group (-1: that begins a match): of which group, in which slice, by which kind, of which
        group it is; sources in the order of their states.
    stored, matched
        float64 per child: how many are stored, and are matches.
    looked_group, looked_slice, looked_kind, looked
        How often rows of a group are looked at.
    groups, slices, kinds
        How many there are.
    prices
        float64[3]: of a visit, of a match, and of a birth that is refused.
    rows_cost
        float64[groups]: of a row.
    """
    cdef const int32_t[::1] source, slice, kind, target, looked_group, looked_slice, looked_kind
    cdef const double[::1] stored, matched, looked
    cdef int32_t groups, slices, kinds
    cdef double visit, match, refused
    cdef const double[::1] row
    cdef double[:, ::1] births       # [group, slice]: in the flow
    cdef double[:, ::1] share        # of an own slice that those that are born in it live
    cdef double[:, ::1] population   # in the flow
    cdef double[:, ::1] born         # shares of the births,
    cdef double[:, ::1] alive        # and of the populations, that are left
    cdef double[:, ::1] good         # matches, and work, that come of the population in a slice, if it were all there,
    cdef double[:, ::1] work
    cdef double[:, ::1] worth        # and of one that is born in it
    cdef double[:, ::1] burden
    cdef double[:, ::1] thinned      # scratch
    cdef uint8_t[::1] withheld       # what is dropped: kinds,
    cdef int32_t[::1] cut            # and groups from a slice on
    cdef readonly double cost        # what is left,
    cdef readonly double found
    cdef double[::1] event_lost, event_spent
    cdef double[:, ::1] lost, spent
    cdef bint events, rows           # what may be dropped

    def __init__(self, source, slice, kind, target, stored, matched, looked_group, looked_slice, looked_kind, looked,
                 int groups, int slices, int kinds, prices, rows_cost, bint events=True, bint rows=True):
        cdef Py_ssize_t i
        cdef int32_t g, s
        self.source, self.slice, self.kind, self.target = source, slice, kind, target
        self.stored, self.matched = stored, matched
        self.looked_group, self.looked_slice, self.looked_kind, self.looked = looked_group, looked_slice, looked_kind, looked
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
        for i in range(self.source.shape[0]):
            assert -1 <= self.source[i] < groups and 0 <= self.target[i] < groups
            assert 0 <= self.slice[i] < slices and 0 <= self.kind[i] < kinds
            self.births[self.target[i], self.slice[i]] += self.stored[i]
            self.share[self.target[i], self.slice[i]] += self.stored[i] * (1.0 if self.source[i] < 0 else 0.5)
        for i in range(self.looked.shape[0]):
            assert 0 <= self.looked_group[i] < groups and 0 <= self.looked_slice[i] < slices
            assert 0 <= self.looked_kind[i] < kinds
        for g in range(groups):
            for s in range(slices):
                self.share[g, s] = self.share[g, s] / self.births[g, s] if self.births[g, s] > 0 else 1.0
                self.population[g, s] = self._present(g, s)
        self._weigh()

    cdef double _present(self, int32_t g, int32_t s) noexcept nogil:
        """The population of a group in a slice, as far as its births are left."""
        cdef double total = self.share[g, s] * self.born[g, s] * self.births[g, s]
        cdef int32_t before
        for before in range(s):
            total += self.born[g, before] * self.births[g, before]
        return total

    # ------------------------------------------------------------------------------------------------- what is left

    cdef void _thin(self) noexcept nogil:
        """The shares of births and of populations that are left."""
        cdef Py_ssize_t i
        cdef int32_t g, s, rounds
        cdef double change, now, by
        for rounds in range(ROUNDS):
            change = 0.0
            memset(&self.thinned[0, 0], 0, self.groups * self.slices * sizeof(double))
            for i in range(self.source.shape[0]):
                if self.withheld[self.kind[i]]:
                    continue
                s = self.slice[i]
                by = 1.0 if self.source[i] < 0 else self.alive[self.source[i], s]
                self.thinned[self.target[i], s] += by * self.stored[i]
            for g in range(self.groups):
                for s in range(self.slices):
                    self.born[g, s] = (
                        self.thinned[g, s] / self.births[g, s] if self.births[g, s] > 0 and s < self.cut[g] else 0.0)
                for s in range(self.slices):
                    now = self._present(g, s) / self.population[g, s] if self.population[g, s] > 0 and s < self.cut[g] else 0.0
                    change = max(change, fabs(now - self.alive[g, s]))
                    self.alive[g, s] = now
            if change < SETTLED:
                return

    cdef void _value(self) noexcept nogil:
        """What comes of the populations and of what is born, if these were as in the flow."""
        cdef Py_ssize_t i
        cdef int32_t g, s, later, t, rounds
        cdef double change, good, work, lives
        memset(&self.worth[0, 0], 0, self.groups * self.slices * sizeof(double))
        memset(&self.burden[0, 0], 0, self.groups * self.slices * sizeof(double))
        for rounds in range(ROUNDS):
            memset(&self.good[0, 0], 0, self.groups * self.slices * sizeof(double))
            memset(&self.work[0, 0], 0, self.groups * self.slices * sizeof(double))
            for i in range(self.looked.shape[0]):
                if not self.withheld[self.looked_kind[i]]:
                    self.work[self.looked_group[i], self.looked_slice[i]] += self.visit * self.looked[i]
            for i in range(self.source.shape[0] - 1, -1, -1):
                g = self.source[i]
                if g < 0 or self.withheld[self.kind[i]]:
                    continue
                t, s = self.target[i], self.slice[i]
                lives = self.stored[i] if s < self.cut[t] else 0.0
                self.good[g, s] += self.matched[i] + lives * self.worth[t, s]
                self.work[g, s] += (self.match * self.matched[i] + lives * (self.row[t] + self.burden[t, s])
                                    + self.refused * (self.stored[i] - lives))
            change = 0.0
            for g in range(self.groups):
                for s in range(self.slices):
                    good = work = 0.0
                    for later in range(s, min(self.slices, self.cut[g])):
                        if self.population[g, later] > 0:
                            lives = (self.share[g, s] if later == s else 1.0) / self.population[g, later]
                            good += lives * self.good[g, later]
                            work += lives * self.work[g, later]
                    change = max(change, fabs(good - self.worth[g, s]) + fabs(work - self.burden[g, s]) * 1e-3)
                    self.worth[g, s], self.burden[g, s] = good, work
            if change < SETTLED:
                return

    cdef void _weigh(self) noexcept nogil:
        """What would be lost and saved by each drop, after all drops so far; what is left of the work and the matches."""
        cdef Py_ssize_t i
        cdef int32_t g, s, t, k
        cdef double by, lives, matched, spent
        self._thin()
        self._value()
        self.cost = self.found = 0.0
        memset(&self.event_lost[0], 0, self.kinds * sizeof(double))
        memset(&self.event_spent[0], 0, self.kinds * sizeof(double))
        memset(&self.spent[0, 0], 0, self.groups * self.slices * sizeof(double))
        for i in range(self.looked.shape[0]):
            k = self.looked_kind[i]
            if not self.withheld[k]:
                spent = self.visit * self.looked[i] * self.alive[self.looked_group[i], self.looked_slice[i]]
                self.event_spent[k] += spent
                self.cost += spent
        for i in range(self.source.shape[0]):
            k, t, s = self.kind[i], self.target[i], self.slice[i]
            if self.withheld[k]:
                continue
            by = 1.0 if self.source[i] < 0 else self.alive[self.source[i], s]
            lives = by * self.stored[i] if s < self.cut[t] else 0.0
            matched = by * self.matched[i]
            spent = self.match * matched + self.row[t] * lives + self.refused * (by * self.stored[i] - lives)
            self.found += matched
            self.cost += spent
            self.event_lost[k] += matched + lives * self.worth[t, s]
            self.event_spent[k] += spent + lives * self.burden[t, s]
            self.spent[t, s] += lives * max(0.0, self.row[t] - self.refused)
        for g in range(self.groups):
            for s in range(self.slices):
                self.lost[g, s] = self.alive[g, s] * self.good[g, s]
                self.spent[g, s] += self.alive[g, s] * self.work[g, s]
            for s in range(self.slices - 2, -1, -1):  # from this slice on
                self.lost[g, s] += self.lost[g, s + 1]
                self.spent[g, s] += self.spent[g, s + 1]

    # ---------------------------------------------------------------------------------------------------- the order

    def steps(self, int most=4096):
        """Drop one after the other until no match is left: int32[steps, 3], float64[steps, 2].

        Of each step whether it is of events (1) or of partial matches (0), which kind or group, and from which slice on;
        and what is left of the work and of the matches, all those that lose nothing being dropped together.
        """
        cdef int32_t number = 0, first, i
        what, left = np.zeros((most, 3), np.int32), np.zeros((most, 2))
        cdef int32_t[:, ::1] to = what
        cdef double[:, ::1] to_left = left
        with nogil:
            while number < most and self.found > 0:
                first = number
                number = self._least(to, number, most)
                if number == first:
                    break
                for i in range(first, number):
                    self._drop(to[i, 0], to[i, 1], to[i, 2])
                self._weigh()
                for i in range(first, number):
                    to_left[i, 0], to_left[i, 1] = self.cost, self.found
        return what[:number], left[:number]

    def drop(self, what):
        """Drop kinds of events, and groups from a slice on: int[n, 3], as `steps` gives them."""
        for events, item, at in what:
            assert 0 <= item < (self.kinds if events else self.groups) and 0 <= at <= self.slices
            self._drop(events, item, at)
        self._weigh()

    def weights(self):
        """What would be lost and saved by dropping each group from each slice on, and each kind of events."""
        return np.array(self.lost), np.array(self.spent), np.array(self.event_lost), np.array(self.event_spent)

    cdef void _drop(self, bint events, int32_t item, int32_t slice) noexcept nogil:
        if events:
            self.withheld[item] = 1
        else:
            self.cut[item] = min(self.cut[item], slice)

    cdef int32_t _least(self, int32_t[:, ::1] to, int32_t number, int32_t most) noexcept nogil:
        """List what has the least contribution per consumption, or all that contributes nothing; returns its end."""
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
