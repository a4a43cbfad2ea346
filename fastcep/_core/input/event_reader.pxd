# One event of one type, as a batch. See event_reader.pyx.
from cpython.ref cimport PyObject
from libc.stdint cimport int64_t, uint8_t, uint16_t

from fastcep._core.input.batch cimport Events


cdef class EventReader:
    cdef dict places         # of an attribute, or of what the time is called, its place in ``values``
    cdef int n_columns
    cdef bytes dtypes        # per place i, f, b or s; the time's and the sequence number's i
    cdef bint is_numbered
    cdef int64_t factor, limit
    cdef object strings
    cdef uint16_t type
    cdef int64_t* values     # of the columns, then time and sequence number
    cdef uint8_t null
    cdef tuple keywords      # those that were given last,
    cdef int* order          # and the place of each
    cdef Events events

    cdef bint _knows(self, tuple keywords)
    cdef bint learn(self, tuple keywords)
    cdef bint fill(self, PyObject** given, tuple keywords) except -1
    cdef bint _intern(self, str text, int64_t* code) except -1
