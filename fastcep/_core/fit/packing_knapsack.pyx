# cython: language_level=3
"""The packing knapsack of state migration: the items of most value that fit in a capacity.

The covering knapsack of load shedding (`covering_knapsack`) rounds weights and keeps values exact. Here the sizes are
exact, because a link sends whole bytes, and the values are rounded to small integers. Therefore the table is indexed by
value, and items of equal value form a *class*. Of a class, an optimal set contains the smallest items, so a set is
described by one count per class.

`least_sizes` starts from a given set and computes, for each extra value w, the least extra size of a set whose value is
larger by at least w. A class of value v adds an item count d (negative: it removes items) at the cost C(d), and

    new[w] = min over d of old[w - d * v] + C(d)

C is convex, because the items of a class ascend by size. So for all w that are equal modulo v, the best ``w - d * v``
ascends with w, and divide and conquer finds all of them with O(n log n) additions (monotone minima).
"""
from libc.stdint cimport INT64_MAX, int16_t, int64_t, uint8_t
from libc.stdlib cimport free, malloc

import numpy as np

cdef int64_t UNREACHABLE = INT64_MAX
cdef int64_t MOST_ITEMS = 32_767    # of a class that a set can gain or lose, so that a decision takes two bytes


cdef struct Chain:
    const int64_t* before       # least size per place of the chain; place -1 is a value of at least the lowest
    const int64_t* cost         # size of an item count of the class, relative to the start; cost[-remove] is the first
    int64_t* after
    int64_t* source             # best place before
    int64_t reachable           # last reachable place before
    int64_t remove, add         # largest numbers of items that the set can lose and gain


cdef void _minima(const Chain* chain, int64_t first, int64_t end, int64_t low, int64_t high) noexcept nogil:
    """Compute the places from ``first`` to ``end``, whose best places before are in ``low`` to ``high``."""
    cdef int64_t middle, i, size, start, stop, best, best_size
    while first < end:
        middle = first + (end - first) // 2
        start = max(low, middle - chain.add, -1)
        stop = min(high, middle + chain.remove, chain.reachable)
        best, best_size = start, UNREACHABLE
        for i in range(start, stop + 1):
            size = chain.before[i] + chain.cost[middle - i]
            if size < best_size:
                best, best_size = i, size
        chain.after[middle] = best_size
        chain.source[middle] = best
        _minima(chain, first, middle, low, best)
        first, low = middle + 1, best


