# cython: language_level=3
"""The matcher: one query's plan run over batches of events, skip-till-any-match.

Data flow per batch, in chunks of ``CHUNK`` events: (1) event masks, vectorised: which members each event may be bound to;
(2) event columns (keys and values computed from the event alone), vectorised over the relevant events; (3) per relevant
event and member, ascending: probe the index of every edge that binds it, filter the bucket by the edge's predicate, *stage* the
children, merge them in birth order, *commit* them to the target's indexes and emit complete matches. An event of a negated
variable is kept for later checks; a match that only time can decide waits. Here is Python's side of it; the loop is in
``loop``, edges in ``extend``, what becomes of children in ``commit`` and ``emit``, lists and for-all conditions in
``elements``, negation in ``negate``, waiting matches in ``decide``, the state in ``core.pxd``; (1) and (2) are in ``masks``.

Rows: fixed words (start ordinal, birth if needed, of what may time out whether it was a match, the state's bindings: event
position, for a Kleene variable or a group the latest node of its chain, -1 absent; the first one is left out where the
start tells its event) and columns (null bits of the registers and registers, if any).
*Starts* (a ring) hold, per first event, its time and position, the number of its live rows and the chain nodes made
under it, so that expiry is one compare per row, counting live rows is exact, and nodes are freed with their start.

Invariants: rows of a bucket ascend by birth; no row is dead before its start is; staging keeps a scan apart from
the appends it causes; nothing is allocated per event once the buffers have grown.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import numpy as np

from fastcep._core.input.batch cimport COLUMN_SEQ, COLUMN_TIME, COLUMN_TYPE, Batch, Events
from fastcep._core.input.filters cimport Filter, Passed
from fastcep._core.matcher.interrupt cimport Pause, deadline
from fastcep._core.matcher.loop cimport drop_all_rows, give_up, held_bytes, rest, sweep_all, take_events
from fastcep._core.matcher.window_events cimport end_windows, pass_time
from fastcep._core.matches.decide cimport decide
from fastcep._core.matches.output cimport Output
from fastcep._core.matches.policy cimport policy_clear
from fastcep._core.matches.timeout cimport collect
from fastcep._core.memory.allocator cimport unlimited
from fastcep._core.memory.match_set cimport seen_clear, seen_init
from fastcep._core.memory.pending_matches cimport pending_clear, pending_init
from fastcep._core.memory.row_store cimport Index, Source, index_clear, index_init
from fastcep._core.memory.starts cimport EXPLICIT, expire, expire_all, starts_clear, starts_init
from fastcep._core.memory.vectors cimport Vec, take, vec_free
from fastcep._core.program.plan_tables cimport State, Step, Tables
from fastcep._core.program.plan_tables import tasks_of
from fastcep._core.program.predicate cimport CHUNK, Input, machine_free, machine_new
from fastcep._core.shed.lineage cimport observe_free
from fastcep._core.shed.tables_memory cimport shed_free
from fastcep._core.snapshot.dump cimport dump, is_chained
from fastcep._core.snapshot.load cimport load
from fastcep._core.state.core cimport Core, stores_of
from fastcep._core.state.isolated_windows cimport end_parts
from fastcep._core.state.key_partition import range_of
from fastcep._core.state.stage cimport stage_clear, stage_init
from fastcep._core.state.state_metrics cimport (
    first_position, key_bytes, keys_in, mark_codes, open_windows, row_bytes, rows_in, waiting,
)

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil


cdef bint collect_all(Core* core) noexcept nogil:
    """Write out what has timed out; False without memory for all of it."""
    collect(core, core.starts.kept, core.starts.first)
    if core.failed:
        give_up(core)
        return False
    return True


cdef class Matcher:
    """State of one query.

    Parameters
    ----------
    plan
        ``fastcep.plan.Plan``.
    intern
        Callable that gives the int64 code of a string.
    """

    def __cinit__(self, plan, intern):
        cdef Py_ssize_t i
        cdef Tables tables = Tables(plan, intern)
        self.plan = plan
        self.tables = tables
        self.filters = []
        self.pause.most, self.pause.chunks = CHUNK, 1
        self.core.n_members, self.core.n_slots = tables.n_members, tables.n_slots
        self.core.n_states = tables.n_states
        self.core.n_columns, self.core.n_foralls, self.core.n_sets = tables.n_columns, tables.n_foralls, tables.n_sets
        self.core.implied = tables.implied
        self.core.leaves, self.core.negations, self.core.absences = tables.leaves, tables.negations, tables.absences
        self.core.period = plan.period
        self.core.must_advance, self.core.removes = plan.must_advance, plan.removes
        self.core.select, self.core.consumes = plan.select, plan.consumes
        self.core.after_match, self.core.limit = plan.after_match, plan.limit
        self.core.has_policy = plan.select != 0 or plan.consumes or plan.after_match != 0 or plan.limit > 0
        self.core.due = INT64_MAX
        self.core.blind = INT64_MIN
        self.core.columns, self.core.edges, self.core.states = tables.columns, tables.edges, tables.states
        self.core.infos, self.core.foralls = tables.infos, tables.foralls
        self.core.able, self.core.windows.able = tables.able, tables.able.begins
        self.core.window_kind = plan.window_kind
        self.core.window = plan.window
        self.core.type_members, self.core.type_codes = tables.type_members, tables.type_codes
        self.core.locals, self.core.local_members = tables.locals, tables.local_members
        self.core.local_all = tables.local_all
        unlimited(&self.core.budget)
        self.core.vm = machine_new()
        self.core.inputs = <Input*>calloc(tables.n_inputs + 1, sizeof(Input))
        words = max([1] + [len(item.keys) for item in (*plan.indexes, *plan.negations, *plan.kept)]
                    + [len(item.words) for item in plan.steps])
        if plan.partition is not None:
            words = max(words, len(plan.partition.floats))
            self.core.partition, self.core.partition_floats = tables.partition, tables.partition_floats
            if index_init(&self.core.partitions, &self.core.budget, len(plan.partition.floats), 1, 0) < 0:
                raise MemoryError("no memory for the matcher")
        self.core.n_partition = len(plan.per_partition[0]) if plan.per_partition else 0
        words = max(words, self.core.n_partition)
        self.core.key = <int64_t*>calloc(words, sizeof(int64_t))
        self.core.words = <Source*>calloc(words, sizeof(Source))
        self.core.outputs = <Source*>calloc(tables.n_outputs + 1, sizeof(Source))
        width = max([self.core.states[i].fixed + self.core.states[i].columns for i in range(tables.n_states)], default=1)
        self.core.row = <Source*>calloc(width, sizeof(Source))
        self.core.out_values = <Vec*>calloc(self.core.n_members, sizeof(Vec))
        self.core.out_lengths = <Vec*>calloc(self.core.n_members, sizeof(Vec))
        self.core.timed_values = <Vec*>calloc(self.core.n_members, sizeof(Vec))
        self.core.timed_lengths = <Vec*>calloc(self.core.n_members, sizeof(Vec))
        self.core.passed = <const Passed**>calloc(self.core.n_members, sizeof(void*))
        self.core.next_passed = <int64_t*>calloc(self.core.n_members, sizeof(int64_t))
        self.core.chains = <Vec*>calloc(self.core.n_slots, sizeof(Vec))
        self.core.cursor = <int64_t*>calloc(self.core.n_members, sizeof(int64_t))
        self.core.indexes = <Index*>calloc(tables.n_indexes + tables.n_negations + tables.n_kept + 1, sizeof(Index))
        for i, item in enumerate(plan.indexes):
            if index_init(self.core.indexes + i, &self.core.budget, len(item.keys), self.core.states[item.state].fixed,
                          self.core.states[item.state].columns) < 0:
                raise MemoryError("no memory for the matcher")
            self.core.n_indexes = i + 1
            self.core.cuts |= item.latest >= 0 and not plan.timed_out
        for i, item in enumerate(plan.negations):
            if index_init(self.core.indexes + self.core.n_indexes + i, &self.core.budget, len(item.keys), 3,
                          len(item.registers) + 1 if item.registers else 0) < 0:
                raise MemoryError("no memory for the matcher")
            self.core.n_negations = i + 1
        if plan.limit > 0 and plan.per_partition:
            if index_init(self.core.indexes + stores_of(&self.core), &self.core.budget, self.core.n_partition, 1, 0) < 0:
                raise MemoryError("no memory for the matcher")
            self.core.n_counts = 1
        self._keep_events(tables)
        for i in range(self.core.n_members):
            self.core.out_values[i].budget = self.core.out_lengths[i].budget = &self.core.budget
            self.core.timed_values[i].budget = self.core.timed_lengths[i].budget = &self.core.budget
        for i in range(self.core.n_slots):
            self.core.chains[i].budget = &self.core.budget
        self.core.detected.budget = self.core.detected_times.budget = self.core.detected_counts.budget = &self.core.budget
        self.core.advanced.budget = self.core.bound.budget = self.core.ends.budget = &self.core.budget
        self.core.chosen.budget = self.core.leaving.budget = &self.core.budget
        seen_init(&self.core.seen, &self.core.budget)
        pending_init(&self.core.pending, &self.core.budget, 3 + self.core.n_slots + 2 * tables.n_outputs)
        if (starts_init(&self.core.starts, &self.core.budget, self.core.window_kind, self.core.window) < 0
                or stage_init(&self.core.stage, &self.core.budget, self.core.n_slots, tables.n_outputs) < 0):
            raise MemoryError("no memory for the matcher")
        self.core.parts = 1
        self.core.places.budget = self.core.timed_places.budget = &self.core.budget
        self.core.out_windows.budget = self.core.windows.budget = &self.core.budget
        if plan.windows is not None:
            self.core.is_isolated = plan.windows.isolated
            self.core.windows.closing, self.core.windows.length = plan.windows.closing, plan.windows.length
            self.core.is_shared = not self.core.is_isolated
        self.core.tells = plan.timed_out
        self.core.starts.keeps = plan.timed_out and plan.windows is None
        self.core.timed.budget = self.core.found.budget = &self.core.budget
        self.core.outside.starts = self.core.starts
        self.core.outside.indexes = self.core.indexes
        self.core.outside.pending = self.core.pending

    cdef int _keep_events(self, Tables tables) except -1:
        """Use the factorised store, if the plan is for it."""
        cdef Py_ssize_t i
        cdef Step* step
        cdef int members = self.core.n_members
        self.core.factorised = tables.n_kept > 0
        if not self.core.factorised:
            return 0
        self.core.kept, self.core.first_kept = tables.kept, tables.first_kept
        self.core.back = <Step**>calloc(members, sizeof(void*))
        self.core.again = <Step**>calloc(members, sizeof(void*))
        self.core.held = <int64_t*>calloc(tables.n_held + 1, sizeof(int64_t))
        self.core.held_null = <uint8_t*>calloc(tables.n_held + 1, 1)
        self.core.frames.budget = &self.core.budget
        for i, item in enumerate(self.plan.kept):
            if index_init(self.core.indexes + i, &self.core.budget, len(item.keys), 1,
                          len(item.registers) + 1 if item.registers else 0) < 0:
                raise MemoryError("no memory for the matcher")
            self.core.n_indexes = i + 1
        for i, item in enumerate(self.plan.steps):
            step = tables.steps + i
            if item.source == item.member:
                self.core.again[step.member] = step
            else:
                self.core.back[step.member] = step
            if step.compares and index_init(&self.core.hashed, &self.core.budget, step.n_words, 1, 0) < 0:
                raise MemoryError("no memory for the matcher")
        return 0

    def __dealloc__(self):
        cdef int i
        end_parts(&self.core)
        for i in range(self.core.n_members):
            if self.core.out_values != NULL:
                vec_free(self.core.out_values + i)
            if self.core.out_lengths != NULL:
                vec_free(self.core.out_lengths + i)
            if self.core.timed_values != NULL and self.core.timed_lengths != NULL:
                vec_free(self.core.timed_values + i)
                vec_free(self.core.timed_lengths + i)
        for i in range(self.core.n_slots if self.core.chains != NULL else 0):
            vec_free(self.core.chains + i)
        for i in range(stores_of(&self.core)):
            index_clear(self.core.indexes + i)
        index_clear(&self.core.partitions)
        index_clear(&self.core.hashed)
        if self.core.stage.budget != NULL:
            stage_clear(&self.core.stage)
        starts_clear(&self.core.starts)
        free(<void*>self.core.passed)
        free(self.core.next_passed)
        free(self.core.indexes)
        free(self.core.inputs)
        free(self.core.key)
        free(self.core.words)
        free(self.core.outputs)
        free(self.core.row)
        free(self.core.back)
        free(self.core.again)
        free(self.core.held)
        free(self.core.held_null)
        vec_free(&self.core.frames)
        free(self.core.timed_values)
        free(self.core.timed_lengths)
        vec_free(&self.core.timed)
        vec_free(&self.core.found)
        free(self.core.out_values)
        free(self.core.out_lengths)
        free(self.core.chains)
        free(self.core.cursor)
        policy_clear(&self.core)
        shed_free(&self.core.shed)
        observe_free(&self.core.observed)
        vec_free(&self.core.out_windows)
        vec_free(&self.core.places)
        vec_free(&self.core.timed_places)
        vec_free(&self.core.detected)
        vec_free(&self.core.detected_times)
        pending_clear(&self.core.pending)
        if self.core.seen.words.budget != NULL:
            seen_clear(&self.core.seen)
        vec_free(&self.core.detected_counts)
        machine_free(self.core.vm)

    # ------------------------------------------------------------------ Python's side

    def take_part(self, int part, int parts, const int32_t[::1] columns, bint floats):
        """Bind only the events of one of ``parts`` parts; ``columns`` has per type id that of the key, or -1.

        ``floats`` says that it is of float64. See key_partition.pyx.
        """
        self.key_columns = columns
        self.core.part, self.core.parts = part, parts
        self.core.part_first, self.core.part_size = range_of(part, parts)
        self.core.part_columns, self.core.part_floats = &columns[0], floats
        some = {columns[i] for i in range(columns.shape[0]) if self.core.type_members[i]}
        self.core.part_column = -1 if len(some) > 1 or floats else some.pop()

    def share(self, filters, bint counts=True):
        """Take the event masks from ``filters``, one ``Filter`` per member, when :meth:`process` says so; None: never.

        ``counts`` says that what they count is this query's; of its parts only one says so.
        """
        cdef Filter one
        cdef int i
        for one, nulls, errors in self.filters if self.counts else ():
            self.nulls += one.screen.arithmetic_nulls - nulls
            self.errors += one.screen.function_errors - errors
        self.filters, self.counts = [], counts
        for i, one in enumerate(filters or ()):
            self.filters.append((one, one.screen.arithmetic_nulls, one.screen.function_errors))
            self.core.passed[i] = &one.screen.passed

    def use_bounds(self, const int64_t[::1] opens, const int64_t[::1] ids, const int64_t[::1] closes,
                   const int64_t[::1] closed):
        """Say what opens and closes explicit windows in the batch that is processed next (fastcep.engine.windows).

        The places of events that open one and their sequence numbers, the places of those that close one and the
        positions of the events that opened it (-1: it closes all that are open).
        """
        self.bounds = (opens, ids, closes, closed)
        self.core.windows.n_opens, self.core.windows.n_closes = len(opens), len(closes)
        self.core.windows.next_open = self.core.windows.next_close = 0
        if len(opens):
            self.core.windows.opens, self.core.windows.ids = &opens[0], &ids[0]
        if len(closes):
            self.core.windows.closes, self.core.windows.closed = &closes[0], &closed[0]

    def process(self, Batch batch not None, ring, Py_ssize_t first=0, Py_ssize_t last=-1, bint shared=False):
        """Run over the events ``first:last`` of a batch (-1: its end); matches wait for :meth:`take_output`.

        ``shared`` says that the filters have run over these events, see :meth:`share`. Returns up to which event they
        were taken: ``last``, or the one for which there was no memory. Then every partial match has been dropped
        (counted in ``lost``) and the matcher can go on with the next batch.
        """
        if last < 0:
            last = batch.events.size
        if first == last:
            return last
        self.bind_ring(ring)
        return self.take(&batch.events, first, last, shared, True)

    cdef Py_ssize_t take(self, const Events* events, Py_ssize_t first, Py_ssize_t last, bint shared, bint release,
                         bint may_pause=False):
        """:meth:`process`, when the ring is bound; ``release``: it is worth while to give the GIL back meanwhile.

        ``may_pause``: it may stop between two events when its time is up, which ``pause.paused`` tells.
        """
        cdef Py_ssize_t taken
        cdef Pause* pause = &self.pause if may_pause else NULL
        self.pause.paused = False
        if may_pause:
            self.pause.deadline = deadline()
            if self.pause.deadline < 0:
                self.pause.most = self.pause.chunks = 1
        self.core.budget.refused = False
        self.core.shared = shared and len(self.filters) > 0
        memset(self.core.next_passed, 0, self.core.n_members * sizeof(int64_t))
        if release:
            with nogil:
                taken = take_events(&self.core, events, first, last, pause)
        else:
            taken = take_events(&self.core, events, first, last, pause)
        FC_CHECK(held_bytes(&self.core) == self.core.budget.used)
        return taken

    def set_limit(self, int64_t limit):
        """Hold at most ``limit`` bytes from now on; if it is more already, what is dead goes."""
        self.core.budget.limit = limit
        if self.core.budget.used > limit:
            with nogil:
                sweep_all(&self.core)

    @property
    def refused(self):
        """Whether the last want of memory was the limit's doing."""
        return self.core.budget.refused

    cdef int bind_ring(self, ring) except -1:
        """Find the columns of the event ring that for-all conditions read, if they are others than last time."""
        if self.core.n_foralls and ring is not None and ring.buffers is not self.ring_buffers:
            self._find_columns(ring)
            self.ring_buffers = ring.buffers
        return 0

    def _find_columns(self, ring):
        cdef list keep = []
        cdef const int64_t[::1] values
        cdef const uint8_t[::1] nulls
        cdef const uint16_t[::1] types
        cdef int i, j
        self.core.ring_mask = ring.capacity - 1
        types = ring.arrays("type")[0]
        keep.append(types)
        self.core.ring_type = &types[0]
        names = {COLUMN_TIME: "time", COLUMN_SEQ: "seq"}
        for i in range(self.core.n_foralls):
            for j in range(self.core.foralls[i].n_elements):
                self.core.foralls[i].data[j] = NULL
                self.core.foralls[i].null[j] = NULL
                number = self.core.foralls[i].column[j]
                if number == COLUMN_TYPE:
                    continue
                array, mask = ring.arrays(names.get(number, number))
                values = array.view(np.int64)
                keep.append(values)
                self.core.foralls[i].data[j] = &values[0]
                if number >= 0 and mask is not None:
                    nulls = mask
                    keep.append(nulls)
                    self.core.foralls[i].null[j] = &nulls[0]
        self.kept = keep

    def advance(self, int64_t time, int64_t position, ring):
        """Move the clock: decide what is due, expire what can no longer match and give its memory back.

        ``position`` is the next event's. Matches wait for :meth:`take_output`. False: there was no memory for all of
        them; then every partial match has been dropped (counted in ``lost``).
        """
        cdef bint done = self._decide(time, ring, False)
        with nogil:
            self.core.now = max(time, self.core.now)
            # Of what times out the time is told, which under WITHIN n EVENTS is that of an event that is still to come.
            expire(&self.core.starts, time, position - self.core.starts.keeps, NULL, 0)
            if self.core.starts.keeps:
                done &= collect_all(&self.core)
            sweep_all(&self.core)
        return done

    def finish(self, ring):
        """End the stream: decide every match that waits, then drop all there is. Returns as :meth:`advance`."""
        cdef bint done = self._decide(INT64_MAX, ring, True)
        if self.core.starts.keeps:
            with nogil:
                expire_all(&self.core.starts, self.core.now)
                done &= collect_all(&self.core)
        self.core.now = INT64_MAX
        self.clear()
        return done

    def _decide(self, int64_t time, ring, bint all):
        cdef bint failed
        if self.core.pending.size == 0 and self.core.windows.first == self.core.windows.next:
            return True
        self.core.budget.refused = False
        self.bind_ring(ring)
        with nogil:
            if self.core.window_kind != EXPLICIT:
                decide(&self.core, time, all)
            elif all:
                end_windows(&self.core)
            else:
                pass_time(&self.core, time)
            failed = self.core.failed
            if failed:
                give_up(&self.core)
        return not failed

    def clear(self):
        """Drop every partial match; events that are kept for negation stay while the window needs them."""
        with nogil:
            drop_all_rows(&self.core)
            sweep_all(&self.core)
            rest(&self.core, True)

    def drop(self, blind=None):
        """Drop every partial match for want of memory elsewhere, counted in ``lost``.

        ``blind``: the time of the last event that was not taken.
        """
        if blind is not None:
            self.core.blind = blind
        self.core.lost += self.core.starts.live + self.core.elsewhere
        self.clear()

    def forget_windows(self):
        """Close all explicit windows, without a decision on what is in them."""
        end_parts(&self.core)

    # ------------------------------------------------------------------ state that moves

    def dump(self):
        """The state between two batches as arrays, see dump.pyx."""
        return dump(&self.core)

    @property
    def numbers(self):
        """What of the state is no array: counters, and where the matcher stands."""
        return {
            "next_birth": self.core.next_birth, "now": self.core.now, "blind": self.core.blind, "last": self.core.last,
            "relevant": self.core.relevant, "rows_visited": self.core.rows_visited,
            "rows_created": self.core.rows_created, "matches": self.core.matches, "peak": self.core.peak,
            "lost": self.core.lost, "events": self.core.events, "arithmetic_nulls": self.arithmetic_nulls,
            "function_errors": self.function_errors, "sweep_at": self.core.sweep_at,
        }

    @property
    def is_empty(self):
        """Whether there is no row, not even a dead one, and no window."""
        cdef int i
        if self.core.windows.first < self.core.windows.next or self.core.pending.size > 0:
            return False
        for i in range(self.core.n_indexes + self.core.n_negations):
            if self.core.indexes[i].n_buckets > 0:
                return False
        return self.core.partitions.n_buckets == 0

    @property
    def limit(self):
        """Bytes that it may hold."""
        return self.core.budget.limit

    @property
    def layout(self):
        """What stands in a row: ``(nodes, indexes)``.

        ``nodes`` says of each binding whether it is a node's number (of a Kleene variable or a group) or a position;
        ``indexes`` has per index the fixed words of a row, the places of its birth, of whether it was a match and of its
        class (-1: none), and the places of bindings.
        """
        cdef int i, c
        cdef State* state
        indexes = []
        for i in range(0 if self.core.factorised else self.core.n_indexes):
            state = self.core.states + self.core.infos[i].state
            bindings = {state.slots[c]: state.bind + c for c in range(state.n_bind)}
            indexes.append((state.fixed, state.birth, state.told, state.classed, bindings))
        return [bool(is_chained(&self.core, i)) for i in range(self.core.n_slots)], indexes

    def load(self, state, numbers):
        """Take over a state of ``dump``, which is used up, and ``numbers``, into a matcher that holds nothing.

        One that this fails for must not be used again.

        Raises
        ------
        MemoryError
            There is no room for it, see ``refused``.
        ValueError
            The arrays do not fit together, or not with the plan.
        """
        self.core.last = numbers["last"]
        load(&self.core, state)
        self.core.next_birth, self.core.now = numbers["next_birth"], numbers["now"]
        self.core.sweep_at = numbers["sweep_at"]
        self.core.blind = numbers["blind"]
        self.core.relevant, self.core.events = numbers["relevant"], numbers["events"]
        self.core.rows_visited, self.core.rows_created = numbers["rows_visited"], numbers["rows_created"]
        self.core.matches, self.core.lost = numbers["matches"], numbers["lost"]
        self.core.peak = max(<int64_t>numbers["peak"], self.core.starts.live + self.core.elsewhere)
        self.nulls, self.errors = numbers["arithmetic_nulls"], numbers["function_errors"]
        FC_CHECK(held_bytes(&self.core) == self.core.budget.used)

    def ignore(self, const uint8_t[::1] foreign):
        """Bind no event of the batch that is processed next whose flag is 1; None: bind all."""
        self.flags = foreign
        self.core.foreign = NULL if foreign is None or foreign.shape[0] == 0 else &foreign[0]

    @property
    def found(self):
        """Whether there is output, or what is left of one that was withdrawn: :meth:`take_output` empties it."""
        return self.has_output()

    cdef bint has_output(self) noexcept:
        cdef int i
        for i in range(self.core.n_members):
            if self.core.out_values[i].capacity or self.core.out_lengths[i].capacity:
                return True
        return self.core.detected.capacity > 0

    def take_output(self):
        """Return and empty the output, see output.pyx."""
        cdef Output output = Output.__new__(Output)
        output.move(&self.core, self.plan)
        return output

    def take_places(self, bint timed=False):
        """Return and empty the places of decisions (``timed``: of what has timed out), int64[n, 2], see key_partition.pyx.

        There are some in one of several parts of a query with explicit windows.
        """
        return take(&self.core.timed_places if timed else &self.core.places).reshape(-1, 2)

    def take_timed_out(self):
        """Return and empty the partial matches that have timed out: ``(values, lengths, [state, time, window id])``.

        ``values`` and ``lengths`` as of :meth:`take_output`; the array int64[n, 3].
        """
        cdef int i
        values, lengths = [], []
        for i in range(self.core.n_members):
            values.append(take(self.core.timed_values + i))
            lengths.append(take(self.core.timed_lengths + i) if self.core.leaves[i].repeated else None)
        return values, lengths, take(&self.core.timed).reshape(-1, 3)

    def mark_codes(self, uint8_t[::1] marks):
        """Set ``marks[c]`` for every string code c that a stored row, or a waiting match, may hold.

        Keys and registers are not told apart by type, so an integer that looks like a code keeps it alive too.
        """
        if marks.shape[0] > 0:
            mark_codes(&self.core, self.tables.n_outputs, &marks[0], marks.shape[0])

    @property
    def tasks(self):
        """The plan's programs and how each is called, ``[(program, role)]``, for :mod:`fastcep.kernels`."""
        return tasks_of(self.plan)

    def use_kernels(self, kernels):
        """Run the programs of ``kernels``, ``{(program, role): address}``, by generated code (:mod:`fastcep.kernels`)."""
        self.tables.use_kernels(self.plan, kernels)

    @property
    def first_needed(self):
        """Position of the oldest event that a live partial match holds, or None."""
        first = first_position(&self.core)
        return None if first == INT64_MAX else first

    @property
    def live(self):
        """Partial matches that can still be extended, exactly."""
        return self.core.starts.live + self.core.elsewhere

    @property
    def arithmetic_nulls(self):
        shared = sum([one.arithmetic_nulls - nulls for one, nulls, _ in self.filters if self.counts])
        return self.core.vm.arithmetic_nulls + self.nulls + shared

    @property
    def function_errors(self):
        shared = sum([one.function_errors - errors for one, _, errors in self.filters if self.counts])
        return self.core.vm.function_errors + self.errors + shared

    @property
    def rows_stored(self):
        """Rows in all buckets, dead ones not yet removed included (an index counts for itself)."""
        return rows_in(&self.core, 0, self.core.n_indexes)

    @property
    def negated_events(self):
        """Events kept for negated variables, dead ones not yet removed included."""
        return rows_in(&self.core, self.core.n_indexes, self.core.n_indexes + self.core.n_negations)

    @property
    def waiting(self):
        """Matches that wait for the time at which they are decided."""
        return waiting(&self.core)

    @property
    def open_windows(self):
        """Explicit windows that are open."""
        return open_windows(&self.core)

    @property
    def keys(self):
        """Keys in all indexes, those of negated events too."""
        return keys_in(&self.core)

    @property
    def nbytes(self):
        """Bytes held: rows, indexes, starts, chain nodes, staging and output not yet taken."""
        return self.core.budget.used

    @property
    def key_bytes(self):
        """Bytes of the indexes without their rows."""
        return key_bytes(&self.core)

    @property
    def row_bytes(self):
        """Bytes of the rows in all indexes, room for more included, of their starts and of their chain nodes."""
        return row_bytes(&self.core)

    # ------------------------------------------------------------------ counters

    @property
    def events(self):
        return self.core.events

    @property
    def relevant(self):
        return self.core.relevant

    @property
    def rows_visited(self):
        return self.core.rows_visited

    @property
    def rows_created(self):
        return self.core.rows_created

    @property
    def matches(self):
        return self.core.matches

    @property
    def peak(self):
        return self.core.peak

    @property
    def lost(self):
        return self.core.lost
