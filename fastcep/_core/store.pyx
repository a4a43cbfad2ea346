# cython: language_level=3
"""The row store of one index: keys → buckets of rows.

A bucket is one block of memory that grows 4 → 8 → … rows. What a row only carries (its *fixed* words: start, birth,
bindings) stands together, so that making, moving and emitting a row touches one cache line; what predicates read (null bits,
registers) stands in *columns*, so that they scan contiguous memory. Rows stand in birth order and are removed only by stable
compaction: when a block is full, when a scan finds most of it dead, and in ``sweep``. A row is dead when its start ordinal
(word 0) is before the first live start. Memory is therefore bounded by the live rows (a constant factor) plus what ``sweep``
has not visited yet; the matcher sweeps whenever the bytes doubled, and when the budget is nearly spent.
"""
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

from fastcep._core.memory cimport Budget, give_back, obtain, regrow

cdef enum:
    FIRST_ROWS = 4
    FIRST_SLOTS = 64


cdef int index_new(Index* index, Budget* budget, int words, int fixed, int columns) except -1:
    memset(index, 0, sizeof(Index))
    index.budget = budget
    index.words = words
    index.fixed = fixed
    index.columns = columns
    index.scratch = <int64_t*>malloc(max(1, words) * sizeof(int64_t))
    if index.scratch == NULL or _reslot(index, FIRST_SLOTS) < 0:
        raise MemoryError("no memory for an index")
    return 0


cdef void index_free(Index* index) noexcept:
    cdef int64_t i
    for i in range(index.n_buckets):
        free(index.buckets[i].data)
    free(index.buckets)
    free(index.keys)
    free(index.slots)
    free(index.scratch)
    memset(index, 0, sizeof(Index))


cdef void _fill_slots(const Index* index, int32_t* slots, uint64_t mask) noexcept nogil:
    cdef uint64_t slot
    cdef int64_t i
    memset(slots, 0xFF, (mask + 1) * sizeof(int32_t))
    if index.words > 0:
        for i in range(index.n_buckets):
            slot = hash_words(index.keys + i * index.words, index.words) & mask
            while slots[slot] >= 0:
                slot = (slot + 1) & mask
            slots[slot] = <int32_t>i


cdef int _reslot(Index* index, uint64_t slots) noexcept nogil:
    """Rebuild the slots (a power of two of them) from the keys."""
    cdef int32_t* fresh = <int32_t*>obtain(index.budget, slots * sizeof(int32_t))
    if fresh == NULL:
        return -1
    _fill_slots(index, fresh, slots - 1)
    give_back(index.budget, index.slots, (index.slot_mask + 1) * sizeof(int32_t))
    index.slots = fresh
    index.slot_mask = slots - 1
    return 0


cdef int64_t find_or_add(Index* index, const int64_t* key) noexcept nogil:
    """Number of the bucket of ``key``, made when new; -1 without memory."""
    cdef int64_t number = find(index, key), capacity
    cdef uint64_t slot
    cdef int i
    if number >= 0:
        return number
    if index.n_buckets == index.bucket_capacity:
        capacity = max(8, index.bucket_capacity * 2)
        if not regrow(index.budget, <void**>&index.buckets, index.bucket_capacity, capacity, sizeof(Bucket)):
            return -1
        if index.words > 0 and not regrow(
                index.budget, <void**>&index.keys, index.bucket_capacity, capacity, index.words * sizeof(int64_t)):
            index.budget.used -= (capacity - index.bucket_capacity) * sizeof(Bucket)
            return -1
        index.bucket_capacity = capacity
    number = index.n_buckets
    memset(index.buckets + number, 0, sizeof(Bucket))
    for i in range(index.words):
        index.keys[number * index.words + i] = key[i]
    index.n_buckets += 1
    if <uint64_t>index.n_buckets * 4 > index.slot_mask + 1:
        if _reslot(index, (index.slot_mask + 1) * 2) < 0:
            index.n_buckets -= 1
            return -1
    elif index.words > 0:
        slot = hash_words(key, index.words) & index.slot_mask
        while index.slots[slot] >= 0:
            slot = (slot + 1) & index.slot_mask
        index.slots[slot] = <int32_t>number
    return number


cdef inline int64_t _bucket_of(Index* index, const int64_t* key, int words) noexcept nogil:
    """``find_or_add`` for one or two words: the first slot usually has the key."""
    cdef int32_t number = index.slots[hash_words(key, words) & index.slot_mask]
    cdef const int64_t* known = index.keys + <int64_t>number * words
    if number < 0 or known[0] != key[0] or (words == 2 and known[1] != key[1]):
        return find_or_add(index, key)
    return number


cdef inline int _put(Index* index, int64_t number, const Source* row, int64_t j, int64_t first_live) noexcept nogil:
    """Append row j to a bucket; -1 without memory."""
    cdef Bucket* bucket = index.buckets + number
    cdef int64_t* to
    cdef int64_t capacity
    cdef int c, fixed = index.fixed, width = index.fixed + index.columns
    if bucket.size == bucket.capacity and make_room(index, bucket, first_live) < 0:
        return -1
    FC_CHECK(bucket.size < bucket.capacity)
    capacity = bucket.capacity
    to = bucket.data + <int64_t>bucket.size * fixed
    for c in range(fixed):
        to[c] = row[c].data[j * row[c].step]
    to = bucket.data + capacity * fixed + bucket.size
    for c in range(fixed, width):
        to[0] = row[c].data[j * row[c].step]
        to += capacity
    bucket.size += 1
    return 0


