# cython: language_level=3
"""Load shedding inside the matcher.

The overload control of the engine writes tables of drop probabilities between two batches of events. This module looks
them up, at six points, listed from the cheapest to the most expensive:

* *Events*: an event is dropped before any condition on it is evaluated (``masks``). One probability per type.
* *Variables*: an event is not bound to a variable, after the conditions on the event alone (``masks``). One probability
  per variable and class of the event. An event that is withheld from all its variables is dropped.
* *Windows*: an event is not matched in one isolated window (``window_events``). One probability per type and offset in
  the window.
* *Births*: a partial match is refused before it is stored (``extend``). One probability per state, class and age slice.
* *Age*: a partial match is dropped when it is visited, if its birth would be refused in its current age slice
  (``extend``).
* *Partial matches*: live partial matches are dropped in a walk through all rows, and their memory is freed
  (`walk_cells`). One probability per cell: state, class and age slice. A row in several indexes is dropped from all of
  them and counted in the first.

A row stores its class, see classify.pyx. Random draws are hashes, so a run is repeatable for a seed. Events are hashed
by position, so all queries drop the same events whatever the batches are. Births are hashed by their first and last
event. Rows are hashed by both and a salt; with salt 0 a probability drops the same partial matches whose births it
would have refused.

Invariant: a dropped row is treated as a row whose window has ended. So shedding adds no match to a monotonic query,
and the remaining rows stay in birth order.
"""
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint64_t

from fastcep._core.memory.open_windows cimport Opened, window_at
from fastcep._core.memory.row_store cimport Bucket, Index, bucket_at, compact
from fastcep._core.program.plan_tables cimport HOME, Edge, State
from fastcep._core.shed.age_slices cimport first_start_in, slice_at
from fastcep._core.shed.classify cimport class_of_event, classify
from fastcep._core.shed.flows cimport log_weight, represented, weigh_children
from fastcep._core.shed.lineage cimport note_children, note_tried, note_values
from fastcep._core.state.core cimport Core, position_of
from fastcep._core.state.draws cimport class_of, falls, mixed, steps_of
from fastcep._core.state.isolated_windows cimport enter, leave
from fastcep._core.state.shedding_tables cimport (
    DRAWN_AT, DRAWN_BITS, MOST_SLICES, PARENT_WEIGHT_AT, ROW_WEIGHT_AT, MOST_WEIGHT, Shed,
)

# ---------------------------------------------------------------------- events

#: Changes the seed for draws that are independent of those by which events are dropped.
cdef uint64_t WITHHOLDING = 0xD1342543DE82EF95ULL


cdef int drop_events(
        Core* core, uint64_t* bits, int32_t* relevant, int n, const uint16_t* types, int64_t position) noexcept nogil:
    """Remove dropped events from the relevant ones, and clear their masks; returns the number of events left."""
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


cdef int withhold_events(
        Core* core, uint64_t* bits, int32_t* relevant, int n, const uint16_t* types, int64_t position) noexcept nogil:
    """Withhold events from variables, and remove events without a variable from the relevant ones.

    Variables with equal probabilities withhold the same events. Which events are withheld does not depend on which are
    dropped as a whole, so probabilities and weights of the two multiply. Returns the number of events that are left.
    """
    cdef Shed* shed = &core.shed
    cdef int64_t chance, cell
    cdef uint64_t mask
    cdef int i, k, m, kept = 0
    for i in range(n):
        k = relevant[i]
        mask = bits[k]
        for m in range(shed.variables):
            if not mask >> m & 1:
                continue
            cell = m * shed.variable_stride + class_of_event(core, m, k)
            if core.observed.on:
                note_tried(core, m, k, position + k)
            if shed.flows.on:
                shed.flows.tried[cell] += represented(shed.type_weights[types[k]])  # with the events that were dropped
            chance = shed.withhold[cell]
            if chance > 0 and falls(shed.seed ^ WITHHOLDING, <uint64_t>(position + k), chance):
                mask &= ~(<uint64_t>1 << m)
                shed.withheld[cell] += 1
        bits[k] = mask
        shed.dropped_events[types[k]] += mask == 0
        relevant[kept] = k
        kept += mask != 0
    return kept


# ---------------------------------------------------------------------- births

cdef int screen(Core* core, const Edge* edge, const Bucket* bucket, int first, int32_t* rows, int n, int k) noexcept nogil:
    """Compute the class words of the children of ``n`` rows of a bucket (as for ``stage_rows``), and refuse some of
    them.

    Keeps the rows whose child is not refused, in order, writes their class words to ``shed.classes`` and returns their
    number. If a child counts even when it is not stored (it is a match, or the event advances its parent), all rows are
    kept and the class word of a refused child is negative.
    """
    cdef Shed* shed = &core.shed
    cdef bint before  # weigh refused children too
    classify(core, edge, bucket, first, rows, n, k)
    if core.observed.on:  # a query whose lineage is recorded refuses nothing
        note_values(core, edge, n)
        note_children(core, edge, bucket, first, rows, n, class_of_event(core, edge.variable, k))
        return n
    before = shed.flows.sampled or (shed.weighs and core.states[edge.target].accepting)
    if before:
        weigh_children(core, edge, bucket, first, rows, n, class_of_event(core, edge.variable, k))
    if shed.births and edge.born:
        n = _refuse_births(core, edge, bucket, first, rows, n)
    if (shed.weighs or shed.flows.on) and not before:
        weigh_children(core, edge, bucket, first, rows, n, class_of_event(core, edge.variable, k))
    return n


