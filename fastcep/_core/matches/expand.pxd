# Matches in every explicit window that they lie in. See expand.pyx.
from fastcep._core.state.core cimport Core


cdef void expand(Core* core) noexcept nogil
