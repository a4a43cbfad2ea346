# cython: language_level=3
"""Load shedding inside the matcher.

What is dropped is said by tables that the engine's overload control writes between two batches of events; here they are
only looked up. There are six places, from the cheapest relief to the dearest:

* an *event* is dropped, by a chance per type, before any condition on it is evaluated (``masks``);
* an event is not tried for a *variable*, by a chance per variable and class of the event, behind the conditions on the
  event alone (``masks``); where it is tried for none, it is dropped;
* an event is kept out of one isolated *window*, by a chance per type and place in the window (``parts``);
* the *birth* of a partial match is refused, by a chance per state, class and slice of the window's time, before it is
  stored (``extend``);
* a partial match falls with *age*, when it is looked at, if in the slice of its window's time its birth would be refused
  (``extend``);
* partial matches are *dropped* while they live, by a chance per cell (state, class, slice of the window's time), in a walk
  through all rows (`walk_cells`), and their memory given back; a row in several indexes is dropped from all of them,
  and counted in the first.

A *class* is looked up in a table, or found by a decision tree, by the values that the plan lets every edge compute at a
birth (`EdgePlan.features`); a row carries its own. Chances are drawn by hashing: events by their position, so that all
queries drop the same ones whatever the batches are; births by their first event and their last; rows by a salt beside that,
without which a chance drops those whose birth it would have refused. So a run is repeatable for a seed.

Invariant: a dropped row is as one whose window has ended, so that no match appears which would not have been there
(where a query is monotonic); what is left stays in birth order.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.math cimport floor

from fastcep._core.memory.open_windows cimport Opened, window_at
from fastcep._core.memory.row_store cimport Bucket, Index, bucket_at, compact
from fastcep._core.program.plan_tables cimport HOME, Column, Edge, State
from fastcep._core.program.predicate cimport CHUNK, run
from fastcep._core.shed.age_slices cimport first_of, slice_at
from fastcep._core.shed.flows cimport stands_for, weigh_children
from fastcep._core.shed.lineage cimport note_children, note_tried, note_values
from fastcep._core.state.core cimport Core, position_of, row_inputs
from fastcep._core.state.draws cimport class_of, falls, mixed, steps_of
from fastcep._core.state.isolated_windows cimport enter, leave
from fastcep._core.state.shedding_tables cimport (
    DRAWN_AT, DRAWN_BITS, MOST_FEATURES, MOST_SLICES, OWN_AT, STANDS, Classifier, Node, Shed,
)

# ---------------------------------------------------------------------- events

cdef int admitted(Core* core, uint64_t* bits, int32_t* relevant, int n, const uint16_t* types, int64_t position) noexcept nogil:
    """Leave only the events that are not dropped among the relevant ones; no member may bind the others."""
    cdef Shed* shed = &core.shed
    cdef int i, k, kept = 0
    cdef int64_t chance
    cdef bint drops
    for i in range(n):
        k = relevant[i]
        chance = shed.by_type[types[k]]
        drops = chance > 0 and falls(shed.seed, <uint64_t>(position + k), chance)
        shed.dropped_events[types[k]] += drops
        relevant[kept] = k
        kept += not drops
        bits[k] &= <uint64_t>drops - 1
    return kept


cdef int tried(Core* core, uint64_t* bits, int32_t* relevant, int n, const uint16_t* types, int64_t position) noexcept nogil:
    """Leave only the variables that an event is to be tried for, and events that have some left among the relevant ones.

    All variables that want to drop an event with the same chance drop the same ones.
    """
    cdef Shed* shed = &core.shed
    cdef int64_t chance, own
    cdef uint64_t mask
    cdef int i, k, m, kept = 0
    for i in range(n):
        k = relevant[i]
        mask = bits[k]
        for m in range(shed.members):
            if not mask >> m & 1:
                continue
            own = class_of_event(core, m, k)
            if core.observed.on:
                note_tried(core, m, k, position + k)
            if shed.flows.on:
                shed.flows.asked[m * shed.member_stride + own] += 1
            chance = shed.withhold[m * shed.member_stride + own]
            if chance > 0 and falls(shed.seed, <uint64_t>(position + k), chance):
                mask &= ~(<uint64_t>1 << m)
                shed.withheld[m * shed.member_stride + own] += 1
        bits[k] = mask
        shed.dropped_events[types[k]] += mask == 0
        relevant[kept] = k
        kept += mask != 0
    return kept


cdef int64_t class_of_event(const Core* core, int member, int k) noexcept nogil:
    """The class of an event that may be bound to a variable."""
    cdef const Classifier* by = core.shed.by_member + member
    cdef const Column* column
    cdef int64_t words[MOST_FEATURES]
    cdef int f
    for f in range(by.n_features):
        column = core.columns + core.shed.features_of[member][f]
        if column.null != NULL and column.null[k]:
            return by.other
        words[f] = column.data[k]
    return _class_by(by, words, 1) if by.n_features > 0 else 0


cdef inline int64_t _class_by(const Classifier* by, const int64_t* words, int step) noexcept nogil:
    """The class of what has these features, ``step`` words apart."""
    cdef const Node* node = by.tree
    cdef int64_t at = 0, value
    cdef double number
    cdef int f
    if node != NULL:
        for f in range(by.n_features):  # also of those that are not asked for on the way
            value = words[f * step]
            if by.floats >> f & 1 and (<double*>&value)[0] != (<double*>&value)[0]:
                return by.other
        while node.feature >= 0:
            value = words[node.feature * step]
            number = (<double*>&value)[0] if by.floats >> node.feature & 1 else <double>value
            node = by.tree + (node.left if number <= node.threshold else node.right)
        return node.own
    for f in range(by.n_features):
        value = place_in(by, f, words[f * step])
        if value < 0:
            return by.other
        at = at * by.size[f] + value
    return by.table[at]


# ---------------------------------------------------------------------- births

cdef int screen(Core* core, const Edge* edge, const Bucket* bucket, int first, int32_t* rows, int n, int k) noexcept nogil:
    """Find the class words of the children of ``n`` rows of a bucket (as for ``stage_rows``) and refuse some of them.

    Leaves the rows whose child is not refused, in order, with their words in ``shed.classes``; returns how many these
    are. Where the event is used up, or reported, even if no child is stored, all rows stay and the word of a refused
    child is -1.
    """
    cdef Shed* shed = &core.shed
    _classify(core, edge, bucket, first, rows, n, k)
    if core.observed.on:  # nothing is refused then
        note_values(core, edge, n)
        note_children(core, edge, bucket, first, rows, n, class_of_event(core, edge.member, k))
        return n
    if shed.flows.here:
        weigh_children(core, edge, bucket, first, rows, n, class_of_event(core, edge.member, k))
    if shed.births and edge.born:
        n = refuse(core, edge, bucket, first, rows, n)
    if shed.flows.on and not shed.flows.here:
        weigh_children(core, edge, bucket, first, rows, n, class_of_event(core, edge.member, k))
    return n


cdef int refuse(Core* core, const Edge* edge, const Bucket* bucket, int first, int32_t* rows, int n) noexcept nogil:
    """Refuse some of the children that are to be stored, as `screen` says."""
    cdef Shed* shed = &core.shed
    cdef const int64_t* chances = shed.refuse + edge.target * shed.stride * shed.slices
    cdef int64_t* refused = shed.refused + edge.target * shed.stride
    cdef int i, slice, kept = 0
    cdef int64_t own, word, start, chance
    cdef bint marks = core.states[edge.target].accepting or core.must_advance
    if shed.classifiers[edge.target].n_features == 0 and not marks and shed.slices == 1 and (
            chances[0] == 0 or chances[0] >> 32):
        if chances[0] == 0:
            return n
        shed.n_refused += n
        refused[0] += n
        return 0
    for i in range(n):
        word = shed.classes[i]
        own = class_of(word)
        start = -1 if bucket == NULL else bucket.data[
            (<int64_t>first + (i if rows == NULL else rows[i])) * core.states[edge.source].fixed]
        slice = slice_at(core, start) if shed.slices > 1 and start >= 0 else 0
        chance = chances[own * shed.slices + slice]
        if chance > 0 and (chance >> 32 or _falls_birth(core, start, chance)):
            shed.n_refused += 1
            refused[own] += 1
            word = -1
        elif chance > 0 and shed.flows.on:
            stands(&word, shed.refuse_stands[chances - shed.refuse + own * shed.slices + slice])
        shed.classes[kept] = word
        if rows != NULL:
            rows[kept] = rows[i]
        kept += word >= 0 or marks
    return kept


cdef inline bint _falls_birth(const Core* core, int64_t start, int64_t chance) noexcept nogil:
    """Whether a child is refused: drawn by the first event that it binds, and the last one."""
    cdef int64_t first = core.event_position if start < 0 else core.starts.position[start & core.starts.mask]
    return _drawn(core, first, core.event_position, 0) < steps_of(chance)


cdef inline int64_t _drawn(const Core* core, int64_t first, int64_t last, uint64_t salt) noexcept nogil:
    return <int64_t>(mixed(mixed(~core.shed.seed ^ salt ^ <uint64_t>first) ^ <uint64_t>last) >> (64 - DRAWN_BITS))


cdef inline int64_t place_in(const Classifier* by, int feature, int64_t word) noexcept nogil:
    """Which of the values that a table knows a word is; -1: none."""
    cdef double number
    if by.floats >> feature & 1:
        number = floor((<double*>&word)[0])
        if not -9e18 < number < 9e18:
            return -1
        word = <int64_t>number
    word -= by.low[feature]
    return word if <uint64_t>word < <uint64_t>by.size[feature] else -1


cdef void _classify(Core* core, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                    int k) noexcept nogil:
    cdef Shed* shed = &core.shed
    cdef const Classifier* by = shed.classifiers + edge.target
    cdef int64_t* outputs[MOST_FEATURES]
    cdef uint8_t* output_nulls[MOST_FEATURES]
    cdef int i, f
    if by.n_features == 0 or not edge.has_features:
        for i in range(n):
            shed.classes[i] = 0
        return
    for f in range(by.n_features):
        outputs[f] = shed.values + f * CHUNK
        output_nulls[f] = shed.nulls + f * CHUNK
    row_inputs(core, &edge.features, edge.index if bucket != NULL else 0, bucket, first, k)
    run(core.vm, &edge.features, core.inputs, rows, n, NULL, outputs, output_nulls, 0)
    for i in range(n):
        for f in range(by.n_features):
            if output_nulls[f][i]:
                shed.classes[i] = by.other
                break
        else:
            shed.classes[i] = _class_by(by, shed.values + i, CHUNK)


# ---------------------------------------------------------------------- partial matches that live

cdef int age(Core* core, int state, Bucket* bucket, int first, int n) noexcept nogil:
    """Drop those of ``n`` rows of a bucket whose birth would be refused now; returns how many. They stay where they are."""
    cdef Shed* shed = &core.shed
    cdef State* own = core.states + state
    cdef const int64_t* chances = shed.refuse + state * shed.stride * shed.slices
    cdef int64_t* row = bucket.data + <int64_t>first * own.fixed
    cdef int64_t class_, at, live_from = core.starts.first
    cdef int i, fell = 0
    for i in range(n):
        if row[0] >= live_from:
            class_ = class_of(row[own.classed]) if own.classed >= 0 else 0
            at = (class_ if class_ < shed.stride else 0) * shed.slices + slice_at(core, row[0])
            if chances[at] > 0 and _falls_row(core, own, row, 0, chances[at]):
                _fall(core, state, row)
                fell += 1
            elif shed.flows.on and own.classed >= 0:
                stands(row + own.classed, shed.refuse_stands[chances - shed.refuse + at])
        row += own.fixed
    shed.n_fell += fell
    return fell


cdef inline void stands(int64_t* word, int64_t own) noexcept nogil:
    """Note in a row's class word for how many it stands, if these are more than before."""
    if own > (word[0] >> OWN_AT & STANDS):
        word[0] = (word[0] & ~(<int64_t>STANDS << OWN_AT)) | min(own, <int64_t>STANDS) << OWN_AT


