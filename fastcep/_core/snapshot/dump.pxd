# Dump the state of a query to NumPy arrays. See dump.pyx.
from fastcep._core.state.core cimport Core

cdef dict dump(Core* core)
cdef bint is_chained(const Core* core, int slot) noexcept nogil
