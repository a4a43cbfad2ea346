# cython: language_level=3
"""The row store of one index: a hash index from keys to buckets of rows.

A bucket is one block of memory that doubles as it grows. The *fixed* words of a row (start, birth, bindings) are stored
together, so that creating, moving and emitting a row touches one cache line. The words that predicates read (null bits,
registers) are stored in *columns*, so that predicates scan contiguous memory.

Rows are in birth order. Only stable compaction removes them: when a block is full, when a scan finds most of its rows
dead, and in ``sweep``. A row is dead when the ordinal of its start (word 0) is before the first live start. Memory is
therefore proportional to the live rows, plus the dead rows that ``sweep`` has not visited yet; the matcher sweeps when
the bytes have doubled and when the budget is nearly used up.
"""
from libc.stdint cimport INT64_MAX
from libc.stdlib cimport free, malloc
from libc.string cimport memcmp, memcpy, memmove, memset

from fastcep._core.memory.allocator cimport Budget, give_back, obtain, regrow, shrink

cdef extern from *:
    void __builtin_prefetch(const void*, int) noexcept nogil
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:
    FIRST_ROWS = 2           # in a stream with many keys, most keys have one or two rows
    FIRST_SLOTS = 64
    FIRST_BUCKETS = 8
    SLACK = 3                # words that the factorised store may read after the last row
    SMALL = 1 << 10          # buckets up to which the hash table is sparse
    SPARSE = 8               # slots per bucket of a sparse hash table, in which collisions are rare
    BLOCK = 64               # rows whose buckets are looked up before any of the rows is written
    MOST_FIXED = 80          # words: start, birth and one binding for each of at most 64 variables


cdef int index_init(Index* index, Budget* budget, int words, int fixed, int columns) noexcept nogil:
    """Initialise an empty index; -1 without memory."""
    memset(index, 0, sizeof(Index))
    index.budget = budget
    index.words = words
    index.bucket_bytes = sizeof(Bucket) + (words + (fixed == 1)) * sizeof(int64_t)
    index.fixed = fixed
    index.columns = columns
    index.slack = SLACK if fixed == 1 else 0
    index.scratch = <int64_t*>malloc(max(1, words) * sizeof(int64_t))
    return -1 if index.scratch == NULL or _reslot(index, FIRST_SLOTS) < 0 else 0


cdef void index_clear(Index* index) noexcept nogil:
    """Free all memory."""
    cdef int64_t i
    if index.budget == NULL:
        return
    if index.slots != NULL:  # NULL: index_init ran out of memory, nothing is counted
        index.budget.used -= index_bytes(index)
    for i in range(index.n_buckets):
        free(bucket_at(index, i).data)
    free(index.buckets)
    free(index.slots)
    free(index.scratch)
    memset(index, 0, sizeof(Index))


cdef void _fill_slots(Index* index, uint64_t slots) noexcept nogil:
    """Enter every key into the hash table, which now has ``slots`` slots."""
    cdef uint64_t slot
    cdef int64_t i
    index.slot_mask = slots - 1
    index.slot_shift = 64 - __builtin_ctzll(slots)
    memset(index.slots, 0xFF, (index.slot_mask + 1) * sizeof(int32_t))
    if index.words > 0:
        for i in range(index.n_buckets):
            slot = slot_of(index, key_of(bucket_at(index, i)), index.words)
            while index.slots[slot] >= 0:
                slot = (slot + 1) & index.slot_mask
            index.slots[slot] = <int32_t>i


cdef int _reslot(Index* index, uint64_t slots) noexcept nogil:
    """Rebuild the hash table with ``slots`` slots, a power of two."""
    cdef int32_t* grown = <int32_t*>obtain(index.budget, slots * sizeof(int32_t))
    if grown == NULL:
        return -1
    give_back(index.budget, index.slots, (index.slot_mask + 1) * sizeof(int32_t))
    index.slots = grown
    _fill_slots(index, slots)
    return 0


cdef int64_t find_or_add(Index* index, const int64_t* key) noexcept nogil:
    """Return the number of the bucket of ``key``, which is created if it is new; -1 without memory."""
    cdef int64_t number = find(index, key), capacity
    cdef uint64_t slot
    cdef int i
    if number >= 0:
        return number
    if index.n_buckets == index.bucket_capacity:
        capacity = max(<int64_t>FIRST_BUCKETS, index.bucket_capacity * 2)
        if not regrow(index.budget, <void**>&index.buckets, index.bucket_capacity, capacity, index.bucket_bytes):
            return -1
        index.bucket_capacity = capacity
    number = index.n_buckets
    memset(bucket_at(index, number), 0, sizeof(Bucket))
    for i in range(index.words):
        key_of(bucket_at(index, number))[i] = key[i]
    if index.fixed == 1:
        removed_of(index, bucket_at(index, number))[0] = index.removed  # if the key had a bucket before, its rows count on
    index.n_buckets += 1
    if <uint64_t>index.n_buckets * (SPARSE if index.n_buckets <= SMALL else 4) > index.slot_mask + 1:
        if _reslot(index, (index.slot_mask + 1) * 2) < 0:
            index.n_buckets -= 1
            return -1
    elif index.words > 0:
        slot = slot_of(index, key, index.words)
        while index.slots[slot] >= 0:
            slot = (slot + 1) & index.slot_mask
        index.slots[slot] = <int32_t>number
    return number


