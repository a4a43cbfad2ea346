# cython: language_level=3
"""One event from keyword arguments to the columns that the loops read.

Keywords of a call are the same tuple whenever it comes from the same place of a program, so what they mean is found once.
A value of any but the plain type of its attribute, and whatever is wrong, is left to ``fastcep.events``.
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
    MANY = 64                # keywords of an event that is not for here


cdef class EventReader:
    """The events of one type.

    Parameters
    ----------
    type_id
        Its number.
    places
        Per keyword the number of its column; n columns: time, n + 1: sequence number.
    dtypes
        Of all columns of the schema, a letter each: i, f, b or s.
    factor
        Nanoseconds of a unit of time.
    is_numbered
        Whether there must be a sequence number.
    strings
        Codes of texts.
    """

    def __cinit__(self, int type_id, dict places, bytes dtypes, int64_t factor, bint is_numbered, strings):
        cdef int c
        self.n_columns = len(dtypes)
        self.places, self.dtypes, self.strings = places, dtypes + b"ii", strings
        self.factor, self.limit, self.is_numbered = factor, INT64_MAX // factor, is_numbered
        self.type, self.null = type_id, 1
        self.values = <int64_t*>calloc(self.n_columns + 2, sizeof(int64_t))
        self.order = <int*>calloc(MANY, sizeof(int))
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

    cdef bint learn(self, tuple keywords):
        """Find what the keywords mean; False if there is one too many, or too few."""
        cdef PyObject* found
        cdef int i, place
        cdef bint timed = False, numbered = not self.is_numbered
        self.keywords = None
        if len(keywords) > MANY:
            return False
        for i in range(self.n_columns):
            self.events.null[i] = &self.null
            self.values[i] = 0
        for i in range(len(keywords)):
            found = PyDict_GetItemWithError(self.places, keywords[i])
            if found == NULL:
                return False
            place = <object>found
            self.order[i] = place
            if place == self.n_columns:
                if timed:
                    return False
                timed = True
            elif place > self.n_columns:
                if numbered:
                    return False
                numbered = True
            else:
                if self.events.null[place] == NULL:  # two attributes, one column
                    return False
                self.events.null[place] = NULL
        if timed and numbered:
            self.keywords = keywords
        return timed and numbered

    cdef bint fill(self, PyObject** given, tuple keywords) except -1:
        """Take the values that were given; False: they are not for here."""
        cdef Py_ssize_t n = len(keywords), i
        cdef PyObject* value
        cdef int place
        cdef char dtype
        cdef const char* dtypes = self.dtypes
        if keywords is not self.keywords and not self._knows(keywords) and not self.learn(keywords):
            return False
        for i in range(n):
            place = self.order[i]
            value = given[i]
            dtype = dtypes[place]
            if place < self.n_columns:
                self.events.null[place] = NULL
                if <object>value is None:
                    self.events.null[place] = &self.null
                    self.values[place] = 0
                    continue
            if dtype == b"i":
                if not _whole(<object>value, self.values + place):
                    return False
            elif dtype == b"f":
                if PyFloat_Check(<object>value):
                    (<double*>self.values)[place] = PyFloat_AS_DOUBLE(<object>value)
                elif _whole(<object>value, self.values + place):
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

    cdef bint _knows(self, tuple keywords):
        """Whether they are those of the last call, in another tuple, as of ``send(type, **values)``."""
        cdef Py_ssize_t i
        if self.keywords is None or len(keywords) != len(self.keywords):
            return False
        for i in range(len(keywords)):
            if keywords[i] is not self.keywords[i]:
                return False
        return True

    cdef bint _intern(self, str text, int64_t* code) except -1:
        cdef PyObject* found = PyDict_GetItemWithError(<dict>self.strings.codes, text)
        if found == NULL:
            try:
                text.encode()
            except UnicodeEncodeError:
                return False
            code[0] = self.strings.intern(text)
        else:
            code[0] = <object>found
        return True


cdef inline bint _whole(object value, int64_t* to) except -1:
    """Take an int, or one of NumPy's, that fits; False if it is another thing."""
    cdef int over = 0
    if not PyLong_CheckExact(value):
        if type(value) is not Int64:
            return False
        value = int(value)
    to[0] = PyLong_AsLongLongAndOverflow(value, &over)
    return not over
