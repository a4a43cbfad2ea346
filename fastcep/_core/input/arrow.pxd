# Arrow arrays of the C data interface, and their values as the columns of a batch have them. See arrow.pyx.
from libc.stdint cimport int64_t, uint8_t


cdef struct ArrowArray:
    int64_t length
    int64_t null_count
    int64_t offset
    int64_t n_buffers
    int64_t n_children
    const void** buffers
    ArrowArray** children
    ArrowArray* dictionary
    void (*release)(ArrowArray*) noexcept nogil
    void* private_data


cdef struct Room:            # memory that is used again in the next call
    void* data
    int64_t bytes


cdef enum:
    KEPT = 1 << 17           # bytes of a room that are kept between calls


cdef void* room_for(Room* room, int64_t bytes) noexcept nogil
cdef void room_free(Room* room) noexcept nogil
cdef void room_rest(Room* room) noexcept nogil

cdef int width_of(char format) noexcept nogil
cdef int null_flags(const ArrowArray* array, Room* room, const uint8_t** flags) noexcept nogil
cdef const int64_t* int_values(const ArrowArray* array, char format, Room* room) noexcept nogil
cdef const int64_t* float_values(const ArrowArray* array, char format, Room* room) noexcept nogil
cdef const int64_t* bool_values(const ArrowArray* array, Room* room) noexcept nogil
cdef const int64_t* cleared(const int64_t* values, const uint8_t* nulls, int64_t n, Room* room) noexcept nogil


cdef inline const char* text_at(const ArrowArray* array, char format, int64_t row, int64_t* size) noexcept nogil:
    """The bytes of a text: ``format`` is u or U, for offsets of 32 or 64 bits."""
    cdef int64_t at = array.offset + row, start
    if format == b"u":
        start = (<const int*>array.buffers[1])[at]
        size[0] = (<const int*>array.buffers[1])[at + 1] - start
    else:
        start = (<const int64_t*>array.buffers[1])[at]
        size[0] = (<const int64_t*>array.buffers[1])[at + 1] - start
    return <const char*>array.buffers[2] + start
