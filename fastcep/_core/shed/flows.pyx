# cython: language_level=3
"""Counts of the children of partial matches and events, by class, from which a model of the stream is updated.

The children of a sample of the events are counted, including those whose birth is refused. The counts are in a hash
table of fixed size. A key has the state, class and age slice of the parent, the variable and class of the event, and
the state and class of the child.

While load is shed, the counts are Horvitz-Thompson estimates: a row, or an event whose children are counted, has as
weight the inverse of the probability with which it was kept. The class word of a row holds two weights above the class,
as 256 times the binary logarithm: the weight that the row inherits from its parents, and the inverse of the smallest
probability that it ever had to be kept. The draw for a partial match depends on what it binds and never changes. So the
second weight is exact, whatever probabilities were in force since the birth.

What an event does beyond its work limit, if it runs on, has another weight (`Cut.weight`).

The squares of the weights are summed too; they give the sampling variance of a count.

The weights of matches are summed in the same way, of all events: the number of matches found, divided by the sum of
their weights, is an estimate of the recall. A match counts in each window in which it is reported. Matches that a
trailing negation or a policy discards later are included, so only this quotient is used.

Invariant: if nothing is dropped and every event is counted, the counts are numbers of children; otherwise their
expected values are. The sample of events depends only on their positions and the seed.
"""
from libc.math cimport log2, rint
from libc.stdint cimport int32_t, int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from fastcep._core.memory.open_windows cimport ON_EVENT, window_at
from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.program.plan_tables cimport Edge
from fastcep._core.shed.age_slices cimport slice_at
from fastcep._core.state.core cimport Core
from fastcep._core.state.draws cimport class_of, falls, mixed
from fastcep._core.state.shedding_tables cimport PARENT_WEIGHT_AT, ROW_WEIGHT_AT, MOST_WEIGHT, Flow, Flows, Shed


cdef int flows_init(Flows* flows, int64_t capacity, int64_t cells) noexcept nogil:
    """Start counting the children of every event; returns -1 if memory ran out.

    ``capacity``: entries of the hash table, a power of two. ``cells``: number of variables times classes of events.
    """
    flows_free(flows)
    flows.table = <Flow*>calloc(capacity, sizeof(Flow))
    flows.tried = <double*>calloc(cells + 1, sizeof(double))
    if flows.table == NULL or flows.tried == NULL:
        flows_free(flows)
        return -1
    flows.capacity = capacity
    flows.chance, flows.weight = <int64_t>1 << 32, 1.0
    flows.on = True
    return 0


cdef void flows_free(Flows* flows) noexcept nogil:
    """Stop counting and free the memory."""
    free(flows.table)
    free(flows.tried)
    memset(flows, 0, sizeof(Flows))


cdef void flows_clear(Flows* flows, int64_t cells) noexcept nogil:
    """Set all counts to 0."""
    memset(flows.table, 0, flows.capacity * sizeof(Flow))
    memset(flows.tried, 0, cells * sizeof(double))
    flows.used, flows.lost = 0, 0.0


cdef void flows_add(Flows* flows, uint64_t key, double count, double square) noexcept nogil:
    """Add to the count and the sum of squares of a key, which is not 0.

    When 3/4 of the table is used, new keys add to ``lost`` instead.
    """
    cdef int64_t slot = <int64_t>(mixed(key) & <uint64_t>(flows.capacity - 1))
    cdef Flow* entry = flows.table + slot
    while entry.key != 0 and entry.key != key:
        slot = (slot + 1) & (flows.capacity - 1)
        entry = flows.table + slot
    if entry.key == 0:
        if 4 * flows.used >= 3 * flows.capacity:
            flows.lost += count
            return
        entry.key = key
        flows.used += 1
    entry.count += count
    entry.square += square


cdef void flows_event(Shed* shed, int64_t position) noexcept nogil:
    """Draw whether the children of the event at this position are counted."""
    shed.flows.sampled = falls(~shed.seed, <uint64_t>position, shed.flows.chance)


