# cython: language_level=3
"""Negated variables: store their events in buckets by key, in stream order; a check searches between two positions.

Word 0 of a row decides when the row is dead: it is the time of the event if a match may need an event before its first
one, otherwise the position. Word 1 is the position, word 2 the time. The registers follow, as in the rows of partial
matches.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t

from fastcep._core.matches.elements cimport guard, holds, rounds_of
from fastcep._core.memory.row_store cimport Bucket, Index, append, bucket_at, column_of, find, find_or_add
from fastcep._core.memory.starts cimport EXPLICIT
from fastcep._core.program.plan_tables cimport Absence, Negation, State
from fastcep._core.program.predicate cimport CHUNK, Code, run
from fastcep._core.state.core cimport ROW, Core, copy_event, position_of, read_key


cdef int64_t oldest_needed(const Core* core, int negation, int64_t time) noexcept nogil:
    """Return the least value of word 0 that a row must have to be needed at ``time``."""
    if core.negations[negation].by_time:
        if core.window_kind == EXPLICIT:
            return INT64_MIN
        return time - core.window if time >= INT64_MIN + core.window else INT64_MIN
    if core.starts.first == core.starts.next:
        return INT64_MAX
    return core.starts.position[core.starts.first & core.starts.mask]


cdef void store_negated(Core* core, int variable, int k, int64_t position, int64_t time) noexcept nogil:
    """Store event ``k`` of the chunk for the checks of a negated variable."""
    cdef Negation* item
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t* row
    cdef int64_t bucket_number, row_number
    cdef int n
    for n in range(core.n_negations):
        item = core.negations + n
        if item.variable != variable or (not item.by_time and core.starts.first == core.starts.next):
            continue
        index = core.indexes + core.n_indexes + n
        if not read_key(item.keys, item.n_keys, k, core.key):
            continue
        bucket_number = find_or_add(index, core.key)
        row_number = -1 if bucket_number < 0 else append(index, bucket_number, oldest_needed(core, n, time))
        if row_number < 0:
            core.failed = True
            return
        bucket = bucket_at(index, bucket_number)
        row = bucket.data + row_number * index.fixed
        row[0] = time if item.by_time else position
        row[1] = position
        row[2] = time
        copy_event(index, bucket, row_number, item.registers, item.n_registers, k)


cdef bint are_absent(Core* core, const int32_t* checks, int n, const State* state, int64_t j, int64_t until) noexcept nogil:
    """Return whether the ``n`` absence checks pass for staged row ``j`` of ``state``.

    ``until``: end of the search, as a time, if no event is bound after the negated variable.
    """
    cdef int i
    for i in range(n):
        if not _passes(core, core.absences + checks[i], state, j, until):
            return False
    return True


cdef bint _passes(Core* core, Absence* item, const State* state, int64_t j, int64_t until) noexcept nogil:
    """Return whether staged row ``j`` passes one absence check."""
    cdef Index* index = core.indexes + core.n_indexes + item.negation
    cdef Bucket* bucket
    cdef int64_t number, low, high, rounds, r
    cdef int c
    if not guard(core, item.guard, j):
        return True
    for c in range(core.negations[item.negation].n_keys):
        if core.stage.out_null[item.keys[c]][j]:
            return True
        core.key[c] = core.stage.out[item.keys[c]][j]
    number = find(index, core.key)
    if number < 0 and core.last_missed == INT64_MIN:
        return True
    bucket = NULL if number < 0 else bucket_at(index, number)
    if item.group < 0:
        low = _latest(core, item, state, j)
        if item.until:
            return _ends_loop(core, item, index, bucket, low, until, j)
        high = _earliest(core, item, state, j)
        if low < 0 and high == INT64_MAX:
            return True  # the match does not use the SEQ of the negated variable
        return not _occurs(core, item, index, bucket, low, high, until, j, -1)
    if not state.has[core.n_variables + item.group]:
        return True
    rounds = rounds_of(core, core.n_variables + item.group, j)
    for r in range(rounds - 1 if item.latest else 0, rounds):
        low, high = -1, INT64_MAX
        for c in range(item.n_before):
            low = max(low, core.chains[item.before[c]].data[r])
        for c in range(item.n_after):
            if core.chains[item.after[c]].data[r] >= 0:
                high = min(high, core.chains[item.after[c]].data[r])
        if low < 0:
            continue  # the round does not use the SEQ of the negated variable
        if _occurs(core, item, index, bucket, low, high, until, j, r):
            return False
    return True


cdef bint _ends_loop(Core* core, Absence* item, const Index* index, const Bucket* bucket, int64_t low, int64_t until,
                     int64_t j) noexcept nogil:
    """Return whether no event that ends a loop (UNTIL) occurred before the newest element of the loop.

    Earlier events have been checked when the elements before it came, so the search begins at the last of them, which
    may itself be such an event. ``low`` is the last event bound before the loop; -1 if there is none: the first element
    then takes its place.
    """
    cdef int64_t node = core.stage.bind[core.variables[item.after[0]].slot][j]
    cdef int64_t earlier = core.starts.previous[node]
    if earlier >= 0:
        low = position_of(core.starts.event[earlier]) - (low >= 0 or core.starts.previous[earlier] >= 0)
    return low < 0 or not _occurs(core, item, index, bucket, low, position_of(core.starts.event[node]), until, j, -1)


cdef int64_t _latest(Core* core, const Absence* item, const State* state, int64_t j) noexcept nogil:
    """Return the position of the last event that is bound before the negated variable, or -1."""
    cdef int64_t low = -1, bound
    cdef int c, slot
    for c in range(item.n_before):
        slot = core.variables[item.before[c]].slot
        if state.has[slot]:
            bound = core.stage.bind[slot][j]
            if core.variables[item.before[c]].repeated and bound >= 0:
                bound = position_of(core.starts.event[bound])
            low = max(low, bound)
    return low


cdef int64_t _earliest(Core* core, const Absence* item, const State* state, int64_t j) noexcept nogil:
    """Return the position of the first event that is bound after the negated variable, or INT64_MAX."""
    cdef int64_t high = INT64_MAX, bound
    cdef int c, slot
    for c in range(item.n_after):
        slot = core.variables[item.after[c]].slot
        if state.has[slot] and core.stage.bind[slot][j] >= 0:
            bound = core.stage.bind[slot][j]
            if core.variables[item.after[c]].repeated:
                while core.starts.previous[bound] >= 0:
                    bound = core.starts.previous[bound]
                bound = position_of(core.starts.event[bound])
            high = min(high, bound)
    return high


cdef int _first_after(const Index* index, const Bucket* bucket, int word, int64_t value) noexcept nogil:
    """Return the first row whose word ``word`` is greater than ``value``; the word ascends from row to row."""
    cdef int low = bucket.head, high = bucket.size, middle
    while low < high:
        middle = low + (high - low) // 2
        if bucket.data[<int64_t>middle * index.fixed + word] > value:
            high = middle
        else:
            low = middle + 1
    return low


cdef bint _occurs(Core* core, Absence* item, const Index* index, const Bucket* bucket, int64_t low, int64_t high,
                  int64_t until, int64_t j, int64_t round) noexcept nogil:
    """Return whether an event between positions ``low`` and ``high`` satisfies the conditions.

    ``low`` -1: search from the start of the window. ``high`` INT64_MAX: search up to time ``until``. ``bucket`` NULL:
    no event is stored under the key.
    """
    cdef int64_t since = INT64_MIN
    cdef int first, end, m, i, c
    cdef uint8_t keep[CHUNK]
    if low < 0:
        if core.window_kind == EXPLICIT:
            since = core.window_time
        else:
            since = core.now - core.window if core.now >= INT64_MIN + core.window else INT64_MIN
        if core.last_missed > INT64_MIN and core.last_missed >= since:
            return True  # an event may have been missed, so a match could be false and is not reported
    if bucket == NULL:
        return False
    if low >= 0:
        first = _first_after(index, bucket, 1, low)
    else:
        first = bucket.head if since == INT64_MIN else _first_after(index, bucket, 2, since - 1)
    end = _first_after(index, bucket, 2, until) if high == INT64_MAX else _first_after(index, bucket, 1, high - 1)
    if not item.has_program and item.n_forall == 0:
        return first < end
    while first < end:
        m = min(<int>CHUNK, end - first)
        for i in range(m):
            keep[i] = 1
        if item.has_program:
            _set_inputs(core, &item.program, index, bucket, first, j)
            run(core.vm, &item.program, core.inputs, NULL, m, keep, NULL, NULL, 0)
        for i in range(m):
            if not keep[i]:
                continue
            for c in range(item.n_forall):
                if not holds(core, item.forall[c], j, round, index, bucket, first + i):
                    break
            else:
                return True
        first += m
    return False


cdef void _set_inputs(Core* core, const Code* program, const Index* index, const Bucket* bucket, int first,
                      int64_t j) noexcept nogil:
    """Set the inputs of the conditions: registers of the rows from ``first`` on, outputs of staged row ``j``."""
    cdef int i, number
    for i in range(program.n_inputs):
        number = program.input_number[i]
        if program.input_kind[i] == ROW:
            core.inputs[i].data = column_of(index, bucket, 1 + number) + first
            core.inputs[i].nulls = NULL
            core.inputs[i].bits = column_of(index, bucket, 0) + first
            core.inputs[i].bit = number
            core.inputs[i].stride = 1
        else:
            core.inputs[i].data = core.stage.out[number] + j
            core.inputs[i].nulls = core.stage.out_null[number] + j
            core.inputs[i].bits = NULL
            core.inputs[i].stride = 0
