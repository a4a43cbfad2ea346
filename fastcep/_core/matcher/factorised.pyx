# cython: language_level=3
"""The factorised store: store events in buckets, and enumerate the matches that an event of the last variable completes.

A stored event is a row of one word, its position, with the registers that later steps read. An event of the first
variable is also a *start*, which defines its window and its memory. A stored event is dead when it is older than the
oldest live start, because no match can hold it any more. So all dead rows of a bucket are before its ``head``, and the
rows that may be chosen before a given event are one range (``_find_range``).

The enumeration chooses an event of each variable, from the last but one to the first, in ascending order. The rows
that a bucket has for the first variable are matches, which are written in runs (``join``). The events of each later
variable are written when the recursion returns. In a Kleene variable the enumeration is a depth-first search with an
explicit stack (``frames``): an element is preceded by another element or by an event of the previous variable,
whichever comes first in the stream. If the key of the step back is the same for all elements, an event is stored only
if an event that it can follow is in the window, and found only as long as the last of these, its *predecessor*, is.
Matches have the order of the row store: they are compared by the last event but one, then by the one before it, and so
on (``plan/factorised.py``).

Invariants: no event is stored during an enumeration; buckets ascend by position; an event is stored after it has
completed matches, so a match never contains it twice.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from fastcep._core.matcher.join cimport join
from fastcep._core.matches.emit cimport end_event
from fastcep._core.memory.row_store cimport (
    Bucket, Index, bucket_at, column_of, find, find_or_add, find_words, make_room,
)
from fastcep._core.memory.starts cimport Starts, start_of
from fastcep._core.memory.vectors cimport Vec, fill, push, reserve
from fastcep._core.program.plan_tables cimport Column, Kept, Step, Term
from fastcep._core.program.predicate cimport CHUNK, run
from fastcep._core.state.core cimport EVENT, ROW, Core, copy_event, read_key
from fastcep._core.state.kept_events cimport (
    READ, emit_first, end_before, first_from, first_live, kept_column, read_words, repeat_variable,
)

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:                  # words of a frame of the search: an element, and the candidates for the event before it
    ELEMENT                 # bucket and row of the element
    ELEMENT_ROW
    AGAIN                   # candidates of the same variable: bucket, next row and end
    AGAIN_NEXT
    AGAIN_END
    BACK                    # candidates of the previous variable: bucket, next row and end
    BACK_NEXT
    BACK_END
    FRAME                   # number of words


cdef void complete_matches(Core* core, int k, int64_t position) noexcept nogil:
    """Emit the matches whose last event is event ``k`` of the chunk."""
    cdef int last = core.n_variables - 1, end
    cdef Bucket* candidates
    cdef const Step* step = core.back[last - 1]
    if core.starts.first == core.starts.next:
        return
    candidates = _find_range(core, step, NULL, 0, k, position, &end)
    if candidates == NULL:
        return
    core.emitted = 0
    _enumerate(core, step, candidates, candidates.head, end, k)
    if core.emitted:
        repeat_variable(core, last, position, core.emitted)
        end_event(core, position, core.now)


cdef void store_event(Core* core, uint64_t variables, int k, int64_t position) noexcept nogil:
    """Store event ``k`` of the chunk for later events, in all stores of these variables."""
    cdef Starts* starts = &core.starts
    cdef int variable, store
    cdef int64_t predecessor
    cdef bint stored
    while True:
        variable = __builtin_ctzll(variables)
        store, stored, predecessor = core.first_kept[variable], False, INT64_MAX
        if core.kept[store].predecessor >= 0:
            predecessor = _predecessor(core, core.kept + store, k, position)
        if variable == 0 or (starts.first < starts.next and predecessor >= first_live(core)):
            while store < core.first_kept[variable + 1]:
                stored |= _append(core, core.kept + store, core.indexes + store, variable, k, position, predecessor)
                store += 1
        if stored:
            starts.rows[(starts.next - 1) & starts.mask] += 1
            starts.live += 1
            core.rows_created += 1
            if starts.live > core.peak:
                core.peak = starts.live
        variables &= variables - 1
        if variables == 0 or core.failed:
            return


cdef inline bint _append(
        Core* core, const Kept* kept, Index* index, int variable, int k, int64_t position,
        int64_t predecessor) noexcept nogil:
    """Append event ``k`` of the chunk to a store; returns False if no later event can find it, or if memory ran out."""
    cdef Bucket* bucket
    cdef const Column* column
    cdef int64_t* data
    cdef int64_t bucket_number, row, key = 0
    if kept.n_keys == 1:
        column = kept.keys[0]
        if column.null != NULL and column.null[k]:
            return False
        key = core.key[0] = column.data[k]
    elif not read_key(kept.keys, kept.n_keys, k, core.key):
        return False
    if kept.compares and kept.registers[0].null != NULL and kept.registers[0].null[k]:
        return False
    if variable == 0:
        if start_of(&core.starts, core.now, position) < 0:
            core.failed = True
            return False
    bucket_number = find_words(index, &key, 1) if kept.n_keys == 1 else find(index, core.key)
    if bucket_number < 0:
        bucket_number = find_or_add(index, core.key)
        if bucket_number < 0:
            core.failed = True
            return False
    bucket = bucket_at(index, bucket_number)
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
    if kept.predecessor >= 0:
        column_of(index, bucket, kept.predecessor)[row] = predecessor
    return True


cdef inline int64_t _predecessor(Core* core, const Kept* kept, int k, int64_t position) noexcept nogil:
    """Return the position of the last stored event that event ``k`` of the chunk can follow; -1 if there is none."""
    cdef const Index* index = core.indexes + kept.predecessor_kept
    cdef const Bucket* bucket
    cdef int64_t number
    cdef int last
    if not read_key(kept.predecessor_keys, kept.n_predecessor_keys, k, core.key) or index.n_buckets == 0:
        return -1
    number = find(index, core.key)
    if number < 0:
        return -1
    bucket = bucket_at(index, number)
    last = bucket.size - 1
    if last >= 0 and bucket.data[last] == position:  # the event itself, which both variables may bind
        last -= 1
    return bucket.data[last] if last >= 0 else -1


# ---------------------------------------------------------------------- one step


cdef inline Bucket* _find_range(Core* core, const Step* step, const Bucket* source, int64_t row, int k, int64_t before,
                                int* end) noexcept nogil:
    """Find the events that a step may choose, given the row of the source: rows ``head`` to ``end`` of the returned
    bucket.

    Their positions are less than ``before``. Returns NULL if there is none.
    """
    cdef Index* index = core.indexes + step.kept
    cdef Bucket* bucket
    cdef const int64_t* data
    cdef int64_t bucket_number, since = first_live(core)
    cdef int head, last
    if read_words(core, step, source, row, k, core.key) != READ:
        return NULL
    if index.n_buckets == 0:
        return NULL
    bucket_number = find(index, core.key)
    if bucket_number < 0:
        return NULL
    bucket = bucket_at(index, bucket_number)
    data = bucket.data
    head = bucket.head
    last = bucket.size
    head = first_from(data, head, last, since)
    bucket.head = head
    last = end_before(data, head, last, before)
    end[0] = last
    core.rows_visited += last - head
    return bucket if head < last else NULL


cdef void _enumerate(Core* core, const Step* step, const Bucket* bucket, int first, int end, int k) noexcept nogil:
    """Enumerate the matches of each of the rows ``first:end`` of a bucket, in turn."""
    cdef int32_t rows[CHUNK]
    cdef uint8_t keep[CHUNK]
    cdef int i, n, m
    cdef int predecessor = core.kept[step.kept].predecessor
    while first < end and not core.failed:
        m = min(CHUNK, end - first)
        n = _filter_rows(core, step, bucket, first, m, k, rows, keep) if step.has_predicate else m
        if predecessor >= 0:
            n = _filter_preceded(kept_column(bucket, predecessor) + first, first_live(core), rows, n, n == m)
        if step.variable == 0:
            emit_first(core, bucket.data + first, NULL if n == m else rows, n)
        elif step.joins:
            join(core, step, bucket, first, NULL if n == m else rows, n, k)
        else:
            for i in range(n):
                _enumerate_row(core, step.variable, bucket, first + (i if n == m else rows[i]), k)
                if core.failed:
                    return
        first += m


cdef int _filter_rows(Core* core, const Step* step, const Bucket* bucket, int first, int m, int k, int32_t* rows,
                      uint8_t* keep) noexcept nogil:
    """Write to ``rows`` which of ``m`` rows pass the predicate of the step; returns their number."""
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


cdef inline int _filter_preceded(
        const int64_t* predecessors, int64_t since, int32_t* rows, int n, bint all) noexcept nogil:
    """Keep the rows whose predecessor is not before ``since``: of ``all`` the first n rows, or of n in ``rows``."""
    cdef int i, row, kept = 0
    for i in range(n):
        row = i if all else rows[i]
        rows[kept] = row
        kept += predecessors[row] >= since
    return kept


cdef inline void _load_registers(Core* core, int variable, const Bucket* bucket, int64_t row) noexcept nogil:
    """Copy the registers of a chosen row that later steps read to ``held``."""
    cdef const Kept* kept = core.kept + core.first_kept[variable]  # all stores of a variable hold the same registers
    cdef int i
    for i in range(kept.n_held):
        core.held[kept.held_place[i]] = kept_column(bucket, 1 + kept.held_register[i])[row]
        core.held_null[kept.held_place[i]] = (kept_column(bucket, 0)[row] >> kept.held_register[i]) & 1


cdef void _enumerate_row(Core* core, int variable, const Bucket* bucket, int64_t row, int k) noexcept nogil:
    """Choose a row for its variable and continue with the variable before it."""
    cdef const Step* step = core.back[variable - 1]
    cdef int64_t emitted = core.emitted
    cdef Bucket* candidates
    cdef int end
    if core.again[variable] != NULL:
        _search(core, variable, bucket, row, k)
        return
    _load_registers(core, variable, bucket, row)
    candidates = _find_range(core, step, bucket, row, k, bucket.data[row], &end)
    if candidates != NULL:
        _enumerate(core, step, candidates, candidates.head, end, k)
        if core.emitted > emitted:
            repeat_variable(core, variable, bucket.data[row], core.emitted - emitted)


# ---------------------------------------------------------------------- Kleene variables


cdef bint _push_frame(Core* core, int variable, const Bucket* bucket, int64_t row, int k) noexcept nogil:
    """Push a frame for an element and load its registers, if an event can precede it.

    Returns False if memory ran out.
    """
    cdef const Step* back = core.back[variable - 1]
    cdef Vec* frames = &core.frames
    cdef Bucket* previous
    cdef Bucket* elements
    cdef int64_t* frame
    cdef int previous_end = 0, elements_end = 0, elements_next = 0
    previous = _find_range(core, back, bucket, row, k, bucket.data[row], &previous_end)
    if previous == NULL and back.same:
        return True
    elements = _find_range(core, core.again[variable], bucket, row, k, bucket.data[row], &elements_end)
    if elements != NULL:
        elements_next = elements.head
        if back.same:  # skip elements that no event of the previous variable precedes
            elements_next = first_from(elements.data, elements_next, elements_end, previous.data[previous.head])
    if frames.size + FRAME > frames.capacity and reserve(frames, frames.size + FRAME) < 0:
        core.failed = True
        return False
    if push(core.chains + variable, bucket.data[row]) < 0:
        core.failed = True
        return False
    _load_registers(core, variable, bucket, row)
    frame = frames.data + frames.size
    frame[ELEMENT] = <int64_t>bucket
    frame[ELEMENT_ROW] = row
    frame[AGAIN] = <int64_t>elements
    frame[AGAIN_NEXT] = elements_next
    frame[AGAIN_END] = elements_end if elements != NULL else 0
    frame[BACK] = <int64_t>previous
    frame[BACK_NEXT] = previous.head if previous != NULL else 0
    frame[BACK_END] = previous_end if previous != NULL else 0
    frames.size += FRAME
    return True


cdef void _search(Core* core, int variable, const Bucket* bucket, int64_t row, int k) noexcept nogil:
    """Choose a row for the last element of a Kleene variable, and enumerate the matches that end in it."""
    cdef Vec* frames = &core.frames
    cdef const Step* again = core.again[variable]
    cdef const Step* back = core.back[variable - 1]
    cdef int64_t base = frames.size, emitted, next, next_position
    cdef int64_t* frame
    cdef const Bucket* elements
    cdef const Bucket* previous
    cdef int32_t rows[1]
    cdef uint8_t keep[1]
    cdef int first, end
    cdef bint has_memory
    core.chains[variable].size = 0
    has_memory = _push_frame(core, variable, bucket, row, k)
    while has_memory and frames.size > base and not core.failed:
        frame = frames.data + frames.size - FRAME
        elements = <const Bucket*>frame[AGAIN]
        previous = <const Bucket*>frame[BACK]
        next = frame[AGAIN_NEXT]
        next_position = INT64_MAX
        if next < frame[AGAIN_END]:
            next_position = elements.data[next]
            frame[AGAIN_NEXT] += 1
        first = end = <int>frame[BACK_NEXT]
        while end < frame[BACK_END] and previous.data[end] <= next_position:
            end += 1
        if end > first or again.has_predicate:
            _load_registers(core, variable, <const Bucket*>frame[ELEMENT], frame[ELEMENT_ROW])
        if end > first:
            frame[BACK_NEXT] = end
            emitted = core.emitted
            _enumerate(core, back, previous, first, end, k)  # may reallocate the frames
            if core.emitted > emitted:
                _repeat_elements(core, variable, core.emitted - emitted)
        if next_position == INT64_MAX:
            frames.size -= FRAME
            core.chains[variable].size -= 1
        elif not again.has_predicate or _filter_rows(core, again, elements, <int>next, 1, k, rows, keep) == 1:
            has_memory = _push_frame(core, variable, elements, next, k)
    frames.size = base


# ---------------------------------------------------------------------- output, in the order of the variables


cdef void _repeat_elements(Core* core, int variable, int64_t n) noexcept nogil:
    """Write the elements of a Kleene variable for the last ``n`` matches; its chain is in descending order."""
    cdef const Vec* chain = core.chains + variable
    cdef Vec* values = core.out_values + variable
    cdef Vec* lengths = core.out_lengths + variable
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
