# cython: language_level=3
"""Write events to the buffers of an event ring (``fastcep.events.ring``) without Python objects.

Invariant: a position p is stored at index ``p & mask``; the ring's buffers change only in `make_room` and in Python
between two calls, and the pointers are taken again then.
"""
from libc.stdint cimport int64_t, uint8_t, uint16_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from fastcep._core.input.batch cimport Events


cdef class RingWriter:
    """Append events to a ring.

    Parameters
    ----------
    ring
        The ``EventRing``.
    """

    def __init__(self, ring):
        self.ring = ring

    def __dealloc__(self):
        free(self.columns)

    cdef bint has_room(self, int64_t size) except -1:
        """Return whether ``size`` more events fit into the buffers as they are."""
        if self.ring.buffers is not self.buffers:
            self._find_buffers()
        return <int64_t>self.ring.tail + size - <int64_t>self.ring.head <= self.mask + 1

    cdef int make_room(self, int64_t oldest, int64_t size) except -1:
        """Free the events before the position ``oldest``, and let the ring grow if ``size`` more do not fit then."""
        self.ring.reclaim(oldest)
        self.ring.make_room(size)
        if self.ring.buffers is not self.buffers:
            self._find_buffers()
        return 0

    cdef int write(self, const Events* events) except -1:
        """Append the events, for which there must be room."""
        cdef int64_t size = events.size, tail = self.ring.tail, start, stretch, row = 0, i
        cdef RingColumn* column
        cdef int k
        while row < size:
            start = (tail + row) & self.mask
            stretch = min(size - row, self.mask + 1 - start)
            memcpy(self.time + start, events.time + row, stretch * sizeof(int64_t))
            memcpy(self.types + start, events.types + row, stretch * sizeof(uint16_t))
            if events.sequence != NULL:
                memcpy(self.sequence + start, events.sequence + row, stretch * sizeof(int64_t))
            else:
                for i in range(stretch):
                    self.sequence[start + i] = tail + row + i
            for k in range(self.n_columns):
                column = self.columns + k
                memcpy(column.values + start, events.data[column.column] + row, stretch * sizeof(int64_t))
                if events.null[column.column] != NULL:
                    memcpy(column.nulls + start, events.null[column.column] + row, stretch)
                    self.ring.note_nulls(column.column)
                else:
                    memset(column.nulls + start, 0, stretch)
            row += stretch
        self.ring.appended(size)
        return 0

    cdef int _find_buffers(self) except -1:
        """Take the pointers to the ring's buffers."""
        cdef int64_t[::1] values
        cdef uint16_t[::1] types
        cdef uint8_t[::1] nulls
        cdef RingColumn* columns
        cdef int k
        kept = sorted(self.ring.columns)
        columns = <RingColumn*>calloc(len(kept) + 1, sizeof(RingColumn))
        if columns == NULL:
            raise MemoryError("no memory for the event ring")
        free(self.columns)
        self.columns, self.n_columns = columns, len(kept)
        values = self.ring.arrays("time")[0]
        self.time = &values[0]
        values = self.ring.arrays("seq")[0]
        self.sequence = &values[0]
        types = self.ring.arrays("type")[0]
        self.types = &types[0]
        for k in range(self.n_columns):
            array, flags = self.ring.arrays(kept[k])
            values, nulls = array.view("int64"), flags
            columns[k].column, columns[k].values, columns[k].nulls = kept[k], &values[0], &nulls[0]
        self.mask = self.ring.capacity - 1
        self.buffers = self.ring.buffers
        return 0
