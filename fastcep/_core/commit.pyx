# cython: language_level=3
"""What becomes of children: rows of indexes, matches, or nothing.

Staged children are *committed* one by one, in birth order. A child that can only be a match is emitted straight from the
bucket of its parent.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from fastcep._core.core cimport COLUMN_TYPE, ELEM, Core, count_row
from fastcep._core.predicate cimport CHUNK, Code, run
from fastcep._core.stage cimport Stage
from fastcep._core.starts cimport gather_starts, new_node
from fastcep._core.store cimport Bucket, Index, append, bucket_at, column_of, find, find_or_add
from fastcep._core.tables cimport Edge, ForAll, IndexInfo, State
from fastcep._core.vectors cimport Vec, fill, gather, push, reserve


cdef void commit(Core* core, int member, int64_t j, int64_t position) noexcept nogil:
    """Make staged child ``j`` a row of ``member``'s indexes, or a match, or both."""
    cdef State* state = core.states + member
    cdef Stage* stage = &core.stage
    cdef Edge* edge = core.edges + stage.edge[j]
    cdef IndexInfo* info
    cdef int64_t nulls
    cdef int i, c
    cdef bint stored = False
    if state.repeated:
        stage.bind[member][j] = new_node(&core.starts, position, stage.bind[member][j], stage.start[j])
        if stage.bind[member][j] < 0:
            core.failed = True
            return
    else:
        stage.bind[member][j] = position
    for i in range(edge.n_forall):
        if not holds(core, edge.forall[i], j):
            return
    if state.accepting and guard(core, state.accept_guard, j):
        for i in range(state.n_accept_forall):
            if not holds(core, state.accept_forall[i], j):
                break
        else:
            emit_staged(core, member, j)
    nulls = null_bits(core, state, j)
    for i in range(state.n_indexes):
        info = core.infos + state.indexes[i]
        if not guard(core, info.guard, j):
            continue
        for c in range(info.n_forall):
            if not holds(core, info.forall[c], j):
                break
        else:
            stored |= insert_staged(core, state, member, state.indexes[i], j, nulls)
    if stored:
        count_row(core, j)


cdef inline int64_t null_bits(Core* core, const State* state, int64_t j) noexcept nogil:
    """Null bits of the registers of staged row ``j``."""
    cdef int64_t nulls = 0
    cdef int i
    for i in range(state.registers):
        nulls |= <int64_t>(<uint64_t>core.stage.out_null[i][j] << i)
    return nulls


cdef inline bint insert_staged(Core* core, const State* state, int member, int number, int64_t j,
                               int64_t nulls) noexcept nogil:
    """Append staged row ``j`` to an index; False if a key word is null (it joins nothing) or memory is out."""
    cdef Stage* stage = &core.stage
    cdef IndexInfo* info = core.infos + number
    cdef Index* index = core.indexes + number
    cdef Bucket* bucket
    cdef int64_t* key = core.key
    cdef int64_t found, row
    cdef int64_t* to
    cdef int c, o
    for c in range(info.n_keys):
        o = info.keys[c]
        if stage.out_null[o][j]:
            return False
        key[c] = stage.out[o][j]
    found = find(index, key)
    if found < 0:
        found = find_or_add(index, key)
    row = -1 if found < 0 else append(index, found, core.starts.first)
    if row < 0:
        core.failed = True
        return False
    bucket = bucket_at(index, found)
    to = bucket.data + row * index.fixed
    to[0] = stage.start[j]
    if state.birth >= 0:
        to[state.birth] = core.next_birth
    for c in range(core.bound, member + 1):
        to[state.bind + c - core.bound] = stage.bind[c][j]
    if state.columns > 0:
        column_of(index, bucket, 0)[row] = nulls
    for c in range(state.registers):
        column_of(index, bucket, 1 + c)[row] = stage.out[c][j]
    return True


cdef inline bint guard(Core* core, int output, int64_t j) noexcept nogil:
    """Whether guard ``output`` (-1 = none) of staged row ``j`` is true."""
    return output < 0 or (core.stage.out[output][j] != 0 and not core.stage.out_null[output][j])


