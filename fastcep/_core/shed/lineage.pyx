# cython: language_level=3
"""Record of the lineage of partial matches, from which their contribution and consumption are derived afterwards.

Every child that an event makes gets a *record*, numbered from 0: its parent's record, the event, the edge, and its
class. A child may be stored as a partial match, reported as a match, both or neither. A row stores the number of its
record beside its class. Also recorded are

* the *places* of the rows: the buckets that hold them. The name of a bucket is a hash of index and key, so it stays the
  same when the bucket is removed and created again;
* the *probes*: each probe of a bucket, with the event and the number of live rows in the bucket;
* the *values* of the features by which children are classified, and those of each event that was tried for a variable.

These lists contain the complete history. Children come after their parents, so sums over descendants (the contribution
and the consumption of a partial match; hybrid, section III-B) take one pass from the end. A probe of a bucket visits
every row that was stored there before the event and whose window has not ended.

Invariant: the live rows of all probes sum to the rows visited; the places in the first index of each record are the
rows created; the matches are those reported, in their order (without policies).
"""
from libc.stdint cimport int32_t, int64_t, uint64_t

from fastcep._core.memory.allocator cimport unlimited
from fastcep._core.memory.row_store cimport Bucket, key_of
from fastcep._core.memory.vectors cimport Vec, push, reserve, vec_free
from fastcep._core.program.plan_tables cimport Column, Edge
from fastcep._core.program.predicate cimport CHUNK
from fastcep._core.state.core cimport Core
from fastcep._core.state.lineage_tables cimport CLASS_BITS, EDGE_BITS, LISTS, RECORD_AT, LineageTables


cdef void observe_init(LineageTables* observed) noexcept nogil:
    """Start to record."""
    cdef Vec* lists[LISTS]
    cdef int i
    unlimited(&observed.budget)
    _lists(observed, lists)
    for i in range(LISTS):
        lists[i].budget = &observed.budget
    observed.on = True


cdef void observe_free(LineageTables* observed) noexcept nogil:
    """Free the record."""
    cdef Vec* lists[LISTS]
    cdef int i
    if observed.parents.budget == NULL:  # never started
        return
    _lists(observed, lists)
    for i in range(LISTS):
        vec_free(lists[i])
    observed.on = False


cdef inline void _lists(LineageTables* observed, Vec** lists) noexcept nogil:
    """Write the addresses of all lists of the record to ``lists``."""
    lists[0], lists[1], lists[2], lists[3] = &observed.parents, &observed.events, &observed.edges, &observed.classes
    lists[4], lists[5] = &observed.placed, &observed.places
    lists[6], lists[7], lists[8], lists[9] = &observed.probes, &observed.probed, &observed.probe_edges, &observed.visited
    lists[10], lists[11] = &observed.matches, &observed.values
    lists[12], lists[13], lists[14] = &observed.tried, &observed.variables, &observed.event_values


cdef void note_children(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                        int64_t event_class) noexcept nogil:
    """Record the child of each of the rows (as for ``screen``), and write the record's number to its class word."""
    cdef LineageTables* observed = &core.observed
    cdef int64_t* words = core.shed.classes
    cdef const int64_t* from_ = NULL
    cdef int64_t parent = -1
    cdef int i, fixed = 0
    if bucket != NULL:
        fixed = core.states[edge.source].fixed
        from_ = bucket.data + <int64_t>first * fixed + core.states[edge.source].class_word
    for i in range(n):
        if bucket != NULL:
            parent = from_[rows[i] * fixed] >> RECORD_AT
        if (push(&observed.classes, words[i] | event_class << CLASS_BITS) < 0 or push(&observed.edges, edge - core.edges) < 0
                or push(&observed.events, core.event_position) < 0 or push(&observed.parents, parent) < 0):
            core.failed = True
            return
        words[i] |= (observed.parents.size - 1) << RECORD_AT


cdef void note_values(Core* core, const Edge* edge, int n) noexcept nogil:
    """Record the features of children, which have just been computed to classify them."""
    cdef Vec* values = &core.observed.values
    cdef int64_t nulls
    cdef int i, f, features = core.shed.classifiers[edge.target].n_features if edge.has_features else 0
    if features == 0:
        return
    if reserve(values, values.size + n * (features + 1)) < 0:
        core.failed = True
        return
    for i in range(n):
        nulls = 0
        for f in range(features):
            nulls |= <int64_t>core.shed.nulls[f * CHUNK + i] << f
            values.data[values.size + 1 + f] = core.shed.values[f * CHUNK + i]
        values.data[values.size] = nulls
        values.size += features + 1


cdef void note_tried(Core* core, int variable, int k, int64_t position) noexcept nogil:
    """Record that event ``k`` of the chunk is tried for a variable, and the features of the event."""
    cdef LineageTables* observed = &core.observed
    cdef Vec* values = &observed.event_values
    cdef const Column* column
    cdef int64_t nulls = 0
    cdef int f, features = core.shed.by_variable[variable].n_features
    if (push(&observed.tried, position) < 0 or push(&observed.variables, variable) < 0
            or (features > 0 and reserve(values, values.size + features + 1) < 0)):
        core.failed = True
        return
    if features == 0:
        return
    for f in range(features):
        column = core.columns + core.shed.features_of[variable][f]
        nulls |= <int64_t>(column.null != NULL and column.null[k]) << f
        values.data[values.size + 1 + f] = column.data[k]
    values.data[values.size] = nulls
    values.size += features + 1


cdef void note_place(Core* core, int64_t word, int index, const int64_t* key, int words) noexcept nogil:
    """Record that the child with this class word is stored in the bucket of a key."""
    cdef int64_t name = bucket_name(core, index)
    cdef int w
    for w in range(words):
        name = extend_name(name, key[w])
    if push(&core.observed.placed, word >> RECORD_AT) < 0 or push(&core.observed.places, name) < 0:
        core.failed = True


cdef void note_places(Core* core, int index, int words, int n) noexcept nogil:
    """Record the buckets of ``n`` children with the keys in ``core.words``; a child with a null in its key has none."""
    cdef int64_t name
    cdef int64_t j
    cdef int w
    for j in range(n):
        name = bucket_name(core, index)
        for w in range(words):
            if core.words[w].null != NULL and core.words[w].null[j * core.words[w].null_step]:
                break
            name = extend_name(name, core.words[w].data[j * core.words[w].step])
        else:
            if (push(&core.observed.placed, core.shed.classes[j] >> RECORD_AT) < 0
                    or push(&core.observed.places, name) < 0):
                core.failed = True


cdef void note_probe(Core* core, const Edge* edge, Bucket* bucket, int visited, int64_t event_class) noexcept nogil:
    """Record that the event has probed a bucket along an edge and visited this number of live rows."""
    cdef const int64_t* key = key_of(bucket)
    cdef int64_t name = bucket_name(core, edge.index)
    cdef int w
    for w in range(core.indexes[edge.index].words):
        name = extend_name(name, key[w])
    if (push(&core.observed.probes, name) < 0 or push(&core.observed.probed, core.event_position) < 0
            or push(&core.observed.probe_edges, (edge - core.edges) | event_class << EDGE_BITS) < 0
            or push(&core.observed.visited, visited) < 0):
        core.failed = True


cdef void note_matches(Core* core, const int64_t* words, int64_t n) noexcept nogil:
    """Record that the children with these class words are matches."""
    cdef int64_t j
    for j in range(n):
        if push(&core.observed.matches, words[j] >> RECORD_AT) < 0:
            core.failed = True
