# Which of the parts of a query an event belongs to. See key_partition.pyx.
from libc.stdint cimport int64_t, uint32_t, uint64_t

from fastcep._core.input.batch cimport Events
from fastcep._core.state.core cimport Core


cdef inline uint32_t hash_of(int64_t word) noexcept nogil:
    """Multiples of the golden ratio spread evenly: of numbers in a row, parts of the range get nearly as many each."""
    return <uint32_t>((<uint64_t>word * <uint64_t>0x9E3779B97F4A7C15) >> 32)


cdef inline uint32_t hash_of_float(double value) noexcept nogil:
    """Of a float64 key: both zeros are equal; NaN, which joins nothing, is in part 0."""
    value += 0.0
    return hash_of((<int64_t*>&value)[0]) if value == value else 0


cdef inline bint is_own(const Core* core, const Events* events, Py_ssize_t k) noexcept nogil:
    """Whether event ``k`` of the batch is one of this part's; null, which joins nothing, is in part 0."""
    cdef int column = core.part_columns[events.types[k]]
    cdef uint32_t hashed = 0
    if column >= 0 and (events.null[column] == NULL or not events.null[column][k]):
        if core.part_floats:
            hashed = hash_of_float((<const double*>events.data[column])[k])
        else:
            hashed = hash_of(events.data[column][k])
    return <uint32_t>(hashed - core.part_first) < core.part_size
