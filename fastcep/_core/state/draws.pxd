# Draws by hashing: repeatable for a seed, whatever the batches are. And what is packed beside a row's class.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.program.plan_tables cimport HOME
from fastcep._core.state.shedding_tables cimport DRAWN_BITS


cdef inline int64_t class_of(int64_t word) noexcept nogil:
    """The class in a row's class word, which may hold a mark and the number of a record as well."""
    return word & (HOME - 1)


cdef inline int64_t steps_of(int64_t chance) noexcept nogil:
    """A chance in steps of 1 / 16,384, by which births and rows are drawn; all of them only where it is 1."""
    cdef int64_t steps = (chance + (1 << 31 - DRAWN_BITS)) >> (32 - DRAWN_BITS)
    return steps if chance >> 32 else min(steps, (1 << DRAWN_BITS) - 1)


cdef inline uint64_t mixed(uint64_t word) noexcept nogil:
    """A hash whose bits are all good (the finaliser of splitmix64)."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9ULL
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBULL
    return word ^ (word >> 31)


cdef inline bint falls(uint64_t seed, uint64_t number, int64_t chance) noexcept nogil:
    """Whether the draw of this number falls below a chance."""
    return <int64_t>(mixed(seed + number * 0x9E3779B97F4A7C15ULL) >> 32) < chance
