# The loop over the events of a batch. See loop.pyx.
from libc.stdint cimport int64_t

from fastcep._core.input.batch cimport Events
from fastcep._core.matcher.interrupt cimport Pause
from fastcep._core.state.core cimport Core


cdef Py_ssize_t take_events(Core* core, const Events* events, Py_ssize_t first, Py_ssize_t n, Pause* pause) noexcept nogil
cdef void sweep_all(Core* core) noexcept nogil
cdef void recover_from_failure(Core* core) noexcept nogil
cdef void drop_all_rows(Core* core) noexcept nogil
cdef void release_idle_memory(Core* core, bint everything) noexcept nogil
cdef int64_t held_bytes(Core* core) noexcept nogil
