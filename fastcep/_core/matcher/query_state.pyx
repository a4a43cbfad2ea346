# cython: language_level=3
"""Memory and metrics of the state of one query.

``QueryState`` allocates the buffers of ``Core`` for a plan, frees them, and reports counters and sizes. ``Matcher``
derives from it and changes the state.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t, uint8_t
from libc.stdlib cimport calloc, free

from fastcep._core.input.filters cimport Passed
from fastcep._core.matches.policy cimport policy_clear
from fastcep._core.memory.allocator cimport unlimited
from fastcep._core.memory.match_set cimport seen_clear, seen_init
from fastcep._core.memory.pending_matches cimport pending_clear, pending_init
from fastcep._core.memory.row_store cimport Index, Source, index_clear, index_init
from fastcep._core.memory.starts cimport EVENTS, starts_clear, starts_init
from fastcep._core.memory.vectors cimport Vec, vec_free
from fastcep._core.program.plan_tables cimport Step, Tables
from fastcep._core.program.predicate cimport CHUNK, Input, machine_free, machine_new
from fastcep._core.shed.lineage cimport observe_free
from fastcep._core.shed.tables_memory cimport shed_free
from fastcep._core.state.core cimport stores_of
from fastcep._core.state.isolated_windows cimport end_parts
from fastcep._core.state.stage cimport stage_clear, stage_init
from fastcep._core.state.state_metrics cimport (
    first_position, key_bytes, keys_in, open_windows, row_bytes, rows_in, waiting,
)


cdef class QueryState:
    """State of one query: its buffers, counters and sizes.

    Parameters
    ----------
    plan
        ``fastcep.plan.Plan``.
    intern
        Callable that returns the int64 code of a string.
    """

    def __cinit__(self, plan, intern):
        cdef Py_ssize_t i
        cdef Tables tables = Tables(plan, intern)
        self.plan = plan
        self.tables = tables
        self.core.n_variables, self.core.n_slots = tables.n_variables, tables.n_slots
        self.core.n_states = tables.n_states
        self.core.n_columns, self.core.n_foralls, self.core.n_sets = tables.n_columns, tables.n_foralls, tables.n_sets
        self.core.implied = tables.implied
        self.core.variables = tables.variables
        self.core.negations, self.core.absences = tables.negations, tables.absences
        self.core.period = plan.period
        self.core.must_advance, self.core.removes = plan.must_advance, plan.removes
        self.core.select, self.core.consumes = plan.select, plan.consumes
        self.core.after_match, self.core.limit = plan.after_match, plan.limit
        self.core.longest = plan.longest
        self.core.skip_to = sum(1 << variable for variable in plan.skip_to)
        self.core.has_policy = not plan.longest and (
            plan.select != 0 or plan.consumes or plan.after_match != 0 or plan.limit > 0)
        self.core.follows = plan.follows
        self.core.visits_all = plan.longest and (plan.follows or plan.window_kind == EVENTS)
        self.core.previous_column = -1
        for i, item in enumerate(plan.columns):
            if item.column == -6 and plan.partition is not None:
                self.core.previous_column = i
        self.core.due = INT64_MAX
        self.core.last_missed = INT64_MIN
        self.core.columns, self.core.edges, self.core.states = tables.columns, tables.edges, tables.states
        self.core.infos, self.core.foralls = tables.infos, tables.foralls
        self.core.relevance, self.core.windows.relevant = tables.relevance, tables.relevance.begins
        self.core.window_kind = plan.window_kind
        self.core.window = plan.window
        self.core.type_variables, self.core.type_codes = tables.type_variables, tables.type_codes
        self.core.locals, self.core.local_variables = tables.locals, tables.local_variables
        self.core.local_all = tables.local_all
        self.core.selections = &tables.selections
        unlimited(&self.core.budget)
        self.core.vm = machine_new()
        self.core.inputs = <Input*>calloc(tables.n_inputs + 1, sizeof(Input))
        key_words = max([1] + [len(item.keys) for item in (*plan.indexes, *plan.negations, *plan.kept)]
                        + [len(item.words) for item in plan.steps])
        if plan.partition is not None:
            key_words = max(key_words, len(plan.partition.floats))
            self.core.partition, self.core.partition_floats = tables.partition, tables.partition_floats
            if index_init(&self.core.partitions, &self.core.budget, len(plan.partition.floats), 1, 0) < 0:
                raise MemoryError("no memory for the matcher")
        self.core.n_partition = len(plan.per_partition[0]) if plan.per_partition else 0
        key_words = max(key_words, self.core.n_partition)
        self.core.key = <int64_t*>calloc(key_words, sizeof(int64_t))
        self.core.words = <Source*>calloc(key_words, sizeof(Source))
        self.core.outputs = <Source*>calloc(tables.n_outputs + 1, sizeof(Source))
        width = max([self.core.states[i].fixed + self.core.states[i].columns for i in range(tables.n_states)], default=1)
        self.core.row = <Source*>calloc(width, sizeof(Source))
        self.core.out_values = <Vec*>calloc(self.core.n_variables, sizeof(Vec))
        self.core.out_lengths = <Vec*>calloc(self.core.n_variables, sizeof(Vec))
        self.core.timed_values = <Vec*>calloc(self.core.n_variables, sizeof(Vec))
        self.core.timed_lengths = <Vec*>calloc(self.core.n_variables, sizeof(Vec))
        self.core.passed = <const Passed**>calloc(self.core.n_variables, sizeof(void*))
        self.core.next_passed = <int64_t*>calloc(self.core.n_variables, sizeof(int64_t))
        self.core.chains = <Vec*>calloc(self.core.n_slots, sizeof(Vec))
        self.core.cursor = <int64_t*>calloc(self.core.n_variables, sizeof(int64_t))
        self.core.indexes = <Index*>calloc(tables.n_indexes + tables.n_negations + tables.n_kept + 1, sizeof(Index))
        for i, item in enumerate(plan.indexes):
            if index_init(self.core.indexes + i, &self.core.budget, len(item.keys), self.core.states[item.state].fixed,
                          self.core.states[item.state].columns) < 0:
                raise MemoryError("no memory for the matcher")
            self.core.n_indexes = i + 1
            self.core.cuts |= item.latest >= 0 and not plan.timed_out and (plan.follows or not plan.longest)
        for i, item in enumerate(plan.negations):
            if index_init(self.core.indexes + self.core.n_indexes + i, &self.core.budget, len(item.keys), 3,
                          len(item.registers) + 1 if item.registers else 0) < 0:
                raise MemoryError("no memory for the matcher")
            self.core.n_negations = i + 1
        if plan.limit > 0 and plan.per_partition:
            if index_init(self.core.indexes + stores_of(&self.core), &self.core.budget, self.core.n_partition, 1, 0) < 0:
                raise MemoryError("no memory for the matcher")
            self.core.n_counts = 1
        self._init_factorised(tables)
        for i in range(self.core.n_variables):
            self.core.out_values[i].budget = self.core.out_lengths[i].budget = &self.core.budget
            self.core.timed_values[i].budget = self.core.timed_lengths[i].budget = &self.core.budget
        for i in range(self.core.n_slots):
            self.core.chains[i].budget = &self.core.budget
        self.core.detected.budget = self.core.detected_times.budget = self.core.detected_counts.budget = &self.core.budget
        self.core.advanced.budget = self.core.bound.budget = self.core.ends.budget = &self.core.budget
        self.core.chosen.budget = self.core.leaving.budget = self.core.horizons.budget = &self.core.budget
        self.core.touched.budget = &self.core.budget
        seen_init(&self.core.seen, &self.core.budget)
        pending_init(&self.core.pending, &self.core.budget, 3 + self.core.n_slots + 2 * tables.n_outputs)
        if (starts_init(&self.core.starts, &self.core.budget, self.core.window_kind, plan.lives, plan.longest) < 0
                or stage_init(&self.core.stage, &self.core.budget, self.core.n_slots, tables.n_outputs) < 0):
            raise MemoryError("no memory for the matcher")
        self.core.parts = 1
        self.core.places.budget = self.core.timed_places.budget = &self.core.budget
        self.core.out_windows.budget = self.core.windows.budget = &self.core.budget
        if plan.windows is not None:
            self.core.is_isolated = plan.windows.isolated
            self.core.windows.closing, self.core.windows.length = plan.windows.closing, plan.windows.length
            self.core.is_shared = not self.core.is_isolated
        self.core.reports_timeouts = plan.timed_out
        self.core.starts.keeps = plan.timed_out and plan.windows is None
        self.core.timed.budget = self.core.timed_rows.budget = &self.core.budget
        self.core.outside.starts = self.core.starts
        self.core.outside.indexes = self.core.indexes
        self.core.outside.pending = self.core.pending

    cdef int _init_factorised(self, Tables tables) except -1:
        """Allocate the factorised store, if the plan uses it."""
        cdef Py_ssize_t i
        cdef Step* step
        cdef int variables = self.core.n_variables
        self.core.factorised = tables.n_kept > 0
        if not self.core.factorised:
            return 0
        self.core.kept, self.core.first_kept = tables.kept, tables.first_kept
        self.core.back = <Step**>calloc(variables, sizeof(void*))
        self.core.again = <Step**>calloc(variables, sizeof(void*))
        self.core.held = <int64_t*>calloc(tables.n_held + 1, sizeof(int64_t))
        self.core.held_null = <uint8_t*>calloc(tables.n_held + 1, 1)
        self.core.zeros = <uint8_t*>calloc(CHUNK, sizeof(int64_t))
        self.core.frames.budget = &self.core.budget
        self.core.has_pairs = any(len(item.keys) == 2 for item in self.plan.kept)
        for i, item in enumerate(self.plan.kept):
            columns = item.n_columns + (item.predecessor is not None)
            if index_init(self.core.indexes + i, &self.core.budget, len(item.keys), 1, columns) < 0:
                raise MemoryError("no memory for the matcher")
            self.core.n_indexes = i + 1
        for i, item in enumerate(self.plan.steps):
            step = tables.steps + i
            if item.source == item.variable:
                self.core.again[step.variable] = step
            else:
                self.core.back[step.variable] = step
            if step.compares and index_init(&self.core.hashed, &self.core.budget, step.n_words, 1, 0) < 0:
                raise MemoryError("no memory for the matcher")
        return 0

    def __dealloc__(self):
        cdef int i
        end_parts(&self.core)
        for i in range(self.core.n_variables):
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
        free(self.core.zeros)
        vec_free(&self.core.frames)
        free(self.core.timed_values)
        free(self.core.timed_lengths)
        vec_free(&self.core.timed)
        vec_free(&self.core.timed_rows)
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

    # ------------------------------------------------------------------ counters and sizes

    @property
    def refused(self):
        """True if the last allocation that failed exceeded the limit."""
        return self.core.budget.refused

    @property
    def is_empty(self):
        """True if the state holds no row (live or dead) and no window."""
        cdef int i
        if self.core.windows.first < self.core.windows.next or self.core.pending.size > 0:
            return False
        for i in range(self.core.n_indexes + self.core.n_negations):
            if self.core.indexes[i].n_buckets > 0:
                return False
        return self.core.partitions.n_buckets == 0

    @property
    def limit(self):
        """Largest number of bytes that the state may hold."""
        return self.core.budget.limit

    @property
    def first_needed(self):
        """Position of the oldest event that a live partial match binds, or None."""
        first = first_position(&self.core)
        return None if first == INT64_MAX else first

    @property
    def live(self):
        """Exact number of partial matches that can still be extended."""
        return self.core.starts.live + self.core.live_in_windows

    @property
    def rows_stored(self):
        """Number of rows in all buckets, including dead rows not yet removed; a row counts once per index."""
        return rows_in(&self.core, 0, self.core.n_indexes)

    @property
    def negated_events(self):
        """Number of events kept for negated variables, including dead ones not yet removed."""
        return rows_in(&self.core, self.core.n_indexes, self.core.n_indexes + self.core.n_negations)

    @property
    def waiting(self):
        """Number of matches that wait for the time at which they are decided."""
        return waiting(&self.core)

    @property
    def open_windows(self):
        """Number of open explicit windows."""
        return open_windows(&self.core)

    @property
    def keys(self):
        """Number of keys in all indexes, including those of negated events."""
        return keys_in(&self.core)

    @property
    def nbytes(self):
        """Bytes held by rows, indexes, starts, chain nodes, the stage and output not yet taken."""
        return self.core.budget.used

    @property
    def key_bytes(self):
        """Bytes of the indexes without their rows."""
        return key_bytes(&self.core)

    @property
    def row_bytes(self):
        """Bytes of the rows in all indexes (capacity, not only used rows), of their starts and of their chain nodes."""
        return row_bytes(&self.core)

    @property
    def events(self):
        """Number of events processed."""
        return self.core.events

    @property
    def relevant(self):
        """Number of events that some variable could bind."""
        return self.core.relevant

    @property
    def rows_visited(self):
        """Number of partial matches tried with an event."""
        return self.core.rows_visited

    @property
    def rows_created(self):
        """Number of partial matches stored."""
        return self.core.rows_created

    @property
    def matches(self):
        """Number of matches emitted."""
        return self.core.matches

    @property
    def peak(self):
        """Largest number of live partial matches so far."""
        return self.core.peak

    @property
    def lost(self):
        """Number of live partial matches dropped because memory ran out."""
        return self.core.lost
