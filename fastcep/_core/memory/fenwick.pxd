# Fenwick trees: sums of what stands before a place, while single items change; item i is at i + 1.
from libc.stdint cimport int64_t


cdef inline void add(int64_t[::1] tree, int64_t at, int64_t value) noexcept nogil:
    """Add to item ``at`` of a Fenwick tree."""
    at += 1
    while at < tree.shape[0]:
        tree[at] += value
        at += at & -at


cdef inline int64_t below(int64_t[::1] tree, int64_t end) noexcept nogil:
    """The sum of the items before ``end``."""
    cdef int64_t total = 0
    while end > 0:
        total += tree[end]
        end -= end & -end
    return total


cdef inline void summed(int64_t[::1] tree) noexcept nogil:
    """Make a Fenwick tree of its items, which stand one place behind their own."""
    cdef int64_t i, up
    for i in range(1, tree.shape[0]):
        up = i + (i & -i)
        if up < tree.shape[0]:
            tree[up] += tree[i]
