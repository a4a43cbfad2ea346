# cython: language_level=3
"""The loop over the events of a batch, chunk by chunk, and the removal of dead rows. Overview: matcher.pyx."""
from libc.stdint cimport int32_t, int64_t, uint64_t

from fastcep._core.factorised.chunk cimport match_chunk
from fastcep._core.input.batch cimport Events
from fastcep._core.matcher.commit cimport commit
from fastcep._core.matcher.extend cimport begin, extend, probe
from fastcep._core.matcher.interrupt cimport Pause, is_over, monotonic
from fastcep._core.matcher.masks cimport masks
from fastcep._core.matcher.window_events cimport advance_windows, enter_first_window, enter_next_window
from fastcep._core.matches.decide cimport decide, drop_pending
from fastcep._core.matches.emit cimport end_event
from fastcep._core.matches.longest cimport settle
from fastcep._core.matches.negate cimport oldest_needed, store_negated
from fastcep._core.matches.policy cimport CUMULATIVE, PAST_LAST, policy_clear
from fastcep._core.matches.timeout cimport collect
from fastcep._core.memory.match_set cimport forget, seen_bytes, seen_clear
from fastcep._core.memory.open_windows cimport Opened, Part, window_at, windows_bytes
from fastcep._core.memory.pending_matches cimport pending_bytes
from fastcep._core.memory.row_store cimport Bucket, index_bytes, sweep
from fastcep._core.memory.starts cimport EXPLICIT, drop_all, expire, starts_bytes, starts_rest
from fastcep._core.memory.vectors cimport Vec, vec_free
from fastcep._core.program.plan_tables cimport Edge, Variable
from fastcep._core.program.predicate cimport CHUNK
from fastcep._core.shed.drop cimport spent, weight_of
from fastcep._core.shed.flows cimport flows_event
from fastcep._core.shed.work_limit cimport cut_end, cut_event, charge_staged, own_cost, reserve
from fastcep._core.state.core cimport Core, stores_of
from fastcep._core.state.isolated_windows cimport drop_part, enter, leave, part_bytes
from fastcep._core.state.previous_events cimport drop_cut_off, find_previous
from fastcep._core.state.remove_rows cimport drop_rowless, replace_advanced
from fastcep._core.state.stage cimport Stage, child_bytes, stage_merge, stage_rest
from fastcep._core.state.state_metrics cimport first_position

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:
    SWEEP_BYTES = 1 << 20    # smallest size of the indexes at which a sweep is due
    SAMPLE_INTERVAL = 16     # one chunk out of this many is measured, unless the cost of each event is recorded
    TIMEOUT_BATCH = 1024     # dead starts that accumulate before their partial matches are written out


cdef Py_ssize_t take_events(Core* core, const Events* events, Py_ssize_t first, Py_ssize_t n, Pause* pause) noexcept nogil:
    """Match the events ``first:n`` of a batch; returns the index of the first event not matched, see ``process``.

    If the loop pauses (``pause`` is not NULL), the result is the same as if the batch had ended there.
    """
    cdef const int64_t* time = events.time
    cdef int64_t position = events.position
    cdef uint64_t bits[CHUNK]
    cdef int32_t relevant[CHUNK]
    cdef Py_ssize_t base = first
    cdef int64_t window = 0
    cdef int64_t started = 0 if pause == NULL else monotonic()
    cdef int m, k, r, n_relevant, chunks_to_check = 0 if pause == NULL else pause.chunks_per_check
    cdef bint measures
    while base < n:
        m = <int>min(<Py_ssize_t>(CHUNK if pause == NULL else pause.chunk_size), n - base)
        core.chunks += 1
        measures = core.costs != NULL or (core.shed.on and core.chunks % SAMPLE_INTERVAL == 0)
        n_relevant = masks(core, bits, relevant, events, base, m)
        if core.costs != NULL:
            for k in range(m):
                core.costs[base - first + k] += core.prices.event
        if core.failed:
            return stop(core, events, first, base)
        core.relevant += n_relevant
        if core.visits_all:
            n_relevant = _visit_all(bits, relevant, n_relevant, m)
        if core.factorised:
            n_relevant = _match_factorised(core, bits, relevant, n_relevant, events, base, base - first, measures)
            if core.failed:
                return stop(core, events, first, base + relevant[n_relevant])
            n_relevant = 0
        for r in range(n_relevant):
            k = relevant[r]
            core.now = time[base + k]
            if (measures or core.shed.in_windows != NULL or core.shed.births or core.shed.weighs or core.shed.flows.on
                    or core.observed.on or core.shed.cut.most > 0):
                begin_measurement(core, events, base + k)
            if core.window_kind == EXPLICIT:
                advance_windows(core, time, position, base + k, n)
                window = enter_first_window(core, bits + k, k)
            else:
                if core.due < core.now:
                    decide(core, core.now, False)
                expire(&core.starts, core.now, position + base + k, time, position)
            while window >= 0:
                match_event(core, bits[k], k, position + base + k)
                if core.longest and not core.failed:
                    settle(core, k, position + base + k)
                if not core.is_isolated:
                    break
                window = enter_next_window(core, window, bits + k, k)
            if measures:
                end_measurement(core, events, base + k, base + k - first)
            if core.failed:
                return stop(core, events, first, base + k)
        core.last = position + base + m - 1
        if core.removes:
            drop_rowless(core)
        if core.starts.first - core.starts.kept >= TIMEOUT_BATCH:
            collect(core, core.starts.kept, core.starts.first)
        if sweep_is_due(core):
            sweep_all(core)
        base += m
        chunks_to_check -= 1
        if chunks_to_check == 0 and base < n:
            if is_over(pause, &started):
                n = base
            chunks_to_check = pause.chunks_per_check
    core.events += n - first
    core.now = time[n - 1]
    if core.window_kind == EXPLICIT:
        advance_windows(core, time, position, n, n)
    if core.due < core.now and not core.failed:
        decide(core, core.now, False)
    expire(&core.starts, time[n - 1], position + n - 1, time, position)
    if core.starts.keeps:
        collect(core, core.starts.kept, core.starts.first)
    if core.failed:  # no memory for the matches that the last event decides
        core.events -= 1
        return stop(core, events, n - 1, n - 1)
    return n


