# The matcher, for callers in Cython. See matcher.pyx.
from libc.stdint cimport int64_t

from fastcep._core.input.batch cimport Events
from fastcep._core.matcher.interrupt cimport Pause
from fastcep._core.matcher.query_state cimport QueryState


cdef class Matcher(QueryState):
    cdef object window_bounds        # keeps the arrays of use_bounds alive
    cdef object foreign_flags        # keeps the array of ignore alive
    cdef object ring_buffers         # buffers of the ring when its columns were looked up
    cdef list ring_arrays            # keeps these columns alive
    cdef list filters                # per variable (filter, and its two counters when sharing began)
    cdef bint counts_filters         # whether the metrics include the counters of the filters
    cdef int64_t earlier_nulls, earlier_errors  # counters of filters that were used before
    cdef object key_columns          # keeps the array of take_part alive
    cdef object shedding_arrays      # keeps the arrays of `Shedding` alive
    cdef Pause pause                 # of `take`

    cdef int bind_ring(self, ring) except -1
    cdef Py_ssize_t take(self, const Events* events, Py_ssize_t first, Py_ssize_t last, bint shared, bint release,
                         bint may_pause=*)
    cdef bint has_output(self) noexcept
