# The loop that takes batches and single events through the queries of an engine. See event_loop.pyx.
from libc.stdint cimport int64_t, uint8_t, uint16_t

from fastcep._core.input.batch cimport Events
from fastcep._core.input.batch_reader cimport BatchReader
from fastcep._core.input.filters cimport Filters
from fastcep._core.matcher.interrupt cimport Pieces


cdef struct Kept:            # a column that the event ring keeps
    int column
    int64_t* values
    uint8_t* nulls


cdef class EventLoop:
    cdef public int64_t position     # of the next event
    cdef public bint ended
    cdef public bint matches_wait    # for the next call, because a signal ended the call that found them
    cdef public Py_ssize_t string_limit  # with more texts, those that nothing holds are freed
    cdef object queries, faults
    cdef int64_t last_time, last_sequence
    cdef bint is_timed, is_numbered  # whether there is a time, and a sequence number, yet
    cdef bint busy
    cdef readonly bint is_open       # whether the compiled loop serves these queries and options
    cdef bint is_settled     # no generated kernel is to come
    cdef bint decides        # matches may wait for time
    cdef tuple matchers
    cdef int n_matchers
    cdef tuple tried         # matchers of other stores that take the events as well,
    cdef int n_tried
    cdef Py_ssize_t step     # after so many of which these are judged
    cdef Filters filters
    cdef readonly Pieces pieces
    cdef BatchReader batch_reader
    cdef dict event_readers  # per name of a type
    cdef object strings
    cdef list nothings       # per query its matches in a call that found none,
    cdef object nothing      # and what such a call gives
    cdef object make, layout
    cdef bint is_plain       # matches are what the matchers put out
    cdef object ring
    cdef object buffers      # of the ring, when these were found there
    cdef int64_t* ring_time
    cdef uint16_t* ring_type
    cdef int64_t* ring_seq
    cdef int64_t ring_mask
    cdef Kept* kept
    cdef int n_kept

    cdef bint in_order(self, const Events* events) noexcept
    cdef object give(self)
    cdef object match(self, object stream, const Events* events, bint release)
    cdef set take(self, object stream, const Events* events, bint release, Py_ssize_t* taken)
    cdef int follow(self, object stream, const Events* events, Py_ssize_t first, Py_ssize_t last, bint shared, bint release,
                    Py_ssize_t since, set out) except -1
    cdef int _swap_kernels(self) except -1
    cdef int _judge(self, object stream, int64_t position, int64_t first_time, int64_t time, set out, set lost) except -1
    cdef int keep(self, const Events* events) except -1
    cdef int _find_buffers(self) except -1


cdef class HasEventLoop:
    cdef public EventLoop _loop
    cdef public object _stream
