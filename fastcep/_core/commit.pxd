# What becomes of children. See commit.pyx.
from libc.stdint cimport int32_t, int64_t

from fastcep._core.core cimport Core
from fastcep._core.store cimport Bucket
from fastcep._core.tables cimport Edge


cdef void commit(Core* core, int member, int64_t j, int64_t position) noexcept nogil
cdef void emit_rows(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                    int64_t position) noexcept nogil