cdef int _visit_all(uint64_t* bits, int32_t* relevant, int n, int m) noexcept nogil:
    """List all ``m`` events of the chunk, the masks of those not yet listed with no variable; returns their number."""
    cdef int k, r = 0
    cdef bint listed
    cdef int32_t events[CHUNK]
    for k in range(n):
        events[k] = relevant[k]
    for k in range(m):
        listed = r < n and events[r] == k
        if not listed:
            bits[k] = 0
        r += listed
        relevant[k] = k
    return m


cdef Py_ssize_t stop(Core* core, const Events* events, Py_ssize_t first, Py_ssize_t taken) noexcept nogil:
    """Recover after memory ran out at an event, and skip the remaining events of the batch; returns ``taken``."""
    recover_from_failure(core)
    if core.window_kind == EXPLICIT:
        advance_windows(core, events.time, events.position, events.size, events.size)
        while core.failed:  # no memory for a window: continue with the next one
            core.failed = False
            advance_windows(core, events.time, events.position, events.size, events.size)
    core.last_missed = events.time[events.size - 1]
    core.events += taken - first
    return taken


cdef inline void begin_measurement(Core* core, const Events* events, Py_ssize_t batch_index) noexcept nogil:
    """Record the counters before a relevant event of the batch."""
    core.event_type, core.event_position = events.types[batch_index], events.position + batch_index
    if core.shed.flows.on:
        flows_event(&core.shed, core.event_position)
    if core.shed.cut.most > 0:
        cut_event(core)
    core.before_spent = spent(core)
    core.before_visited = core.rows_visited
    core.before_yielded = core.rows_created + core.matches + core.shed.n_refused


cdef inline void end_measurement(
        Core* core, const Events* events, Py_ssize_t batch_index, Py_ssize_t number) noexcept nogil:
    """Add the cost of the event to ``costs[number]``, and its results to the counters of its type."""
    cdef int64_t type_id = events.types[batch_index], yielded
    if core.shed.cut.most > 0:
        cut_end(core)
    if core.costs != NULL:
        core.costs[number] += core.prices.relevant + spent(core) - core.before_spent
    if core.shed.on:
        yielded = core.rows_created + core.matches + core.shed.n_refused - core.before_yielded
        core.shed.seen[type_id] += weight_of(&core.shed, type_id, SAMPLE_INTERVAL if core.costs == NULL else 1)
        core.shed.tried[type_id] += max(1, core.rows_visited - core.before_visited)
        core.shed.yielded[type_id] += yielded


cdef inline void match_event(Core* core, uint64_t variables, int k, int64_t position) noexcept nogil:
    """Bind event ``k`` of the chunk to each of its variables, then apply the policies to its matches."""
    cdef uint64_t completing
    core.event_birth = core.next_birth
    core.emitted = 0
    core.current, core.current_place = variables, k
    if variables & core.shed.cut.beginning and not core.is_isolated:  # only once for an event
        reserve(core, variables)
    if variables & core.shed.cut.completing:
        completing = variables & core.shed.cut.completing
        variables ^= completing
        while completing and not core.failed:
            bind(core, __builtin_ctzll(completing), k, position, core.now)
            completing &= completing - 1
    while variables and not core.failed:
        bind(core, __builtin_ctzll(variables), k, position, core.now)
        variables &= variables - 1
    if core.advanced.size > 0:
        replace_advanced(core)
    if core.emitted:
        if core.after_match == PAST_LAST and not core.longest and core.starts.kept < core.starts.first:
            collect(core, core.starts.kept, core.starts.first)  # before the policy drops all partial matches
        end_event(core, position, core.now)


