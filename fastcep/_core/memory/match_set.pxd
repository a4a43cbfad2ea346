# The sets of events that one event's matches bind. See match_set.pyx.
from libc.stdint cimport int32_t, int64_t

from fastcep._core.memory.allocator cimport Budget
from fastcep._core.memory.vectors cimport Vec


cdef struct MatchSet:
    Vec words                # the entries one after the other
    Vec ends                 # where each ends in words
    int32_t* slots           # open addressing: entry or -1
    int64_t n_slots


cdef void seen_init(MatchSet* seen, Budget* budget) noexcept nogil
cdef void seen_clear(MatchSet* seen) noexcept nogil
cdef void forget(MatchSet* seen) noexcept nogil
cdef int add_entry(MatchSet* seen) noexcept nogil


cdef inline int64_t seen_bytes(const MatchSet* seen) noexcept nogil:
    return (seen.words.capacity + seen.ends.capacity) * 8 + seen.n_slots * 4
