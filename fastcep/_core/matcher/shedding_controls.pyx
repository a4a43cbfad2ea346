# cython: language_level=3
"""Interface of load shedding to Python: set the tables of drop probabilities, and read the counters. See drop.pyx."""
from libc.stdint cimport INT64_MAX, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc
from libc.string cimport memcpy

import numpy as np

from fastcep._core.matcher.loop cimport held_bytes
from fastcep._core.matcher.matcher cimport Matcher
from fastcep._core.memory.vectors cimport take
from fastcep._core.shed.classify cimport largest_class, set_classifier
from fastcep._core.shed.drop cimport walk_cells
from fastcep._core.shed.flows cimport (
    CHILD_AT, CHILD_CLASS_AT, EVENT_CLASS_AT, PARENT_AT, PARENT_CLASS_AT, SET_AT, SLICE_AT, VARIABLE_AT, flows_add,
    flows_clear, flows_free, flows_init, log_weight, represented,
)
from fastcep._core.shed.lineage cimport observe_init
from fastcep._core.shed.tables_memory cimport in_windows_free, in_windows_init, shed_init, slice_births
from fastcep._core.shed.work_limit cimport child_price, enough_credit, reached_state, resume_reached
from fastcep._core.state.core cimport Core
from fastcep._core.state.draws cimport mixed, steps_of
from fastcep._core.state.lineage_tables cimport LineageTables
from fastcep._core.state.shedding_tables cimport (
    BY_BIN, DRAWN_BITS, MOST_SLICES, NEVER, SAME, Cut, Flow, Flows, Prices, Tried, Yields,
)

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil


#: Fields of a key of `Shedding.flows`: the lowest bit and the number of bits of each.
FLOW_FIELDS = {
    "target_class": (CHILD_CLASS_AT, CHILD_AT - CHILD_CLASS_AT), "target": (CHILD_AT, EVENT_CLASS_AT - CHILD_AT),
    "event_class": (EVENT_CLASS_AT, VARIABLE_AT - EVENT_CLASS_AT), "member": (VARIABLE_AT, SLICE_AT - VARIABLE_AT),
    "slice": (SLICE_AT, PARENT_CLASS_AT - SLICE_AT), "source_class": (PARENT_CLASS_AT, PARENT_AT - PARENT_CLASS_AT),
    "source": (PARENT_AT, SET_AT - PARENT_AT),
}
#: The bit that is set in every key of `Shedding.flows`.
FLOW_SET = 1 << int(SET_AT)


cdef int _check_slices(Py_ssize_t slices) except -1:
    if not 0 < slices <= MOST_SLICES:
        raise ValueError(f"{slices} slices of a window, expected 1 to {MOST_SLICES}")
    return 0


cdef object _to_array(const int64_t* values, Py_ssize_t n):
    """Return a copy of ``n`` values as an array."""
    cdef int64_t[::1] out = np.empty(n, np.int64)
    if n > 0:
        memcpy(&out[0], values, n * sizeof(int64_t))
    return np.asarray(out)


cdef int _write(int64_t* to, values, Py_ssize_t n) except -1:
    """Write the ``n`` elements of an array to ``to``."""
    cdef const int64_t[::1] flat = np.ascontiguousarray(values, np.int64).reshape(-1)
    if flat.shape[0] != n:
        raise ValueError(f"{flat.shape[0]} counters of load shedding, expected {n} for this query")
    if n > 0:
        memcpy(to, &flat[0], n * sizeof(int64_t))
    return 0


cdef int32_t* _address(int32_t[::1] numbers):
    """Return the address of the data of an array."""
    return &numbers[0]