cdef void bind(Core* core, int variable, int k, int64_t position, int64_t time) noexcept nogil:
    """Bind event ``k`` of the chunk to a variable along all its edges: stage, merge and commit the children."""
    cdef Variable* entry = core.variables + variable
    cdef Stage* stage = &core.stage
    cdef Bucket* bucket
    cdef Edge* edge = core.edges + entry.first_edge
    cdef int e, staging_edges = 0, end = entry.end_edge
    cdef int64_t before, j
    if entry.negated:
        store_negated(core, variable, k, position, time)
        return
    stage.size = core.shed.cut.staged = core.shed.cut.staged_beyond = 0
    for e in range(entry.first_edge, end):  # an edge that only stores or accepts stages nothing, or nearly nothing
        before = stage.size
        if edge.source < 0:
            begin(core, e, k, position, time)
        else:
            bucket = probe(core, edge, k)
            if bucket != NULL:
                extend(core, e, bucket, k, position)
        edge += 1
        staging_edges += stage.size > before
        if core.failed:
            return
    if stage.size == 0:
        return
    before = own_cost(core)
    if staging_edges > 1:
        if stage_merge(stage) < 0:
            core.failed = True
            return
        for j in range(stage.size):
            commit(core, stage.order[j], position)
            if core.failed:
                return
    else:
        for j in range(stage.size):
            commit(core, j, position)
            if core.failed:
                return
    if core.shed.cut.staged_beyond > 0:
        charge_staged(core, before)


cdef int _match_factorised(Core* core, const uint64_t* bits, const int32_t* relevant, int n, const Events* events,
                           Py_ssize_t base, Py_ssize_t number, bint measures) noexcept nogil:
    """Match the relevant events of a chunk in the factorised store; returns the one at which memory ran out, or ``n``.

    The chunk begins at event ``base`` of the batch, event ``number`` of this call. ``measures``: record each event's
    cost.
    """
    cdef int r
    if not measures:
        return match_chunk(core, bits, relevant, n, events, base)
    for r in range(n):
        core.now = events.time[base + relevant[r]]
        begin_measurement(core, events, base + relevant[r])
        match_chunk(core, bits, relevant + r, 1, events, base)
        end_measurement(core, events, base + relevant[r], number + relevant[r])
        if core.failed:
            return r
    return n


