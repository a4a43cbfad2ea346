# cython: language_level=3
"""Selection, consumption and skip policies, applied to the matches that one event completes (in one window).

These matches are at the end of the output, in birth order. Matches that are not reported are removed from the output.
Then the partial matches that hold a consumed event, or that begin where the skip policy allows no match, are removed.
The semantics are described in docs/language.md, from SELECT to AFTER MATCH.

With PARTITION BY the policies apply within the partition of the event. The key of every row contains the words of its
partition (``IndexInfo.partition``), so the rows of a partition can be removed. The matches that a window has reported
are counted by partition, in an index after those of the rows (``Core.n_counts``).
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint64_t
from libc.stdlib cimport qsort

from fastcep._core.memory.row_store cimport Index, append, bucket_at, find, find_or_add
from fastcep._core.memory.starts cimport drop_all
from fastcep._core.memory.vectors cimport Vec, push, vec_free
from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core, read_key, stores_of
from fastcep._core.state.remove_rows cimport drop_before, drop_holders, drop_partition, drop_starts

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil


cdef void apply_policies(Core* core) noexcept nogil:
    """Select among the matches of the event, and apply the consequences of those that are reported."""
    cdef int64_t n = core.emitted, i, horizon = -1
    _list_events(core, n)
    core.chosen.size = core.leaving.size = 0
    for i in range(n):
        if push(&core.chosen, core.select == EACH or core.select == CUMULATIVE) < 0:
            core.failed = True
    if core.failed:
        return
    if core.select == FIRST or core.select == LAST:
        core.chosen.data[_best(core, n)] = 1
    if core.after_match >= TO_FIRST:
        _list_horizons(core, n)
    if core.select == EACH and core.after_match >= TO_FIRST:
        _skip_to(core, n)
    elif core.select == EACH and core.after_match != NO_SKIP:
        _skip(core, n)
    if core.n_counts > 0:
        if core.current_place >= 0:  # matches decided by time were counted one by one
            _apply_limit_in_partition(core, n)
    elif core.limit > 0:
        _apply_limit(core, n)
    if core.consumes:
        for i in range(n):  # LAST: older instances are superseded, so their events are consumed too
            if core.chosen.data[i] or core.select == LAST:
                _remove_events(core, _begin(core, i), core.ends.data[i])
    elif core.after_match == TO_NEXT or core.after_match >= TO_FIRST:
        for i in range(n):
            if core.chosen.data[i]:
                _remove_events(core, _begin(core, i), _begin(core, i) + 1)
    if core.after_match >= TO_FIRST:
        horizon = _last_horizon(core, n)
    if core.select == CUMULATIVE:
        _merge(core, n)
    else:
        _keep_chosen(core, n)
    if core.failed:
        return
    _sort_unique(&core.leaving, 0)
    if core.after_match == PAST_LAST and core.emitted > 0:
        if core.n_partition == 0:
            drop_all(&core.starts)
        elif partition_of(core, core.current, core.current_place):
            drop_partition(core)
    if horizon >= 0 and (core.n_partition == 0 or partition_of(core, core.current, core.current_place)):
        drop_before(core, horizon)
    if core.consumes:
        drop_holders(core)
    elif core.leaving.size > 0:
        if core.select == CUMULATIVE:
            core.leaving.size = 1
        drop_starts(core)


cdef void policy_clear(Core* core) noexcept nogil:
    """Free the scratch memory."""
    vec_free(&core.advanced)
    vec_free(&core.bound)
    vec_free(&core.ends)
    vec_free(&core.chosen)
    vec_free(&core.leaving)
    vec_free(&core.horizons)
    vec_free(&core.touched)


cdef inline int64_t _begin(const Core* core, int64_t match) noexcept nogil:
    """Return the index in ``bound`` of the first event of a match."""
    return 0 if match == 0 else core.ends.data[match - 1]


cdef void _remove_events(Core* core, int64_t first, int64_t end) noexcept nogil:
    """Add the events ``first:end`` of ``bound`` to those that are removed."""
    cdef int64_t i
    for i in range(first, end):
        if push(&core.leaving, core.bound.data[i]) < 0:
            core.failed = True


cdef int _compare(const void* left, const void* right) noexcept nogil:
    """Compare two int64 values, for ``qsort``."""
    cdef int64_t a = (<const int64_t*>left)[0], b = (<const int64_t*>right)[0]
    return (a > b) - (a < b)


cdef void _sort_unique(Vec* vec, int64_t first) noexcept nogil:
    """Sort a vector from ``first`` on and remove duplicates."""
    cdef int64_t i, size = first
    if vec.size > first:  # data may be NULL
        qsort(vec.data + first, vec.size - first, sizeof(int64_t), _compare)
    for i in range(first, vec.size):
        if i == first or vec.data[i] != vec.data[size - 1]:
            vec.data[size] = vec.data[i]
            size += 1
    vec.size = size


cdef void _rewind(Core* core, int64_t n) noexcept nogil:
    """Set ``cursor`` of each variable to its first value in the last ``n`` matches."""
    cdef int64_t i
    cdef int m
    for m in range(core.n_variables):
        core.cursor[m] = core.out_values[m].size
        if core.variables[m].negated:
            continue
        if not core.variables[m].repeated:
            core.cursor[m] -= n
            continue
        for i in range(core.out_lengths[m].size - n, core.out_lengths[m].size):
            core.cursor[m] -= core.out_lengths[m].data[i]


cdef inline int64_t _length(const Core* core, int m, int64_t n, int64_t match) noexcept nogil:
    """Return the number of values that a match has for a variable."""
    return core.out_lengths[m].data[core.out_lengths[m].size - n + match] if core.variables[m].repeated else 1


cdef void _list_events(Core* core, int64_t n) noexcept nogil:
    """Write the events of each of the last ``n`` matches, in ascending order, to ``bound``."""
    cdef int64_t i, j, first, count
    cdef int m
    core.bound.size = core.ends.size = 0
    _rewind(core, n)
    for i in range(n):
        first = core.bound.size
        for m in range(core.n_variables):
            if core.variables[m].negated:
                continue
            count = _length(core, m, n, i)
            for j in range(core.cursor[m], core.cursor[m] + count):
                if core.out_values[m].data[j] >= 0 and push(&core.bound, core.out_values[m].data[j]) < 0:
                    core.failed = True
                    return
            core.cursor[m] += count
        _sort_unique(&core.bound, first)
        if push(&core.ends, core.bound.size) < 0:
            core.failed = True
            return


cdef int64_t _best(const Core* core, int64_t n) noexcept nogil:
    """Return the match whose ascending events are the least or, for LAST, whose descending events are the greatest."""
    cdef int64_t best = 0, i
    for i in range(1, n):
        if _precedes(core, i, best):
            best = i
    return best


cdef bint _precedes(const Core* core, int64_t one, int64_t other) noexcept nogil:
    """Return whether match ``one`` is preferred to match ``other`` by FIRST or LAST."""
    cdef int64_t n = core.ends.data[one] - _begin(core, one), m = core.ends.data[other] - _begin(core, other), i, a, b
    for i in range(min(n, m)):
        if core.select == FIRST:
            a = core.bound.data[_begin(core, one) + i]
            b = core.bound.data[_begin(core, other) + i]
            if a != b:
                return a < b
        else:
            a = core.bound.data[core.ends.data[one] - 1 - i]
            b = core.bound.data[core.ends.data[other] - 1 - i]
            if a != b:
                return a > b
    return n < m if core.select == FIRST else n > m


cdef void _skip(Core* core, int64_t n) noexcept nogil:
    """Choose the oldest match per first event; with PAST_LAST choose one match, with the earliest start, then birth."""
    cdef int64_t i, j, first, best = 0
    if core.after_match == PAST_LAST:
        for i in range(n):
            core.chosen.data[i] = 0
            if core.bound.data[_begin(core, i)] < core.bound.data[_begin(core, best)]:
                best = i
        core.chosen.data[best] = 1
        return
    for i in range(n):  # ``leaving`` temporarily holds the set of first events so far
        first = core.bound.data[_begin(core, i)]
        for j in range(core.leaving.size):
            if core.leaving.data[j] == first:
                core.chosen.data[i] = 0
                break
        else:
            if push(&core.leaving, first) < 0:
                core.failed = True
    core.leaving.size = 0


cdef void _list_horizons(Core* core, int64_t n) noexcept nogil:
    """Write the position to which each of the last ``n`` matches skips to ``horizons``.

    It is -1 for a match that does not bind the variable, or whose first event it is; these skip to the next start.
    """
    cdef int64_t i, j, count, event
    cdef int m
    core.horizons.size = 0
    for i in range(n):
        if push(&core.horizons, -1) < 0:
            core.failed = True
            return
    _rewind(core, n)
    for m in range(core.n_variables):
        if core.variables[m].negated or not core.skip_to >> m & 1:
            continue
        for i in range(n):
            count = _length(core, m, n, i)
            for j in range(core.cursor[m], core.cursor[m] + count):
                event = core.out_values[m].data[j]
                if event >= 0 and (core.horizons.data[i] < 0 or (event < core.horizons.data[i]) == (core.after_match == TO_FIRST)):
                    core.horizons.data[i] = event
            core.cursor[m] += count
    if core.select != CUMULATIVE:
        for i in range(n):
            if core.horizons.data[i] <= core.bound.data[_begin(core, i)]:
                core.horizons.data[i] = -1


cdef int64_t _last_horizon(Core* core, int64_t n) noexcept nogil:
    """Return the last position to which a chosen match skips, or for CUMULATIVE the merged match; -1 if there is none."""
    cdef int64_t i, horizon = -1, first = INT64_MAX
    for i in range(n):
        if core.select != CUMULATIVE:
            if core.chosen.data[i]:
                horizon = max(horizon, core.horizons.data[i])
        elif core.emitted > 0:
            first = min(first, core.bound.data[_begin(core, i)])
            if core.horizons.data[i] >= 0 and (
                    horizon < 0 or (core.horizons.data[i] < horizon) == (core.after_match == TO_FIRST)):
                horizon = core.horizons.data[i]
    return -1 if core.select == CUMULATIVE and horizon <= first else horizon


cdef int _compare_starts(const void* left, const void* right) noexcept nogil:
    """Compare two pairs of first event and match, for ``qsort``."""
    cdef const int64_t* a = <const int64_t*>left
    cdef const int64_t* b = <const int64_t*>right
    if a[0] != b[0]:
        return 1 if a[0] > b[0] else -1
    return (a[1] > b[1]) - (a[1] < b[1])


cdef void _skip_to(Core* core, int64_t n) noexcept nogil:
    """Choose the matches that none before them drops, the earliest start first, then birth."""
    cdef int64_t i, match, start, horizon = -1, dropped = -1
    for i in range(n):  # ``leaving`` temporarily holds the pairs
        if push(&core.leaving, core.bound.data[_begin(core, i)]) < 0 or push(&core.leaving, i) < 0:
            core.failed = True
            return
    qsort(core.leaving.data, n, 2 * sizeof(int64_t), _compare_starts)
    for i in range(n):
        start, match = core.leaving.data[2 * i], core.leaving.data[2 * i + 1]
        core.chosen.data[match] = start != dropped and start >= horizon
        if core.chosen.data[match]:
            dropped = start
            horizon = max(horizon, core.horizons.data[match])
    core.leaving.size = 0


cdef void _apply_limit(Core* core, int64_t n) noexcept nogil:
    """Choose as many matches as the limit of the window allows; the merged match of CUMULATIVE counts as one."""
    cdef int64_t i
    for i in range(n):
        if not core.chosen.data[i]:
            continue
        if core.reported >= core.limit:
            core.chosen.data[i] = 0
        elif core.select != CUMULATIVE:
            core.reported += 1
    if core.select == CUMULATIVE:
        core.reported += 1


cdef bint partition_of(Core* core, uint64_t variables, int k) noexcept nogil:
    """Write the key of the partition of event ``k`` of the chunk to ``core.key``; returns False if it is in no
    partition.

    ``variables``: the variables to which the event may be bound.
    """
    return read_key(core.variables[__builtin_ctzll(variables)].partition, core.n_partition, k, core.key)


cdef bint limit_is_reached(const Core* core, const Index* counts) noexcept nogil:
    """Return whether the partition in ``core.key`` has reported as many matches as the limit of the window allows."""
    cdef int64_t bucket_number = find(counts, core.key)
    return bucket_number >= 0 and bucket_at(counts, bucket_number).data[0] >= core.limit


cdef int64_t* _count_of(Core* core) noexcept nogil:
    """Return a pointer to the number of reported matches of the partition in ``core.key``; NULL if memory ran out."""
    cdef Index* counts = core.indexes + stores_of(core) - 1
    cdef int64_t bucket_number = find_or_add(counts, core.key)
    if bucket_number >= 0 and bucket_at(counts, bucket_number).size == 0:
        if append(counts, bucket_number, INT64_MIN) < 0:
            bucket_number = -1
        else:
            bucket_at(counts, bucket_number).data[0] = 0
    if bucket_number < 0:
        core.failed = True
        return NULL
    return bucket_at(counts, bucket_number).data


cdef void _apply_limit_in_partition(Core* core, int64_t n) noexcept nogil:
    """Do `_apply_limit` for the partition of the event, and drop its partial matches when the limit is reached."""
    cdef int64_t* count
    if not partition_of(core, core.current, core.current_place):
        return
    count = _count_of(core)
    if count == NULL:
        return
    core.reported = count[0]
    _apply_limit(core, n)
    count[0] = core.reported
    core.reported = 0
    if count[0] >= core.limit:
        drop_partition(core)


cdef int64_t* count_of_waiting(Core* core, const State* state) noexcept nogil:
    """Return the same as `_count_of`, for the partition of the waiting match in staged row 0, which has this state."""
    cdef int w
    for w in range(core.n_partition):
        core.key[w] = core.stage.out[state.partition[w]][0]
    return _count_of(core)


cdef void _keep_chosen(Core* core, int64_t n) noexcept nogil:
    """Remove the matches that are not chosen from the last ``n`` matches of the output."""
    cdef int64_t i, j, count, to, length
    cdef int m
    cdef Vec* values
    cdef Vec* lengths
    _rewind(core, n)
    core.emitted = 0
    for i in range(n):
        core.emitted += core.chosen.data[i]
    if core.emitted == n:
        return
    for m in range(core.n_variables):
        if core.variables[m].negated:
            continue
        values = core.out_values + m
        lengths = core.out_lengths + m
        to = core.cursor[m]
        length = lengths.size - n
        for i in range(n):
            count = _length(core, m, n, i)
            if core.chosen.data[i]:
                for j in range(count):
                    values.data[to] = values.data[core.cursor[m] + j]
                    to += 1
                if core.variables[m].repeated:
                    lengths.data[length] = count
                    length += 1
            core.cursor[m] += count
        values.size = to
        if core.variables[m].repeated:
            lengths.size = length


cdef void _merge(Core* core, int64_t n) noexcept nogil:
    """Merge the last ``n`` matches into one: each variable binds all events that it binds in any of them."""
    cdef int64_t i, first, to
    cdef int m
    cdef Vec* values
    _rewind(core, n)
    core.emitted = 1
    for m in range(core.n_variables):
        if core.variables[m].negated:
            continue
        values = core.out_values + m
        first = to = core.cursor[m]
        for i in range(first, values.size):
            if values.data[i] >= 0:
                values.data[to] = values.data[i]
                to += 1
        values.size = to
        _sort_unique(values, first)
        if core.variables[m].repeated:
            core.out_lengths[m].size -= n
        if push(core.out_lengths + m, values.size - first) < 0:
            core.failed = True
