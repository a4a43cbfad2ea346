# Which isolated windows an event can affect. See window_relevance.pyx.
from libc.stdint cimport uint64_t


cdef struct WindowRelevance:           # bit sets of variables
    uint64_t begins          # variables that begin a match, and negated ones whose events are kept for the whole window
    uint64_t watches         # other negated variables: relevant while there is a partial match
    uint64_t* extends        # per index: variables that extend its rows
    uint64_t keyed           # variables that only extend rows, and only by a key
    uint64_t* settles        # per negation: variables that have no effect any more once it has kept an event


cdef int relevance_new(WindowRelevance* relevance, object plan) except -1
cdef void relevance_free(WindowRelevance* relevance) noexcept
