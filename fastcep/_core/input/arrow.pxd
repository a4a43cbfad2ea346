# Arrow arrays of the C data interface, and conversions of their values to columns of a batch. See arrow.pyx.
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


cdef struct Scratch:         # a buffer that is reused by the next call
    void* data
    int64_t bytes


cdef enum:
    MOST_KEPT = 1 << 17      # bytes of a scratch buffer that are kept between calls


cdef void* scratch_reserve(Scratch* scratch, int64_t bytes) noexcept nogil
cdef void scratch_free(Scratch* scratch) noexcept nogil
cdef void scratch_trim(Scratch* scratch) noexcept nogil

cdef int width_of(char format) noexcept nogil
cdef int null_flags(const ArrowArray* array, Scratch* scratch, const uint8_t** flags) noexcept nogil
cdef const int64_t* int_values(const ArrowArray* array, char format, Scratch* scratch) noexcept nogil
cdef const int64_t* float_values(const ArrowArray* array, char format, Scratch* scratch) noexcept nogil
cdef const int64_t* bool_values(const ArrowArray* array, Scratch* scratch) noexcept nogil
cdef const int64_t* zero_nulls(const int64_t* values, const uint8_t* nulls, int64_t n, Scratch* scratch) noexcept nogil


cdef inline const char* text_at(const ArrowArray* array, char format, int64_t row, int64_t* size) noexcept nogil:
    """Return the bytes of a string; ``format`` is u for 32-bit offsets, U for 64-bit offsets."""
    cdef int64_t place = array.offset + row, start
    if format == b"u":
        start = (<const int*>array.buffers[1])[place]
        size[0] = (<const int*>array.buffers[1])[place + 1] - start
    else:
        start = (<const int64_t*>array.buffers[1])[place]
        size[0] = (<const int64_t*>array.buffers[1])[place + 1] - start
    return <const char*>array.buffers[2] + start