cdef inline void _fall(Core* core, int state, int64_t* row) noexcept nogil:
    """Take a live row for dead; one in several indexes counts in the first."""
    cdef State* own = core.states + state
    cdef int64_t word = row[own.classed] if own.classed >= 0 else 0
    cdef bint counts = own.n_indexes == 1 or word & HOME
    cdef int64_t class_ = class_of(word)
    core.starts.rows[row[0] & core.starts.mask] -= counts
    core.starts.live -= counts
    core.shed.dropped[state * core.shed.stride + (class_ if class_ < core.shed.stride else 0)] += counts
    row[0] = -1


cdef int64_t walk_cells(Core* core, int slices, const int64_t* chances, int64_t* counts, uint64_t salt) noexcept nogil:
    """Count the live rows of each cell, [state][class][slice], and drop some of them; returns how many were looked at.

    ``chances`` are those of a drop, by cell, or NULL. ``counts`` are of the rows as they were before, and may be NULL.
    """
    cdef int64_t number, seen
    cdef Opened* window
    if not core.is_isolated:
        return _walk(core, slices, chances, counts, salt, -1)
    seen = 0
    for number in range(core.windows.first, core.windows.next):
        window = window_at(&core.windows, number)
        if window.part != NULL and window.part.starts.live > 0 and enter(core, window):
            seen += _walk(core, slices, chances, counts, salt, number)
            leave(core, window)
    return seen