cdef void weigh_children(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                         int64_t event_class) noexcept nogil:
    """Write the inherited weights to the class words of the children of rows (as for ``screen``).

    Sum the weights of matches, and count the children if the event is in the sample.
    """
    cdef Shed* shed = &core.shed
    cdef int64_t* words = shed.classes
    cdef const int64_t* row
    cdef uint64_t key, event_key
    cdef int64_t event_weight = (shed.withhold_weights[edge.variable * shed.variable_stride + event_class]
                                 + shed.type_weights[core.event_type])
    cdef int64_t weight, parent, class_
    cdef double count
    cdef int i, age_slice = 0, fixed = 0, class_word = -1
    cdef bint matches = shed.weighs and edge.only_accepts and bucket != NULL  # that of an event alone is staged
    if shed.in_windows != NULL:
        event_weight += shed.window_weight
    if shed.cut.most > 0:
        event_weight += shed.cut.weight
    event_key = (<uint64_t>1 << SET_AT | <uint64_t>event_class << EVENT_CLASS_AT | <uint64_t>edge.variable << VARIABLE_AT
                 | <uint64_t>edge.target << CHILD_AT)
    if bucket != NULL:
        fixed, class_word = core.states[edge.source].fixed, core.states[edge.source].class_word
    for i in range(n):
        if words[i] < 0:  # refused
            continue
        key = event_key | <uint64_t>class_of(words[i]) << CHILD_CLASS_AT
        weight = event_weight
        if bucket != NULL:
            row = bucket.data + (<int64_t>first + (i if rows == NULL else rows[i])) * fixed
            parent = row[class_word] if class_word >= 0 else 0
            class_ = class_of(parent)
            class_ = class_ if class_ < shed.stride else 0  # a snapshot may contain any class
            weight += (parent >> PARENT_WEIGHT_AT & MOST_WEIGHT) + (parent >> ROW_WEIGHT_AT & MOST_WEIGHT)
            if shed.flows.sampled:
                age_slice = slice_at(core, row[0]) if shed.slices > 1 else 0
            key |= (<uint64_t>age_slice << SLICE_AT | <uint64_t>class_ << PARENT_CLASS_AT
                    | <uint64_t>(edge.source + 1) << PARENT_AT)
        if matches:
            _weigh_match(core, row[0], weight)
        if shed.flows.sampled:
            count = shed.flows.weight * represented(weight)
            flows_add(&shed.flows, key, count, count * count)
        words[i] |= min(weight, <int64_t>MOST_WEIGHT) << PARENT_WEIGHT_AT


cdef void weigh_staged(Core* core, int64_t start, int64_t word) noexcept nogil:
    """Add a match to the sums of weights, given the start and the class word of its staged row."""
    _weigh_match(core, start, word >> PARENT_WEIGHT_AT & MOST_WEIGHT)


cdef inline void _weigh_match(Core* core, int64_t start, int64_t weight) noexcept nogil:
    cdef double count = represented(weight + core.shed.whole_weight), windows = 1.0
    if core.is_shared and core.windows.next - core.windows.first > 1:
        windows = <double>_open_windows(core, start)
    core.shed.found.count += windows
    core.shed.found.weight += windows * count
    core.shed.found.square += windows * count * (windows * (count - 1) + 1)  # less the weight: the variance


cdef int64_t _open_windows(const Core* core, int64_t start) noexcept nogil:
    """Return how many open windows contain the match of a start; it is reported in each."""
    cdef int64_t latest = core.starts.window[start & core.starts.mask], number, open = 0
    if core.windows.closing != ON_EVENT:  # they close in the order in which they opened
        return latest - core.windows.first + 1
    for number in range(core.windows.first, latest + 1):
        open += not window_at(&core.windows, number).closed
    return open


cdef int64_t log_weight(int64_t chance) noexcept nogil:
    """Return the weight of what was kept although it could be dropped with probability ``chance`` / 2^32.

    The weight is 1 / (1 - probability), at most 2^32, as 256 times the binary logarithm.
    """
    return 0 if chance <= 0 else <int64_t>rint(256.0 * (32.0 - log2(max(1.0, 4294967296.0 - <double>chance))))
