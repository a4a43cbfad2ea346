# cython: language_level=3
"""Matches that wait: for the end of their window because of a trailing negation, or for the ticks of PERIODIC.

A waiting match is a row of ``Core.pending``: start ordinal, state, last time that counts, bindings, outputs and their nulls.
It counts as a partial match of its start. Its start lives until the window has ended, so what it refers to is there.
"""
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memset

from fastcep._core.matches.emit cimport emit_staged, end_event
from fastcep._core.matches.negate cimport none_came
from fastcep._core.matches.policy cimport count_of_waiting
from fastcep._core.memory.pending_matches cimport (
    HEAD, Due, Pending, free_row, new_row, next_due, pending_clear, row_at, wait,
)
from fastcep._core.memory.starts cimport EXPLICIT
from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core, count_row

cdef inline int64_t _later(int64_t time, int64_t span) noexcept nogil:
    """``time + span`` (not negative), or the largest time."""
    return time + span if time <= INT64_MAX - span else INT64_MAX


cdef inline bint _ticks_after(const Core* core, int64_t time, int64_t last) noexcept nogil:
    """Whether there is a tick after ``time`` and not after ``last``."""
    return time <= INT64_MAX - core.period and time + core.period <= last


cdef void defer(Core* core, int number, int64_t j, int64_t time) noexcept nogil:
    """Let staged row ``j`` of state ``number``, complete at ``time``, wait until it is decided."""
    cdef State* state = core.states + number
    cdef int64_t start = core.stage.start[j], row
    cdef int64_t last = INT64_MAX
    cdef int64_t due
    cdef int64_t* to
    cdef int c
    if core.window_kind != EXPLICIT:
        last = _later(core.starts.time[start & core.starts.mask], core.window)
    due = last
    if core.period > 0:
        if not _ticks_after(core, time, last):
            return
        due = time + core.period
    row = new_row(&core.pending)
    if row < 0 or wait(&core.pending, due, core.next_birth, row) < 0:
        core.failed = True
        return
    to = row_at(&core.pending, row)
    memset(to, 0, core.pending.width * 8)
    to[0] = start
    to[1] = number
    to[2] = last
    to += HEAD
    for c in range(core.n_slots):
        to[c] = core.stage.bind[c][j]
    to += core.n_slots
    for c in range(state.outputs):
        to[2 * c] = core.stage.out[c][j]
        to[2 * c + 1] = core.stage.out_null[c][j]
    core.due = core.pending.heap[0].time
    count_row(core, start)


cdef void _load(Core* core, const int64_t* row) noexcept nogil:
    """Make a waiting match staged row 0."""
    cdef State* state = core.states + row[1]
    cdef int c
    core.stage.start[0] = row[0]
    row += HEAD
    for c in range(core.n_slots):
        core.stage.bind[c][0] = row[c]
    row += core.n_slots
    for c in range(state.outputs):
        core.stage.out[c][0] = row[2 * c]
        core.stage.out_null[c][0] = row[2 * c + 1] != 0


cdef void decide(Core* core, int64_t time, bint all) noexcept nogil:
    """Decide what is due before ``time``, or all there is, and emit what holds; at the end of an explicit window: then."""
    cdef Due due
    cdef int64_t* row
    cdef int64_t start, now = core.now
    cdef State* state
    cdef bint stands
    core.emitted = 0
    while core.pending.size > 0 and (all or core.pending.heap[0].time < time) and not core.failed:
        due = next_due(&core.pending)
        if core.window_kind == EXPLICIT:
            due.time = time
        row = row_at(&core.pending, due.row)
        start = row[0]
        state = core.states + row[1]
        _load(core, row)
        core.now = due.time
        stands = none_came(core, state.at_end, state.n_at_end, state, 0, due.time)
        core.current_place = -1
        if stands and core.n_counts > 0:
            _emit_within_limit(core, state)
        elif stands:
            emit_staged(core, state, 0)
        if stands and core.period > 0 and _ticks_after(core, due.time, row[2]):
            if wait(&core.pending, due.time + core.period, due.birth, due.row) < 0:
                core.failed = True
        else:
            free_row(&core.pending, due.row)
            core.starts.rows[start & core.starts.mask] -= 1
            core.starts.live -= 1
        if core.pending.size == 0 or (core.pending.heap[0].time != due.time and core.window_kind != EXPLICIT):
            end_event(core, -1, due.time)
    core.now = now
    core.due = core.pending.heap[0].time if core.pending.size > 0 else INT64_MAX


cdef void _emit_within_limit(Core* core, const State* state) noexcept nogil:
    """Emit staged row 0 if the window's limit allows another match of its partition."""
    cdef int64_t emitted = core.emitted
    cdef int64_t* count = count_of_waiting(core, state)
    if count != NULL and count[0] < core.limit:
        emit_staged(core, state, 0)
        count[0] += core.emitted - emitted  # none if the match differs in the variables of an ANY only


cdef void drop_pending(Core* core) noexcept nogil:
    """Forget every waiting match (their starts go with them)."""
    pending_clear(&core.pending)
    core.due = INT64_MAX