cdef int64_t elements_of(Core* core, int member, int64_t j) noexcept nogil:
    """Write the elements of a staged row's Kleene member, oldest first, to ``chains[member]``; returns how many."""
    cdef Vec* chain = core.chains + member
    cdef int64_t node = core.stage.bind[member][j], low, high, swap
    chain.size = 0
    while node >= 0:
        if push(chain, core.starts.event[node]) < 0:
            core.failed = True
            return 0
        node = core.starts.previous[node]
    low = 0
    high = chain.size - 1
    while low < high:
        swap = chain.data[low]
        chain.data[low] = chain.data[high]
        chain.data[high] = swap
        low += 1
        high -= 1
    return chain.size


cdef bint holds(Core* core, int number, int64_t j) noexcept nogil:
    """Whether for-all condition ``number`` holds for every i of staged row ``j``."""
    cdef ForAll* item = core.foralls + number
    cdef Stage* stage = &core.stage
    cdef int64_t low = INT64_MIN, high = INT64_MAX, first, slot
    cdef int i, e, n, kept
    cdef int64_t* values
    cdef uint8_t* nulls
    cdef uint8_t keep[CHUNK]
    cdef Code* program = &item.program
    if not guard(core, item.guard, j):
        return True
    for e in range(item.n_elements):
        low = max(low, -<int64_t>item.offset[e])
        high = min(high, elements_of(core, item.member[e], j) - item.offset[e])
    values = item.values
    nulls = item.nulls
    first = low
    kept = n = 0
    while first < high and kept == n:
        n = <int>min(<int64_t>CHUNK, high - first)
        for e in range(item.n_elements):
            for i in range(n):
                slot = core.chains[item.member[e]].data[first + i + item.offset[e]] & core.ring_mask
                if item.column[e] == COLUMN_TYPE:
                    values[e * CHUNK + i] = core.type_codes[core.ring_type[slot]]
                else:
                    values[e * CHUNK + i] = item.data[e][slot]
                nulls[e * CHUNK + i] = 0 if item.null[e] == NULL else item.null[e][slot]
        for i in range(program.n_inputs):
            e = program.input_number[i]
            core.inputs[i].bits = NULL
            if program.input_kind[i] == ELEM:
                core.inputs[i].data = values + e * CHUNK
                core.inputs[i].nulls = nulls + e * CHUNK
                core.inputs[i].stride = 1
            else:
                core.inputs[i].data = stage.out[e] + j
                core.inputs[i].nulls = stage.out_null[e] + j
                core.inputs[i].stride = 0
        memset(keep, 1, n)
        kept = run(core.vm, program, core.inputs, NULL, n, keep, NULL, NULL, 0)
        first += n
    return kept == n


cdef void emit_staged(Core* core, int member, int64_t j) noexcept nogil:
    """Write staged row ``j``, a complete match, to the output."""
    cdef int m
    cdef int64_t i, count, bound
    for m in range(core.n_members):
        if core.states[m].repeated:
            count = elements_of(core, m, j) if m <= member else 0
            for i in range(count):
                if push(core.out_values + m, core.chains[m].data[i]) < 0:
                    core.failed = True
            if push(core.out_lengths + m, count) < 0:
                core.failed = True
        else:
            bound = core.stage.bind[m][j] if m <= member else -1
            if push(core.out_values + m, bound) < 0:
                core.failed = True
    core.emitted += 1


cdef void emit_rows(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                    int64_t position) noexcept nogil:
    """Write ``n`` rows of a bucket (as for ``_stage_rows``), completed by the event, to the output."""
    cdef State* source = core.states + edge.source
    cdef const int64_t* from_ = bucket.data + <int64_t>first * source.fixed
    cdef Vec* vec
    cdef int m
    for m in range(core.n_members):
        vec = core.out_values + m
        if vec.size + n > vec.capacity and reserve(vec, vec.size + n) < 0:
            core.failed = True
            return
        if m < core.bound:
            gather_starts(vec.data + vec.size, &core.starts, from_, source.fixed, rows, n)
        elif m <= edge.source:
            gather(vec.data + vec.size, from_ + source.bind + m - core.bound, source.fixed, rows, n)
        else:
            fill(vec.data + vec.size, position if m == edge.target else -1, n)
        vec.size += n
    core.emitted += n
