# The part of a query that an event belongs to, by its key. See key_partition.pyx.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from fastcep._core.input.batch cimport Events
from fastcep._core.state.core cimport Core


cdef inline uint32_t hash_of(int64_t word) noexcept nogil:
    """Return the hash of an int64 key. Golden-ratio hashing spreads consecutive keys evenly over the parts."""
    return <uint32_t>((<uint64_t>word * <uint64_t>0x9E3779B97F4A7C15) >> 32)


cdef inline uint32_t hash_of_float(double value) noexcept nogil:
    """Return the hash of a float64 key. -0.0 equals 0.0; NaN, which joins nothing, is in part 0."""
    value += 0.0
    return hash_of((<int64_t*>&value)[0]) if value == value else 0


cdef inline bint is_in_part(const Core* core, const Events* events, Py_ssize_t k) noexcept nogil:
    """Return True if event ``k`` of the batch belongs to this part; null, which joins nothing, is in part 0."""
    cdef int column = core.part_columns[events.types[k]]
    cdef uint32_t hashed = 0
    if column >= 0 and (events.null[column] == NULL or not events.null[column][k]):
        if core.part_floats:
            hashed = hash_of_float((<const double*>events.data[column])[k])
        else:
            hashed = hash_of(events.data[column][k])
    return <uint32_t>(hashed - core.part_first) < core.part_size
