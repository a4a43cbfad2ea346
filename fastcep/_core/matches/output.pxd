# Matches that a matcher has found in a call. See output.pyx.
from libc.stdint cimport int64_t

from fastcep._core.state.core cimport Core


cdef class Output:
    cdef readonly object query
    cdef readonly int64_t n  # number of matches
    cdef tuple lists         # per variable, whether it binds a list of events
    cdef int n_variables
    cdef bint has_windows
    cdef int64_t* block      # sizes of the vectors, then their contents one after the other; NULL: see ``columns``
    cdef object columns      # result of ``arrays``, once it is made

    cdef int move(self, Core* core, plan) except -1
