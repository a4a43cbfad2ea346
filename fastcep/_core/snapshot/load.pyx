# cython: language_level=3
"""Load the state of a query from the arrays of ``dump``, which documents them, into an empty core.

The arrays are overwritten: numbers become ordinals in place.

The numbers of starts, nodes and places are checked, so inconsistent arrays are rejected before they do harm. After an
error the core is partly loaded; its memory is freed with it.
"""
from libc.stdint cimport INT64_MAX, int8_t, int64_t, uint64_t

import numpy as np

from fastcep._core.memory.open_windows cimport add_window, window_at
from fastcep._core.memory.pending_matches cimport HEAD, new_row, row_at, wait
from fastcep._core.memory.row_store cimport Index, append, bucket_at, expect, find, find_or_add, put_buckets
from fastcep._core.memory.starts cimport EVENTS, Starts, new_node, relist, start_of
from fastcep._core.program.plan_tables cimport ROUND_AT, VARIABLE_AT, State
from fastcep._core.snapshot.dump cimport is_chained
from fastcep._core.state.core cimport Core, position_of, stores_of
from fastcep._core.state.draws cimport mixed
from fastcep._core.state.isolated_windows cimport enter, leave, set_relevant

cdef str _MISFIT = "{} that do not fit the other arrays of the state"

cdef class _Bounds:
    """First entry of each place in the arrays: the entries of place p (-1: outside) are ``[p + 1]:[p + 2]``."""
    cdef int64_t[::1] starts, nodes, waiting
    cdef list buckets, rows      # per index


cdef int load(Core* core, dict state) except -1:
    """Load a state; raises MemoryError, and ValueError if the arrays are inconsistent."""
    cdef int64_t place, places = 1 + state["windows"].shape[1]
    cdef _Bounds bounds = _bounds(core, state, places)
    if core.factorised:
        _count_kept(core, state)
    _load_partitions(core, state["partitions"])
    _load_windows(core, state["windows"])
    for place in range(-1, places - 1):
        if place < 0:
            _load_place(core, state, bounds, place)
        elif _is_used(bounds, place):
            if not enter(core, window_at(&core.windows, place)):
                raise MemoryError("no memory for the state")
            try:
                _load_place(core, state, bounds, place)
            finally:
                set_relevant(core, window_at(&core.windows, place))
                leave(core, window_at(&core.windows, place))
    core.starts.newest = core.windows.next - 1
    return 0


cdef _Bounds _bounds(Core* core, dict state, int64_t places):
    """Return the first entry of each place, and check the order of the entries."""
    cdef _Bounds out = _Bounds()
    last = places - 1 if core.is_isolated else 0
    all_places = np.arange(-1, places)

    def first_entries(numbers, name, values):
        _check(_is_within(numbers, *values), name)
        _check((np.diff(numbers) >= 0).all(), name)
        return np.searchsorted(numbers, all_places)

    out.starts = first_entries(state["starts"][0], "starts", (-1, last))
    nodes = state["nodes"][0]
    first_entries(nodes, "nodes", (0, state["starts"].shape[1]))
    out.nodes = np.searchsorted(nodes, np.asarray(out.starts))
    out.waiting = first_entries(state["waiting"][0], "waiting matches", (-1, last))
    out.buckets, out.rows = [], []
    for number in range(stores_of(core)):
        heads = state[f"index {number}"]
        _check(heads.shape[0] == 2 + core.indexes[<int>number].words, "keys")
        _check(_is_within(heads[1], 1, state[f"rows {number}"].shape[1] + 1), "keys")  # so that the sum does not wrap
        ends = np.concatenate([[0], np.cumsum(heads[1])])
        _check(ends[len(ends) - 1] == state[f"rows {number}"].shape[1], "rows")
        buckets = first_entries(heads[0], "keys", (-1, last))
        out.buckets.append(buckets)
        out.rows.append(ends[buckets])
    return out


cdef int _check(fits, name) except -1:
    """Raise an error that names an array unless ``fits``."""
    if not fits:
        raise ValueError(_MISFIT.format(name))
    return 0


def _is_within(values, low, high):
    """Return whether all values are in the range ``low:high``."""
    return values.size == 0 or (values.min() >= low and values.max() < high)


cdef bint _is_used(_Bounds bounds, int64_t place) except -1:
    """Return whether the state has entries of an isolated window."""
    tables = (bounds.starts, bounds.waiting, *bounds.buckets)
    return any([first[place + 1] < first[place + 2] for first in tables])


cdef int _load_windows(Core* core, const int64_t[:, ::1] table) except -1:
    """Load the open explicit windows."""
    cdef Py_ssize_t i
    for i in range(table.shape[1]):
        if add_window(&core.windows, NULL, table[0, i], table[1, i], table[2, i], mixed(<uint64_t>table[0, i])) < 0:
            raise MemoryError("no memory for the state")
        window_at(&core.windows, core.windows.next - 1).reported = table[3, i]
    return 0


