# cython: language_level=3
"""Map the strings of a column to the numbers of known names.

Names are in a hash table that is at most a quarter full, so that a lookup is as fast for one event type as for sixty
thousand. A text of up to 16 bytes is hashed and compared without a loop, as its first and its last eight bytes. For a few
names, the table with the fewest collisions of some is taken, so that the processor mispredicts few branches.
Dictionary-encoding the column in Arrow first would take ten times as long.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcmp, memcpy, memset

import numpy as np

cdef extern from "names.h":
    uint64_t fc_word(const uint8_t*, int64_t) noexcept nogil

cdef enum:
    SPARSE = 4               # slots per name, at least
    FEW = 256                # number of names up to which
    TRIALS = 64              # as many tables are tried
    WORD = 8                 # bytes

cdef uint64_t FIRST_MULTIPLIER = 0x9E3779B97F4A7C15ULL  # odd, and so are its powers


cdef class Names:
    """Hash table of names.

    Parameters
    ----------
    names
        Names in UTF-8, all different, at most 65,535. The number of a name is its index.

    Attributes
    ----------
    probes
        Number of slots at which the names are looked for, all together: one for each if none collide.
    """

    def __cinit__(self, names):
        cdef Py_ssize_t count = len(names), number
        cdef uint64_t size = 4, multiplier = FIRST_MULTIPLIER, best = FIRST_MULTIPLIER
        cdef Py_ssize_t fewest = 0
        cdef int trial
        cdef const uint8_t* text
        if count > UNKNOWN:
            raise ValueError(f"found {count} names, expected at most {UNKNOWN}")
        self.shift = 62
        while size < SPARSE * <uint64_t>count:
            size *= 2
            self.shift -= 1
        self.mask, self.count = size - 1, count
        self.encoded = list(names)
        self.names = <Name*>calloc(count + 1, sizeof(Name))
        self.table = <uint16_t*>malloc(size * sizeof(uint16_t))
        if self.names == NULL or self.table == NULL:
            raise MemoryError("no memory for the names of the types")
        for number in range(count):
            text = <const uint8_t*><bytes>self.encoded[number]
            self.names[number] = _name_of(text, len(self.encoded[number]))
        for trial in range(TRIALS if count <= FEW else 1):
            self._fill(multiplier)
            if trial == 0 or self.probes < fewest:
                fewest, best = self.probes, multiplier
            if fewest == count:
                break
            multiplier *= FIRST_MULTIPLIER
        if self.multiplier != best:
            self._fill(best)

    def __dealloc__(self):
        free(self.names)
        free(self.table)

    cdef void _fill(self, uint64_t multiplier) noexcept:
        """Fill the table."""
        cdef uint64_t slot
        cdef Py_ssize_t number
        self.multiplier, self.probes = multiplier, 0
        memset(self.table, 0xFF, (self.mask + 1) * sizeof(uint16_t))
        for number in range(self.count):
            slot = _slot(self.names[number], multiplier, self.shift)
            self.probes += 1
            while self.table[slot] != UNKNOWN:
                self.probes += 1
                slot = (slot + 1) & self.mask
            self.table[slot] = <uint16_t>number

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
        cdef Py_ssize_t count = max(0, offsets.shape[0] - 1)
        result = np.empty(count, np.uint16)
        cdef uint16_t[::1] numbers = result
        cdef const uint8_t* data = &texts[0] if texts.shape[0] else <const uint8_t*>b""
        if count:
            with nogil:
                find_all(self, &offsets[0], count, data, &numbers[0])
        return result

    cdef uint16_t number(self, const uint8_t* text, int64_t length) noexcept nogil:
        """Return the number of a text, or UNKNOWN."""
        return _number(self, _name_of(text, length))


cdef bint find_all(Names names, const offset_t* offsets, int64_t n, const uint8_t* texts, uint16_t* to) noexcept nogil:
    """Write the number of each of ``n`` texts, or UNKNOWN; return whether all are names.

    ``offsets`` has n + 1 values. The bytes before the first text and after the last one are not read.
    """
    cdef int64_t i, start, length
    cdef int64_t last = offsets[n] - WORD  # from here on, a word would reach beyond the texts
    cdef Name name
    cdef uint16_t number, unknown = 0
    for i in range(n):
        start, length = offsets[i], offsets[i + 1] - offsets[i]
        if start > last:
            name = _name_of(texts + start, length)
        else:
            name.text, name.length, name.first = texts + start, length, fc_word(texts + start, length)
            name.last = fc_word(texts + start + max(length - WORD, <int64_t>0), length)
        number = _number(names, name)
        to[i] = number
        unknown |= number == UNKNOWN
    return not unknown


cdef inline uint16_t _number(Names names, Name name) noexcept nogil:
    cdef uint64_t slot = _slot(name, names.multiplier, names.shift)
    cdef uint16_t number = names.table[slot]
    while number != UNKNOWN and not _equals(names.names[number], name):
        slot = (slot + 1) & names.mask
        number = names.table[slot]
    return number


cdef inline bint _equals(Name one, Name other) noexcept nogil:
    if ((one.first ^ other.first) | (one.last ^ other.last) | (<uint64_t>one.length ^ <uint64_t>other.length)) != 0:
        return False
    return one.length <= 2 * WORD or memcmp(one.text, other.text, one.length) == 0


cdef inline uint64_t _slot(Name name, uint64_t multiplier, int shift) noexcept nogil:
    """Return the first slot of a name: the high bits of its hash, on which all bytes have an effect."""
    cdef uint64_t hashed = (name.first ^ <uint64_t>name.length) * multiplier
    cdef int64_t at = WORD
    hashed = (hashed ^ hashed >> 32 ^ name.last) * multiplier
    while at < name.length - WORD:  # the bytes in the middle
        hashed = (hashed ^ hashed >> 32 ^ fc_word(name.text + at, WORD)) * multiplier
        at += WORD
    return (hashed ^ hashed >> 32) * multiplier >> shift


cdef Name _name_of(const uint8_t* text, int64_t length) noexcept nogil:
    """Return the words of a text after which no byte may be read."""
    cdef Name name
    cdef uint8_t padded[WORD]
    name.text, name.length = text, length
    if length >= WORD:
        name.first, name.last = fc_word(text, length), fc_word(text + length - WORD, length)
        return name
    memset(padded, 0, WORD)
    if length > 0:
        memcpy(padded, text, length)
    name.first = name.last = fc_word(padded, length)
    return name
