# cython: language_level=3
"""The values of Arrow arrays, by the C data interface: as they lie there, or widened to 8 bytes.

What a format says is in ``formats``: a letter of the C data interface. Nothing here raises: NULL, or -1, is want of
memory or something that this reader does not take, and the caller leaves the batch to ``fastcep.events``.
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


cdef void* room_for(Room* room, int64_t bytes) noexcept nogil:
    """Memory of at least so many bytes, whose content is lost; NULL if there is none."""
    if room.bytes < bytes or room.data == NULL:
        free(room.data)
        room.bytes = max(bytes, <int64_t>64)
        room.data = malloc(room.bytes)
        if room.data == NULL:
            room.bytes = 0
    return room.data


cdef void room_free(Room* room) noexcept nogil:
    free(room.data)
    room.data = NULL
    room.bytes = 0


cdef void room_rest(Room* room) noexcept nogil:
    """Keep what small batches need."""
    if room.bytes > KEPT:
        room_free(room)


cdef int width_of(char format) noexcept nogil:
    """Bytes of a number."""
    if format in b"cC":
        return 1
    if format in b"sS":
        return 2
    if format in b"iIf":
        return 4
    return 8


cdef int null_flags(const ArrowArray* array, Room* room, const uint8_t** flags) noexcept nogil:
    """Point ``flags`` to uint8[n], 1 = null, or to NULL if nothing is; -1 without memory."""
    cdef const uint8_t* bits = <const uint8_t*>array.buffers[0]
    cdef uint8_t* to
    cdef int64_t i, at
    cdef uint8_t some = 0
    flags[0] = NULL
    if array.null_count == 0 or bits == NULL:
        return 0
    to = <uint8_t*>room_for(room, array.length)
    if to == NULL:
        return -1
    for i in range(array.length):
        at = array.offset + i
        to[i] = ~(bits[at >> 3] >> (at & 7)) & 1
        some |= to[i]
    if some:
        flags[0] = to
    return 0


cdef void _widen(const Number* values, int64_t n, int64_t* to) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        to[i] = values[i]


cdef const int64_t* int_values(const ArrowArray* array, char format, Room* room) noexcept nogil:
    """Integers as int64[n], garbage under nulls; a view if they are that."""
    cdef const char* values = <const char*>array.buffers[1] + array.offset * width_of(format)
    cdef int64_t* to
    if array.buffers[1] == NULL or <uintptr_t>values % width_of(format) != 0:
        return NULL
    if format == b"l":
        return <const int64_t*>values
    to = <int64_t*>room_for(room, array.length * sizeof(int64_t))
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


cdef const int64_t* float_values(const ArrowArray* array, char format, Room* room) noexcept nogil:
    """Numbers as float64[n], by bits, garbage under nulls; a view if they are that."""
    cdef const char* values = <const char*>array.buffers[1] + array.offset * width_of(format)
    cdef const int64_t* whole
    cdef double* to
    cdef int64_t i
    if array.buffers[1] == NULL or <uintptr_t>values % width_of(format) != 0:
        return NULL
    if format == b"g":
        return <const int64_t*>values
    if format != b"f":
        whole = int_values(array, format, room)
        if whole == NULL:
            return NULL
    to = <double*>room_for(room, array.length * sizeof(double))
    if to == NULL:
        return NULL
    for i in range(array.length):  # in the room, too, a number is read before it is written
        to[i] = (<const float*>values)[i] if format == b"f" else <double>whole[i]
    return <const int64_t*>to


cdef const int64_t* bool_values(const ArrowArray* array, Room* room) noexcept nogil:
    """Bits as int64[n], garbage under nulls."""
    cdef const uint8_t* bits = <const uint8_t*>array.buffers[1]
    cdef int64_t* to = <int64_t*>room_for(room, array.length * sizeof(int64_t))
    cdef int64_t i, at
    if to == NULL or bits == NULL:
        return NULL
    for i in range(array.length):
        at = array.offset + i
        to[i] = bits[at >> 3] >> (at & 7) & 1
    return to


cdef const int64_t* cleared(const int64_t* values, const uint8_t* nulls, int64_t n, Room* room) noexcept nogil:
    """The values with 0 under nulls; ``values`` may stand in the room, which is large enough then."""
    cdef int64_t* to = <int64_t*>room.data
    cdef int64_t i
    if values != to:
        to = <int64_t*>room_for(room, n * sizeof(int64_t))
    if to == NULL:
        return NULL
    for i in range(n):
        to[i] = 0 if nulls[i] else values[i]
    return to
