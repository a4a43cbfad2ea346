# Load the state of a query from NumPy arrays. See load.pyx.
from fastcep._core.state.core cimport Core

cdef int load(Core* core, dict state) except -1