cdef int64_t _walk(Core* core, int slices, const int64_t* chances, int64_t* counts, uint64_t salt, int64_t window) noexcept nogil:
    """``walk_cells`` over the rows that are entered, of an isolated ``window`` or -1."""
    cdef Shed* shed = &core.shed
    cdef int64_t bounds[MOST_SLICES]
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t* row
    cdef int64_t b, r, cell, own, seen = 0, live_from = core.starts.first
    cdef int i, s, number, classed
    cdef bint some, counts_here, alone
    for s in range(slices):
        bounds[s] = first_of(core, s, slices, window, core.last)
    for i in range(core.n_indexes):
        index = core.indexes + i
        number = core.infos[i].state
        classed = core.states[number].classed
        alone = core.states[number].n_indexes == 1
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            some = False
            row = bucket.data + <int64_t>bucket.head * index.fixed
            for r in range(bucket.head, bucket.size):
                if row[0] >= live_from:
                    own = row[classed] if classed >= 0 else 0
                    counts_here = alone or own & HOME
                    own = class_of(own)
                    own = own if own < shed.stride else 0  # a snapshot may say anything
                    s = 0
                    while s < slices - 1 and row[0] < bounds[s]:
                        s += 1
                    cell = (number * shed.stride + own) * slices + s
                    if counts != NULL and counts_here:
                        counts[cell] += 1
                    seen += 1
                    if chances != NULL and chances[cell] > 0:
                        if _falls_row(core, core.states + number, row, salt, chances[cell]):
                            _fall(core, number, row)
                            some = True
                        elif shed.flows.on and classed >= 0 and salt == 0:
                            stands(row + classed, stands_for(steps_of(chances[cell]) << 32 - DRAWN_BITS))
                row += index.fixed
            if some:
                compact(index, bucket, core.starts.kept)
    return seen


