# cython: language_level=3
"""The factorised store: events are kept in buckets, and an event of the last variable walks back through them.

A kept event is a row of one word, its position, with the registers that later steps read. The first variable's event is also a
*start*, by which time and memory are counted: a kept event is dead when it is before the oldest live start, because no
match can hold it any more. So the dead rows of a bucket are all before its ``head``, and those that may be chosen before
a given event stand in one range (``_meet``).

The walk chooses an event of each variable in turn, from the last but one to the first, in ascending order; the rows that a bucket has
for the first variable are matches, and are written in runs; each variable behind it is written when the walk returns. In a Kleene variable the walk is a depth-first search with a stack
of its own (``_frames``): what is before an element is another element or an event of the variable before, whichever
comes first in the stream. Matches come in the row store's order, compared by the last event but one, then the one before
it, and so on (``plan/factorised.py``).

Invariants: nothing is kept while the walk goes on; buckets ascend by position; an event is kept after it was the last
of matches, so it never meets itself.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t

from fastcep._core.core cimport EVENT, ROW, Core, copy_event, read_key
from fastcep._core.emit cimport end_event
from fastcep._core.predicate cimport CHUNK, run
from fastcep._core.starts cimport start_of
from fastcep._core.store cimport Bucket, Index, append, bucket_at, find, find_or_add, find_words, key_of, slot_of
from fastcep._core.tables cimport Kept, Step, Term
from fastcep._core.vectors cimport Vec, fill, gather, push, reserve

cdef extern from *:
    """
    static inline int fc_sum_fits(__int128 sum) { return sum == (__int128)(int64_t)sum; }
    static inline int fc_add_all(int64_t *to, int64_t base, const int64_t *values, int sign, int n) {
        uint64_t over = 0; /* sign bits of the overflows */
        for (int i = 0; i < n; i++) {
            uint64_t b = (uint64_t)base, v = (uint64_t)values[i], sum = sign > 0 ? b + v : b - v;
            over |= sign > 0 ? (sum ^ b) & (sum ^ v) : (b ^ v) & (b ^ sum);
            to[i] = (int64_t)sum;
        }
        return !(over >> 63);
    }
    static inline int fc_add(int64_t base, int64_t value, int sign, int64_t* sum) {
        return sign > 0 ? __builtin_add_overflow(base, value, sum) : __builtin_sub_overflow(base, value, sum);
    }
    """
    ctypedef long long wide "__int128"
    bint fc_sum_fits(wide) noexcept nogil
    bint unlikely(bint) noexcept nogil
    bint fc_add(int64_t, int64_t, int, int64_t*) noexcept nogil
    bint fc_add_all(int64_t*, int64_t, const int64_t*, int, int) noexcept nogil
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:                  # kinds of terms
    TERM_EVENT
    TERM_ROW
    TERM_OUT
    TERM_CONST

cdef enum:
    MOST_WORDS = 8          # of a key in ``_join``
    FEW = 4

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


cdef void match_factorised(Core* core, uint64_t members, int k, int64_t position) noexcept nogil:
    """Let event ``k`` of the chunk complete matches, and keep it for those to come."""
    cdef int last = core.n_members - 1
    cdef Bucket* found
    cdef Step* step
    cdef int end
    if members >> last:
        if core.starts.first < core.starts.next:
            core.emitted = 0
            step = core.back[last - 1]
            found = _meet(core, step, NULL, 0, k, position, &end)
            if found != NULL:
                _walk(core, step, found, found.head, end, k)
                if core.emitted:
                    _repeat(core, last, position, core.emitted)
                    end_event(core, position, core.now)
        members &= ~(<uint64_t>1 << last)
    while members and not core.failed:
        _keep(core, __builtin_ctzll(members), k, position)
        members &= members - 1


cdef inline int64_t _first_live(const Core* core) noexcept nogil:
    """Position of the oldest live start; there is one."""
    return core.starts.position[core.starts.first & core.starts.mask]


cdef inline void _keep(Core* core, int member, int k, int64_t position) noexcept nogil:
    """Keep event ``k`` of the chunk, for every step that chooses an event of ``member``."""
    cdef Kept* kept
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t number, row, ordinal
    cdef int s
    cdef bint stored = False
    for s in range(core.first_kept[member], core.first_kept[member + 1]):
        kept = core.kept + s
        if not read_key(kept.keys, kept.n_keys, k, core.key):
            continue
        if member == 0:
            if start_of(&core.starts, core.now, position) < 0:
                core.failed = True
                return
        elif core.starts.first == core.starts.next:
            return
        index = core.indexes + s
        number = find(index, core.key)
        if number < 0:
            number = find_or_add(index, core.key)
        row = -1 if number < 0 else append(index, number, _first_live(core))
        if row < 0:
            core.failed = True
            return
        bucket = bucket_at(index, number)
        bucket.data[row] = position
        copy_event(index, bucket, row, kept.registers, kept.n_registers, k)
        stored = True
    if stored:
        ordinal = core.starts.next - 1
        core.starts.rows[ordinal & core.starts.mask] += 1
        core.starts.live += 1
        core.rows_created += 1
        if core.starts.live > core.peak:
            core.peak = core.starts.live


# ---------------------------------------------------------------------- one step


cdef inline const int64_t* _column(const Bucket* bucket, int number) noexcept nogil:
    """A column of the kept events of a bucket: 0 are the null bits, behind them stand the registers."""
    return bucket.data + <int64_t>(1 + number) * bucket.capacity


cdef inline bint _read_term(const Core* core, const Term* term, const Bucket* bucket, int64_t row, int k,
                            int64_t* value) noexcept nogil:
    """A value behind the step; False if it is null."""
    if term.kind == TERM_EVENT:
        value[0] = term.column.data[k]
        return term.column.null == NULL or not term.column.null[k]
    if term.kind == TERM_ROW:
        value[0] = _column(bucket, 1 + term.number)[row]
        return not (_column(bucket, 0)[row] >> term.number) & 1
    if term.kind == TERM_OUT:
        value[0] = core.held[term.number]
        return not core.held_null[term.number]
    value[0] = term.value
    return True


cdef inline bint _read_words(const Core* core, const Step* step, const Bucket* bucket, int64_t row, int k,
                             int64_t* key) noexcept nogil:
    """The key under which a step looks, from the source's row; False if a word is null, or no int64."""
    cdef const Term* term = step.terms
    cdef wide sum
    cdef int64_t value = 0
    cdef int w, t
    for w in range(step.n_words):
        if step.n_terms[w] == 1 and term.sign > 0:
            if not _read_term(core, term, bucket, row, k, key + w):
                return False
            term += 1
            continue
        sum = 0
        for t in range(step.n_terms[w]):
            if not _read_term(core, term, bucket, row, k, &value):
                return False
            sum = sum + value if term.sign > 0 else sum - value
            term += 1
        if not fc_sum_fits(sum):
            return False
        key[w] = <int64_t>sum
    return True


