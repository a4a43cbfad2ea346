# What a matcher found in a call. See output.pyx.
from libc.stdint cimport int64_t

from fastcep._core.core cimport Core
from fastcep._core.memory cimport Budget
from fastcep._core.vectors cimport Vec


cdef class Output:
    cdef Budget budget
    cdef Vec* vectors        # values of each member, lengths of each, then detected, times, counts, windows
    cdef int n_members
    cdef bint has_windows
    cdef readonly object query
    cdef object lists        # per member whether it holds a list
    cdef object made
    cdef readonly int64_t n  # matches

    cdef int move(self, Core* core, plan) except -1
    cdef void _move(self, int number, Vec* vec) noexcept
