# cython: language_level=3
"""The row store of one index: keys → buckets of rows.

A bucket is one block of int64 columns, so a probe scans contiguous memory; it grows 4 → 8 → … rows. Rows stand in
birth order and are removed only by stable compaction: when a block is full, when a scan finds most of it dead, and in
``sweep``. A row is dead when its start ordinal (column 0) is before the first live start. Memory is therefore bounded by
the live rows (a constant factor) plus what ``sweep`` has not visited yet; the matcher sweeps whenever the bytes doubled.
"""
from libc.stdlib cimport calloc, free, malloc, realloc
from libc.string cimport memcpy, memset

cdef enum:
    FIRST_ROWS = 4
    FIRST_SLOTS = 64


cdef int index_new(Index* index, int words, int columns) except -1:
    memset(index, 0, sizeof(Index))
    index.words = words
    index.columns = columns
    index.slot_mask = FIRST_SLOTS - 1
    index.slots = <int32_t*>malloc(FIRST_SLOTS * sizeof(int32_t))
    if index.slots == NULL:
        raise MemoryError("no memory for an index")
    memset(index.slots, 0xFF, FIRST_SLOTS * sizeof(int32_t))
    return 0


cdef void index_free(Index* index) noexcept:
    cdef int64_t i
    for i in range(index.n_buckets):
        free(index.buckets[i].data)
    free(index.buckets)
    free(index.keys)
    free(index.slots)
    memset(index, 0, sizeof(Index))


cdef int _reslot(Index* index, uint64_t slots) noexcept nogil:
    """Rebuild the slots (a power of two of them) from the keys."""
    cdef int32_t* fresh = <int32_t*>malloc(slots * sizeof(int32_t))
    cdef uint64_t slot, mask = slots - 1
    cdef int64_t i
    if fresh == NULL:
        return -1
    memset(fresh, 0xFF, slots * sizeof(int32_t))
    if index.words > 0:
        for i in range(index.n_buckets):
            slot = hash_words(index.keys + i * index.words, index.words) & mask
            while fresh[slot] >= 0:
                slot = (slot + 1) & mask
            fresh[slot] = <int32_t>i
    free(index.slots)
    index.slots = fresh
    index.slot_mask = mask
    return 0


cdef int64_t find_or_add(Index* index, const int64_t* key) noexcept nogil:
    """Number of the bucket of ``key``, made when new; -1 without memory."""
    cdef int64_t number = find(index, key), capacity
    cdef uint64_t slot
    cdef int i
    cdef void* grown
    if number >= 0:
        return number
    if index.n_buckets == index.bucket_capacity:
        capacity = max(8, index.bucket_capacity * 2)
        grown = realloc(index.buckets, capacity * sizeof(Bucket))
        if grown == NULL:
            return -1
        index.buckets = <Bucket*>grown
        if index.words > 0:
            grown = realloc(index.keys, capacity * index.words * sizeof(int64_t))
            if grown == NULL:
                return -1
            index.keys = <int64_t*>grown
        index.bucket_capacity = capacity
    number = index.n_buckets
    memset(index.buckets + number, 0, sizeof(Bucket))
    for i in range(index.words):
        index.keys[number * index.words + i] = key[i]
    index.n_buckets += 1
    if <uint64_t>index.n_buckets * 2 > index.slot_mask + 1:
        if _reslot(index, (index.slot_mask + 1) * 2) < 0:
            index.n_buckets -= 1
            return -1
    elif index.words > 0:
        slot = hash_words(key, index.words) & index.slot_mask
        while index.slots[slot] >= 0:
            slot = (slot + 1) & index.slot_mask
        index.slots[slot] = <int32_t>number
    return number


cdef void compact(const Index* index, Bucket* bucket, int64_t first_live) noexcept nogil:
    """Move the live rows to the front of the block, in order."""
    cdef int64_t* start = bucket.data
    cdef int64_t* column
    cdef int32_t i, to, live = 0
    cdef int j
    for j in range(index.columns - 1, -1, -1):  # column 0 decides, so it moves last
        column = bucket.data + <int64_t>j * bucket.capacity
        to = 0
        for i in range(bucket.head, bucket.size):
            if start[i] >= first_live:
                column[to] = column[i]
                to += 1
        live = to
    bucket.head = 0
    bucket.size = live


cdef int _resize(Index* index, Bucket* bucket, int32_t capacity) noexcept nogil:
    """Move the rows (all kept, head cut off) to a block of another capacity."""
    cdef int64_t* block
    cdef int32_t rows = bucket.size - bucket.head
    cdef int j
    block = <int64_t*>malloc(<int64_t>capacity * index.columns * sizeof(int64_t))
    if block == NULL:
        return -1
    for j in range(index.columns):
        if rows > 0:
            memcpy(block + <int64_t>j * capacity, bucket.data + <int64_t>j * bucket.capacity + bucket.head,
                   rows * sizeof(int64_t))
    index.bytes += (<int64_t>capacity - bucket.capacity) * index.columns * sizeof(int64_t)
    free(bucket.data)
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
        if bucket.capacity > (1 << 29):
            return -1
        return _resize(index, bucket, bucket.capacity * 2)
    return _resize(index, bucket, FIRST_ROWS)


cdef int sweep(Index* index, int64_t first_live) noexcept nogil:
    """Remove every dead row and every empty bucket, and give the memory back."""
    cdef int64_t i, kept = 0
    cdef int32_t capacity
    cdef uint64_t slots = FIRST_SLOTS
    cdef Bucket* bucket
    for i in range(index.n_buckets):
        bucket = index.buckets + i
        compact(index, bucket, first_live)
        if bucket.size == 0:
            index.bytes -= <int64_t>bucket.capacity * index.columns * sizeof(int64_t)
            free(bucket.data)
            continue
        capacity = bucket.capacity
        while capacity > FIRST_ROWS and bucket.size * 4 <= capacity:
            capacity //= 2
        if capacity < bucket.capacity and _resize(index, bucket, capacity) < 0:
            return -1
        if kept != i:
            index.buckets[kept] = bucket[0]
            memcpy(index.keys + kept * index.words, index.keys + i * index.words, index.words * sizeof(int64_t))
        kept += 1
    index.n_buckets = kept
    if kept == 0:
        free(index.buckets)
        free(index.keys)
        index.buckets = NULL
        index.keys = NULL
        index.bucket_capacity = 0
    while slots < <uint64_t>kept * 3:
        slots *= 2
    return _reslot(index, slots)


cdef int64_t index_bytes(const Index* index) noexcept nogil:
    """All bytes that the index holds."""
    return (index.bytes + index.bucket_capacity * (sizeof(Bucket) + index.words * sizeof(int64_t))
            + (index.slot_mask + 1) * sizeof(int32_t))