cdef int _load_place(Core* core, dict state, _Bounds bounds, int64_t place) except -1:
    """Load the entries outside of windows (-1), or those of the window that is entered."""
    cdef int64_t start = bounds.starts[place + 1], node = bounds.nodes[place + 1]
    cdef int8_t[::1] slots
    cdef int i
    _load_starts(core, state["starts"][:, start:bounds.starts[place + 2]])
    _load_nodes(core, state["nodes"][:, node:bounds.nodes[place + 2]], start, node)
    slots = np.full(core.starts.nodes_used, -1, np.int8)
    for i in range(stores_of(core)):
        heads = state[f"index {i}"][:, bounds.buckets[i][place + 1]:bounds.buckets[i][place + 2]]
        if heads.shape[1] > 0:
            rows = state[f"rows {i}"][:, bounds.rows[i][place + 1]:bounds.rows[i][place + 2]]
            _load_rows(core, i, np.ascontiguousarray(heads), _to_ordinals(core, i, rows, start, node, slots))
    _load_waiting(core, state["waiting"][:, bounds.waiting[place + 1]:bounds.waiting[place + 2]], start, node, slots)
    return 0


cdef int _load_starts(Core* core, const int64_t[:, :] table) except -1:
    """Load starts, which must be in the order of the stream and of windows."""
    cdef Starts* starts = &core.starts
    cdef int64_t i, ordinal, position = -1, window = -1, oldest = 0
    if starts.kind == EVENTS:
        oldest = max(oldest, core.last - starts.span + 1)
    for i in range(table.shape[1]):
        if table[2, i] <= position or table[2, i] < oldest or table[2, i] > core.last:
            raise ValueError(_MISFIT.format("starts"))
        if core.is_shared and (table[4, i] < 0 or table[4, i] < window):
            raise ValueError(_MISFIT.format("windows"))
        position, window = table[2, i], table[4, i]
        ordinal = start_of(starts, table[1, i], table[2, i])
        if ordinal < 0:
            raise MemoryError("no memory for the state")
        if ordinal != starts.first + i or table[3, i] < 0 or table[4, i] >= core.windows.next:
            raise ValueError(_MISFIT.format("starts"))
        starts.rows[ordinal & starts.mask] = table[3, i]
        starts.window[ordinal & starts.mask] = table[4, i]
        starts.live += table[3, i]
    return 0


cdef int _load_nodes(Core* core, const int64_t[:, :] table, int64_t start, int64_t first) except -1:
    """Load nodes; ``start`` and ``first`` are the numbers of the first start and node of the place."""
    cdef int64_t i, previous
    for i in range(table.shape[1]):
        previous = table[2, i] - first if table[2, i] >= 0 else -1
        if previous < -1 or previous >= table.shape[1] or (
                previous >= 0 and position_of(table[1, previous]) >= position_of(table[1, i])):
            raise ValueError(_MISFIT.format("nodes"))
        if (table[1, i] >> VARIABLE_AT) & 0xFF >= core.n_variables or table[1, i] < 0:
            raise ValueError(_MISFIT.format("nodes"))
        if new_node(&core.starts, table[1, i], previous, table[0, i] - start) < 0:
            raise MemoryError("no memory for the state")
    return 0


cdef int _load_rows(Core* core, int number, const int64_t[:, ::1] heads, const int64_t[:, ::1] rows) except -1:
    """Load the buckets of an index."""
    cdef Index* index = core.indexes + number
    cdef int64_t n = heads.shape[1]
    cdef int status
    if expect(index, n) < 0:
        raise MemoryError("no memory for the state")
    with nogil:
        status = put_buckets(index, &heads[1, 0], n, n, &rows[0, 0], rows.shape[1])
    if status == -1:
        raise MemoryError("no memory for the state")
    return _check(status == 0, "keys")


cdef object _to_ordinals(Core* core, int number, rows, int64_t start, int64_t node, int8_t[::1] slots):
    """Return the rows of an index with the numbers of starts and nodes replaced by ordinals.

    ``slots`` has the binding of each node, -1 as long as it is unknown.
    """
    cdef State* state
    cdef int c
    if core.factorised and core.kept[number].predecessor >= 0:  # unknown: the search compares positions
        rows = np.vstack([rows, np.full(rows.shape[1], INT64_MAX, np.int64)])
    core.has_nulls = True
    words = np.ascontiguousarray(rows)
    _check(words.shape[0] == core.indexes[number].fixed + core.indexes[number].columns, "rows")
    if number >= core.n_indexes or core.factorised:
        return words
    state = core.states + core.infos[number].state
    words[0] -= start
    _check(_is_within(words[0], 0, core.starts.next), "rows")
    for c in range(state.n_bind):
        if is_chained(core, state.slots[c]):
            _shift(words[state.bind + c], node, core.starts.nodes_used)
            _assign_nodes(core, words[state.bind + c], state.slots[c], slots)
    return words


