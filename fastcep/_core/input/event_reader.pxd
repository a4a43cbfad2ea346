# A single event as a batch. See event_reader.pyx.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t

from fastcep._core.input.batch cimport Events


cdef class EventReader:
    cdef dict places         # per keyword: its position in ``values``
    cdef int n_columns
    cdef bytes dtypes        # per position in ``values``: i, f, b or s
    cdef bint is_numbered    # events have a sequence number
    cdef int64_t factor      # nanoseconds per unit of time
    cdef int64_t limit       # largest time, in units, that fits into int64 nanoseconds
    cdef object strings      # the string table
    cdef uint16_t type       # type id
    cdef int64_t* values     # values of the columns, then time and sequence number
    cdef uint8_t null        # 1: the null flag of every column that is null
    cdef tuple keywords      # keywords of the last call,
    cdef int* order          # and the position of each in ``values``
    cdef Events events

    cdef bint _are_last(self, tuple keywords)
    cdef bint _resolve(self, tuple keywords)
    cdef bint fill(self, PyObject** arguments, tuple keywords) except -1
    cdef bint _intern(self, str text, int64_t* code) except -1
