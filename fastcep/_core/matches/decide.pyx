# cython: language_level=3
"""Matches that wait: for the end of their window (trailing negation), or for the ticks of PERIODIC.

A waiting match is a row of ``Core.pending``: start ordinal, state, end of the window, bindings, outputs and their
nulls. It counts as a partial match of its start. The start lives until the window has ended, so the row stays valid.
"""
from libc.stdint cimport INT64_MAX, int64_t

from fastcep._core.matches.emit cimport emit_staged, end_event
from fastcep._core.matches.longest cimport decide_longest
from fastcep._core.matches.negate cimport are_absent
from fastcep._core.matches.policy cimport count_of_waiting
from fastcep._core.matches.waiting cimport end_of_window, load_waiting, new_waiting, write_waiting
from fastcep._core.memory.pending_matches cimport (
    Due, Pending, free_row, next_due, pending_clear, row_at, wait,
)
from fastcep._core.memory.starts cimport EXPLICIT
from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core, count_row

cdef inline bint _ticks_after(const Core* core, int64_t time, int64_t last) noexcept nogil:
    """Return whether the next tick after ``time`` is at or before ``last``."""
    return time <= INT64_MAX - core.period and time + core.period <= last


cdef void defer(Core* core, int number, int64_t j, int64_t time) noexcept nogil:
    """Add staged row ``j`` of state ``number``, which is complete at ``time``, to the waiting matches."""
    cdef int64_t start = core.stage.start[j], row
    cdef State* state = core.states + number
    cdef int64_t last = end_of_window(core, start), due = last
    if state.due >= 0:
        due = INT64_MAX if core.stage.out_null[state.due][j] else core.stage.out[state.due][j]
    if core.period > 0:
        if not _ticks_after(core, time, last):
            return
        due = time + core.period
    row = new_waiting(core, due)
    if row < 0:
        return
    write_waiting(core, row, number, last, j)
    count_row(core, start)


cdef void decide(Core* core, int64_t time, bint everything) noexcept nogil:
    """Decide the waiting matches that are due before ``time``, or all of them, and emit those that hold.

    In an explicit window, matches are decided at ``time``, which is its end.
    """
    cdef Due due
    cdef int64_t* row
    cdef int64_t start, now = core.now
    cdef State* state
    cdef bint holds
    if core.longest:
        decide_longest(core, time, everything)
        return
    core.emitted = 0
    while core.pending.size > 0 and (everything or core.pending.heap[0].time < time) and not core.failed:
        due = next_due(&core.pending)
        if core.window_kind == EXPLICIT:
            due.time = time
        row = row_at(&core.pending, due.row)
        start = row[0]
        state = core.states + row[1]
        load_waiting(core, row)
        core.now = due.time
        holds = are_absent(core, state.at_end, state.n_at_end, state, 0, due.time)
        core.current_place = -1
        if holds and core.n_counts > 0:
            _emit_within_limit(core, state)
        elif holds:
            emit_staged(core, state, 0)
        if holds and core.period > 0 and _ticks_after(core, due.time, row[2]):
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
        count[0] += core.emitted - emitted  # 0 if the match differs from an earlier one only in the variables of an ANY


cdef void drop_pending(Core* core) noexcept nogil:
    """Drop all waiting matches. The caller drops their starts."""
    pending_clear(&core.pending)
    core.due = INT64_MAX
