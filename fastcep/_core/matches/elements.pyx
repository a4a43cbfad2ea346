# cython: language_level=3
"""List the elements of the Kleene variables and groups of a staged child, and evaluate for-all conditions over them."""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t

from fastcep._core.input.batch cimport COLUMN_TYPE
from fastcep._core.memory.row_store cimport Bucket, Index, column_of
from fastcep._core.memory.vectors cimport Vec, push
from fastcep._core.program.plan_tables cimport ROUND_AT, VARIABLE_AT, ForAll
from fastcep._core.program.predicate cimport CHUNK, Code, run
from fastcep._core.state.core cimport ELEM, EVENT, Core, position_of
from fastcep._core.state.stage cimport Stage


cdef int64_t elements_of(Core* core, int variable, int64_t j) noexcept nogil:
    """Write the events that staged row ``j`` binds to a list variable, oldest first, to ``chains[variable]``.

    Returns their number. A variable of a group has one entry per round, -1 if the round does not bind it.
    """
    cdef int slot = core.variables[variable].slot
    if slot != variable:
        return rounds_of(core, slot, j)
    return _chain(core, slot, j)


cdef int64_t _chain(Core* core, int slot, int64_t j) noexcept nogil:
    """Write the words of a chain, oldest first, to ``chains[slot]``; returns their number."""
    cdef Vec* chain = core.chains + slot
    cdef int64_t node = core.stage.bind[slot][j], low, high, swap
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


cdef int64_t rounds_of(Core* core, int slot, int64_t j) noexcept nogil:
    """Write the rounds of a group to the ``chains`` of all its variables; returns the number of rounds."""
    cdef int64_t n = _chain(core, slot, j), rounds = 0, i, word
    cdef int m
    for m in range(core.n_variables):
        if core.variables[m].slot == slot:
            core.chains[m].size = 0
    for i in range(n):
        word = core.chains[slot].data[i]
        if word >> ROUND_AT:
            rounds += 1
            for m in range(core.n_variables):
                if core.variables[m].slot == slot and push(core.chains + m, -1) < 0:
                    core.failed = True
                    return 0
        m = (word >> VARIABLE_AT) & 0xFF
        core.chains[m].data[rounds - 1] = position_of(word)
    return rounds


cdef bint holds(Core* core, int number, int64_t j, int64_t round, const Index* index, const Bucket* bucket,
                int64_t row) noexcept nogil:
    """Return whether for-all condition ``number`` holds for every list index i of staged row ``j``.

    ``round``: check only this i; -1: check all. A condition on a negated variable reads the event in row ``row`` of a
    bucket.
    """
    cdef ForAll* item = core.foralls + number
    cdef int64_t low = INT64_MIN, high = INT64_MAX, first, count
    cdef int e, n, n_present
    cdef uint8_t keep[CHUNK]
    if not guard(core, item.guard, j):
        return True
    if item.n_elements == 0 and round < 0:
        return True
    for e in range(item.n_elements):
        count = elements_of(core, item.variable[e], j)
        if core.failed:
            return False
        low = max(low, -<int64_t>item.offset[e])
        high = min(high, count - item.offset[e] - item.earlier)
    if round >= 0:
        low = max(low, round)
        high = min(high, round + 1)
    first = low
    while first < high:
        n = <int>min(<int64_t>CHUNK, high - first)
        n_present = _load_elements(core, item, first, n, keep)
        if n_present:
            _element_inputs(core, item, j, index, bucket, row)
            if run(core.vm, &item.program, core.inputs, NULL, n, keep, NULL, NULL, 0) < n_present:
                return False
        first += n
    return True


cdef int _load_elements(Core* core, ForAll* item, int64_t first, int n, uint8_t* keep) noexcept nogil:
    """Load the attributes of the elements for ``n`` values of i.

    ``keep`` is set to 0 where an element is absent. Returns the number of values of i for which all elements are
    present.
    """
    cdef int64_t* values = item.values
    cdef uint8_t* nulls = item.nulls
    cdef int64_t slot
    cdef int e, i, n_present = 0
    for i in range(n):
        keep[i] = 1
    for e in range(item.n_elements):
        for i in range(n):
            slot = core.chains[item.variable[e]].data[first + i + item.offset[e]]
            if slot < 0:
                keep[i] = 0
                values[e * CHUNK + i] = 0
                nulls[e * CHUNK + i] = 1
                continue
            slot &= core.ring_mask
            if item.column[e] == COLUMN_TYPE:
                values[e * CHUNK + i] = core.type_codes[core.ring_type[slot]]
            else:
                values[e * CHUNK + i] = item.data[e][slot]
            nulls[e * CHUNK + i] = 0 if item.null[e] == NULL else item.null[e][slot]
    for i in range(n):
        n_present += keep[i]
    return n_present


cdef void _element_inputs(Core* core, ForAll* item, int64_t j, const Index* index, const Bucket* bucket,
                          int64_t row) noexcept nogil:
    """Set the inputs of the program of a for-all condition."""
    cdef Stage* stage = &core.stage
    cdef Code* program = &item.program
    cdef int i, e
    for i in range(program.n_inputs):
        e = program.input_number[i]
        core.inputs[i].bits = NULL
        core.inputs[i].stride = 0
        if program.input_kind[i] == ELEM:
            core.inputs[i].data = item.values + e * CHUNK
            core.inputs[i].nulls = item.nulls + e * CHUNK
            core.inputs[i].stride = 1
        elif program.input_kind[i] == EVENT:
            core.inputs[i].data = column_of(index, bucket, 1 + e) + row
            item.one_null[e] = (column_of(index, bucket, 0)[row] >> e) & 1
            core.inputs[i].nulls = item.one_null + e
        else:
            core.inputs[i].data = stage.out[e] + j
            core.inputs[i].nulls = stage.out_null[e] + j
