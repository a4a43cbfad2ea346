# Writes events to the event ring. See ring_writer.pyx.
from libc.stdint cimport int64_t, uint8_t, uint16_t

from fastcep._core.input.batch cimport Events


cdef struct RingColumn:      # a column that the ring keeps
    int column
    int64_t* values
    uint8_t* nulls


cdef class RingWriter:
    cdef object ring
    cdef object buffers      # of the ring, when the pointers below were taken from them
    cdef int64_t* time
    cdef uint16_t* types
    cdef int64_t* sequence
    cdef int64_t mask
    cdef RingColumn* columns
    cdef int n_columns

    cdef bint has_room(self, int64_t size) except -1
    cdef int make_room(self, int64_t oldest, int64_t size) except -1
    cdef int write(self, const Events* events) except -1
    cdef int _find_buffers(self) except -1