cdef int _refuse_births(
        Core* core, const Edge* edge, const Bucket* bucket, int first, int32_t* rows, int n) noexcept nogil:
    """Refuse some of the children that would be stored, see `screen`."""
    cdef Shed* shed = &core.shed
    cdef const int64_t* chances = shed.refuse + edge.target * shed.stride * shed.slices
    cdef int64_t* refused = shed.refused + edge.target * shed.stride
    cdef int i, age_slice, kept = 0
    cdef int64_t class_, word, start, chance
    cdef bint keeps_refused = core.states[edge.target].accepting or core.must_advance
    if shed.classifiers[edge.target].n_features == 0 and not keeps_refused and shed.slices == 1 and (
            chances[0] == 0 or chances[0] >> 32):
        if chances[0] == 0:
            return n
        shed.n_refused += n
        refused[0] += n
        return 0
    for i in range(n):
        word = shed.classes[i]
        class_ = class_of(word)
        start = -1 if bucket == NULL else bucket.data[
            (<int64_t>first + (i if rows == NULL else rows[i])) * core.states[edge.source].fixed]
        age_slice = slice_at(core, start) if shed.slices > 1 else 0
        chance = chances[class_ * shed.slices + age_slice]
        if chance > 0 and (chance >> 32 or _is_birth_refused(core, start, chance)):
            shed.n_refused += 1
            refused[class_] += 1
            word |= INT64_MIN
        elif chance > 0 and (shed.weighs or shed.flows.on):
            _raise_weight(&word, shed.refuse_weights[chances - shed.refuse + class_ * shed.slices + age_slice])
        shed.classes[kept] = word
        if rows != NULL:
            rows[kept] = rows[i]
        kept += word >= 0 or keeps_refused
    return kept


cdef inline bint _is_birth_refused(const Core* core, int64_t start, int64_t chance) noexcept nogil:
    """Return whether a child is refused; the draw depends on its first and its last event."""
    cdef int64_t first = core.event_position if start < 0 else core.starts.position[start & core.starts.mask]
    return _draw(core, first, core.event_position, 0) < steps_of(chance)


cdef inline int64_t _draw(const Core* core, int64_t first, int64_t last, uint64_t salt) noexcept nogil:
    """Return a random number of ``DRAWN_BITS`` bits: a hash of the first and last event of a partial match and a salt."""
    return <int64_t>(mixed(mixed(~core.shed.seed ^ salt ^ <uint64_t>first) ^ <uint64_t>last) >> (64 - DRAWN_BITS))


# ---------------------------------------------------------------------- live partial matches

cdef int drop_aged(Core* core, int state_number, Bucket* bucket, int first, int n) noexcept nogil:
    """Drop those of ``n`` rows of a bucket whose birth would be refused now; returns their number.

    The dropped rows stay in the bucket as dead rows.
    """
    cdef Shed* shed = &core.shed
    cdef State* state = core.states + state_number
    cdef const int64_t* chances = shed.refuse + state_number * shed.stride * shed.slices
    cdef int64_t* row = bucket.data + <int64_t>first * state.fixed
    cdef int64_t class_, cell, live_from = core.starts.first
    cdef int i, dropped = 0
    for i in range(n):
        if row[0] >= live_from:
            class_ = class_of(row[state.class_word]) if state.class_word >= 0 else 0
            cell = (class_ if class_ < shed.stride else 0) * shed.slices + slice_at(core, row[0])
            if chances[cell] > 0 and _is_row_dropped(core, state, row, 0, chances[cell]):
                _drop_row(core, state_number, row)
                dropped += 1
            elif (shed.weighs or shed.flows.on) and state.class_word >= 0:
                _raise_weight(row + state.class_word, shed.refuse_weights[chances - shed.refuse + cell])
        row += state.fixed
    shed.n_aged += dropped
    return dropped


cdef inline void _raise_weight(int64_t* word, int64_t weight) noexcept nogil:
    """Raise the sampling weight in the class word of a row to ``weight`` (see flows.pyx), if it is less."""
    if weight > (word[0] >> ROW_WEIGHT_AT & MOST_WEIGHT):
        weight = min(weight, <int64_t>MOST_WEIGHT)
        word[0] = (word[0] & ~(<int64_t>MOST_WEIGHT << ROW_WEIGHT_AT)) | weight << ROW_WEIGHT_AT


cdef inline void _add_weight(int64_t* word, int64_t weight) noexcept nogil:
    """Multiply the inherited weight in the class word of a row, after an independent draw to keep the row."""
    weight = min(weight + (word[0] >> PARENT_WEIGHT_AT & MOST_WEIGHT), <int64_t>MOST_WEIGHT)
    word[0] = (word[0] & ~(<int64_t>MOST_WEIGHT << PARENT_WEIGHT_AT)) | weight << PARENT_WEIGHT_AT


