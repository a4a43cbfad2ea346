# cython: language_level=3
"""Event masks and event columns of a chunk.

Each bit of the mask of an event stands for a variable. It is set if the event may be bound to the variable, by its
type and by the conditions on the event alone. The bits come from the programs of the query or, in an engine of several
queries, from the lists of the shared ``filters``; then events that no variable of the query may bind are never read.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcpy, memset

from fastcep._core.input.batch cimport (
    COLUMN_COMPUTED, COLUMN_POSITION, COLUMN_PREVIOUS, COLUMN_SEQ, COLUMN_TIME, COLUMN_TYPE, Events,
)
from fastcep._core.program.event_sets cimport (
    SET_WORDS, Selection, add_events, compare_events, fc_is_simd, fc_list, fc_of_types, in_set,
)
from fastcep._core.program.plan_tables cimport Column
from fastcep._core.program.predicate cimport CHUNK, run
from fastcep._core.shed.drop cimport drop_events, withhold_events
from fastcep._core.state.core cimport Core, event_inputs
from fastcep._core.state.key_partition cimport hash_of, is_in_part
from fastcep._core.state.previous_events cimport find_previous


cdef int masks(Core* core, uint64_t* bits, int32_t* relevant, const Events* events, Py_ssize_t base, int m) noexcept nogil:
    """Compute the event masks and columns of ``m`` events; list the relevant ones in ``relevant`` and return their
    number.

    Only the masks and columns of relevant events are set. Sets ``failed`` if memory ran out.
    """
    cdef int n
    if core.shared:
        n = _merge_filters(core, bits, relevant, base, m)
        if core.parts > 1:
            n = _select_part(core, relevant, n, events, base)
        if core.shed.events:
            n = drop_events(core, bits, relevant, n, events.types + base, events.position + base)
        if n > 0 or core.partition != NULL:
            _set_columns(core, events, base, m)
    else:
        _set_columns(core, events, base, m)
        n = _run_filters(core, bits, relevant, events, base, m)
    if core.foreign != NULL:
        n = _remove_foreign(core.foreign + base, relevant, n)
    if n > 0 and not core.failed:
        _compute_columns(core, bits, relevant, n)
        if core.shed.binds or core.shed.flows.on or core.observed.on:
            n = withhold_events(core, bits, relevant, n, events.types + base, events.position + base)
    return n


cdef int _merge_filters(Core* core, uint64_t* bits, int32_t* relevant, Py_ssize_t base, int m) noexcept nogil:
    """Merge the sorted lists of the filters into masks; each list ends with a number past all events."""
    cdef int n = 0, i, variables = core.n_variables
    cdef int32_t event, end = <int32_t>(base + m), first = end
    cdef int32_t head[64]    # the next event of each list; 64 is the number of bits of a mask
    cdef uint64_t mask
    for i in range(variables):
        head[i] = core.passed[i].rows[core.next_passed[i]]
        first = min(first, head[i])
    while first < end:
        event = first
        first = end
        mask = 0
        for i in range(variables):
            if head[i] == event:
                mask |= <uint64_t>1 << i
                core.next_passed[i] += 1
                head[i] = core.passed[i].rows[core.next_passed[i]]
            first = min(first, head[i])
        relevant[n] = <int32_t>(event - base)
        bits[event - base] = mask
        n += 1
    return n


cdef int _select_part(Core* core, int32_t* relevant, int n, const Events* events, Py_ssize_t base) noexcept nogil:
    """Keep only the events of this part among the relevant ones."""
    cdef int i, k, kept = 0
    cdef const int64_t* keys
    if core.part_column >= 0 and events.null[core.part_column] == NULL:
        keys = events.data[core.part_column] + base
        for i in range(n):
            k = relevant[i]
            relevant[kept] = k
            kept += <uint32_t>(hash_of(keys[k]) - core.part_first) < core.part_size
        return kept
    for i in range(n):
        k = relevant[i]
        relevant[kept] = k
        kept += is_in_part(core, events, base + k)
    return kept


cdef int _remove_foreign(const uint8_t* foreign, int32_t* relevant, int n) noexcept nogil:
    """Keep only the events of the key groups that this engine owns among the relevant ones."""
    cdef int i, kept = 0
    for i in range(n):
        relevant[kept] = relevant[i]
        kept += not foreign[relevant[i]]
    return kept


cdef void _set_columns(Core* core, const Events* events, Py_ssize_t base, int m) noexcept nogil:
    """Point the event columns to the chunk, and compute the built-in attributes that are not stored."""
    cdef int k, c
    cdef Column* column
    for c in range(core.n_columns):
        column = core.columns + c
        if column.source >= 0:
            column.data = events.data[column.source] + base
            column.null = NULL if events.null[column.source] == NULL else events.null[column.source] + base
            continue
        column.null = NULL
        column.data = column.values
        if column.source == COLUMN_TIME:
            column.data = events.time + base
        elif column.source == COLUMN_SEQ:
            if events.sequence != NULL:
                column.data = events.sequence + base
            else:
                for k in range(m):
                    column.values[k] = events.position + base + k
        elif column.source == COLUMN_POSITION or (column.source == COLUMN_PREVIOUS and core.partition == NULL):
            for k in range(m):
                column.values[k] = events.position + base + k - (column.source == COLUMN_PREVIOUS)
        elif column.source == COLUMN_PREVIOUS:
            if find_previous(core, column.values, events, base, m) < 0:
                core.failed = True
        elif column.source == COLUMN_TYPE:
            for k in range(m):
                column.values[k] = core.type_codes[events.types[base + k]]


cdef int _run_filters(
        Core* core, uint64_t* bits, int32_t* relevant, const Events* events, Py_ssize_t base, int m) noexcept nogil:
    """Compute the masks from the event types and the programs of the query.

    Comparisons with constants are made *early*, before the events are listed, except in two cases: the shedder drops
    events, which it counts before any condition, or reading the types once per selection would take too long.
    """
    cdef int i, k, n, n_rows
    cdef bint filtered = False
    cdef uint64_t variables_of_program
    cdef const uint64_t* variables = core.type_variables
    cdef const uint16_t* types = events.types + base
    cdef uint64_t selected[SET_WORDS]
    cdef uint64_t passed[64 * SET_WORDS]  # per selection; 64 is the number of bits of a mask
    cdef const Selection* selection
    cdef int32_t some_rows[CHUNK]
    cdef const int32_t* rows
    cdef uint8_t keep[CHUNK]
    cdef uint64_t* of_selection
    cdef bint is_fast = m >= 64 and fc_is_simd(&core.selections.types)
    cdef bint early = not core.shed.events and (core.selections.n == 1 or is_fast)
    memset(selected, 0, sizeof(selected))
    if not early:
        fc_of_types(&core.selections.types, types, m, selected)
    for i in range(core.selections.n if early else 0):
        selection = core.selections.items + i
        of_selection = passed + i * SET_WORDS
        fc_of_types(&selection.types, types, m, of_selection)
        if selection.program != NULL:
            event_inputs(core, selection.program)
            compare_events(selection.program, core.inputs, m, of_selection)
        add_events(selected, of_selection, m)
    n = fc_list(selected, m, relevant)
    for i in range(n):
        bits[relevant[i]] = variables[types[relevant[i]]]
    if core.parts > 1:  # before the programs, so that only one part runs them for an event
        n = _select_part(core, relevant, n, events, base)
    if core.shed.events:
        n = drop_events(core, bits, relevant, n, types, events.position + base)
    if n == 0:
        return 0
    for i in range(core.selections.n if not early or core.selections.n > 1 else 0):
        selection = core.selections.items + i
        of_selection = passed + i * SET_WORDS
        if selection.program == NULL:
            continue
        if not early:
            memcpy(of_selection, selected, sizeof(selected))
            event_inputs(core, selection.program)
            compare_events(selection.program, core.inputs, m, of_selection)
        for k in range(n):
            bits[relevant[k]] &= ~(selection.variables & (<uint64_t>in_set(of_selection, relevant[k]) - 1))
        filtered = True
    for i in range(core.n_variables):
        variables_of_program = core.local_variables[i]
        if variables_of_program == 0 or core.locals[i].only_compares:
            continue
        if core.local_all[i] and not filtered:
            n_rows, rows = n, relevant
        else:
            n_rows, rows = 0, some_rows
            for k in range(n):
                some_rows[n_rows] = relevant[k]
                n_rows += (bits[relevant[k]] & variables_of_program) != 0
        if n_rows == 0:
            continue
        event_inputs(core, core.locals + i)
        memset(keep, 1, n_rows)
        filtered = True
        if run(core.vm, core.locals + i, core.inputs, rows, n_rows, keep, NULL, NULL, 0) == 0:
            memset(keep, 0, n_rows)
        for k in range(n_rows):
            bits[rows[k]] &= ~(variables_of_program & (<uint64_t>keep[k] - 1))
    if filtered:
        n_rows, n = n, 0
        for k in range(n_rows):
            i = relevant[k]
            relevant[n] = i
            n += bits[i] != 0
    return n


cdef void _compute_columns(Core* core, const uint64_t* bits, const int32_t* relevant, int n) noexcept nogil:
    """Compute the event columns that are expressions, for the relevant events whose variables read them."""
    cdef int k, c, n_rows
    cdef Column* column
    cdef int32_t rows[CHUNK]
    cdef int64_t result[CHUNK]
    cdef uint8_t result_null[CHUNK]
    cdef int64_t* outputs[1]
    cdef uint8_t* output_nulls[1]
    for c in range(core.n_columns):
        column = core.columns + c
        if column.source != COLUMN_COMPUTED:
            continue
        n_rows = 0
        for k in range(n):
            rows[n_rows] = relevant[k]
            n_rows += (bits[relevant[k]] & column.variables) != 0
        if n_rows == 0:
            continue
        event_inputs(core, &column.program)
        outputs[0] = result
        output_nulls[0] = result_null
        run(core.vm, &column.program, core.inputs, rows, n_rows, NULL, outputs, output_nulls, 0)
        for k in range(n_rows):
            column.values[rows[k]] = result[k]
            column.nulls[rows[k]] = result_null[k]
        column.null = column.nulls
