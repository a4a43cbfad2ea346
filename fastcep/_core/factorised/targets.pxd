# Where the events of each variable are stored, in a form that needs no branch on the variable. See targets.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from fastcep._core.memory.row_store cimport HASH, Bucket
from fastcep._core.state.core cimport Core


cdef struct KeyedBucket:
    Bucket bucket
    int64_t words[3]         # at most two words of its key, and after them its ``removed``, see row_store.pxd


cdef struct Lookup:          # a look-up of a bucket by at most two columns of the event
    const int64_t* key       # the first column,
    const int64_t* second    # and the second one,
    int64_t has_second       # -1; 0: the second column is the first one
    int64_t words            # of the key
    int64_t has_key          # -1; 0: there is one bucket, without a key
    const int32_t* slots
    const char* buckets
    int64_t bucket_bytes
    int shift


cdef struct Target:          # where the events of a variable are stored, in its first store
    Lookup own               # the bucket of the event; for the last variable that of the step back
    Lookup other             # the bucket of the events that precede it; for the last variable that of the join
    int64_t is_stored        # -1; 0: the row is written nowhere
    int64_t counts           # -1 or 0, see Kept
    const int64_t* value     # the first register
    const uint8_t* null
    int64_t value_at         # columns of a row, counted from 1; 0, the position, stands for a column that does not exist
    int64_t null_at
    int64_t predecessor_at


cdef uint64_t set_targets(Core* core, Target* targets, uint64_t* multiple, const KeyedBucket* ignored,
                          const KeyedBucket* always) noexcept nogil


cdef inline int32_t bucket_number(const Lookup* lookup, int k, bint pairs) noexcept nogil:
    """Return the number of the bucket in the first slot of the key of event ``k`` of the chunk; -1 if the slot is empty.

    ``pairs``: some keys have two words.
    """
    cdef uint64_t hashed = <uint64_t>lookup.key[k] * HASH, pair
    if pairs:  # see slot_of
        pair = ((hashed << 32 | hashed >> 32) ^ <uint64_t>lookup.second[k]) * HASH
        hashed ^= (hashed ^ pair) & <uint64_t>lookup.has_second
    return lookup.slots[hashed >> lookup.shift]


cdef inline const KeyedBucket* bucket_of(const Lookup* lookup, int32_t number) noexcept nogil:
    """Return the bucket with this number; for -1 the first one."""
    return <const KeyedBucket*>(lookup.buckets + (number & ~(number >> 31)) * lookup.bucket_bytes)


cdef inline int64_t differs(const Lookup* lookup, const KeyedBucket* bucket, int k, bint pairs) noexcept nogil:
    """Return 0 if the bucket has the key of event ``k`` of the chunk."""
    cdef int64_t difference = bucket.words[0] ^ lookup.key[k]
    if pairs:
        difference |= bucket.words[-lookup.has_second] ^ lookup.second[k]
    return difference & lookup.has_key
