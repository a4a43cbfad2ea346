# cython: language_level=3
"""Rows of matches that wait (``Core.pending``): start ordinal, state, one more word, bindings, outputs and their nulls."""
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memset

from fastcep._core.memory.pending_matches cimport HEAD, new_row, row_at, wait
from fastcep._core.memory.starts cimport TIME
from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core


cdef int64_t end_of_window(const Core* core, int64_t start) noexcept nogil:
    """Return the last time in the window of a start; INT64_MAX if its window does not end by time, or beyond int64."""
    cdef int64_t time = core.starts.time[start & core.starts.mask]
    return time + core.window if core.window_kind == TIME and time <= INT64_MAX - core.window else INT64_MAX


cdef int64_t new_waiting(Core* core, int64_t due) noexcept nogil:
    """Return a new row for a match that is decided at time ``due``; -1 if memory ran out."""
    cdef int64_t row = new_row(&core.pending)
    if row < 0 or wait(&core.pending, due, core.next_birth, row) < 0:
        core.failed = True
        return -1
    core.due = core.pending.heap[0].time
    return row


cdef void write_waiting(Core* core, int64_t row, int number, int64_t third, int64_t j) noexcept nogil:
    """Write staged row ``j`` of state ``number`` to a row; ``third`` is its third word."""
    cdef State* state = core.states + number
    cdef int64_t* to = row_at(&core.pending, row)
    cdef int c
    memset(to, 0, core.pending.width * 8)
    to[0] = core.stage.start[j]
    to[1] = number
    to[2] = third
    to += HEAD
    for c in range(core.n_slots):
        to[c] = core.stage.bind[c][j]
    to += core.n_slots
    for c in range(state.outputs):
        to[2 * c] = core.stage.out[c][j]
        to[2 * c + 1] = core.stage.out_null[c][j]


cdef void load_waiting(Core* core, const int64_t* row) noexcept nogil:
    """Copy a row to staged row 0."""
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
