# cython: language_level=3
"""The last step of a walk: events of the first variable for those of the second, many at once.

What the second variable's events have in common, seen from the last event, is the key of one bucket of the first variable's
store. In what is not common, a value (a register of the second variable's event, added to what is the same for all), the
events of the bucket are compared with each of them: few of them all at once (``join.h``). A larger bucket is *hashed*
by the whole key, as far as that was not done yet: each event is entered at most once, and only if it is asked for.

The hashed events say nothing that the stores do not say: they are not part of a state that is stored or moved.
"""
from libc.stdint cimport INT64_MIN, int32_t, int64_t

from fastcep._core.memory.row_store cimport Bucket, Index, append, bucket_at, find, find_or_add, key_of
from fastcep._core.memory.vectors cimport Vec, reserve
from fastcep._core.program.plan_tables cimport Step
from fastcep._core.state.core cimport Core
from fastcep._core.state.kept_events cimport (
    BEYOND, MOST_WORDS, READ, emit_first, end_before, first_from, first_live, kept_column, read_words, repeat_member,
)

cdef extern from "join.h":
    int FC_SOME
    int64_t fc_join(const int64_t*, const int64_t*, int, const int64_t*, const int64_t*, int, int64_t, int,
                    int64_t*, int64_t*) noexcept nogil

cdef extern from *:
    bint __builtin_add_overflow(int64_t, int64_t, int64_t*) noexcept nogil
    bint __builtin_sub_overflow(int64_t, int64_t, int64_t*) noexcept nogil

cdef enum:
    COMPARED = 64           # events with which each is compared at most; of more, looking it up costs less
    ROOM = 1024             # for so many matches, or for those of one event, room is made at once


cdef void join(Core* core, const Step* step, const Bucket* bucket, int first, const int32_t* rows, int n,
               int k) noexcept nogil:
    """Find the first variable's events for ``n`` of ``step``'s: from row ``first`` on, or these rows from there."""
    cdef const Step* back = core.back[step.member - 1]
    cdef const Index* index = core.indexes + back.kept
    cdef const int64_t* positions = bucket.data + first
    cdef const int64_t* bits = NULL
    cdef const int64_t* values = NULL
    cdef const int64_t* own
    cdef int64_t key[MOST_WORDS]
    cdef int64_t number, nulls = 0, some = 0, nothing = 0
    cdef Bucket* found
    cdef int i, row, head, size, at = 0, m
    cdef int read = read_words(core, back, bucket, first, k, key)
    cdef bint beyond = read == BEYOND and back.compares and back.sign > 0
    if read != READ and not beyond:
        return
    number = find(index, key)
    if number < 0:
        return
    found = bucket_at(index, number)
    head = found.head = first_from(found.data, found.head, found.size, first_live(core))
    size = found.size - head
    own = found.data + head
    if size == 0:
        return
    if back.compares:
        values = kept_column(bucket, 1 + back.compared) + first
        bits = kept_column(bucket, 0) + first
        nulls = <int64_t>1 << back.compared
        for i in range(n):
            some |= bits[i if rows == NULL else rows[i]] & nulls
    if back.compares and size <= COMPARED and rows == NULL and some == 0 and not beyond:
        while at < n and not core.failed:
            m = n - at if (n - at) * <int64_t>size <= ROOM else max(1, ROOM // size)
            _compare(core, step, back, found, positions + at, values + at, m, key[back.n_words - 1])
            at += m
        return
    for i in range(n):
        row = i if rows == NULL else rows[i]
        if some and bits[row] & nulls:
            continue
        if not back.compares:
            _write(core, step.member, own, end_before(own, 0, size, positions[row]), positions[row])
        elif beyond:  # by one: with a negative value it is an int64
            if values[row] >= 0:
                continue
            key[back.n_words - 1] = values[row] ^ INT64_MIN
            if size <= COMPARED:
                _compare(core, step, back, found, positions + row, &nothing, 1, key[back.n_words - 1])
            else:
                _probe(core, step, back, found, positions[row], 0, key)
        elif size <= COMPARED:
            _compare(core, step, back, found, positions + row, values + row, 1, key[back.n_words - 1])
        else:
            _probe(core, step, back, found, positions[row], values[row], key)
        if core.failed:
            return


cdef inline void _compare(Core* core, const Step* step, const Step* back, const Bucket* found, const int64_t* positions,
                          const int64_t* values, int n, int64_t base) noexcept nogil:
    """Compare ``n`` events with all live ones of a bucket."""
    cdef Vec* out = core.out_values
    cdef Vec* places = core.out_values + step.member
    cdef int64_t size = found.size - found.head, room = n * size + 2, count
    if (out.size + room > out.capacity and reserve(out, out.size + room) < 0) or (
            places.size + room > places.capacity and reserve(places, places.size + room) < 0):
        core.failed = True
        return
    count = fc_join(found.data + found.head, kept_column(found, 1) + found.head, <int>size, positions, values, n, base,
                    back.sign, out.data + out.size, places.data + places.size)
    out.size += count
    places.size += count
    core.emitted += count
    core.rows_visited += count


cdef void _probe(Core* core, const Step* step, const Step* back, Bucket* found, int64_t position, int64_t value,
                 int64_t* key) noexcept nogil:
    """Look the first variable's events up by the whole key."""
    cdef Index* index = &core.hashed
    cdef int last = back.n_words - 1
    cdef int64_t base = key[last], number, since = first_live(core)
    cdef Bucket* same
    if found.noted < found.size and not _hash(core, found, since):
        core.failed = True
        return
    if back.sign > 0:
        if __builtin_add_overflow(base, value, key + last):
            key[last] = base
            return
    elif __builtin_sub_overflow(base, value, key + last):
        key[last] = base
        return
    number = find(index, key)
    key[last] = base
    if number < 0:
        return
    same = bucket_at(index, number)
    same.head = first_from(same.data, same.head, same.size, since)
    _write(core, step.member, same.data + same.head, end_before(same.data + same.head, 0, same.size - same.head, position),
           position)


cdef bint _hash(Core* core, Bucket* found, int64_t since) noexcept nogil:
    """Enter the rows of a bucket that are not yet; False without memory."""
    cdef Index* index = &core.hashed
    cdef const int64_t* values = kept_column(found, 1)
    cdef int64_t key[MOST_WORDS]
    cdef int64_t number, place
    cdef int w, row
    for w in range(index.words - 1):
        key[w] = key_of(found)[w]
    for row in range(max(found.noted, found.head), found.size):
        key[index.words - 1] = values[row]
        number = find_or_add(index, key)
        place = -1 if number < 0 else append(index, number, since)
        if place < 0:
            return False
        bucket_at(index, number).data[place] = found.data[row]
        found.noted = row + 1
    return True


cdef inline void _write(Core* core, int member, const int64_t* first, int n, int64_t position) noexcept nogil:
    """Write ``n`` matches of an event of ``member``."""
    if n > 0:
        core.rows_visited += n
        emit_first(core, first, NULL, n)
        repeat_member(core, member, position, n)
