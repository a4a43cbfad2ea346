# cython: language_level=3
"""Bind an event along one edge: begin a partial match, or extend the partial matches of a bucket.

The children are *staged*. If the target of the edge allows it, they are stored or emitted at once instead, without a
copy to the stage.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memchr, memcpy, memset

from fastcep._core.matches.emit cimport emit_rows
from fastcep._core.memory.row_store cimport (
    Bucket, Index, Source, append, bucket_at, column_of, compact, find, find_or_add, insert, number_of,
)
from fastcep._core.memory.starts cimport count_rows, gather_starts, start_of
from fastcep._core.memory.vectors cimport fill, gather
from fastcep._core.program.plan_tables cimport THIS, Column, Edge, IndexInfo, State
from fastcep._core.program.predicate cimport CHUNK, run
from fastcep._core.shed.classify cimport class_of_event
from fastcep._core.shed.drop cimport drop_aged, screen, screens
from fastcep._core.shed.lineage cimport note_matches, note_place, note_places, note_probe
from fastcep._core.shed.work_limit cimport (
    add_yields, affordable_children, child_price, count_yield, cut_begin, cut_off, left, middle_of, next_rows, stops,
)
from fastcep._core.state.core cimport Core, copy_event, count_row, read_key, row_inputs
from fastcep._core.state.draws cimport class_of
from fastcep._core.state.shedding_tables cimport Within, Yields
from fastcep._core.state.stage cimport Stage, stage_grow

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil


cdef void begin(Core* core, int edge_number, int k, int64_t position, int64_t time) noexcept nogil:
    """Stage the row of a partial match that begins with event ``k``."""
    cdef Edge* edge = core.edges + edge_number
    cdef Stage* stage = &core.stage
    cdef const Column* column
    cdef int64_t ordinal
    cdef int j
    cdef uint8_t keep[1]
    if edge.has_predicate:
        keep[0] = 1
        row_inputs(core, &edge.predicate, 0, NULL, 0, k)
        if run(core.vm, &edge.predicate, core.inputs, NULL, 1, keep, NULL, NULL, 0) == 0:
            return
    if core.shed.cut.most > 0 and cut_begin(core, edge_number):
        return
    if screens(core, edge) and screen(core, edge, NULL, 0, NULL, 1, k) == 0:
        return
    if edge.start_key != NULL:
        store_start(core, edge, k, position, time)
        return
    ordinal = start_of(&core.starts, time, position)
    if ordinal < 0:
        core.failed = True
        return
    stage.start[0] = ordinal
    stage.birth[0] = -1
    stage.edge[0] = edge_number
    stage.class_[0] = core.shed.classes[0] if screens(core, edge) else 0
    for j in range(core.n_slots):
        stage.bind[j][0] = -1
    for j in range(edge.n_copies):
        column = edge.copy_column[j]
        stage.out[edge.copy_output[j]][0] = column.data[k]
        stage.out_null[edge.copy_output[j]][0] = column.null != NULL and column.null[k]
    if edge.has_outputs:
        row_inputs(core, &edge.outputs, 0, NULL, 0, k)
        run(core.vm, &edge.outputs, core.inputs, NULL, 1, NULL, stage.out, stage.out_null, 0)
    stage.size = 1
    core.shed.cut.staged = child_price(core, edge)


cdef void store_start(Core* core, const Edge* edge, int k, int64_t position, int64_t time) noexcept nogil:
    """Store the row of a partial match that begins with event ``k`` in the only index of the target.

    All its outputs are copies of event columns.
    """
    cdef State* state = core.states + edge.target
    cdef Index* index = core.indexes + state.indexes[0]
    cdef Bucket* bucket
    cdef int64_t* key = core.key
    cdef int64_t* to
    cdef int64_t ordinal, bucket_number, row
    cdef int c
    if not read_key(edge.start_key, index.words, k, key):
        return
    ordinal = start_of(&core.starts, time, position)
    bucket_number = find(index, key)
    if bucket_number < 0:
        bucket_number = find_or_add(index, key)
    row = -1 if ordinal < 0 or bucket_number < 0 else append(index, bucket_number, core.starts.kept)
    if row < 0:
        core.failed = True
        return
    bucket = bucket_at(index, bucket_number)
    to = bucket.data + row * index.fixed
    to[0] = ordinal
    if state.birth >= 0:
        to[state.birth] = core.next_birth
    if state.match_flag >= 0:
        to[state.match_flag] = False
    for c in range(state.n_bind):
        to[state.bind + c] = position if edge.bind_from[c] == THIS else -1
    if state.class_word >= 0:
        to[state.class_word] = core.shed.classes[0] if screens(core, edge) else 0
    if core.shed.on:
        core.shed.born[edge.target * core.shed.stride + (class_of(core.shed.classes[0]) if screens(core, edge) else 0)] += 1
    if core.observed.on:
        note_place(core, core.shed.classes[0], state.indexes[0], key, index.words)
    copy_event(index, bucket, row, edge.copy_column, state.registers, k)
    count_row(core, ordinal)


cdef void extend(Core* core, int edge_number, Bucket* bucket, int k, int64_t position) noexcept nogil:
    """Make a child of every row of the bucket of ``probe`` that event ``k`` extends: stage it, store it or emit it."""
    cdef Edge* edge = core.edges + edge_number
    cdef State* source = core.states + edge.source
    cdef int64_t fixed = source.fixed, live_from = core.starts.first
    cdef const int64_t* start
    cdef int32_t rows[CHUNK]
    cdef uint8_t keep[CHUNK]
    cdef int i, n, m, room, first, middle = 0, end = bucket.size, dead = 0, visited = 0, made = 0, dropped = 0, skipped = 0
    cdef bint screening = screens(core, edge), ages = core.shed.on and core.shed.ages[edge.source]
    cdef bint limited = False, counts
    cdef Within within
    cdef Yields yields
    cdef int64_t before = 0
    if source.birth >= 0:  # skip the rows at the end that this event has made
        while end > bucket.head and bucket.data[(end - 1) * fixed + source.birth] >= core.event_birth:
            end -= 1
    first = bucket.head
    if core.shed.cut.most > 0:
        limited = cut_off(core, edge_number, bucket, &first, &end, &within)
        if source.first and not ages:  # all dead rows are before head
            middle = first + (end - first) // 2
        else:
            middle = middle_of(core, bucket, fixed, first, end)
        memset(&yields, 0, sizeof(Yields))
    while first < end:
        m = min(CHUNK, end - first)
        if limited:
            m = next_rows(core, edge_number, bucket, first, end, visited, m, &within)
            if m == 0:
                break
            before = left(core, visited)
        n = 0
        start = bucket.data + first * fixed
        if ages:
            dropped += drop_aged(core, edge.source, bucket, first, m)
        if edge.has_predicate:
            for i in range(m):
                keep[i] = start[i * fixed] >= live_from
                visited += keep[i]
            row_inputs(core, &edge.predicate, edge.index, bucket, first, k)
            if run(core.vm, &edge.predicate, core.inputs, NULL, m, keep, NULL, NULL, 0) > 0:
                for i in range(m):
                    rows[n] = i
                    n += keep[i]
        elif source.first and not ages:  # all dead rows are before head
            n = m
            visited += m
        else:
            for i in range(m):
                rows[n] = i
                n += start[i * fixed] >= live_from
            dead += m - n
            visited += n
        counts = core.shed.cut.most > 0 and (not limited or core.shed.cut.runs_on)
        if limited and core.shed.cut.weight == 0:
            room = affordable_children(core, edge, visited)
            if n > room:
                if n == m:
                    for i in range(m):
                        rows[i] = i
                if stops(core, edge_number, bucket, first + rows[room], end):
                    end = first + m  # these are the last rows
                else:  # the others follow with another weight
                    for i in range(rows[room], m):
                        skipped += start[i * fixed] >= live_from
                    visited -= skipped
                    core.shed.cut.beyond -= skipped * core.prices.visited  # it would have visited them
                    skipped = 0
                    within.end, m = first + rows[room], rows[room]
                    limited = core.shed.cut.beyond_weight > 0
                n = room
        if counts:
            count_yield(core, edge_number, bucket, first, m, NULL if n == m else rows, n, middle, &yields)
        if n > 0 and screening:
            if n == m:
                for i in range(m):
                    rows[i] = i
            n = screen(core, edge, bucket, first, rows, n, k)
        made += n
        if n > 0:
            if edge.only_accepts:
                emit_rows(core, edge, bucket, first, NULL if n == m else rows, n, position)
                if core.observed.on:
                    note_matches(core, core.shed.classes, n)
            elif edge.only_stores:
                store_rows(core, edge, bucket, first, NULL if n == m else rows, n, k, position)
            else:
                stage_rows(core, edge_number, bucket, first, NULL if n == m else rows, n, k)
                core.shed.cut.staged += n * child_price(core, edge)
                if core.shed.cut.weight > 0:
                    core.shed.cut.staged_beyond += n * child_price(core, edge)
            if core.failed:
                return
        if limited and core.shed.cut.weight > 0:
            core.shed.cut.beyond += before - left(core, visited)
        first += m
    core.rows_visited += visited
    if core.shed.cut.most > 0:
        core.shed.cut.tried[edge_number].visited += visited
        core.shed.cut.tried[edge_number].made += made
        add_yields(core, edge_number, &yields)
    if core.observed.on and visited > 0:
        note_probe(core, edge, bucket, visited, class_of_event(core, edge.variable, k))
    if edge.has_predicate:  # expired rows were not counted above
        dead = dropped
    if (dead > (bucket.size - bucket.head) // 2 and dead > 8) or (dropped > 0 and source.first):
        compact(core.indexes + edge.index, bucket, core.starts.kept)


cdef void stage_rows(Core* core, int edge_number, const Bucket* bucket, int first, const int32_t* rows, int n,
                     int k) noexcept nogil:
    """Stage a child of ``n`` rows of a bucket: ``rows``, counted from row ``first``, or all ``n`` from there (NULL)."""
    cdef Edge* edge = core.edges + edge_number
    cdef State* source = core.states + edge.source
    cdef State* target = core.states + edge.target
    cdef Stage* stage = &core.stage
    cdef const Column* column
    cdef Index* index = core.indexes + edge.index
    cdef const int64_t* from_ = bucket.data + <int64_t>first * source.fixed
    cdef const int64_t* bits
    cdef int64_t size = stage.size
    cdef uint8_t* null
    cdef int i, j, o, r
    if size + n > stage.capacity and stage_grow(stage, size + n) < 0:
        core.failed = True
        return
    gather(stage.start + size, from_, source.fixed, rows, n)
    for i in range(n):
        stage.edge[size + i] = edge_number
    if screens(core, edge):
        memcpy(stage.class_ + size, core.shed.classes, n * sizeof(int64_t))
    elif core.shed.on:
        fill(stage.class_ + size, 0, n)
    if source.birth >= 0:
        gather(stage.birth + size, from_ + source.birth, source.fixed, rows, n)
    if core.removes:
        fill(stage.parent + size, number_of(index, bucket), n)
    if core.implied >= 0:
        gather_starts(stage.bind[core.implied] + size, &core.starts, stage.start + size, 1, NULL, n)
    for j in range(target.n_bind):
        if edge.bind_from[j] >= 0:
            gather(stage.bind[target.slots[j]] + size, from_ + edge.bind_from[j], source.fixed, rows, n)
        else:
            fill(stage.bind[target.slots[j]] + size, -1, n)
    for j in range(edge.n_copies):
        o = edge.copy_output[j]
        r = edge.copy_number[j]
        null = stage.out_null[o] + size
        if edge.copy_from_row[j]:
            gather(stage.out[o] + size, column_of(index, bucket, 1 + r) + first, 1, rows, n)
            bits = column_of(index, bucket, 0) + first
            for i in range(n):
                null[i] = (bits[i if rows == NULL else rows[i]] >> r) & 1
        else:
            column = core.columns + r
            fill(stage.out[o] + size, column.data[k], n)
            memset(null, column.null != NULL and column.null[k], n)
    if edge.has_outputs:
        row_inputs(core, &edge.outputs, edge.index, bucket, first, k)
        run(core.vm, &edge.outputs, core.inputs, rows, n, NULL, stage.out, stage.out_null, size)
    stage.size = size + n


cdef void store_rows(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n, int k,
                     int64_t position) noexcept nogil:
    """Store a child of ``n`` rows of a bucket (as for ``stage_rows``) in the only index of the target.

    Nothing is staged: the words of the new rows are read where they are, except those that must be gathered or
    computed.
    """
    cdef State* state = core.states + edge.target
    cdef State* source = core.states + edge.source
    cdef Stage* stage = &core.stage
    cdef IndexInfo* info = core.infos + state.indexes[0]
    cdef Index* index = core.indexes + state.indexes[0]
    cdef Source* outputs = core.outputs
    cdef Source* row = core.row
    cdef const Column* column
    cdef const int64_t* from_ = bucket.data + <int64_t>first * source.fixed
    cdef int64_t absent = -1, zero = 0, stored, j
    cdef int c, o
    FC_CHECK(n <= stage.capacity)
    for c in range(edge.n_copies):
        o = edge.copy_output[c]
        if edge.copy_from_row[c]:
            register_source(core, outputs + o, edge, bucket, first, rows, n, edge.copy_number[c], o)
        else:
            column = edge.copy_column[c]
            outputs[o].data = column.data + k
            outputs[o].step = 0
            outputs[o].null = column.null + k if column.null != NULL and column.null[k] else NULL
            outputs[o].null_step = 0
    if edge.has_outputs:
        row_inputs(core, &edge.outputs, edge.index, bucket, first, k)
        run(core.vm, &edge.outputs, core.inputs, rows, n, NULL, stage.out, stage.out_null, 0)
        for c in range(edge.n_computed):
            o = edge.computed[c]
            outputs[o].data = stage.out[o]
            outputs[o].step = 1
            outputs[o].null = stage.out_null[o] if memchr(stage.out_null[o], 1, n) != NULL else NULL
            outputs[o].null_step = 1
    for c in range(info.n_keys):
        core.words[c] = outputs[info.keys[c]]
    word_source(core, row, from_, source.fixed, rows, n, stage.start)
    for c in range(state.n_bind):
        o = state.bind + c
        if edge.bind_from[c] >= 0:
            word_source(core, row + o, from_ + edge.bind_from[c], source.fixed, rows, n, stage.bind[state.slots[c]])
        else:
            row[o].data = &position if edge.bind_from[c] == THIS else &absent
            row[o].step = 0
    if state.birth >= 0:
        for j in range(n):
            stage.birth[j] = core.next_birth + j
        row[state.birth].data = stage.birth
        row[state.birth].step = 1
    if state.match_flag >= 0:
        row[state.match_flag].data = &zero
        row[state.match_flag].step = 0
    if screens(core, edge):
        for j in range(n):
            core.shed.born[edge.target * core.shed.stride + class_of(core.shed.classes[j])] += 1
    elif core.shed.on:
        core.shed.born[edge.target * core.shed.stride] += n
    if state.class_word >= 0:
        row[state.class_word].data = core.shed.classes if screens(core, edge) else &zero
        row[state.class_word].step = screens(core, edge)
    if state.columns > 0:
        row[state.fixed].data = &zero
        row[state.fixed].step = 0
        for c in range(state.registers):
            row[state.fixed + 1 + c] = outputs[c]
            if outputs[c].null != NULL:
                row[state.fixed].data = stage.nulls
                row[state.fixed].step = 1
        if row[state.fixed].step:
            null_words(core, state, n)
    if core.observed.on:
        note_places(core, state.indexes[0], index.words, n)
    stored = insert(index, core.words, row, n, core.starts.kept)
    if stored < 0:
        core.failed = True
        return
    core.next_birth += n
    core.rows_created += stored
    core.starts.live += stored
    if stored == n:
        count_rows(&core.starts, row[0].data, row[0].step, n)
    elif stored > 0:
        count_keyed(core, index.words, row, n)
    if core.starts.live > core.peak:
        core.peak = core.starts.live


cdef void count_keyed(Core* core, int words, const Source* start, int64_t n) noexcept nogil:
    """Count the new rows under their starts, except rows with a null key word."""
    cdef int64_t j
    cdef int w
    for j in range(n):
        for w in range(words):
            if core.words[w].null != NULL and core.words[w].null[j * core.words[w].null_step]:
                break
        else:
            core.starts.rows[start.data[j * start.step] & core.starts.mask] += 1


cdef inline void word_source(Core* core, Source* out, const int64_t* data, int step, const int32_t* rows, int n,
                             int64_t* scratch) noexcept nogil:
    """Set the source of a word of the chosen rows: the bucket, or ``scratch``, to which the word is gathered."""
    out.data = data
    out.step = step
    if rows != NULL:
        gather(scratch, data, step, rows, n)
        out.data = scratch
        out.step = 1


cdef inline void register_source(Core* core, Source* out, const Edge* edge, const Bucket* bucket, int first,
                                 const int32_t* rows, int n, int register, int output) noexcept nogil:
    """Set the source of a register of the chosen rows, which becomes output ``output``."""
    cdef Index* index = core.indexes + edge.index
    cdef const int64_t* bits = column_of(index, bucket, 0) + first
    cdef uint8_t* null = core.stage.out_null[output]
    cdef uint8_t any_null = 0
    cdef int i
    word_source(core, out, column_of(index, bucket, 1 + register) + first, 1, rows, n, core.stage.out[output])
    for i in range(n):
        null[i] = (bits[i if rows == NULL else rows[i]] >> register) & 1
        any_null |= null[i]
    out.null = null if any_null else NULL
    out.null_step = 1


cdef void null_words(Core* core, const State* state, int n) noexcept nogil:
    """Write the null bits of the registers of ``n`` new rows from ``outputs`` to ``stage.nulls``."""
    cdef Source* item
    cdef int c, i
    memset(core.stage.nulls, 0, n * sizeof(int64_t))
    for c in range(state.registers):
        item = core.outputs + c
        if item.null != NULL:
            for i in range(n):
                core.stage.nulls[i] |= <int64_t>(<uint64_t>item.null[i * item.null_step] << c)
