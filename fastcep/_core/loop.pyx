# cython: language_level=3
"""The loop over the events of a batch, chunk by chunk, and the removal of what is dead. See match.pyx for the whole."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.string cimport memset

from fastcep._core.commit cimport commit
from fastcep._core.decide cimport decide, drop_pending
from fastcep._core.emit cimport end_event
from fastcep._core.core cimport (
    COLUMN_COMPUTED, COLUMN_SEQ, COLUMN_TIME, COLUMN_TYPE, Core, event_inputs,
)
from fastcep._core.extend cimport begin, extend, probe
from fastcep._core.negate cimport first_kept, watch
from fastcep._core.pending cimport pending_bytes
from fastcep._core.predicate cimport CHUNK, run
from fastcep._core.seen cimport forget, seen_bytes, seen_clear
from fastcep._core.stage cimport Stage, child_bytes, stage_merge, stage_rest
from fastcep._core.starts cimport drop_all, expire, starts_bytes, starts_rest
from fastcep._core.store cimport Bucket, index_bytes, sweep
from fastcep._core.tables cimport Column, Leaf
from fastcep._core.vectors cimport vec_free

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:
    SWEEP_BYTES = 1 << 20


cdef Py_ssize_t take_events(Core* core, const int64_t* time, const uint16_t* types, const int64_t* seq,
                            const int64_t** data, const uint8_t** null, Py_ssize_t n, int64_t position) noexcept nogil:
    """Take the events; returns how many, see ``process``."""
    cdef uint64_t bits[CHUNK]
    cdef int32_t relevant[CHUNK]
    cdef uint64_t pending
    cdef Py_ssize_t base = 0
    cdef int m, k, r, n_relevant
    while base < n:
        m = <int>min(<Py_ssize_t>CHUNK, n - base)
        n_relevant = masks(core, bits, relevant, time + base, types + base, NULL if seq == NULL else seq + base,
                           data, null, base, m, position + base)
        core.relevant += n_relevant
        for r in range(n_relevant):
            k = relevant[r]
            core.now = time[base + k]
            if core.due < core.now:
                decide(core, core.now, False)
            expire(&core.starts, core.window_kind, core.window, core.now, position + base + k)
            core.event_birth = core.next_birth
            core.emitted = 0
            pending = bits[k]
            while pending and not core.failed:
                bind(core, __builtin_ctzll(pending), k, position + base + k, time[base + k])
                pending &= pending - 1
            if core.emitted:
                end_event(core, position + base + k, core.now)
            if core.failed:
                core.events += base + k
                return stop(core, time[n - 1], base + k)
        if sweep_is_due(core):
            sweep_all(core)
        base += m
    core.events += n
    core.now = time[n - 1]
    if core.due < core.now:
        decide(core, core.now, False)
        if core.failed:  # there is no room for what the last event decides
            core.events -= 1
            return stop(core, time[n - 1], n - 1)
    expire(&core.starts, core.window_kind, core.window, time[n - 1], position + n - 1)
    return n


cdef Py_ssize_t stop(Core* core, int64_t time, Py_ssize_t taken) noexcept nogil:
    """Give up: after ``taken`` events there is no memory, up to ``time`` none is seen. Returns ``taken``."""
    give_up(core)
    core.blind = time
    return taken


cdef int masks(Core* core, uint64_t* bits, int32_t* relevant, const int64_t* time, const uint16_t* types,
               const int64_t* seq, const int64_t** data, const uint8_t** null, Py_ssize_t base, int m,
                int64_t position) noexcept nogil:
    """Event masks and event columns of a chunk; returns how many events are relevant (listed in ``relevant``)."""
    cdef int i, k, c, n = 0, some
    cdef uint64_t member
    cdef Column* column
    cdef int32_t rows[CHUNK]
    cdef uint8_t keep[CHUNK]
    cdef int64_t result[CHUNK]
    cdef uint8_t result_null[CHUNK]
    cdef int64_t* outputs[1]
    cdef uint8_t* output_nulls[1]
    for k in range(m):
        bits[k] = core.type_members[types[k]]
    for c in range(core.n_columns):
        column = core.columns + c
        if column.source >= 0:
            column.data = data[column.source] + base
            column.null = NULL if null[column.source] == NULL else null[column.source] + base
            continue
        column.null = NULL
        column.data = column.values
        if column.source == COLUMN_TIME:
            column.data = time
        elif column.source == COLUMN_SEQ:
            if seq != NULL:
                column.data = seq
            else:
                for k in range(m):
                    column.values[k] = position + k
        elif column.source == COLUMN_TYPE:
            for k in range(m):
                column.values[k] = core.type_codes[types[k]]
    for i in range(core.n_members):
        if not core.has_local[i]:
            continue
        member = <uint64_t>1 << i
        some = 0
        for k in range(m):
            rows[some] = k
            some += (bits[k] & member) != 0
        if some == 0:
            continue
        event_inputs(core, core.locals + i)
        memset(keep, 1, some)
        if run(core.vm, core.locals + i, core.inputs, rows, some, keep, NULL, NULL, 0) == 0:
            memset(keep, 0, some)
        for k in range(some):
            if not keep[k]:
                bits[rows[k]] &= ~member
    for k in range(m):
        relevant[n] = k
        n += bits[k] != 0
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
    return n


cdef void bind(Core* core, int member, int k, int64_t position, int64_t time) noexcept nogil:
    """Bind event ``k`` of the chunk to ``member`` in every way: stage, merge, commit."""
    cdef Leaf* leaf = core.leaves + member
    cdef Stage* stage = &core.stage
    cdef Bucket* bucket
    cdef int e, parts = 0
    cdef int64_t before, j
    if leaf.negated:
        watch(core, member, k, position, time)
        return
    stage.size = 0
    for e in range(leaf.first_edge, leaf.end_edge):  # an edge that only stores or accepts stages (nearly) nothing
        before = stage.size
        if core.edges[e].source < 0:
            begin(core, e, k, position, time)
        else:
            bucket = probe(core, core.edges + e, k)
            if bucket != NULL:
                extend(core, e, bucket, k, position)
        parts += stage.size > before
        if core.failed:
            return
    if stage.size == 0:
        return
    if parts > 1:
        if stage_merge(stage) < 0:
            core.failed = True
            return
        for j in range(stage.size):
            commit(core, stage.order[j], position)
            if core.failed:
                return
    else:
        for j in range(stage.size):
            commit(core, j, position)
            if core.failed:
                return


cdef inline bint sweep_is_due(Core* core) noexcept nogil:
    """Whether the indexes have doubled, or the budget is nearly spent and a sixty-fourth of it was taken since."""
    cdef int64_t total = 0, limit = core.budget.limit
    cdef int i
    for i in range(core.n_indexes + core.n_negations):
        total += index_bytes(core.indexes + i)
    return total > core.sweep_at or (
        core.budget.used > limit - limit // 8 and core.budget.used > core.swept + limit // 64)


cdef void sweep_all(Core* core) noexcept nogil:
    cdef int i
    cdef int64_t total = 0
    for i in range(core.n_indexes):
        sweep(core.indexes + i, core.starts.first)
        total += index_bytes(core.indexes + i)
    for i in range(core.n_negations):
        sweep(core.indexes + core.n_indexes + i, first_kept(core, i, core.now))
        total += index_bytes(core.indexes + core.n_indexes + i)
    core.sweep_at = max(SWEEP_BYTES, total * 2)
    if core.starts.first == core.starts.next:
        rest(core, core.budget.used > core.budget.limit)
    core.swept = core.budget.used


cdef void rest(Core* core, bint wholly) noexcept nogil:
    """Shrink what is large, or everything, now that there is no partial match."""
    cdef int m
    starts_rest(&core.starts, wholly)
    stage_rest(&core.stage, wholly)
    if core.pending.size == 0:
        drop_pending(core)
    if wholly:
        seen_clear(&core.seen)
    for m in range(core.n_slots):
        if wholly or core.chains[m].capacity > 16 * CHUNK:
            vec_free(core.chains + m)
    FC_CHECK(held_bytes(core) == core.budget.used)


cdef int64_t held_bytes(Core* core) noexcept nogil:
    """What the budget must say, added up."""
    cdef int64_t items = core.detected.capacity + core.detected_times.capacity + core.detected_counts.capacity, total
    cdef int i
    for i in range(core.n_members):
        items += core.out_values[i].capacity + core.out_lengths[i].capacity
    for i in range(core.n_slots):
        items += core.chains[i].capacity
    total = pending_bytes(&core.pending) + seen_bytes(&core.seen) + items * 8 + starts_bytes(&core.starts) + core.stage.capacity * child_bytes(&core.stage)
    for i in range(core.n_indexes + core.n_negations):
        total += index_bytes(core.indexes + i)
    return total


cdef void give_up(Core* core) noexcept nogil:
    """Drop all partial matches and what the failed event has put out; the matches before it stay."""
    cdef int64_t whole = 0, values, i
    cdef int m
    for i in range(core.detected_counts.size):
        whole += core.detected_counts.data[i]
    core.detected.size = core.detected_times.size = core.detected_counts.size
    core.emitted = 0
    if core.n_sets > 0:
        forget(&core.seen)
    for m in range(core.n_members):
        if core.leaves[m].negated:
            continue
        values = whole
        if core.leaves[m].repeated:
            values = 0
            for i in range(whole):
                values += core.out_lengths[m].data[i]
            core.out_lengths[m].size = whole
        core.out_values[m].size = values
    core.lost += core.starts.live
    drop_pending(core)
    drop_all(&core.starts)
    sweep_all(core)
    core.failed = False
