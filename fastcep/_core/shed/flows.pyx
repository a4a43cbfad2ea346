# cython: language_level=3
"""How many children come of partial matches, and of events, by their classes: what a model of the stream is kept up with.

Counted are the children of a share of the events, those whose birth is refused too, in a hash table of fixed size under what
they came of: state and class of the partial match that was extended, the slice of its window, variable and class of the
event, state and class of the child. While load is shed, what is left stands for what is not there (Horvitz and Thompson): a
row for as many as the inverse of the chance with which it was kept, and the same for an event whose children are counted.
A row carries for how many it stands above its class in its class word, as 256 times binary logarithms: what it has from its
parents, and the inverse of the smallest chance that it ever had to stay. As draws are of what a partial match binds, and not
drawn anew, that is the chance with which it is still there, whatever was ordered since its birth.

The squares of these weights are added up as well: they tell how far a count may be off by chance.

Invariant: where nothing is dropped and every event is counted, the counts are numbers of children; else that is what they are
expected to be. Which events are counted depends on their places and the seed only.
"""
from libc.math cimport exp2, log2, rint
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.shed.age_slices cimport slice_at
from fastcep._core.state.core cimport Core
from fastcep._core.state.draws cimport class_of, falls, mixed
from fastcep._core.state.shedding_tables cimport FROM_AT, OWN_AT, STANDS, Flow, Flows, Shed


cdef int flows_init(Flows* flows, int64_t capacity, int64_t cells) noexcept nogil:
    """Begin to count, with room for so many keys (a power of two), and variables times classes of events; -1 without memory.

    Every event is counted.
    """
    flows_free(flows)
    flows.table = <Flow*>calloc(capacity, sizeof(Flow))
    flows.asked = <double*>calloc(cells + 1, sizeof(double))
    if flows.table == NULL or flows.asked == NULL:
        flows_free(flows)
        return -1
    flows.capacity = capacity
    flows.chance, flows.stands = <int64_t>1 << 32, 1.0
    flows.on = True
    return 0


cdef void flows_free(Flows* flows) noexcept nogil:
    """Count no more."""
    free(flows.table)
    free(flows.asked)
    memset(flows, 0, sizeof(Flows))


cdef void flows_clear(Flows* flows, int64_t cells) noexcept nogil:
    """Forget the counts."""
    memset(flows.table, 0, flows.capacity * sizeof(Flow))
    memset(flows.asked, 0, cells * sizeof(double))
    flows.used, flows.lost = 0, 0.0


cdef void flows_add(Flows* flows, uint64_t key, double count, double square) noexcept nogil:
    """Add to the count of a key, which is not 0, and to its square; a quarter of the table stays free."""
    cdef int64_t at = <int64_t>(mixed(key) & <uint64_t>(flows.capacity - 1))
    cdef Flow* own = flows.table + at
    while own.key != 0 and own.key != key:
        at = (at + 1) & (flows.capacity - 1)
        own = flows.table + at
    if own.key == 0:
        if 4 * flows.used >= 3 * flows.capacity:
            flows.lost += count
            return
        own.key = key
        flows.used += 1
    own.count += count
    own.square += square


cdef void flows_event(Shed* shed, int64_t position) noexcept nogil:
    """Find out whether the children of the event at this position are counted."""
    shed.flows.here = falls(~shed.seed, <uint64_t>position, shed.flows.chance)


cdef void weigh_children(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                         int64_t own) noexcept nogil:
    """Put beside the classes of the children of rows (as for ``screen``) for how many each parent stands, and count them if
    this event's are counted.

    ``own`` is the class of the event.
    """
    cdef Shed* shed = &core.shed
    cdef int64_t* words = shed.classes
    cdef const int64_t* row
    cdef uint64_t key, of_event
    cdef int64_t event = shed.withhold_stands[edge.member * shed.member_stride + own], weight, parent, class_
    cdef double count
    cdef int i, s = 0, fixed = 0, classed = -1
    of_event = (<uint64_t>1 << SET_AT | <uint64_t>own << EVENT_CLASS_AT | <uint64_t>edge.member << MEMBER_AT
                | <uint64_t>edge.target << CHILD_AT)
    if bucket != NULL:
        fixed, classed = core.states[edge.source].fixed, core.states[edge.source].classed
    for i in range(n):
        if words[i] < 0:  # refused
            continue
        key = of_event | <uint64_t>class_of(words[i]) << CHILD_CLASS_AT
        weight = event
        if bucket != NULL:
            row = bucket.data + (<int64_t>first + (i if rows == NULL else rows[i])) * fixed
            parent = row[classed] if classed >= 0 else 0
            class_ = class_of(parent)
            class_ = class_ if class_ < shed.stride else 0  # a snapshot may say anything
            weight += (parent >> FROM_AT & STANDS) + (parent >> OWN_AT & STANDS)
            if shed.flows.here or classed < 0:
                s = slice_at(core, row[0]) if shed.slices > 1 else 0
            if classed < 0:  # where it cannot say for how many it stands
                weight += shed.refuse_stands[edge.source * shed.stride * shed.slices + s]
            key |= (<uint64_t>s << SLICE_AT | <uint64_t>class_ << PARENT_CLASS_AT
                    | <uint64_t>(edge.source + 1) << PARENT_AT)
        if shed.flows.here:
            count = shed.flows.stands * exp2(weight / 256.0) if weight > 0 else shed.flows.stands
            flows_add(&shed.flows, key, count, count * count)
        words[i] |= min(weight, <int64_t>STANDS) << FROM_AT


cdef int64_t stands_for(int64_t chance) noexcept nogil:
    """For how many one stands that was not dropped with this chance, as 256 times the binary logarithm; at most for 2^32."""
    return 0 if chance <= 0 else <int64_t>rint(256.0 * (32.0 - log2(max(1.0, 4294967296.0 - <double>chance))))
