# cython: language_level=3
"""SELECT longest: of the matches that begin with the same event, report the one whose last event is the latest.

The longest match of a start so far waits in a row of ``Core.pending`` (see decide.pyx), whose third word is its birth.
It is reported when the start has ended:

* under contiguity, at the next event (of the partition) that makes no row of the start (``Starts.alive``);
* under skip_till_next, when the start has no other row;
* under WITHIN n EVENTS, at the last event of the window;
* at the end of a window by time, and at the end of the stream.

Every event is visited where an event that no variable may bind can end a start (``Core.visits_all``). Only the starts
that the event may have ended are visited (``Core.touched``): under contiguity those that the previous event has
extended (``Starts.lists``), otherwise those that have lost a row. With AFTER MATCH SKIP PAST LAST, SKIP TO FIRST and
SKIP TO LAST under contiguity, a match waits for the starts before it in its partition, so that the earliest start is
served first.
"""
from libc.stdint cimport INT64_MAX, int64_t
from libc.stdlib cimport qsort

from fastcep._core.matches.emit cimport emit_staged, end_event
from fastcep._core.matches.policy cimport PAST_LAST, TO_FIRST, TO_NEXT, count_of_waiting, partition_of
from fastcep._core.matches.waiting cimport end_of_window, load_waiting, new_waiting, write_waiting
from fastcep._core.memory.pending_matches cimport Pending, outputs_of, remove_marked, row_at
from fastcep._core.memory.start_lists cimport put_list, take_list
from fastcep._core.memory.starts cimport EVENTS, EXPLICIT, TIME, Starts
from fastcep._core.memory.vectors cimport Vec, push
from fastcep._core.program.plan_tables cimport VARIABLE_AT, State
from fastcep._core.state.core cimport Core, count_row, position_of
from fastcep._core.state.remove_rows cimport drop_before

cdef enum:
    BIRTH = 2                # word of its birth


cdef void keep_longest(Core* core, int number, int64_t j) noexcept nogil:
    """Keep staged row ``j`` of state ``number``, a match, in place of the one of its start that ended earlier."""
    cdef int64_t start = core.stage.start[j], row = core.starts.best[start & core.starts.mask], birth = core.next_birth
    if push(&core.touched, start) < 0:
        core.failed = True
        return
    if row < 0:
        row = new_waiting(core, end_of_window(core, start))
        if row < 0:
            return
        core.starts.best[start & core.starts.mask] = row
        count_row(core, start)
    elif row_at(&core.pending, row)[BIRTH] >= core.event_birth:
        return  # of the matches that end in one event, the first in birth order
    else:
        core.next_birth += 1
    write_waiting(core, row, number, birth, j)


cdef inline bint _counted_out(const Core* core, int64_t slot, int64_t position) noexcept nogil:
    """Return whether the event is the last one in the window of n events of a start."""
    return core.window_kind == EVENTS and position - core.starts.position[slot] >= core.window - 1


cdef void note_extended(Core* core, int64_t start, int64_t position) noexcept nogil:
    """Note that an event has made a row of a start."""
    cdef int64_t slot = start & core.starts.mask
    if core.starts.alive[slot] != position:
        core.starts.alive[slot] = position
        if core.follows and push(&core.touched, start) < 0:
            core.failed = True


cdef void settle(Core* core, int k, int64_t position) noexcept nogil:
    """Report the longest matches of the starts that event ``k`` of the chunk has ended."""
    if core.pending.size > 0:
        core.chosen.size = 0
        if core.window_kind == EVENTS:
            _end_counted_out(core, position)
        if core.follows:
            _end_unextended(core, k, position)
        else:
            _end_rowless(core, position)
        if core.chosen.size > 0 and not core.failed:
            _report(core, position, core.now)
            core.due = core.pending.heap[0].time if core.pending.size > 0 else INT64_MAX
    core.touched.size = 0


