# cython: language_level=3
"""The last step of an enumeration: join the events of the first variable with those of the second, many at once.

The key words that all events of the second variable share select one bucket of the store of the first variable. One
key word may differ: a register of the second event is added to, or subtracted from, a base that is the same for all. A
small bucket is compared with all events at once (``join.h``). A larger bucket is *hashed* by the whole key,
incrementally and on demand: each event is inserted at most once.

The hash index can be rebuilt from the stores, so it is not part of a snapshot.
"""
import numpy as np

from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t

from fastcep._core.factorised.kept_events cimport (
    BEYOND, MOST_WORDS, READ, emit_first, end_before, first_from, kept_column, read_words, repeat_variable,
)
from fastcep._core.memory.row_store cimport Bucket, Index, append, bucket_at, find, find_or_add, key_of, removed_of
from fastcep._core.memory.vectors cimport Vec, reserve
from fastcep._core.program.plan_tables cimport Step
from fastcep._core.program.predicate cimport CHUNK
from fastcep._core.state.core cimport Core

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil

cdef extern from "join.h":
    int FC_JOIN_SLACK
    int fc_join_width() noexcept nogil
    int64_t fc_join(
        int width, const int64_t* pos, const int64_t* value, int size, const int64_t* probe, const int64_t* probe_value,
        const int64_t* counts, int64_t offset, int m, int64_t base, int sign, int64_t* first, int64_t* second) noexcept nogil

cdef extern from *:
    bint __builtin_add_overflow(int64_t, int64_t, int64_t*) noexcept nogil
    bint __builtin_sub_overflow(int64_t, int64_t, int64_t*) noexcept nogil

cdef enum:
    COMPARED = 64           # largest bucket that is compared with each event; for a larger one a hash lookup is cheaper
    OUTPUT_ROWS = 1024      # matches for which output is reserved at once, or those of one event if they are more


