# cython: language_level=3
"""What may be done to a matcher under overload, for Python: tables in, counters out. See drop.pyx for what they do."""
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy

import numpy as np

from fastcep._core.matcher.loop cimport held_bytes
from fastcep._core.matcher.matcher cimport Matcher
from fastcep._core.memory.vectors cimport take
from fastcep._core.shed.drop cimport walk_cells
from fastcep._core.shed.flows cimport (
    CHILD_AT, CHILD_CLASS_AT, EVENT_CLASS_AT, MEMBER_AT, PARENT_AT, PARENT_CLASS_AT, SET_AT, SLICE_AT, flows_add,
    flows_clear, flows_free, flows_init, stands_for,
)
from fastcep._core.shed.lineage cimport observe_init
from fastcep._core.shed.tables_memory cimport shed_init, slice_births
from fastcep._core.state.core cimport Core
from fastcep._core.state.draws cimport mixed, steps_of
from fastcep._core.state.lineage_tables cimport LineageTables
from fastcep._core.state.shedding_tables cimport (
    DRAWN_BITS, MOST_FEATURES, MOST_SLICES, Classifier, Flow, Flows, Node, Prices, Tried,
)

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil


#: A node of a decision tree: the feature that it asks for (-1: a leaf), where a value goes that is at most the threshold, and
#: the others; the class of a leaf.
NODE = np.dtype([("feature", np.int32), ("left", np.int32), ("right", np.int32), ("own", np.int32), ("threshold", np.float64)])


#: Where in a key of `Shedding.flows` each field begins, and how many bits it has; and the bit that is set in every key.
FLOW_FIELDS = {
    "target_class": (CHILD_CLASS_AT, CHILD_AT - CHILD_CLASS_AT), "target": (CHILD_AT, EVENT_CLASS_AT - CHILD_AT),
    "event_class": (EVENT_CLASS_AT, MEMBER_AT - EVENT_CLASS_AT), "member": (MEMBER_AT, SLICE_AT - MEMBER_AT),
    "slice": (SLICE_AT, PARENT_CLASS_AT - SLICE_AT), "source_class": (PARENT_CLASS_AT, PARENT_AT - PARENT_CLASS_AT),
    "source": (PARENT_AT, SET_AT - PARENT_AT),
}
FLOW_SET = 1 << int(SET_AT)


cdef int _check_slices(Py_ssize_t slices) except -1:
    if not 0 < slices <= MOST_SLICES:
        raise ValueError(f"{slices} slices of a window, expected 1 to {MOST_SLICES}")
    return 0


cdef object _copied(const int64_t* values, Py_ssize_t n):
    cdef int64_t[::1] out = np.empty(n, np.int64)
    if n > 0:
        memcpy(&out[0], values, n * sizeof(int64_t))
    return np.asarray(out)


cdef int _write(int64_t* to, values, Py_ssize_t n) except -1:
    cdef const int64_t[::1] flat = np.ascontiguousarray(values, np.int64).reshape(-1)
    if flat.shape[0] != n:
        raise ValueError("counters of load shedding do not fit the query")
    if n > 0:
        memcpy(to, &flat[0], n * sizeof(int64_t))
    return 0


cdef int _classify(Classifier* by, item, str dtypes) except -1:
    """Take a table of classes; the dtypes of its features are the plan's."""
    cdef const int64_t[::1] low, size
    cdef const uint8_t[::1] table
    low, size, table, other = item
    assert low.shape[0] == size.shape[0] == len(dtypes) <= MOST_FEATURES
    assert table.shape[0] == np.prod(size)
    by.n_features = low.shape[0]
    by.low, by.size, by.table = <int64_t*>&low[0], <int64_t*>&size[0], <uint8_t*>&table[0]
    by.other = other
    by.floats = sum(1 << f for f, dtype in enumerate(dtypes) if dtype == "f")
    return 0


cdef int _plant(Classifier* by, item, str dtypes) except -1:
    """Take a decision tree."""
    cdef const uint8_t[::1] nodes
    nodes, by.other = item
    by.n_features = len(dtypes)
    assert 0 < by.n_features <= MOST_FEATURES and nodes.shape[0] % sizeof(Node) == 0
    by.tree = <Node*>&nodes[0]
    by.floats = sum(1 << f for f, dtype in enumerate(dtypes) if dtype == "f")
    return 0