cdef inline int _after(const int64_t* positions, int head, int end, int64_t since) noexcept nogil:
    """The first of ascending positions that is not before one."""
    while head < end and positions[head] < since:
        head += 1
    return head


cdef inline int _before(const int64_t* positions, int head, int end, int64_t before) noexcept nogil:
    """How far the positions ``head:end`` are before one."""
    cdef int middle
    while end - head > 8:
        if positions[end - 1] < before:
            return end
        middle = head + (end - head) // 2
        if positions[middle] >= before:
            end = middle
        else:
            head = middle
    while end > head and positions[end - 1] >= before:
        end -= 1
    return end


cdef bint _read_base(Core* core, const Step* step, const Bucket* bucket, int64_t row, int k, int64_t* base,
                     const int64_t** registers, int64_t* nulls) noexcept nogil:
    """Of each word what is the same for all rows, and the register from ``row`` on (NULL: none), with its null bit.

    False if what is the same is null, or no int64.
    """
    cdef const Term* term = step.terms
    cdef wide sum
    cdef int64_t value = 0
    cdef int w, t
    for w in range(step.n_words):
        sum = 0
        registers[w] = NULL
        for t in range(step.n_terms[w]):
            if term.kind == TERM_ROW:
                registers[w] = _column(bucket, 1 + term.number) + row
                nulls[0] |= <int64_t>1 << term.number
            elif not _read_term(core, term, bucket, row, k, &value):
                return False
            else:
                sum = sum + value if term.sign > 0 else sum - value
            term += 1
        if not fc_sum_fits(sum):
            return False
        base[w] = <int64_t>sum
    return True


