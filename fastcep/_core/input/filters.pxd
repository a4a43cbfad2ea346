# The events that each variable may bind, found once for all queries. See filters.pyx.
from libc.stdint cimport int32_t, int64_t, uint64_t

from fastcep._core.input.batch cimport Events
from fastcep._core.program.event_sets cimport SET_WORDS, TypeSet
from fastcep._core.program.predicate cimport Code, Input, Machine


cdef struct Passed:          # the events of a slice of the batch that pass a filter
    int32_t* rows            # their rows in the batch, ascending, followed by INT32_MAX
    int64_t size             # number of events


cdef struct Screen:
    Passed passed
    int64_t capacity
    int types                # number of its type set
    bint has_program
    Code program
    int32_t* sources         # per input: column of the schema or built-in column
    int64_t arithmetic_nulls
    int64_t function_errors


cdef struct TypeEvents:      # the events of a chunk whose type is in a set
    TypeSet types
    uint64_t events[SET_WORDS]


cdef class Filter:
    cdef readonly object key
    cdef readonly object program
    cdef int uses
    cdef Screen screen


cdef class Filters:
    cdef dict _by_key
    cdef list _type_sets
    cdef int n_filters, n_sets, n_types
    cdef tuple _type_names
    cdef Screen** screens
    cdef TypeEvents* sets
    cdef Machine* vm
    cdef Input* inputs
    cdef int64_t* codes      # per type id: string code of its name
    cdef int64_t* numbers    # scratch: sequence numbers of a chunk
    cdef int64_t* types      # scratch: string codes of the types of a chunk
    cdef bint reads_number, reads_type  # some program reads them

    cdef bint look_through(self, const Events* events, Py_ssize_t first, Py_ssize_t last, bint release)
    cdef void _scan(self, const Events* events, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void _free_tables(self) noexcept
    cdef Filter _filter(self, plan, int variable, intern)
    cdef int _update_tables(self) except -1
    cdef bint _reserve(self, int64_t events) noexcept
    cdef void _scan_chunk(self, const Events* events, Py_ssize_t base, int m) noexcept nogil
    cdef void _set_inputs(self, const Screen* screen, const Events* events, Py_ssize_t base) noexcept nogil
