# Signal checks while events are matched. See interrupt.pyx.
from libc.stdint cimport int64_t


cdef struct Pause:           # time limit of one loop over events; a NULL pointer where the loop must not pause
    int64_t deadline         # ns of `monotonic` after which the loop pauses at the next chunk; -1: at every chunk
    int chunk_size           # largest number of events per chunk
    int chunks_per_check     # number of chunks between two reads of the clock
    bint paused


cdef int64_t monotonic() noexcept nogil
cdef int64_t deadline() noexcept
cdef bint always() noexcept
cdef bint is_over(Pause* pause, int64_t* started) noexcept nogil
cdef int poll() except -1
cpdef int call_hook() except -1


cdef class Pieces:
    cdef Py_ssize_t size     # events of the next piece
    cdef int64_t started     # ns, when the current piece was started

    cpdef Py_ssize_t begin(self, Py_ssize_t remaining, Py_ssize_t least=*) noexcept
    cpdef void end(self, Py_ssize_t events) noexcept
