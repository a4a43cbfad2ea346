# cython: language_level=3
"""Read a single event from keyword arguments into the columns that the matchers read.

A call site always passes the same tuple of keywords, so the reader resolves them once. Values that do not have the
plain type of their attribute, and invalid values, are left to ``fastcep.events``.
"""
from cpython.dict cimport PyDict_GetItemWithError
from cpython.float cimport PyFloat_AS_DOUBLE, PyFloat_Check
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.ref cimport PyObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport INT64_MAX, int64_t, uint8_t
from libc.stdlib cimport calloc, free

from numpy import int64 as Int64

cdef enum:
    MAX_KEYWORDS = 64        # events with more keywords are left to ``fastcep.events``


cdef class EventReader:
    """Reads single events of one type.

    Parameters
    ----------
    type_id
        Id of the type.
    places
        Per keyword: the number of its column; n for the time and n + 1 for the sequence number, for n columns.
    dtypes
        One letter per column of the schema: i, f, b, s or t.
    factor
        Nanoseconds per unit of time.
    is_numbered
        Whether events have a sequence number.
    strings
        String table, which assigns a code to each string.
    """

    def __cinit__(self, int type_id, dict places, bytes dtypes, int64_t factor, bint is_numbered, strings):
        cdef int c
        self.n_columns = len(dtypes)
        self.places, self.dtypes, self.strings = places, dtypes + b"ii", strings
        self.factor, self.limit, self.is_numbered = factor, INT64_MAX // factor, is_numbered
        self.type, self.null = type_id, 1
        self.values = <int64_t*>calloc(self.n_columns + 2, sizeof(int64_t))
        self.order = <int*>calloc(MAX_KEYWORDS, sizeof(int))
        self.events.data = <const int64_t**>calloc(self.n_columns + 1, sizeof(void*))
        self.events.null = <const uint8_t**>calloc(self.n_columns + 1, sizeof(void*))
        if self.values == NULL or self.order == NULL or self.events.data == NULL or self.events.null == NULL:
            raise MemoryError("no memory for the engine")
        self.events.size = 1
        self.events.types = &self.type
        self.events.time = self.values + self.n_columns
        self.events.sequence = self.values + self.n_columns + 1 if is_numbered else NULL
        for c in range(self.n_columns):
            self.events.data[c] = self.values + c
            self.events.null[c] = &self.null

    def __dealloc__(self):
        free(self.values)
        free(self.order)
        free(<void*>self.events.data)
        free(<void*>self.events.null)

    cdef bint _resolve(self, tuple keywords):
        """Find the column of each keyword; False if a keyword is unknown or repeated, or if one is missing."""
        cdef PyObject* entry
        cdef int i, place
        cdef bint has_time = False, has_number = not self.is_numbered
        self.keywords = None
        if len(keywords) > MAX_KEYWORDS:
            return False
        for i in range(self.n_columns):
            self.events.null[i] = &self.null
            self.values[i] = 0
        for i in range(len(keywords)):
            entry = PyDict_GetItemWithError(self.places, keywords[i])
            if entry == NULL:
                return False
            place = <object>entry
            self.order[i] = place
            if place == self.n_columns:
                if has_time:
                    return False
                has_time = True
            elif place > self.n_columns:
                if has_number:
                    return False
                has_number = True
            else:
                if self.events.null[place] == NULL:  # two keywords for one column
                    return False
                self.events.null[place] = NULL
        if has_time and has_number:
            self.keywords = keywords
        return has_time and has_number

    cdef bint fill(self, PyObject** arguments, tuple keywords) except -1:
        """Read the values of an event into ``events``; False if this reader does not support them."""
        cdef Py_ssize_t n = len(keywords), i
        cdef PyObject* value
        cdef int place
        cdef char dtype
        cdef const char* dtypes = self.dtypes
        if keywords is not self.keywords and not self._are_last(keywords) and not self._resolve(keywords):
            return False
        for i in range(n):
            place = self.order[i]
            value = arguments[i]
            dtype = dtypes[place]
            if place < self.n_columns:
                self.events.null[place] = NULL
                if <object>value is None:
                    self.events.null[place] = &self.null
                    self.values[place] = 0
                    continue
            if dtype == b"i":
                if not _read_int(<object>value, self.values + place):
                    return False
            elif dtype == b"t":
                if not _read_int(<object>value, self.values + place):
                    return False
                if not -self.limit <= self.values[place] <= self.limit:
                    return False
                self.values[place] *= self.factor
            elif dtype == b"f":
                if PyFloat_Check(<object>value):
                    (<double*>self.values)[place] = PyFloat_AS_DOUBLE(<object>value)
                elif _read_int(<object>value, self.values + place):
                    (<double*>self.values)[place] = <double>self.values[place]
                else:
                    return False
            elif dtype == b"b":
                if <object>value is not True and <object>value is not False:
                    return False
                self.values[place] = <object>value is True
            elif not PyUnicode_CheckExact(<object>value) or not self._intern(<str>value, self.values + place):
                return False
        if not -self.limit <= self.values[self.n_columns] <= self.limit:
            return False
        self.values[self.n_columns] *= self.factor
        return True

    cdef bint _are_last(self, tuple keywords):
        """Return True if the keywords equal those of the last call in another tuple, as in ``send(type, **values)``."""
        cdef Py_ssize_t i
        if self.keywords is None or len(keywords) != len(self.keywords):
            return False
        for i in range(len(keywords)):
            if keywords[i] is not self.keywords[i]:
                return False
        return True

    cdef bint _intern(self, str text, int64_t* code) except -1:
        cdef PyObject* entry = PyDict_GetItemWithError(<dict>self.strings.codes, text)
        if entry == NULL:
            try:
                text.encode()
            except UnicodeEncodeError:
                return False
            code[0] = self.strings.intern(text)
        else:
            code[0] = <object>entry
        return True


cdef inline bint _read_int(object value, int64_t* to) except -1:
    """Write an int, or a NumPy int64, to ``to``; False if the value has another type or does not fit."""
    cdef int overflow = 0
    if not PyLong_CheckExact(value):
        if type(value) is not Int64:
            return False
        value = int(value)
    to[0] = PyLong_AsLongLongAndOverflow(value, &overflow)
    return not overflow