cdef inline int _locate(Index* index, const Source* words, int64_t first, int64_t n, int64_t* numbers, int64_t* key,
                        int width) noexcept nogil:
    """``find_or_add`` for the keys of rows ``first`` to ``first + n``.

    ``key`` is scratch, ``width`` is ``index.words``. The first slot usually has the key. The end of its bucket is
    prefetched, because the rows are written there next.
    """
    cdef Bucket* bucket
    cdef int64_t j
    cdef int32_t number
    cdef int w
    cdef bint same
    for j in range(first, first + n):
        for w in range(width):
            key[w] = words[w].data[j * words[w].step]
        number = index.slots[slot_of(index, key, width)]
        same = number >= 0
        if same:
            bucket = bucket_at(index, number)
            for w in range(width):
                same = same and key_of(bucket)[w] == key[w]
        if same:
            __builtin_prefetch(bucket.data + <int64_t>bucket.size * index.fixed, 1)
            numbers[j - first] = number
        else:
            numbers[j - first] = find_or_add(index, key)
            if numbers[j - first] < 0:
                return -1
    return 0


cdef inline int _put(Index* index, const int64_t* numbers, const Source* row, int64_t first, int64_t n,
                     int64_t first_live, int fixed) noexcept nogil:
    """Append rows ``first`` to ``first + n`` of the sources to their buckets; -1 without memory.

    ``fixed`` is ``index.fixed``. Callers pass a literal where they can, so that the compiler unrolls the loops.
    """
    cdef const int64_t* data[MOST_FIXED]
    cdef int64_t step[MOST_FIXED]
    cdef Bucket* bucket
    cdef int64_t* to
    cdef int64_t j
    cdef int c
    for c in range(fixed):
        data[c] = row[c].data + first * row[c].step
        step[c] = row[c].step
    for j in range(n):
        bucket = bucket_at(index, numbers[j])
        if bucket.size == bucket.capacity and make_room(index, bucket, first_live) < 0:
            return -1
        FC_CHECK(bucket.size < bucket.capacity)
        to = bucket.data + <int64_t>bucket.size * fixed
        for c in range(fixed):
            to[c] = data[c][0]
            data[c] += step[c]
        if index.columns > 0:
            to = bucket.data + <int64_t>bucket.capacity * fixed + bucket.size
            for c in range(fixed, fixed + index.columns):
                to[0] = row[c].data[(first + j) * row[c].step]
                to += bucket.capacity
        bucket.size += 1
    return 0


cdef int _locate_rows(Index* index, const Source* words, int64_t first, int64_t n, int64_t* numbers) noexcept nogil:
    cdef int64_t pair[2]
    if index.words == 1:
        return _locate(index, words, first, n, numbers, pair, 1)
    if index.words == 2:
        return _locate(index, words, first, n, numbers, pair, 2)
    return _locate(index, words, first, n, numbers, index.scratch, index.words)


cdef int _put_rows(Index* index, const int64_t* numbers, const Source* row, int64_t first, int64_t n,
                   int64_t first_live) noexcept nogil:
    if index.fixed == 2:
        return _put(index, numbers, row, first, n, first_live, 2)
    if index.fixed == 3:
        return _put(index, numbers, row, first, n, first_live, 3)
    if index.fixed == 4:
        return _put(index, numbers, row, first, n, first_live, 4)
    return _put(index, numbers, row, first, n, first_live, index.fixed)


cdef int64_t insert(Index* index, const Source* words, const Source* row, int64_t n, int64_t first_live) noexcept nogil:
    """Append ``n`` rows (``row``: fixed words, then columns), each to the bucket of its key.

    Rows with a null key word are skipped. Returns the number of rows appended, or -1 without memory.
    """
    cdef int64_t numbers[BLOCK]
    cdef int64_t j, m, first = 0, stored = 0
    cdef int64_t* key = index.scratch
    cdef int w, width = index.words
    cdef bint null = False
    for w in range(width):
        null |= words[w].null != NULL
    if null:
        for j in range(n):
            for w in range(width):
                key[w] = words[w].data[j * words[w].step]
                if words[w].null != NULL and words[w].null[j * words[w].null_step]:
                    break
            else:
                numbers[0] = find_or_add(index, key)
                if numbers[0] < 0 or _put_rows(index, numbers, row, j, 1, first_live) < 0:
                    return -1
                stored += 1
        return stored
    while first < n:
        m = min(n - first, BLOCK)
        if _locate_rows(index, words, first, m, numbers) < 0:
            return -1
        if _put_rows(index, numbers, row, first, m, first_live) < 0:
            return -1
        first += m
    return n


