# cython: language_level=3
"""Map the strings of a column to the numbers of known names.

Names are in a hash table that is at most half full, so that a lookup is as fast for one event type as for sixty
thousand. Dictionary-encoding the column in Arrow first would take ten times as long.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp

import numpy as np

ctypedef fused offset_t:
    int32_t
    int64_t

cdef enum:
    UNKNOWN = 0xFFFF         # an empty slot of the table; in the result, a text that is not a name


cdef class Names:
    """Hash table of names.

    Parameters
    ----------
    names
        Names in UTF-8, all different, at most 65,535. The number of a name is its index.
    """
    cdef const uint8_t* data
    cdef int64_t* starts     # [names + 1] start of each name in ``data``
    cdef uint16_t* table     # hash table with open addressing: number of a name, or UNKNOWN
    cdef uint64_t mask
    cdef bytes _joined       # keeps ``data`` alive

    def __cinit__(self, names):
        cdef Py_ssize_t count = len(names), number, end = 0
        cdef uint64_t slot, size = 2
        if count > UNKNOWN:
            raise ValueError(f"found {count} names, expected at most {UNKNOWN}")
        while size < 2 * <uint64_t>count:
            size *= 2
        self.mask = size - 1
        self._joined = b"".join(names)
        self.data = self._joined
        self.starts = <int64_t*>calloc(count + 1, sizeof(int64_t))
        self.table = <uint16_t*>malloc(size * sizeof(uint16_t))
        if self.starts == NULL or self.table == NULL:
            raise MemoryError("no memory for the names of the types")
        for slot in range(size):
            self.table[slot] = UNKNOWN
        for number in range(count):
            end += len(names[number])
            self.starts[number + 1] = end
            slot = _hash(self.data + self.starts[number], end - self.starts[number]) & self.mask
            while self.table[slot] != UNKNOWN:
                slot = (slot + 1) & self.mask
            self.table[slot] = <uint16_t>number

    def __dealloc__(self):
        free(self.starts)
        free(self.table)

    def find(self, const offset_t[::1] offsets, const uint8_t[::1] texts):
        """Return the number of each text.

        Parameters
        ----------
        offsets
            int32[n + 1] or int64[n + 1]: offset at which each text starts, and the end of the last one.
        texts
            UTF-8 bytes of all texts, concatenated.

        Returns
        -------
        numpy.ndarray
            uint16[n]; 65,535 for a text that is not a name.
        """
        cdef Py_ssize_t count = offsets.shape[0] - 1, k
        result = np.empty(max(0, count), np.uint16)
        cdef uint16_t[::1] numbers = result
        cdef const uint8_t* data = &texts[0] if texts.shape[0] else self.data
        with nogil:
            for k in range(count):
                numbers[k] = self.number(data + offsets[k], offsets[k + 1] - offsets[k])
        return result

    cdef inline uint16_t number(self, const uint8_t* text, int64_t length) noexcept nogil:
        cdef uint64_t slot = _hash(text, length) & self.mask
        cdef uint16_t number = self.table[slot]
        while number != UNKNOWN:
            if self.starts[number + 1] - self.starts[number] == length and (
                    memcmp(self.data + self.starts[number], text, length) == 0):
                return number
            slot = (slot + 1) & self.mask
            number = self.table[slot]
        return UNKNOWN


cdef inline uint64_t _hash(const uint8_t* text, int64_t length) noexcept nogil:
    """Return the FNV-1a hash of a text, with its high bits folded into the low ones."""
    cdef uint64_t hashed = <uint64_t>14695981039346656037U
    cdef int64_t k
    for k in range(length):
        hashed = (hashed ^ text[k]) * <uint64_t>1099511628211U
    return hashed ^ (hashed >> 32)
