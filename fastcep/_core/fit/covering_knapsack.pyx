# cython: language_level=3
"""The covering knapsack of load shedding: the items to drop so that enough is saved and as little as possible is lost.

The items (cells of partial matches, or classes of events) have a *value*, the contribution that is lost with the item,
and a *weight*, the consumption that is saved (hybrid, section III-B):

    minimise the sum of the values of the chosen items, so that the sum of their weights is at least the demand.

All items without value are chosen first, because they cost nothing. The rest of the demand is the *need*. The other
items are ordered by value per weight. The answer is the set of least value that covers the need among

* the prefixes of this order; prefixes without one of their items, or with one more; and prefixes of the order without
  the 1, 2, … items of highest value;
* one set per column of a table: the set of least value with this sum of weights, with weights rounded to steps (dynamic
  programming); if it saves slightly too little, together with the best of the items that are too light for the table.

None of these sets depends on the demand, and a larger demand is covered by fewer of them. Therefore the value lost
never falls when the demand grows. As long as the items do not change, all demands are answered from the same table.

Let OPT(d) be the least value that covers a demand d. Let a step be a power of two of at most 1 / (2 * steps) of the
total weight of the n items that have a value. Up to the rounding of sums, the value of the answer is

* OPT(demand) if all weights are whole steps;
* at most OPT(demand + n / 2 steps), if that demand can be covered. Proof: a best set for it and the set in its column,
  which has no larger value, have the same rounded weights, and each item is off by at most half a step in one of them;
* at most OPT(demand) plus the largest value of an item of a best set, and therefore at most 2 * OPT(demand). Proof:
  consider the prefix without all items of larger value than that item. Except for its last item, it is part of a
  fractional solution whose value is at most that of the best set.
"""
from libc.math cimport INFINITY, frexp, isfinite, ldexp, rint
from libc.stdint cimport int32_t, uint8_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memset

import numpy as np

cdef double ROUNDING = 1e-12    # upper bound of the relative rounding error of sums

cdef extern from "knapsack.h":
    ctypedef struct fc_ranked:
        double key
        double tie
        int32_t item
    void fc_order(const double* keys, double sign, int32_t n, fc_ranked* items, int32_t* order) noexcept nogil
    int32_t fc_rank(const double* values, const double* weights, int32_t n, fc_ranked* items) noexcept nogil
    int32_t fc_first(const double* sums, int32_t low, int32_t high, double least) noexcept nogil
    void fc_relax(const double* old, double* least, uint8_t* takes, int32_t weight, double value,
                  int32_t total_steps) noexcept nogil
    double fc_sum(const double* of, const uint8_t* chosen, int32_t n) noexcept nogil
    void fc_weigh(const uint8_t* takes, int32_t* columns, double* saved, int32_t n, int32_t weight_steps,
                  double weight) noexcept nogil


cdef double _check(const double[::1] values, const double[::1] weights, double demand) except? -1:
    """Check the items and return the need: the demand minus the weights of the items without value."""
    cdef Py_ssize_t i, n = values.shape[0]
    cdef double value = 0, weight = 0, free_weight = 0
    if weights.shape[0] != n:
        raise ValueError(f"a knapsack has {n} values but {weights.shape[0]} weights: expected the same number of both")
    if not isfinite(demand):
        raise ValueError(f"the demand of a knapsack is {demand}: expected a finite number")
    for i in range(n):
        if not (0 <= values[i] < INFINITY):
            raise ValueError(f"the value of item {i} of a knapsack is {values[i]}: expected a finite number, at least 0")
        if not (0 < weights[i] < INFINITY):
            raise ValueError(f"the weight of item {i} of a knapsack is {weights[i]}: expected a finite number above 0; "
                             "leave out items that save nothing")
        value += values[i]
        weight += weights[i]
        if values[i] == 0:
            free_weight += weights[i]
    if not (isfinite(value) and isfinite(weight)):
        raise ValueError("the sum of a knapsack's values or weights is not finite: express them in a larger unit")
    return demand - free_weight


