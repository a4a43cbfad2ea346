# Hash tables of value sets (``IN``): shift, mask, the word that marks an empty slot, slots. See code.pyx.
from libc.stdint cimport int64_t, uint64_t


cdef inline uint64_t set_slot(const int64_t* table, int64_t word) noexcept nogil:
    return (<uint64_t>word * <uint64_t>0x9E3779B97F4A7C15) >> table[0]


cdef inline bint set_holds(const int64_t* table, int64_t word) noexcept nogil:
    """Return True if the hash table of a value set holds a word."""
    cdef uint64_t at = set_slot(table, word)
    while table[3 + at] != table[2]:
        if table[3 + at] == word:
            return True
        at = (at + 1) & <uint64_t>table[1]
    return False
