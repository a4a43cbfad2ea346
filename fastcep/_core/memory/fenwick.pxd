# Fenwick trees: prefix sums over an array whose items change. Item i is stored at index i + 1.
from libc.stdint cimport int64_t


cdef inline void add(int64_t[::1] tree, int64_t place, int64_t value) noexcept nogil:
    """Add ``value`` to item ``place``."""
    place += 1
    while place < tree.shape[0]:
        tree[place] += value
        place += place & -place


cdef inline int64_t prefix_sum(int64_t[::1] tree, int64_t end) noexcept nogil:
    """Return the sum of the items before ``end``."""
    cdef int64_t total = 0
    while end > 0:
        total += tree[end]
        end -= end & -end
    return total


cdef inline void build(int64_t[::1] tree) noexcept nogil:
    """Turn an array of items into a Fenwick tree in place; on entry, item i is at index i + 1."""
    cdef int64_t i, parent
    for i in range(1, tree.shape[0]):
        parent = i + (i & -i)
        if parent < tree.shape[0]:
            tree[parent] += tree[i]
