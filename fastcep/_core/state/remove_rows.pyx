# cython: language_level=3
"""Remove single partial matches: those that an event has advanced, that bind a leaving event, or that are skipped.

A removed row gets a start ordinal before all others, so it is dead like a row whose window has ended. The plan gives
each state one index, so a row is in one bucket.
"""
from libc.stdint cimport INT64_MIN, int64_t

from fastcep._core.memory.allocator cimport give_back, obtain
from fastcep._core.memory.pending_matches cimport row_at
from fastcep._core.memory.row_store cimport Bucket, Index, bucket_at, compact, key_of
from fastcep._core.memory.starts cimport Starts, drop_empty, drop_first, free_nodes, relist
from fastcep._core.memory.vectors cimport contains, push
from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core, position_of

cdef enum:
    MOST_GAPS = 1024         # starts without rows that may stay between others


cdef void note_advance(Core* core, int index, int64_t bucket, int64_t birth) noexcept nogil:
    """Note that the event has advanced the row with this birth, which other variables may still extend by the event."""
    if push(&core.advanced, index) < 0 or push(&core.advanced, bucket) < 0 or push(&core.advanced, birth) < 0:
        core.failed = True


cdef void replace_advanced(Core* core) noexcept nogil:
    """Remove the rows that the event has advanced."""
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t i, birth, row
    cdef int low, high, middle, at
    for i in range(0, core.advanced.size, 3):
        index = core.indexes + core.advanced.data[i]
        bucket = bucket_at(index, core.advanced.data[i + 1])
        birth = core.advanced.data[i + 2]
        at = core.states[core.infos[core.advanced.data[i]].state].birth
        low, high = bucket.head, bucket.size
        while low < high:
            middle = low + (high - low) // 2
            if bucket.data[<int64_t>middle * index.fixed + at] < birth:
                low = middle + 1
            else:
                high = middle
        row = <int64_t>low * index.fixed
        if low < bucket.size and bucket.data[row + at] == birth:
            _remove(core, bucket.data + row)
    core.advanced.size = 0


cdef inline void _remove(Core* core, int64_t* row) noexcept nogil:
    if row[0] < core.starts.first:
        return
    core.starts.rows[row[0] & core.starts.mask] -= 1
    core.starts.live -= 1
    if core.longest and not core.follows and push(&core.touched, row[0]) < 0:
        core.failed = True
    row[0] = -1


cdef void drop_holders(Core* core) noexcept nogil:
    """Remove every row that binds an event of ``leaving``, and these events from the stores of negated variables."""
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t b, r
    cdef int i
    cdef bint any_removed
    for i in range(core.n_indexes):
        index = core.indexes + i
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            for r in range(bucket.head, bucket.size):
                if bucket.data[r * index.fixed] >= core.starts.first and _binds_leaving(
                        core, core.states + core.infos[i].state, bucket.data + r * index.fixed):
                    _remove(core, bucket.data + r * index.fixed)
    for i in range(core.n_indexes, core.n_indexes + core.n_negations):
        index = core.indexes + i
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            any_removed = False
            for r in range(bucket.head, bucket.size):
                if contains(&core.leaving, bucket.data[r * index.fixed + 1]):
                    bucket.data[r * index.fixed] = INT64_MIN
                    any_removed = True
            if any_removed:
                compact(index, bucket, INT64_MIN + 1)


cdef bint _binds_leaving(Core* core, const State* state, const int64_t* row) noexcept nogil:
    """Return True if a row binds an event of ``leaving``."""
    cdef int64_t word
    cdef int c, slot
    if core.implied >= 0 and contains(&core.leaving, core.starts.position[row[0] & core.starts.mask]):
        return True
    for c in range(state.n_bind):
        word = row[state.bind + c]
        slot = state.slots[c]
        if slot < core.n_variables and not core.variables[slot].repeated:
            if word >= 0 and contains(&core.leaving, word):
                return True
            continue
        while word >= 0:
            if contains(&core.leaving, position_of(core.starts.event[word])):
                return True
            word = core.starts.previous[word]
    return False