cdef void join(Core* core, const Step* step, const Bucket* bucket, int first, const int32_t* rows, int n,
               int k) noexcept nogil:
    """Join ``n`` events of the variable of ``step`` with those of the first variable.

    The events are the rows of ``bucket`` from ``first`` on, or those of them that ``rows`` lists; at least one.
    """
    cdef const Step* back = core.back[step.variable - 1]
    cdef const Index* index = core.indexes + back.kept
    cdef const int64_t* positions = bucket.data + first
    cdef const int64_t* bits = NULL
    cdef const int64_t* values = NULL
    cdef int64_t key[MOST_WORDS]
    cdef int64_t bucket_number, null_bit = 0, any_null = 0, zero = 0
    cdef Bucket* target
    cdef int64_t ends[CHUNK]
    cdef const int64_t* counts = ends
    cdef int i, row, size, done = 0, m
    cdef int64_t offset = 0
    cdef int read = read_words(core, back, back.n_words, bucket, first, k, key)
    cdef bint beyond = read == BEYOND and back.compares and back.sign > 0
    FC_CHECK(n > 0)
    if read != READ and not beyond:
        return
    bucket_number = core.joined if back.is_of_event and step.variable == core.n_variables - 2 else find(index, key)
    if bucket_number < 0:
        return
    target = bucket_at(index, bucket_number)
    target.head = first_from(target.data, target.head, target.size, core.since)
    if core.kept[step.kept].counts and kept_column(bucket, core.kept[step.kept].predecessor)[first] != INT64_MAX:
        counts, offset = kept_column(bucket, core.kept[step.kept].predecessor) + first, removed_of(index, target)[0] + target.head
    else:
        for i in range(n):
            row = i if rows == NULL else rows[i]
            ends[row] = end_before(target.data + target.head, 0, target.size - target.head, positions[row])
    size = <int>max(<int64_t>0, counts[n - 1 if rows == NULL else rows[n - 1]] - offset)  # the counts ascend
    if size == 0:
        return
    if back.compares:
        values = kept_column(bucket, 1 + back.compared) + first
        if core.has_nulls:
            bits = kept_column(bucket, 0) + first
            null_bit = <int64_t>1 << back.compared
            for i in range(n):
                any_null |= bits[i if rows == NULL else rows[i]] & null_bit
    if back.compares and size <= COMPARED and rows == NULL and any_null == 0 and not beyond:
        while done < n and not core.failed:
            m = n - done if (n - done) * <int64_t>size <= OUTPUT_ROWS else max(1, OUTPUT_ROWS // size)
            _compare(core, step, back, target, size, positions + done, values + done, counts + done, offset, m,
                     key[back.n_words - 1])
            done += m
        return
    for i in range(n):
        row = i if rows == NULL else rows[i]
        if any_null and bits[row] & null_bit:
            continue
        if not back.compares:
            m = <int>(counts[row] - offset)
            _write(core, step.variable, target.data + target.head, m, positions[row])
        elif beyond:  # the base is 2^63, one more than int64 holds: only a negative value gives an int64
            if values[row] >= 0:
                continue
            key[back.n_words - 1] = values[row] ^ INT64_MIN
            if size <= COMPARED:
                _compare(core, step, back, target, size, positions + row, &zero, counts + row, offset, 1,
                         key[back.n_words - 1])
            else:
                _probe(core, step, back, target, positions[row], 0, key)
        elif size <= COMPARED:
            _compare(core, step, back, target, size, positions + row, values + row, counts + row, offset, 1,
                     key[back.n_words - 1])
        else:
            _probe(core, step, back, target, positions[row], values[row], key)
        if core.failed:
            return


cdef inline void _compare(
        Core* core, const Step* step, const Step* back, const Bucket* target, int size, const int64_t* positions,
        const int64_t* values, const int64_t* counts, int64_t offset, int n, int64_t base) noexcept nogil:
    """Compare ``n`` events with the live events of a bucket that precede each, and write the matches.

    Event i is preceded by the first ``counts[i] - offset`` of them, no event by more than ``size``.
    """
    cdef Vec* first = core.out_values
    cdef Vec* second = core.out_values + step.variable
    cdef int64_t room = n * <int64_t>size + FC_JOIN_SLACK, count
    if (first.size + room > first.capacity and reserve(first, first.size + room) < 0) or (
            second.size + room > second.capacity and reserve(second, second.size + room) < 0):
        core.failed = True
        return
    count = fc_join(fc_join_width(), target.data + target.head, kept_column(target, 1) + target.head, size, positions,
                    values, counts, offset, n, base, back.sign, first.data + first.size, second.data + second.size)
    first.size += count
    second.size += count
    core.emitted += count
    core.rows_visited += count


cdef void _probe(Core* core, const Step* step, const Step* back, Bucket* target, int64_t position, int64_t value,
                 int64_t* key) noexcept nogil:
    """Look up the events of the first variable by the whole key, and write the matches."""
    cdef Index* index = &core.hashed
    cdef int last = back.n_words - 1
    cdef int64_t base = key[last], bucket_number, since = core.since
    cdef Bucket* same
    if target.n_hashed < target.size and not _hash_rows(core, target, since):
        core.failed = True
        return
    if back.sign > 0:
        if __builtin_add_overflow(base, value, key + last):
            key[last] = base
            return
    elif __builtin_sub_overflow(base, value, key + last):
        key[last] = base
        return
    bucket_number = find(index, key)
    key[last] = base
    if bucket_number < 0:
        return
    same = bucket_at(index, bucket_number)
    same.head = first_from(same.data, same.head, same.size, since)
    _write(core, step.variable, same.data + same.head,
           end_before(same.data + same.head, 0, same.size - same.head, position), position)


cdef bint _hash_rows(Core* core, Bucket* target, int64_t since) noexcept nogil:
    """Insert the rows of a bucket that are not yet in the hash index; returns False if memory ran out."""
    cdef Index* index = &core.hashed
    cdef const int64_t* values = kept_column(target, 1)
    cdef int64_t key[MOST_WORDS]
    cdef int64_t bucket_number, hashed_row
    cdef int w, row
    for w in range(index.words - 1):
        key[w] = key_of(target)[w]
    for row in range(max(target.n_hashed, target.head), target.size):
        key[index.words - 1] = values[row]
        bucket_number = find_or_add(index, key)
        hashed_row = -1 if bucket_number < 0 else append(index, bucket_number, since)
        if hashed_row < 0:
            return False
        bucket_at(index, bucket_number).data[hashed_row] = target.data[row]
        target.n_hashed = row + 1
    return True


cdef inline void _write(Core* core, int variable, const int64_t* first, int n, int64_t position) noexcept nogil:
    """Write ``n`` matches: the event of ``variable`` at ``position`` with each of ``n`` events of the first one."""
    if n > 0:
        core.rows_visited += n
        emit_first(core, first, NULL, n)
        repeat_variable(core, variable, position, n)


def join_rows(const int64_t[::1] pos, const int64_t[::1] value, const int64_t[::1] probe, const int64_t[::1] probe_value,
              const int64_t[::1] counts, int64_t base, int sign, int width):
    """Return the pairs that ``fc_join`` finds, for tests: positions of build rows and of probe rows.

    ``width`` is the number of rows compared at once: 8, 4 or 1. There are at most 64 build rows and 256 probe rows.

    Raises
    ------
    ValueError
        If the processor or the build cannot compare this number, or if there are too many rows.
    """
    cdef int n = <int>pos.shape[0], m = <int>probe.shape[0]
    cdef int64_t found
    if width > fc_join_width():
        raise ValueError(f"cannot compare {width} rows at once here, only {fc_join_width()}")
    if not (0 < n <= COMPARED and 0 < m <= CHUNK and len(value) == n and len(probe_value) == len(counts) == m):
        raise ValueError(f"expected columns of the same length, at most {COMPARED} and {CHUNK} rows")
    cdef int64_t[::1] padded = np.concatenate([value, np.zeros(3, np.int64)])
    cdef int64_t[::1] first = np.empty(n * m + FC_JOIN_SLACK, np.int64), second = np.empty(n * m + FC_JOIN_SLACK, np.int64)
    found = fc_join(width, &pos[0], &padded[0], n, &probe[0], &probe_value[0], &counts[0], 0, m, base, sign, &first[0],
                    &second[0])
    return np.asarray(first)[:found], np.asarray(second)[:found]
