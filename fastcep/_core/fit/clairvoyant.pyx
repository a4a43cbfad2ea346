# cython: language_level=3
"""Clairvoyant load shedding: what could have been dropped, from the lineage record of all partial matches (lineage.pyx).

A set of matches to keep determines everything else. An event is needed if one of these matches binds it. A row is
needed if one of these matches is derived from it, and only until the last child is born that leads to one. Therefore a
set of kept matches has an exact cost, the one that the engine would count. `Clairvoyant.order` looks for a small loss
at a large saving: it repeatedly drops the row or event with the least true contribution per true consumption, both as
they are after all drops so far. This is the ratio of the covering knapsack (hybrid, section III-B), with true values
instead of estimates.

Contribution and consumption never grow. A heap holds a lower bound of the ratio of each item. The bound is updated at
once when the contribution falls, and replaced by the exact ratio when the item reaches the top. The exact consumption
comes from two Fenwick trees over the probes: the probes that are still made, and the number of rows that each probe
visits.

Invariant (tested): ``costs`` of all matches is what the engine counts if it drops everything useless; the running total
of ``order`` is the sum of ``costs`` of the matches that are left.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport free

import numpy as np

from fastcep._core.memory.fenwick cimport add, build, prefix_sum
from fastcep._core.memory.heap cimport Entry, Heap, heap_pop, heap_push

cdef enum:
    NONE = -1


cdef class Clairvoyant:
    """A lineage record, prepared to find what could have been dropped.

    Parameters
    ----------
    parents
        int64[records]: parent of each record (-1: none), before the record itself.
    events
        int64[records]: last event of each record, ascending.
    matched
        int64[records]: number of matches that the record is, one for each explicit window that contains it; 0: none.
    first_place
        int64[records + 1]: the rows of record r are ``first_place[r]`` to ``first_place[r + 1]``.
    place_from, place_until
        int64[rows]: probes ``place_from`` to ``place_until`` are those of the row's bucket after the row was stored.
    probed
        int64[probes]: event of each probe; the probes of a bucket are adjacent, in ascending order.
    first_probe, probes_of
        int64[events + 1], int64[probes]: the probes of event e are ``probes_of[first_probe[e]:first_probe[e + 1]]``.
    prices
        int64[6]: picoseconds per event, relevant event, partial match visited, created, refused, and match.
    """
    cdef const int64_t[::1] parents, events, first_place, place_from, place_until, probed, first_probe, probes_of
    cdef const int64_t[::1] matched
    cdef int64_t[::1] prices
    cdef int64_t[::1] first_child, children      # children of r: children[first_child[r]:first_child[r + 1]], ascending
    cdef int64_t[::1] first_record               # per event: its first record
    cdef int64_t[::1] place_to                   # per row: end of the probes that visit it
    cdef int64_t[::1] last_child                 # per record: index in ``children`` of the last needed child; -1: none
    cdef int64_t[::1] needed                     # per record: kept matches derived from it, itself included
    cdef int64_t[::1] in_matches                 # per event: kept matches that bind it
    cdef int64_t[::1] kept                       # per record: kept matches that it is itself
    cdef int64_t[::1] made                       # Fenwick tree: probes that are made
    cdef int64_t[::1] met                        # Fenwick tree: differences of the numbers of rows that probes visit
    cdef double[::1] worth                       # per item: the consumption in its last ratio
    cdef int64_t[::1] stack
    cdef Heap heap
    cdef int64_t total, left, step, n_records, n_events
    cdef int64_t[::1] lost
    cdef bint ordering, failed

    def __cinit__(self):
        self.heap.entries = NULL
        self.heap.size = self.heap.capacity = 0

    def __dealloc__(self):
        free(self.heap.entries)

    def __init__(self, parents, events, matched, first_place, place_from, place_until, probed, first_probe, probes_of,
                 prices):
        self.parents, self.events, self.matched = parents, events, matched
        self.first_place, self.place_from, self.place_until = first_place, place_from, place_until
        self.probed, self.first_probe, self.probes_of = probed, first_probe, probes_of
        self.prices = np.ascontiguousarray(prices, np.int64)
        self.n_records, self.n_events = len(parents), len(first_probe) - 1
        order = np.argsort(parents, kind="stable")
        bounds = np.searchsorted(np.asarray(parents)[order], np.arange(-1, self.n_records + 1))
        self.children = order
        self.first_child = bounds[1:].copy()     # the records without a parent come first in ``children``
        self.first_record = np.searchsorted(events, np.arange(self.n_events + 1)).astype(np.int64)
        self.stack = np.empty(self.n_records + 1, np.int64)
        self.ordering = False

    # ------------------------------------------------------------------ cost of a set of kept matches

    cdef int _keep(self, const uint8_t[::1] kept) except -1:
        """Compute the events and rows that the kept matches need, and their cost."""
        cdef int64_t r, p, c, i
        cdef int64_t n = self.n_records, events = self.n_events, probes = self.probed.shape[0]
        self.needed, self.in_matches = np.zeros(n, np.int64), np.zeros(events, np.int64)
        self.last_child, self.place_to = np.full(n, NONE, np.int64), np.asarray(self.place_from).copy()
        self.kept = np.where(kept, self.matched, 0)
        self.made, self.met = np.zeros(probes + 1, np.int64), np.zeros(probes + 2, np.int64)
        self.left = 0
        with nogil:
            for r in range(self.n_records - 1, -1, -1):
                self.needed[r] += self.kept[r]
                self.left += self.kept[r]
                if self.needed[r] == 0:
                    continue
                self.in_matches[self.events[r]] += self.needed[r]
                if self.parents[r] >= 0:
                    self.needed[self.parents[r]] += self.needed[r]
            for r in range(self.n_records):
                for c in range(self.first_child[r + 1] - 1, self.first_child[r] - 1, -1):
                    if self.needed[self.children[c]] > 0:
                        self.last_child[r] = c
                        break
                if self.last_child[r] == NONE:
                    continue
                for p in range(self.first_place[r], self.first_place[r + 1]):
                    self.place_to[p] = self._first_probe_after(p, self.events[self.children[self.last_child[r]]])
                    self.met[self.place_from[p] + 1] += 1
                    self.met[self.place_to[p] + 1] -= 1
            for i in range(self.probed.shape[0]):
                self.made[i + 1] = self.in_matches[self.probed[i]] > 0
            build(self.made)
            build(self.met)
            self.total = self._total_cost(NULL)
        return 0

    cdef int64_t _first_probe_after(self, int64_t place, int64_t event) noexcept nogil:
        """Return the first probe of a row's bucket after an event."""
        cdef int64_t low = self.place_from[place], high = self.place_until[place], middle
        while low < high:
            middle = low + (high - low) // 2
            if self.probed[middle] <= event:
                low = middle + 1
            else:
                high = middle
        return low

    cdef inline bint _is_row(self, int64_t r) noexcept nogil:
        """Return True if a record is needed as a row."""
        return self.last_child[r] != NONE and self.first_place[r] < self.first_place[r + 1]

    cdef int64_t _visits(self, int64_t r) noexcept nogil:
        """Return the number of visits of the rows of a record."""
        cdef int64_t p, count = 0
        for p in range(self.first_place[r], self.first_place[r + 1]):
            if self.place_to[p] > self.place_from[p]:
                count += prefix_sum(self.made, self.place_to[p]) - prefix_sum(self.made, self.place_from[p])
        return count

    cdef int64_t _rows_met(self, int64_t e) noexcept nogil:
        """Return the number of rows that the probes of an event visit."""
        cdef int64_t i, count = 0
        for i in range(self.first_probe[e], self.first_probe[e + 1]):
            count += prefix_sum(self.met, self.probes_of[i] + 1)
        return count

    cdef int64_t _total_cost(self, int64_t* costs) noexcept nogil:
        """Return the total cost. Write the cost of each event to ``costs`` if it is not NULL.

        Refused births are included only with ``costs``.
        """
        cdef int64_t e, r, cost, total = 0
        for e in range(self.n_events):
            cost = self.prices[0]
            if self.in_matches[e] > 0:
                cost += self.prices[1] + self.prices[2] * self._rows_met(e)
                for r in range(self.first_record[e], self.first_record[e + 1]):
                    cost += self.prices[5] * self.kept[r]
                    if self._is_row(r):
                        cost += self.prices[3]
                    elif costs != NULL and self._refused(r):
                        cost += self.prices[4]
            if costs != NULL:
                costs[e] = cost
            total += cost
        return total

    cdef bint _refused(self, int64_t r) noexcept nogil:
        """Return True if a record that is not needed as a row is born and refused: its parent lives until its event."""
        cdef int64_t parent = self.parents[r]
        if self.first_place[r] == self.first_place[r + 1]:
            return False
        return parent < 0 or (
            self._is_row(parent) and self.events[self.children[self.last_child[parent]]] >= self.events[r])

    def costs(self, const uint8_t[::1] kept not None):
        """Return the cost of each event, int64[events] in picoseconds, if only these matches are kept.

        Parameters
        ----------
        kept
            uint8[records]: 1 for a record whose matches are kept.
        """
        cdef int64_t[::1] costs = np.zeros(self.n_events, np.int64)
        self._keep(kept)
        if self.n_events:
            with nogil:
                self._total_cost(&costs[0])
        return np.asarray(costs)

    # ------------------------------------------------------------------ order of drops

    def order(self):
        """Drop all items one after another, each time the item with the least contribution per consumption.

        Returns
        -------
        lost
            int64[records]: step at which a match is lost; 0 for a record that is not a match.
        totals
            int64[steps]: total cost after each step in picoseconds, without refused births. Step 0 only drops what
            leads to no match.
        left
            int64[steps]: number of matches left after each step.
        """
        cdef int64_t r, e, item, n_matches = int(np.count_nonzero(self.matched))
        cdef int64_t[::1] totals = np.zeros(n_matches + 2, np.int64), left = np.zeros(n_matches + 2, np.int64)
        cdef double ratio
        cdef Entry entry
        self._keep(np.not_equal(self.matched, 0).view(np.uint8))
        self.worth = np.zeros(self.n_records + self.n_events)
        self.lost = np.zeros(self.n_records, np.int64)
        self.heap.size = 0
        self.failed = False
        self.step = 1
        with nogil:
            self._weigh_all()
            self.ordering = True
            totals[0], left[0] = self.total, self.left
            while self.left > 0 and self.heap.size > 0 and not self.failed:
                entry = heap_pop(&self.heap)
                item = entry.item
                if self._contribution(item) == 0:
                    continue
                ratio = self._weigh(item)
                if self.heap.size > 0 and ratio > self.heap.entries[0].ratio:
                    self._push(ratio, item)
                    continue
                if item < self.n_records:
                    self._lose_under(item, False)
                else:
                    for r in range(self.first_record[item - self.n_records], self.first_record[item - self.n_records + 1]):
                        self._lose_under(r, True)
                totals[self.step], left[self.step] = self.total, self.left
                self.step += 1
            self.ordering = False
        if self.failed:
            raise MemoryError("no memory for the heap of items to drop")
        return np.asarray(self.lost), np.asarray(totals)[:self.step].copy(), np.asarray(left)[:self.step].copy()

    cdef void _push(self, double ratio, int64_t item) noexcept nogil:
        if heap_push(&self.heap, ratio, item) < 0:
            self.failed = True

    cdef void _weigh_all(self) noexcept nogil:
        """Compute the consumption of every item and fill the heap; children come before their parents."""
        cdef int64_t r, e, c, child, item
        cdef double cost
        for r in range(self.n_records - 1, -1, -1):
            if not self._is_row(r):
                continue
            cost = self.prices[3] + <double>self.prices[2] * self._visits(r)
            for c in range(self.first_child[r], self.last_child[r] + 1):
                child = self.children[c]
                cost += self.worth[child] + self.prices[5] * self.kept[child]
            self.worth[r] = cost
            self._push(self._contribution(r) / max(cost, 1.0), r)
        for e in range(self.n_events):
            if self.in_matches[e] == 0:
                continue
            item = self.n_records + e
            cost = self.prices[1] + <double>self.prices[2] * self._rows_met(e)
            for r in range(self.first_record[e], self.first_record[e + 1]):
                if self.needed[r] > 0:
                    cost += self.worth[r] + self.prices[5] * self.kept[r]
            self.worth[item] = cost
            self._push(self.in_matches[e] / max(cost, 1.0), item)

    cdef inline int64_t _contribution(self, int64_t item) noexcept nogil:
        """Return the number of matches that are lost with an item (a row or an event)."""
        if item >= self.n_records:
            return self.in_matches[item - self.n_records]
        return self.needed[item] - self.kept[item] if self._is_row(item) else 0

    cdef double _weigh(self, int64_t item) noexcept nogil:
        """Return the exact ratio of an item, from its present consumption."""
        cdef int64_t r, e
        cdef double cost
        if item < self.n_records:
            cost = self._consumption(item)
        else:
            e = item - self.n_records
            cost = self.prices[1] + <double>self.prices[2] * self._rows_met(e)
            for r in range(self.first_record[e], self.first_record[e + 1]):
                if self.needed[r] > 0:
                    cost += self.prices[5] * self.kept[r] + self._consumption(r)
        self.worth[item] = cost
        return self._contribution(item) / max(cost, 1.0)

    cdef double _consumption(self, int64_t r) noexcept nogil:
        """Return the cost of a row and of all its descendants."""
        cdef double cost = 0
        cdef int64_t depth = 0, c, child, record
        self.stack[0] = r
        while depth >= 0:
            record = self.stack[depth]
            depth -= 1
            if not self._is_row(record):
                continue
            cost += self.prices[3] + <double>self.prices[2] * self._visits(record)
            for c in range(self.first_child[record], self.last_child[record] + 1):
                child = self.children[c]
                if self.needed[child] > 0:
                    cost += self.prices[5] * self.kept[child]
                    depth += 1
                    self.stack[depth] = child
        return cost

    # ------------------------------------------------------------------ drop matches

    cdef void _lose_under(self, int64_t r, bint itself) noexcept nogil:
        """Drop all kept matches that are derived from a record; ``itself``: also the record."""
        cdef int64_t depth = 0, c, record, child
        if self.needed[r] == 0:
            return
        if itself and self.kept[r]:
            self._lose(r)
        self.stack[0] = r
        while depth >= 0:
            record = self.stack[depth]
            depth -= 1
            for c in range(self.first_child[record], self.first_child[record + 1]):
                child = self.children[c]
                if self.needed[child] == 0:
                    continue
                if self.kept[child]:
                    self._lose(child)
                if self.needed[child] > 0:
                    depth += 1
                    self.stack[depth] = child

    cdef void _lose(self, int64_t match) noexcept nogil:
        """Drop the matches that a record is, and everything that only these matches needed."""
        cdef int64_t r = match, e, parent, lost = self.kept[match]
        self.kept[match] = 0
        self.lost[match] = self.step
        self.left -= lost
        self.total -= self.prices[5] * lost
        while r >= 0:
            e, parent = self.events[r], self.parents[r]
            self.needed[r] -= lost
            self.in_matches[e] -= lost
            if self.in_matches[e] == 0:
                self._drop_event(e)
            elif self.ordering:
                self._push(self.in_matches[e] / max(self.worth[self.n_records + e], 1.0), self.n_records + e)
            if parent >= 0 and self.needed[r] == 0:
                self._shorten(parent)
            if r != match and self.ordering and self._contribution(r) > 0:
                self._push(self._contribution(r) / max(self.worth[r], 1.0), r)
            r = parent

    cdef void _drop_event(self, int64_t e) noexcept nogil:
        """Remove the probes of an event that no kept match binds."""
        cdef int64_t i
        self.total -= self.prices[1] + self.prices[2] * self._rows_met(e)
        for i in range(self.first_probe[e], self.first_probe[e + 1]):
            add(self.made, self.probes_of[i], -1)

    cdef void _shorten(self, int64_t r) noexcept nogil:
        """Shorten the life of a row, one of whose children is no longer needed, to its last needed child."""
        cdef int64_t c = self.last_child[r], p, end
        while c >= self.first_child[r] and self.needed[self.children[c]] == 0:
            c -= 1
        if c == self.last_child[r]:
            return
        if c < self.first_child[r]:
            c = NONE
            if self.first_place[r] < self.first_place[r + 1]:
                self.total -= self.prices[3]
        for p in range(self.first_place[r], self.first_place[r + 1]):
            end = self.place_from[p] if c == NONE else self._first_probe_after(p, self.events[self.children[c]])
            if end < self.place_to[p]:
                self.total -= self.prices[2] * (prefix_sum(self.made, self.place_to[p]) - prefix_sum(self.made, end))
                add(self.met, self.place_to[p], 1)
                add(self.met, end, -1)
                self.place_to[p] = end
        self.last_child[r] = c