cdef inline Bucket* _meet(Core* core, const Step* step, const Bucket* source, int64_t row, int k, int64_t before,
                          int* end) noexcept nogil:
    """The events that a step may choose, ``head`` to ``end`` of a bucket, from the source's row; NULL if there is none."""
    cdef Index* index = core.indexes + step.kept
    cdef Bucket* bucket
    cdef const int64_t* data
    cdef int64_t number, since = _first_live(core)
    cdef int head, low
    if not _read_words(core, step, source, row, k, core.key):
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
    head = _after(data, head, low, since)
    bucket.head = head
    low = _before(data, head, low, before)
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
            _emit(core, bucket.data + first, NULL if n == m else rows, n)
        elif step.joins and not step.has_predicate:
            _join(core, step, bucket, first, m, k)
        else:
            for i in range(n):
                _choose(core, step.member, bucket, first + (i if n == m else rows[i]), k)
                if core.failed:
                    return
        first += m


cdef void _join(Core* core, const Step* step, const Bucket* bucket, int first, int n, int k) noexcept nogil:
    """``_choose`` each of ``n`` rows from ``first`` on, where that only looks up the events of the first variable.

    A word of their key is the same for all rows, or a register of the row added to that.
    """
    cdef const Step* back = core.back[0]
    cdef const Index* index = core.indexes + back.kept
    cdef const int64_t* own = bucket.data + first
    cdef const int64_t* bits = _column(bucket, 0) + first
    cdef const int64_t* registers[MOST_WORDS]
    cdef int64_t base[MOST_WORDS]
    cdef int64_t key[MOST_WORDS]
    cdef int64_t varying[CHUNK]
    cdef int32_t rows[CHUNK]
    cdef int32_t numbers[CHUNK]
    cdef int64_t number, nulls = 0, some = 0, since = _first_live(core)
    cdef int i, w, varies = -1, words = back.n_words, found = 0
    if index.n_buckets == 0 or not _read_base(core, back, bucket, first, k, base, registers, &nulls):
        return
    for w in range(words):
        key[w] = base[w]
        if registers[w] != NULL:
            varies = w if varies < 0 else words
    if nulls:
        for i in range(n):
            some |= bits[i]
    if 0 <= varies < words and words <= 2 and not some & nulls and fc_add_all(
            varying, base[varies], registers[varies], back.words[varies], n):
        if words == 1:
            found = _look_up(index, varying, n, key, 1, 0, rows, numbers)
        elif varies == 0:
            found = _look_up(index, varying, n, key, 2, 0, rows, numbers)
        else:
            found = _look_up(index, varying, n, key, 2, 1, rows, numbers)
    else:
        for i in range(n):
            if nulls and bits[i] & nulls:
                continue
            for w in range(words):
                if registers[w] != NULL and fc_add(base[w], registers[w][i], back.words[w], key + w):
                    break
            else:
                number = find(index, key)
                rows[found] = i
                numbers[found] = <int32_t>number
                found += number >= 0
    for i in range(found):
        _join_row(core, step.member, bucket_at(index, numbers[i]), own[rows[i]], since)
        if core.failed:
            return


