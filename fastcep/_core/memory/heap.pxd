# A binary heap of items by ratio.
from libc.stdint cimport int64_t
from libc.stdlib cimport realloc


cdef struct Entry:
    double ratio
    int64_t item


cdef struct Heap:
    Entry* entries
    int64_t size
    int64_t capacity


cdef inline bint before(const Entry* a, const Entry* b) noexcept nogil:
    """Whether one comes out first: the smaller ratio, then the smaller item."""
    return a.ratio < b.ratio or (a.ratio == b.ratio and a.item < b.item)


cdef inline int heap_push(Heap* heap, double ratio, int64_t item) noexcept nogil:
    """Put an item in; -1 without memory."""
    cdef int64_t at = heap.size, up
    cdef Entry* grown
    cdef Entry entry
    if heap.size == heap.capacity:
        grown = <Entry*>realloc(heap.entries, max(<int64_t>1024, 2 * heap.capacity) * sizeof(Entry))
        if grown == NULL:
            return -1
        heap.entries = grown
        heap.capacity = max(<int64_t>1024, 2 * heap.capacity)
    entry.ratio, entry.item = ratio, item
    heap.size += 1
    while at > 0:
        up = (at - 1) // 2
        if not before(&entry, heap.entries + up):
            break
        heap.entries[at] = heap.entries[up]
        at = up
    heap.entries[at] = entry
    return 0


cdef inline Entry heap_pop(Heap* heap) noexcept nogil:
    """Take the least one out; there must be one."""
    cdef Entry top = heap.entries[0], last
    cdef int64_t at = 0, down
    heap.size -= 1
    last = heap.entries[heap.size]
    while True:
        down = 2 * at + 1
        if down >= heap.size:
            break
        if down + 1 < heap.size and before(heap.entries + down + 1, heap.entries + down):
            down += 1
        if not before(heap.entries + down, &last):
            break
        heap.entries[at] = heap.entries[down]
        at = down
    heap.entries[at] = last
    return top
