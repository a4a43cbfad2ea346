# Write complete matches to the output. See emit.pyx.
from libc.stdint cimport int32_t, int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.memory.vectors cimport Vec
from fastcep._core.program.plan_tables cimport Edge, State
from fastcep._core.state.core cimport Core


cdef void emit_staged(Core* core, const State* state, int64_t j) noexcept nogil
cdef void emit_rows(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                    int64_t position) noexcept nogil
cdef void write_row(Core* core, const State* state, int64_t j, Vec* values, Vec* lengths) noexcept nogil
cdef void end_event(Core* core, int64_t position, int64_t time) noexcept nogil
