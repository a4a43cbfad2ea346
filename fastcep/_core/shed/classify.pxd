# Classes of partial matches and events. See classify.pyx.
from libc.stdint cimport int32_t, int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport Classifier


cdef void classify(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                   int k) noexcept nogil
cdef int64_t class_of_event(const Core* core, int variable, int k) noexcept nogil
cdef object set_classifier(Classifier* classifier, item, str dtypes)
cdef int largest_class(item) except -1