cdef inline bint _falls_row(const Core* core, const State* state, int64_t* row, uint64_t salt, int64_t chance) noexcept nogil:
    """Whether a row falls: drawn by the first event that it binds, and the last one, as its birth was.

    What was drawn without a salt is kept in the row's class word.
    """
    cdef int64_t drawn = 0
    if salt == 0 and state.classed >= 0:
        drawn = row[state.classed] >> DRAWN_AT
        if drawn == 0:
            drawn = _drawn_of(core, state, row, 0) + 1
            row[state.classed] |= drawn << DRAWN_AT
        return drawn - 1 < steps_of(chance)
    return _drawn_of(core, state, row, salt) < steps_of(chance)


cdef int64_t _drawn_of(const Core* core, const State* state, const int64_t* row, uint64_t salt) noexcept nogil:
    """What is drawn for a row; in an engine that was restored it is the same."""
    cdef int64_t first = core.starts.position[row[0] & core.starts.mask], last = first, word
    cdef int c, slot
    for c in range(state.n_bind):
        word = row[state.bind + c]
        slot = state.slots[c]
        if word >= 0:
            if slot >= core.n_members or core.leaves[slot].repeated:
                word = position_of(core.starts.event[word])
            last = max(last, word)
    return _drawn(core, first, last, salt)
