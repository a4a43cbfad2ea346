# Matches repeated for each explicit window. See expand.pyx.
from fastcep._core.state.core cimport Core


cdef void expand(Core* core) noexcept nogil
