# cython: language_level=3
"""Numbers of names: which of a few known texts each text of a column is.

Names are found by a hash over their bytes in a table of twice their number at least, which is as fast for one type of
event as for sixty thousand; making a dictionary of the column first, as Arrow can, takes ten times as long.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp

import numpy as np

ctypedef fused offset_t:
    int32_t
    int64_t

cdef enum:
    NOTHING = 0xFFFF         # in the table and in the result


cdef class Names:
    """Known texts.

    Parameters
    ----------
    names
        UTF-8, all different, at most 65,535; their numbers are their places.
    """
    cdef const uint8_t* data
    cdef int64_t* starts     # names + 1
    cdef uint16_t* table     # numbers by hash, the next free place where it is taken
    cdef uint64_t mask
    cdef bytes _joined       # keeps ``data`` alive

    def __cinit__(self, names):
        cdef Py_ssize_t count = len(names), number, end = 0
        cdef uint64_t place, size = 2
        if count > NOTHING:
            raise ValueError(f"found {count} names, expected at most {NOTHING}")
        while size < 2 * <uint64_t>count:
            size *= 2
        self.mask = size - 1
        self._joined = b"".join(names)
        self.data = self._joined
        self.starts = <int64_t*>calloc(count + 1, sizeof(int64_t))
        self.table = <uint16_t*>malloc(size * sizeof(uint16_t))
        if self.starts == NULL or self.table == NULL:
            raise MemoryError("no memory for the names of the types")
        for place in range(size):
            self.table[place] = NOTHING
        for number in range(count):
            end += len(names[number])
            self.starts[number + 1] = end
            place = _hash(self.data + self.starts[number], end - self.starts[number]) & self.mask
            while self.table[place] != NOTHING:
                place = (place + 1) & self.mask
            self.table[place] = <uint16_t>number

    def __dealloc__(self):
        free(self.starts)
        free(self.table)

    def find(self, const offset_t[::1] offsets, const uint8_t[::1] texts):
        """The number of each text.

        Parameters
        ----------
        offsets
            int32 or int64[n + 1], where each text starts and ends.
        texts
            UTF-8, all joined.

        Returns
        -------
        numpy.ndarray
            uint16[n], 65,535 where a text is none of the names.
        """
        cdef Py_ssize_t count = offsets.shape[0] - 1, k
        found = np.empty(max(0, count), np.uint16)
        cdef uint16_t[::1] numbers = found
        cdef const uint8_t* data = &texts[0] if texts.shape[0] else self.data
        with nogil:
            for k in range(count):
                numbers[k] = self.number(data + offsets[k], offsets[k + 1] - offsets[k])
        return found

    cdef inline uint16_t number(self, const uint8_t* text, int64_t length) noexcept nogil:
        cdef uint64_t place = _hash(text, length) & self.mask
        cdef uint16_t number = self.table[place]
        while number != NOTHING:
            if self.starts[number + 1] - self.starts[number] == length and (
                    memcmp(self.data + self.starts[number], text, length) == 0):
                return number
            place = (place + 1) & self.mask
            number = self.table[place]
        return NOTHING


cdef inline uint64_t _hash(const uint8_t* text, int64_t length) noexcept nogil:
    """FNV-1a, its high bits folded in."""
    cdef uint64_t value = <uint64_t>14695981039346656037U
    cdef int64_t k
    for k in range(length):
        value = (value ^ text[k]) * <uint64_t>1099511628211U
    return value ^ (value >> 32)
