# cython: language_level=3
"""The covering knapsack of load shedding: what to drop so that enough is saved and as little as possible is lost.

Given are items (cells of partial matches, or classes of events) with a *value*, the contribution that is lost with the
item, and a *weight*, the consumption that is saved (hybrid, section III-B):

    minimise the sum of the values of what is chosen, so that the sum of its weights is at least the demand.

Items without value are chosen first, and all of them: they cost nothing. For the *need*, what is demanded still, the
others stand in order of value per weight, and the answer is the set of least value that covers it among

* prefixes of this order; these without one of their items, or with one more; and prefixes of the order without the
  dearest 1, 2, … items;
* one set per column of a table: the least value with this sum of weights, these rounded to steps (dynamic programming);
  where that saves a little too little, with the best of the items that are too light for the table.

None of these sets depends on the demand, and a larger one leaves fewer of them: the value lost never falls when it
grows. And while items do not change, other demands are answered from the same table.

With OPT(d) the least value that covers a demand d, and a step, a power of two of at most 1 / (2 * steps) of the weight
of all n items that have a value, the value of the answer is (but for the rounding of sums)

* OPT(demand) if all weights are whole steps;
* at most OPT(demand + n / 2 steps), if so much can be covered: of a best set for that and of what stands in its column,
  which is no dearer, the rounded weights are the same, and each item is off by at most half a step, in one of them;
* at most OPT(demand) and the value of the dearest item of a best set, so at most 2 * OPT(demand): the prefix without
  what is dearer than that item is, but for its last item, part of a set with fractions no dearer than the best.
"""
from libc.math cimport INFINITY, frexp, isfinite, ldexp, rint
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

import numpy as np

cdef double ROUNDING = 1e-12    # more than sums are off

cdef extern from "knapsack.h":
    ctypedef struct fc_ranked:
        double key
        double tie
        int32_t item
    void fc_order(const double* keys, double sign, int32_t n, fc_ranked* items, int32_t* order) noexcept nogil
    int32_t fc_rank(const double* values, const double* weights, int32_t n, fc_ranked* items) noexcept nogil
    int32_t fc_first(const double* sums, int32_t low, int32_t high, double least) noexcept nogil
    void fc_relax(const double* old, double* least, uint8_t* takes, int32_t weight, double value,
                  int32_t most) noexcept nogil
    double fc_sum(const double* of, const uint8_t* chosen, int32_t n) noexcept nogil
    void fc_weigh(const uint8_t* takes, int32_t* columns, double* saved, int32_t n, int32_t whole,
                  double weight) noexcept nogil


cdef double _check(const double[::1] values, const double[::1] weights, double demand) except? -1:
    """What is demanded still when all that costs nothing is chosen."""
    cdef Py_ssize_t i, n = values.shape[0]
    cdef double value = 0, weight = 0, free_weight = 0
    if weights.shape[0] != n:
        raise ValueError(f"a knapsack of {n} values and {weights.shape[0]} weights: expected as many of each")
    if not isfinite(demand):
        raise ValueError(f"a knapsack's demand of {demand}: expected a finite number")
    for i in range(n):
        if not (0 <= values[i] < INFINITY):
            raise ValueError(f"the value {values[i]} of item {i} of a knapsack: expected a finite number from 0 on")
        if not (0 < weights[i] < INFINITY):
            raise ValueError(f"the weight {weights[i]} of item {i} of a knapsack: expected a finite number above 0; "
                             "leave out what saves nothing")
        value += values[i]
        weight += weights[i]
        if values[i] == 0:
            free_weight += weights[i]
    if not (isfinite(value) and isfinite(weight)):
        raise ValueError("the sum of a knapsack's values or weights is no finite number: give them in larger units")
    return demand - free_weight


def greedy(values, weights, double demand):
    """Choose by value per weight, the least first, until the demand is covered.

    Parameters
    ----------
    values, weights
        Of the items: finite; values from 0 on, weights above 0.
    demand
        What the weights of the chosen are to come to.

    Returns
    -------
    chosen
        uint8[items]; all, if all do not cover the demand. What is chosen is chosen for each larger demand, too.
    """
    cdef const double[::1] value = np.ascontiguousarray(values, np.float64)
    cdef const double[::1] weight = np.ascontiguousarray(weights, np.float64)
    cdef double need = _check(value, weight, demand), saved = 0
    cdef int32_t k, count, n = value.shape[0]
    cdef uint8_t[::1] chosen = np.equal(value, 0).view(np.uint8)
    cdef fc_ranked* items = <fc_ranked*>malloc((n + 1) * sizeof(fc_ranked))
    if items == NULL:
        raise MemoryError("no memory to order the items of a knapsack")
    with nogil:
        count = fc_rank(&value[0], &weight[0], n, items) if n else 0
        for k in range(count):
            if saved >= need:
                break
            chosen[items[k].item] = 1
            saved += weight[items[k].item]
    free(items)
    return np.asarray(chosen)


