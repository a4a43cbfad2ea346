# cython: language_level=3
"""The matcher: run the plan of one query over batches of events (skip-till-any-match).

A batch is processed in chunks of ``CHUNK`` events. Each chunk takes three steps:

1. Event masks, vectorised: find the variables that each event may be bound to (``masks``).
2. Event columns, vectorised over the relevant events: compute the keys and values that depend on the event alone
   (``masks``).
3. For each relevant event and variable, in ascending order: probe the index of every edge that binds the variable,
   filter the bucket with the predicate of the edge (``extend``), *stage* the children, merge them in birth order,
   *commit* them to the indexes of the target state (``commit``) and emit complete matches (``emit``). The loop is in
   ``loop``.

An event of a negated variable is kept for later checks (``negate``). A match that only time can decide waits
(``decide``). ``elements`` reads lists and evaluates for-all conditions, and ``core.pxd`` declares the state. This
module is the interface to Python.

A row has fixed words and columns. The fixed words are the ordinal of its start, its birth (if needed), a flag that
says whether it was reported as a match (if partial matches that time out are an output), and the bindings of its state.
A binding is the position of an event or, for a Kleene variable or a group, the latest node of its chain; -1 means
absent. The first binding is left out if the start implies it. The columns are the null bits of the registers and the
registers, if there are any.

*Starts* are a ring. A start holds the time and position of a first event, the number of its live rows and the chain
nodes made under it. So a row expires by one comparison, the number of live rows is exact, and nodes are freed with
their start.

Invariants: the rows of a bucket ascend by birth; a row does not expire before its start; staging separates the scan of
a bucket from the appends that it causes; no memory is allocated per event once the buffers have grown.
"""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint16_t
from libc.string cimport memset

import numpy as np

from fastcep._core.input.batch cimport COLUMN_SEQ, COLUMN_TIME, COLUMN_TYPE, Batch, Events
from fastcep._core.input.filters cimport Filter
from fastcep._core.matcher.interrupt cimport Pause, deadline
from fastcep._core.matcher.loop cimport (
    drop_all_rows, held_bytes, recover_from_failure, release_idle_memory, sweep_all, take_events,
)
from fastcep._core.matcher.query_state cimport QueryState
from fastcep._core.matcher.window_events cimport close_passed_time, end_windows
from fastcep._core.matches.decide cimport decide
from fastcep._core.matches.output cimport Output
from fastcep._core.matches.timeout cimport collect
from fastcep._core.memory.starts cimport EXPLICIT, expire, expire_all
from fastcep._core.memory.vectors cimport take
from fastcep._core.program.plan_tables cimport State
from fastcep._core.program.plan_tables import tasks_of
from fastcep._core.program.predicate cimport CHUNK
from fastcep._core.snapshot.dump cimport dump, is_chained
from fastcep._core.snapshot.load cimport load
from fastcep._core.state.core cimport Core
from fastcep._core.state.isolated_windows cimport end_parts
from fastcep._core.state.key_partition import range_of
from fastcep._core.state.state_metrics cimport mark_codes

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil


cdef bint collect_all(Core* core) noexcept nogil:
    """Write out the partial matches that have timed out. Return False if memory ran out."""
    collect(core, core.starts.kept, core.starts.first)
    if core.failed:
        recover_from_failure(core)
        return False
    return True