cdef class Shedding:
    """Load shedding of one query.

    Parameters
    ----------
    matcher
        Matcher of the query.
    """
    cdef Matcher matcher
    cdef Core* core
    cdef object classes           # arrays that the matcher reads, kept alive
    cdef object costs             # array that the matcher writes, kept alive

    def __cinit__(self, Matcher matcher not None):
        self.matcher = matcher
        self.core = &matcher.core

    def begin(self, classes, unsigned long long seed, events=()):
        """Allocate the tables of load shedding; nothing is dropped yet.

        Parameters
        ----------
        classes
            Per state the classifier of its partial matches, either a table ``(low, size, table, other)`` or a decision
            tree ``(nodes, grid, other)``. A table covers ``size[f]`` values of feature f from ``low[f]`` on; other
            values, and null, have the class ``other``. The nodes of a tree are bytes (see `Tree.nodes`), and its grid
            is from `grid_of`. None: all are of class 0.
        seed
            Seed of the random draws.
        events
            Per variable the classifier of the events that may be bound to it; empty: no variable has one.
        """
        cdef Py_ssize_t i
        cdef int variables = self.core.n_variables
        events = events or [None] * variables
        plan = self.matcher.plan
        feature_columns = plan.event_features or [()] * variables
        assert len(classes) == self.core.n_states
        assert len(events) == variables
        strides = [max([1] + [largest_class(item) + 1 for item in tables if item is not None]) for tables in (classes, events)]
        if shed_init(&self.core.shed, len(plan.type_variables), self.core.n_states, strides[0], variables, strides[1], seed) < 0:
            raise MemoryError("no memory for load shedding")
        columns = [np.array(numbers, np.int32) for numbers in feature_columns]
        axes = []
        self.classes = (classes, events, columns, axes)
        self.matcher.shedding_arrays = (self.classes, self.costs)
        for i, item in enumerate(classes):
            if item is not None:
                axes.append(set_classifier(self.core.shed.classifiers + i, item, plan.states[i].features))
        for i, item in enumerate(events):
            if item is not None:
                dtypes = "".join(plan.columns[c].dtype for c in feature_columns[i])
                axes.append(set_classifier(self.core.shed.by_variable + i, item, dtypes))
                self.core.shed.features_of[i] = _address(columns[i])

    @property
    def stride(self):
        """Largest number of classes of a state: the second dimension of tables by state and class."""
        return self.core.shed.stride

    def drop_events(self, const int64_t[::1] chances):
        """Set the probability with which events are dropped, per type, in 2^-32."""
        cdef int i
        assert chances.shape[0] == self.core.shed.n_types
        self.core.shed.events = False
        for i in range(self.core.shed.n_types):
            self.core.shed.by_type[i] = chances[i]
            self.core.shed.type_weights[i] = log_weight(chances[i])
            self.core.shed.events |= chances[i] > 0

    def drop_in_windows(self, const int64_t[:, ::1] chances, int64_t bin=1):
        """Set the probability with which an event is dropped from an isolated window, per type and offset in the
        window.

        Offsets are counted in bins of ``bin`` events; the last bin has all later offsets too. None: drop no events.
        """
        cdef Py_ssize_t i, j, cell = 0
        cdef int64_t chance = 0, weight = 0
        cdef uint8_t kind
        if chances is None:
            in_windows_free(&self.core.shed)
            return
        assert chances.shape[0] == self.core.shed.n_types and chances.shape[1] > 0 and bin > 0
        if in_windows_init(&self.core.shed, chances.shape[1], bin) < 0:
            raise MemoryError("no memory for load shedding")
        for i in range(chances.shape[0]):
            kind = NEVER if chances[i, 0] == 0 else SAME
            for j in range(chances.shape[1]):
                if chances[i, j] != chance:  # equal ones are often next to each other
                    chance, weight = chances[i, j], log_weight(chances[i, j])
                if chance != chances[i, 0]:
                    kind = BY_BIN
                self.core.shed.in_windows[cell] = chance
                self.core.shed.in_windows_weights[cell] = weight
                self.core.shed.in_windows_above[cell] = chance > 0
                cell += 1
            self.core.shed.in_windows_rows[i] = kind

    def drop_whole_windows(self, int64_t chance):
        """Set the probability with which an isolated window is dropped with all of its events, in 2^-32."""
        self.core.shed.whole = chance
        self.core.shed.whole_weight = log_weight(chance)

    def refuse_births(self, const int64_t[:, :, ::1] chances):
        """Set the probability with which births are refused, per state, class and age slice, in 2^-32."""
        cdef Py_ssize_t i, n = chances.shape[0] * chances.shape[1] * chances.shape[2]
        cdef const int64_t* flat = &chances[0, 0, 0] if n > 0 else NULL
        assert chances.shape[0] == self.core.n_states and chances.shape[1] == self.core.shed.stride
        _check_slices(chances.shape[2])
        if chances.shape[2] != self.core.shed.slices and slice_births(
                &self.core.shed, self.core.n_states, <int>chances.shape[2]) < 0:
            raise MemoryError("no memory for load shedding")
        self.core.shed.births = False
        for i in range(n):
            self.core.shed.refuse[i] = flat[i]
            self.core.shed.refuse_weights[i] = log_weight(steps_of(flat[i]) << 32 - DRAWN_BITS)
            self.core.shed.births |= flat[i] > 0
        grows = np.asarray(chances).max(axis=2, initial=0) > np.asarray(chances)[:, :, 0] if n > 0 else np.zeros((0, 1), bool)
        for i in range(self.core.n_states):
            self.core.shed.ages[i] = grows[i].any()

    def count_flows(self, int slices, int64_t capacity=1 << 14):
        """Start to count the children of partial matches, see flows.pyx. The children of every event are counted.

        Parameters
        ----------
        slices
            Number of age slices.
        capacity
            Entries of the hash table, a power of two; each takes 32 bytes.
        """
        _check_slices(slices)
        assert capacity > 0 and capacity & (capacity - 1) == 0
        if slices != self.core.shed.slices and slice_births(&self.core.shed, self.core.n_states, slices) < 0:
            raise MemoryError("no memory for load shedding")
        if flows_init(&self.core.shed.flows, capacity, self.core.shed.variables * self.core.shed.variable_stride) < 0:
            raise MemoryError("no memory for load shedding")

    def count_share(self, double share):
        """Count the children of a sample of the events: ``share`` of them, weighted by 1 / ``share``."""
        assert self.core.shed.flows.on and 0 < share <= 1
        self.core.shed.flows.chance = max(1, <int64_t>(share * 4294967296.0))
        self.core.shed.flows.weight = 4294967296.0 / <double>self.core.shed.flows.chance

    def stop_flows(self):
        """Stop counting."""
        flows_free(&self.core.shed.flows)

    def flows(self):
        """Return the counts since the last call, and reset them: ``(keys, counts, squares, lost, tried)``.

        ``keys`` are uint64, ascending (see flows.pxd); ``counts`` and ``squares`` are the sums of weights and of their
        squares, float64[keys]; ``lost`` is the sum of weights that found no free entry; ``tried`` is the number of
        events that were tried for each variable, by class, float64[variables, classes].
        """
        cdef Flows* flows = &self.core.shed.flows
        cdef int64_t i, n = 0, size = flows.used, cells = self.core.shed.variables * self.core.shed.variable_stride
        keys, counts, squares, tried = np.empty(size, np.uint64), np.empty(size), np.empty(size), np.zeros(cells)
        cdef uint64_t[::1] to_keys = keys
        cdef double[::1] to_counts = counts, to_squares = squares, to_tried = tried
        cdef const Flow* entry
        for i in range(flows.capacity):
            entry = flows.table + i
            if entry.key != 0:
                to_keys[n], to_counts[n], to_squares[n] = entry.key, entry.count, entry.square
                n += 1
        for i in range(cells if flows.on else 0):
            to_tried[i] = flows.tried[i]
        lost = flows.lost
        if flows.on:
            flows_clear(flows, cells)
        order = np.argsort(keys)
        return keys[order], counts[order], squares[order], lost, tried.reshape(-1, self.core.shed.variable_stride)

    def resume_flows(self, const uint64_t[::1] keys, const double[::1] counts, const double[::1] squares, double lost,
                     const double[:, ::1] tried):
        """Continue from what `flows` has returned."""
        cdef Py_ssize_t i, j
        assert self.core.shed.flows.on and keys.shape[0] == counts.shape[0] == squares.shape[0]
        assert tried.shape[0] == self.core.shed.variables and tried.shape[1] == self.core.shed.variable_stride
        flows_clear(&self.core.shed.flows, self.core.shed.variables * self.core.shed.variable_stride)
        for i in range(keys.shape[0]):
            if keys[i] != 0:
                flows_add(&self.core.shed.flows, keys[i], counts[i], squares[i])
        self.core.shed.flows.lost += lost
        for i in range(tried.shape[0]):
            for j in range(tried.shape[1]):
                self.core.shed.flows.tried[i * tried.shape[1] + j] = tried[i, j]

    def weigh(self, bint on):
        """Start or stop to weigh partial matches and matches, see flows.pyx.

        Start before the first drop, and stop when no partial match is left that began while something was dropped.
        """
        self.core.shed.weighs = on

    @property
    def weighed(self):
        """Number of matches made while weights were kept, sum of their weights, and sum of the squares."""
        return self.core.shed.found.count, self.core.shed.found.weight, self.core.shed.found.square

    def resume_weighed(self, weighed, bint on):
        """Continue from `weighed`, and from the last call of `weigh`."""
        self.core.shed.found.count, self.core.shed.found.weight, self.core.shed.found.square = weighed
        self.core.shed.weighs = on

    def withhold(self, const int64_t[:, ::1] chances):
        """Set the probability with which events are withheld from a variable, per variable and class, in 2^-32."""
        cdef Py_ssize_t i, j
        assert chances.shape[0] == self.core.shed.variables and chances.shape[1] == self.core.shed.variable_stride
        self.core.shed.binds = False
        for i in range(chances.shape[0]):
            for j in range(chances.shape[1]):
                self.core.shed.withhold[i * chances.shape[1] + j] = chances[i, j]
                self.core.shed.withhold_weights[i * chances.shape[1] + j] = log_weight(chances[i, j])
                self.core.shed.binds |= chances[i, j] > 0

    @property
    def event_stride(self):
        """Largest number of classes of the events of a variable: second dimension of tables by variable and class."""
        return self.core.shed.variable_stride

    def drop_rows(self, const int64_t[:, :, ::1] chances, unsigned long long salt):
        """Drop live partial matches now, with a probability per state, class and age slice; returns the number visited.

        ``salt`` must differ from call to call, so that each call draws anew. 0: drop the partial matches whose birth
        would have been refused with the same probability.
        """
        cdef int64_t visited
        assert chances.shape[0] == self.core.n_states and chances.shape[1] == self.core.shed.stride
        _check_slices(chances.shape[2])
        with nogil:
            visited = walk_cells(self.core, <int>chances.shape[2], &chances[0, 0, 0], NULL, mixed(salt) if salt else 0)
        FC_CHECK(held_bytes(self.core) == self.core.budget.used)
        return visited

    def count_rows(self, int slices=1):
        """Return the number of live partial matches by state, class and age slice: int64[states, classes, slices]."""
        _check_slices(slices)
        cdef int64_t[:, :, ::1] counts = np.zeros((self.core.n_states, self.core.shed.stride, slices), np.int64)
        if counts.shape[0]:
            with nogil:
                walk_cells(self.core, slices, NULL, &counts[0, 0, 0], 0)
        return np.asarray(counts)

    def meter(self, int64_t[::1] costs, const int64_t[::1] prices):
        """Set the prices of operations, and add the cost of each event to an array.

        Parameters
        ----------
        costs
            Output, picoseconds; the first event of each call adds to the first element. None: record no costs.
        prices
            Picoseconds per event, relevant event, partial match visited, created, refused, match, and partial match
            dropped by age.
        """
        self.costs = costs
        self.matcher.shedding_arrays = (self.classes, costs)
        self.core.costs = NULL if costs is None else &costs[0]
        self.core.prices.event, self.core.prices.relevant, self.core.prices.visited = prices[0], prices[1], prices[2]
        self.core.prices.created, self.core.prices.refused, self.core.prices.match = prices[3], prices[4], prices[5]
        self.core.prices.purged = prices[6]

    def cut_off(self, int64_t most, double share, double largest_share):
        """Limit the work for each event, see work_limit.pyx.

        Parameters
        ----------
        most
            Largest cost of an event, in picoseconds, including the fixed cost of any event; 0: no limit.
        share, largest_share
            Share of the events that may exceed the limit, and the largest one that is ever given.
        """
        cdef const Prices* prices = &self.core.prices
        cdef Cut* cut = &self.core.shed.cut
        cdef int m, e
        cdef int64_t begins
        cdef bint completing, reports = False
        assert 0 <= share <= 1 and self.core.n_variables <= 64
        cut.most = cut.completing = cut.beginning = cut.begin_price = 0
        if most <= 0:
            cut.credit, cut.last = 0, INT64_MAX  # these events leave no credit for when there is a limit
            return
        self._allocate_tried()
        cut.most, cut.share = max(1, most - prices.event - prices.relevant), <int64_t>(share * 4294967296.0)
        cut.enough = enough_credit(largest_share)
        for m in range(self.core.n_variables):
            completing = not self.core.variables[m].negated and not reports
            begins = 0
            for e in range(self.core.variables[m].first_edge, self.core.variables[m].end_edge):
                if self.core.edges[e].source < 0:
                    begins += child_price(self.core, self.core.edges + e)
                completing = completing and self.core.edges[e].source >= 0 and not self.core.edges[e].born
            if not completing:  # later variables must not emit matches before this one
                for e in range(self.core.variables[m].first_edge, self.core.variables[m].end_edge):
                    reports = reports or self.core.states[self.core.edges[e].target].accepting
            else:
                self.core.shed.cut.completing |= <uint64_t>1 << m
            if begins:
                self.core.shed.cut.beginning |= <uint64_t>1 << m
                self.core.shed.cut.begin_price = max(self.core.shed.cut.begin_price, begins)

    @property
    def tried(self):
        """Partial matches visited, children made, visits cut off and children lost by that: float64[edges, 4]."""
        return self._by_edge(<double*>self.core.shed.cut.tried)

    def cut_state(self):
        """Return the state of the work limit for a snapshot."""
        cdef const Cut* cut = &self.core.shed.cut
        yields = self._by_edge(<double*>cut.yields).tolist()
        return [cut.credit, cut.last, cut.mean, self.tried.tolist(), yields, cut.largest, *self.reached]

    cdef object _by_edge(self, const double* table):
        """Copy a table with four numbers for each edge; zeros if it is NULL."""
        cells = np.zeros((len(self.matcher.plan.edges), 4))
        cdef double[:, ::1] out = cells
        if table != NULL and len(cells):  # plans of the factorised store have no edges
            memcpy(&out[0, 0], table, len(cells) * 4 * sizeof(double))
        return cells

    def _allocate_tried(self):
        """Allocate the tables by edge, if they are not yet."""
        cdef Cut* cut = &self.core.shed.cut
        cdef Py_ssize_t edges = len(self.matcher.plan.edges)
        if cut.tried == NULL:
            cut.tried, cut.yields = <Tried*>calloc(edges, sizeof(Tried)), <Yields*>calloc(edges, sizeof(Yields))
        if cut.tried == NULL or cut.yields == NULL:
            raise MemoryError("no memory for load shedding")

    def resume_cut(self, state):
        """Continue from `cut_state`."""
        self._allocate_tried()
        cdef Cut* cut = &self.core.shed.cut
        cdef double[:, ::1] tried = np.array(state[3], np.float64).reshape(-1, 4)
        cdef double[:, ::1] yields = np.array(state[4], np.float64).reshape(-1, 4)
        cut.credit, cut.last, cut.mean = state[0], state[1], state[2]
        if len(tried):
            memcpy(cut.tried, &tried[0, 0], len(tried) * sizeof(Tried))
            memcpy(cut.yields, &yields[0, 0], len(tried) * sizeof(Yields))
        resume_reached(cut, state[5:])

    @property
    def reached(self):
        """Events so far: how many were allowed to exceed the work limit, how many reached it, and these by cost."""
        return self.core.shed.cut.ran_on, *reached_state(&self.core.shed.cut)

    @property
    def largest_weight(self):
        """Largest weight of what an event did beyond its limit since `forget_largest_weight`; 1: there was none."""
        return represented(self.core.shed.cut.largest)

    def forget_largest_weight(self):
        """Begin to look for the `largest_weight` anew."""
        self.core.shed.cut.largest = 0

    def observe(self):
        """Start to record the lineage of all partial matches, see lineage.pyx. Nothing may be dropped while it is
        recorded.

        Raises
        ------
        ValueError
            If the plan has no row word for the number of the record (`Plan.observed`).
        """
        if not self.matcher.plan.observed:
            raise ValueError("the plan does not support a lineage record; compile it with observed=True")
        assert self.core.shed.on and not self.core.observed.on
        observe_init(&self.core.observed)

    def observed(self):
        """Stop recording and return the lineage as int64 arrays, see lineage_tables.pxd.

        ``parents``, ``events``, ``edges``, ``classes``: per record. ``placed``, ``places``: per row of an index.
        ``probes``, ``probed``, ``asked``, ``visited``: per probe of a bucket. ``matches``: the record of each match.
        ``values``: per record of a state with features. ``tried``, ``tried_for``, ``event_values``: per event and
        variable.
        """
        cdef LineageTables* lineage = &self.core.observed
        lineage.on = False
        return {
            "parents": take(&lineage.parents), "events": take(&lineage.events),
            "edges": take(&lineage.edges), "classes": take(&lineage.classes),
            "placed": take(&lineage.placed), "places": take(&lineage.places),
            "probes": take(&lineage.probes), "probed": take(&lineage.probed),
            "asked": take(&lineage.probe_edges), "visited": take(&lineage.visited),
            "matches": take(&lineage.matches), "values": take(&lineage.values),
            "tried": take(&lineage.tried), "tried_for": take(&lineage.variables), "event_values": take(&lineage.event_values),
        }

    def counted(self):
        """Return the counters of load shedding as int64 arrays, see shedding_tables.pxd.

        ``dropped_events``, ``seen``, ``tried``, ``yielded``: by type. ``born``, ``refused``, ``dropped``: by state and
        class. ``withheld``: by variable and class of the event.
        """
        cdef Py_ssize_t types = self.core.shed.n_types
        cdef Py_ssize_t cells = self.core.n_states * self.core.shed.stride
        return {
            "dropped_events": _to_array(self.core.shed.dropped_events, types), "seen": _to_array(self.core.shed.seen, types),
            "tried": _to_array(self.core.shed.tried, types), "yielded": _to_array(self.core.shed.yielded, types),
            "born": _to_array(self.core.shed.born, cells).reshape(-1, self.core.shed.stride),
            "refused": _to_array(self.core.shed.refused, cells).reshape(-1, self.core.shed.stride),
            "dropped": _to_array(self.core.shed.dropped, cells).reshape(-1, self.core.shed.stride),
            "withheld": _to_array(
                self.core.shed.withheld, self.core.shed.variables * self.core.shed.variable_stride
            ).reshape(-1, self.core.shed.variable_stride),
        }

    @property
    def totals(self):
        """Number of births refused, of events dropped from a window, of partial matches dropped by age, and of whole
        windows dropped.
        """
        return self.core.shed.n_refused, self.core.shed.n_in_windows, self.core.shed.n_aged, self.core.shed.n_windows

    def resume(self, counters, totals):
        """Continue from the results of `counted` and `totals`."""
        _write(self.core.shed.dropped_events, counters["dropped_events"], self.core.shed.n_types)
        _write(self.core.shed.seen, counters["seen"], self.core.shed.n_types)
        _write(self.core.shed.tried, counters["tried"], self.core.shed.n_types)
        _write(self.core.shed.yielded, counters["yielded"], self.core.shed.n_types)
        cells = self.core.n_states * self.core.shed.stride
        _write(self.core.shed.born, counters["born"], cells)
        _write(self.core.shed.refused, counters["refused"], cells)
        _write(self.core.shed.dropped, counters["dropped"], cells)
        _write(self.core.shed.withheld, counters["withheld"], self.core.shed.variables * self.core.shed.variable_stride)
        (self.core.shed.n_refused, self.core.shed.n_in_windows, self.core.shed.n_aged,
         self.core.shed.n_windows) = totals
