# Programs as C arrays. See code.pyx.
from fastcep._core.program.machine cimport Code


cdef int code_new(Code* out, object program, object intern) except -1
cdef int find_comparisons(Code* code) except -1
cdef void code_free(Code* code) noexcept
