# Reads batches of the usual kinds into the columns that the matchers read. See batch_reader.pyx.
from libc.stdint cimport int64_t, uint8_t, uint16_t

from fastcep._core.input.arrow cimport ArrowArray, Scratch
from fastcep._core.input.batch cimport Events
from fastcep._core.input.name_codes cimport Names


cdef struct Field:           # a column of the schema in Arrow data
    int child                # its number in the record batch, or -1
    char format              # format letter of its values; of a dictionary: of the indices
    char entries             # format letter of the strings of a dictionary; 0: the column is not dictionary-encoded
    int64_t factor           # for times: nanoseconds per unit


cdef class BatchReader:
    cdef object layout_of    # returns the fields of an Arrow schema, or None
    cdef object strings      # the string table
    cdef tuple sources       # columns of time, type, sequence number and attributes; None where there is none
    cdef dict place_of       # per name of a source: its position in ``sources``
    cdef bytes dtypes        # per column of the schema: i, f, b or s
    cdef dict type_ids       # type id by name
    cdef Names names         # names of the types, encoded
    cdef tuple type_codes    # codes of the types; None: the data has names
    cdef int n_sources
    cdef object last_schema  # the last Arrow schema
    cdef bint is_readable    # that schema can be read here, with ``fields``
    cdef Field* fields       # per source, for a record batch
    cdef list dict_types     # per source of a dict: the last Arrow type, or NumPy format letter
    cdef Field* dict_fields  # per source of a dict: its field
    cdef Scratch* scratch    # two per source: values and null flags
    cdef ArrowArray record_batch  # the record batch that is being read
    cdef ArrowArray* arrays  # per source: the array of a dict that is being read
    cdef const void** numpy_buffers  # buffers of these arrays if they come from NumPy
    cdef list numpy_arrays   # references to the NumPy arrays, since another thread may change the dict meanwhile
    cdef bint has_texts      # some column has strings
    cdef bint reads_dicts    # every source has a name of its own, so that dicts can be read
    cdef bint has_type_list  # the types of the dict that is being read are a list
    cdef Events events

    cdef bint read(self, data) except -1
    cdef void done(self) noexcept
    cdef bint _read_batch(self, batch) except -1
    cdef bint _read_mapping(self, dict data) except -1
    cdef bint _export(self, int place, values, int64_t* size) except -1
    cdef bint _fill(self, int place, const ArrowArray* array, const Field* field) except -1
    cdef bint _times(self, const int64_t* values, int64_t n, int64_t factor, Scratch* scratch) noexcept
    cdef bint _types_of_texts(self, const ArrowArray* array, const Field* field) noexcept
    cdef bint _types_of_list(self, list values) except -1
    cdef bint _codes_of_types(self, const int64_t* values, int64_t n) noexcept
    cdef bint _texts(self, int place, const ArrowArray* array, const Field* field) except -1