def greedy(values, weights, double demand):
    """Choose items in ascending order of value per weight until the demand is covered.

    Parameters
    ----------
    values, weights
        Finite numbers per item; values of at least 0, weights above 0.
    demand
        Least sum of the weights of the chosen items.

    Returns
    -------
    chosen
        uint8[items]: 1 for a chosen item; all if they do not cover the demand. A larger demand chooses a superset.
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
    """Solves one knapsack after another with the same buffers. Not thread-safe.

    Parameters
    ----------
    items
        Largest number of items of a knapsack.
    steps
        Resolution of the table: half of the weight of all items is at least this many steps, and at most twice as many.
    """
    cdef int32_t items, steps
    cdef int32_t tabulated                  # number of the items for which the table was made; -1: there is no table
    cdef double[::1] tabulated_values, tabulated_weights
    # The items that have a value, by rank in the order of value per weight; ranks by weight; ranks by descending value.
    cdef int32_t n
    cdef double[::1] value, weight, values_before
    cdef int32_t[::1] index, by_weight, by_value
    cdef fc_ranked* ranked
    # The table, one row per item by ascending weight. The first ``light`` items have a weight of 0 steps and no row.
    cdef double step, rounded_off           # weight of a step; weight that rounding to steps takes away in total
    cdef int32_t light, total_steps         # number of light items; sum of all weights in steps
    cdef int32_t[::1] weight_steps          # per rank: weight in steps
    cdef double[:, ::1] least               # least value per sum of weights: before and after the present item
    cdef double* last                       # least value per sum of weights, of all items
    cdef uint8_t[:, ::1] takes              # per item and sum of weights: 1 if the set contains the item
    # The light items: ranks by value per weight with prefix sums; from each place in ``by_weight`` on, the least value.
    cdef int32_t[::1] light_ranks, cheapest
    cdef double[::1] light_values, light_weights, sorted_light_weights
    # The search: weights capped at the need with prefix sums; candidate and best set; columns, and what they save.
    cdef double[::1] capped, before, saved
    cdef uint8_t[::1] candidate, best, kept
    cdef int32_t[::1] columns, places
    cdef double need, best_value

    def __cinit__(self):
        self.ranked = NULL

    def __dealloc__(self):
        free(self.ranked)

    def __init__(self, int items, int steps=1000):
        if items < 1 or not 1 <= steps <= 2**24:
            raise ValueError(f"a knapsack of {items} items and {steps} steps: expected at least 1 item and 1 to {2**24} "
                             "steps")
        cdef Py_ssize_t columns = 4 * <Py_ssize_t>steps + items + 2
        self.items, self.steps, self.tabulated = items, steps, -1
        free(self.ranked)
        self.ranked = <fc_ranked*>malloc(items * sizeof(fc_ranked))
        if self.ranked == NULL:
            raise MemoryError("no memory for the items of a knapsack")
        self.tabulated_values, self.tabulated_weights, self.value, self.weight, self.values_before, self.light_values, \
            self.light_weights, self.sorted_light_weights, self.capped, self.before = np.zeros((10, items + 1))
        self.index, self.by_weight, self.by_value, self.weight_steps, self.light_ranks, self.cheapest = \
            np.zeros((6, items + 1), np.int32)
        self.candidate, self.best, self.kept = np.zeros((3, items), np.uint8)
        self.least = np.zeros((2, columns))
        self.takes = np.zeros((items, columns), np.uint8)
        self.columns, self.places = np.zeros((2, columns), np.int32)
        self.saved = np.zeros(columns)

    def cover(self, values, weights, double demand):
        """Choose items that cover a demand at the least loss.

        Parameters
        ----------
        values, weights, demand
            As for `greedy`.

        Returns
        -------
        chosen
            uint8[items]: 1 for a chosen item; all if they do not cover the demand.
        """
        cdef const double[::1] value = np.ascontiguousarray(values, np.float64)
        cdef const double[::1] weight = np.ascontiguousarray(weights, np.float64)
        cdef int32_t i, n = value.shape[0]
        self.need = _check(value, weight, demand)
        if n > self.items:
            raise ValueError(f"{n} items for a knapsack of {self.items}: create the Knapsack with a larger `items`")
        cdef uint8_t[::1] chosen = np.equal(value, 0).view(np.uint8)
        if n > 0 and self.need > 0:
            with nogil:
                if (n != self.tabulated or memcmp(&value[0], &self.tabulated_values[0], n * sizeof(double)) != 0
                        or memcmp(&weight[0], &self.tabulated_weights[0], n * sizeof(double)) != 0):
                    self._tabulate(&value[0], &weight[0], n)
                self._search()
                for i in range(self.n):
                    chosen[self.index[i]] = self.best[i]
        return np.asarray(chosen)

    cdef void _tabulate(self, const double* values, const double* weights, int32_t n) noexcept nogil:
        """Order the items and fill the table."""
        cdef int32_t i, k
        cdef double total = 0
        memcpy(&self.tabulated_values[0], values, n * sizeof(double))
        memcpy(&self.tabulated_weights[0], weights, n * sizeof(double))
        self.tabulated, self.n = n, fc_rank(values, weights, n, self.ranked)
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
        """Round the weights to steps.

        A step is a power of two, so that integer weights are exact unless they are too large.
        """
        cdef int power = 0
        cdef int32_t k
        cdef double rounded
        if frexp(total / (4.0 * self.steps), &power) == 0.5:
            power -= 1
        self.step = ldexp(1.0, power)
        self.total_steps = self.light = 0
        self.rounded_off = 0
        for k in range(self.n):
            rounded = rint(self.weight[k] / self.step)
            self.weight_steps[k] = <int32_t>rounded
            self.total_steps += self.weight_steps[k]
            self.light += self.weight_steps[k] == 0
            self.rounded_off += max(0.0, self.weight[k] - rounded * self.step)

    cdef void _fill(self) noexcept nogil:
        """Fill the table: the least value per sum of weights, item by item.

        Light items come first, while there are few sums.
        """
        cdef double* old = &self.least[0, 0]
        cdef double* new = &self.least[1, 0]
        cdef double* swap
        cdef int32_t c, k, rank, total_steps = 0
        for c in range(self.total_steps + 1):
            old[c] = new[c] = INFINITY
        old[0] = 0
        for k in range(self.light, self.n):
            rank = self.by_weight[k]
            total_steps += self.weight_steps[rank]
            fc_relax(old, new, &self.takes[k, 0], self.weight_steps[rank], self.value[rank], total_steps)
            swap = old
            old = new
            new = swap
        self.last = old

    cdef void _prepare_light(self) noexcept nogil:
        """Prepare the prefix sums and minima of the items that are too light for the table."""
        cdef int32_t k, rank, count = 0
        for k in range(self.n):
            if self.weight_steps[k] == 0:
                self.light_ranks[count] = k
                self.light_values[count + 1] = self.light_values[count] + self.value[k]
                self.light_weights[count + 1] = self.light_weights[count] + self.weight[k]
                count += 1
        for k in range(count - 1, -1, -1):
            rank = self.by_weight[k]
            self.sorted_light_weights[k] = self.weight[rank]
            if k < count - 1 and self.value[self.cheapest[k + 1]] < self.value[rank]:
                rank = self.cheapest[k + 1]
            self.cheapest[k] = rank

    cdef void _search(self) noexcept nogil:
        """Find the best set that covers the need."""
        cdef int32_t k, n = self.n, prefix
        cdef double total = 0
        for k in range(n):
            total += self.weight[k]
            self.capped[k] = min(self.weight[k], self.need)    # covers the same, and keeps the sums precise
            self.before[k + 1] = self.before[k] + self.capped[k]
        memset(&self.best[0], 1, n)
        self.best_value = self.values_before[n]
        if total <= self.need:
            return
        prefix = fc_first(&self.before[0], 0, n, self.need)
        self._try_prefix(prefix, -1, -1)
        self._try_one_more(prefix)
        self._try_one_less(prefix)
        self._try_cheaper(prefix)
        self._try_columns()

    cdef void _update_best(self) noexcept nogil:
        """Make the candidate set the best one if it covers the need at a smaller value."""
        cdef double value = fc_sum(&self.value[0], &self.candidate[0], self.n)
        if value < self.best_value and fc_sum(&self.weight[0], &self.candidate[0], self.n) >= self.need:
            self.best_value = value
            memcpy(&self.best[0], &self.candidate[0], self.n)

    cdef void _try_prefix(self, int32_t prefix, int32_t without, int32_t added) noexcept nogil:
        """Try a prefix, without one of its items or with an additional one (-1: none)."""
        memset(&self.candidate[0], 1, prefix)
        memset(&self.candidate[0] + prefix, 0, self.n - prefix)
        if without >= 0:
            self.candidate[without] = 0
        if added >= 0:
            self.candidate[added] = 1
        self._update_best()

    cdef void _try_one_more(self, int32_t prefix) noexcept nogil:
        """Try shorter prefixes, each with one more item that covers the rest of the need."""
        cdef int32_t k, shorter
        for k in range(self.n):
            shorter = fc_first(&self.before[0], 0, min(k + 1, prefix), self.need - self.capped[k])
            if shorter < min(k + 1, prefix) and self.values_before[shorter] + self.value[k] < self.best_value:
                self._try_prefix(shorter, -1, k)

    cdef void _try_one_less(self, int32_t prefix) noexcept nogil:
        """Try longer prefixes, each without one of its items."""
        cdef int32_t k, longer
        for k in range(prefix):
            longer = fc_first(&self.before[0], prefix, self.n + 1, self.need + self.capped[k])
            if longer <= self.n and self.values_before[longer] * (1 - ROUNDING) - self.value[k] < self.best_value:
                self._try_prefix(longer, k, -1)

    cdef void _try_cheaper(self, int32_t prefix) noexcept nogil:
        """Try prefixes without the 1, 2, … items of highest value, until no further set can be better."""
        cdef int32_t k, rank, last
        cdef double fraction, weight = self.before[prefix], value = self.values_before[prefix]
        memset(&self.kept[0], 1, self.n)
        for k in range(self.n):
            rank = self.by_value[k]
            self.kept[rank] = 0
            if rank >= prefix:
                continue
            weight -= self.capped[rank]
            value -= self.value[rank]
            if value < self.value[rank] / 1024:    # cancellation: compute the sum anew
                value = fc_sum(&self.value[0], &self.kept[0], prefix)
            while weight < self.need and prefix < self.n:
                if self.kept[prefix]:
                    weight += self.capped[prefix]
                    value += self.value[prefix]
                prefix += 1
            if weight < self.need:
                return
            last = prefix - 1
            fraction = (self.need - (weight - self.capped[last])) / self.weight[last]  # part of the last item that is needed
            if self.value[rank] <= self.best_value <= (value - (1 - fraction) * self.value[last]) * (1 - ROUNDING):
                return
            if value < self.best_value:
                memset(&self.candidate[0], 0, self.n)
                memcpy(&self.candidate[0], &self.kept[0], prefix)
                self._update_best()

    cdef void _try_columns(self) noexcept nogil:
        """Try the sets of the table whose value is smaller than the best so far."""
        cdef int32_t c, k, count = 0, first = max(0, <int32_t>((self.need - self.rounded_off) / self.step) - 1)
        cdef double gap
        for c in range(first, self.total_steps + 1):
            if self.last[c] < self.best_value:
                self.columns[count] = c
                count += 1
        self._weigh_columns(count)
        for k in range(count):
            c = self.columns[k]
            gap = self.need - self.saved[k]
            if gap <= 0:
                if self.last[c] < self.best_value:
                    self._try_column(c, 0, -1)
            elif self.light > 0:
                self._try_light(c, gap)

    cdef void _weigh_columns(self, int32_t count) noexcept nogil:
        """Compute the weight that the sets of ``count`` columns save, all columns together."""
        cdef int32_t k, rank
        memcpy(&self.places[0], &self.columns[0], count * sizeof(int32_t))
        memset(&self.saved[0], 0, count * sizeof(double))
        for k in range(self.n - 1, self.light - 1, -1):
            rank = self.by_weight[k]
            fc_weigh(&self.takes[k, 0], &self.places[0], &self.saved[0], count, self.weight_steps[rank], self.weight[rank])

    cdef void _try_light(self, int32_t column, double gap) noexcept nogil:
        """Try the set of a column with light items that cover the gap: a prefix of them, or a single one."""
        cdef int32_t k = fc_first(&self.light_weights[0], 0, self.light + 1, gap)
        if k <= self.light and self.last[column] + self.light_values[k] < self.best_value:
            self._try_column(column, k, -1)
        k = fc_first(&self.sorted_light_weights[0], 0, self.light, gap)
        if k < self.light and self.last[column] + self.value[self.cheapest[k]] < self.best_value:
            self._try_column(column, 0, self.cheapest[k])

    cdef void _try_column(self, int32_t column, int32_t lights, int32_t added) noexcept nogil:
        """Try the set of a column with the first ``lights`` light items, or with one additional item (-1: none)."""
        cdef int32_t k, rank
        memset(&self.candidate[0], 0, self.n)
        for k in range(self.n - 1, self.light - 1, -1):
            if self.takes[k, column]:
                rank = self.by_weight[k]
                self.candidate[rank] = 1
                column -= self.weight_steps[rank]
        for k in range(lights):
            self.candidate[self.light_ranks[k]] = 1
        if added >= 0:
            self.candidate[added] = 1
        self._update_best()
