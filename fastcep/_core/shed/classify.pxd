# Classes of partial matches and events. See classify.pyx.
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memset

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport Classifier


cdef inline void classify(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                          int k) noexcept nogil:
    """Write the classes of the children of ``n`` rows of a bucket (as for ``stage_rows``) to ``shed.classes``."""
    if core.shed.classifiers[edge.target].n_features > 0 and edge.has_features:
        classify_features(core, edge, bucket, first, rows, n, k)
    else:
        memset(core.shed.classes, 0, n * sizeof(int64_t))


cdef inline int64_t class_of_event(const Core* core, int variable, int k) noexcept nogil:
    """Return the class of event ``k`` of the chunk, by the classifier of a variable."""
    return class_of_features(core, variable, k) if core.shed.by_variable[variable].n_features > 0 else 0


cdef void classify_features(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                            int k) noexcept nogil
cdef int64_t class_of_features(const Core* core, int variable, int k) noexcept nogil
cdef object set_classifier(Classifier* classifier, item, str dtypes)
cdef int largest_class(item) except -1
