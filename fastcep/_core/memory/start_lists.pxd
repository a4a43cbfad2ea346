# Lists of starts by the position of the last event that extended them. See start_lists.pyx.
from libc.stdint cimport int64_t

from fastcep._core.memory.allocator cimport Budget


cdef struct StartLists:
    Budget* budget
    int64_t* slots           # hash table with open addressing: pairs of position (-1: free) and newest start of the list
    int64_t n_slots, used
    int64_t position, newest  # the latest list is not in the table; position -1: there is none


cdef void lists_init(StartLists* lists, Budget* budget) noexcept nogil
cdef void lists_clear(StartLists* lists) noexcept nogil
cdef int64_t take_list(StartLists* lists, int64_t position) noexcept nogil
cdef int put_list(StartLists* lists, int64_t position, int64_t newest, int64_t first) noexcept nogil