cdef inline void _end(Core* core, int64_t slot) noexcept nogil:
    """Add the longest match of a start to those that are reported."""
    if push(&core.chosen, core.starts.best[slot]) < 0:
        core.failed = True


cdef void _end_counted_out(Core* core, int64_t position) noexcept nogil:
    """End the starts for which the event is the last one in their window of n events."""
    cdef int64_t start, slot
    for start in range(core.starts.first, core.starts.next):
        slot = start & core.starts.mask
        if not _counted_out(core, slot, position):
            return
        if core.starts.best[slot] >= 0:
            _end(core, slot)


cdef void _end_rowless(Core* core, int64_t position) noexcept nogil:
    """End the starts that have no row left except their longest match."""
    cdef int64_t i, slot
    if core.starts.unsettled:
        core.starts.unsettled = False
        for i in range(core.pending.size):
            if push(&core.touched, row_at(&core.pending, core.pending.heap[i].row)[0]) < 0:
                core.failed = True
                return
    _sort_touched(core)
    for i in range(core.touched.size):
        slot = core.touched.data[i] & core.starts.mask
        if (core.touched.data[i] >= core.starts.first and core.starts.best[slot] >= 0 and core.starts.rows[slot] == 1
                and not _counted_out(core, slot, position)):
            _end(core, slot)


cdef void _end_unextended(Core* core, int k, int64_t position) noexcept nogil:
    """End the starts of the previous event, and matches of event ``k``, of which the event has made no row.

    The starts that go on are listed under the event.
    """
    cdef Starts* starts = &core.starts
    cdef int64_t previous = position - 1, start, slot, i, oldest = INT64_MAX, newest = -1
    if core.previous_column >= 0:
        previous = core.columns[core.previous_column].data[k]
    start = take_list(&starts.lists, previous) if previous >= 0 else -1
    while start >= starts.first:
        if push(&core.touched, start) < 0:
            core.failed = True
            return
        start = starts.older[start & starts.mask]
    _sort_touched(core)
    if core.after_match > TO_NEXT:
        oldest = _oldest_extended(core, position)
    for i in range(core.touched.size):
        start = core.touched.data[i]
        slot = start & starts.mask
        if start < starts.first or starts.best[slot] < 0 or _counted_out(core, slot, position):
            continue
        if starts.alive[slot] != position:
            if start < oldest or not _in_partition_of_event(core, row_at(&core.pending, starts.best[slot]), k):
                _end(core, slot)
                continue
            starts.alive[slot] = position  # it waits for the starts before it
        starts.older[slot] = newest
        newest = start
    if newest >= 0 and put_list(&starts.lists, position, newest, starts.first) < 0:
        core.failed = True


cdef void _sort_touched(Core* core) noexcept nogil:
    """Sort the touched starts, and remove duplicates."""
    cdef int64_t* data = core.touched.data
    cdef int64_t i = 1, n = 0
    while i < core.touched.size and data[i - 1] < data[i]:
        i += 1
    if i >= core.touched.size:
        return
    qsort(data, core.touched.size, sizeof(int64_t), _compare)
    for i in range(core.touched.size):
        if i == 0 or data[i] != data[n - 1]:
            data[n] = data[i]
            n += 1
    core.touched.size = n


cdef int64_t _oldest_extended(const Core* core, int64_t position) noexcept nogil:
    """Return the first start that the event has extended or begun and that can go on; INT64_MAX if there is none."""
    cdef int64_t i, slot
    for i in range(core.touched.size):
        slot = core.touched.data[i] & core.starts.mask
        if core.touched.data[i] >= core.starts.first and core.starts.alive[slot] == position and not _counted_out(
                core, slot, position):
            return core.touched.data[i]
    return INT64_MAX


cdef inline const State* _state_of(const Core* core, const int64_t* row) noexcept nogil:
    return core.states + (row[1] if row[1] >= 0 else ~row[1])


