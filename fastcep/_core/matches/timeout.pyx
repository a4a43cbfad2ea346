# cython: language_level=3
"""Output of partial matches whose window has ended (``Engine(timed_out=True)``).

Expiry only moves the first live start and visits no row. If timed-out partial matches are an output, dead starts are
kept until there are enough of them, or until the batch ends. Then one walk through all rows writes their rows out and
releases the starts.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport qsort

from fastcep._core.matches.emit cimport write_row
from fastcep._core.memory.row_store cimport Bucket, Index, bucket_at
from fastcep._core.memory.starts cimport EVENTS, EXPLICIT, TIME, last_time, release
from fastcep._core.memory.vectors cimport Vec, push
from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core

cdef enum:
    ENTRY_WORDS = 5          # words of an entry of ``timed_rows``: time, birth, index, bucket, row


cdef void collect(Core* core, int64_t first, int64_t end) noexcept nogil:
    """Write out the partial matches of the starts ``[first, end)``, and release dead starts.

    They are sorted by the time at which they time out (in windows of n events: by start), then by birth. Rows that were
    reported as matches are left out.
    """
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t b, i, start, birth = -1
    cdef int r, n
    core.timed_rows.size = 0
    for n in range(core.n_indexes if first < end else 0):
        index = core.indexes + n
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            for r in range(bucket.head, bucket.size):
                start = bucket.data[<int64_t>r * index.fixed]
                if first <= start < end and not bucket.data[<int64_t>r * index.fixed + 2]:
                    _append_entry(core, 0 if core.window_kind == EXPLICIT else start if core.window_kind == EVENTS
                          else core.starts.time[start & core.starts.mask],
                          bucket.data[<int64_t>r * index.fixed + 1], n, b, r)
    if core.timed_rows.size > 0:  # data may be NULL
        qsort(core.timed_rows.data, core.timed_rows.size // ENTRY_WORDS, ENTRY_WORDS * sizeof(int64_t), _compare)
    for i in range(core.timed_rows.size // ENTRY_WORDS):
        if core.timed_rows.data[i * ENTRY_WORDS + 1] != birth:  # a row may be in several indexes
            birth = core.timed_rows.data[i * ENTRY_WORDS + 1]
            if not core.failed:  # after a failure the incomplete output is withdrawn
                _write(core, core.timed_rows.data + i * ENTRY_WORDS)
    release(&core.starts)


cdef inline void _append_entry(
        Core* core, int64_t time, int64_t birth, int64_t index, int64_t bucket, int64_t row) noexcept nogil:
    """Append an entry to ``timed_rows``."""
    if (push(&core.timed_rows, time) < 0 or push(&core.timed_rows, birth) < 0 or push(&core.timed_rows, index) < 0
            or push(&core.timed_rows, bucket) < 0 or push(&core.timed_rows, row) < 0):
        core.failed = True


cdef int _compare(const void* left, const void* right) noexcept nogil:
    """Compare two entries by time, then birth, for ``qsort``."""
    cdef const int64_t* a = <const int64_t*>left
    cdef const int64_t* b = <const int64_t*>right
    if a[0] != b[0]:
        return 1 if a[0] > b[0] else -1
    return (a[1] > b[1]) - (a[1] < b[1])


cdef void _write(Core* core, const int64_t* entry) noexcept nogil:
    """Write one partial match to the output of timed-out partial matches."""
    cdef int number = core.infos[entry[2]].state
    cdef State* state = core.states + number
    cdef Index* index = core.indexes + entry[2]
    cdef const int64_t* row = bucket_at(index, entry[3]).data + entry[4] * index.fixed
    cdef int64_t time = core.starts.time[row[0] & core.starts.mask]
    cdef int c
    core.stage.start[0] = row[0]
    for c in range(state.n_bind):
        core.stage.bind[state.slots[c]][0] = row[state.bind + c]
    if core.implied >= 0:
        core.stage.bind[core.implied][0] = core.starts.position[row[0] & core.starts.mask]
    write_row(core, state, 0, core.timed_values, core.timed_lengths)
    if core.failed:
        return
    if core.window_kind == TIME:
        time = last_time(&core.starts, time)
    elif core.window_kind == EXPLICIT:
        time = core.now
    if core.parts > 1 and core.window_kind == EXPLICIT:
        if push(&core.timed_places, core.place) < 0 or push(&core.timed_places, core.opened) < 0:
            core.failed = True
            return
    if push(&core.timed, number) < 0 or push(&core.timed, time) < 0 or push(&core.timed, core.window_id) < 0:
        core.failed = True
