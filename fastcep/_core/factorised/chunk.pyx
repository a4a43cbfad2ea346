# cython: language_level=3
"""The factorised store: store events in buckets, and enumerate the matches that an event of the last variable completes.

A stored event is a row of one word, its position, with the registers that later steps read. An event of the first
variable is also a *start*, which defines its window and its memory. A stored event is dead when it is older than the
oldest live start, because no match can hold it any more. So all dead rows of a bucket are before its ``head``, and the
rows that may be chosen before a given event are one range.

The relevant events of a chunk are processed in two passes:

1. ``_store_events`` appends them to their buckets, in the order of the stream. It notes for each *completion*, an event
   of the last variable, which starts are live and where the rows before it end.
2. ``_complete`` enumerates the matches of each completion (``search.pyx``). Rows that were appended after it are beyond
   the end that was noted.

If the key of the step back from an event is known from the event alone, its row says which events precede it
(``Kept.predecessor``). Such an event is stored only if an event that it can follow is in the window. In a Kleene
variable, the row has the position of the last of these events, and is found only as long as that one is in the window.
Before a join, it has the number of rows that the bucket of these events has ever had, so the join compares no positions.

Invariants: buckets ascend by position; a completion is noted before its event is stored, so a match never contains an
event twice; the second pass creates no buckets, so their numbers stay valid until the end of the chunk.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint64_t
from libc.string cimport memset

from fastcep._core.factorised.kept_events cimport READ, first_live, has_live_row, read_words
from fastcep._core.factorised.search cimport enumerate_matches
from fastcep._core.factorised.targets cimport KeyedBucket, Target, bucket_number, bucket_of, differs, set_targets
from fastcep._core.input.batch cimport Events
from fastcep._core.memory.row_store cimport (
    Bucket, Index, bucket_at, column_of, find, find_or_add, find_words, make_room, removed_of,
)
from fastcep._core.memory.starts cimport EVENTS, TIME, Starts, expire, grow, last_time, start_of
from fastcep._core.program.plan_tables cimport Kept, Step
from fastcep._core.program.predicate cimport CHUNK
from fastcep._core.state.core cimport Core, copy_event, read_key

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil

cdef extern from *:
    int __builtin_clzll(unsigned long long) noexcept nogil
    int __builtin_ctzll(unsigned long long) noexcept nogil
    void __builtin_prefetch(const void*) noexcept nogil

cdef enum:
    FEW = 2                  # relevant events of a chunk up to which it takes less time to handle each on its own
    PREFETCHED = CHUNK // 8  # relevant events of a chunk up to which their columns are prefetched

cdef enum:                   # results of looking up a bucket
    NONE = -1
    NO_MEMORY = -2


cdef struct Completion:      # an event of the last variable
    int32_t place            # its place among the relevant events of the chunk
    int32_t bucket           # bucket of the step back,
    int32_t joined           # and of the join after it, see Core
    int64_t end              # number of rows that the bucket has ever had before the event
    int64_t since            # position of the oldest live start


cdef int match_chunk(Core* core, const uint64_t* bits, const int32_t* relevant, int n, const Events* events,
                     Py_ssize_t base) noexcept nogil:
    """Match ``n`` relevant events of the chunk that begins at event ``base`` of the batch.

    Returns how many were matched. These are all of them, unless memory runs out: then ``failed`` is set, and the event
    at which it ran out is the next one.
    """
    cdef Completion completions[CHUNK + 1]
    cdef int n_completions, taken, store, i
    cdef Starts* starts = &core.starts
    if n == 0:
        return 0
    for store in range(core.n_indexes):
        for i in range(core.kept[store].n_registers):
            core.has_nulls |= core.kept[store].registers[i].null != NULL
    if n <= FEW or (starts.kind == TIME and events.time[base + relevant[0]] < INT64_MIN + starts.span):
        taken = _store_one_by_one(core, bits, relevant, n, events, base, completions, &n_completions)
    else:
        if n <= PREFETCHED:
            _prefetch(core, relevant, n, events.time + base)
        taken = _store_events(core, bits, relevant, n, events, base, completions, &n_completions)
    taken = _complete(core, relevant, taken, events, base, completions, n_completions)
    core.failed = taken < n
    core.now = events.time[base + relevant[min(taken, n - 1)]]
    return taken


cdef inline void _prefetch(const Core* core, const int32_t* relevant, int n, const int64_t* time) noexcept nogil:
    """Prefetch what the first pass reads of the events, which are too far apart for the hardware to do it."""
    cdef int r, c
    for r in range(n):
        __builtin_prefetch(time + relevant[r])
        for c in range(core.n_columns):
            __builtin_prefetch(core.columns[c].data + relevant[r])


# ---------------------------------------------------------------------- first pass: stored events


cdef int _store_events(Core* core, const uint64_t* bits, const int32_t* relevant, int n, const Events* events,
                       Py_ssize_t base, Completion* completions, int* n_completions) noexcept nogil:
    """Append ``n`` events to their buckets, and note the completions among them.

    Returns n, or the place of the event at which memory ran out. It is not predictable which variable comes next, so no
    branch depends on it: each event looks up two buckets and writes a row, a start and a completion, whether or not it is
    one; only the counts differ. An event that nothing precedes is skipped: the other bucket does not exist or has no live
    row. Events that this does not fit are handled one at a time (``_take_event``).
    """
    cdef Target targets[64]  # 64 is the number of bits of a mask
    cdef const Target* target
    cdef Starts* starts = &core.starts
    cdef const int64_t* time = events.time + base
    cdef int64_t position = events.position + base, timed = -1 if starts.kind == TIME else 0
    cdef int64_t span = starts.span if starts.kind == TIME else starts.span - 1 if starts.kind == EVENTS else INT64_MAX
    cdef uint64_t stored = (<uint64_t>1 << (core.n_variables - 1)) - 1, variables, fast, multiple
    cdef int64_t now, at, since, oldest, predecessor, count, slow, latest = INT64_MAX - 1
    cdef int64_t slot, first, next, mask, live, peak, created, capacity, row
    cdef int r, k, m = 0, noted
    cdef int32_t number, other_number, is_due
    cdef bint pairs = core.has_pairs
    cdef int64_t* start_times
    cdef int64_t* start_positions
    cdef int64_t* start_rows
    cdef int64_t* stamps
    cdef int64_t* data
    cdef KeyedBucket ignored, always
    cdef Bucket* bucket
    cdef const KeyedBucket* own
    cdef const KeyedBucket* other
    memset(&ignored, 0, sizeof(KeyedBucket))
    memset(&always, 0, sizeof(KeyedBucket))
    ignored.bucket.data, ignored.bucket.capacity = ignored.words, 1
    always.bucket.data, always.bucket.size = &latest, 1
    n_completions[0] = 0
    expire(starts, time[relevant[0]], position + relevant[0], events.time, events.position)
    core.since = first_live(core) if starts.first < starts.next else position + relevant[0]
    if not _make_room(starts):
        return 0
    fast = set_targets(core, targets, &multiple, &ignored, &always)
    first, next, mask, live, peak, created = starts.first, starts.next, starts.mask, starts.live, core.peak, core.rows_created
    start_times, start_positions, start_rows = starts.time, starts.position, starts.rows
    stamps = start_times if timed else start_positions
    start_times[next & mask] = start_positions[next & mask] = INT64_MAX  # so that the search for live starts ends
    for r in range(n):
        k = relevant[r]
        variables, now, at = bits[k], time[k], position + k
        oldest = ((now & timed) | (at & ~timed)) - span
        is_due = stamps[first & mask] < oldest  # usually one start is due, or none
        live -= start_rows[first & mask] & -<int64_t>is_due
        first += is_due
        while stamps[first & mask] < oldest:
            live -= start_rows[first & mask]
            first += 1
        FC_CHECK(variables != 0 and first <= next and next - first <= mask and m <= r)
        target = targets + __builtin_ctzll(variables)
        slow = (variables & (variables - 1)) | (variables & ~fast) | (next - first >= mask)
        if slow == 0:
            other_number = bucket_number(&target.other, k, pairs)
            if other_number < 0:
                continue
            other = bucket_of(&target.other, other_number)
            slow = differs(&target.other, other, k, pairs)
        if slow == 0:
            slot = next & mask
            start_times[slot], start_positions[slot], start_rows[slot] = now, at, 0
            next += variables & 1
            start_times[next & mask] = start_positions[next & mask] = INT64_MAX
            since = start_positions[first & mask]
            if not has_live_row(&other.bucket, since):
                continue
            number = bucket_number(&target.own, k, pairs)
            own = bucket_of(&target.own, number)
            if differs(&target.own, own, k, pairs) | (number >> 31):  # the first slot is empty, or has another key
                if variables > stored:
                    if number < 0:
                        continue
                    slow = True
                else:
                    number = _find_bucket(core, core.first_kept[__builtin_ctzll(variables)], k)
                    if number < 0:
                        _set_starts(core, first, next, live, peak, created)
                        n_completions[0] = m
                        return r
                    if core.is_moved:
                        fast = set_targets(core, targets, &multiple, &ignored, &always)
                    own = bucket_of(&target.own, number)
        if slow:
            _set_starts(core, first, next, live, peak, created)
            n_completions[0] = m
            noted = _take_event(core, variables, k, now, at, completions + m)
            completions[m].place = r
            if noted < 0 or not _make_room(starts):
                return r
            m += noted
            if core.is_moved:
                fast = set_targets(core, targets, &multiple, &ignored, &always)
            next, mask, live, peak, created = starts.next, starts.mask, starts.live, core.peak, core.rows_created
            start_times, start_positions, start_rows = starts.time, starts.position, starts.rows
            stamps = start_times if timed else start_positions
            start_times[next & mask] = start_positions[next & mask] = INT64_MAX
            continue
        completions[m].place, completions[m].bucket, completions[m].joined = r, number, other_number
        completions[m].end = own.words[target.own.words] + own.bucket.size
        completions[m].since = since
        m += variables > stored
        predecessor, count = other.bucket.data[other.bucket.size - 1], other.words[target.other.words] + other.bucket.size
        predecessor ^= (predecessor ^ count) & target.counts
        bucket = <Bucket*>((<int64_t>own & target.is_stored) | (<int64_t>&ignored & ~target.is_stored))
        row, capacity = bucket.size, bucket.capacity
        if row == capacity:
            if make_room(core.indexes + core.first_kept[__builtin_ctzll(variables)], bucket, core.since) < 0:
                _set_starts(core, first, next, live, peak, created)
                n_completions[0] = m
                return r
            row, capacity = bucket.size, bucket.capacity
        FC_CHECK(row < capacity)
        data = bucket.data + row
        data[target.null_at * capacity] = target.null[k]
        data[target.value_at * capacity] = target.value[k]
        data[target.predecessor_at * capacity] = predecessor
        data[0] = at
        bucket.size = <int32_t>(row - target.is_stored)
        if variables & multiple:
            if not _store_rest(core, __builtin_ctzll(variables), bucket, row, k, at, predecessor):
                _set_starts(core, first, next, live, peak, created)
                n_completions[0] = m
                return r
            if core.is_moved:
                fast = set_targets(core, targets, &multiple, &ignored, &always)
        start_rows[(next - 1) & mask] -= target.is_stored
        live -= target.is_stored
        created -= target.is_stored
        peak = max(peak, live)
    _set_starts(core, first, next, live, peak, created)
    n_completions[0] = m
    return n


cdef inline void _set_starts(
        Core* core, int64_t first, int64_t next, int64_t live, int64_t peak, int64_t created) noexcept nogil:
    """Write back what the first pass holds in registers."""
    cdef Starts* starts = &core.starts
    starts.first, starts.kept, starts.next, starts.live, core.peak, core.rows_created = first, first, next, live, peak, created
    if starts.kind == TIME:
        starts.due = last_time(starts, starts.time[first & starts.mask]) if first < next else INT64_MAX


cdef inline bint _make_room(Starts* starts) noexcept nogil:
    """Make room in the ring for one more start than there is; returns False if memory ran out."""
    return (starts.time != NULL and starts.next - starts.first <= starts.mask) or grow(starts) == 0


# ---------------------------------------------------------------------- first pass: other events


cdef int _store_one_by_one(Core* core, const uint64_t* bits, const int32_t* relevant, int n, const Events* events,
                           Py_ssize_t base, Completion* completions, int* n_completions) noexcept nogil:
    """``_store_events`` for a few events, and for times from which the window cannot be subtracted."""
    cdef int64_t position
    cdef int r, k, noted
    n_completions[0] = 0
    for r in range(n):
        k = relevant[r]
        position = events.position + base + k
        expire(&core.starts, events.time[base + k], position, events.time, events.position)
        if r == 0:
            core.since = first_live(core) if core.starts.first < core.starts.next else position
        noted = _take_event(core, bits[k], k, events.time[base + k], position, completions + n_completions[0])
        if noted < 0:
            return r
        completions[n_completions[0]].place = r
        n_completions[0] += noted
    return n


cdef int _take_event(Core* core, uint64_t variables, int k, int64_t time, int64_t position,
                     Completion* completion) noexcept nogil:
    """Store event ``k`` of the chunk for all its variables; returns whether a completion was noted, or ``NO_MEMORY``."""
    cdef int last = core.n_variables - 1, variable
    cdef int32_t start_bucket = NONE
    cdef int noted = 0
    if variables >> last:
        noted = core.starts.first < core.starts.next and _note(core, k, completion)
        variables ^= <uint64_t>1 << last
    if variables & 1:
        start_bucket = _find_bucket(core, 0, k)
        if start_bucket == NO_MEMORY or (start_bucket >= 0 and start_of(&core.starts, time, position) < 0):
            return NO_MEMORY
    while variables and core.starts.first < core.starts.next:  # an event does not precede itself: the last variable first
        variable = 63 - __builtin_clzll(variables)
        variables ^= <uint64_t>1 << variable
        if not _store(core, variable, k, position):
            return NO_MEMORY
    return noted


cdef bint _note(Core* core, int k, Completion* completion) noexcept nogil:
    """Note a completion, unless nothing precedes it, or nothing can be joined; returns whether it was noted."""
    cdef const Step* step = core.back[core.n_variables - 2]
    cdef const Bucket* bucket
    completion.bucket = _find_step(core, step, k)
    if completion.bucket < 0:
        return False
    completion.joined = NONE
    if step.joins and core.back[step.variable - 1].is_of_event:
        completion.joined = _find_step(core, core.back[step.variable - 1], k)
        if completion.joined < 0:
            return False
        bucket = bucket_at(core.indexes + core.back[step.variable - 1].kept, completion.joined)
        if not has_live_row(bucket, first_live(core)):
            return False
    bucket = bucket_at(core.indexes + step.kept, completion.bucket)
    completion.end = removed_of(core.indexes + step.kept, bucket)[0] + bucket.size
    completion.since = first_live(core)
    return bucket.size > 0


cdef int32_t _find_step(Core* core, const Step* step, int k) noexcept nogil:
    """Return the bucket that a step reads for event ``k`` of the chunk, if its key depends on this event alone."""
    cdef const Index* index = core.indexes + step.kept
    if read_words(core, step, index.words, NULL, 0, k, core.key) != READ:
        return NONE
    return <int32_t>find(index, core.key)


cdef int32_t _find_bucket(Core* core, int store, int k) noexcept nogil:
    """Return the bucket of event ``k`` of the chunk in a store, which is created if it is new."""
    cdef const Kept* kept = core.kept + store
    cdef Index* index = core.indexes + store
    cdef const char* buckets
    cdef const int32_t* slots
    cdef int64_t number, n_buckets
    if kept.compares and kept.registers[0].null != NULL and kept.registers[0].null[k]:
        return NONE
    if kept.n_keys == 1 and kept.keys[0].null == NULL:
        number = find_words(index, kept.keys[0].data + k, 1)
        if number >= 0:
            return <int32_t>number
    if not read_key(kept.keys, kept.n_keys, k, core.key):
        return NONE
    n_buckets, buckets, slots = index.n_buckets, index.buckets, index.slots
    number = find_or_add(index, core.key)
    core.is_moved |= index.buckets != buckets or index.slots != slots or n_buckets == 0
    return <int32_t>number if number >= 0 else NO_MEMORY


cdef bint _store(Core* core, int variable, int k, int64_t position) noexcept nogil:
    """Store event ``k`` of the chunk for a variable, unless nothing can precede it; returns False if memory ran out."""
    cdef int store = core.first_kept[variable]
    cdef const Kept* kept = core.kept + store
    cdef const Index* index
    cdef const Bucket* other
    cdef int64_t predecessor = 0, number
    cdef bint stored = False
    if kept.predecessor >= 0:
        index = core.indexes + kept.predecessor_kept
        if index.n_buckets == 0 or not read_key(kept.predecessor_keys, kept.n_predecessor_keys, k, core.key):
            return True
        number = find(index, core.key)
        if number < 0:
            return True
        other = bucket_at(index, number)
        if not has_live_row(other, first_live(core)):
            return True
        predecessor = removed_of(index, other)[0] + other.size if kept.counts else other.data[other.size - 1]
    while store < core.first_kept[variable + 1]:
        number = _find_bucket(core, store, k)
        if number == NO_MEMORY or (number >= 0 and not _append(core, store, number, k, position, predecessor)):
            return False
        stored |= number >= 0
        store += 1
    core.starts.rows[(core.starts.next - 1) & core.starts.mask] += stored
    core.starts.live += stored
    core.rows_created += stored
    core.peak = max(core.peak, core.starts.live)
    return True


cdef bint _store_rest(Core* core, int variable, const Bucket* bucket, int64_t row, int k, int64_t position,
                      int64_t predecessor) noexcept nogil:
    """Complete what `_store_events` writes itself, the first register of the row in the first store of a variable.

    Writes the other registers of this row, and stores event ``k`` in the other stores. Returns False if memory ran out.
    """
    cdef int store = core.first_kept[variable]
    cdef int64_t number
    copy_event(core.indexes + store, bucket, row, core.kept[store].registers, core.kept[store].n_registers, k)
    for store in range(store + 1, core.first_kept[variable + 1]):
        number = _find_bucket(core, store, k)
        if number == NO_MEMORY or (number >= 0 and not _append(core, store, number, k, position, predecessor)):
            return False
    return True


cdef bint _append(Core* core, int store, int64_t number, int k, int64_t position, int64_t predecessor) noexcept nogil:
    """Append event ``k`` of the chunk to a bucket of a store; returns False if memory ran out."""
    cdef const Kept* kept = core.kept + store
    cdef Index* index = core.indexes + store
    cdef Bucket* bucket = bucket_at(index, number)
    cdef int64_t row
    if bucket.size == bucket.capacity and make_room(index, bucket, core.since) < 0:
        return False
    row = bucket.size
    bucket.size += 1
    bucket.data[row] = position
    copy_event(index, bucket, row, kept.registers, kept.n_registers, k)
    if kept.predecessor >= 0:
        column_of(index, bucket, kept.predecessor)[row] = predecessor
    return True


# ---------------------------------------------------------------------- second pass: matches


cdef int _complete(Core* core, const int32_t* relevant, int n, const Events* events, Py_ssize_t base,
                   const Completion* completions, int n_completions) noexcept nogil:
    """Emit the matches of the completions among ``n`` events.

    Returns n, or the place of the event at which memory ran out. The events after it have been stored, too; they are
    counted and dropped like the others.
    """
    cdef const Step* step = core.back[core.n_variables - 2]
    cdef const Completion* completion
    cdef Bucket* bucket
    cdef int i, k, end
    for i in range(n_completions):
        completion = completions + i
        k = relevant[completion.place]
        core.now, core.since, core.joined = events.time[base + k], completion.since, completion.joined
        bucket = bucket_at(core.indexes + step.kept, completion.bucket)
        end = <int>(completion.end - removed_of(core.indexes + step.kept, bucket)[0])
        enumerate_matches(core, bucket, end, k, events.position + base + k)
        if core.failed:
            return completion.place
    return n
