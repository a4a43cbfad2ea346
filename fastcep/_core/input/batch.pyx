# cython: language_level=3
"""A batch as the matchers read it: pointers to its columns, set once and used by every query."""
from libc.stdint cimport int64_t, uint8_t, uint16_t
from libc.stdlib cimport calloc, free

import numpy as np


cdef class Batch:
    """The columns of an ``EventBatch`` whose first event has this position in the stream; keeps the batch alive."""

    def __cinit__(self, batch, int64_t position):
        cdef Py_ssize_t i
        cdef const int64_t[::1] values
        cdef const uint16_t[::1] types
        cdef const uint8_t[::1] nulls
        self.source = batch
        self.events.size = len(batch)
        self.events.position = position
        if self.events.size == 0:
            return
        values = batch.time
        self.events.time = &values[0]
        types = batch.type
        self.events.types = &types[0]
        if batch.sequence is not None:
            values = batch.sequence
            self.events.sequence = &values[0]
        self.events.data = <const int64_t**>calloc(len(batch.columns) + 1, sizeof(void*))
        self.events.null = <const uint8_t**>calloc(len(batch.columns) + 1, sizeof(void*))
        if self.events.data == NULL or self.events.null == NULL:
            raise MemoryError("no memory for the batch")
        for i, column in enumerate(batch.columns):
            values = column.view(np.int64)
            self.events.data[i] = &values[0]
            if batch.nulls[i] is not None:
                nulls = batch.nulls[i]
                self.events.null[i] = &nulls[0]

    @property
    def position(self):
        """Position of the first event in the stream."""
        return self.events.position

    @property
    def last_time(self):
        """Time of the last event in nanoseconds; the batch must not be empty."""
        return self.events.time[self.events.size - 1]

    def __dealloc__(self):
        free(<void*>self.events.data)
        free(<void*>self.events.null)
