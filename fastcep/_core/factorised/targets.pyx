# cython: language_level=3
"""Describe for each variable of a chunk where its events are stored and which buckets they look up."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.string cimport memset

from fastcep._core.memory.row_store cimport Index
from fastcep._core.program.plan_tables cimport Column, Kept, Step
from fastcep._core.state.core cimport Core


cdef uint64_t set_targets(Core* core, Target* targets, uint64_t* multiple, const KeyedBucket* ignored,
                          const KeyedBucket* always) noexcept nogil:
    """Describe where the events of each variable are stored; returns the variables for which that is possible (bit set).

    Only the first store of each, and its first register, are described. Variables with more are written to ``multiple``.

    The row of an event of the last variable is written to the bucket ``ignored``. An event that nothing needs to precede
    is preceded by the row of the bucket ``always``.
    """
    cdef const uint8_t* zeros = core.zeros
    cdef const Kept* kept
    cdef const Step* step
    cdef Target* target
    cdef uint64_t fast = 0
    cdef int variable, store, last = core.n_variables - 1
    cdef bint fits
    core.is_moved, multiple[0] = False, 0
    for variable in range(core.n_variables):
        target = targets + variable
        memset(target, 0, sizeof(Target))
        target.value, target.null = <const int64_t*>zeros, zeros
        target.other.key, target.other.slots, target.other.shift = <const int64_t*>zeros, <const int32_t*>zeros, 63
        target.other.buckets, target.other.second = <const char*>always, <const int64_t*>zeros
        target.own = target.other
        if variable == last:
            step = core.back[last - 1]
            fits = _set_lookup(&target.own, core.indexes + step.kept, step.columns, step.n_columns, ignored, zeros)
            if step.joins and core.back[last - 2].is_of_event:
                step = core.back[last - 2]
                fits &= _set_lookup(&target.other, core.indexes + step.kept, step.columns, step.n_columns, ignored, zeros)
        else:
            store = core.first_kept[variable]
            kept = core.kept + store
            if core.first_kept[variable + 1] - store > 1 or kept.n_registers > 1:
                multiple[0] |= <uint64_t>1 << variable
            target.is_stored = -1
            fits = _set_lookup(&target.own, core.indexes + store, kept.keys, kept.n_keys, ignored, zeros)
            if kept.n_registers > 0:
                target.value, target.value_at, target.null_at = kept.registers[0].data, 2, 1
                target.null = zeros if kept.registers[0].null == NULL else kept.registers[0].null
                if kept.compares and kept.registers[0].null != NULL:
                    continue
            if kept.predecessor >= 0:
                fits &= _set_lookup(&target.other, core.indexes + kept.predecessor_kept, kept.predecessor_keys,
                                    kept.n_predecessor_keys, ignored, zeros)
                target.counts, target.predecessor_at = -<int64_t>kept.counts, 1 + kept.predecessor
        fast |= <uint64_t>fits << variable
    return fast


cdef inline bint _set_lookup(
        Lookup* lookup, const Index* index, const Column** columns, int n, const KeyedBucket* ignored,
        const uint8_t* zeros) noexcept nogil:
    """Describe the look-up by ``n`` columns in an index; returns False if it needs more than one or two without nulls."""
    lookup.slots, lookup.has_key, lookup.words = index.slots, -1, n
    if n == 0:
        lookup.has_key = 0
        if index.n_buckets > 0:
            lookup.slots = <const int32_t*>zeros
    elif n == 1 and columns[0].null == NULL:
        lookup.key = lookup.second = columns[0].data
        lookup.has_second = 0
    elif n == 2 and columns[0].null == NULL and columns[1].null == NULL:
        lookup.key, lookup.second, lookup.has_second = columns[0].data, columns[1].data, -1
    else:
        return False
    lookup.shift = index.slot_shift
    lookup.buckets, lookup.bucket_bytes = index.buckets, index.bucket_bytes
    if index.n_buckets == 0:
        lookup.buckets, lookup.bucket_bytes = <const char*>ignored, 0
    return True
