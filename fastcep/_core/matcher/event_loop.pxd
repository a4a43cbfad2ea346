# The loop that takes batches and single events through the queries of an engine. See event_loop.pyx.
from libc.stdint cimport int64_t

from fastcep._core.input.batch cimport Batch, Events
from fastcep._core.input.batch_reader cimport BatchReader
from fastcep._core.input.filters cimport Filters
from fastcep._core.input.ring_writer cimport RingWriter
from fastcep._core.matcher.interrupt cimport Pieces
from fastcep._core.matcher.signals cimport Signals


cdef class EventLoop:
    cdef public int64_t position     # of the next event
    cdef public bint ended
    cdef public bint matches_wait    # for the next call, because a signal ended the call that found them
    cdef public object unreturned    # matches of the last call, until its caller has them; None
    cdef public bint failed          # a query failed in the call, which ends with an error
    cdef public Py_ssize_t string_limit  # with more texts, those that nothing holds are freed
    cdef object queries, faults
    cdef Signals signals
    cdef int64_t last_time, last_sequence
    cdef bint is_timed, is_numbered  # whether there is a time, and a sequence number, yet
    cdef bint busy
    cdef public bint is_direct       # data enters from its own buffers: no option works in Python between events
    cdef bint is_guarded     # signal handlers are delayed, and run where ``stream.deliver`` is called
    cdef bint is_settled     # all generated kernels are in use
    cdef bint decides        # matches may wait for time
    cdef bint prepares       # the stream prepares each piece of a batch
    cdef Py_ssize_t piece_size   # events of such a piece; 0: as many as take about 25 ms
    cdef Py_ssize_t batch_size   # events of the batch that is taken, of which there may be pieces
    cdef object control      # of overload, or None
    cdef object threads      # runs the matchers in several threads, or None
    cdef tuple matchers
    cdef int n_matchers, n_queries
    cdef tuple candidates    # matchers of candidate stores, which take the same events,
    cdef int n_candidates
    cdef Py_ssize_t trial_step   # and are compared after as many events
    cdef Filters filters
    cdef readonly Pieces pieces
    cdef BatchReader batch_reader
    cdef dict event_readers  # per name of a type
    cdef object strings
    cdef list nothings       # per query its matches of a call that found none,
    cdef readonly object nothing  # and what such a call returns
    cdef object make_matches, layout
    cdef bint is_plain       # matches are what the matchers put out
    cdef object ring
    cdef RingWriter ring_writer

    cdef bint in_order(self, const Events* events) noexcept
    cdef object give(self)
    cdef object give_in_python(self, object stream)
    cdef object make(self, list matches)
    cdef object match(self, object stream, const Events* events, Batch batch, bint release)
    cdef int take_pieces(self, object stream, Batch batch, Py_ssize_t* taken) except -1
    cdef set take(self, object stream, const Events* events, Batch batch, bint release, Py_ssize_t* taken, set out=*)
    cdef int follow(self, object stream, const Events* events, Py_ssize_t first, Py_ssize_t last, bint shared, bint release,
                    Py_ssize_t since, set out) except -1
    cdef int _poll(self, object stream) except -1
    cdef int _swap_kernels(self) except -1
    cdef int _judge(self, object stream, int64_t position, int64_t first_time, int64_t time, set out, set lost) except -1
    cdef int keep(self, const Events* events) except -1
