# cython: language_level=3
"""Read the values of Arrow arrays through the C data interface, as a view or widened to 8 bytes.

``format`` is a format letter of the C data interface. No function raises: NULL or -1 means out of memory or data that
this reader does not support; the caller then leaves the batch to ``fastcep.events``.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uintptr_t
from libc.stdlib cimport free, malloc

ctypedef fused Number:
    int8_t
    uint8_t
    int16_t
    uint16_t
    int32_t
    uint32_t


cdef void* scratch_reserve(Scratch* scratch, int64_t bytes) noexcept nogil:
    """Return a buffer of at least ``bytes`` bytes, whose old content may be lost; NULL without memory."""
    if scratch.bytes < bytes or scratch.data == NULL:
        free(scratch.data)
        scratch.bytes = max(bytes, <int64_t>64)
        scratch.data = malloc(scratch.bytes)
        if scratch.data == NULL:
            scratch.bytes = 0
    return scratch.data


cdef void scratch_free(Scratch* scratch) noexcept nogil:
    """Free the buffer."""
    free(scratch.data)
    scratch.data = NULL
    scratch.bytes = 0


cdef void scratch_trim(Scratch* scratch) noexcept nogil:
    """Free the buffer if it is larger than small batches need."""
    if scratch.bytes > MOST_KEPT:
        scratch_free(scratch)


cdef int width_of(char format) noexcept nogil:
    """Return the bytes of a number with this format."""
    if format in b"cC":
        return 1
    if format in b"sS":
        return 2
    if format in b"iIf":
        return 4
    return 8


cdef int null_flags(const ArrowArray* array, Scratch* scratch, const uint8_t** flags) noexcept nogil:
    """Point ``flags`` to uint8[n], 1 = null, or to NULL if there is no null; -1 without memory."""
    cdef const uint8_t* bits = <const uint8_t*>array.buffers[0]
    cdef uint8_t* to
    cdef int64_t i, place
    cdef uint8_t any_null = 0
    flags[0] = NULL
    if array.null_count == 0 or bits == NULL:
        return 0
    to = <uint8_t*>scratch_reserve(scratch, array.length)
    if to == NULL:
        return -1
    for i in range(array.length):
        place = array.offset + i
        to[i] = ~(bits[place >> 3] >> (place & 7)) & 1
        any_null |= to[i]
    if any_null:
        flags[0] = to
    return 0


cdef void _widen(const Number* values, int64_t n, int64_t* to) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        to[i] = values[i]


cdef const int64_t* int_values(const ArrowArray* array, char format, Scratch* scratch) noexcept nogil:
    """Return integers as int64[n], with undefined values where null; a view if they are int64."""
    cdef const char* values = <const char*>array.buffers[1] + array.offset * width_of(format)
    cdef int64_t* to
    if array.buffers[1] == NULL or <uintptr_t>values % width_of(format) != 0:
        return NULL
    if format == b"l":
        return <const int64_t*>values
    to = <int64_t*>scratch_reserve(scratch, array.length * sizeof(int64_t))
    if to == NULL:
        return NULL
    if format == b"c":
        _widen(<const int8_t*>values, array.length, to)
    elif format == b"C":
        _widen(<const uint8_t*>values, array.length, to)
    elif format == b"s":
        _widen(<const int16_t*>values, array.length, to)
    elif format == b"S":
        _widen(<const uint16_t*>values, array.length, to)
    elif format == b"i":
        _widen(<const int32_t*>values, array.length, to)
    else:
        _widen(<const uint32_t*>values, array.length, to)
    return to


cdef const int64_t* float_values(const ArrowArray* array, char format, Scratch* scratch) noexcept nogil:
    """Return the bits of numbers as float64[n], with undefined values where null; a view if they are float64."""
    cdef const char* values = <const char*>array.buffers[1] + array.offset * width_of(format)
    cdef const int64_t* integers
    cdef double* to
    cdef int64_t i
    if array.buffers[1] == NULL or <uintptr_t>values % width_of(format) != 0:
        return NULL
    if format == b"g":
        return <const int64_t*>values
    if format != b"f":
        integers = int_values(array, format, scratch)
        if integers == NULL:
            return NULL
    to = <double*>scratch_reserve(scratch, array.length * sizeof(double))
    if to == NULL:
        return NULL
    for i in range(array.length):  # ``integers`` may be in the same buffer: each is read before it is overwritten
        to[i] = (<const float*>values)[i] if format == b"f" else <double>integers[i]
    return <const int64_t*>to


cdef const int64_t* bool_values(const ArrowArray* array, Scratch* scratch) noexcept nogil:
    """Return bools as int64[n], with undefined values where null."""
    cdef const uint8_t* bits = <const uint8_t*>array.buffers[1]
    cdef int64_t* to = <int64_t*>scratch_reserve(scratch, array.length * sizeof(int64_t))
    cdef int64_t i, place
    if to == NULL or bits == NULL:
        return NULL
    for i in range(array.length):
        place = array.offset + i
        to[i] = bits[place >> 3] >> (place & 7) & 1
    return to


cdef const int64_t* zero_nulls(const int64_t* values, const uint8_t* nulls, int64_t n, Scratch* scratch) noexcept nogil:
    """Return the values with 0 where null; ``values`` may be in the scratch buffer, which is then large enough."""
    cdef int64_t* to = <int64_t*>scratch.data
    cdef int64_t i
    if values != to:
        to = <int64_t*>scratch_reserve(scratch, n * sizeof(int64_t))
    if to == NULL:
        return NULL
    for i in range(n):
        to[i] = 0 if nulls[i] else values[i]
    return to
