# cython: language_level=3
"""Memory of the tables of load shedding."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from fastcep._core.program.predicate cimport CHUNK
from fastcep._core.shed.flows cimport flows_free
from fastcep._core.state.draws cimport mixed
from fastcep._core.state.shedding_tables cimport MOST_FEATURES, Classifier, Shed


cdef int shed_init(
        Shed* shed, int n_types, int n_states, int stride, int variables, int variable_stride, uint64_t seed) noexcept nogil:
    """Allocate tables whose drop probabilities are all 0; returns -1 if memory ran out.

    ``stride``: largest number of classes of a state. ``variable_stride``: largest number of classes of the events of a
    variable.
    """
    shed_free(shed)
    shed.seed = mixed(seed + 0x9E3779B97F4A7C15ULL)
    shed.n_types, shed.stride = n_types, stride
    shed.variables, shed.variable_stride = variables, variable_stride
    shed.by_variable = <Classifier*>calloc(variables + 1, sizeof(Classifier))
    shed.features_of = <int32_t**>calloc(variables + 1, sizeof(int32_t*))
    shed.withhold = <int64_t*>calloc(3 * variables * variable_stride + 1, sizeof(int64_t))
    shed.by_type = <int64_t*>calloc(6 * n_types, sizeof(int64_t))
    shed.born = <int64_t*>calloc(3 * n_states * stride + 1, sizeof(int64_t))
    shed.classifiers = <Classifier*>calloc(n_states + 1, sizeof(Classifier))
    shed.values = <int64_t*>calloc((MOST_FEATURES + 1) * CHUNK, sizeof(int64_t))
    shed.nulls = <uint8_t*>calloc(MOST_FEATURES * CHUNK, 1)
    shed.numbers = <double*>calloc(MOST_FEATURES * CHUNK, sizeof(double))
    if (shed.by_type == NULL or shed.born == NULL or shed.classifiers == NULL or shed.values == NULL
            or shed.nulls == NULL or shed.numbers == NULL or shed.by_variable == NULL or shed.features_of == NULL
            or shed.withhold == NULL or slice_births(shed, n_states, 1) < 0):
        return -1
    shed.withheld = shed.withhold + variables * variable_stride
    shed.withhold_weights = shed.withhold + 2 * variables * variable_stride
    shed.dropped_events = shed.by_type + n_types
    shed.tried = shed.by_type + 2 * n_types
    shed.yielded = shed.by_type + 3 * n_types
    shed.seen = shed.by_type + 4 * n_types
    shed.type_weights = shed.by_type + 5 * n_types
    shed.refused = shed.born + n_states * stride
    shed.dropped = shed.born + 2 * n_states * stride
    shed.classes = shed.values + MOST_FEATURES * CHUNK
    shed.on = True
    return 0


cdef int slice_births(Shed* shed, int n_states, int slices) noexcept nogil:
    """Allocate probabilities of births by this number of age slices, all 0.

    Returns -1 if memory ran out; then the old tables are kept.
    """
    cdef int64_t cells = n_states * shed.stride * slices
    cdef int64_t* refuse = <int64_t*>calloc(2 * cells + 1, sizeof(int64_t))
    cdef int64_t* bounds = <int64_t*>calloc(slices, sizeof(int64_t))
    cdef uint8_t* ages = <uint8_t*>calloc(n_states + 1, 1)
    if refuse == NULL or bounds == NULL or ages == NULL:
        free(refuse)
        free(bounds)
        free(ages)
        return -1
    free(shed.refuse)
    free(shed.bounds)
    free(shed.ages)
    shed.refuse, shed.bounds, shed.ages, shed.slices, shed.bounds_at = refuse, bounds, ages, slices, -1
    shed.refuse_weights = refuse + cells
    shed.births = False
    return 0


cdef int in_windows_init(Shed* shed, int64_t bins, int64_t bin) noexcept nogil:
    """Allocate probabilities by type and bin of isolated windows, all 0, instead of the old ones.

    Returns -1 if memory ran out.
    """
    cdef int64_t cells = shed.n_types * bins
    in_windows_free(shed)
    shed.in_windows = <int64_t*>calloc(2 * cells, sizeof(int64_t))
    shed.in_windows_rows = <uint8_t*>calloc(shed.n_types + cells, 1)
    if shed.in_windows == NULL or shed.in_windows_rows == NULL:
        in_windows_free(shed)
        return -1
    shed.in_windows_weights = shed.in_windows + cells
    shed.in_windows_above = shed.in_windows_rows + shed.n_types
    shed.bins, shed.bin = bins, bin
    return 0


cdef void in_windows_free(Shed* shed) noexcept nogil:
    """Free the probabilities by type and bin of isolated windows."""
    free(shed.in_windows)
    free(shed.in_windows_rows)
    shed.in_windows = shed.in_windows_weights = NULL
    shed.in_windows_above = shed.in_windows_rows = NULL


cdef void shed_free(Shed* shed) noexcept nogil:
    """Free all tables except those of the classifiers, which Python owns."""
    free(shed.by_type)
    in_windows_free(shed)
    free(shed.refuse)
    free(shed.bounds)
    free(shed.ages)
    free(shed.born)
    flows_free(&shed.flows)
    free(shed.classifiers)
    free(shed.values)
    free(shed.nulls)
    free(shed.numbers)
    free(shed.by_variable)
    free(shed.features_of)
    free(shed.withhold)
    free(shed.cut.tried)
    free(shed.cut.yields)
    shed.cut.tried = NULL
    shed.cut.yields = NULL
    shed.cut.most = 0
    shed.cut.completing = 0
    shed.by_variable = NULL
    shed.features_of = NULL
    shed.withhold = NULL
    shed.by_type = shed.refuse = shed.bounds = shed.born = shed.values = NULL
    shed.nulls = shed.ages = NULL
    shed.numbers = NULL
    shed.classifiers = NULL
    shed.on = shed.events = shed.births = shed.binds = shed.weighs = False
    shed.window_weight = shed.whole = shed.whole_weight = 0
