# cython: language_level=3
"""How many children come of partial matches, and of events, by their classes: what a model of the stream is kept up with.

Counted is every child, those whose birth is refused too, in a hash table of fixed size under what it came of: state and
class of the partial match that was extended, the slice of its window, variable and class of the event, state and class of
the child. While load is shed, what is left stands for what is not there (Horvitz and Thompson): a row for as many as
the inverse of the chance with which it was kept. Of that a row carries the part that it has from its parents, as
256 times the binary logarithm, above its class in its class word; the rest is looked up in the tables of chances.

The squares of these weights are added up as well: they tell how far a count may be off by chance.

Invariant: where nothing is dropped, the counts are numbers of children; else that is what they are expected to be.
"""
from libc.math cimport exp2, log2
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from fastcep._core.core cimport Core
from fastcep._core.shed cimport class_of, mixed, slice_at
from fastcep._core.shedtables cimport WEIGHT_AT, WEIGHT_BITS, Flows, Shed
from fastcep._core.store cimport Bucket
from fastcep._core.tables cimport Edge


cdef int flows_init(Flows* flows, int64_t capacity, int64_t cells) noexcept nogil:
    """Begin to count, with room for so many keys (a power of two), and variables times classes of events; -1 without memory."""
    flows_free(flows)
    flows.keys = <uint64_t*>calloc(capacity, sizeof(uint64_t))
    flows.counts = <double*>calloc(capacity, sizeof(double))
    flows.squares = <double*>calloc(capacity, sizeof(double))
    flows.asked = <double*>calloc(cells + 1, sizeof(double))
    if flows.keys == NULL or flows.counts == NULL or flows.squares == NULL or flows.asked == NULL:
        flows_free(flows)
        return -1
    flows.capacity = capacity
    flows.on = True
    return 0


cdef void flows_free(Flows* flows) noexcept nogil:
    """Count no more."""
    free(flows.keys)
    free(flows.counts)
    free(flows.squares)
    free(flows.asked)
    memset(flows, 0, sizeof(Flows))


cdef void flows_clear(Flows* flows, int64_t cells) noexcept nogil:
    """Forget the counts."""
    memset(flows.keys, 0, flows.capacity * sizeof(uint64_t))
    memset(flows.asked, 0, cells * sizeof(double))
    flows.used, flows.lost = 0, 0.0


cdef void flows_add(Flows* flows, uint64_t key, double count, double square) noexcept nogil:
    """Add to the count of a key, which is not 0, and to its square; a quarter of the table stays free."""
    cdef int64_t at = <int64_t>(mixed(key) & <uint64_t>(flows.capacity - 1))
    while flows.keys[at] != 0 and flows.keys[at] != key:
        at = (at + 1) & (flows.capacity - 1)
    if flows.keys[at] == 0:
        if 4 * flows.used >= 3 * flows.capacity:
            flows.lost += count
            return
        flows.keys[at] = key
        flows.counts[at] = flows.squares[at] = 0.0
        flows.used += 1
    flows.counts[at] += count
    flows.squares[at] += square


cdef void count_children(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                         int64_t own) noexcept nogil:
    """Count the children of rows (as for ``screen``), and put beside their classes for how many each parent stands.

    ``own`` is the class of the event.
    """
    cdef Shed* shed = &core.shed
    cdef int64_t* words = shed.classes
    cdef const int64_t* chances = NULL
    cdef const int64_t* row
    cdef uint64_t key, of_event
    cdef double event = _logarithm(shed.withhold[edge.member * shed.member_stride + own]), weight, stands
    cdef int64_t parent, start
    cdef int i, s = 0, fixed = 0, classed = -1
    of_event = (<uint64_t>1 << SET_AT | <uint64_t>own << EVENT_CLASS_AT | <uint64_t>edge.member << MEMBER_AT
                | <uint64_t>edge.target << CHILD_AT)
    if bucket != NULL:
        fixed, classed = core.states[edge.source].fixed, core.states[edge.source].classed
        chances = shed.refuse + edge.source * shed.stride * shed.slices
    for i in range(n):
        key = of_event | <uint64_t>class_of(words[i]) << CHILD_CLASS_AT
        weight = event
        if bucket != NULL:
            row = bucket.data + (<int64_t>first + (i if rows == NULL else rows[i])) * fixed
            parent = row[classed] if classed >= 0 else 0
            s = slice_at(core, row[0]) if shed.slices > 1 else 0
            weight += (parent >> WEIGHT_AT) / 256.0 + _logarithm(chances[class_of(parent) * shed.slices + s])
            key |= (<uint64_t>s << SLICE_AT | <uint64_t>class_of(parent) << PARENT_CLASS_AT
                    | <uint64_t>(edge.source + 1) << PARENT_AT)
        stands = exp2(weight) if weight > 0 else 1.0
        flows_add(&shed.flows, key, stands, stands * stands)
        words[i] |= min(<int64_t>(256.0 * weight + 0.5), (<int64_t>1 << WEIGHT_BITS) - 1) << WEIGHT_AT


cdef inline double _logarithm(int64_t chance) noexcept nogil:
    """For how many one stands that was not dropped with this chance, as a binary logarithm; at most for 2^32."""
    return 0.0 if chance <= 0 else 32.0 - log2(max(1.0, 4294967296.0 - <double>chance))
