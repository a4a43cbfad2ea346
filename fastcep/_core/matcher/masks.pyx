# cython: language_level=3
"""Event masks and event columns of a chunk.

A bit of the mask says that the event may be bound to a member: by its type, and by the conditions on it alone. The bits
come from the query's own programs, or, in an engine of several queries, from the lists of the ``filters`` that they
share; then an event that none of the query's members may bind is never looked at.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memset

from fastcep._core.input.batch cimport (
    COLUMN_COMPUTED, COLUMN_POSITION, COLUMN_PREVIOUS, COLUMN_SEQ, COLUMN_TIME, COLUMN_TYPE, Events,
)
from fastcep._core.program.plan_tables cimport Column
from fastcep._core.program.predicate cimport CHUNK, run
from fastcep._core.shed.drop cimport admitted, tried
from fastcep._core.state.core cimport Core, event_inputs
from fastcep._core.state.key_partition cimport hash_of, is_own
from fastcep._core.state.previous_events cimport find_previous


cdef int masks(Core* core, uint64_t* bits, int32_t* relevant, const Events* events, Py_ssize_t base, int m) noexcept nogil:
    """Event masks and event columns of ``m`` events; returns how many are relevant (listed in ``relevant``).

    Only the masks and columns of relevant events are set. ``failed``: there was no memory for a column.
    """
    cdef int n
    if core.shared:
        n = _merged(core, bits, relevant, base, m)
        if core.parts > 1:
            n = _own_keys(core, bits, relevant, n, events, base)
        if core.shed.events:
            n = admitted(core, bits, relevant, n, events.types + base, events.position + base)
        if n > 0 or core.partition != NULL:
            _point(core, events, base, m)
    else:
        _point(core, events, base, m)
        n = _own(core, bits, relevant, events, base, m)
    if core.foreign != NULL:
        n = _domestic(core.foreign + base, relevant, n)
    if n > 0 and not core.failed:
        _compute(core, bits, relevant, n)
        if core.shed.binds or core.shed.flows.on or core.observed.on:
            n = tried(core, bits, relevant, n, events.types + base, events.position + base)
    return n


cdef int _merged(Core* core, uint64_t* bits, int32_t* relevant, Py_ssize_t base, int m) noexcept nogil:
    """Masks from the lists of the members' filters, each of which ends with a number past all events."""
    cdef int n = 0, i, members = core.n_members
    cdef int32_t event, end = <int32_t>(base + m), first = end
    cdef int32_t head[64]    # the next event of each list; a mask has as many bits
    cdef uint64_t mask
    for i in range(members):
        head[i] = core.passed[i].found[core.next_passed[i]]
        first = min(first, head[i])
    while first < end:
        event = first
        first = end
        mask = 0
        for i in range(members):
            if head[i] == event:
                mask |= <uint64_t>1 << i
                core.next_passed[i] += 1
                head[i] = core.passed[i].found[core.next_passed[i]]
            first = min(first, head[i])
        relevant[n] = <int32_t>(event - base)
        bits[event - base] = mask
        n += 1
    return n


cdef int _own_keys(Core* core, uint64_t* bits, int32_t* relevant, int n, const Events* events, Py_ssize_t base) noexcept nogil:
    """Leave only this part's events among the relevant ones, and no member to the others."""
    cdef int i, k, kept = 0
    cdef bint own
    for i in range(n):
        k = relevant[i]
        own = is_own(core, events, base + k)
        relevant[kept] = k
        kept += own
        bits[k] &= 0 - <uint64_t>own
    return kept


cdef int _domestic(const uint8_t* foreign, int32_t* relevant, int n) noexcept nogil:
    """Leave only events of key groups that the engine owns among the relevant ones."""
    cdef int i, kept = 0
    for i in range(n):
        relevant[kept] = relevant[i]
        kept += not foreign[relevant[i]]
    return kept


cdef void _point(Core* core, const Events* events, Py_ssize_t base, int m) noexcept nogil:
    """Point the event columns at the chunk; those of built-in attributes are filled where they must be."""
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


cdef int _own(Core* core, uint64_t* bits, int32_t* relevant, const Events* events, Py_ssize_t base, int m) noexcept nogil:
    """Masks by the query's own programs."""
    cdef int i, k, n = 0, some
    cdef bint cleared = False
    cdef uint64_t asked
    cdef const uint64_t* members = core.type_members
    cdef const uint16_t* types = events.types + base
    cdef int32_t rows[CHUNK]
    cdef const int32_t* asking
    cdef uint8_t keep[CHUNK]
    cdef const int64_t* keys
    if core.parts > 1 and core.part_column >= 0 and events.null[core.part_column] == NULL:
        keys = events.data[core.part_column] + base
        for k in range(m):
            bits[k] = members[types[k]] & (0 - <uint64_t>(<uint32_t>(hash_of(keys[k]) - core.part_first) < core.part_size))
            relevant[n] = k
            n += bits[k] != 0
    else:
        for k in range(m):
            bits[k] = members[types[k]]
            relevant[n] = k
            n += bits[k] != 0
        if core.parts > 1:  # before any condition is evaluated, so that each is once per event
            n = _own_keys(core, bits, relevant, n, events, base)
    if core.shed.events:
        n = admitted(core, bits, relevant, n, types, events.position + base)
    for i in range(core.n_members):
        asked = core.local_members[i]
        if asked == 0:
            continue
        if core.local_all[i] and not cleared:
            some, asking = n, relevant
        else:
            some, asking = 0, rows
            for k in range(n):
                rows[some] = relevant[k]
                some += (bits[relevant[k]] & asked) != 0
        if some == 0:
            continue
        event_inputs(core, core.locals + i)
        memset(keep, 1, some)
        cleared = True
        if run(core.vm, core.locals + i, core.inputs, asking, some, keep, NULL, NULL, 0) == 0:
            memset(keep, 0, some)
        for k in range(some):
            bits[asking[k]] &= ~(asked & (<uint64_t>keep[k] - 1))
    if cleared:
        some, n = n, 0
        for k in range(some):
            i = relevant[k]
            relevant[n] = i
            n += bits[i] != 0
    return n


cdef void _compute(Core* core, const uint64_t* bits, const int32_t* relevant, int n) noexcept nogil:
    """The computed event columns, for the relevant events that read them."""
    cdef int k, c, some
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
        some = 0
        for k in range(n):
            rows[some] = relevant[k]
            some += (bits[relevant[k]] & column.members) != 0
        if some == 0:
            continue
        event_inputs(core, &column.program)
        outputs[0] = result
        output_nulls[0] = result_null
        run(core.vm, &column.program, core.inputs, rows, some, NULL, outputs, output_nulls, 0)
        for k in range(some):
            column.values[rows[k]] = result[k]
            column.nulls[rows[k]] = result_null[k]
        column.null = column.nulls