cdef inline void _read_partition(Core* core, const int64_t* row) noexcept nogil:
    """Write the key of the partition of a waiting match to ``core.key``."""
    cdef const State* state = _state_of(core, row)
    cdef int w
    for w in range(core.n_partition):
        core.key[w] = row[3 + core.n_slots + 2 * state.partition[w]]


cdef bint _is_in_partition(const Core* core, const int64_t* row) noexcept nogil:
    """Return whether a waiting match is of the partition in ``core.key``; True if there are no partitions."""
    cdef const State* state = _state_of(core, row)
    cdef int w
    for w in range(core.n_partition):
        if core.key[w] != row[3 + core.n_slots + 2 * state.partition[w]]:
            return False
    return True


cdef bint _in_partition_of_event(Core* core, const int64_t* row, int k) noexcept nogil:
    """Return whether a waiting match is of the partition of event ``k``, which a partial match binds."""
    if core.n_partition == 0:
        return True
    return partition_of(core, core.current, k) and _is_in_partition(core, row)


cdef int _compare(const void* left, const void* right) noexcept nogil:
    """Compare two words, or the first words of two pairs, for ``qsort``."""
    cdef int64_t a = (<const int64_t*>left)[0], b = (<const int64_t*>right)[0]
    return (a > b) - (a < b)


cdef bint _order(Core* core, int word) noexcept nogil:
    """Write pairs of word ``word`` and number of the rows in ``chosen`` to ``leaving``, in ascending order."""
    cdef int64_t i
    core.leaving.size = 0
    for i in range(core.chosen.size):
        if (push(&core.leaving, row_at(&core.pending, core.chosen.data[i])[word]) < 0
                or push(&core.leaving, core.chosen.data[i]) < 0):
            core.failed = True
            return False
    qsort(core.leaving.data, core.chosen.size, 2 * sizeof(int64_t), _compare)
    return True


cdef int64_t _horizon(Core* core, const int64_t* row) noexcept nogil:
    """Return the position to which AFTER MATCH skips after a waiting match; -1 if it drops no other start."""
    cdef const State* state = core.states + row[1]
    cdef int64_t first = INT64_MAX, last = -1, word, position
    cdef int slot, m
    for slot in range(core.n_slots):
        if not state.has[slot] or (slot < core.n_variables and core.variables[slot].slot != slot):
            continue
        word = row[3 + slot]
        if slot < core.n_variables and not core.variables[slot].repeated:
            if word >= 0 and (core.after_match == PAST_LAST or core.skip_to >> slot & 1):
                first, last = min(first, word), max(last, word)
            continue
        while word >= 0:
            position = position_of(core.starts.event[word])
            m = slot if slot < core.n_variables else <int>((core.starts.event[word] >> VARIABLE_AT) & 0xFF)
            if core.after_match == PAST_LAST or core.skip_to >> m & 1:
                first, last = min(first, position), max(last, position)
            word = core.starts.previous[word]
    if last < 0:
        return -1
    if core.after_match == PAST_LAST:
        return last + 1
    if core.after_match == TO_FIRST:
        last = first
    return last if last > core.starts.position[row[0] & core.starts.mask] else -1


