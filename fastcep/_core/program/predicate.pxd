# The predicate evaluator. See predicate.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastcep._core.program.machine cimport CHUNK, Code, Input, Kernel, Machine


cdef Machine* machine_new() except NULL
cdef void machine_free(Machine* vm) noexcept
cdef int run(Machine* vm, const Code* program, const Input* inputs, const int32_t* rows, int n,
             uint8_t* keep, int64_t** outputs, uint8_t** output_nulls, int64_t offset) noexcept nogil
