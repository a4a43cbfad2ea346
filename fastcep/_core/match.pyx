# cython: language_level=3
"""The matcher: one query's plan run over batches of events, skip-till-any-match.

Data flow per batch, in chunks of ``CHUNK`` events: (1) event masks, vectorised: which members each event may be bound to;
(2) event columns (keys and values computed from the event alone), vectorised over the relevant events; (3) per relevant
event and member, ascending: probe the index of every incoming edge, filter the bucket by the edge's predicate, *stage* the
children, merge them in birth order, *commit* them to the target's indexes and emit complete matches.

Rows: column 0 start ordinal, then birth (if needed), null bits of the registers (if any), bindings of members
0..state (event position; node of the chain for a Kleene member; -1 absent), registers.
*Starts* (a ring) hold, per first event, its time and position, the number of its live rows and the chain nodes made
under it, so that expiry is one compare per row, counting live rows is exact, and nodes are freed with their start.

Invariants: rows of a bucket ascend by birth; no row is dead before its start is; staging keeps a scan apart from
the appends it causes; nothing is allocated per event once the buffers have grown.
"""
from libc.stdint cimport INT64_MAX, INT64_MIN, int32_t, int64_t, uint8_t, uint16_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

import numpy as np

from fastcep._core.predicate cimport CHUNK, Code, Input, Machine, machine_free, machine_new, run
from fastcep._core.stage cimport Stage, stage_clear, stage_grow, stage_init, stage_merge, stage_rest
from fastcep._core.starts cimport (
    Starts, drop_first, expire, new_node, start_of, starts_clear, starts_init, starts_rest,
)
from fastcep._core.store cimport (
    Bucket, Index, append, compact, find, find_or_add, index_bytes, index_free, index_new, sweep,
)
from fastcep._core.tables cimport Column, Edge, ForAll, IndexInfo, State, Tables
from fastcep._core.tables import tasks_of
from fastcep._core.vectors cimport Vec, push, reserve, take

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
    cdef int n_members, n_indexes, n_columns, n_foralls, window_kind
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
    cdef int64_t ring_mask           # event ring, for for-all conditions
    cdef const uint16_t* ring_type
    cdef Vec* out_values             # output, per member
    cdef Vec* out_lengths
    cdef Vec detected, detected_counts
    cdef Vec* chains                 # scratch: elements of a Kleene member
    cdef int64_t emitted             # matches of the current event
    cdef readonly int64_t events, relevant, rows_visited, rows_created, matches, peak
    cdef int64_t next_birth, event_birth, sweep_at
    cdef int failed                  # out of memory

    def __cinit__(self, plan, intern):
        cdef Py_ssize_t i
        cdef Tables tables = Tables(plan, intern)
        self.plan = plan
        self.tables = tables
        self.n_members = tables.n_members
        self.n_columns = tables.n_columns
        self.n_foralls = tables.n_foralls
        self.columns, self.edges, self.states = tables.columns, tables.edges, tables.states
        self.infos, self.foralls = tables.infos, tables.foralls
        self.window_kind = plan.window_kind
        self.window = plan.window
        self.sweep_at = SWEEP_BYTES
        self.vm = machine_new()
        self.inputs = <Input*>calloc(tables.n_inputs + 1, sizeof(Input))
        self.key = <int64_t*>calloc(max([1] + [len(item.keys) for item in plan.indexes]), sizeof(int64_t))
        self.out_values = <Vec*>calloc(self.n_members, sizeof(Vec))
        self.out_lengths = <Vec*>calloc(self.n_members, sizeof(Vec))
        self.chains = <Vec*>calloc(self.n_members, sizeof(Vec))
        self.indexes = <Index*>calloc(max(1, tables.n_indexes), sizeof(Index))
        for i, item in enumerate(plan.indexes):
            index_new(self.indexes + i, len(item.keys), self.states[item.state].columns)
            self.n_indexes = i + 1
        if starts_init(&self.starts) < 0 or stage_init(&self.stage, self.n_members, tables.n_outputs) < 0:
            raise MemoryError("no memory for the matcher")

    def __dealloc__(self):
        cdef int i
        for i in range(self.n_members):
            if self.out_values != NULL:
                free(self.out_values[i].data)
            if self.out_lengths != NULL:
                free(self.out_lengths[i].data)
            if self.chains != NULL:
                free(self.chains[i].data)
        for i in range(self.n_indexes):
            index_free(self.indexes + i)
        stage_clear(&self.stage)
        starts_clear(&self.starts)
        free(self.indexes)
        free(self.inputs)
        free(self.key)
        free(self.out_values)
        free(self.out_lengths)
        free(self.chains)
        free(self.detected.data)
        free(self.detected_counts.data)
        machine_free(self.vm)

    # ------------------------------------------------------------------ Python's side

    def process(self, batch, int64_t position, ring):
        """Run over a batch whose first event has arrival ``position``; matches wait for :meth:`take_output`."""
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
        if n == 0:
            return
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
                self._run(&time[0], &types[0], seq, data, null, n, position)
        finally:
            free(<void*>data)
            free(<void*>null)
        if self.failed:
            raise MemoryError("no memory for partial matches")

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
        if self.failed:
            raise MemoryError("no memory for partial matches")

    def clear(self):
        """Drop every partial match."""
        with nogil:
            while self.starts.first < self.starts.next:
                drop_first(&self.starts)
            self._sweep()

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
        cdef int i, w, c, r
        cdef Index* index
        cdef Bucket* bucket
        for i in range(self.n_indexes):
            index = self.indexes + i
            c = self.states[self.plan.indexes[i].state].register_base
            for b in range(index.n_buckets):
                bucket = index.buckets + b
                for w in range(index.words):
                    value = index.keys[b * index.words + w]
                    if 0 <= value < limit:
                        marks[value] = 1
                for w in range(c, index.columns):
                    for r in range(bucket.head, bucket.size):
                        value = bucket.data[<int64_t>w * bucket.capacity + r]
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
    def rows_stored(self):
        """Rows in all buckets, dead ones not yet removed included (an index counts for itself)."""
        cdef int64_t total = 0, j
        cdef int i
        for i in range(self.n_indexes):
            for j in range(self.indexes[i].n_buckets):
                total += self.indexes[i].buckets[j].size - self.indexes[i].buckets[j].head
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
        cdef int64_t total = 0
        cdef int i
        for i in range(self.n_indexes):
            total += index_bytes(self.indexes + i)
        total += (self.starts.mask + 1) * 32 + self.starts.node_capacity * 24
        total += self.stage.capacity * (28 + 8 * self.n_members + 9 * self.tables.n_outputs)
        for i in range(self.n_members):
            total += (self.out_values[i].capacity + self.out_lengths[i].capacity + self.chains[i].capacity) * 8
        return total + (self.detected.capacity + self.detected_counts.capacity) * 8

    # ------------------------------------------------------------------ expiry

    cdef void _sweep(self) noexcept nogil:
        cdef int i
        cdef int64_t total = 0
        for i in range(self.n_indexes):
            if sweep(self.indexes + i, self.starts.first) < 0:
                self.failed = 1
            total += self.indexes[i].bytes
        self.sweep_at = max(SWEEP_BYTES, total * 2)
        if self.starts.first == self.starts.next and (starts_rest(&self.starts) < 0 or stage_rest(&self.stage) < 0):
            self.failed = 1

    # ------------------------------------------------------------------ the run

    cdef void _run(self, const int64_t* time, const uint16_t* types, const int64_t* seq, const int64_t** data,
                   const uint8_t** null, Py_ssize_t n, int64_t position) noexcept nogil:
        cdef uint64_t bits[CHUNK]
        cdef int32_t relevant[CHUNK]
        cdef uint64_t pending
        cdef Py_ssize_t base = 0
        cdef int m, k, r, n_relevant, i
        cdef int64_t total
        while base < n and not self.failed:
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
                while pending:
                    self._bind(__builtin_ctzll(pending), k, position + base + k, time[base + k])
                    pending &= pending - 1
                if self.emitted:
                    self.matches += self.emitted
                    if push(&self.detected, position + base + k) < 0 or push(&self.detected_counts, self.emitted) < 0:
                        self.failed = 1
                if self.failed:
                    return
            total = 0
            for i in range(self.n_indexes):
                total += self.indexes[i].bytes
            if total > self.sweep_at:
                self._sweep()
            base += m
        self.events += n
        expire(&self.starts, self.window_kind, self.window, time[n - 1], position + n - 1)

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

    cdef inline void _row_inputs(self, const Code* program, const State* source, const Bucket* bucket, int first,
                                 int k) noexcept nogil:
        """Inputs of an edge program: row registers from row ``first`` on, values of event ``k`` broadcast."""
        cdef int j, number
        cdef Column* column
        for j in range(program.n_inputs):
            number = program.input_number[j]
            if program.input_kind[j] == EVENT:
                column = self.columns + number
                self.inputs[j].data = column.data + k
                self.inputs[j].nulls = NULL if column.null == NULL else column.null + k
                self.inputs[j].bits = NULL
                self.inputs[j].stride = 0
            else:
                self.inputs[j].data = (
                    bucket.data + <int64_t>(source.register_base + number) * bucket.capacity + first)
                self.inputs[j].nulls = NULL
                self.inputs[j].bits = bucket.data + <int64_t>source.nulls * bucket.capacity + first
                self.inputs[j].bit = number
                self.inputs[j].stride = 1

    cdef void _bind(self, int member, int k, int64_t position, int64_t time) noexcept nogil:
        """Bind event ``k`` of the chunk to ``member`` in every way: stage, merge, commit."""
        cdef State* state = self.states + member
        cdef Stage* stage = &self.stage
        cdef int e, parts = 0
        cdef int64_t before, j
        stage.size = 0
        for e in range(state.first_edge, state.end_edge):
            before = stage.size
            if self.edges[e].source < 0:
                self._stage_start(e, k, position, time)
            else:
                self._probe(e, k)
            parts += stage.size > before
            if self.failed:
                return
        if stage.size == 0:
            return
        if parts > 1:
            if stage_merge(stage) < 0:
                self.failed = 1
                return
            for j in range(stage.size):
                self._commit(member, stage.order[j], position)
        elif state.only_accepts:
            self._emit_all(member, position)
        elif state.only_stores:
            for j in range(stage.size):
                stage.bind[member][j] = position
                if self._insert(state, member, state.indexes[0], j, self._null_bits(state, j)):
                    self._count_row(j)
        else:
            for j in range(stage.size):
                self._commit(member, j, position)

    cdef void _stage_start(self, int e, int k, int64_t position, int64_t time) noexcept nogil:
        """Stage the row of a match that begins with event ``k``."""
        cdef Edge* edge = self.edges + e
        cdef Stage* stage = &self.stage
        cdef int64_t ordinal
        cdef int j
        cdef uint8_t keep[1]
        if edge.has_predicate:
            keep[0] = 1
            self._row_inputs(&edge.predicate, NULL, NULL, 0, k)
            if run(self.vm, &edge.predicate, self.inputs, NULL, 1, keep, NULL, NULL, 0) == 0:
                return
        ordinal = start_of(&self.starts, time, position)
        if ordinal < 0:
            self.failed = 1
            return
        stage.start[0] = ordinal
        stage.birth[0] = -1
        stage.edge[0] = e
        for j in range(edge.target + 1):
            stage.bind[j][0] = -1
        if edge.has_outputs:
            self._row_inputs(&edge.outputs, NULL, NULL, 0, k)
            run(self.vm, &edge.outputs, self.inputs, NULL, 1, NULL, stage.out, stage.out_null, 0)
        stage.size = 1

    cdef void _probe(self, int e, int k) noexcept nogil:
        """Stage a child for every row of the edge's index that event ``k`` extends."""
        cdef Edge* edge = self.edges + e
        cdef Index* index = self.indexes + edge.index
        cdef State* source = self.states + edge.source
        cdef Stage* stage = &self.stage
        cdef Column* column
        cdef Bucket* bucket
        cdef int64_t* key = self.key
        cdef int64_t number, size, live_from = self.starts.first
        cdef const int64_t* from_
        cdef int64_t* to
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
        bucket = index.buckets + number
        start = bucket.data
        while bucket.head < bucket.size and start[bucket.head] < live_from:
            bucket.head += 1
        end = bucket.size
        if source.birth >= 0:  # rows that this very event made stand at the end
            from_ = bucket.data + <int64_t>source.birth * bucket.capacity
            while end > bucket.head and from_[end - 1] >= self.event_birth:
                end -= 1
        self.rows_visited += end - bucket.head
        first = bucket.head
        while first < end:
            m = min(CHUNK, end - first)
            n = 0
            if edge.has_predicate:
                for i in range(m):
                    keep[i] = start[first + i] >= live_from
                self._row_inputs(&edge.predicate, source, bucket, first, k)
                if run(self.vm, &edge.predicate, self.inputs, NULL, m, keep, NULL, NULL, 0) == 0:
                    first += m
                    continue
                for i in range(m):
                    rows[n] = i
                    n += keep[i]
            else:
                for i in range(m):
                    rows[n] = i
                    n += start[first + i] >= live_from
                dead += m - n
            if n == 0:
                first += m
                continue
            size = stage.size
            if size + n > stage.capacity and stage_grow(stage, size + n) < 0:
                self.failed = 1
                return
            for i in range(n):
                stage.start[size + i] = start[first + rows[i]]
                stage.edge[size + i] = e
            if source.birth >= 0:
                from_ = bucket.data + <int64_t>source.birth * bucket.capacity + first
                for i in range(n):
                    stage.birth[size + i] = from_[rows[i]]
            for j in range(edge.source + 1):
                from_ = bucket.data + <int64_t>(source.bind + j) * bucket.capacity + first
                to = stage.bind[j] + size
                for i in range(n):
                    to[i] = from_[rows[i]]
            for j in range(edge.source + 1, edge.target + 1):
                to = stage.bind[j] + size
                for i in range(n):
                    to[i] = -1
            if edge.has_outputs:
                self._row_inputs(&edge.outputs, source, bucket, first, k)
                run(self.vm, &edge.outputs, self.inputs, rows, n, NULL, stage.out, stage.out_null, size)
            stage.size += n
            first += m
        if dead * 2 > bucket.size - bucket.head and dead > 8:
            compact(index, bucket, live_from)

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
                self.failed = 1
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
        cdef int64_t found, row, capacity
        cdef int64_t* data
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
            self.failed = 1
            return False
        bucket = index.buckets + found
        data = bucket.data + row
        capacity = bucket.capacity
        data[0] = stage.start[j]
        if state.birth >= 0:
            data[state.birth * capacity] = self.next_birth
        if state.nulls >= 0:
            data[state.nulls * capacity] = nulls
        data += state.bind * capacity
        for c in range(member + 1):
            data[0] = stage.bind[c][j]
            data += capacity
        for c in range(state.registers):
            data[0] = stage.out[c][j]
            data += capacity
        return True

    cdef void _emit_all(self, int member, int64_t position) noexcept nogil:
        """Every staged child is a complete match of single members: copy the bindings column by column."""
        cdef Stage* stage = &self.stage
        cdef Vec* vec
        cdef int64_t n = stage.size, i
        cdef int m
        cdef int64_t* to
        for m in range(self.n_members):
            vec = self.out_values + m
            if vec.size + n > vec.capacity and reserve(vec, vec.size + n) < 0:
                self.failed = 1
                return
            to = vec.data + vec.size
            if m < member:
                memcpy(to, stage.bind[m], n * sizeof(int64_t))
            else:
                for i in range(n):
                    to[i] = position if m == member else -1
            vec.size += n
        self.emitted += n

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
                self.failed = 1
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
                        self.failed = 1
                if push(self.out_lengths + m, count) < 0:
                    self.failed = 1
            else:
                bound = self.stage.bind[m][j] if m <= member else -1
                if push(self.out_values + m, bound) < 0:
                    self.failed = 1
        self.emitted += 1
