# cython: language_level=3
"""Turn staged children, in birth order, into rows of indexes, matches or waiting matches, or reject them."""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint64_t

from fastcep._core.matches.decide cimport defer
from fastcep._core.matches.elements cimport guard, holds
from fastcep._core.matches.emit cimport emit_staged
from fastcep._core.matches.longest cimport keep_longest, note_extended
from fastcep._core.matches.negate cimport are_absent
from fastcep._core.memory.row_store cimport Bucket, Index, append, bucket_at, column_of, find, find_or_add
from fastcep._core.memory.starts cimport new_node
from fastcep._core.program.plan_tables cimport HOME, Edge, IndexInfo, State
from fastcep._core.shed.lineage cimport note_place
from fastcep._core.state.core cimport Core, count_row
from fastcep._core.shed.flows cimport weigh_staged
from fastcep._core.state.draws cimport class_of
from fastcep._core.state.remove_rows cimport note_advance
from fastcep._core.state.stage cimport Stage


cdef void commit(Core* core, int64_t j, int64_t position) noexcept nogil:
    """Store staged child ``j`` in the indexes of its state, or emit it as a match, or both."""
    cdef Stage* stage = &core.stage
    cdef Edge* edge = core.edges + stage.edge[j]
    cdef State* state = core.states + edge.target
    cdef IndexInfo* info
    cdef int64_t nulls
    cdef int64_t* bind = stage.bind[edge.slot] + j
    cdef int i
    cdef bint stored = False, is_match = False
    if edge.chained:
        bind[0] = new_node(&core.starts, position | edge.mark, bind[0], stage.start[j])
        if bind[0] < 0:
            core.failed = True
            return
    else:
        bind[0] = position
    if not all_hold(core, edge.forall, edge.n_forall, j):
        return
    if edge.n_absent > 0 and not are_absent(core, edge.absent, edge.n_absent, state, j, INT64_MAX):
        return
    if state.accepting:
        if is_complete(core, state, j):
            is_match = True
            if core.shed.weighs:
                weigh_staged(core, stage.start[j], stage.class_[j])
            if state.deferred:
                if core.longest:
                    keep_longest(core, edge.target, j)
                else:
                    decide_or_defer(core, edge.target, j)
            else:
                emit_staged(core, state, j)
        elif core.must_advance and state.n_indexes == 0:
            return  # the state is final, so the event does not advance the partial match
    if core.must_advance and stage.birth[j] >= 0 and not edge.keeps:
        note_advance(core, edge.index, stage.parent[j], stage.birth[j])
    if core.shed.on and stage.class_[j] < 0 and edge.born:
        return
    nulls = null_bits(core, state, j)
    for i in range(state.n_indexes):
        info = core.infos + state.indexes[i]
        if guard(core, info.guard, j) and all_hold(core, info.forall, info.n_forall, j):
            stored |= insert_staged(core, state, state.indexes[i], j, nulls, is_match, not stored)
    if stored:
        count_row(core, stage.start[j])
        if core.longest:
            note_extended(core, stage.start[j], position)
        if core.shed.on:
            core.shed.born[edge.target * core.shed.stride + class_of(stage.class_[j])] += 1


cdef inline void decide_or_defer(Core* core, int number, int64_t j) noexcept nogil:
    """Let a complete match wait, unless the silence that it waits for has already passed."""
    cdef State* state = core.states + number
    cdef int64_t due
    if state.due < 0 or core.stage.out_null[state.due][j] or core.stage.out[state.due][j] >= core.now:
        defer(core, number, j, core.now)
        return
    due = core.stage.out[state.due][j]
    if are_absent(core, state.at_end, state.n_at_end, state, j, due):
        emit_staged(core, state, j)


cdef inline bint is_complete(Core* core, const State* state, int64_t j) noexcept nogil:
    """Return whether staged row ``j`` of an accepting state is a match."""
    return (guard(core, state.accept_guard, j) and all_hold(core, state.accept_forall, state.n_accept_forall, j) and (
        state.n_accept_absent == 0
        or are_absent(core, state.accept_absent, state.n_accept_absent, state, j, INT64_MAX)))


cdef inline bint all_hold(Core* core, const int32_t* checks, int n, int64_t j) noexcept nogil:
    """Return whether the for-all conditions ``checks`` hold for staged row ``j``."""
    cdef int i
    for i in range(n):
        if not holds(core, checks[i], j, -1, NULL, NULL, 0):
            return False
    return True


cdef inline int64_t null_bits(Core* core, const State* state, int64_t j) noexcept nogil:
    """Return the null bits of the registers of staged row ``j``."""
    cdef int64_t nulls = 0
    cdef int i
    for i in range(state.registers):
        nulls |= <int64_t>(<uint64_t>core.stage.out_null[i][j] << i)
    return nulls


cdef inline bint insert_staged(Core* core, const State* state, int number, int64_t j, int64_t nulls,
                               bint is_match, bint home) noexcept nogil:
    """Append staged row ``j`` to an index; ``home``: this is the first index of the row.

    Returns False if a key word is null, which joins with nothing, or if memory ran out.
    """
    cdef Stage* stage = &core.stage
    cdef IndexInfo* info = core.infos + number
    cdef Index* index = core.indexes + number
    cdef Bucket* bucket
    cdef int64_t* key = core.key
    cdef int64_t bucket_number, row
    cdef int64_t* to
    cdef int c, o
    for c in range(info.n_keys):
        o = info.keys[c]
        if stage.out_null[o][j]:
            return False
        key[c] = stage.out[o][j]
    bucket_number = find(index, key)
    if bucket_number < 0:
        bucket_number = find_or_add(index, key)
    row = -1 if bucket_number < 0 else append(index, bucket_number, core.starts.kept)
    if row < 0:
        core.failed = True
        return False
    if core.observed.on:
        note_place(core, stage.class_[j], number, key, index.words)
    bucket = bucket_at(index, bucket_number)
    to = bucket.data + row * index.fixed
    to[0] = stage.start[j]
    if state.birth >= 0:
        to[state.birth] = core.next_birth
    if state.match_flag >= 0:
        to[state.match_flag] = is_match
    for c in range(state.n_bind):
        to[state.bind + c] = stage.bind[state.slots[c]][j]
    if state.class_word >= 0:
        to[state.class_word] = (stage.class_[j] if core.shed.on else 0) | HOME * home
    if state.columns > 0:
        to = column_of(index, bucket, 0) + row
        to[0] = nulls
        for c in range(state.registers):
            to += bucket.capacity
            to[0] = stage.out[c][j]
    return True