cdef int _count_kept(Core* core, dict state) except -1:
    """Check the positions of the events in the factorised store and count them again under their starts.

    The counts in the arrays may come from several parts of a state, each of which counted for itself.
    """
    starts = state["starts"]
    counts = np.zeros(starts.shape[1], np.int64)
    cdef int variable
    for variable in range(core.n_variables - 1):
        stores = range(core.first_kept[variable], core.first_kept[variable + 1])
        positions = np.unique(np.concatenate([state[f"rows {number}"][0] for number in stores]))
        _check(_is_within(positions, 0, core.last + 1), "rows")
        places = np.searchsorted(starts[2], positions, "right") - 1
        counts += np.bincount(places[places >= 0], minlength=len(counts)).astype(np.int64)
        if variable == 0:
            _check(np.isin(positions, starts[2]).all(), "starts")
    for number in range(core.n_indexes):
        rows, sizes = state[f"rows {number}"][0], state[f"index {number}"][1]
        bucket_of_row = np.repeat(np.arange(len(sizes)), sizes)
        _check((np.diff(rows)[np.diff(bucket_of_row) == 0] > 0).all(), "rows")
    starts[3] = counts
    return 0


cdef int _shift(words, int64_t first, int64_t end) except -1:
    """Subtract the number of the first node from the numbers of nodes; -1 stays."""
    np.subtract(words, first, out=words, where=words >= 0)
    return _check(_is_within(words, -1, end), "rows")


cdef int _assign_nodes(Core* core, const int64_t[:] nodes, int slot, int8_t[::1] slots) except -1:
    """Assign the nodes of lists to a binding in ``slots``, and check them.

    A node must belong to one binding only, its variable must be of the binding, and the list of a group must begin with
    a round.
    """
    cdef int64_t i, node, word
    cdef bint fits
    for i in range(nodes.shape[0]):
        node = nodes[i]
        while node >= 0 and slots[node] != slot:
            word = core.starts.event[node]
            fits = slots[node] < 0
            if slot < core.n_variables:
                fits = fits and word >> VARIABLE_AT == 0
            else:
                fits = fits and core.variables[(word >> VARIABLE_AT) & 0xFF].slot == slot
                fits = fits and (core.starts.previous[node] >= 0 or word >> ROUND_AT == 1)
            _check(fits, "nodes")
            slots[node] = slot
            node = core.starts.previous[node]
    return 0


cdef int _load_waiting(Core* core, table, int64_t start, int64_t node, int8_t[::1] slots) except -1:
    """Load the waiting matches of a place."""
    cdef const int64_t[:, ::1] rows
    cdef int64_t i, row, c, width = core.pending.width
    cdef int64_t* to
    _check(table.shape[0] == 3 + width, "waiting matches")
    if table.shape[1] == 0:
        return 0
    words = table.copy()
    words[3] -= start
    _check(_is_within(words[3], 0, core.starts.next) and _is_within(words[4], 0, core.n_states), "waiting matches")
    for c in range(core.n_slots):
        if is_chained(core, <int>c):
            _shift(words[3 + HEAD + c], node, core.starts.nodes_used)
            _assign_nodes(core, words[3 + HEAD + c], c, slots)
    rows = words
    for i in range(rows.shape[1]):
        row = new_row(&core.pending)
        if row < 0 or wait(&core.pending, rows[1, i], rows[2, i], row) < 0:
            raise MemoryError("no memory for the state")
        to = row_at(&core.pending, row)
        for c in range(width):
            to[c] = rows[3 + c, i]
        if core.longest:
            to[2] = rows[2, i]
            if core.starts.best[to[0] & core.starts.mask] >= 0:
                raise ValueError(_MISFIT.format("waiting matches"))
            core.starts.best[to[0] & core.starts.mask] = row
            core.starts.alive[to[0] & core.starts.mask] = _last_event(core, to)
    if core.longest:
        core.starts.unsettled = True
        if core.follows and relist(&core.starts) < 0:
            raise MemoryError("no memory for the state")
    core.due = core.pending.heap[0].time
    return 0


cdef int64_t _last_event(Core* core, const int64_t* row) noexcept nogil:
    """Return the last event of the partition of a waiting match, or of the stream: its start has not ended before it."""
    cdef const State* state = core.states + row[1]
    cdef int64_t number
    cdef int w
    if core.partition == NULL or core.previous_column < 0:
        return core.last
    for w in range(core.partitions.words):
        core.key[w] = row[HEAD + core.n_slots + 2 * state.partition[w]]
    number = find(&core.partitions, core.key)
    return -1 if number < 0 else bucket_at(&core.partitions, number).data[0]


cdef int _load_partitions(Core* core, const int64_t[:, :] table) except -1:
    """Load the last event of each partition."""
    cdef Index* index = &core.partitions
    cdef int64_t b, number
    cdef int c, words = index.words if core.partition != NULL else 0
    _check(table.shape[0] == 1 + words, "partitions")
    for b in range(table.shape[1] if core.partition != NULL else 0):
        for c in range(words):
            core.key[c] = table[1 + c, b]
        number = find_or_add(index, core.key)
        if number < 0 or (bucket_at(index, number).size == 0 and append(index, number, 0) < 0):
            raise MemoryError("no memory for the state")
        bucket_at(index, number).data[0] = table[0, b]
    return 0
