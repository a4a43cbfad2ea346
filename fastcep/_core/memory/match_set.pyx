# cython: language_level=3
"""A set of int64 sequences. The matcher empties it before every event that completes matches.

The caller pushes the words of an entry to ``words`` and calls :func:`add_entry`, which returns whether the entry is
new.
"""
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.string cimport memcmp, memset

from fastcep._core.memory.allocator cimport Budget, give_back, obtain
from fastcep._core.memory.vectors cimport push, vec_free

cdef enum:
    FIRST_SLOTS = 64


cdef void seen_init(MatchSet* seen, Budget* budget) noexcept nogil:
    """Initialise an empty set."""
    memset(seen, 0, sizeof(MatchSet))
    seen.words.budget = seen.ends.budget = budget


cdef void seen_clear(MatchSet* seen) noexcept nogil:
    """Free all memory."""
    vec_free(&seen.words)
    vec_free(&seen.ends)
    give_back(seen.words.budget, seen.slots, seen.n_slots * 4)
    seen.slots = NULL
    seen.n_slots = 0


cdef void forget(MatchSet* seen) noexcept nogil:
    """Empty the set, including pushed words that are not an entry yet; free the slots if most of them were unused."""
    if seen.n_slots > max(<int64_t>FIRST_SLOTS, seen.ends.size * 16):
        give_back(seen.words.budget, seen.slots, seen.n_slots * 4)
        seen.slots = NULL
        seen.n_slots = 0
    elif seen.ends.size > 0:
        memset(seen.slots, 0xFF, seen.n_slots * 4)
    seen.words.size = seen.ends.size = 0


cdef int _enter(MatchSet* seen, int32_t entry) noexcept nogil:
    """Enter an entry into the hash table; 1 if the table already has an equal entry, else 0."""
    cdef int64_t start = 0 if entry == 0 else seen.ends.data[entry - 1], n = seen.ends.data[entry] - start, i, slot
    cdef int64_t other_start
    cdef uint64_t hashed = 0
    cdef int32_t other
    for i in range(n):
        hashed = ((hashed << 31 | hashed >> 33) ^ <uint64_t>seen.words.data[start + i]) * 0x9E3779B97F4A7C15ULL
    slot = <int64_t>(hashed >> 32) & (seen.n_slots - 1)
    while seen.slots[slot] >= 0:
        other = seen.slots[slot]
        other_start = 0 if other == 0 else seen.ends.data[other - 1]
        if (seen.ends.data[other] - other_start == n
                and memcmp(seen.words.data + other_start, seen.words.data + start, n * 8) == 0):
            return 1
        slot = (slot + 1) & (seen.n_slots - 1)
    seen.slots[slot] = entry
    return 0


cdef int _grow(MatchSet* seen) noexcept nogil:
    cdef int64_t slots = max(<int64_t>FIRST_SLOTS, seen.n_slots * 2)
    cdef int32_t* grown = <int32_t*>obtain(seen.words.budget, slots * 4)
    cdef int32_t i
    if grown == NULL:
        return -1
    memset(grown, 0xFF, slots * 4)
    give_back(seen.words.budget, seen.slots, seen.n_slots * 4)
    seen.slots = grown
    seen.n_slots = slots
    for i in range(<int32_t>seen.ends.size):
        _enter(seen, i)
    return 0


cdef int add_entry(MatchSet* seen) noexcept nogil:
    """Add the words pushed since the last entry: 1 if they are new, 0 if the set has them, -1 without memory."""
    if seen.ends.size * 2 >= seen.n_slots and _grow(seen) < 0:
        return -1
    if push(&seen.ends, seen.words.size) < 0:
        return -1
    if _enter(seen, <int32_t>(seen.ends.size - 1)) == 0:
        return 1
    seen.ends.size -= 1
    seen.words.size = 0 if seen.ends.size == 0 else seen.ends.data[seen.ends.size - 1]
    return 0
