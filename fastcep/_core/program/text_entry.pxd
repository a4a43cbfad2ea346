# Look-up tables of text functions and of time zones, which programs reach by the address in a constant. See
# text_table.pyx.
from libc.stdint cimport int64_t

cdef extern from *:
    int64_t __atomic_load_n(const int64_t*, int) noexcept nogil
    int __ATOMIC_ACQUIRE

cdef enum:
    TEXT_UNKNOWN, TEXT_VALUE, TEXT_NULL, TEXT_ERROR  # state of an entry: not computed yet; a word; null; an exception


# ``entries`` has the number of codes n, followed by (state, word) for each code from 0 to n - 1. It is replaced by a
# larger array when a larger code is looked up; readers of the old array may go on.
cdef struct TextEntries:
    int64_t* entries
    const int64_t* (*fill)(void* owner, int64_t code) noexcept nogil
    void* owner


cdef inline const int64_t* text_entry(const TextEntries* table, int64_t code) noexcept nogil:
    """Return the state and the word of a code's entry, computed at the first look-up."""
    cdef const int64_t* entries = <const int64_t*>__atomic_load_n(<const int64_t*>&table.entries, __ATOMIC_ACQUIRE)
    if 0 <= code < entries[0] and __atomic_load_n(entries + 1 + 2 * code, __ATOMIC_ACQUIRE) != TEXT_UNKNOWN:
        return entries + 1 + 2 * code
    return table.fill(table.owner, code)


cdef inline int64_t zone_offset(const int64_t* table, int64_t time) noexcept nogil:
    """Return local time minus UTC in nanoseconds at a UTC time.

    The table has the number of intervals n, their n ascending starts (the first is the least int64), and n offsets.
    """
    cdef int64_t low = 1, high = table[0], middle
    while low < high:
        middle = (low + high + 1) // 2
        if table[middle] <= time:
            low = middle
        else:
            high = middle - 1
    return table[table[0] + low]
