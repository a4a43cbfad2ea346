# cython: language_level=3
"""Tables of a function of strings by string code, filled one string at a time by a Python callable."""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from fastcep._core.program.text_entry cimport (
    __ATOMIC_ACQUIRE, __atomic_load_n, TEXT_ERROR, TEXT_NULL, TEXT_UNKNOWN, TEXT_VALUE, TextEntries,
)

cdef extern from *:
    void __atomic_store_n(int64_t*, int64_t, int) noexcept nogil
    int __ATOMIC_RELEASE

#: States that the callable of a `TextTable` returns.
VALUE, NULL_RESULT, ERROR = TEXT_VALUE, TEXT_NULL, TEXT_ERROR

cdef int64_t _NO_STRING[2]
_NO_STRING[0], _NO_STRING[1] = TEXT_NULL, 0
cdef enum:
    FIRST = 64  # codes of a new table


cdef class TextTable:
    """The results of one function by the code of its argument.

    Parameters
    ----------
    compute
        Function from a code to ``(state, word)``, or to None for a code that no string has. It is called with the GIL,
        once per code until `clear`, by any thread.

    Attributes
    ----------
    address
        Address of the table for programs, valid as long as this object exists.
    """
    cdef TextEntries table
    cdef object compute
    cdef list outgrown
    cdef object __weakref__

    def __cinit__(self, compute):
        self.compute = compute
        self.outgrown = []
        self.table.fill = &_fill
        self.table.owner = <void*>self
        self.table.entries = _new_entries(FIRST)

    def __dealloc__(self):
        self._free_outgrown()
        free(self.table.entries)

    @property
    def address(self):
        return <size_t>&self.table

    @property
    def nbytes(self):
        """Size of the arrays in bytes."""
        cdef Py_ssize_t words = 1 + 2 * self.table.entries[0]
        for address in self.outgrown:
            words += 1 + 2 * (<int64_t*><size_t>address)[0]
        return 8 * words

    def clear(self):
        """Forget all results; no program may run meanwhile."""
        self._free_outgrown()
        free(self.table.entries)
        self.table.entries = _new_entries(FIRST)

    cdef _free_outgrown(self):
        for address in self.outgrown:
            free(<void*><size_t>address)
        self.outgrown = []

    cdef const int64_t* _compute(self, int64_t code) except NULL:
        cdef int64_t* entries
        cdef int64_t state, word
        result = self.compute(code)
        if result is None:
            return _NO_STRING
        # The call may have let another thread fill or replace the table.
        if code >= self.table.entries[0]:
            entries = _new_entries(max(2 * self.table.entries[0], code + 1))
            memcpy(entries + 1, self.table.entries + 1, 2 * self.table.entries[0] * sizeof(int64_t))
            self.outgrown.append(<size_t>self.table.entries)
            __atomic_store_n(<int64_t*>&self.table.entries, <int64_t>entries, __ATOMIC_RELEASE)
        state, word = result
        entries = self.table.entries + 1 + 2 * code
        entries[1] = word
        __atomic_store_n(entries, state, __ATOMIC_RELEASE)
        return entries


cdef int64_t* _new_entries(int64_t codes) except NULL:
    cdef int64_t* entries = <int64_t*>calloc(1 + 2 * codes, sizeof(int64_t))
    if entries == NULL:
        raise MemoryError("no memory for the table of a text function")
    entries[0] = codes
    return entries


cdef const int64_t* _fill(void* owner, int64_t code) noexcept nogil:
    with gil:
        return _filled(<TextTable>owner, code)


cdef const int64_t* _filled(TextTable table, int64_t code) noexcept:
    try:
        return table._compute(code)
    except BaseException:  # out of memory, or an interrupt: the row gets null, and the next look-up tries again
        return _NO_STRING
