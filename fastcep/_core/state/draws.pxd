# Pseudo-random draws by hashing, repeatable for a seed and independent of the batches; parts of the class word of a row.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.program.plan_tables cimport HOME
from fastcep._core.state.shedding_tables cimport DRAWN_BITS


cdef inline int64_t class_of(int64_t word) noexcept nogil:
    """Return the class in the class word of a row, which may also hold a mark and the number of a record."""
    return word & (HOME - 1)


cdef inline int64_t steps_of(int64_t chance) noexcept nogil:
    """Return a drop probability in steps of 1 / 16,384, as used for births and rows; all steps only if it is 1."""
    cdef int64_t steps = (chance + (1 << 31 - DRAWN_BITS)) >> (32 - DRAWN_BITS)
    return steps if chance >> 32 else min(steps, (1 << DRAWN_BITS) - 1)


cdef inline uint64_t mixed(uint64_t word) noexcept nogil:
    """Return a hash whose bits are all well mixed (the finaliser of splitmix64)."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL
    return word ^ (word >> 31)


cdef inline bint falls(uint64_t seed, uint64_t number, int64_t chance) noexcept nogil:
    """Return True with probability ``chance`` / 2^32, by the draw with this number."""
    return <int64_t>(mixed(seed + number * 0x9E3779B97F4A7C15ULL) >> 32) < chance
