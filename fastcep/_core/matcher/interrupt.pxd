# How many events are matched before the engine looks for signals again. See interrupt.pyx.
from libc.stdint cimport int64_t


cdef struct Pause:           # of one loop over events; NULL where it must not pause
    int64_t deadline         # ns, `monotonic`: after it the loop pauses before the next chunk; -1: after every chunk
    int most                 # events of a chunk
    int chunks               # after so many of them the clock is read
    bint paused


cdef int64_t monotonic() noexcept nogil
cdef int64_t deadline() noexcept
cdef bint always() noexcept
cdef bint is_over(Pause* pause, int64_t* began) noexcept nogil
cdef int poll() except -1
cpdef int call_hook() except -1


cdef class Pieces:
    cdef Py_ssize_t step
    cdef int64_t began

    cpdef Py_ssize_t begin(self, Py_ssize_t rest, Py_ssize_t least=*) noexcept
    cpdef void end(self, Py_ssize_t events) noexcept
