# cython: language_level=3
"""The factorised store: events are kept in buckets, and an event of the last variable walks back through them.

A kept event is a row of one word, its position, with the registers that later steps read. The first variable's event is
also a *start*, by which time and memory are counted: a kept event is dead when it is before the oldest live start,
because no match can hold it any more. So the dead rows of a bucket are all before its ``head``, and those that may be chosen before
a given event stand in one range (``_meet``).

The walk chooses an event of each variable in turn, from the last but one to the first, in ascending order; the rows that a
bucket has for the first variable are matches, and are written in runs (``join``); each variable behind it is written
when the walk returns. In a Kleene variable the walk is a depth-first search with a stack of its own (``frames``): what
is before an element is another element or an event of the variable before, whichever comes first in the stream. Matches
come in the row store's order, compared by the last event but one, then the one before it, and so on (``plan/factorised.py``).

Invariants: nothing is kept while the walk goes on; buckets ascend by position; an event is kept after it was the last
of matches, so it never meets itself.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from fastcep._core.matcher.join cimport join
from fastcep._core.matches.emit cimport end_event
from fastcep._core.memory.row_store cimport Bucket, Index, bucket_at, find, find_or_add, find_words, make_room
from fastcep._core.memory.starts cimport Starts, start_of
from fastcep._core.memory.vectors cimport Vec, fill, push, reserve
from fastcep._core.program.plan_tables cimport Column, Kept, Step, Term
from fastcep._core.program.predicate cimport CHUNK, run
from fastcep._core.state.core cimport EVENT, ROW, Core, copy_event, read_key
from fastcep._core.state.kept_events cimport (
    READ, emit_first, end_before, first_from, first_live, kept_column, read_words, repeat_member,
)

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:                  # words of a frame of the search: an element, what it may follow, and what it has seen of that
    ELEMENT                 # bucket and row of the element
    ELEMENT_ROW
    OWN                     # bucket of the elements before it, the next one and the end
    OWN_NEXT
    OWN_END
    BACK                    # the same of the variable before
    BACK_NEXT
    BACK_END
    FRAME


cdef void complete(Core* core, int k, int64_t position) noexcept nogil:
    """Let event ``k`` of the chunk be the last of matches."""
    cdef int last = core.n_members - 1, end
    cdef Bucket* found
    cdef const Step* step = core.back[last - 1]
    if core.starts.first == core.starts.next:
        return
    found = _meet(core, step, NULL, 0, k, position, &end)
    if found == NULL:
        return
    core.emitted = 0
    _walk(core, step, found, found.head, end, k)
    if core.emitted:
        repeat_member(core, last, position, core.emitted)
        end_event(core, position, core.now)


cdef void keep(Core* core, uint64_t members, int k, int64_t position) noexcept nogil:
    """Keep event ``k`` of the chunk for those to come, in all stores of these members."""
    cdef Starts* starts = &core.starts
    cdef int member, s, end
    cdef bint stored
    while True:
        member = __builtin_ctzll(members)
        s, end, stored = core.first_kept[member], core.first_kept[member + 1], False
        while True:  # there is one at least
            stored |= _put(core, core.kept + s, core.indexes + s, member, k, position)
            s += 1
            if s >= end:
                break
        if stored:
            starts.rows[(starts.next - 1) & starts.mask] += 1
            starts.live += 1
            core.rows_created += 1
            if starts.live > core.peak:
                core.peak = starts.live
        members &= members - 1
        if members == 0 or core.failed:
            return


cdef inline bint _put(Core* core, const Kept* kept, Index* index, int member, int k, int64_t position) noexcept nogil:
    """Keep event ``k`` of the chunk in a store; False if nothing can be found there, or without memory."""
    cdef Bucket* bucket
    cdef const Column* column
    cdef int64_t* data
    cdef int64_t number, row, key = 0
    if kept.n_keys == 1:
        column = kept.keys[0]
        if column.null != NULL and column.null[k]:
            return False
        key = core.key[0] = column.data[k]
    elif not read_key(kept.keys, kept.n_keys, k, core.key):
        return False
    if kept.compares and kept.registers[0].null != NULL and kept.registers[0].null[k]:
        return False
    if member == 0:
        if start_of(&core.starts, core.now, position) < 0:
            core.failed = True
            return False
    elif core.starts.first == core.starts.next:
        return False
    number = find_words(index, &key, 1) if kept.n_keys == 1 else find(index, core.key)
    if number < 0:
        number = find_or_add(index, core.key)
        if number < 0:
            core.failed = True
            return False
    bucket = bucket_at(index, number)
    if bucket.size == bucket.capacity and make_room(index, bucket, first_live(core)) < 0:
        core.failed = True
        return False
    row = bucket.size
    bucket.size += 1
    data = bucket.data + row
    data[0] = position
    if kept.n_registers == 1:
        column = kept.registers[0]
        data += bucket.capacity
        data[0] = column.null != NULL and column.null[k]
        data += bucket.capacity
        data[0] = column.data[k]
    elif kept.n_registers > 1:
        copy_event(index, bucket, row, kept.registers, kept.n_registers, k)
    return True


# ---------------------------------------------------------------------- one step


cdef inline Bucket* _meet(Core* core, const Step* step, const Bucket* source, int64_t row, int k, int64_t before,
                          int* end) noexcept nogil:
    """The events that a step may choose, ``head`` to ``end`` of a bucket, from the source's row; NULL if there is none."""
    cdef Index* index = core.indexes + step.kept
    cdef Bucket* bucket
    cdef const int64_t* data
    cdef int64_t number, since = first_live(core)
    cdef int head, low
    if read_words(core, step, source, row, k, core.key) != READ:
        return NULL
    if index.n_buckets == 0:
        return NULL
    number = find(index, core.key)
    if number < 0:
        return NULL
    bucket = bucket_at(index, number)
    data = bucket.data
    head = bucket.head
    low = bucket.size
    head = first_from(data, head, low, since)
    bucket.head = head
    low = end_before(data, head, low, before)
    end[0] = low
    core.rows_visited += low - head
    return bucket if head < low else NULL


