# What is usual of a batch, to the columns that the loops read. See batch_reader.pyx.
from libc.stdint cimport int64_t, uint8_t, uint16_t

from fastcep._core.input.arrow cimport ArrowArray, Room
from fastcep._core.input.batch cimport Events


cdef struct Field:           # how a column of the schema stands in the data
    int child
    char format              # of its values, of the indices of a dictionary
    char entries             # of the texts of a dictionary; 0: it is none
    int64_t factor           # of times: nanoseconds per unit


cdef struct TypeName:
    const char* text
    int64_t size
    int next                 # of those with the same slot, or -1


cdef class BatchReader:
    cdef object layout_of    # gives the fields of an Arrow schema, or None
    cdef object strings
    cdef tuple sources       # of time, type, sequence number, columns; None where there is none
    cdef dict place_of       # of a source that has a name its place in them
    cdef bytes dtypes        # per column of the schema i, f, b or s
    cdef dict type_ids
    cdef list texts          # the names of the types, encoded
    cdef tuple codes         # their codes; None: the data has names
    cdef TypeName* names
    cdef int* slots          # by the hash of the name
    cdef int slot_mask
    cdef int n_sources
    cdef object known        # the Arrow schema of ``fields``
    cdef bint is_read        # whether that can be read here
    cdef Field* fields
    cdef list kinds          # per source of a mapping: the Arrow type of ``loose``
    cdef Field* loose
    cdef Room* rooms         # per source: values and nulls
    cdef ArrowArray whole    # what is read, until it is released
    cdef ArrowArray* parts   # or, from a mapping, an array per source
    cdef const void** plain  # and the buffers of those that are NumPy's,
    cdef list held           # which are held: their mapping may change while the GIL is given back
    cdef uint16_t* zeros
    cdef bint has_texts, is_mapped, is_listed
    cdef Events events

    cdef bint read(self, data) except -1
    cdef void done(self) noexcept
    cdef bint _read_batch(self, batch) except -1
    cdef bint _read_mapping(self, dict data) except -1
    cdef bint _export(self, int place, values, int64_t* size) except -1
    cdef bint _fill(self, int place, const ArrowArray* array, const Field* field) except -1
    cdef bint _times(self, const int64_t* values, int64_t n, int64_t factor, Room* room) noexcept
    cdef int _type_of(self, const char* text, int64_t size) noexcept nogil
    cdef bint _types_of_texts(self, const ArrowArray* array, const Field* field) noexcept
    cdef bint _types_of_list(self, list values) except -1
    cdef bint _codes_of_types(self, const int64_t* values, int64_t n) noexcept
    cdef bint _texts(self, int place, const ArrowArray* array, const Field* field) except -1