def least_sizes(values, sizes, starts, bases, int64_t low, int64_t high):
    """Compute the least extra size per extra value, and the sets that have it.

    Parameters
    ----------
    values
        int64[classes]: the value of an item of each class, above 0.
    sizes
        int64[items]: the sizes of the items of all classes, ascending within a class, above 0; their sum is below 2^62.
    starts
        int64[classes + 1]: the items of class k are those from ``starts[k]`` to ``starts[k + 1]``.
    bases
        int64[classes]: the number of items of each class in the set to start from.
    low, high
        Range of the extra value of the set while classes are added one after another, ``low <= 0 <= high``.

    Returns
    -------
    least, counts
        int64[high - low + 1]: for an extra value of at least ``low + w``, the least extra size; the largest int64 if no
        set has this value. int16[classes, high - low + 1]: the number of items of each class that the set gains, of the
        classes up to this one; the rest of the set is found at ``max(w - count * value, 0)`` of the class before.

    Raises
    ------
    ValueError
        If the arrays do not fit together, or a set can gain or lose more than 32,767 items of a class.
    """
    cdef const int64_t[::1] value = np.ascontiguousarray(values, np.int64)
    cdef const int64_t[::1] size = np.ascontiguousarray(sizes, np.int64)
    cdef const int64_t[::1] start = np.ascontiguousarray(starts, np.int64)
    cdef const int64_t[::1] base = np.ascontiguousarray(bases, np.int64)
    cdef Py_ssize_t classes = value.shape[0], width = high - low + 1
    if low > 0 or high < 0:
        raise ValueError(f"the range of the extra value is {low} to {high}: expected a range with 0")
    if start.shape[0] != classes + 1 or base.shape[0] != classes or start[0] != 0 or start[classes] != size.shape[0]:
        raise ValueError(f"{classes} classes: expected one base for each, and the starts of all items")
    cdef Py_ssize_t k
    for k in range(classes):
        if value[k] < 1 or start[k + 1] <= start[k] or not 0 <= base[k] <= start[k + 1] - start[k]:
            raise ValueError(f"class {k} has the value {value[k]}, {start[k + 1] - start[k]} items and a base of {base[k]}: "
                             "expected a value above 0, at least one item, and a base of at most all of them")
        if min(start[k + 1] - start[k], width // value[k] + 1) > MOST_ITEMS:
            raise ValueError(f"a set can gain or lose more than {MOST_ITEMS} items of class {k}: expected a narrower range")
    least_array = np.full(width, UNREACHABLE, np.int64)
    counts_array = np.zeros((classes, width), np.int16)
    cdef int64_t[::1] least = least_array
    cdef int16_t[:, ::1] counts = counts_array
    # before[0] is place -1; then the places of the chain
    cdef int64_t* memory = <int64_t*>malloc((5 * width + 8) * sizeof(int64_t))
    if memory == NULL:
        raise MemoryError("no memory for the table of a knapsack")
    cdef int64_t reachable = -low
    with nogil:
        for k in range(-low + 1):
            least[k] = 0
        for k in range(classes):
            _add_class(value[k], &size[start[k]], start[k + 1] - start[k], base[k], &least[0], &counts[k, 0], width,
                       &reachable, memory)
    free(memory)
    return least_array, counts_array


cdef void _add_class(int64_t value, const int64_t* sizes, int64_t items, int64_t base, int64_t* least, int16_t* counts,
                     int64_t width, int64_t* reachable, int64_t* memory) noexcept nogil:
    """Add a class to the table."""
    cdef int64_t residue, places, last, j
    cdef int64_t most = width // value + 1
    cdef Chain chain
    cdef int64_t* before = memory
    cdef int64_t* cost = memory + width + 2
    chain.after = memory + 3 * width + 6
    chain.source = chain.after + width
    chain.remove, chain.add = min(base, most), min(items - base, most)
    cost += chain.remove
    cost[0] = 0
    for j in range(chain.remove):
        cost[-j - 1] = cost[-j] - sizes[base - 1 - j]
    for j in range(chain.add):
        cost[j + 1] = cost[j] + sizes[base + j]
    before[0] = least[0]
    chain.before = before + 1
    chain.cost = cost
    for residue in range(min(value, width)):
        places = (width - 1 - residue) // value + 1
        chain.reachable = -1 if reachable[0] < residue else (reachable[0] - residue) // value
        for j in range(chain.reachable + 1):
            before[j + 1] = least[residue + j * value]
        last = min(places, chain.reachable + chain.add + 1)
        _minima(&chain, 0, last, -1, chain.reachable)
        for j in range(last):
            least[residue + j * value] = chain.after[j]
            counts[residue + j * value] = <int16_t>(j - chain.source[j])
    reachable[0] = min(width - 1, reachable[0] + chain.add * value)


def take_fitting(sizes, order, int64_t capacity):
    """Take items in an order, and skip those that do not fit.

    Parameters
    ----------
    sizes
        int64[items]: sizes of all items, at least 0.
    order
        int64[n]: indexes of items, each at most once.
    capacity
        Largest sum of the sizes of the items taken, at least 0.

    Returns
    -------
    taken
        uint8[n]: 1 for each entry of ``order`` that is taken.
    """
    cdef const int64_t[::1] size = np.ascontiguousarray(sizes, np.int64)
    cdef const int64_t[::1] index = np.ascontiguousarray(order, np.int64)
    cdef uint8_t[::1] taken = np.zeros(index.shape[0], np.uint8)
    cdef int64_t left = capacity, n = size.shape[0]
    cdef Py_ssize_t k
    for k in range(index.shape[0]):
        if not 0 <= index[k] < n:
            raise ValueError(f"entry {k} of the order is {index[k]}: expected the number of one of {n} items")
    with nogil:
        for k in range(index.shape[0]):
            if size[index[k]] <= left:
                taken[k] = 1
                left -= size[index[k]]
    return np.asarray(taken)