cdef void drop_starts(Core* core) noexcept nogil:
    """Remove every row whose first event is one of ``leaving``."""
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t b, r, start
    cdef int i
    for i in range(core.n_indexes):
        index = core.indexes + i
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            for r in range(bucket.head, bucket.size):
                start = bucket.data[r * index.fixed]
                if start >= core.starts.first and contains(
                        &core.leaving, core.starts.position[start & core.starts.mask]):
                    _remove(core, bucket.data + r * index.fixed)


cdef void drop_before(Core* core, int64_t position) noexcept nogil:
    """Remove every row that begins before ``position``; with partitions, only those of the one in ``core.key``."""
    cdef Starts* starts = &core.starts
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t b, r, start
    cdef int i, w
    if core.n_partition == 0 and not starts.keeps:
        while starts.first < starts.next and starts.position[starts.first & starts.mask] < position:
            drop_first(starts)
        return
    for i in range(core.n_indexes):
        index = core.indexes + i
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            for w in range(core.n_partition):
                if key_of(bucket)[core.infos[i].partition[w]] != core.key[w]:
                    break
            else:
                for r in range(bucket.head, bucket.size):
                    start = bucket.data[r * index.fixed]
                    if start >= starts.first and starts.position[start & starts.mask] < position:
                        _remove(core, bucket.data + r * index.fixed)


cdef void drop_partition(Core* core) noexcept nogil:
    """Remove every row of the partition whose key is ``core.key``."""
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t b, r
    cdef int i, w
    for i in range(core.n_indexes):
        index = core.indexes + i
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            for w in range(core.n_partition):
                if key_of(bucket)[core.infos[i].partition[w]] != core.key[w]:
                    break
            else:
                for r in range(bucket.head, bucket.size):
                    _remove(core, bucket.data + r * index.fixed)


cdef void drop_rowless(Core* core) noexcept nogil:
    """Drop starts without rows: the oldest ones, and all others if they are the large majority."""
    cdef Starts* starts = &core.starts
    drop_empty(starts)
    if starts.next - starts.first > 4 * starts.live + MOST_GAPS and starts.kept == starts.first:
        _close_gaps(core)


cdef void _close_gaps(Core* core) noexcept nogil:
    """Renumber the starts that have rows without gaps, up to the last ordinal, so that dead rows stay before the first.

    Does nothing if there is no memory for the table of the new ordinals.
    """
    cdef Starts* starts = &core.starts
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t first = starts.first, n = starts.next - starts.first, to = starts.next, j, b, r, old, new
    cdef int64_t* row
    cdef int64_t* new_ordinals = <int64_t*>obtain(&core.budget, n * 8)
    cdef int i
    if new_ordinals == NULL:
        return
    for j in range(n - 1, -1, -1):
        old = (first + j) & starts.mask
        if starts.rows[old] == 0:
            free_nodes(starts, old)
            new_ordinals[j] = -1
            continue
        to -= 1
        new_ordinals[j] = to
        new = to & starts.mask
        starts.time[new] = starts.time[old]
        starts.position[new] = starts.position[old]
        starts.rows[new] = starts.rows[old]
        starts.node[new] = starts.node[old]
        starts.window[new] = starts.window[old]
        if starts.tracks:
            starts.alive[new] = starts.alive[old]
            starts.best[new] = starts.best[old]
    for i in range(core.n_indexes):
        index = core.indexes + i
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            for r in range(bucket.head, bucket.size):
                row = bucket.data + r * index.fixed
                if row[0] >= first:
                    row[0] = new_ordinals[row[0] - first]
    for j in range(core.pending.size):
        row = row_at(&core.pending, core.pending.heap[j].row)
        row[0] = new_ordinals[row[0] - first]
    starts.first = starts.kept = to
    if core.longest and core.follows and relist(starts) < 0:
        core.failed = True
    give_back(&core.budget, new_ordinals, n * 8)
