# A set of int64 sequences: the matches of one event, each as the events that it binds. See match_set.pyx.
from libc.stdint cimport int32_t, int64_t

from fastcep._core.memory.allocator cimport Budget
from fastcep._core.memory.vectors cimport Vec


cdef struct MatchSet:
    Vec words                # the words of all entries, concatenated
    Vec ends                 # per entry: its end in ``words``
    int32_t* slots           # hash table with open addressing: number of an entry, or -1
    int64_t n_slots


cdef void seen_init(MatchSet* seen, Budget* budget) noexcept nogil
cdef void seen_clear(MatchSet* seen) noexcept nogil
cdef void forget(MatchSet* seen) noexcept nogil
cdef int add_entry(MatchSet* seen) noexcept nogil


cdef inline int64_t seen_bytes(const MatchSet* seen) noexcept nogil:
    """Return the bytes that the set holds."""
    return (seen.words.capacity + seen.ends.capacity) * 8 + seen.n_slots * 4
