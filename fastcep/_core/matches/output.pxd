# What a matcher found in a call. See output.pyx.
from libc.stdint cimport int64_t

from fastcep._core.state.core cimport Core


cdef class Output:
    cdef readonly object query
    cdef readonly int64_t n  # matches
    cdef tuple lists         # per member whether it holds a list
    cdef int n_members
    cdef bint has_windows
    cdef int64_t* block      # sizes of the vectors, then what is in them, one after the other; NULL: see ``made``
    cdef object made

    cdef int move(self, Core* core, plan) except -1
