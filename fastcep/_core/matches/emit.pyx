# cython: language_level=3
"""Write complete matches to the output: from the stage, or directly from the bucket of their parents."""
from libc.stdint cimport int32_t, int64_t

from fastcep._core.matches.elements cimport elements_of, rounds_of
from fastcep._core.matches.expand cimport expand
from fastcep._core.matches.policy cimport apply_policies
from fastcep._core.memory.match_set cimport add_entry, forget
from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.memory.starts cimport EXPLICIT, gather_starts
from fastcep._core.memory.vectors cimport Vec, fill, gather, push, reserve
from fastcep._core.program.plan_tables cimport FIRST, THIS, VARIABLE_AT, Edge, State, Variable
from fastcep._core.shed.lineage cimport note_matches
from fastcep._core.state.core cimport Core


cdef void emit_staged(Core* core, const State* state, int64_t j) noexcept nogil:
    """Write staged row ``j`` of ``state``, a complete match, to the output."""
    if core.n_sets > 0 and not _is_new(core, state, j):
        return
    write_row(core, state, j, core.out_values, core.out_lengths)
    if core.observed.on:
        note_matches(core, core.stage.class_ + j, 1)
    if core.is_shared and push(&core.out_windows, core.starts.window[core.stage.start[j] & core.starts.mask]) < 0:
        core.failed = True
    core.emitted += 1


cdef void write_row(Core* core, const State* state, int64_t j, Vec* values, Vec* lengths) noexcept nogil:
    """Append the bindings of staged row ``j`` to the vectors of each variable."""
    cdef Variable* variable
    cdef int m, group = -1
    cdef int64_t i, count = 0
    for m in range(core.n_variables):
        variable = core.variables + m
        if variable.negated:
            continue
        if not variable.repeated:
            if push(values + m, core.stage.bind[m][j] if state.has[m] else -1) < 0:
                core.failed = True
            continue
        if not state.has[variable.slot]:
            count = core.chains[m].size = 0
        elif variable.group < 0 or variable.group != group:
            count = elements_of(core, m, j)
            group = variable.group
        for i in range(count):
            if push(values + m, core.chains[m].data[i]) < 0:
                core.failed = True
        if push(lengths + m, count) < 0:
            core.failed = True


cdef bint _is_new(Core* core, const State* state, int64_t j) noexcept nogil:
    """Return whether no earlier match of this event binds the same events, regardless of their order in an ANY."""
    cdef Vec* words = &core.seen.words
    cdef Variable* variable
    cdef int64_t first, i, at, word
    cdef int m, n, slot, is_new
    for slot in range(core.n_slots):
        if slot < core.n_variables and (core.variables[slot].slot != slot or core.variables[slot].negated or core.variables[slot].set >= 0):
            continue
        if not state.has[slot]:
            _push(core, -1)
        elif slot >= core.n_variables:
            rounds_of(core, slot, j)
            _push(core, core.chains[slot].size)
            for i in range(core.chains[slot].size):
                word = core.chains[slot].data[i]
                m = (word >> VARIABLE_AT) & 0xFF
                if core.variables[m].set >= 0:
                    word += <int64_t>(core.variables[m].set - m) << VARIABLE_AT
                _push(core, word)
        elif core.variables[slot].repeated:
            _push(core, elements_of(core, slot, j))
            for i in range(core.chains[slot].size):
                _push(core, core.chains[slot].data[i])
        else:
            _push(core, core.stage.bind[slot][j])
    for m in range(core.n_variables):
        if core.variables[m].set != m or core.variables[m].group >= 0:
            continue
        first = words.size
        for n in range(m, core.n_variables):
            variable = core.variables + n
            if variable.set != m:
                continue
            word = core.stage.bind[n][j] if state.has[n] else -1
            _push(core, word)
            if core.failed:
                return False
            at = words.size - 1
            while at > first and words.data[at - 1] > word:
                words.data[at] = words.data[at - 1]
                at -= 1
            words.data[at] = word
    is_new = -1 if core.failed else add_entry(&core.seen)
    if is_new < 0:
        core.failed = True
    return is_new > 0


cdef inline void _push(Core* core, int64_t word) noexcept nogil:
    """Append a word to the entry of a match in ``seen``."""
    if push(&core.seen.words, word) < 0:
        core.failed = True


cdef void emit_rows(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                    int64_t position) noexcept nogil:
    """Write the matches of the event with ``n`` rows of a bucket (as for ``stage_rows``) to the output."""
    cdef State* source = core.states + edge.source
    cdef const int64_t* from_ = bucket.data + <int64_t>first * source.fixed
    cdef Vec* vec
    cdef int m, word
    for m in range(core.n_variables):
        if core.variables[m].negated:
            continue
        vec = core.out_values + m
        if vec.size + n > vec.capacity and reserve(vec, vec.size + n) < 0:
            core.failed = True
            return
        word = edge.variable_from[m]
        if word == FIRST:
            gather_starts(vec.data + vec.size, &core.starts, from_, source.fixed, rows, n)
        elif word >= 0:
            gather(vec.data + vec.size, from_ + word, source.fixed, rows, n)
        else:
            fill(vec.data + vec.size, position if word == THIS else -1, n)
        vec.size += n
    if core.is_shared:
        vec = &core.out_windows
        if vec.size + n > vec.capacity and reserve(vec, vec.size + n) < 0:
            core.failed = True
            return
        for m in range(n):
            vec.data[vec.size + m] = core.starts.window[
                from_[(m if rows == NULL else rows[m]) * source.fixed] & core.starts.mask]
        vec.size += n
    core.emitted += n


cdef void end_event(Core* core, int64_t position, int64_t time) noexcept nogil:
    """Apply the policies to the matches just emitted, and record the event and time that completed those that are
    reported.

    ``position`` is -1 if the matches were decided by time and not by an event.
    """
    cdef int64_t i
    if core.has_policy and core.emitted and not core.failed:
        apply_policies(core)
    if core.window_kind == EXPLICIT and core.emitted and not core.failed:
        if core.is_shared:
            expand(core)
        else:
            for i in range(core.emitted):
                if push(&core.out_windows, core.window_id) < 0:
                    core.failed = True
    if core.parts > 1 and position < 0 and core.window_kind == EXPLICIT and core.emitted and not core.failed:
        if push(&core.places, core.place) < 0 or push(&core.places, core.opened) < 0:
            core.failed = True
    if core.emitted and not core.failed:
        if (push(&core.detected, position) < 0 or push(&core.detected_times, time) < 0
                or push(&core.detected_counts, core.emitted) < 0):
            core.failed = True
        else:
            core.matches += core.emitted
    core.emitted = 0
    if core.n_sets > 0:
        forget(&core.seen)