cdef void _walk(Core* core, const Step* step, const Bucket* bucket, int first, int end, int k) noexcept nogil:
    """Choose each of the rows ``first:end`` of a bucket, in turn."""
    cdef int32_t rows[CHUNK]
    cdef uint8_t keep[CHUNK]
    cdef int i, n, m
    while first < end and not core.failed:
        m = min(CHUNK, end - first)
        n = _passing(core, step, bucket, first, m, k, rows, keep) if step.has_predicate else m
        if step.member == 0:
            emit_first(core, bucket.data + first, NULL if n == m else rows, n)
        elif step.joins:
            join(core, step, bucket, first, NULL if n == m else rows, n, k)
        else:
            for i in range(n):
                _choose(core, step.member, bucket, first + (i if n == m else rows[i]), k)
                if core.failed:
                    return
        first += m


cdef int _passing(Core* core, const Step* step, const Bucket* bucket, int first, int m, int k, int32_t* rows,
                  uint8_t* keep) noexcept nogil:
    """List which of ``m`` rows pass the step's predicate; returns how many."""
    cdef int i, number, n = 0
    for i in range(step.predicate.n_inputs):
        number = step.predicate.input_number[i]
        core.inputs[i].bits = NULL
        core.inputs[i].stride = 0
        if step.predicate.input_kind[i] == EVENT:
            core.inputs[i].data = core.columns[number].data + k
            core.inputs[i].nulls = NULL if core.columns[number].null == NULL else core.columns[number].null + k
        elif step.predicate.input_kind[i] == ROW:
            core.inputs[i].data = kept_column(bucket, 1 + number) + first
            core.inputs[i].nulls = NULL
            core.inputs[i].bits = kept_column(bucket, 0) + first
            core.inputs[i].bit = number
            core.inputs[i].stride = 1
        else:
            core.inputs[i].data = core.held + number
            core.inputs[i].nulls = core.held_null + number
    for i in range(m):
        keep[i] = 1
    if run(core.vm, &step.predicate, core.inputs, NULL, m, keep, NULL, NULL, 0) == 0:
        return 0
    for i in range(m):
        rows[n] = i
        n += keep[i]
    return n


cdef inline void _hold(Core* core, int member, const Bucket* bucket, int64_t row) noexcept nogil:
    """Put at hand what later steps read of a chosen row."""
    cdef const Kept* kept = core.kept + core.first_kept[member]  # all stores of a member hold the same
    cdef int i
    for i in range(kept.n_held):
        core.held[kept.held_place[i]] = kept_column(bucket, 1 + kept.held_register[i])[row]
        core.held_null[kept.held_place[i]] = (kept_column(bucket, 0)[row] >> kept.held_register[i]) & 1


cdef void _choose(Core* core, int member, const Bucket* bucket, int64_t row, int k) noexcept nogil:
    """Take a row for its member and go on to what is before it."""
    cdef const Step* step = core.back[member - 1]
    cdef int64_t emitted = core.emitted
    cdef Bucket* found
    cdef int end
    if core.again[member] != NULL:
        _search(core, member, bucket, row, k)
        return
    _hold(core, member, bucket, row)
    found = _meet(core, step, bucket, row, k, bucket.data[row], &end)
    if found != NULL:
        _walk(core, step, found, found.head, end, k)
        if core.emitted > emitted:
            repeat_member(core, member, bucket.data[row], core.emitted - emitted)


