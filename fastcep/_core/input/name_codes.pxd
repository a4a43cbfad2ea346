# The numbers of known names, by the strings of a column. See name_codes.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

ctypedef fused offset_t:
    int32_t
    int64_t

cdef enum:
    UNKNOWN = 0xFFFF         # an empty slot of the table; in a result, a text that is not a name


cdef struct Name:
    uint64_t first, last     # its first and last eight bytes; all bytes and zeros if it is shorter
    int64_t length
    const uint8_t* text


cdef class Names:
    cdef list encoded        # keeps the texts of ``names`` alive
    cdef Name* names         # by number
    cdef uint16_t* table     # hash table with open addressing: number of a name, or UNKNOWN
    cdef Py_ssize_t count
    cdef readonly Py_ssize_t probes
    cdef uint64_t mask, multiplier
    cdef int shift           # of a hash, so that its high bits choose the slot

    cdef void _fill(self, uint64_t multiplier) noexcept
    cdef uint16_t number(self, const uint8_t* text, int64_t length) noexcept nogil


cdef bint find_all(Names names, const offset_t* offsets, int64_t n, const uint8_t* texts, uint16_t* to) noexcept nogil
