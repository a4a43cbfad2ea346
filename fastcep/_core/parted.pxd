# Which of the parts of a query an event belongs to. See parted.pyx.
from libc.stdint cimport int64_t, uint64_t

from fastcep._core.batch cimport Events
from fastcep._core.core cimport Core


cdef inline int part_of(int64_t word, int parts) noexcept nogil:
    """Part of a key. Multiples of the golden ratio spread evenly: numbers in a row get parts of nearly equal size."""
    return <int>((((<uint64_t>word * <uint64_t>0x9E3779B97F4A7C15) >> 32) * <uint64_t>parts) >> 32)


cdef inline int part_of_float(double value, int parts) noexcept nogil:
    """Part of a float64 key: both zeros are equal; NaN, which joins nothing, is in part 0."""
    value += 0.0
    return part_of((<int64_t*>&value)[0], parts) if value == value else 0


cdef inline bint is_own(const Core* core, const Events* events, Py_ssize_t k) noexcept nogil:
    """Whether event ``k`` of the batch is one of this part's; null, which joins nothing, is in part 0."""
    cdef int column = core.part_columns[events.types[k]]
    if column < 0 or (events.null[column] != NULL and events.null[column][k]):
        return core.part == 0
    if core.part_floats:
        return part_of_float((<const double*>events.data[column])[k], core.parts) == core.part
    return part_of(events.data[column][k], core.parts) == core.part