cdef int _classify_by(Classifier* by, item, str dtypes) except -1:
    return _plant(by, item, dtypes) if len(item) == 2 else _classify(by, item, dtypes)


cdef int _most(item) except -1:
    """The largest class that there is."""
    nodes, other = item[-2:]
    own = nodes.view(NODE)["own"] if len(item) == 2 else nodes
    return max(int(own.max()), other)


cdef int32_t* _numbers(int32_t[::1] numbers):
    return &numbers[0]


cdef class Shedding:
    """Load shedding of one query.

    Parameters
    ----------
    matcher
        The query's.
    """
    cdef Matcher matcher
    cdef Core* core
    cdef object classes           # arrays that the matcher reads
    cdef object costs

    def __cinit__(self, Matcher matcher not None):
        self.matcher = matcher
        self.core = &matcher.core

    def begin(self, classes, unsigned long long seed, events=()):
        """Be ready to drop events and partial matches; nothing is dropped yet.

        Parameters
        ----------
        classes
            Per state ``(low, size, table, other)``: by which values of its features (each from ``low`` on so many) a
            partial match is of which class; the others, and null, are of class ``other``. Or ``(nodes, other)``, a
            decision tree as bytes (see `Tree.nodes`). None: all are of class 0.
        seed
            Of what is drawn.
        events
            The same per variable, of the events that may be bound to it; empty: of no variable.
        """
        cdef Py_ssize_t i
        cdef int members = self.core.n_members
        events = events or [None] * members
        plan = self.matcher.plan
        bound = plan.event_features or [()] * members
        assert len(classes) == self.core.n_states
        assert len(events) == members
        strides = [max([1] + [_most(item) + 1 for item in tables if item is not None]) for tables in (classes, events)]
        if shed_init(&self.core.shed, len(plan.type_members), self.core.n_states, strides[0], members, strides[1], seed) < 0:
            raise MemoryError("no memory for load shedding")
        columns = [np.array(own, np.int32) for own in bound]
        self.classes = (classes, events, columns)
        self.matcher.keeps = (self.classes, self.costs)
        for i, item in enumerate(classes):
            if item is not None:
                _classify_by(self.core.shed.classifiers + i, item, plan.states[i].features)
        for i, item in enumerate(events):
            if item is not None:
                _classify_by(self.core.shed.by_member + i, item, "".join(plan.columns[c].dtype for c in bound[i]))
                self.core.shed.features_of[i] = _numbers(columns[i])

    @property
    def stride(self):
        """Classes of the state that has most: the second size of tables by state and class."""
        return self.core.shed.stride

    def drop_events(self, const int64_t[::1] chances):
        """Drop events from now on, by a chance per type in 2^32."""
        cdef int i
        assert chances.shape[0] == self.core.shed.n_types
        self.core.shed.events = False
        for i in range(self.core.shed.n_types):
            self.core.shed.by_type[i] = chances[i]
            self.core.shed.events |= chances[i] > 0

    def drop_in_windows(self, const int64_t[:, ::1] chances, int64_t bin=1):
        """Keep events out of isolated windows from now on, by a chance per type and place in the window.

        Places are counted in steps of ``bin`` events; what is behind the last is as that. None: keep none out.
        """
        cdef Py_ssize_t i, j
        free(self.core.shed.in_windows)
        self.core.shed.in_windows = NULL
        if chances is None:
            return
        assert chances.shape[0] == self.core.shed.n_types and chances.shape[1] > 0 and bin > 0
        self.core.shed.in_windows = <int64_t*>calloc(chances.shape[0] * chances.shape[1], sizeof(int64_t))
        if self.core.shed.in_windows == NULL:
            raise MemoryError("no memory for load shedding")
        self.core.shed.bins, self.core.shed.bin = chances.shape[1], bin
        for i in range(chances.shape[0]):
            for j in range(chances.shape[1]):
                self.core.shed.in_windows[i * chances.shape[1] + j] = chances[i, j]

    def refuse_births(self, const int64_t[:, :, ::1] chances):
        """Refuse births of partial matches from now on, by a chance per state, class and slice of the window."""
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
            self.core.shed.refuse_stands[i] = stands_for(steps_of(flat[i]) << 32 - DRAWN_BITS)
            self.core.shed.births |= flat[i] > 0
        grown = np.asarray(chances).max(axis=2, initial=0) > np.asarray(chances)[:, :, 0] if n > 0 else np.zeros((0, 1), bool)
        for i in range(self.core.n_states):
            self.core.shed.ages[i] = grown[i].any()

    def count_flows(self, int slices, int64_t capacity=1 << 14):
        """Count the children of partial matches from now on, see flows.pyx, by so many slices of the window.

        ``capacity``: of the table, a power of two; it takes 32 bytes each. Those of
        every event are counted, see `count_share`.
        """
        _check_slices(slices)
        assert capacity > 0 and capacity & (capacity - 1) == 0
        if slices != self.core.shed.slices and slice_births(&self.core.shed, self.core.n_states, slices) < 0:
            raise MemoryError("no memory for load shedding")
        if flows_init(&self.core.shed.flows, capacity, self.core.shed.members * self.core.shed.member_stride) < 0:
            raise MemoryError("no memory for load shedding")

    def count_share(self, double share):
        """Count the children of this share of the events from now on, each of which stands for the others."""
        assert self.core.shed.flows.on and 0 < share <= 1
        self.core.shed.flows.chance = max(1, <int64_t>(share * 4294967296.0))
        self.core.shed.flows.stands = 4294967296.0 / <double>self.core.shed.flows.chance

    def stop_flows(self):
        """Count no more."""
        flows_free(&self.core.shed.flows)

    def flows(self):
        """What was counted since the last call: keys (uint64, see flows.pxd, ascending), counts, their squares, and how many
        were lost; and per variable and class, how many events were tried for it.
        """
        cdef Flows* own = &self.core.shed.flows
        cdef int64_t i, n = 0, cells = self.core.shed.members * self.core.shed.member_stride
        keys, counts, squares, asked = np.empty(own.used, np.uint64), np.empty(own.used), np.empty(own.used), np.zeros(cells)
        cdef uint64_t[::1] to_keys = keys
        cdef double[::1] to_counts = counts, to_squares = squares, to_asked = asked
        cdef const Flow* one
        for i in range(own.capacity):
            one = own.table + i
            if one.key != 0:
                to_keys[n], to_counts[n], to_squares[n] = one.key, one.count, one.square
                n += 1
        for i in range(cells if own.on else 0):
            to_asked[i] = own.asked[i]
        lost = own.lost
        if own.on:
            flows_clear(own, cells)
        order = np.argsort(keys)
        return keys[order], counts[order], squares[order], lost, asked.reshape(-1, self.core.shed.member_stride)

    def resume_flows(self, const uint64_t[::1] keys, const double[::1] counts, const double[::1] squares, double lost,
                     const double[:, ::1] asked):
        """Go on from what `flows` has told."""
        cdef Py_ssize_t i, j
        assert self.core.shed.flows.on and keys.shape[0] == counts.shape[0] == squares.shape[0]
        assert asked.shape[0] == self.core.shed.members and asked.shape[1] == self.core.shed.member_stride
        flows_clear(&self.core.shed.flows, self.core.shed.members * self.core.shed.member_stride)
        for i in range(keys.shape[0]):
            if keys[i] != 0:
                flows_add(&self.core.shed.flows, keys[i], counts[i], squares[i])
        self.core.shed.flows.lost += lost
        for i in range(asked.shape[0]):
            for j in range(asked.shape[1]):
                self.core.shed.flows.asked[i * asked.shape[1] + j] = asked[i, j]

    def withhold(self, const int64_t[:, ::1] chances):
        """Do not try events for a variable from now on, by a chance per variable and class of the event."""
        cdef Py_ssize_t i, j
        assert chances.shape[0] == self.core.shed.members and chances.shape[1] == self.core.shed.member_stride
        self.core.shed.binds = False
        for i in range(chances.shape[0]):
            for j in range(chances.shape[1]):
                self.core.shed.withhold[i * chances.shape[1] + j] = chances[i, j]
                self.core.shed.withhold_stands[i * chances.shape[1] + j] = stands_for(chances[i, j])
                self.core.shed.binds |= chances[i, j] > 0

    @property
    def event_stride(self):
        """Classes of the variable whose events have most: the second size of tables by variable and class."""
        return self.core.shed.member_stride

    def drop_rows(self, const int64_t[:, :, ::1] chances, unsigned long long salt):
        """Drop partial matches now, by a chance per state, class and slice; returns how many were looked at.

        ``salt`` is another number at each call, or one and the same would fall each time; 0: those fall whose birth would
        have been refused with the chance.
        """
        cdef int64_t seen
        assert chances.shape[0] == self.core.n_states and chances.shape[1] == self.core.shed.stride
        _check_slices(chances.shape[2])
        with nogil:
            seen = walk_cells(self.core, <int>chances.shape[2], &chances[0, 0, 0], NULL, mixed(salt) if salt else 0)
        FC_CHECK(held_bytes(self.core) == self.core.budget.used)
        return seen

    def count_rows(self, int slices=1):
        """How many live partial matches there are by state, class and slice of the window: int64[states, classes, slices]."""
        _check_slices(slices)
        cdef int64_t[:, :, ::1] counts = np.zeros((self.core.n_states, self.core.shed.stride, slices), np.int64)
        if counts.shape[0]:
            with nogil:
                walk_cells(self.core, slices, NULL, &counts[0, 0, 0], 0)
        return np.asarray(counts)

    def meter(self, int64_t[::1] costs, const int64_t[::1] prices):
        """Add to ``costs`` what each event costs that is processed from now on, the first of each call at its begin.

        ``prices`` are picoseconds per event, relevant event, partial match visited, created, refused, match, and partial match
        that falls with age.
        ``costs`` None: no more.
        """
        self.costs = costs
        self.matcher.keeps = (self.classes, costs)
        self.core.costs = NULL if costs is None else &costs[0]
        self.core.prices.event, self.core.prices.relevant, self.core.prices.visited = prices[0], prices[1], prices[2]
        self.core.prices.created, self.core.prices.refused, self.core.prices.match = prices[3], prices[4], prices[5]
        self.core.prices.purged = prices[6]

    def cut_off(self, int64_t most, double share):
        """Cut off the work for an event from now on, see work_limit.pyx.

        ``most`` are picoseconds that it may cost, those of any event included; 0: nothing is cut off. ``share``: of the
        events that may run on.
        """
        cdef const Prices* prices = &self.core.prices
        cdef int m, e
        cdef bint completing, reports = False
        assert 0 <= share <= 1 and self.core.n_members <= 64
        self.core.shed.cut.most = 0
        self.core.shed.cut.completing = 0
        if most <= 0:
            return
        self._make_room()
        self.core.shed.cut.most = max(1, most - prices.event - prices.relevant)
        self.core.shed.cut.share = <int64_t>(share * 4294967296.0)
        for m in range(self.core.n_members):
            completing = not self.core.leaves[m].negated and not reports
            for e in range(self.core.leaves[m].first_edge, self.core.leaves[m].end_edge):
                completing = completing and self.core.edges[e].source >= 0 and not self.core.edges[e].born
            if not completing:  # what comes behind it must not come before its matches
                for e in range(self.core.leaves[m].first_edge, self.core.leaves[m].end_edge):
                    reports = reports or self.core.states[self.core.edges[e].target].accepting
            else:
                self.core.shed.cut.completing |= <uint64_t>1 << m

    @property
    def tried(self):
        """What events were tried with, and cut off, by edge of the plan: int64[edges, 3], looks at partial matches,
        children that were made, and looks that were cut off. 0 where nothing is cut off.
        """
        cells = np.zeros((len(self.matcher.plan.edges), 3), np.int64)
        cdef int64_t[:, ::1] out = cells
        if self.core.shed.cut.tried != NULL and len(cells):  # plans of the factorised store have no edges
            memcpy(&out[0, 0], self.core.shed.cut.tried, len(self.matcher.plan.edges) * sizeof(Tried))
        return cells

    def cut_state(self):
        """What a snapshot has of it: the credit and since when, the mean of what is lost, and `tried`."""
        return [self.core.shed.cut.credit, self.core.shed.cut.last, self.core.shed.cut.mean, self.tried.tolist()]

    def _make_room(self):
        if self.core.shed.cut.tried == NULL:
            self.core.shed.cut.tried = <Tried*>calloc(len(self.matcher.plan.edges), sizeof(Tried))
        if self.core.shed.cut.tried == NULL:
            raise MemoryError("no memory for load shedding")

    def resume_cut(self, state):
        """Go on from `cut_state`."""
        self._make_room()
        self.core.shed.cut.credit, self.core.shed.cut.last, self.core.shed.cut.mean = state[0], state[1], state[2]
        _write(<int64_t*>self.core.shed.cut.tried, state[3], 3 * len(self.matcher.plan.edges))

    def observe(self):
        """Keep a record of all partial matches from now on, see lineage.pyx; nothing may be dropped meanwhile.

        Raises
        ------
        ValueError
            If rows have no place for the number of their record (`Plan.observed`).
        """
        cdef int i
        for i in range(self.core.n_states):
            if self.core.states[i].n_indexes > 0 and self.core.states[i].classed < 0:
                raise ValueError("the plan was not made to be observed")
        assert self.core.shed.on and not self.core.observed.on
        observe_init(&self.core.observed)

    def observed(self):
        """End the record and give it, as int64 arrays.

        ``parents``, ``events``, ``edges``, ``classes`` by record; ``placed``, ``places`` by row of an index; ``probes``,
        ``probed``, ``asked``, ``visited`` by look into a bucket; ``matches``: the record of each match; ``values`` by
        record of a state with features; ``tried``, ``tried_for``, ``event_values`` by event and variable. See lineage_tables.pxd.
        """
        cdef LineageTables* own = &self.core.observed
        own.on = False
        return {
            "parents": take(&own.parents), "events": take(&own.events),
            "edges": take(&own.edges), "classes": take(&own.classes),
            "placed": take(&own.placed), "places": take(&own.places),
            "probes": take(&own.probes), "probed": take(&own.probed),
            "asked": take(&own.asked), "visited": take(&own.visited),
            "matches": take(&own.matches), "values": take(&own.values),
            "tried": take(&own.tried), "tried_for": take(&own.members), "event_values": take(&own.event_values),
        }

    def counted(self):
        """What load shedding has counted, as arrays.

        ``dropped_events``, ``seen``, ``tried``, ``yielded`` by type, see shedding_tables.pxd; ``born``, ``refused``,
        ``dropped`` by state and class; ``withheld`` by variable and class of the event.
        """
        cdef Py_ssize_t types = self.core.shed.n_types
        cdef Py_ssize_t cells = self.core.n_states * self.core.shed.stride
        return {
            "dropped_events": _copied(self.core.shed.dropped_events, types), "seen": _copied(self.core.shed.seen, types),
            "tried": _copied(self.core.shed.tried, types), "yielded": _copied(self.core.shed.yielded, types),
            "born": _copied(self.core.shed.born, cells).reshape(-1, self.core.shed.stride),
            "refused": _copied(self.core.shed.refused, cells).reshape(-1, self.core.shed.stride),
            "dropped": _copied(self.core.shed.dropped, cells).reshape(-1, self.core.shed.stride),
            "withheld": _copied(
                self.core.shed.withheld, self.core.shed.members * self.core.shed.member_stride
            ).reshape(-1, self.core.shed.member_stride),
        }

    @property
    def totals(self):
        """How many births were refused, events kept out of a window, and partial matches have fallen with age."""
        return self.core.shed.n_refused, self.core.shed.n_in_windows, self.core.shed.n_fell

    def resume(self, counted, totals):
        """Go on from what `counted` and `totals` have told."""
        _write(self.core.shed.dropped_events, counted["dropped_events"], self.core.shed.n_types)
        _write(self.core.shed.seen, counted["seen"], self.core.shed.n_types)
        _write(self.core.shed.tried, counted["tried"], self.core.shed.n_types)
        _write(self.core.shed.yielded, counted["yielded"], self.core.shed.n_types)
        cells = self.core.n_states * self.core.shed.stride
        _write(self.core.shed.born, counted["born"], cells)
        _write(self.core.shed.refused, counted["refused"], cells)
        _write(self.core.shed.dropped, counted["dropped"], cells)
        _write(self.core.shed.withheld, counted["withheld"], self.core.shed.members * self.core.shed.member_stride)
        self.core.shed.n_refused, self.core.shed.n_in_windows, self.core.shed.n_fell = totals
