# cython: language_level=3
"""Reads what is usual of a batch: a record batch of pyarrow, or a dict of arrays, whose types the loops can read.

Everything else, and everything that is wrong, is left to ``fastcep.events``, which tells what it is: ``read`` says False
then, and nothing has happened. What it reads is what that would: the tests hold them against each other. Views of the
data hold until ``done``.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint16_t, uint64_t, uintptr_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcmp, memset

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
    ArrowArray, bool_values, cleared, float_values, int_values, null_flags, room_for, room_free, room_rest, text_at,
)

cnp.import_array()

cdef object RecordBatch = pa.RecordBatch, Table = pa.Table, Array = pa.Array, ChunkedArray = pa.ChunkedArray

cdef enum:
    TIME
    TYPE
    SEQUENCE
    COLUMNS                  # the first of them
    MANY_TEXTS = 2048        # rows from which Arrow finds the distinct texts of a column faster
    UNKNOWN = 0xFFFF


cdef class BatchReader:
    """The reader of one schema.

    Parameters
    ----------
    layout_of
        Gives for an Arrow schema, or type, ``(place, format, format of entries, factor)`` per source, or None.
    strings
        Codes of texts.
    sources
        Columns of time, type, sequence number and attributes; None where there is none.
    dtypes
        Of the attributes, a letter each: i, f, b or s.
    type_names
        By id.
    codes
        Theirs; None if the data has names.
    """

    def __cinit__(self, layout_of, strings, tuple sources, bytes dtypes, tuple type_names, codes):
        cdef Py_ssize_t i
        cdef int slot
        self.layout_of, self.strings, self.sources, self.dtypes = layout_of, strings, sources, dtypes
        self.has_texts = b"s" in dtypes
        named = [source for source in sources if type(source) is str]
        self.place_of = {source: i for i, source in enumerate(sources) if type(source) is str}
        self.is_mapped = len(self.place_of) == len(named) == len([source for source in sources if source is not None])
        self.n_sources = len(sources)
        self.type_ids = {name: i for i, name in enumerate(type_names)}
        self.texts = [name.encode("utf-8", "surrogatepass") for name in type_names]
        self.codes = codes
        self.kinds = [None] * len(sources)
        self.slot_mask = 7
        while self.slot_mask < 2 * len(type_names):
            self.slot_mask = 2 * self.slot_mask + 1
        self.slots = <int*>calloc(self.slot_mask + 1, sizeof(int))
        self.names = <TypeName*>calloc(len(type_names), sizeof(TypeName))
        self.fields = <Field*>calloc(self.n_sources, sizeof(Field))
        self.loose = <Field*>calloc(self.n_sources, sizeof(Field))
        self.rooms = <Room*>calloc(2 * self.n_sources, sizeof(Room))
        self.parts = <ArrowArray*>calloc(self.n_sources, sizeof(ArrowArray))
        self.plain = <const void**>calloc(2 * self.n_sources, sizeof(void*))
        self.events.data = <const int64_t**>calloc(self.n_sources, sizeof(void*))
        self.events.null = <const uint8_t**>calloc(self.n_sources, sizeof(void*))
        if (self.slots == NULL or self.names == NULL or self.fields == NULL or self.loose == NULL or self.rooms == NULL
                or self.parts == NULL or self.plain == NULL or self.events.data == NULL or self.events.null == NULL):
            raise MemoryError("no memory for the engine")
        memset(self.slots, 0xFF, (self.slot_mask + 1) * sizeof(int))
        for i, text in enumerate(self.texts):
            self.names[i].text, self.names[i].size = <const char*><bytes>text, len(text)
            slot = _slot(self.names[i].text, self.names[i].size) & self.slot_mask
            self.names[i].next = self.slots[slot]
            self.slots[slot] = <int>i

    def __dealloc__(self):
        cdef int i
        self.done()
        for i in range(2 * self.n_sources if self.rooms != NULL else 0):
            room_free(self.rooms + i)
        free(self.slots)
        free(self.names)
        free(self.fields)
        free(self.loose)
        free(self.rooms)
        free(self.parts)
        free(<void*>self.plain)
        free(<void*>self.events.data)
        free(<void*>self.events.null)

    cdef bint read(self, data) except -1:
        """Read a batch into ``events``; False: it is not for here."""
        cdef bint taken = False
        kind = type(data)
        self.events.sequence = NULL
        try:
            if kind is RecordBatch:
                taken = self._read_batch(data)
            elif kind is dict:
                taken = self._read_mapping(data)
            elif kind is Table:
                batches = data.to_batches()
                taken = len(batches) == 1 and self._read_batch(batches[0])
        finally:
            if not taken:
                self.done()
        return taken and self.events.size > 0

    cdef void done(self) noexcept:
        """Let go of the data."""
        cdef int i
        if self.held:
            self.held.clear()
        if self.whole.release != NULL:
            self.whole.release(&self.whole)
            self.whole.release = NULL
        for i in range(self.n_sources if self.parts != NULL else 0):
            if self.parts[i].release != NULL:
                self.parts[i].release(self.parts + i)
                self.parts[i].release = NULL
        for i in range(2 * self.n_sources if self.rooms != NULL else 0):
            room_rest(self.rooms + i)

    # ------------------------------------------------------------------ where columns are

    cdef bint _read_batch(self, batch) except -1:
        cdef int i
        schema = batch.schema
        if schema is not self.known:
            if self.known is None or not schema.equals(self.known):
                self.is_read = _place(self.fields, self.layout_of(schema))
            self.known = schema
        if not self.is_read:
            return False
        batch._export_to_c(<uintptr_t>&self.whole)
        if self.whole.offset != 0 or self.whole.null_count > 0:
            return False
        self.events.size = self.whole.length
        for i in range(self.n_sources):
            if self.fields[i].child >= 0 and not self._fill(i, self.whole.children[self.fields[i].child], self.fields + i):
                return False
        return self.fields[TYPE].child >= 0 or self._codes_of_types(NULL, self.whole.length)

    cdef bint _read_mapping(self, dict data) except -1:
        """Columns by name; one more, or one less, is not for here."""
        cdef PyObject* found
        cdef int place
        cdef int64_t size = -1, n
        if not self.is_mapped or len(data) != len(self.place_of):
            return False
        self.events.size = -1
        self.is_listed = False
        if self.held is None:
            self.held = []
        for name, values in data.items():
            found = PyDict_GetItemWithError(self.place_of, name)
            if found == NULL:
                return False
            place = <object>found
            if place == TYPE and self.codes is None and type(values) is cnp.ndarray:
                values = values.tolist()
            if type(values) is list:
                if place != TYPE or self.codes is not None or not self._types_of_list(values):
                    return False
                self.is_listed = True
                n = len(<list>values)
            elif not self._export(place, values, &n):
                return False
            if size >= 0 and size != n:
                return False
            size = n
        self.events.size = size
        for place in range(self.n_sources):
            if self.sources[place] is None or (place == TYPE and self.is_listed):
                continue
            if not self._fill(place, self.parts + place, self.loose + place):
                return False
        return self.sources[TYPE] is not None or self._codes_of_types(NULL, size)

    cdef bint _export(self, int place, values, int64_t* size) except -1:
        """Describe an array of NumPy, or pyarrow, in ``parts``."""
        cdef ArrowArray* part = self.parts + place
        cdef Field* field = self.loose + place
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
            if self.kinds[place] is not letter:
                if not _place_one(field, self.layout_of(letter, place)):
                    return False
                self.kinds[place] = letter
            self.plain[2 * place + 1] = cnp.PyArray_DATA(array)
            self.held.append(array)
            part.buffers = self.plain + 2 * place
            part.length, part.offset, part.null_count = size[0], 0, 0
            return True
        if type(values) is ChunkedArray and values.num_chunks == 1:
            values = values.chunk(0)
        if not isinstance(values, Array):
            return False
        kind = values.type
        if self.kinds[place] is not kind:
            if self.kinds[place] is None or type(self.kinds[place]) is str or not kind.equals(self.kinds[place]):
                if not _place_one(field, self.layout_of(kind, place)):
                    return False
            self.kinds[place] = kind
        values._export_to_c(<uintptr_t>part)
        size[0] = part.length
        return True

    # ------------------------------------------------------------------ what stands there

    cdef bint _fill(self, int place, const ArrowArray* array, const Field* field) except -1:
        """Set one column of ``events``."""
        cdef Room* room = self.rooms + 2 * place
        cdef const uint8_t* nulls
        cdef const int64_t* values
        cdef int64_t n = array.length, factor = field.factor
        cdef char dtype
        if n != self.events.size or n == 0 or null_flags(array, room + 1, &nulls) < 0:
            return False
        if place < COLUMNS and nulls != NULL:
            return False
        if place == TYPE:
            if self.codes is None:
                return self._types_of_texts(array, field)
            values = int_values(array, field.format, room)
            return values != NULL and self._codes_of_types(values, n)
        dtype = self.dtypes[place - COLUMNS] if place >= COLUMNS else b"i"
        if dtype == b"s":
            return self._texts(place, array, field)
        if dtype == b"f":
            values = float_values(array, field.format, room)
        elif dtype == b"b":
            values = bool_values(array, room)
        else:
            values = int_values(array, field.format, room)
        if values != NULL and nulls != NULL:
            values = cleared(values, nulls, n, room)
        if values == NULL:
            return False
        if place == SEQUENCE:
            self.events.sequence = values
        elif place >= COLUMNS:
            self.events.data[place - COLUMNS] = values
            self.events.null[place - COLUMNS] = nulls
        else:
            return self._times(values, n, factor, room)
        return True

    cdef bint _times(self, const int64_t* values, int64_t n, int64_t factor, Room* room) noexcept:
        """Times in nanoseconds; False if they do not ascend, or do not fit."""
        cdef int64_t* to
        cdef int64_t limit = INT64_MAX // factor
        if values[0] < -limit or values[n - 1] > limit:
            return False
        if factor == 1:
            self.events.time = values
            return fc_ascends(values, n)
        if values == room.data:
            if not fc_ascends(values, n):
                return False
            fc_scale(values, n, factor, <int64_t*>room.data)
            self.events.time = values
            return True
        to = <int64_t*>room_for(room, n * sizeof(int64_t))
        self.events.time = to
        return to != NULL and fc_scale(values, n, factor, to)

    cdef int _type_of(self, const char* text, int64_t size) noexcept nogil:
        """The id of the type of this name, or UNKNOWN."""
        cdef int i = self.slots[_slot(text, size) & self.slot_mask]
        while i >= 0:
            if self.names[i].size == size and memcmp(self.names[i].text, text, size) == 0:
                return i
            i = self.names[i].next
        return UNKNOWN

    cdef bint _types_of_texts(self, const ArrowArray* array, const Field* field) noexcept:
        """Type ids from names; False if one is not declared."""
        cdef int64_t n = array.length, i, size
        cdef uint16_t* to = <uint16_t*>room_for(self.rooms + 2 * TYPE + 1, n * sizeof(uint16_t))
        cdef uint16_t known[256]
        cdef const int64_t* indices
        cdef const ArrowArray* entries = array.dictionary
        cdef const char* text
        cdef uint16_t unknown = 0
        cdef bint some_unknown = False
        if to == NULL:
            return False
        self.events.types = to
        if field.entries == 0:
            for i in range(n):
                text = text_at(array, field.format, i, &size)
                to[i] = self._type_of(text, size)
                unknown |= to[i] == UNKNOWN
            return not unknown
        if entries.length > 256 or (entries.null_count != 0 and entries.buffers[0] != NULL):
            return False
        for i in range(entries.length):
            text = text_at(entries, field.entries, i, &size)
            known[i] = self._type_of(text, size)
            some_unknown |= known[i] == UNKNOWN
        if field.format == b"i":
            fc_look_up(<const int32_t*>array.buffers[1] + array.offset, n, known, entries.length, to)
            for i in range(n if some_unknown else 0):
                unknown |= to[i] == UNKNOWN
            return not unknown
        indices = int_values(array, field.format, self.rooms + 2 * TYPE)
        if indices == NULL:
            return False
        for i in range(n):
            to[i] = known[indices[i]]
            unknown |= to[i] == UNKNOWN
        return not unknown

    cdef bint _types_of_list(self, list values) except -1:
        """Type ids from a list of texts."""
        cdef uint16_t* to = <uint16_t*>room_for(self.rooms + 2 * TYPE + 1, max(1, len(values)) * sizeof(uint16_t))
        cdef PyObject* seen[16]      # the same text is mostly the same object
        cdef uint16_t ids[16]
        cdef PyObject* found
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
                found = PyDict_GetItemWithError(self.type_ids, <object>text)
                if found == NULL:
                    return False
                seen[slot], ids[slot] = text, <object>found
            to[i] = ids[slot]
        self.events.types = to
        return True

    cdef bint _codes_of_types(self, const int64_t* values, int64_t n) noexcept:
        """Type ids from codes, of which there are few; NULL: all are the one type."""
        cdef uint16_t* to = <uint16_t*>room_for(self.rooms + 2 * TYPE + 1, max(n, <int64_t>1) * sizeof(uint16_t))
        cdef int64_t code[16]
        cdef int64_t i
        cdef int k, many
        if to == NULL:
            return False
        self.events.types = to
        if values == NULL:
            memset(to, 0, n * sizeof(uint16_t))
            return True
        many = len(self.codes)
        if many > 16:
            return False
        for k in range(many):
            code[k] = self.codes[k]
        for i in range(n):
            k = 0
            while k < many and code[k] != values[i]:
                k += 1
            if k == many:
                return False
            to[i] = k
        return True

    cdef bint _texts(self, int place, const ArrowArray* array, const Field* field) except -1:
        """Codes of texts."""
        cdef int64_t n = array.length, i, size, at
        cdef const uint8_t* nulls = NULL
        cdef const int64_t* indices = NULL
        cdef const ArrowArray* entries = array
        cdef char format = field.format
        cdef Room* room = self.rooms + 2 * place
        cdef int64_t* to
        cdef const char* text
        cdef dict codes = self.strings.codes
        cdef PyObject* found
        if n > MANY_TEXTS or null_flags(array, room + 1, &nulls) < 0:
            return False
        if field.entries:
            entries, format = array.dictionary, field.entries
            if entries.null_count != 0 and entries.buffers[0] != NULL:
                return False
            indices = int_values(array, field.format, room)
            if indices == NULL:
                return False
        to = <int64_t*>room.data if indices == <const int64_t*>room.data else NULL
        if to == NULL:
            to = <int64_t*>room_for(room, n * sizeof(int64_t))
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
            found = PyDict_GetItemWithError(codes, key)
            to[i] = <object>found if found != NULL else self.strings.intern(key)
        self.events.data[place - COLUMNS] = to
        self.events.null[place - COLUMNS] = nulls
        return True


cdef inline uint64_t _slot(const char* text, int64_t size) noexcept nogil:
    cdef uint64_t h = 1469598103934665603ULL
    cdef int64_t i
    for i in range(size):
        h = (h ^ <uint8_t>text[i]) * 1099511628211ULL
    return h ^ h >> 32


cdef bint _place(Field* fields, layout) except -1:
    """Note the layout of a schema; False if it is not for here."""
    cdef Py_ssize_t i
    if layout is None:
        return False
    for i, (child, format, entries, factor) in enumerate(layout):
        fields[i].child, fields[i].format, fields[i].entries, fields[i].factor = child, format, entries, factor
    return True


cdef bint _place_one(Field* field, layout) except -1:
    if layout is None:
        return False
    _, field.format, field.entries, field.factor = layout
    return True