cdef void compact(const Index* index, Bucket* bucket, int64_t first_live) noexcept nogil:
    """Move the live rows to the front of the block, in order."""
    cdef int64_t* row = bucket.data + <int64_t>bucket.head * index.fixed
    cdef int64_t* to = bucket.data
    cdef int64_t* column
    cdef int32_t i, live
    cdef int j, c
    for j in range(index.columns):  # the fixed words say which rows are live, so they move last
        column = column_of(index, bucket, j)
        live = 0
        for i in range(bucket.head, bucket.size):
            if bucket.data[<int64_t>i * index.fixed] >= first_live:
                column[live] = column[i]
                live += 1
    live = 0
    for i in range(bucket.head, bucket.size):
        if row[0] >= first_live:
            for c in range(index.fixed):
                to[c] = row[c]
            to += index.fixed
            live += 1
        row += index.fixed
    bucket.n_hashed = max(0, bucket.n_hashed - (bucket.size - live))  # where this is used, rows die in order
    if index.fixed == 1:
        removed_of(index, bucket)[0] += bucket.size - live
    bucket.head = 0
    bucket.size = live


cdef int _enlarge(Index* index, Bucket* bucket, int32_t capacity) noexcept nogil:
    """Move the rows from ``head`` on, live or dead, to a larger block."""
    cdef int64_t* block
    cdef int64_t rows = bucket.size - bucket.head
    cdef int j
    block = <int64_t*>obtain(index.budget, block_bytes(index, capacity))
    if block == NULL:
        return -1
    if rows > 0:
        memcpy(block, bucket.data + <int64_t>bucket.head * index.fixed, rows * index.fixed * sizeof(int64_t))
        for j in range(index.columns):
            memcpy(block + <int64_t>(index.fixed + j) * capacity, column_of(index, bucket, j) + bucket.head,
                   rows * sizeof(int64_t))
    index.bytes += block_bytes(index, capacity) - block_bytes(index, bucket.capacity)
    give_back(index.budget, bucket.data, block_bytes(index, bucket.capacity))
    bucket.data = block
    bucket.capacity = capacity
    bucket.n_hashed = max(0, bucket.n_hashed - bucket.head)
    if index.fixed == 1:
        removed_of(index, bucket)[0] += bucket.head
    bucket.head = 0
    bucket.size = rows
    return 0


cdef void _shrink(Index* index, Bucket* bucket, int32_t capacity) noexcept nogil:
    """Shrink the block of a compacted bucket to a smaller capacity."""
    cdef int64_t row
    cdef int j
    for j in range(index.columns):
        row = index.fixed + j
        memmove(bucket.data + row * capacity, bucket.data + row * bucket.capacity, bucket.size * sizeof(int64_t))
    bucket.data = <int64_t*>shrink(index.budget, bucket.data, block_bytes(index, bucket.capacity),
                                   block_bytes(index, capacity))
    index.bytes -= block_bytes(index, bucket.capacity) - block_bytes(index, capacity)
    bucket.capacity = capacity


cdef int expect(Index* index, int64_t buckets) noexcept nogil:
    """Allocate memory for ``buckets`` keys in an empty index; -1 without memory."""
    cdef uint64_t slots = FIRST_SLOTS
    if buckets == 0:
        return 0
    while slots < <uint64_t>buckets * 4:
        slots *= 2
    if not regrow(index.budget, <void**>&index.buckets, index.bucket_capacity, buckets, index.bucket_bytes):
        return -1
    index.bucket_capacity = buckets
    return _reslot(index, slots)