cdef inline void _drop_row(Core* core, int state_number, int64_t* row) noexcept nogil:
    """Mark a live row as dead; a row in several indexes is counted in the first."""
    cdef State* state = core.states + state_number
    cdef int64_t word = row[state.class_word] if state.class_word >= 0 else 0
    cdef bint counts = state.n_indexes == 1 or word & HOME
    cdef int64_t class_ = class_of(word)
    core.starts.rows[row[0] & core.starts.mask] -= counts
    core.starts.live -= counts
    core.starts.unsettled = True
    core.shed.dropped[state_number * core.shed.stride + (class_ if class_ < core.shed.stride else 0)] += counts
    row[0] = -1


cdef int64_t walk_cells(Core* core, int slices, const int64_t* chances, int64_t* counts, uint64_t salt) noexcept nogil:
    """Count the live rows of each cell, [state][class][slice], and drop some of them; returns the number of rows
    visited.

    ``chances``: drop probability of each cell, in 2^-32, or NULL. ``counts``: output, live rows before the drop, or
    NULL.
    """
    cdef int64_t number, visited
    cdef Opened* window
    if not core.is_isolated:
        return _walk_rows(core, slices, chances, counts, salt, -1)
    visited = 0
    for number in range(core.windows.first, core.windows.next):
        window = window_at(&core.windows, number)
        if window.part != NULL and window.part.starts.live > 0 and enter(core, window):
            visited += _walk_rows(core, slices, chances, counts, salt, number)
            leave(core, window)
    return visited


cdef int64_t _walk_rows(
        Core* core, int slices, const int64_t* chances, int64_t* counts, uint64_t salt, int64_t window) noexcept nogil:
    """Do `walk_cells` for the rows of the isolated ``window``, which is entered, or for all rows (-1)."""
    cdef Shed* shed = &core.shed
    cdef int64_t bounds[MOST_SLICES]
    cdef Index* index
    cdef Bucket* bucket
    cdef int64_t* row
    cdef int64_t b, r, cell, word, class_, weight, visited = 0, live_from = core.starts.first
    cdef int i, s, state_number, class_word
    cdef bint any_dropped, counts_here, alone
    for s in range(slices):
        bounds[s] = first_start_in(core, s, slices, window, core.last)
    for i in range(core.n_indexes):
        index = core.indexes + i
        state_number = core.infos[i].state
        class_word = core.states[state_number].class_word
        alone = core.states[state_number].n_indexes == 1
        for b in range(index.n_buckets):
            bucket = bucket_at(index, b)
            any_dropped = False
            row = bucket.data + <int64_t>bucket.head * index.fixed
            for r in range(bucket.head, bucket.size):
                if row[0] >= live_from:
                    word = row[class_word] if class_word >= 0 else 0
                    counts_here = alone or word & HOME
                    class_ = class_of(word)
                    class_ = class_ if class_ < shed.stride else 0  # a snapshot may contain any class
                    s = 0
                    while s < slices - 1 and row[0] < bounds[s]:
                        s += 1
                    cell = (state_number * shed.stride + class_) * slices + s
                    if counts != NULL and counts_here:
                        counts[cell] += 1
                    visited += 1
                    if chances != NULL and chances[cell] > 0:
                        if _is_row_dropped(core, core.states + state_number, row, salt, chances[cell]):
                            _drop_row(core, state_number, row)
                            any_dropped = True
                        elif (shed.weighs or shed.flows.on) and class_word >= 0:
                            weight = log_weight(steps_of(chances[cell]) << 32 - DRAWN_BITS)
                            if salt == 0:
                                _raise_weight(row + class_word, weight)
                            else:
                                _add_weight(row + class_word, weight)
                row += index.fixed
            if any_dropped:
                compact(index, bucket, core.starts.kept)
    return visited


cdef inline bint _is_row_dropped(
        const Core* core, const State* state, int64_t* row, uint64_t salt, int64_t chance) noexcept nogil:
    """Return whether a row is dropped; with salt 0 the draw is that of its birth, which is cached in its class word."""
    cdef int64_t drawn = 0
    if salt == 0 and state.class_word >= 0:
        drawn = row[state.class_word] >> DRAWN_AT
        if drawn == 0:
            drawn = _draw_for_row(core, state, row, 0) + 1
            row[state.class_word] |= drawn << DRAWN_AT
        return drawn - 1 < steps_of(chance)
    return _draw_for_row(core, state, row, salt) < steps_of(chance)


cdef int64_t _draw_for_row(const Core* core, const State* state, const int64_t* row, uint64_t salt) noexcept nogil:
    """Return the draw for a row, which stays the same when the engine is restored from a snapshot."""
    cdef int64_t first = core.starts.position[row[0] & core.starts.mask], last = first, word
    cdef int c, slot
    for c in range(state.n_bind):
        word = row[state.bind + c]
        slot = state.slots[c]
        if word >= 0:
            if slot >= core.n_variables or core.variables[slot].repeated:
                word = position_of(core.starts.event[word])
            last = max(last, word)
    return _draw(core, first, last, salt)