cdef inline int _look_up(const Index* index, const int64_t* varying, int n, int64_t* key, int words, int varies,
                         int32_t* rows, int32_t* numbers) noexcept nogil:
    """Find the buckets of ``n`` keys of which one word varies; returns how many there are, with their numbers and rows.

    ``words`` and ``varies`` are literals where this is called. Whether there is a bucket is not to be foretold, so
    nothing branches on it: an empty slot is compared with bucket 0, and what was not found is overwritten.
    """
    cdef const int64_t* known
    cdef int64_t number, differ
    cdef int i, w, found = 0
    for i in range(n):
        key[varies] = varying[i]
        number = index.slots[slot_of(index, key, words)]
        known = key_of(bucket_at(index, number & ~(number >> 63)))
        differ = 0
        for w in range(words):
            differ |= known[w] ^ key[w]
        differ = (differ | -differ) >> 63  # all bits or none
        if unlikely((differ & ~(number >> 63)) != 0):  # the slot is another key's
            number = find_words(index, key, words)
            differ = 0
        rows[found] = i
        numbers[found] = <int32_t>number
        found += <int>(1 + (differ | (number >> 63)))
    return found


cdef inline void _join_row(Core* core, int member, Bucket* bucket, int64_t before, int64_t since) noexcept nogil:
    """Write the events of the first variable that are in a bucket before the position of an event of ``member``."""
    cdef const int64_t* values = bucket.data
    cdef Vec* out = core.out_values
    cdef Vec* places = core.out_values + member
    cdef int head = bucket.head, end = bucket.size, size = end - head, n, dead
    cdef int64_t* to
    if size <= FEW:  # what is behind the last row is greater, see store._seal
        values += head
        dead = (values[0] < since) + (values[1] < since) + (values[2] < since) + (values[3] < since)
        n = (values[0] < before) + (values[1] < before) + (values[2] < before) + (values[3] < before) - dead
        bucket.head = head + dead
        if (out.size + FEW > out.capacity and reserve(out, out.size + FEW) < 0) or (
                places.size + FEW > places.capacity and reserve(places, places.size + FEW) < 0):
            core.failed = True
            return
        values += dead
        to = out.data + out.size
        to[0], to[1], to[2], to[3] = values[0], values[1], values[2], values[3]
        to = places.data + places.size
        to[0] = to[1] = to[2] = to[3] = before
        out.size += n
        places.size += n
        core.emitted += n
        core.rows_visited += n
        return
    if head < end and values[head] < since:
        head = _after(values, head, end, since)
        bucket.head = head
    end = _before(values, head, end, before)
    if head < end:
        core.rows_visited += end - head
        _emit(core, values + head, NULL, end - head)
        _repeat(core, member, before, end - head)


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
            core.inputs[i].data = _column(bucket, 1 + number) + first
            core.inputs[i].nulls = NULL
            core.inputs[i].bits = _column(bucket, 0) + first
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
        core.held[kept.held_place[i]] = _column(bucket, 1 + kept.held_register[i])[row]
        core.held_null[kept.held_place[i]] = (_column(bucket, 0)[row] >> kept.held_register[i]) & 1


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
            _repeat(core, member, bucket.data[row], core.emitted - emitted)


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
            own_next = _after(own.data, own_next, own_end, found.data[found.head])
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


cdef inline void _emit(Core* core, const int64_t* first, const int32_t* rows, int n) noexcept nogil:
    """Write ``n`` events of the first variable, each of which is a match with what is chosen behind it."""
    cdef Vec* values = core.out_values
    if values.size + n > values.capacity and reserve(values, values.size + n) < 0:
        core.failed = True
        return
    gather(values.data + values.size, first, 1, rows, n)
    values.size += n
    core.emitted += n


cdef inline void _repeat(Core* core, int member, int64_t position, int64_t n) noexcept nogil:
    """Write an event of ``member`` for the last ``n`` matches."""
    cdef Vec* values = core.out_values + member
    if values.size + n > values.capacity and reserve(values, values.size + n) < 0:
        core.failed = True
        return
    fill(values.data + values.size, position, n)
    values.size += n


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
