# A binary min-heap of items, ordered by ratio.
from libc.stdint cimport int64_t
from libc.stdlib cimport realloc


cdef struct Entry:
    double ratio
    int64_t item


cdef struct Heap:
    Entry* entries
    int64_t size
    int64_t capacity


cdef inline bint precedes(const Entry* a, const Entry* b) noexcept nogil:
    """Return True if ``a`` comes before ``b``: by ratio, then by item."""
    return a.ratio < b.ratio or (a.ratio == b.ratio and a.item < b.item)


cdef inline int heap_push(Heap* heap, double ratio, int64_t item) noexcept nogil:
    """Add an item; -1 without memory."""
    cdef int64_t place = heap.size, parent
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
    while place > 0:
        parent = (place - 1) // 2
        if not precedes(&entry, heap.entries + parent):
            break
        heap.entries[place] = heap.entries[parent]
        place = parent
    heap.entries[place] = entry
    return 0


cdef inline Entry heap_pop(Heap* heap) noexcept nogil:
    """Remove and return the smallest entry; the heap must not be empty."""
    cdef Entry top = heap.entries[0], last
    cdef int64_t place = 0, child
    heap.size -= 1
    last = heap.entries[heap.size]
    while True:
        child = 2 * place + 1
        if child >= heap.size:
            break
        if child + 1 < heap.size and precedes(heap.entries + child + 1, heap.entries + child):
            child += 1
        if not precedes(heap.entries + child, &last):
            break
        heap.entries[place] = heap.entries[child]
        place = child
    heap.entries[place] = last
    return top