cdef int64_t insert(Index* index, const Source* words, const Source* row, int64_t n, int64_t first_live) noexcept nogil:
    """Append ``n`` rows (``row``: fixed words, then columns), each to the bucket of its key, but those with a null key word.

    Returns how many were appended, or -1 without memory.
    """
    cdef int64_t key[2]
    cdef int64_t j, number, stored = 0
    cdef int w, width = index.words
    cdef bint null = False
    cdef const int64_t* first
    cdef const int64_t* second
    for w in range(width):
        null |= words[w].null != NULL
    if null or width > 2 or width == 0:
        for j in range(n):
            for w in range(width):
                index.scratch[w] = words[w].data[j * words[w].step]
                if words[w].null != NULL and words[w].null[j * words[w].null_step]:
                    break
            else:
                number = find_or_add(index, index.scratch)
                if number < 0 or _put(index, number, row, j, first_live) < 0:
                    return -1
                stored += 1
        return stored
    first = words[0].data
    second = words[width - 1].data
    for j in range(n):
        key[0] = first[j * words[0].step]
        if width == 1:
            number = _bucket_of(index, key, 1)
        else:
            key[1] = second[j * words[1].step]
            number = _bucket_of(index, key, 2)
        if number < 0 or _put(index, number, row, j, first_live) < 0:
            return -1
    return n


cdef void compact(const Index* index, Bucket* bucket, int64_t first_live) noexcept nogil:
    """Move the live rows to the front of the block, in order."""
    cdef int64_t* row = bucket.data + <int64_t>bucket.head * index.fixed
    cdef int64_t* to = bucket.data
    cdef int64_t* column
    cdef int32_t i, live
    cdef int j, c
    for j in range(index.columns):  # the fixed words decide, so they move last
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
    bucket.head = 0
    bucket.size = live


cdef int _resize(Index* index, Bucket* bucket, int32_t capacity) noexcept nogil:
    """Move the rows (all kept, head cut off) to a block of another capacity."""
    cdef int64_t* block
    cdef int64_t rows = bucket.size - bucket.head
    cdef int j
    block = <int64_t*>obtain(index.budget, capacity * width_of(index))
    if block == NULL:
        return -1
    if rows > 0:
        memcpy(block, bucket.data + <int64_t>bucket.head * index.fixed, rows * index.fixed * sizeof(int64_t))
        for j in range(index.columns):
            memcpy(block + <int64_t>(index.fixed + j) * capacity, column_of(index, bucket, j) + bucket.head,
                   rows * sizeof(int64_t))
    index.bytes += (<int64_t>capacity - bucket.capacity) * width_of(index)
    give_back(index.budget, bucket.data, bucket.capacity * width_of(index))
    bucket.data = block
    bucket.capacity = capacity
    bucket.head = 0
    bucket.size = rows
    return 0


cdef int make_room(Index* index, Bucket* bucket, int64_t first_live) noexcept nogil:
    """Give a full bucket a free row: compact it when half of it is dead, else double it."""
    if bucket.capacity > 0:
        compact(index, bucket, first_live)
        if bucket.size * 2 <= bucket.capacity:
            return 0
        if bucket.capacity <= (1 << 29) and _resize(index, bucket, bucket.capacity * 2) == 0:
            return 0
        return 0 if bucket.size < bucket.capacity else -1
    return _resize(index, bucket, FIRST_ROWS)


cdef void sweep(Index* index, int64_t first_live) noexcept nogil:
    """Remove every dead row and every empty bucket, and give the memory back."""
    cdef int64_t i, kept = 0
    cdef int32_t capacity
    cdef uint64_t slots = FIRST_SLOTS
    cdef Bucket* bucket
    for i in range(index.n_buckets):
        bucket = index.buckets + i
        compact(index, bucket, first_live)
        if bucket.size == 0:
            index.bytes -= bucket.capacity * width_of(index)
            give_back(index.budget, bucket.data, bucket.capacity * width_of(index))
            continue
        capacity = bucket.capacity
        while capacity > FIRST_ROWS and bucket.size * 4 <= capacity:
            capacity //= 2
        if capacity < bucket.capacity:
            _resize(index, bucket, capacity)  # without memory for it, the bucket stays as it is
        if kept != i:
            index.buckets[kept] = bucket[0]
            memcpy(index.keys + kept * index.words, index.keys + i * index.words, index.words * sizeof(int64_t))
        kept += 1
    index.n_buckets = kept
    if kept == 0:
        give_back(index.budget, index.buckets, index.bucket_capacity * sizeof(Bucket))
        give_back(index.budget, index.keys, index.bucket_capacity * index.words * sizeof(int64_t))
        index.buckets = NULL
        index.keys = NULL
        index.bucket_capacity = 0
    while slots < <uint64_t>kept * 6:
        slots *= 2
    if slots > index.slot_mask or _reslot(index, slots) < 0:
        _fill_slots(index, index.slots, index.slot_mask)
