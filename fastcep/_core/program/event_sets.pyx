# cython: language_level=3
"""Select the events of a chunk by type and by comparisons of a column with a constant, many at once.

The result is a set with one bit per event (event_sets.h), which is then listed. So an event that no variable may bind
costs a fraction of an instruction, and no branch.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free

import numpy as np

from fastcep._core.program.machine cimport CHUNK, Code, Comparison, Input

cdef extern from "event_sets.h":
    bint FC_HAS_SIMD
    void fc_of_types_any(const TypeSet*, const uint16_t*, int, uint64_t*) noexcept nogil
    void fc_of_types_simd(const TypeSet*, const uint16_t*, int, uint64_t*) noexcept nogil
    void fc_without_nulls_any(const uint8_t*, int, uint64_t*) noexcept nogil
    void fc_without_nulls_simd(const uint8_t*, int, uint64_t*) noexcept nogil
    void fc_compare_any(const int64_t*, int, int, int64_t, uint64_t*) noexcept nogil
    void fc_compare_simd(const int64_t*, int, int, int64_t, uint64_t*) noexcept nogil
    int fc_list_any(const uint64_t*, int, int32_t*) noexcept nogil
    int fc_list_simd(const uint64_t*, int, int32_t*) noexcept nogil

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil


cdef int type_set_new(TypeSet* out, object members, int n_types) except -1:
    """Make the set of the type ids in ``members``; ``has`` is to be freed."""
    out.n_types = n_types
    out.has = <uint8_t*>calloc(n_types + 1, 1)
    if out.has == NULL:
        raise MemoryError("no memory for a set of types")
    for number in members:
        out.has[<int>number] = 1
    fc_type_set_fill(out)
    return 0


cdef int selections_new(
        Selections* out, tuple type_variables, const Code* locals, const uint64_t* local_variables, int n) except -1:
    """Group ``n`` variables by the comparisons of their programs.

    ``type_variables`` has the variables of each type id, ``local_variables`` those of each program, as bit sets.
    """
    cdef uint64_t others = ~<uint64_t>0
    cdef int i
    cdef list types = [number for number, variables in enumerate(type_variables) if variables]
    type_set_new(&out.types, types, len(type_variables))
    out.items = <Selection*>calloc(n + 1, sizeof(Selection))
    if out.items == NULL:
        raise MemoryError("no memory for the selections")
    for i in range(n):
        if local_variables[i] and locals[i].n_comparisons:
            _add_selection(out, type_variables, local_variables[i], locals + i)
            others &= ~local_variables[i]
    _add_selection(out, type_variables, others, NULL)
    return 0


cdef int _add_selection(Selections* out, tuple type_variables, uint64_t variables, const Code* program) except -1:
    cdef Selection* selection = out.items + out.n
    cdef list types = [number for number, bits in enumerate(type_variables) if bits & variables]
    if types:
        out.n += 1
        selection.variables, selection.program = variables, program
        type_set_new(&selection.types, types, len(type_variables))
    return 0


cdef void selections_free(Selections* selections) noexcept:
    """Free the sets of types."""
    cdef int i
    free(selections.types.has)
    for i in range(selections.n):
        free(selections.items[i].types.has)
    free(selections.items)


cdef void compare_events(const Code* program, const Input* inputs, int m, uint64_t* events) noexcept nogil:
    """Remove the events that fail a comparison at the beginning of a program over columns, or whose value is null."""
    cdef const Comparison* comparison
    cdef int i
    FC_CHECK(m <= CHUNK)
    for i in range(program.n_comparisons):
        comparison = program.comparisons + i
        fc_compare(inputs[comparison.input].data, m, comparison.operation, comparison.constant, events)
        if inputs[comparison.input].nulls != NULL:
            fc_without_nulls(inputs[comparison.input].nulls, m, events)


# ---------------------------------------------------------------------- for tests

def select(const uint16_t[::1] types, members, int n_types, comparisons, bint simd):
    """Return the numbers of the events, at most ``CHUNK``, whose type is in ``members`` and that pass all comparisons.

    A comparison is ``(operation, values, constant, nulls)`` with int64 values, or the bits of float64, and null flags
    or None. ``simd``: by AVX2, if the processor and the build have it.

    Raises
    ------
    ValueError
        If there are more events than a chunk has, or a column has another length.
    AssertionError
        If numbers were written past the room that `fc_list` needs.
    """
    cdef TypeSet chosen
    cdef uint64_t events[SET_WORDS]
    cdef int n = <int>types.shape[0]
    cdef const int64_t[::1] values
    cdef const uint8_t[::1] nulls
    cdef int32_t[::1] rows = np.full(CHUNK + 8, -1, np.int32)
    cdef const uint16_t* first = &types[0] if n else NULL
    if n > CHUNK or any(len(column) != n for _, column, _, _ in comparisons):
        raise ValueError(f"expected columns of the same length, at most {CHUNK}")
    type_set_new(&chosen, members, n_types)
    simd = simd and FC_HAS_SIMD
    (fc_of_types_simd if simd and fc_is_simd(&chosen) else fc_of_types_any)(&chosen, first, n, events)
    free(chosen.has)
    for operation, values, constant, nulls in comparisons if n else ():
        (fc_compare_simd if simd else fc_compare_any)(&values[0], n, operation, constant, events)
        if nulls is not None:
            (fc_without_nulls_simd if simd else fc_without_nulls_any)(&nulls[0], n, events)
    found = (fc_list_simd if simd else fc_list_any)(events, n, &rows[0])
    if (np.asarray(rows)[(n + 7) // 8 * 8:] != -1).any():
        raise AssertionError("fc_list wrote past its room")
    return np.asarray(rows[:found])
