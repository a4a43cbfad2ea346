# cython: language_level=3
"""The enumeration of the matches that an event of the last variable completes, in the factorised store.

It chooses an event of each variable, from the last but one to the first, in ascending order. The rows that a bucket has
for the first variable are matches, which are written in runs (``join``). The events of each later variable are written
when the recursion returns. In a Kleene variable the enumeration is a depth-first search with an explicit stack
(``frames``): an element is preceded by another element or by an event of the previous variable, whichever comes first in
the stream.

Matches have the order of the row store: they are compared by the last event but one, then by the one before it, and so
on (``plan/factorised.py``).
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t

from fastcep._core.factorised.join cimport join
from fastcep._core.factorised.kept_events cimport (
    READ, emit_first, end_before, first_from, kept_column, read_words, repeat_variable,
)
from fastcep._core.matches.emit cimport end_event
from fastcep._core.memory.row_store cimport Bucket, Index, bucket_at, find
from fastcep._core.memory.vectors cimport Vec, fill, push, reserve
from fastcep._core.program.plan_tables cimport Kept, Step
from fastcep._core.program.predicate cimport CHUNK, run
from fastcep._core.state.core cimport EVENT, ROW, Core

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


cdef void enumerate_matches(Core* core, Bucket* candidates, int end, int k, int64_t position) noexcept nogil:
    """Emit the matches of event ``k`` of the chunk with the rows of the last variable but one before row ``end``."""
    cdef int last = core.n_variables - 1
    cdef const Step* step = core.back[last - 1]
    candidates.head = first_from(candidates.data, candidates.head, candidates.size, core.since)
    if candidates.head >= end:
        return
    core.rows_visited += end - candidates.head
    core.emitted = 0
    if step.joins and not step.has_predicate and end - candidates.head <= CHUNK:  # as _enumerate, with less to set up
        join(core, step, candidates, candidates.head, NULL, end - candidates.head, k)
    else:
        _enumerate(core, step, candidates, candidates.head, end, k)
    if core.emitted:
        repeat_variable(core, last, position, core.emitted)
        end_event(core, position, core.now)


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
    cdef int64_t bucket_number, since = core.since
    cdef int head, last
    if read_words(core, step, step.n_words, source, row, k, core.key) != READ:
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
    cdef int predecessor = -1 if core.kept[step.kept].counts else core.kept[step.kept].predecessor
    while first < end and not core.failed:
        m = min(CHUNK, end - first)
        n = _filter_rows(core, step, bucket, first, m, k, rows, keep) if step.has_predicate else m
        if predecessor >= 0:
            n = _filter_preceded(kept_column(bucket, predecessor) + first, core.since, rows, n, n == m)
        if n == 0:
            first += m
            continue
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
