# The row store: hash indexes whose buckets are contiguous blocks of rows. See row_store.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from fastcep._core.memory.allocator cimport Budget

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil

cdef extern from *:
    """
    #define FC_HASH 0x9E3779B97F4A7C15ULL
    """
    uint64_t HASH "FC_HASH"  # the golden ratio, for multiplicative hashing


cdef struct Bucket:          # the words of its key follow it in memory, then its ``removed``, see removed_of
    int64_t* data            # block: the fixed words of row r at data[r * fixed], then the columns; see column_of
    int32_t head             # rows before this one are dead
    int32_t size             # end of the rows, including dead ones
    int32_t capacity         # rows
    int32_t n_hashed         # leading rows that are also in the index ``Core.hashed``; see join.pyx


cdef struct Index:
    Budget* budget
    int32_t words            # int64 words of a key; 0 = a single bucket
    int32_t fixed            # words of a row that are stored together; word 0 is the ordinal of its start
    int32_t columns          # words of a row that are stored in columns
    int32_t slack            # words after a block that are allocated, so that reading past the last row is safe
    int64_t bucket_bytes     # bytes of a bucket without its block
    char* buckets            # see bucket_at
    int64_t n_buckets
    int64_t bucket_capacity
    int32_t* slots           # hash table with open addressing: number of a bucket, or -1
    uint64_t slot_mask       # number of slots - 1
    int slot_shift           # 64 - log2(number of slots)
    int64_t bytes            # bytes of all blocks
    int64_t removed          # the greatest ``removed`` of a bucket that was removed; if its key comes again, it counts on
    int64_t* scratch         # the words of one key


cdef struct Source:          # the values of one word of new rows
    const int64_t* data
    int64_t step             # words from row to row; 0: the same value for all rows
    const uint8_t* null      # for key words: null flags (a null key joins nothing); NULL: no value is null
    int64_t null_step


cdef inline Bucket* bucket_at(const Index* index, int64_t number) noexcept nogil:
    """Return the bucket with this number."""
    return <Bucket*>(index.buckets + number * index.bucket_bytes)


cdef inline int64_t number_of(const Index* index, const Bucket* bucket) noexcept nogil:
    """Return the number of a bucket, as ``bucket_at`` expects it."""
    return (<const char*>bucket - index.buckets) // index.bucket_bytes


cdef inline int64_t* key_of(Bucket* bucket) noexcept nogil:
    """Return the words of the key of a bucket."""
    return <int64_t*>(bucket + 1)


cdef inline int64_t* removed_of(const Index* index, const Bucket* bucket) noexcept nogil:
    """Return how many rows a bucket of the factorised store has lost, which are those before its first row."""
    return <int64_t*>(bucket + 1) + index.words


cdef inline int64_t* column_of(const Index* index, const Bucket* bucket, int number) noexcept nogil:
    """Return column ``number`` of the rows of a bucket; columns are contiguous, for predicates to scan."""
    return bucket.data + <int64_t>(index.fixed + number) * bucket.capacity


cdef inline uint64_t slot_of(const Index* index, const int64_t* key, int words) noexcept nogil:
    """Return the first slot of a key, by multiplicative hashing, in which the upper bits are the best mixed."""
    cdef uint64_t hashed = 0
    cdef int i
    for i in range(words):
        hashed = ((hashed << 32 | hashed >> 32) ^ <uint64_t>key[i]) * HASH
    return hashed >> index.slot_shift


cdef inline int64_t width_of(const Index* index) noexcept nogil:
    """Return the bytes of a row."""
    return <int64_t>(index.fixed + index.columns) * sizeof(int64_t)


cdef inline int64_t block_bytes(const Index* index, int64_t capacity) noexcept nogil:
    """Return the bytes of a block for ``capacity`` rows."""
    return capacity * width_of(index) + (index.slack * sizeof(int64_t) if capacity > 0 else 0)


cdef inline int64_t index_bytes(const Index* index) noexcept nogil:
    """Return all bytes that the index holds."""
    return index.bytes + index.bucket_capacity * index.bucket_bytes + <int64_t>(index.slot_mask + 1) * sizeof(int32_t)


cdef inline int64_t find(const Index* index, const int64_t* key) noexcept nogil:
    """Return the number of the bucket of ``key``, or -1."""
    if index.words == 1:
        return find_words(index, key, 1)
    if index.words == 2:
        return find_words(index, key, 2)
    if index.words == 0:
        return 0 if index.n_buckets else -1
    return find_words(index, key, index.words)


cdef inline int64_t find_words(const Index* index, const int64_t* key, int words) noexcept nogil:
    """``find`` for keys of ``words`` words.

    Callers pass a literal where they can, so that the compiler unrolls the loops.
    """
    cdef uint64_t slot = slot_of(index, key, words)
    cdef int32_t bucket
    cdef const int64_t* stored
    cdef int i
    while True:
        bucket = index.slots[slot]
        if bucket < 0:
            return -1
        stored = key_of(bucket_at(index, bucket))
        for i in range(words):
            if stored[i] != key[i]:
                break
        else:
            return bucket
        slot = (slot + 1) & index.slot_mask


cdef int index_init(Index* index, Budget* budget, int words, int fixed, int columns) noexcept nogil
cdef void index_clear(Index* index) noexcept nogil
cdef int64_t find_or_add(Index* index, const int64_t* key) noexcept nogil
cdef int64_t insert(Index* index, const Source* words, const Source* row, int64_t n, int64_t first_live) noexcept nogil
cdef int make_room(Index* index, Bucket* bucket, int64_t first_live) noexcept nogil
cdef int expect(Index* index, int64_t buckets) noexcept nogil
cdef int put_buckets(Index* index, const int64_t* heads, int64_t step, int64_t n, const int64_t* rows,
                     int64_t row_step) noexcept nogil
cdef void compact(const Index* index, Bucket* bucket, int64_t first_live) noexcept nogil
cdef void sweep(Index* index, int64_t first_live) noexcept nogil


cdef inline int64_t append(Index* index, int64_t number, int64_t first_live) noexcept nogil:
    """Append a row to a bucket; returns its row number in the block, or -1 without memory."""
    cdef Bucket* bucket = bucket_at(index, number)
    FC_CHECK(0 <= number < index.n_buckets)
    if bucket.size == bucket.capacity and make_room(index, bucket, first_live) < 0:
        return -1
    FC_CHECK(bucket.size < bucket.capacity)
    bucket.size += 1
    return bucket.size - 1
