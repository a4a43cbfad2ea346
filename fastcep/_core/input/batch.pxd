# The events of a batch as C arrays. See batch.pyx.
from libc.stdint cimport int64_t, uint8_t, uint16_t


cdef enum:              # event columns that are not in the schema
    COLUMN_TIME = -1
    COLUMN_SEQ = -2
    COLUMN_TYPE = -3
    COLUMN_COMPUTED = -4
    COLUMN_POSITION = -5
    COLUMN_PREVIOUS = -6


cdef struct Events:
    const int64_t* time
    const uint16_t* types
    const int64_t* sequence  # sequence numbers; NULL: the positions
    const int64_t** data     # per column of the schema: its values,
    const uint8_t** null     # and its null flags, or NULL
    Py_ssize_t size
    int64_t position         # position of the first event in the stream of the engine


cdef class Batch:
    cdef Events events
    cdef readonly object source