cdef class Matcher(QueryState):
    """Matcher of one query.

    Parameters
    ----------
    plan
        ``fastcep.plan.Plan``.
    intern
        Callable that returns the int64 code of a string.
    """

    def __cinit__(self, plan, intern):
        self.filters = []
        self.pause.chunk_size, self.pause.chunks_per_check = CHUNK, 1

    # ------------------------------------------------------------------ matching

    def take_part(self, int part, int parts, const int32_t[::1] columns, bint floats):
        """Match only the events of one of ``parts`` parts of the key space, see key_partition.pyx.

        ``columns`` maps each type id to the column of its key, or to -1. ``floats``: the key is a float64.
        """
        self.key_columns = columns
        self.core.part, self.core.parts = part, parts
        self.core.part_first, self.core.part_size = range_of(part, parts)
        self.core.part_columns, self.core.part_floats = &columns[0], floats
        distinct = {columns[i] for i in range(columns.shape[0]) if self.core.type_variables[i]}
        self.core.part_column = -1 if len(distinct) > 1 or floats else distinct.pop()

    def share(self, filters, bint counts=True):
        """Read the event masks from ``filters``, one ``Filter`` per variable, when :meth:`process` asks for it; None:
        never.

        ``counts``: the metrics of this matcher include the counters of the filters. Of the parts of a query only one
        does so.
        """
        cdef Filter item
        cdef int i
        for item, nulls, errors in self.filters if self.counts_filters else ():
            self.earlier_nulls += item.screen.arithmetic_nulls - nulls
            self.earlier_errors += item.screen.function_errors - errors
        self.filters, self.counts_filters = [], counts
        for i, item in enumerate(filters or ()):
            self.filters.append((item, item.screen.arithmetic_nulls, item.screen.function_errors))
            self.core.passed[i] = &item.screen.passed

    def use_bounds(self, const int64_t[::1] opens, const int64_t[::1] ids, const int64_t[::1] closes,
                   const int64_t[::1] closed):
        """Set the events that open and close explicit windows in the next batch (fastcep.engine.windows).

        Parameters
        ----------
        opens, ids
            Indexes in the batch of the events that open a window, and their sequence numbers.
        closes, closed
            Indexes in the batch of the events that close a window, and the positions of the events that opened it. -1:
            the event closes all open windows.
        """
        self.window_bounds = (opens, ids, closes, closed)
        self.core.windows.n_opens, self.core.windows.n_closes = len(opens), len(closes)
        self.core.windows.next_open = self.core.windows.next_close = 0
        if len(opens):
            self.core.windows.opens, self.core.windows.ids = &opens[0], &ids[0]
        if len(closes):
            self.core.windows.closes, self.core.windows.closed = &closes[0], &closed[0]

    def continue_batch(self, Matcher other not None):
        """Take over the window bounds and the ignored events of the current batch from a matcher that this one replaces."""
        if other.window_bounds is not None:
            self.use_bounds(*other.window_bounds)
        self.core.windows.next_open = other.core.windows.next_open
        self.core.windows.next_close = other.core.windows.next_close
        self.ignore(other.foreign_flags)

    def process(self, Batch batch not None, ring, Py_ssize_t first=0, Py_ssize_t last=-1, bint shared=False):
        """Match the events ``first:last`` of a batch (-1: its end). :meth:`take_output` returns the matches.

        ``shared``: the filters have run over these events, see :meth:`share`. Returns ``last``, or the index of the
        first event that was not matched because memory ran out. Then all partial matches have been dropped (counted in
        ``lost``) and the matcher can continue with the next batch.
        """
        if last < 0:
            last = batch.events.size
        if first == last:
            return last
        self.bind_ring(ring)
        return self.take(&batch.events, first, last, shared, True)

    cdef Py_ssize_t take(self, const Events* events, Py_ssize_t first, Py_ssize_t last, bint shared, bint release,
                         bint may_pause=False):
        """Match events as :meth:`process` does; the ring is bound already.

        ``release``: release the GIL. ``may_pause``: stop between two events at the deadline, which sets
        ``pause.paused``.
        """
        cdef Py_ssize_t taken
        cdef Pause* pause = &self.pause if may_pause else NULL
        self.pause.paused = False
        if may_pause:
            self.pause.deadline = deadline()
            if self.pause.deadline < 0:
                self.pause.chunk_size = self.pause.chunks_per_check = 1
        self.core.budget.refused = False
        self.core.shared = shared and len(self.filters) > 0
        memset(self.core.next_passed, 0, self.core.n_variables * sizeof(int64_t))
        if release:
            with nogil:
                taken = take_events(&self.core, events, first, last, pause)
        else:
            taken = take_events(&self.core, events, first, last, pause)
        FC_CHECK(held_bytes(&self.core) == self.core.budget.used)
        return taken

    def set_limit(self, int64_t limit):
        """Set the largest number of bytes to hold. If more are in use, remove dead rows."""
        self.core.budget.limit = limit
        if self.core.budget.used > limit:
            with nogil:
                sweep_all(&self.core)

    cdef int bind_ring(self, ring) except -1:
        """Look up the columns of the event ring that for-all conditions read, if the ring has new buffers."""
        if self.core.n_foralls and ring is not None and ring.buffers is not self.ring_buffers:
            self._find_columns(ring)
            self.ring_buffers = ring.buffers
        return 0

    def _find_columns(self, ring):
        cdef list arrays = []
        cdef const int64_t[::1] values
        cdef const uint8_t[::1] nulls
        cdef const uint16_t[::1] types
        cdef int i, j
        self.core.ring_mask = ring.capacity - 1
        types = ring.arrays("type")[0]
        arrays.append(types)
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
                arrays.append(values)
                self.core.foralls[i].data[j] = &values[0]
                if number >= 0 and mask is not None:
                    nulls = mask
                    arrays.append(nulls)
                    self.core.foralls[i].null[j] = &nulls[0]
        self.ring_arrays = arrays

    def advance(self, int64_t time, int64_t position, ring):
        """Advance the clock: decide due matches, expire partial matches and free their memory.

        ``position`` is that of the next event. :meth:`take_output` returns the matches. Returns False if memory ran
        out; then all partial matches have been dropped (counted in ``lost``).
        """
        cdef bint done = self._decide(time, ring, False)
        with nogil:
            self.core.now = max(time, self.core.now)
            # A reported time-out needs its time; under WITHIN n EVENTS that of an event that has not arrived yet.
            expire(&self.core.starts, time, position - self.core.starts.keeps, NULL, 0)
            if self.core.starts.keeps:
                done &= collect_all(&self.core)
            sweep_all(&self.core)
        return done

    def finish(self, ring):
        """End the stream: decide all waiting matches, then drop the state. Returns the same as :meth:`advance`."""
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
                close_passed_time(&self.core, time)
            failed = self.core.failed
            if failed:
                recover_from_failure(&self.core)
        return not failed

    def clear(self):
        """Drop all partial matches. Events kept for negation stay as long as the window needs them."""
        with nogil:
            drop_all_rows(&self.core)
            sweep_all(&self.core)
            release_idle_memory(&self.core, True)

    def drop(self, last_missed=None):
        """Drop all partial matches because memory ran out elsewhere, and count them in ``lost``.

        ``last_missed``: time of the last event that was not matched (int64 ns); None: no event was missed.
        """
        if last_missed is not None:
            self.core.last_missed = last_missed
        self.core.lost += self.core.starts.live + self.core.live_in_windows
        self.clear()

    def forget_windows(self):
        """Close all explicit windows without deciding the matches that wait in them."""
        end_parts(&self.core)

    # ------------------------------------------------------------------ snapshots

    def dump(self):
        """Return the state between two batches as arrays, see dump.pyx.

        With contiguity, rows that an event of their partition has cut off are removed first.
        """
        if self.core.cuts:
            with nogil:
                sweep_all(&self.core)
        return dump(&self.core)

    @property
    def numbers(self):
        """Scalars of the state: counters, and the position and time that the matcher has reached."""
        return {
            "next_birth": self.core.next_birth, "now": self.core.now, "blind": self.core.last_missed, "last": self.core.last,
            "relevant": self.core.relevant, "rows_visited": self.core.rows_visited,
            "rows_created": self.core.rows_created, "matches": self.core.matches, "peak": self.core.peak,
            "lost": self.core.lost, "events": self.core.events, "arithmetic_nulls": self.arithmetic_nulls,
            "function_errors": self.function_errors, "sweep_at": self.core.sweep_at,
        }

    @property
    def layout(self):
        """Layout of the rows: ``(nodes, indexes)``.

        ``nodes`` has a flag per binding: True if it is the number of a node (Kleene variable or group), False if it is
        a position. ``indexes`` has a tuple per index: number of fixed words of a row, offsets in the row of the birth,
        of the match flag and of the class word (-1: none), and a dict of the offsets of bindings.
        """
        cdef int i, c
        cdef State* state
        indexes = []
        for i in range(0 if self.core.factorised else self.core.n_indexes):
            state = self.core.states + self.core.infos[i].state
            bindings = {state.slots[c]: state.bind + c for c in range(state.n_bind)}
            indexes.append((state.fixed, state.birth, state.match_flag, state.class_word, bindings))
        return [bool(is_chained(&self.core, i)) for i in range(self.core.n_slots)], indexes

    def load(self, state, numbers):
        """Load a state of ``dump`` and its ``numbers`` into an empty matcher; the arrays are overwritten.

        After an error the matcher must not be used again.

        Raises
        ------
        MemoryError
            If memory ran out, see ``refused``.
        ValueError
            If the arrays are inconsistent or do not fit the plan.
        """
        self.core.last = numbers["last"]
        load(&self.core, state)
        self.core.next_birth, self.core.now = numbers["next_birth"], numbers["now"]
        self.core.sweep_at = numbers["sweep_at"]
        self.core.last_missed = numbers["blind"]
        self.core.relevant, self.core.events = numbers["relevant"], numbers["events"]
        self.core.rows_visited, self.core.rows_created = numbers["rows_visited"], numbers["rows_created"]
        self.core.matches, self.core.lost = numbers["matches"], numbers["lost"]
        self.core.peak = max(<int64_t>numbers["peak"], self.core.starts.live + self.core.live_in_windows)
        self.earlier_nulls, self.earlier_errors = numbers["arithmetic_nulls"], numbers["function_errors"]
        FC_CHECK(held_bytes(&self.core) == self.core.budget.used)

    def ignore(self, const uint8_t[::1] foreign):
        """Ignore the events of the next batch whose flag in ``foreign`` is 1; None: ignore none."""
        self.foreign_flags = foreign
        self.core.foreign = NULL if foreign is None or foreign.shape[0] == 0 else &foreign[0]

    # ------------------------------------------------------------------ output

    @property
    def output_pending(self):
        """True if there is output, or memory of output that was withdrawn; :meth:`take_output` empties both."""
        return self.has_output()

    cdef bint has_output(self) noexcept:
        cdef int i
        for i in range(self.core.n_variables):
            if self.core.out_values[i].capacity or self.core.out_lengths[i].capacity:
                return True
        return self.core.detected.capacity > 0

    def take_output(self):
        """Return the output and clear it, see output.pyx."""
        cdef Output output = Output.__new__(Output)
        output.move(&self.core, self.plan)
        return output

    def take_places(self, bint timed=False):
        """Return the places of decisions (``timed``: of partial matches that timed out), int64[n, 2], and clear them.

        Only one of several parts of a query with explicit windows records them, see key_partition.pyx.
        """
        return take(&self.core.timed_places if timed else &self.core.places).reshape(-1, 2)

    def take_timed_out(self):
        """Return the partial matches that have timed out, and clear them: ``(values, lengths, rows)``.

        ``values`` and ``lengths`` are those of `Output.arrays`; ``rows`` is int64[n, 3]: state, time, window id.
        """
        cdef int i
        values, lengths = [], []
        for i in range(self.core.n_variables):
            values.append(take(self.core.timed_values + i))
            lengths.append(take(self.core.timed_lengths + i) if self.core.variables[i].repeated else None)
        return values, lengths, take(&self.core.timed).reshape(-1, 3)

    def mark_codes(self, uint8_t[::1] marks):
        """Set ``marks[c]`` for every string code c that a stored row or a waiting match may hold.

        Keys and registers have no type here, so an integer that equals a code keeps the string alive too.
        """
        if marks.shape[0] > 0:
            mark_codes(&self.core, self.tables.n_outputs, &marks[0], marks.shape[0])

    @property
    def tasks(self):
        """Programs of the plan and the role of each, ``[(program, role)]``, for :mod:`fastcep.kernels`."""
        return tasks_of(self.plan)

    def use_kernels(self, kernels):
        """Replace programs with generated code: ``{(program, role): address}`` (:mod:`fastcep.kernels`)."""
        self.tables.use_kernels(self.plan, kernels)

    @property
    def arithmetic_nulls(self):
        """Number of integer overflows and integer divisions by zero, each of which gave null."""
        shared = sum([item.arithmetic_nulls - nulls for item, nulls, _ in self.filters if self.counts_filters])
        return self.core.vm.arithmetic_nulls + self.earlier_nulls + shared

    @property
    def function_errors(self):
        """Number of exceptions in user functions, each of which gave null."""
        shared = sum([item.function_errors - errors for item, _, errors in self.filters if self.counts_filters])
        return self.core.vm.function_errors + self.earlier_errors + shared