cdef int put_buckets(Index* index, const int64_t* heads, int64_t step, int64_t n, const int64_t* rows,
                     int64_t row_step) noexcept nogil:
    """Create ``n`` buckets in an index that ``expect`` has prepared.

    ``heads[b]`` is the number of rows of bucket b, ``heads[w * step + b]`` word w of its key, counted from 1. All rows
    are numbered bucket by bucket; word w of row r is at ``rows[w * row_step + r]``. Returns -1 without memory, -2 if a
    key occurs twice.
    """
    cdef int64_t* key = index.scratch
    cdef uint64_t slots[BLOCK]
    cdef int64_t b = 0, i, m, count, row = 0
    cdef Bucket* bucket
    cdef int c
    while b < n:
        m = min(n - b, <int64_t>BLOCK)
        for i in range(m):  # prefetch all slots before the first one is needed
            for c in range(index.words):
                key[c] = heads[(1 + c) * step + b + i]
            slots[i] = slot_of(index, key, index.words)
            __builtin_prefetch(index.slots + slots[i], 1)
        for i in range(m):
            count = heads[b + i]
            bucket = bucket_at(index, b + i)
            memset(bucket, 0, sizeof(Bucket))
            for c in range(index.words):
                key_of(bucket)[c] = heads[(1 + c) * step + b + i]
            if index.fixed == 1:
                removed_of(index, bucket)[0] = 0
            index.n_buckets = b + i + 1
            if not _take_slot(index, slots[i], b + i):
                return -2
            if _enlarge(index, bucket, <int32_t>count) < 0:
                return -1
            for c in range(index.fixed):
                _scatter(bucket.data + c, index.fixed, rows + c * row_step + row, count)
            for c in range(index.columns):
                _scatter(column_of(index, bucket, c), 1, rows + (index.fixed + c) * row_step + row, count)
            bucket.size = <int32_t>count
            row += count
        b += m
    return 0


cdef inline bint _take_slot(Index* index, uint64_t slot, int64_t number) noexcept nogil:
    """Enter a bucket into the hash table from its first ``slot`` on; False if there is a bucket with the same key."""
    cdef const int64_t* key = key_of(bucket_at(index, number))
    if index.words == 0:
        return number == 0
    while index.slots[slot] >= 0:
        if memcmp(key_of(bucket_at(index, index.slots[slot])), key, index.words * sizeof(int64_t)) == 0:
            return False
        slot = (slot + 1) & index.slot_mask
    index.slots[slot] = <int32_t>number
    return True


cdef inline void _scatter(int64_t* to, int64_t step, const int64_t* values, int64_t n) noexcept nogil:
    cdef int64_t i
    for i in range(n):
        to[i * step] = values[i]


cdef int make_room(Index* index, Bucket* bucket, int64_t first_live) noexcept nogil:
    """Make room for one row in a full bucket: compact it; double it if more than half of its rows are live."""
    if bucket.capacity > 0:
        compact(index, bucket, first_live)
        if bucket.size <= bucket.capacity // 2:
            return 0
        if bucket.capacity <= (1 << 29) and _enlarge(index, bucket, bucket.capacity * 2) == 0:
            return 0
        return 0 if bucket.size < bucket.capacity else -1
    return _enlarge(index, bucket, FIRST_ROWS)


cdef void sweep(Index* index, int64_t first_live) noexcept nogil:
    """Remove every dead row and every empty bucket, and free their memory."""
    cdef int64_t i, kept = 0, bucket_capacity = index.bucket_capacity
    cdef int32_t capacity
    cdef uint64_t slots = FIRST_SLOTS
    cdef Bucket* bucket
    for i in range(index.n_buckets):
        bucket = bucket_at(index, i)
        compact(index, bucket, first_live)
        if bucket.size == 0:
            if index.fixed == 1:
                index.removed = max(index.removed, removed_of(index, bucket)[0])
            index.bytes -= block_bytes(index, bucket.capacity)
            give_back(index.budget, bucket.data, block_bytes(index, bucket.capacity))
            continue
        capacity = bucket.capacity
        while capacity > FIRST_ROWS and bucket.size <= capacity // 4:
            capacity //= 2
        if capacity < bucket.capacity:
            _shrink(index, bucket, capacity)
        if kept != i:
            memcpy(bucket_at(index, kept), bucket, index.bucket_bytes)
        kept += 1
    index.n_buckets = kept
    if kept == 0:
        give_back(index.budget, index.buckets, index.bucket_capacity * index.bucket_bytes)
        index.buckets = NULL
        index.bucket_capacity = bucket_capacity = 0
    while bucket_capacity > FIRST_BUCKETS and kept <= bucket_capacity // 4:
        bucket_capacity //= 2
    if bucket_capacity < index.bucket_capacity:
        index.buckets = <char*>shrink(index.budget, index.buckets, index.bucket_capacity * index.bucket_bytes,
                                      bucket_capacity * index.bucket_bytes)
        index.bucket_capacity = bucket_capacity
    while slots < <uint64_t>kept * 6:
        slots *= 2
    if slots <= index.slot_mask:
        index.slots = <int32_t*>shrink(index.budget, index.slots, (index.slot_mask + 1) * sizeof(int32_t),
                                       slots * sizeof(int32_t))
    _fill_slots(index, min(slots, index.slot_mask + 1))