cdef void _report(Core* core, int64_t position, int64_t time) noexcept nogil:
    """Report the waiting matches in ``chosen`` that no earlier one of them drops, and remove them all.

    ``position`` is that of the event that has ended their starts, -1 if time has.
    """
    cdef int64_t* row
    cdef int64_t i
    core.horizons.size = 0
    core.emitted = 0
    if core.after_match > TO_NEXT:
        _choose(core)
    if not core.failed and _order(core, BIRTH):
        for i in range(core.chosen.size):
            row = row_at(&core.pending, core.leaving.data[2 * i + 1])
            load_waiting(core, row)
            if _is_within_limit(core, core.states + row[1], core.leaving.data[2 * i + 1]):
                emit_staged(core, core.states + row[1], 0)
    if core.failed:
        return
    for i in range(core.horizons.size // 2):
        _skip(core, core.horizons.data[2 * i], core.horizons.data[2 * i + 1])
    for i in range(core.chosen.size):
        _remove(core, row_at(&core.pending, core.chosen.data[i]))
    remove_marked(&core.pending)
    end_event(core, position, time)


cdef void _choose(Core* core) noexcept nogil:
    """Remove the matches that an earlier one drops from ``chosen``, and list the others that drop starts.

    ``horizons`` gets their rows and the positions to which they skip.
    """
    cdef int64_t* row
    cdef int64_t i, h, horizon, n = 0
    if not _order(core, 0):
        return
    for i in range(core.chosen.size):
        row = row_at(&core.pending, core.leaving.data[2 * i + 1])
        for h in range(core.horizons.size // 2):
            if core.starts.position[row[0] & core.starts.mask] < core.horizons.data[2 * h + 1]:
                _read_partition(core, row_at(&core.pending, core.horizons.data[2 * h]))
                if _is_in_partition(core, row):
                    _remove(core, row)
                    break
        else:
            core.chosen.data[n] = core.leaving.data[2 * i + 1]
            n += 1
            horizon = _horizon(core, row)
            if horizon >= 0 and (push(&core.horizons, core.leaving.data[2 * i + 1]) < 0 or push(&core.horizons, horizon) < 0):
                core.failed = True
                return
    core.chosen.size = n


cdef bint _is_within_limit(Core* core, const State* state, int64_t number) noexcept nogil:
    """Count the match in staged row 0, waiting match ``number``; False if its window or partition has enough of them.

    The partial matches of a partition that reaches its limit are removed.
    """
    cdef int64_t* count = &core.reported
    if core.limit == 0:
        return True
    if core.n_counts > 0:
        count = count_of_waiting(core, state)
        if count == NULL:
            return False
    if count[0] == core.limit:
        return False
    count[0] += 1
    if core.n_counts > 0 and count[0] == core.limit and (
            push(&core.horizons, number) < 0 or push(&core.horizons, INT64_MAX) < 0):
        core.failed = True
    return True


cdef void _skip(Core* core, int64_t number, int64_t horizon) noexcept nogil:
    """Remove the rows and waiting matches that begin before ``horizon``, in the partition of waiting match ``number``."""
    cdef int64_t* row = row_at(&core.pending, number)
    cdef int64_t i
    _read_partition(core, row)
    for i in range(core.pending.size):
        row = row_at(&core.pending, core.pending.heap[i].row)
        if (row[1] >= 0 and _is_in_partition(core, row)
                and core.starts.position[row[0] & core.starts.mask] < horizon):
            _remove(core, row)
    drop_before(core, horizon)


cdef void _remove(Core* core, int64_t* row) noexcept nogil:
    """Mark a waiting match as removed, by the complement of its state, and uncount it."""
    if row[1] < 0:
        return
    row[1] = ~row[1]
    if row[0] >= core.starts.first:
        core.starts.best[row[0] & core.starts.mask] = -1
        core.starts.rows[row[0] & core.starts.mask] -= 1
        core.starts.live -= 1


cdef void decide_longest(Core* core, int64_t time, bint everything) noexcept nogil:
    """Report the matches of the starts whose window ends before ``time``, or all of them.

    In an explicit window, matches are decided at ``time``, which is its end.
    """
    cdef Pending* pending = &core.pending
    cdef int64_t now = core.now, due, i
    while pending.size > 0 and (everything or pending.heap[0].time < time) and not core.failed:
        due = pending.heap[0].time
        core.chosen.size = 0
        for i in range(pending.size):
            if pending.heap[i].time == due and push(&core.chosen, pending.heap[i].row) < 0:
                core.failed = True
                break
        if core.window_kind == EXPLICIT:
            core.now = time
        elif core.window_kind == TIME:
            core.now = due
        if not core.failed:
            _report(core, -1, core.now)
    core.now = now
    core.due = pending.heap[0].time if pending.size > 0 else INT64_MAX
