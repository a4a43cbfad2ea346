# In which isolated windows an event can do anything. See window_relevance.pyx.
from libc.stdint cimport uint64_t


cdef struct WindowRelevance:           # members, as bits
    uint64_t begins          # that begin a match, or are negated and kept for the window's length
    uint64_t watches         # that are negated otherwise: while there is a partial match
    uint64_t* extends        # per index: that extend its rows
    uint64_t keyed           # that only extend rows, each by a key
    uint64_t* settles        # per negation: that can do nothing any more as soon as one event of it is kept


cdef int able_new(WindowRelevance* able, object plan) except -1
cdef void able_free(WindowRelevance* able) noexcept