cdef class Knapsack:
    """Solves one knapsack after the other; its buffers are made once. For one thread at a time.

    Parameters
    ----------
    items
        At most so many.
    steps
        Into how many half of the weight of all items is cut, at least (and at most into twice as many).
    """
    cdef int32_t items, steps
    # What the table is of: items as given, -1: of nothing.
    cdef int32_t given
    cdef double[::1] given_values, given_weights
    # Items that have a value, by rank in the order of value per weight; ranks by weight, and from the dearest on.
    cdef int32_t n
    cdef double[::1] value, weight, values_before
    cdef int32_t[::1] index, by_weight, by_value
    cdef fc_ranked* ranked
    # The table: weights in steps, by weight; the first ``light`` have none, and no row.
    cdef double step, beyond
    cdef int32_t light, most
    cdef int32_t[::1] whole
    cdef double[:, ::1] least
    cdef double* last
    cdef uint8_t[:, ::1] takes
    # The light ones: in order with sums before each; behind each place in ``by_weight`` the one of least value.
    cdef int32_t[::1] light_ranks, cheapest
    cdef double[::1] light_values, light_weights, own_weights
    # A search: weights as far as needed, their sums; a set on trial and the best so far; columns, and what they save.
    cdef double[::1] capped, before, saved
    cdef uint8_t[::1] trial, best, left
    cdef int32_t[::1] columns, places
    cdef double need, best_value

    def __cinit__(self):
        self.ranked = NULL

    def __dealloc__(self):
        free(self.ranked)

    def __init__(self, int items, int steps=1000):
        if items < 1 or not 1 <= steps <= 2**24:
            raise ValueError(f"a knapsack of {items} items and {steps} steps: expected 1 or more, and 1 to {2**24}")
        cdef Py_ssize_t columns = 4 * <Py_ssize_t>steps + items + 2
        self.items, self.steps, self.given = items, steps, -1
        free(self.ranked)
        self.ranked = <fc_ranked*>malloc(items * sizeof(fc_ranked))
        if self.ranked == NULL:
            raise MemoryError("no memory for the items of a knapsack")
        self.given_values, self.given_weights, self.value, self.weight, self.values_before, self.light_values, \
            self.light_weights, self.own_weights, self.capped, self.before = np.zeros((10, items + 1))
        self.index, self.by_weight, self.by_value, self.whole, self.light_ranks, self.cheapest = \
            np.zeros((6, items + 1), np.int32)
        self.trial, self.best, self.left = np.zeros((3, items), np.uint8)
        self.least = np.zeros((2, columns))
        self.takes = np.zeros((items, columns), np.uint8)
        self.columns, self.places = np.zeros((2, columns), np.int32)
        self.saved = np.zeros(columns)

    def cover(self, values, weights, double demand):
        """Choose what covers a demand at the least loss.

        Parameters
        ----------
        values, weights, demand
            As for `greedy`.

        Returns
        -------
        chosen
            uint8[items]; all, if all do not cover the demand.
        """
        cdef const double[::1] value = np.ascontiguousarray(values, np.float64)
        cdef const double[::1] weight = np.ascontiguousarray(weights, np.float64)
        cdef int32_t i, n = value.shape[0]
        self.need = _check(value, weight, demand)
        if n > self.items:
            raise ValueError(f"{n} items for a knapsack of {self.items}: make a Knapsack of as many as there can be")
        cdef uint8_t[::1] chosen = np.equal(value, 0).view(np.uint8)
        if n > 0 and self.need > 0:
            with nogil:
                if (n != self.given or memcmp(&value[0], &self.given_values[0], n * sizeof(double)) != 0
                        or memcmp(&weight[0], &self.given_weights[0], n * sizeof(double)) != 0):
                    self._tabulate(&value[0], &weight[0], n)
                self._search()
                for i in range(self.n):
                    chosen[self.index[i]] = self.best[i]
        return np.asarray(chosen)

    cdef void _tabulate(self, const double* values, const double* weights, int32_t n) noexcept nogil:
        """Order items and make the table."""
        cdef int32_t i, k
        cdef double total = 0
        memcpy(&self.given_values[0], values, n * sizeof(double))
        memcpy(&self.given_weights[0], weights, n * sizeof(double))
        self.given, self.n = n, fc_rank(values, weights, n, self.ranked)
        for k in range(self.n):
            i = self.index[k] = self.ranked[k].item
            self.value[k], self.weight[k] = values[i], weights[i]
            total += weights[i]
            self.values_before[k + 1] = self.values_before[k] + values[i]
        fc_order(&self.value[0], -1, self.n, self.ranked, &self.by_value[0])
        fc_order(&self.weight[0], 1, self.n, self.ranked, &self.by_weight[0])
        self._round(total)
        self._fill()
        self._prepare_light()

    cdef void _round(self, double total) noexcept nogil:
        """Weights in steps: a power of two, so that whole numbers are whole steps if they are not too many."""
        cdef int power = 0
        cdef int32_t k
        cdef double rounded
        if frexp(total / (4.0 * self.steps), &power) == 0.5:
            power -= 1
        self.step = ldexp(1.0, power)
        self.most = self.light = 0
        self.beyond = 0
        for k in range(self.n):
            rounded = rint(self.weight[k] / self.step)
            self.whole[k] = <int32_t>rounded
            self.most += self.whole[k]
            self.light += self.whole[k] == 0
            self.beyond += max(0.0, self.weight[k] - rounded * self.step)

    cdef void _fill(self) noexcept nogil:
        """The least value per sum of weights, of more and more items: light ones first, while there are few sums."""
        cdef double* old = &self.least[0, 0]
        cdef double* new = &self.least[1, 0]
        cdef double* swap
        cdef int32_t c, k, rank, most = 0
        for c in range(self.most + 1):
            old[c] = new[c] = INFINITY
        old[0] = 0
        for k in range(self.light, self.n):
            rank = self.by_weight[k]
            most += self.whole[rank]
            fc_relax(old, new, &self.takes[k, 0], self.whole[rank], self.value[rank], most)
            swap = old
            old = new
            new = swap
        self.last = old

    cdef void _prepare_light(self) noexcept nogil:
        """Order the items that are too light for the table."""
        cdef int32_t k, rank, count = 0
        for k in range(self.n):
            if self.whole[k] == 0:
                self.light_ranks[count] = k
                self.light_values[count + 1] = self.light_values[count] + self.value[k]
                self.light_weights[count + 1] = self.light_weights[count] + self.weight[k]
                count += 1
        for k in range(count - 1, -1, -1):
            rank = self.by_weight[k]
            self.own_weights[k] = self.weight[rank]
            if k < count - 1 and self.value[self.cheapest[k + 1]] < self.value[rank]:
                rank = self.cheapest[k + 1]
            self.cheapest[k] = rank

    cdef void _search(self) noexcept nogil:
        """Find the best set for what is needed."""
        cdef int32_t k, n = self.n, prefix
        cdef double total = 0
        for k in range(n):
            total += self.weight[k]
            self.capped[k] = min(self.weight[k], self.need)    # as good, and sums stay precise
            self.before[k + 1] = self.before[k] + self.capped[k]
        memset(&self.best[0], 1, n)
        self.best_value = self.values_before[n]
        if total <= self.need:
            return
        prefix = fc_first(&self.before[0], 0, n, self.need)
        self._offer(prefix, -1, -1)
        self._try_one_more(prefix)
        self._try_one_less(prefix)
        self._try_cheaper(prefix)
        self._try_columns()

    cdef void _judge(self) noexcept nogil:
        """Keep the set on trial if it covers the need at less than the best so far."""
        cdef double value = fc_sum(&self.value[0], &self.trial[0], self.n)
        if value < self.best_value and fc_sum(&self.weight[0], &self.trial[0], self.n) >= self.need:
            self.best_value = value
            memcpy(&self.best[0], &self.trial[0], self.n)

    cdef void _offer(self, int32_t prefix, int32_t without, int32_t more) noexcept nogil:
        """Try a prefix, without an item or with one more (-1: none)."""
        memset(&self.trial[0], 1, prefix)
        memset(&self.trial[0] + prefix, 0, self.n - prefix)
        if without >= 0:
            self.trial[without] = 0
        if more >= 0:
            self.trial[more] = 1
        self._judge()

    cdef void _try_one_more(self, int32_t prefix) noexcept nogil:
        """Shorter prefixes, each with one item that makes up for the rest."""
        cdef int32_t k, shorter
        for k in range(self.n):
            shorter = fc_first(&self.before[0], 0, min(k + 1, prefix), self.need - self.capped[k])
            if shorter < min(k + 1, prefix) and self.values_before[shorter] + self.value[k] < self.best_value:
                self._offer(shorter, -1, k)

    cdef void _try_one_less(self, int32_t prefix) noexcept nogil:
        """Longer prefixes, each without one item."""
        cdef int32_t k, longer
        for k in range(prefix):
            longer = fc_first(&self.before[0], prefix, self.n + 1, self.need + self.capped[k])
            if longer <= self.n and self.values_before[longer] * (1 - ROUNDING) - self.value[k] < self.best_value:
                self._offer(longer, k, -1)

    cdef void _try_cheaper(self, int32_t prefix) noexcept nogil:
        """Prefixes without the dearest items: one more left out each time, until no rest can be any better."""
        cdef int32_t k, rank, last
        cdef double part, weight = self.before[prefix], value = self.values_before[prefix]
        memset(&self.left[0], 1, self.n)
        for k in range(self.n):
            rank = self.by_value[k]
            self.left[rank] = 0
            if rank >= prefix:
                continue
            weight -= self.capped[rank]
            value -= self.value[rank]
            if value < self.value[rank] / 1024:    # what is left may be mostly what was rounded
                value = fc_sum(&self.value[0], &self.left[0], prefix)
            while weight < self.need and prefix < self.n:
                if self.left[prefix]:
                    weight += self.capped[prefix]
                    value += self.value[prefix]
                prefix += 1
            if weight < self.need:
                return
            last = prefix - 1
            part = (self.need - (weight - self.capped[last])) / self.weight[last]    # as much of the last as is needed
            if self.value[rank] <= self.best_value <= (value - (1 - part) * self.value[last]) * (1 - ROUNDING):
                return
            if value < self.best_value:
                memset(&self.trial[0], 0, self.n)
                memcpy(&self.trial[0], &self.left[0], prefix)
                self._judge()

    cdef void _try_columns(self) noexcept nogil:
        """What stands in the table: sets that are good enough, if they save enough."""
        cdef int32_t c, k, count = 0, first = max(0, <int32_t>((self.need - self.beyond) / self.step) - 1)
        cdef double gap
        for c in range(first, self.most + 1):
            if self.last[c] < self.best_value:
                self.columns[count] = c
                count += 1
        self._weigh(count)
        for k in range(count):
            c = self.columns[k]
            gap = self.need - self.saved[k]
            if gap <= 0:
                if self.last[c] < self.best_value:
                    self._offer_column(c, 0, -1)
            elif self.light > 0:
                self._try_light(c, gap)

    cdef void _weigh(self, int32_t count) noexcept nogil:
        """What the sets of columns save, side by side."""
        cdef int32_t k, rank
        memcpy(&self.places[0], &self.columns[0], count * sizeof(int32_t))
        memset(&self.saved[0], 0, count * sizeof(double))
        for k in range(self.n - 1, self.light - 1, -1):
            rank = self.by_weight[k]
            fc_weigh(&self.takes[k, 0], &self.places[0], &self.saved[0], count, self.whole[rank], self.weight[rank])

    cdef void _try_light(self, int32_t column, double gap) noexcept nogil:
        """A column's set and light items that make up for what is missing: in their order, or one."""
        cdef int32_t k = fc_first(&self.light_weights[0], 0, self.light + 1, gap)
        if k <= self.light and self.last[column] + self.light_values[k] < self.best_value:
            self._offer_column(column, k, -1)
        k = fc_first(&self.own_weights[0], 0, self.light, gap)
        if k < self.light and self.last[column] + self.value[self.cheapest[k]] < self.best_value:
            self._offer_column(column, 0, self.cheapest[k])

    cdef void _offer_column(self, int32_t column, int32_t lights, int32_t more) noexcept nogil:
        """Try a column's set with so many of the light items, or with one (-1: none)."""
        cdef int32_t k, rank
        memset(&self.trial[0], 0, self.n)
        for k in range(self.n - 1, self.light - 1, -1):
            if self.takes[k, column]:
                rank = self.by_weight[k]
                self.trial[rank] = 1
                column -= self.whole[rank]
        for k in range(lights):
            self.trial[self.light_ranks[k]] = 1
        if more >= 0:
            self.trial[more] = 1
        self._judge()