cdef inline bint sweep_is_due(Core* core) noexcept nogil:
    """Return whether the indexes have doubled, or 7/8 of the budget is used, 1/64 of it since the last sweep."""
    cdef int64_t limit = core.budget.limit
    return (core.budget.used > core.sweep_at and indexes_bytes(core) > core.sweep_at) or (
        core.budget.used > limit - limit // 8 and core.budget.used > core.swept + limit // 64)


cdef void sweep_all(Core* core) noexcept nogil:
    """Remove dead rows from all indexes, including those of isolated windows."""
    cdef Opened* window
    cdef int64_t number
    sweep_indexes(core)
    for number in range(core.windows.first, core.windows.next):
        window = window_at(&core.windows, number)
        if window.part != NULL and enter(core, window):
            sweep_indexes(core)
            leave(core, window)
    if core.partition != NULL:
        sweep(&core.partitions, first_position(core))
    core.sweep_at = max(<int64_t>SWEEP_BYTES, indexes_bytes(core) * 2)
    if core.starts.kept == core.starts.next:
        release_idle_memory(core, core.budget.used > core.budget.limit)
    core.swept = core.budget.used


cdef inline void sweep_indexes(Core* core) noexcept nogil:
    cdef int i
    if core.cuts:
        drop_cut_off(core)
    if core.cuts or core.removes:
        drop_rowless(core)
    for i in range(core.n_indexes):
        sweep(core.indexes + i, first_position(core) if core.factorised else core.starts.kept)
    if core.hashed.budget != NULL:
        sweep(&core.hashed, first_position(core))
    for i in range(core.n_negations):
        sweep(core.indexes + core.n_indexes + i, oldest_needed(core, i, core.now))


cdef int64_t indexes_bytes(Core* core) noexcept nogil:
    """Return the bytes of all indexes, including those of isolated windows."""
    cdef int64_t total = index_bytes(&core.partitions) if core.partition != NULL else 0, number
    cdef Part* part
    cdef int i
    for i in range(stores_of(core)):
        total += index_bytes(core.indexes + i)
    if core.hashed.budget != NULL:
        total += index_bytes(&core.hashed)
    for number in range(core.windows.first, core.windows.next):
        part = window_at(&core.windows, number).part
        for i in range(stores_of(core) if part != NULL else 0):
            total += index_bytes(part.indexes + i)
    return total


cdef void release_idle_memory(Core* core, bint everything) noexcept nogil:
    """Free large buffers, or all buffers, when there is no partial match."""
    cdef int m
    starts_rest(&core.starts, everything)
    stage_rest(&core.stage, everything)
    if core.pending.size == 0:
        drop_pending(core)
    if everything:
        seen_clear(&core.seen)
        policy_clear(core)
        vec_free(&core.timed_rows)
        vec_free(&core.frames)
    for m in range(core.n_slots):
        if everything or core.chains[m].capacity > 16 * CHUNK:
            vec_free(core.chains + m)
    FC_CHECK(held_bytes(core) == core.budget.used)


cdef int64_t held_bytes(Core* core) noexcept nogil:
    """Return the sum of all allocations, which must equal ``budget.used``."""
    cdef int64_t items = core.detected.capacity + core.detected_times.capacity + core.detected_counts.capacity, total
    items += core.advanced.capacity + core.bound.capacity + core.ends.capacity + core.chosen.capacity
    items += core.places.capacity + core.timed_places.capacity
    items += core.horizons.capacity + core.touched.capacity
    items += core.frames.capacity + core.leaving.capacity + core.out_windows.capacity + core.timed.capacity
    items += core.timed_rows.capacity
    cdef int64_t number
    cdef Part* part
    cdef int i
    for i in range(core.n_variables):
        items += core.out_values[i].capacity + core.out_lengths[i].capacity
        items += core.timed_values[i].capacity + core.timed_lengths[i].capacity
    for i in range(core.n_slots):
        items += core.chains[i].capacity
    total = indexes_bytes(core) + pending_bytes(&core.pending) + seen_bytes(&core.seen) + items * 8
    total += starts_bytes(&core.starts) + core.stage.capacity * child_bytes(&core.stage) + windows_bytes(&core.windows)
    for number in range(core.windows.first, core.windows.next):
        part = window_at(&core.windows, number).part
        if part != NULL:
            total += part_bytes(core) + pending_bytes(&part.pending) + starts_bytes(&part.starts)
    return total


cdef void drop_all_rows(Core* core) noexcept nogil:
    """Drop all partial matches; windows stay open."""
    cdef int64_t number
    drop_pending(core)
    drop_all(&core.starts)
    for number in range(core.windows.first, core.windows.next):
        if core.n_negations > 0 and window_at(&core.windows, number).part != NULL:
            core.last_missed = max(core.last_missed, core.now)  # the negated events of the window are dropped too
        drop_part(core, window_at(&core.windows, number))


cdef void recover_from_failure(Core* core) noexcept nogil:
    """Recover when memory ran out: drop all partial matches and the output of the failed event, not earlier matches."""
    cdef int64_t n_matches = 0, i
    for i in range(core.detected_counts.size):
        n_matches += core.detected_counts.data[i]
    core.detected.size = core.detected_times.size = core.detected_counts.size
    core.emitted = core.advanced.size = core.touched.size = 0
    if core.n_sets > 0:
        forget(&core.seen)
    _truncate_output(core, core.out_values, core.out_lengths, n_matches, core.select == CUMULATIVE)
    core.timed.size -= core.timed.size % 3
    if core.timed_places.size > 0:
        core.timed_places.size = core.timed.size // 3 * 2
    if core.places.size > 0:
        core.places.size = 0
        for i in range(core.detected.size):
            core.places.size += 2 * (core.detected.data[i] < 0)
    _truncate_output(core, core.timed_values, core.timed_lengths, core.timed.size // 3, False)
    core.out_windows.size = n_matches if core.window_kind == EXPLICIT else 0
    core.lost += core.starts.live + core.live_in_windows
    drop_all_rows(core)
    sweep_all(core)
    core.failed = False


cdef void _truncate_output(Core* core, Vec* values, Vec* lengths, int64_t n, bint lists) noexcept nogil:
    """Truncate the vectors of an output, one per variable, to ``n`` matches; ``lists``: every variable has a list."""
    cdef int64_t i, size
    cdef int m
    for m in range(core.n_variables):
        if core.variables[m].negated:
            continue
        size = n
        if core.variables[m].repeated or lists:
            size = 0
            for i in range(n):
                size += lengths[m].data[i]
            lengths[m].size = n
        values[m].size = size
