# Sets of the events of a chunk, as bits. See event_sets.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t

from fastcep._core.program.machine cimport CHUNK, Code, Input

cdef extern from "event_sets.h":
    ctypedef struct TypeSet "fc_type_set":
        uint8_t* has         # per type id: 1 if the set has the type
        int32_t n_types
    void fc_type_set_fill(TypeSet*) noexcept nogil
    bint fc_is_simd(const TypeSet*) noexcept nogil
    void fc_of_types(const TypeSet*, const uint16_t*, int, uint64_t*) noexcept nogil
    void fc_without_nulls(const uint8_t*, int, uint64_t*) noexcept nogil
    void fc_compare(const int64_t*, int, int, int64_t, uint64_t*) noexcept nogil
    int fc_list(const uint64_t*, int, int32_t*) noexcept nogil

cdef struct Selection:       # variables whose conditions on the event alone begin with the same comparisons
    uint64_t variables       # bit set
    TypeSet types            # that some of them may bind
    const Code* program      # has these comparisons; NULL: there are none


cdef struct Selections:      # of a query; each variable is in one
    TypeSet types            # that some variable may bind
    int n
    Selection* items


cdef enum:
    SET_WORDS = CHUNK // 64  # words of a set


cdef int type_set_new(TypeSet* out, object members, int n_types) except -1
cdef int selections_new(
    Selections* out, tuple type_variables, const Code* locals, const uint64_t* local_variables, int n) except -1
cdef void selections_free(Selections* selections) noexcept
cdef void compare_events(const Code* program, const Input* inputs, int m, uint64_t* events) noexcept nogil


cdef inline void add_events(uint64_t* events, const uint64_t* others, int m) noexcept nogil:
    """Add the events of another set of the same ``m`` events."""
    cdef int i
    for i in range((m + 63) >> 6):
        events[i] |= others[i]


cdef inline bint is_empty(const uint64_t* events, int m) noexcept nogil:
    """Return whether a set of the ``m`` events has none of them."""
    cdef uint64_t some = 0
    cdef int i
    for i in range((m + 63) >> 6):
        some |= events[i]
    return some == 0


cdef inline bint in_set(const uint64_t* events, int k) noexcept nogil:
    """Return whether a set has event ``k``."""
    return events[k >> 6] >> (k & 63) & 1
