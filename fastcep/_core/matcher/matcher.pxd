# The matcher, for those who call it without Python. See matcher.pyx.
from libc.stdint cimport int64_t

from fastcep._core.input.batch cimport Events
from fastcep._core.matcher.interrupt cimport Pause
from fastcep._core.program.plan_tables cimport Tables
from fastcep._core.state.core cimport Core


cdef class Matcher:
    cdef readonly object plan
    cdef Tables tables
    cdef Core core
    cdef object bounds               # keeps the arrays of use_bounds
    cdef object flags                # keeps the array of ignore
    cdef object ring_buffers         # what the ring had when its columns were found,
    cdef list kept                   # which this keeps
    cdef list filters                # (filter, its counters when it was taken) per member
    cdef bint counts                 # whether their counters are this matcher's
    cdef int64_t nulls, errors       # counters of filters that were used before
    cdef object key_columns          # keeps the array of take_part
    cdef object keeps                # keeps the arrays of `Shedding`
    cdef Pause pause                 # of `take`

    cdef int _keep_events(self, Tables tables) except -1
    cdef int bind_ring(self, ring) except -1
    cdef Py_ssize_t take(self, const Events* events, Py_ssize_t first, Py_ssize_t last, bint shared, bint release,
                         bint may_pause=*)
    cdef bint has_output(self) noexcept
