# cython: language_level=3
"""Read batches of the usual kinds: pyarrow record batches, and dicts of arrays, whose values need no check.

Other data, and invalid data, is left to ``fastcep.events``, which converts it or reports the error: ``read`` then
returns False and changes nothing. For the data that this module reads, both readers give the same result; the tests
compare them. Views of the data are valid until ``done``.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

cimport numpy as cnp
from cpython.dict cimport PyDict_GetItemWithError
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact, PyUnicode_DecodeUTF8

import pyarrow as pa

cdef extern from "Python.h":
    PyObject* PyList_GET_ITEM(list, Py_ssize_t)

cdef extern from "columns.h":
    bint fc_scale(const int64_t*, int64_t, int64_t, int64_t*) noexcept nogil
    bint fc_ascends(const int64_t*, int64_t) noexcept nogil
    void fc_look_up(const int32_t*, int64_t, const uint16_t*, int64_t, uint16_t*) noexcept nogil

from fastcep._core.input.arrow cimport (
    ArrowArray, Scratch, bool_values, float_values, int_values, null_flags, scratch_free, scratch_reserve, scratch_trim,
    text_at, zero_nulls,
)
from fastcep._core.input.name_codes cimport UNKNOWN, find_all
from fastcep._core.input.name_codes import Names

cnp.import_array()

cdef object RecordBatch = pa.RecordBatch, Table = pa.Table, Array = pa.Array, ChunkedArray = pa.ChunkedArray

cdef enum:
    TIME
    TYPE
    SEQUENCE
    COLUMNS                  # the first attribute
    MANY_TEXTS = 2048        # from this number of rows on, Arrow finds the distinct strings of a column faster


cdef class BatchReader:
    """Reads batches of one schema.

    Parameters
    ----------
    layout_of
        Function that returns, for an Arrow schema or type, ``(child, format, format of entries, factor)`` per source;
        None if this reader does not support it.
    strings
        String table, which assigns a code to each string.
    sources
        Columns of time, type, sequence number and attributes; None where there is none.
    dtypes
        One letter per attribute: i, f, b or s.
    type_names
        Names of the event types, by type id.
    codes
        Codes of the event types, by type id; None if the data has names.
    """

    def __cinit__(self, layout_of, strings, tuple sources, bytes dtypes, tuple type_names, codes):
        self.layout_of, self.strings, self.sources, self.dtypes = layout_of, strings, sources, dtypes
        self.has_texts = b"s" in dtypes
        named = [source for source in sources if type(source) is str]
        self.place_of = {source: i for i, source in enumerate(sources) if type(source) is str}
        self.reads_dicts = len(self.place_of) == len(named) == len([source for source in sources if source is not None])
        self.n_sources = len(sources)
        self.type_ids = {name: i for i, name in enumerate(type_names)}
        self.names = Names([name.encode("utf-8", "surrogatepass") for name in type_names])
        self.type_codes = codes
        self.dict_types = [None] * len(sources)
        self.fields = <Field*>calloc(self.n_sources, sizeof(Field))
        self.dict_fields = <Field*>calloc(self.n_sources, sizeof(Field))
        self.scratch = <Scratch*>calloc(2 * self.n_sources, sizeof(Scratch))
        self.arrays = <ArrowArray*>calloc(self.n_sources, sizeof(ArrowArray))
        self.numpy_buffers = <const void**>calloc(2 * self.n_sources, sizeof(void*))
        self.events.data = <const int64_t**>calloc(self.n_sources, sizeof(void*))
        self.events.null = <const uint8_t**>calloc(self.n_sources, sizeof(void*))
        if (self.fields == NULL or self.dict_fields == NULL or self.scratch == NULL or self.arrays == NULL
                or self.numpy_buffers == NULL or self.events.data == NULL or self.events.null == NULL):
            raise MemoryError("no memory for the engine")

    def __dealloc__(self):
        cdef int i
        self.done()
        for i in range(2 * self.n_sources if self.scratch != NULL else 0):
            scratch_free(self.scratch + i)
        free(self.fields)
        free(self.dict_fields)
        free(self.scratch)
        free(self.arrays)
        free(<void*>self.numpy_buffers)
        free(<void*>self.events.data)
        free(<void*>self.events.null)

    cdef bint read(self, data) except -1:
        """Read a batch into ``events``; False if this reader does not support it."""
        cdef bint is_taken = False
        kind = type(data)
        self.events.sequence = NULL
        try:
            if kind is RecordBatch:
                is_taken = self._read_batch(data)
            elif kind is dict:
                is_taken = self._read_mapping(data)
            elif kind is Table:
                batches = data.to_batches()
                is_taken = len(batches) == 1 and self._read_batch(batches[0])
        finally:
            if not is_taken:
                self.done()
        return is_taken and self.events.size > 0

    cdef void done(self) noexcept:
        """Release the data of the last batch."""
        cdef int i
        if self.numpy_arrays:
            self.numpy_arrays.clear()
        if self.record_batch.release != NULL:
            self.record_batch.release(&self.record_batch)
            self.record_batch.release = NULL
        for i in range(self.n_sources if self.arrays != NULL else 0):
            if self.arrays[i].release != NULL:
                self.arrays[i].release(self.arrays + i)
                self.arrays[i].release = NULL
        for i in range(2 * self.n_sources if self.scratch != NULL else 0):
            scratch_trim(self.scratch + i)

    # ------------------------------------------------------------------ find the columns

    cdef bint _read_batch(self, batch) except -1:
        cdef int i, child
        schema = batch.schema
        if schema is not self.last_schema:
            if self.last_schema is None or not schema.equals(self.last_schema):
                self.is_readable = _store_layout(self.fields, self.layout_of(schema))
            self.last_schema = schema
        if not self.is_readable:
            return False
        batch._export_to_c(<uintptr_t>&self.record_batch)
        if self.record_batch.offset != 0 or self.record_batch.null_count > 0:
            return False
        self.events.size = self.record_batch.length
        for i in range(self.n_sources):
            child = self.fields[i].child
            if child >= 0 and not self._fill(i, self.record_batch.children[child], self.fields + i):
                return False
        return self.fields[TYPE].child >= 0 or self._codes_of_types(NULL, self.record_batch.length)

    cdef bint _read_mapping(self, dict data) except -1:
        """Read a dict of columns by name; False if it has other names than the schema."""
        cdef PyObject* entry
        cdef int place
        cdef int64_t size = -1, n
        if not self.reads_dicts or len(data) != len(self.place_of):
            return False
        self.events.size = -1
        self.has_type_list = False
        if self.numpy_arrays is None:
            self.numpy_arrays = []
        for name, values in data.items():
            entry = PyDict_GetItemWithError(self.place_of, name)
            if entry == NULL:
                return False
            place = <object>entry
            if place == TYPE and self.type_codes is None and type(values) is cnp.ndarray:
                values = values.tolist()
            if type(values) is list:
                if place != TYPE or self.type_codes is not None or not self._types_of_list(values):
                    return False
                self.has_type_list = True
                n = len(<list>values)
            elif not self._export(place, values, &n):
                return False
            if size >= 0 and size != n:
                return False
            size = n
        self.events.size = size
        for place in range(self.n_sources):
            if self.sources[place] is None or (place == TYPE and self.has_type_list):
                continue
            if not self._fill(place, self.arrays + place, self.dict_fields + place):
                return False
        return self.sources[TYPE] is not None or self._codes_of_types(NULL, size)

    cdef bint _export(self, int place, values, int64_t* size) except -1:
        """Describe a NumPy or pyarrow array in ``arrays`` and write its length to ``size``."""
        cdef ArrowArray* described = self.arrays + place
        cdef Field* field = self.dict_fields + place
        cdef cnp.ndarray array
        if type(values) is cnp.ndarray:
            array = values
            if array.ndim != 1 or not cnp.PyArray_ISCARRAY_RO(array):
                return False
            size[0] = array.shape[0]
            if array.descr.kind == b"i" and array.descr.itemsize == 8:
                letter = "l"
            elif array.descr.kind == b"f" and array.descr.itemsize == 8:
                letter = "g"
            else:
                return False
            if self.dict_types[place] is not letter:
                if not _store_field(field, self.layout_of(letter, place)):
                    return False
                self.dict_types[place] = letter
            self.numpy_buffers[2 * place + 1] = cnp.PyArray_DATA(array)
            self.numpy_arrays.append(array)
            described.buffers = self.numpy_buffers + 2 * place
            described.length, described.offset, described.null_count = size[0], 0, 0
            return True
        if type(values) is ChunkedArray and values.num_chunks == 1:
            values = values.chunk(0)
        if not isinstance(values, Array):
            return False
        kind = values.type
        if self.dict_types[place] is not kind:
            if self.dict_types[place] is None or type(self.dict_types[place]) is str or not kind.equals(self.dict_types[place]):
                if not _store_field(field, self.layout_of(kind, place)):
                    return False
            self.dict_types[place] = kind
        values._export_to_c(<uintptr_t>described)
        size[0] = described.length
        return True

    # ------------------------------------------------------------------ read the columns

    cdef bint _fill(self, int place, const ArrowArray* array, const Field* field) except -1:
        """Set one column of ``events``."""
        cdef Scratch* scratch = self.scratch + 2 * place
        cdef const uint8_t* nulls
        cdef const int64_t* values
        cdef int64_t n = array.length, factor = field.factor
        cdef char dtype
        if n != self.events.size or n == 0 or null_flags(array, scratch + 1, &nulls) < 0:
            return False
        if place < COLUMNS and nulls != NULL:
            return False
        if place == TYPE:
            if self.type_codes is None:
                return self._types_of_texts(array, field)
            values = int_values(array, field.format, scratch)
            return values != NULL and self._codes_of_types(values, n)
        dtype = self.dtypes[place - COLUMNS] if place >= COLUMNS else b"i"
        if dtype == b"s":
            return self._texts(place, array, field)
        if dtype == b"f":
            values = float_values(array, field.format, scratch)
        elif dtype == b"b":
            values = bool_values(array, scratch)
        else:
            values = int_values(array, field.format, scratch)
        if values != NULL and nulls != NULL:
            values = zero_nulls(values, nulls, n, scratch)
        if values == NULL:
            return False
        if place == SEQUENCE:
            self.events.sequence = values
        elif place >= COLUMNS:
            self.events.data[place - COLUMNS] = values
            self.events.null[place - COLUMNS] = nulls
        else:
            return self._times(values, n, factor, scratch)
        return True

    cdef bint _times(self, const int64_t* values, int64_t n, int64_t factor, Scratch* scratch) noexcept:
        """Set the times in nanoseconds; False if they do not ascend or do not fit into int64."""
        cdef int64_t* to
        cdef int64_t limit = INT64_MAX // factor
        if values[0] < -limit or values[n - 1] > limit:
            return False
        if factor == 1:
            self.events.time = values
            return fc_ascends(values, n)
        if values == scratch.data:
            if not fc_ascends(values, n):
                return False
            fc_scale(values, n, factor, <int64_t*>scratch.data)
            self.events.time = values
            return True
        to = <int64_t*>scratch_reserve(scratch, n * sizeof(int64_t))
        self.events.time = to
        return to != NULL and fc_scale(values, n, factor, to)

    cdef bint _types_of_texts(self, const ArrowArray* array, const Field* field) noexcept:
        """Set the type ids from names; False if a name is not declared."""
        cdef int64_t n = array.length, i, size
        cdef uint16_t* to = <uint16_t*>scratch_reserve(self.scratch + 2 * TYPE + 1, n * sizeof(uint16_t))
        cdef uint16_t entry_ids[256]
        cdef const int64_t* indices
        cdef const ArrowArray* entries = array.dictionary
        cdef const uint8_t* data
        cdef const char* text
        cdef uint16_t unknown = 0
        cdef bint some_unknown = False
        if to == NULL:
            return False
        self.events.types = to
        if field.entries == 0:
            data = <const uint8_t*>array.buffers[2]
            if field.format == b"u":
                return find_all(self.names, <const int32_t*>array.buffers[1] + array.offset, n, data, to)
            return find_all(self.names, <const int64_t*>array.buffers[1] + array.offset, n, data, to)
        if entries.length > 256 or (entries.null_count != 0 and entries.buffers[0] != NULL):
            return False
        for i in range(entries.length):
            text = text_at(entries, field.entries, i, &size)
            entry_ids[i] = self.names.number(<const uint8_t*>text, size)
            some_unknown |= entry_ids[i] == UNKNOWN
        if field.format == b"i":
            fc_look_up(<const int32_t*>array.buffers[1] + array.offset, n, entry_ids, entries.length, to)
            for i in range(n if some_unknown else 0):
                unknown |= to[i] == UNKNOWN
            return not unknown
        indices = int_values(array, field.format, self.scratch + 2 * TYPE)
        if indices == NULL:
            return False
        for i in range(n):
            to[i] = entry_ids[indices[i]]
            unknown |= to[i] == UNKNOWN
        return not unknown

    cdef bint _types_of_list(self, list values) except -1:
        """Set the type ids from a list of names; False if a name is not declared."""
        cdef uint16_t* to = <uint16_t*>scratch_reserve(self.scratch + 2 * TYPE + 1, max(1, len(values)) * sizeof(uint16_t))
        cdef PyObject* seen[16]      # equal names are usually the same object
        cdef uint16_t ids[16]
        cdef PyObject* type_id
        cdef PyObject* text
        cdef Py_ssize_t i
        cdef int slot
        if to == NULL:
            return False
        memset(seen, 0, sizeof(seen))
        for i in range(len(values)):
            text = PyList_GET_ITEM(values, i)
            slot = (<uintptr_t>text >> 4) & 15
            if seen[slot] != text:
                if not PyUnicode_CheckExact(<object>text):
                    return False
                type_id = PyDict_GetItemWithError(self.type_ids, <object>text)
                if type_id == NULL:
                    return False
                seen[slot], ids[slot] = text, <object>type_id
            to[i] = ids[slot]
        self.events.types = to
        return True

    cdef bint _codes_of_types(self, const int64_t* values, int64_t n) noexcept:
        """Set the type ids from codes; ``values`` NULL: all events have type 0. False with more than 16 types."""
        cdef uint16_t* to = <uint16_t*>scratch_reserve(self.scratch + 2 * TYPE + 1, max(n, <int64_t>1) * sizeof(uint16_t))
        cdef int64_t code[16]
        cdef int64_t i
        cdef int k, n_types
        if to == NULL:
            return False
        self.events.types = to
        if values == NULL:
            memset(to, 0, n * sizeof(uint16_t))
            return True
        n_types = len(self.type_codes)
        if n_types > 16:
            return False
        for k in range(n_types):
            code[k] = self.type_codes[k]
        for i in range(n):
            k = 0
            while k < n_types and code[k] != values[i]:
                k += 1
            if k == n_types:
                return False
            to[i] = k
        return True

    cdef bint _texts(self, int place, const ArrowArray* array, const Field* field) except -1:
        """Set the codes of a string column; False if it has many rows or invalid UTF-8."""
        cdef int64_t n = array.length, i, size, at
        cdef const uint8_t* nulls = NULL
        cdef const int64_t* indices = NULL
        cdef const ArrowArray* entries = array
        cdef char format = field.format
        cdef Scratch* scratch = self.scratch + 2 * place
        cdef int64_t* to
        cdef const char* text
        cdef dict codes = self.strings.codes
        cdef PyObject* code
        if n > MANY_TEXTS or null_flags(array, scratch + 1, &nulls) < 0:
            return False
        if field.entries:
            entries, format = array.dictionary, field.entries
            if entries.null_count != 0 and entries.buffers[0] != NULL:
                return False
            indices = int_values(array, field.format, scratch)
            if indices == NULL:
                return False
        to = <int64_t*>scratch.data if indices == <const int64_t*>scratch.data else NULL
        if to == NULL:
            to = <int64_t*>scratch_reserve(scratch, n * sizeof(int64_t))
        if to == NULL:
            return False
        for i in range(n):
            if nulls != NULL and nulls[i]:
                to[i] = 0
                continue
            at = i if indices == NULL else indices[i]
            text = text_at(entries, format, at, &size)
            try:
                key = PyUnicode_DecodeUTF8(text, size, NULL)
            except UnicodeDecodeError:
                return False
            code = PyDict_GetItemWithError(codes, key)
            to[i] = <object>code if code != NULL else self.strings.intern(key)
        self.events.data[place - COLUMNS] = to
        self.events.null[place - COLUMNS] = nulls
        return True


cdef bint _store_layout(Field* fields, layout) except -1:
    """Store the layout of a schema; False if this reader does not support it."""
    cdef Py_ssize_t i
    if layout is None:
        return False
    for i, (child, format, entries, factor) in enumerate(layout):
        fields[i].child, fields[i].format, fields[i].entries, fields[i].factor = child, format, entries, factor
    return True


cdef bint _store_field(Field* field, layout) except -1:
    if layout is None:
        return False
    _, field.format, field.entries, field.factor = layout
    return True