# ---------------------------------------------------------------------- Kleene variables


cdef bint _open(Core* core, int member, const Bucket* bucket, int64_t row, int k) noexcept nogil:
    """Begin a frame with an element, which is put at hand, if it leads to anything; False without memory."""
    cdef const Step* back = core.back[member - 1]
    cdef Vec* frames = &core.frames
    cdef Bucket* found
    cdef Bucket* own
    cdef int64_t* frame
    cdef int end = 0, own_end = 0, own_next = 0
    found = _meet(core, back, bucket, row, k, bucket.data[row], &end)
    if found == NULL and back.same:
        return True
    own = _meet(core, core.again[member], bucket, row, k, bucket.data[row], &own_end)
    if own != NULL:
        own_next = own.head
        if back.same:  # an element before all that it could follow leads to nothing
            own_next = first_from(own.data, own_next, own_end, found.data[found.head])
    if frames.size + FRAME > frames.capacity and reserve(frames, frames.size + FRAME) < 0:
        core.failed = True
        return False
    if push(core.chains + member, bucket.data[row]) < 0:
        core.failed = True
        return False
    _hold(core, member, bucket, row)
    frame = frames.data + frames.size
    frame[ELEMENT] = <int64_t>bucket
    frame[ELEMENT_ROW] = row
    frame[OWN] = <int64_t>own
    frame[OWN_NEXT] = own_next
    frame[OWN_END] = own_end if own != NULL else 0
    frame[BACK] = <int64_t>found
    frame[BACK_NEXT] = found.head if found != NULL else 0
    frame[BACK_END] = end if found != NULL else 0
    frames.size += FRAME
    return True


cdef void _search(Core* core, int member, const Bucket* bucket, int64_t row, int k) noexcept nogil:
    """Take a row for the last element of a Kleene variable, and go through all that may stand before it."""
    cdef Vec* frames = &core.frames
    cdef const Step* again = core.again[member]
    cdef const Step* back = core.back[member - 1]
    cdef int64_t base = frames.size, emitted, next, before
    cdef int64_t* frame
    cdef const Bucket* own
    cdef const Bucket* found
    cdef int32_t rows[1]
    cdef uint8_t keep[1]
    cdef int first, end
    cdef bint more
    core.chains[member].size = 0
    more = _open(core, member, bucket, row, k)
    while more and frames.size > base and not core.failed:
        frame = frames.data + frames.size - FRAME
        own = <const Bucket*>frame[OWN]
        found = <const Bucket*>frame[BACK]
        next = frame[OWN_NEXT]
        before = INT64_MAX
        if next < frame[OWN_END]:
            before = own.data[next]
            frame[OWN_NEXT] += 1
        first = end = <int>frame[BACK_NEXT]
        while end < frame[BACK_END] and found.data[end] <= before:
            end += 1
        if end > first or again.has_predicate:
            _hold(core, member, <const Bucket*>frame[ELEMENT], frame[ELEMENT_ROW])
        if end > first:
            frame[BACK_NEXT] = end
            emitted = core.emitted
            _walk(core, back, found, first, end, k)  # which may move the frames
            if core.emitted > emitted:
                _repeat_elements(core, member, core.emitted - emitted)
        if before == INT64_MAX:
            frames.size -= FRAME
            core.chains[member].size -= 1
        elif not again.has_predicate or _passing(core, again, own, <int>next, 1, k, rows, keep) == 1:
            more = _open(core, member, own, next, k)
    frames.size = base


# ---------------------------------------------------------------------- output: each member after those before it


cdef void _repeat_elements(Core* core, int member, int64_t n) noexcept nogil:
    """Write the elements of a Kleene variable, whose chain goes from the last to the first, for the last ``n`` matches."""
    cdef const Vec* chain = core.chains + member
    cdef Vec* values = core.out_values + member
    cdef Vec* lengths = core.out_lengths + member
    cdef int64_t size = chain.size, i, j
    cdef int64_t* to
    if ((values.size + n * size > values.capacity and reserve(values, values.size + n * size) < 0)
            or (lengths.size + n > lengths.capacity and reserve(lengths, lengths.size + n) < 0)):
        core.failed = True
        return
    to = values.data + values.size
    for i in range(n):
        for j in range(size):
            to[j] = chain.data[size - 1 - j]
        to += size
    fill(lengths.data + lengths.size, size, n)
    values.size += n * size
    lengths.size += n
