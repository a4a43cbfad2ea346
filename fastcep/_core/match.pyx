# cython: language_level=3
"""The matcher: one query's plan run over batches of events, skip-till-any-match.

Data flow per batch, in chunks of ``CHUNK`` events: (1) event masks, vectorised: which members each event may be bound to;
(2) event columns (keys and values computed from the event alone), vectorised over the relevant events; (3) per relevant
event and member, ascending: probe the index of every incoming edge, filter the bucket by the edge's predicate, *stage* the
children, merge them in birth order, *commit* them to the target's indexes and emit complete matches.

Rows: fixed words (start ordinal, birth if needed, bindings of the members up to the state's: event position, node of the
chain for a Kleene member, -1 absent; member 0 is left out where the start tells its event) and columns (null bits of the
registers and registers, if any).
*Starts* (a ring) hold, per first event, its time and position, the number of its live rows and the chain nodes made
under it, so that expiry is one compare per row, counting live rows is exact, and nodes are freed with their start.

Invariants: rows of a bucket ascend by birth; no row is dead before its start is; staging keeps a scan apart from
the appends it causes; nothing is allocated per event once the buffers have grown.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memchr, memset

import numpy as np

from fastcep._core.memory cimport Budget, unlimited
from fastcep._core.predicate cimport CHUNK, Code, Input, Machine, machine_free, machine_new, run
from fastcep._core.stage cimport (
    Stage, child_bytes, stage_clear, stage_grow, stage_init, stage_merge, stage_rest,
)
from fastcep._core.starts cimport (
    Starts, count_rows, drop_all, expire, gather_starts, new_node, start_of, starts_bytes, starts_clear, starts_init,
    starts_rest,
)
from fastcep._core.store cimport (
    Bucket, Index, Source, append, bucket_at, column_of, compact, find, find_or_add, index_bytes, index_free,
    index_new, insert, key_of, sweep,
)
from fastcep._core.tables cimport Column, Edge, ForAll, IndexInfo, State, Tables
from fastcep._core.tables import tasks_of
from fastcep._core.vectors cimport Vec, fill, gather, push, reserve, take, vec_free

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil

cdef extern from *:
    int __builtin_ctzll(unsigned long long) noexcept nogil

cdef enum:              # kinds of program inputs, as in predicate.code_new
    ROW
    EVENT
    OUT
    ELEM

cdef enum:              # event columns that are not of the schema
    COLUMN_TIME = -1
    COLUMN_SEQ = -2
    COLUMN_TYPE = -3
    COLUMN_COMPUTED = -4

cdef int64_t SWEEP_BYTES = 1 << 20


cdef class Matcher:
    """State of one query.

    Parameters
    ----------
    plan
        ``fastcep.plan.Plan``.
    intern
        Callable that gives the int64 code of a string.
    """
    cdef readonly object plan
    cdef Tables tables
    cdef int n_members, n_indexes, n_columns, n_foralls, window_kind, bound
    cdef int64_t window
    cdef Column* columns             # of the tables
    cdef Edge* edges
    cdef State* states
    cdef IndexInfo* infos
    cdef ForAll* foralls
    cdef Index* indexes
    cdef Starts starts
    cdef Stage stage
    cdef Machine* vm
    cdef Input* inputs
    cdef int64_t* key                # scratch: the words of one key
    cdef Source* outputs             # scratch: where the outputs of new rows are,
    cdef Source* words               # the words of their keys
    cdef Source* row                 # and all words of the rows
    cdef int64_t ring_mask           # event ring, for for-all conditions
    cdef const uint16_t* ring_type
    cdef Vec* out_values             # output, per member
    cdef Vec* out_lengths
    cdef Vec detected, detected_counts
    cdef Vec* chains                 # scratch: elements of a Kleene member
    cdef int64_t emitted             # matches of the current event
    cdef readonly int64_t events, relevant, rows_visited, rows_created, matches, peak
    cdef int64_t next_birth, event_birth, sweep_at
    cdef Budget budget
    cdef int64_t swept               # bytes left by the last sweep
    cdef bint failed                 # out of memory, see _give_up
    cdef readonly int64_t lost       # live partial matches dropped for want of memory, in all

    def __cinit__(self, plan, intern):
        cdef Py_ssize_t i
        cdef Tables tables = Tables(plan, intern)
        self.plan = plan
        self.tables = tables
        self.n_members = tables.n_members
        self.n_columns = tables.n_columns
        self.n_foralls = tables.n_foralls
        self.bound = tables.bound
        self.columns, self.edges, self.states = tables.columns, tables.edges, tables.states
        self.infos, self.foralls = tables.infos, tables.foralls
        self.window_kind = plan.window_kind
        self.window = plan.window
        self.sweep_at = SWEEP_BYTES
        unlimited(&self.budget)
        self.vm = machine_new()
        self.inputs = <Input*>calloc(tables.n_inputs + 1, sizeof(Input))
        words = max([1] + [len(item.keys) for item in plan.indexes])
        self.key = <int64_t*>calloc(words, sizeof(int64_t))
        self.words = <Source*>calloc(words, sizeof(Source))
        self.outputs = <Source*>calloc(tables.n_outputs + 1, sizeof(Source))
        width = max([self.states[i].fixed + self.states[i].columns for i in range(self.n_members)])
        self.row = <Source*>calloc(width, sizeof(Source))
        self.out_values = <Vec*>calloc(self.n_members, sizeof(Vec))
        self.out_lengths = <Vec*>calloc(self.n_members, sizeof(Vec))
        self.chains = <Vec*>calloc(self.n_members, sizeof(Vec))
        self.indexes = <Index*>calloc(max(1, tables.n_indexes), sizeof(Index))
        for i, item in enumerate(plan.indexes):
            index_new(self.indexes + i, &self.budget, len(item.keys), self.states[item.state].fixed,
                      self.states[item.state].columns)
            self.n_indexes = i + 1
        for i in range(self.n_members):
            self.out_values[i].budget = self.out_lengths[i].budget = self.chains[i].budget = &self.budget
        self.detected.budget = self.detected_counts.budget = &self.budget
        if (starts_init(&self.starts, &self.budget) < 0
                or stage_init(&self.stage, &self.budget, self.n_members, tables.n_outputs) < 0):
            raise MemoryError("no memory for the matcher")

    def __dealloc__(self):
        cdef int i
        for i in range(self.n_members):
            if self.out_values != NULL:
                vec_free(self.out_values + i)
            if self.out_lengths != NULL:
                vec_free(self.out_lengths + i)
            if self.chains != NULL:
                vec_free(self.chains + i)
        for i in range(self.n_indexes):
            index_free(self.indexes + i)
        if self.stage.budget != NULL:
            stage_clear(&self.stage)
        starts_clear(&self.starts)
        free(self.indexes)
        free(self.inputs)
        free(self.key)
        free(self.words)
        free(self.outputs)
        free(self.row)
        free(self.out_values)
        free(self.out_lengths)
        free(self.chains)
        vec_free(&self.detected)
        vec_free(&self.detected_counts)
        machine_free(self.vm)

    # ------------------------------------------------------------------ Python's side

    def process(self, batch, int64_t position, ring):
        """Run over a batch whose first event has arrival ``position``; matches wait for :meth:`take_output`.

        Returns how many events were taken: all, or those before the one for which there was no memory. Then every
        partial match has been dropped (counted in ``lost``) and the matcher can go on with the next batch.
        """
        cdef Py_ssize_t n = len(batch), i
        cdef const int64_t[::1] time = batch.time
        cdef const uint16_t[::1] types = batch.type
        cdef const int64_t[::1] sequence
        cdef const int64_t* seq = NULL
        cdef list keep = []
        cdef const int64_t[::1] values
        cdef const uint8_t[::1] nulls
        cdef const int64_t** data
        cdef const uint8_t** null
        cdef Py_ssize_t taken
        if n == 0:
            return 0
        self.budget.refused = False
        if batch.sequence is not None:
            sequence = batch.sequence
            seq = &sequence[0]
        data = <const int64_t**>calloc(len(batch.columns) + 1, sizeof(void*))
        null = <const uint8_t**>calloc(len(batch.columns) + 1, sizeof(void*))
        try:
            for i, column in enumerate(batch.columns):
                values = column.view(np.int64)
                data[i] = &values[0]
                if batch.nulls[i] is not None:
                    nulls = batch.nulls[i]
                    null[i] = &nulls[0]
            if self.n_foralls:
                self._bind_ring(ring, keep)
            with nogil:
                taken = self._run(&time[0], &types[0], seq, data, null, n, position)
                FC_CHECK(self._held() == self.budget.used)
        finally:
            free(<void*>data)
            free(<void*>null)
        return taken

    def set_limit(self, int64_t limit):
        """Hold at most ``limit`` bytes from now on; if it is more already, what is dead goes."""
        self.budget.limit = limit
        if self.budget.used > limit:
            with nogil:
                self._sweep()

    @property
    def refused(self):
        """Whether the last want of memory was the limit's doing."""
        return self.budget.refused

    def _bind_ring(self, ring, list keep):
        cdef const int64_t[::1] values
        cdef const uint8_t[::1] nulls
        cdef const uint16_t[::1] types
        cdef int i, j
        self.ring_mask = ring.capacity - 1
        types = ring.arrays("type")[0]
        keep.append(types)
        self.ring_type = &types[0]
        names = {COLUMN_TIME: "time", COLUMN_SEQ: "seq"}
        for i in range(self.n_foralls):
            for j in range(self.foralls[i].n_elements):
                self.foralls[i].data[j] = NULL
                self.foralls[i].null[j] = NULL
                number = self.foralls[i].column[j]
                if number == COLUMN_TYPE:
                    continue
                array, mask = ring.arrays(names.get(number, number))
                values = array.view(np.int64)
                keep.append(values)
                self.foralls[i].data[j] = &values[0]
                if number >= 0 and mask is not None:
                    nulls = mask
                    keep.append(nulls)
                    self.foralls[i].null[j] = &nulls[0]

    def advance(self, int64_t time, int64_t position):
        """Move the clock: expire what can no longer match and give its memory back. ``position`` is the next event's."""
        with nogil:
            expire(&self.starts, self.window_kind, self.window, time, position)
            self._sweep()

    def clear(self):
        """Drop every partial match."""
        with nogil:
            drop_all(&self.starts)
            self._sweep()
            self._rest(True)

    def drop(self):
        """Drop every partial match for want of memory elsewhere, counted in ``lost``."""
        self.lost += self.starts.live
        self.clear()

    def take_output(self):
        """Return and empty the output: ``(values, lengths, detecting positions, matches per detecting position)``.

        ``values[m]`` holds event positions of member m, one per match (-1 absent); for a Kleene member its elements one
        match after the other, ``lengths[m]`` of them each (``lengths[m]`` is None for single members).
        """
        cdef int i
        values, lengths = [], []
        for i in range(self.n_members):
            values.append(take(self.out_values + i))
            lengths.append(take(self.out_lengths + i) if self.states[i].repeated else None)
        self.emitted = 0
        return values, lengths, take(&self.detected), take(&self.detected_counts)

    def mark_codes(self, uint8_t[::1] marks):
        """Set ``marks[c]`` for every string code c that a stored row may hold.

        Keys and registers are not told apart by type, so an integer that looks like a code keeps it alive too.
        """
        cdef int64_t limit = marks.shape[0], b, value
        cdef int i, w, r
        cdef Index* index
        cdef Bucket* bucket
        for i in range(self.n_indexes):
            index = self.indexes + i
            for b in range(index.n_buckets):
                bucket = bucket_at(index, b)
                for w in range(index.words):
                    value = key_of(bucket)[w]
                    if 0 <= value < limit:
                        marks[value] = 1
                for w in range(1, index.columns):
                    for r in range(bucket.head, bucket.size):
                        value = column_of(index, bucket, w)[r]
                        if 0 <= value < limit:
                            marks[value] = 1

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
        if self.starts.first == self.starts.next:
            return None
        return self.starts.position[self.starts.first & self.starts.mask]

    @property
    def live(self):
        """Partial matches that can still be extended, exactly."""
        return self.starts.live

    @property
    def arithmetic_nulls(self):
        return self.vm.arithmetic_nulls

    @property
    def function_errors(self):
        return self.vm.function_errors

    @property
    def rows_stored(self):
        """Rows in all buckets, dead ones not yet removed included (an index counts for itself)."""
        cdef int64_t total = 0, j
        cdef Bucket* bucket
        cdef int i
        for i in range(self.n_indexes):
            for j in range(self.indexes[i].n_buckets):
                bucket = bucket_at(self.indexes + i, j)
                total += bucket.size - bucket.head
        return total

    @property
    def keys(self):
        """Keys in all indexes."""
        cdef int64_t total = 0
        cdef int i
        for i in range(self.n_indexes):
            total += self.indexes[i].n_buckets
        return total

    @property
    def nbytes(self):
        """Bytes held: rows, indexes, starts, chain nodes, staging and output not yet taken."""
        return self.budget.used

    @property
    def key_bytes(self):
        """Bytes of the indexes without their rows."""
        cdef int64_t total = 0
        cdef int i
        for i in range(self.n_indexes):
            total += index_bytes(self.indexes + i) - self.indexes[i].bytes
        return total

    @property
    def row_bytes(self):
        """Bytes of the rows in all indexes, room for more included, of their starts and of their chain nodes."""
        cdef int64_t total = starts_bytes(&self.starts)
        cdef int i
        for i in range(self.n_indexes):
            total += self.indexes[i].bytes
        return total

    # ------------------------------------------------------------------ expiry

    cdef void _sweep(self) noexcept nogil:
        cdef int i
        cdef int64_t total = 0
        for i in range(self.n_indexes):
            sweep(self.indexes + i, self.starts.first)
            total += index_bytes(self.indexes + i)
        self.sweep_at = max(SWEEP_BYTES, total * 2)
        if self.starts.first == self.starts.next:
            self._rest(self.budget.used > self.budget.limit)
        self.swept = self.budget.used

    cdef void _rest(self, bint wholly) noexcept nogil:
        """Shrink what is large, or everything, now that there is no partial match."""
        cdef int m
        starts_rest(&self.starts, wholly)
        stage_rest(&self.stage, wholly)
        for m in range(self.n_members):
            if wholly or self.chains[m].capacity > 16 * CHUNK:
                vec_free(self.chains + m)
        FC_CHECK(self._held() == self.budget.used)

    cdef int64_t _held(self) noexcept nogil:
        """What the budget must say, added up."""
        cdef int64_t items = self.detected.capacity + self.detected_counts.capacity, total
        cdef int i
        for i in range(self.n_members):
            items += self.out_values[i].capacity + self.out_lengths[i].capacity + self.chains[i].capacity
        total = items * 8 + starts_bytes(&self.starts) + self.stage.capacity * child_bytes(&self.stage)
        for i in range(self.n_indexes):
            total += index_bytes(self.indexes + i)
        return total

    cdef inline bint _sweep_is_due(self) noexcept nogil:
        """Whether the indexes have doubled, or the budget is nearly spent and a sixty-fourth of it was taken since."""
        cdef int64_t total = 0, limit = self.budget.limit
        cdef int i
        for i in range(self.n_indexes):
            total += index_bytes(self.indexes + i)
        return total > self.sweep_at or (
            self.budget.used > limit - limit // 8 and self.budget.used > self.swept + limit // 64)

    cdef void _give_up(self) noexcept nogil:
        """Drop all partial matches and what the failed event has put out; the matches before it stay."""
        cdef int64_t whole = 0, values, i
        cdef int m
        for i in range(self.detected_counts.size):
            whole += self.detected_counts.data[i]
        self.detected.size = self.detected_counts.size
        for m in range(self.n_members):
            values = whole
            if self.states[m].repeated:
                values = 0
                for i in range(whole):
                    values += self.out_lengths[m].data[i]
                self.out_lengths[m].size = whole
            self.out_values[m].size = values
        self.lost += self.starts.live
        drop_all(&self.starts)
        self._sweep()
        self.failed = False

    # ------------------------------------------------------------------ the run

    cdef Py_ssize_t _run(self, const int64_t* time, const uint16_t* types, const int64_t* seq, const int64_t** data,
                         const uint8_t** null, Py_ssize_t n, int64_t position) noexcept nogil:
        """Take the events; returns how many, see ``process``."""
        cdef uint64_t bits[CHUNK]
        cdef int32_t relevant[CHUNK]
        cdef uint64_t pending
        cdef Py_ssize_t base = 0
        cdef int m, k, r, n_relevant
        while base < n:
            m = <int>min(<Py_ssize_t>CHUNK, n - base)
            n_relevant = self._masks(bits, relevant, time + base, types + base, NULL if seq == NULL else seq + base,
                                     data, null, base, m, position + base)
            self.relevant += n_relevant
            for r in range(n_relevant):
                k = relevant[r]
                expire(&self.starts, self.window_kind, self.window, time[base + k], position + base + k)
                self.event_birth = self.next_birth
                self.emitted = 0
                pending = bits[k]
                while pending and not self.failed:
                    self._bind(__builtin_ctzll(pending), k, position + base + k, time[base + k])
                    pending &= pending - 1
                if self.emitted and not self.failed:
                    if push(&self.detected, position + base + k) < 0 or push(&self.detected_counts, self.emitted) < 0:
                        self.failed = True
                    else:
                        self.matches += self.emitted
                if self.failed:
                    self._give_up()
                    self.events += base + k
                    return base + k
            if self._sweep_is_due():
                self._sweep()
            base += m
        self.events += n
        expire(&self.starts, self.window_kind, self.window, time[n - 1], position + n - 1)
        return n

    cdef int _masks(self, uint64_t* bits, int32_t* relevant, const int64_t* time, const uint16_t* types,
                    const int64_t* seq, const int64_t** data, const uint8_t** null, Py_ssize_t base, int m,
                    int64_t position) noexcept nogil:
        """Event masks and event columns of a chunk; returns how many events are relevant (listed in ``relevant``)."""
        cdef int i, k, c, n = 0, some
        cdef uint64_t member
        cdef Column* column
        cdef int32_t rows[CHUNK]
        cdef uint8_t keep[CHUNK]
        cdef int64_t result[CHUNK]
        cdef uint8_t result_null[CHUNK]
        cdef int64_t* outputs[1]
        cdef uint8_t* output_nulls[1]
        for k in range(m):
            bits[k] = self.tables.type_members[types[k]]
        for c in range(self.n_columns):
            column = self.columns + c
            if column.source >= 0:
                column.data = data[column.source] + base
                column.null = NULL if null[column.source] == NULL else null[column.source] + base
                continue
            column.null = NULL
            column.data = column.values
            if column.source == COLUMN_TIME:
                column.data = time
            elif column.source == COLUMN_SEQ:
                if seq != NULL:
                    column.data = seq
                else:
                    for k in range(m):
                        column.values[k] = position + k
            elif column.source == COLUMN_TYPE:
                for k in range(m):
                    column.values[k] = self.tables.type_codes[types[k]]
        for i in range(self.n_members):
            if not self.tables.has_local[i]:
                continue
            member = <uint64_t>1 << i
            some = 0
            for k in range(m):
                rows[some] = k
                some += (bits[k] & member) != 0
            if some == 0:
                continue
            self._event_inputs(self.tables.locals + i)
            memset(keep, 1, some)
            if run(self.vm, self.tables.locals + i, self.inputs, rows, some, keep, NULL, NULL, 0) == 0:
                memset(keep, 0, some)
            for k in range(some):
                if not keep[k]:
                    bits[rows[k]] &= ~member
        for k in range(m):
            relevant[n] = k
            n += bits[k] != 0
        for c in range(self.n_columns):
            column = self.columns + c
            if column.source != COLUMN_COMPUTED:
                continue
            some = 0
            for k in range(n):
                rows[some] = relevant[k]
                some += (bits[relevant[k]] & column.members) != 0
            if some == 0:
                continue
            self._event_inputs(&column.program)
            outputs[0] = result
            output_nulls[0] = result_null
            run(self.vm, &column.program, self.inputs, rows, some, NULL, outputs, output_nulls, 0)
            for k in range(some):
                column.values[rows[k]] = result[k]
                column.nulls[rows[k]] = result_null[k]
            column.null = column.nulls
        return n

    cdef inline void _event_inputs(self, const Code* program) noexcept nogil:
        """Inputs of a program over event columns, as columns of the chunk."""
        cdef int j
        cdef Column* column
        for j in range(program.n_inputs):
            column = self.columns + program.input_number[j]
            self.inputs[j].data = column.data
            self.inputs[j].nulls = column.null
            self.inputs[j].bits = NULL
            self.inputs[j].stride = 1

    cdef inline void _row_inputs(self, const Code* program, int number_of_index, const Bucket* bucket, int first,
                                 int k) noexcept nogil:
        """Inputs of an edge program: row registers from row ``first`` on, values of event ``k`` broadcast."""
        cdef int j, number
        cdef Column* column
        cdef Index* index = self.indexes + number_of_index
        for j in range(program.n_inputs):
            number = program.input_number[j]
            if program.input_kind[j] == EVENT:
                column = self.columns + number
                self.inputs[j].data = column.data + k
                self.inputs[j].nulls = NULL if column.null == NULL else column.null + k
                self.inputs[j].bits = NULL
                self.inputs[j].stride = 0
            else:
                self.inputs[j].data = column_of(index, bucket, 1 + number) + first
                self.inputs[j].nulls = NULL
                self.inputs[j].bits = column_of(index, bucket, 0) + first
                self.inputs[j].bit = number
                self.inputs[j].stride = 1

    cdef void _bind(self, int member, int k, int64_t position, int64_t time) noexcept nogil:
        """Bind event ``k`` of the chunk to ``member`` in every way: stage, merge, commit."""
        cdef State* state = self.states + member
        cdef Stage* stage = &self.stage
        cdef int e, parts = 0
        cdef int64_t before, j
        stage.size = 0
        for e in range(state.first_edge, state.end_edge):  # a state that only stores or accepts stages (nearly) nothing
            before = stage.size
            if self.edges[e].source < 0:
                self._stage_start(e, k, position, time)
            else:
                self._probe(e, k, position)
            parts += stage.size > before
            if self.failed:
                return
        if stage.size == 0:
            return
        if parts > 1:
            if stage_merge(stage) < 0:
                self.failed = True
                return
            for j in range(stage.size):
                self._commit(member, stage.order[j], position)
                if self.failed:
                    return
        else:
            for j in range(stage.size):
                self._commit(member, j, position)
                if self.failed:
                    return

    cdef void _stage_start(self, int e, int k, int64_t position, int64_t time) noexcept nogil:
        """Stage the row of a match that begins with event ``k``."""
        cdef Edge* edge = self.edges + e
        cdef Stage* stage = &self.stage
        cdef Column* column
        cdef int64_t ordinal
        cdef int j
        cdef uint8_t keep[1]
        if edge.has_predicate:
            keep[0] = 1
            self._row_inputs(&edge.predicate, 0, NULL, 0, k)
            if run(self.vm, &edge.predicate, self.inputs, NULL, 1, keep, NULL, NULL, 0) == 0:
                return
        if self.states[edge.target].only_stores and not edge.has_outputs:
            self._store_start(edge, k, position, time)
            return
        ordinal = start_of(&self.starts, time, position)
        if ordinal < 0:
            self.failed = True
            return
        stage.start[0] = ordinal
        stage.birth[0] = -1
        stage.edge[0] = e
        for j in range(edge.target + 1):
            stage.bind[j][0] = -1
        for j in range(edge.n_copies):
            column = self.columns + edge.copy_number[j]
            stage.out[edge.copy_output[j]][0] = column.data[k]
            stage.out_null[edge.copy_output[j]][0] = column.null != NULL and column.null[k]
        if edge.has_outputs:
            self._row_inputs(&edge.outputs, 0, NULL, 0, k)
            run(self.vm, &edge.outputs, self.inputs, NULL, 1, NULL, stage.out, stage.out_null, 0)
        stage.size = 1

    cdef void _store_start(self, const Edge* edge, int k, int64_t position, int64_t time) noexcept nogil:
        """Store the row of a match that begins with event ``k`` in the target's only index; all its outputs are copies."""
        cdef State* state = self.states + edge.target
        cdef IndexInfo* info = self.infos + state.indexes[0]
        cdef Index* index = self.indexes + state.indexes[0]
        cdef Column* column
        cdef Bucket* bucket
        cdef int64_t* key = self.key
        cdef int64_t* to
        cdef int64_t ordinal, number, row, nulls = 0
        cdef int c
        for c in range(info.n_keys):
            column = self.columns + edge.copy_number[info.keys[c]]
            if column.null != NULL and column.null[k]:
                return
            key[c] = column.data[k]
        ordinal = start_of(&self.starts, time, position)
        number = find(index, key)
        if number < 0:
            number = find_or_add(index, key)
        row = -1 if ordinal < 0 or number < 0 else append(index, number, self.starts.first)
        if row < 0:
            self.failed = True
            return
        bucket = bucket_at(index, number)
        to = bucket.data + row * index.fixed
        to[0] = ordinal
        if state.birth >= 0:
            to[state.birth] = self.next_birth
        for c in range(self.bound, edge.target + 1):
            to[state.bind + c - self.bound] = position if c == edge.target else -1
        for c in range(state.registers):
            column = self.columns + edge.copy_number[c]
            column_of(index, bucket, 1 + c)[row] = column.data[k]
            if column.null != NULL:
                nulls |= <int64_t>(<uint64_t>column.null[k] << c)
        if state.columns > 0:
            column_of(index, bucket, 0)[row] = nulls
        self.next_birth += 1
        self.rows_created += 1
        self.starts.rows[ordinal & self.starts.mask] += 1
        self.starts.live += 1
        if self.starts.live > self.peak:
            self.peak = self.starts.live

    cdef void _probe(self, int e, int k, int64_t position) noexcept nogil:
        """Make a child of every row of the edge's index that event ``k`` extends: staged, or stored or emitted at once."""
        cdef Edge* edge = self.edges + e
        cdef Index* index = self.indexes + edge.index
        cdef State* source = self.states + edge.source
        cdef State* target = self.states + edge.target
        cdef Column* column
        cdef Bucket* bucket
        cdef int64_t* key = self.key
        cdef int64_t number, fixed, live_from = self.starts.first
        cdef const int64_t* start
        cdef int32_t rows[CHUNK]
        cdef uint8_t keep[CHUNK]
        cdef int j, i, n, m, first, end, dead = 0
        for j in range(edge.n_probe):
            column = self.columns + edge.probe[j]
            if column.null != NULL and column.null[k]:
                return
            key[j] = column.data[k]
        if index.n_buckets == 0:
            return
        number = find(index, key)
        if number < 0:
            return
        bucket = bucket_at(index, number)
        fixed = source.fixed
        while bucket.head < bucket.size and bucket.data[bucket.head * fixed] < live_from:
            bucket.head += 1
        end = bucket.size
        if source.birth >= 0:  # rows that this very event made stand at the end
            while end > bucket.head and bucket.data[(end - 1) * fixed + source.birth] >= self.event_birth:
                end -= 1
        self.rows_visited += end - bucket.head
        first = bucket.head
        while first < end:
            m = min(CHUNK, end - first)
            n = 0
            start = bucket.data + first * fixed
            if edge.has_predicate:
                for i in range(m):
                    keep[i] = start[i * fixed] >= live_from
                self._row_inputs(&edge.predicate, edge.index, bucket, first, k)
                if run(self.vm, &edge.predicate, self.inputs, NULL, m, keep, NULL, NULL, 0) > 0:
                    for i in range(m):
                        rows[n] = i
                        n += keep[i]
            elif source.first:  # the dead are all before head
                n = m
            else:
                for i in range(m):
                    rows[n] = i
                    n += start[i * fixed] >= live_from
                dead += m - n
            if n > 0:
                if target.only_accepts:
                    self._emit_rows(edge, bucket, first, NULL if n == m else rows, n, position)
                elif target.only_stores:
                    self._store_rows(edge, bucket, first, NULL if n == m else rows, n, k, position)
                else:
                    self._stage_rows(e, bucket, first, NULL if n == m else rows, n, k)
                if self.failed:
                    return
            first += m
        if dead > (bucket.size - bucket.head) // 2 and dead > 8:
            compact(index, bucket, live_from)

    cdef void _stage_rows(self, int e, const Bucket* bucket, int first, const int32_t* rows, int n, int k) noexcept nogil:
        """Stage a child for ``n`` rows of a bucket: ``rows`` counted from row ``first`` (NULL = all of them)."""
        cdef Edge* edge = self.edges + e
        cdef State* source = self.states + edge.source
        cdef Stage* stage = &self.stage
        cdef Column* column
        cdef Index* index = self.indexes + edge.index
        cdef const int64_t* from_ = bucket.data + <int64_t>first * source.fixed
        cdef const int64_t* bits
        cdef int64_t size = stage.size
        cdef uint8_t* null
        cdef int i, j, o, r
        if size + n > stage.capacity and stage_grow(stage, size + n) < 0:
            self.failed = True
            return
        gather(stage.start + size, from_, source.fixed, rows, n)
        for i in range(n):
            stage.edge[size + i] = e
        if source.birth >= 0:
            gather(stage.birth + size, from_ + source.birth, source.fixed, rows, n)
        if self.bound:
            gather_starts(stage.bind[0] + size, &self.starts, stage.start + size, 1, NULL, n)
        for j in range(self.bound, edge.source + 1):
            gather(stage.bind[j] + size, from_ + source.bind + j - self.bound, source.fixed, rows, n)
        for j in range(edge.source + 1, edge.target + 1):
            fill(stage.bind[j] + size, -1, n)
        for j in range(edge.n_copies):
            o = edge.copy_output[j]
            r = edge.copy_number[j]
            null = stage.out_null[o] + size
            if edge.copy_from_row[j]:
                gather(stage.out[o] + size, column_of(index, bucket, 1 + r) + first, 1, rows, n)
                bits = column_of(index, bucket, 0) + first
                for i in range(n):
                    null[i] = (bits[i if rows == NULL else rows[i]] >> r) & 1
            else:
                column = self.columns + r
                fill(stage.out[o] + size, column.data[k], n)
                memset(null, column.null != NULL and column.null[k], n)
        if edge.has_outputs:
            self._row_inputs(&edge.outputs, edge.index, bucket, first, k)
            run(self.vm, &edge.outputs, self.inputs, rows, n, NULL, stage.out, stage.out_null, size)
        stage.size = size + n

    cdef void _emit_rows(self, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n,
                         int64_t position) noexcept nogil:
        """Write ``n`` rows of a bucket (as for ``_stage_rows``), completed by the event, to the output."""
        cdef State* source = self.states + edge.source
        cdef const int64_t* from_ = bucket.data + <int64_t>first * source.fixed
        cdef Vec* vec
        cdef int m
        for m in range(self.n_members):
            vec = self.out_values + m
            if vec.size + n > vec.capacity and reserve(vec, vec.size + n) < 0:
                self.failed = True
                return
            if m < self.bound:
                gather_starts(vec.data + vec.size, &self.starts, from_, source.fixed, rows, n)
            elif m <= edge.source:
                gather(vec.data + vec.size, from_ + source.bind + m - self.bound, source.fixed, rows, n)
            else:
                fill(vec.data + vec.size, position if m == edge.target else -1, n)
            vec.size += n
        self.emitted += n

    cdef void _store_rows(self, const Edge* edge, const Bucket* bucket, int first, const int32_t* rows, int n, int k,
                          int64_t position) noexcept nogil:
        """Store a child for ``n`` rows of a bucket (as for ``_stage_rows``) in the target's only index.

        Nothing is staged: the new rows are read where they are, but what has to be gathered or computed.
        """
        cdef State* state = self.states + edge.target
        cdef State* source = self.states + edge.source
        cdef Stage* stage = &self.stage
        cdef IndexInfo* info = self.infos + state.indexes[0]
        cdef Index* index = self.indexes + state.indexes[0]
        cdef Source* outputs = self.outputs
        cdef Source* row = self.row
        cdef Column* column
        cdef const int64_t* from_ = bucket.data + <int64_t>first * source.fixed
        cdef int64_t absent = -1, none = 0, stored, j
        cdef int c, o
        FC_CHECK(n <= stage.capacity)
        for c in range(edge.n_copies):
            o = edge.copy_output[c]
            if edge.copy_from_row[c]:
                self._register_source(outputs + o, edge, bucket, first, rows, n, edge.copy_number[c], o)
            else:
                column = self.columns + edge.copy_number[c]
                outputs[o].data = column.data + k
                outputs[o].step = 0
                outputs[o].null = column.null + k if column.null != NULL and column.null[k] else NULL
                outputs[o].null_step = 0
        if edge.has_outputs:
            self._row_inputs(&edge.outputs, edge.index, bucket, first, k)
            run(self.vm, &edge.outputs, self.inputs, rows, n, NULL, stage.out, stage.out_null, 0)
            for c in range(edge.n_computed):
                o = edge.computed[c]
                outputs[o].data = stage.out[o]
                outputs[o].step = 1
                outputs[o].null = stage.out_null[o] if memchr(stage.out_null[o], 1, n) != NULL else NULL
                outputs[o].null_step = 1
        for c in range(info.n_keys):
            self.words[c] = outputs[info.keys[c]]
        self._word_source(row, from_, source.fixed, rows, n, stage.start)
        for c in range(self.bound, edge.target + 1):
            o = state.bind + c - self.bound
            if c <= edge.source:
                self._word_source(row + o, from_ + source.bind + c - self.bound, source.fixed, rows, n, stage.bind[c])
            else:
                row[o].data = &position if c == edge.target else &absent
                row[o].step = 0
        if state.birth >= 0:
            for j in range(n):
                stage.birth[j] = self.next_birth + j
            row[state.birth].data = stage.birth
            row[state.birth].step = 1
        if state.columns > 0:
            row[state.fixed].data = &none
            row[state.fixed].step = 0
            for c in range(state.registers):
                row[state.fixed + 1 + c] = outputs[c]
                if outputs[c].null != NULL:
                    row[state.fixed].data = stage.nulls
                    row[state.fixed].step = 1
            if row[state.fixed].step:
                self._null_words(state, n)
        stored = insert(index, self.words, row, n, self.starts.first)
        if stored < 0:
            self.failed = True
            return
        self.next_birth += n
        self.rows_created += stored
        self.starts.live += stored
        if stored == n:
            count_rows(&self.starts, row[0].data, row[0].step, n)
        elif stored > 0:
            self._count_keyed(index.words, row, n)
        if self.starts.live > self.peak:
            self.peak = self.starts.live

    cdef void _count_keyed(self, int words, const Source* start, int64_t n) noexcept nogil:
        """Count the new rows under their starts, but those with a null key word."""
        cdef int64_t j
        cdef int w
        for j in range(n):
            for w in range(words):
                if self.words[w].null != NULL and self.words[w].null[j * self.words[w].null_step]:
                    break
            else:
                self.starts.rows[start.data[j * start.step] & self.starts.mask] += 1

    cdef inline void _word_source(self, Source* out, const int64_t* data, int step, const int32_t* rows, int n,
                                  int64_t* scratch) noexcept nogil:
        """Where a word of the chosen rows is: in the bucket, or gathered to ``scratch``."""
        out.data = data
        out.step = step
        if rows != NULL:
            gather(scratch, data, step, rows, n)
            out.data = scratch
            out.step = 1

    cdef inline void _register_source(self, Source* out, const Edge* edge, const Bucket* bucket, int first,
                                      const int32_t* rows, int n, int register, int output) noexcept nogil:
        """Where a register of the chosen rows is, as new output ``output``."""
        cdef Index* index = self.indexes + edge.index
        cdef const int64_t* bits = column_of(index, bucket, 0) + first
        cdef uint8_t* null = self.stage.out_null[output]
        cdef uint8_t found = 0
        cdef int i
        self._word_source(out, column_of(index, bucket, 1 + register) + first, 1, rows, n, self.stage.out[output])
        for i in range(n):
            null[i] = (bits[i if rows == NULL else rows[i]] >> register) & 1
            found |= null[i]
        out.null = null if found else NULL
        out.null_step = 1

    cdef void _null_words(self, const State* state, int n) noexcept nogil:
        """The null bits of the registers of ``n`` new rows, from ``outputs`` to ``stage.nulls``."""
        cdef Source* item
        cdef int c, i
        memset(self.stage.nulls, 0, n * sizeof(int64_t))
        for c in range(state.registers):
            item = self.outputs + c
            if item.null != NULL:
                for i in range(n):
                    self.stage.nulls[i] |= <int64_t>(<uint64_t>item.null[i * item.null_step] << c)

    cdef void _commit(self, int member, int64_t j, int64_t position) noexcept nogil:
        """Make staged child ``j`` a row of ``member``'s indexes, or a match, or both."""
        cdef State* state = self.states + member
        cdef Stage* stage = &self.stage
        cdef Edge* edge = self.edges + stage.edge[j]
        cdef IndexInfo* info
        cdef int64_t nulls
        cdef int i, c
        cdef bint stored = False
        if state.repeated:
            stage.bind[member][j] = new_node(&self.starts, position, stage.bind[member][j], stage.start[j])
            if stage.bind[member][j] < 0:
                self.failed = True
                return
        else:
            stage.bind[member][j] = position
        for i in range(edge.n_forall):
            if not self._holds(edge.forall[i], j):
                return
        if state.accepting and self._guard(state.accept_guard, j):
            for i in range(state.n_accept_forall):
                if not self._holds(state.accept_forall[i], j):
                    break
            else:
                self._emit(member, j)
        nulls = self._null_bits(state, j)
        for i in range(state.n_indexes):
            info = self.infos + state.indexes[i]
            if not self._guard(info.guard, j):
                continue
            for c in range(info.n_forall):
                if not self._holds(info.forall[c], j):
                    break
            else:
                stored |= self._insert(state, member, state.indexes[i], j, nulls)
        if stored:
            self._count_row(j)

    cdef inline int64_t _null_bits(self, const State* state, int64_t j) noexcept nogil:
        """Null bits of the registers of staged row ``j``."""
        cdef int64_t nulls = 0
        cdef int i
        for i in range(state.registers):
            nulls |= <int64_t>(<uint64_t>self.stage.out_null[i][j] << i)
        return nulls

    cdef inline void _count_row(self, int64_t j) noexcept nogil:
        """Account for staged row ``j``, which is a live partial match now."""
        self.next_birth += 1
        self.rows_created += 1
        self.starts.rows[self.stage.start[j] & self.starts.mask] += 1
        self.starts.live += 1
        if self.starts.live > self.peak:
            self.peak = self.starts.live

    cdef inline bint _insert(self, const State* state, int member, int number, int64_t j, int64_t nulls) noexcept nogil:
        """Append staged row ``j`` to an index; False if a key word is null (it joins nothing) or memory is out."""
        cdef Stage* stage = &self.stage
        cdef IndexInfo* info = self.infos + number
        cdef Index* index = self.indexes + number
        cdef Bucket* bucket
        cdef int64_t* key = self.key
        cdef int64_t found, row
        cdef int64_t* to
        cdef int c, o
        for c in range(info.n_keys):
            o = info.keys[c]
            if stage.out_null[o][j]:
                return False
            key[c] = stage.out[o][j]
        found = find(index, key)
        if found < 0:
            found = find_or_add(index, key)
        row = -1 if found < 0 else append(index, found, self.starts.first)
        if row < 0:
            self.failed = True
            return False
        bucket = bucket_at(index, found)
        to = bucket.data + row * index.fixed
        to[0] = stage.start[j]
        if state.birth >= 0:
            to[state.birth] = self.next_birth
        for c in range(self.bound, member + 1):
            to[state.bind + c - self.bound] = stage.bind[c][j]
        if state.columns > 0:
            column_of(index, bucket, 0)[row] = nulls
        for c in range(state.registers):
            column_of(index, bucket, 1 + c)[row] = stage.out[c][j]
        return True

    cdef inline bint _guard(self, int output, int64_t j) noexcept nogil:
        """Whether guard ``output`` (-1 = none) of staged row ``j`` is true."""
        return output < 0 or (self.stage.out[output][j] != 0 and not self.stage.out_null[output][j])

    cdef int64_t _elements(self, int member, int64_t j) noexcept nogil:
        """Write the elements of a staged row's Kleene member, oldest first, to ``chains[member]``; returns how many."""
        cdef Vec* chain = self.chains + member
        cdef int64_t node = self.stage.bind[member][j], low, high, swap
        chain.size = 0
        while node >= 0:
            if push(chain, self.starts.event[node]) < 0:
                self.failed = True
                return 0
            node = self.starts.previous[node]
        low = 0
        high = chain.size - 1
        while low < high:
            swap = chain.data[low]
            chain.data[low] = chain.data[high]
            chain.data[high] = swap
            low += 1
            high -= 1
        return chain.size

    cdef bint _holds(self, int number, int64_t j) noexcept nogil:
        """Whether for-all condition ``number`` holds for every i of staged row ``j``."""
        cdef ForAll* item = self.foralls + number
        cdef Stage* stage = &self.stage
        cdef int64_t low = INT64_MIN, high = INT64_MAX, first, slot
        cdef int i, e, n, kept
        cdef int64_t* values
        cdef uint8_t* nulls
        cdef uint8_t keep[CHUNK]
        cdef Code* program = &item.program
        if not self._guard(item.guard, j):
            return True
        for e in range(item.n_elements):
            low = max(low, -<int64_t>item.offset[e])
            high = min(high, self._elements(item.member[e], j) - item.offset[e])
        values = item.values
        nulls = item.nulls
        first = low
        kept = n = 0
        while first < high and kept == n:
            n = <int>min(<int64_t>CHUNK, high - first)
            for e in range(item.n_elements):
                for i in range(n):
                    slot = self.chains[item.member[e]].data[first + i + item.offset[e]] & self.ring_mask
                    if item.column[e] == COLUMN_TYPE:
                        values[e * CHUNK + i] = self.tables.type_codes[self.ring_type[slot]]
                    else:
                        values[e * CHUNK + i] = item.data[e][slot]
                    nulls[e * CHUNK + i] = 0 if item.null[e] == NULL else item.null[e][slot]
            for i in range(program.n_inputs):
                e = program.input_number[i]
                self.inputs[i].bits = NULL
                if program.input_kind[i] == ELEM:
                    self.inputs[i].data = values + e * CHUNK
                    self.inputs[i].nulls = nulls + e * CHUNK
                    self.inputs[i].stride = 1
                else:
                    self.inputs[i].data = stage.out[e] + j
                    self.inputs[i].nulls = stage.out_null[e] + j
                    self.inputs[i].stride = 0
            memset(keep, 1, n)
            kept = run(self.vm, program, self.inputs, NULL, n, keep, NULL, NULL, 0)
            first += n
        return kept == n

    cdef void _emit(self, int member, int64_t j) noexcept nogil:
        """Write staged row ``j``, a complete match, to the output."""
        cdef int m
        cdef int64_t i, count, bound
        for m in range(self.n_members):
            if self.states[m].repeated:
                count = self._elements(m, j) if m <= member else 0
                for i in range(count):
                    if push(self.out_values + m, self.chains[m].data[i]) < 0:
                        self.failed = True
                if push(self.out_lengths + m, count) < 0:
                    self.failed = True
            else:
                bound = self.stage.bind[m][j] if m <= member else -1
                if push(self.out_values + m, bound) < 0:
                    self.failed = True
        self.emitted += 1
