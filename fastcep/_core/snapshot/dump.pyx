# cython: language_level=3
"""Dump the state of a query to NumPy arrays without addresses, so that it can be stored, divided and moved.

``load`` is the inverse. ``dump`` returns a dict of int64 arrays; those of two dimensions have a row per word:

=====================  ==============================================================================================
``windows``            open explicit windows, oldest first: position, time, id, matches reported
``starts``             place, time, position, rows, window (the latest one that was open). The *place* is the number of
                       an isolated window, or -1 outside of windows. Sorted by place, then by age. The number of a
                       start is its index in this array
``nodes``              start, event word, previous node or -1. The number of a node is its index in this array
``index N``            per bucket of index N: place, rows, then the words of its key. The indexes of negations follow
                       those of states. If matches are limited by partition, the last index counts the reported matches
``rows N``             rows of index N, bucket by bucket: fixed words, then columns. Starts and nodes are numbers
``waiting``            waiting matches: place, time, birth, then the words of a row of `Pending`. Starts and nodes are
                       numbers
``partitions``         position of the last event, then the words of the key
=====================  ==============================================================================================

Dead rows are left out. Registers and keys have their representation in memory: a string is its code.
"""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc

import numpy as np

from fastcep._core.memory.open_windows cimport Opened, window_at
from fastcep._core.memory.pending_matches cimport HEAD, Pending, row_at
from fastcep._core.memory.row_store cimport Bucket, Index, bucket_at, column_of, key_of
from fastcep._core.memory.starts cimport Starts
from fastcep._core.program.plan_tables cimport State
from fastcep._core.state.core cimport Core, stores_of
from fastcep._core.state.state_metrics cimport first_position

cdef class _Place:
    """The buffers of one place, and the numbers of its starts and nodes."""
    cdef const Starts* starts
    cdef const Index* indexes
    cdef const Pending* pending
    cdef int64_t place
    cdef int64_t first           # number of the first start
    cdef int64_t* nodes          # per node its number

    def __dealloc__(self):
        free(self.nodes)


cdef dict dump(Core* core):
    """Return the state of a query as a dict of arrays."""
    cdef list places = _places(core)
    out = {"windows": _windows(core), "starts": _starts(core, places), "nodes": _nodes(places)}
    for i in range(stores_of(core)):
        out[f"index {i}"], out[f"rows {i}"] = _rows(core, places, i)
    out["waiting"] = _waiting(core, places)
    out["partitions"] = _partitions(core)
    return out


cdef object _windows(Core* core):
    """Return the array ``windows``."""
    cdef int64_t number, n = 0
    cdef const Opened* window
    for number in range(core.windows.first, core.windows.next):
        n += not window_at(&core.windows, number).closed
    cdef int64_t[:, ::1] out = np.empty((4, n), np.int64)
    n = 0
    for number in range(core.windows.first, core.windows.next):
        window = window_at(&core.windows, number)
        if not window.closed:
            out[0, n], out[1, n], out[2, n], out[3, n] = window.position, window.time, window.id, window.reported
            n += 1
    return np.asarray(out)


cdef list _places(Core* core):
    """Return the places that may have rows: outside of windows, then each open isolated window."""
    cdef _Place place = _Place()
    cdef Opened* window
    cdef int64_t number, n = 0
    place.place = -1
    place.starts, place.indexes, place.pending = &core.starts, core.indexes, &core.pending
    places = [place]
    for number in range(core.windows.first, core.windows.next):
        window = window_at(&core.windows, number)
        if window.closed:
            continue
        if window.part != NULL:
            place = _Place()
            place.place = n
            place.starts, place.indexes = &window.part.starts, window.part.indexes
            place.pending = &window.part.pending
            places.append(place)
        n += 1
    return places


cdef object _starts(Core* core, list places):
    """Return the array ``starts``, and number the starts of all places."""
    cdef _Place place
    cdef const Starts* starts
    cdef int64_t total = 0, ordinal, slot, window
    cdef int64_t[::1] opened = _open_before(core)
    for place in places:
        place.first = total
        total += place.starts.next - place.starts.first
    cdef int64_t[:, ::1] out = np.empty((5, total), np.int64)
    for place in places:
        starts = place.starts
        total = place.first
        with nogil:
            for ordinal in range(starts.first, starts.next):
                slot = ordinal & starts.mask
                window = starts.window[slot] - core.windows.first
                out[0, total] = place.place
                out[1, total] = starts.time[slot]
                out[2, total] = starts.position[slot]
                out[3, total] = starts.rows[slot]
                out[4, total] = opened[window] if core.is_shared else -1
                total += 1
    return np.asarray(out)


cdef object _open_before(Core* core):
    """Return for each window of the ring, open or closed, the number of the latest open window up to it."""
    cdef int64_t number, n = -1
    cdef int64_t[::1] out = np.empty(core.windows.next - core.windows.first, np.int64)
    for number in range(core.windows.first, core.windows.next):
        n += not window_at(&core.windows, number).closed
        out[number - core.windows.first] = n
    return out


cdef object _nodes(list places):
    """Return the array ``nodes``, and number the nodes of all places."""
    cdef _Place place
    cdef const Starts* starts
    cdef int64_t total = 0, begin, ordinal, node
    for place in places:
        total += place.starts.nodes_live
    cdef int64_t[:, ::1] out = np.empty((3, total), np.int64)
    total = 0
    for place in places:
        starts = place.starts
        if starts.nodes_live == 0:
            continue
        place.nodes = <int64_t*>malloc(starts.nodes_used * sizeof(int64_t))
        if place.nodes == NULL:
            raise MemoryError("no memory for the snapshot")
        begin = total
        with nogil:
            for ordinal in range(starts.first, starts.next):
                node = starts.node[ordinal & starts.mask]
                while node >= 0:
                    place.nodes[node] = total
                    out[0, total] = place.first + ordinal - starts.first
                    out[1, total] = starts.event[node]
                    out[2, total] = starts.previous[node]
                    total += 1
                    node = starts.sibling[node]
            for node in range(begin, total):
                if out[2, node] >= 0:
                    out[2, node] = place.nodes[out[2, node]]
    return np.asarray(out)


cdef bint is_chained(const Core* core, int slot) noexcept nogil:
    """Return whether a binding is a node: that of a Kleene variable or a group."""
    return slot >= core.n_variables or core.variables[slot].repeated


cdef tuple _rows(Core* core, list places, int number):
    """Return the arrays ``index N`` and ``rows N`` of an index."""
    cdef _Place place
    cdef const Index* index = core.indexes + number
    cdef State* state = NULL
    cdef Bucket* bucket
    cdef int64_t b, r, c, buckets = 0, rows = 0, bucket_start, word, first
    cdef int words = index.words, fixed = index.fixed, columns = index.columns
    if number < core.n_indexes and not core.factorised:
        state = core.states + core.infos[number].state
    if core.factorised and core.kept[number].predecessor >= 0:  # the last column, which is not part of the state
        columns -= 1
    for place in places:
        for b in range(place.indexes[number].n_buckets):
            bucket = bucket_at(place.indexes + number, b)
            rows += bucket.size - bucket.head
        buckets += place.indexes[number].n_buckets
    cdef int64_t[:, ::1] heads = np.empty((2 + words, buckets), np.int64)
    cdef int64_t[:, ::1] out = np.empty((fixed + columns, rows), np.int64)
    buckets = rows = 0
    for place in places:
        index = place.indexes + number
        first = place.starts.first
        if core.factorised:
            first = first_position(core)
        with nogil:
            for b in range(index.n_buckets):
                bucket = bucket_at(index, b)
                bucket_start = rows
                for r in range(bucket.head, bucket.size):
                    word = bucket.data[r * fixed]
                    if word < first and (state != NULL or core.factorised):
                        continue
                    if state != NULL:
                        word = place.first + word - first
                    out[0, rows] = word
                    for c in range(1, fixed):
                        out[c, rows] = bucket.data[r * fixed + c]
                    for c in range(columns):
                        out[fixed + c, rows] = column_of(index, bucket, <int>c)[r]
                    rows += 1
                if rows == bucket_start:
                    continue
                heads[0, buckets] = place.place
                heads[1, buckets] = rows - bucket_start
                for c in range(words):
                    heads[2 + c, buckets] = key_of(bucket)[c]
                if state != NULL:
                    for c in range(state.n_bind):
                        if is_chained(core, state.slots[c]):
                            for r in range(bucket_start, rows):
                                if out[state.bind + c, r] >= 0:
                                    out[state.bind + c, r] = place.nodes[out[state.bind + c, r]]
                buckets += 1
    return np.ascontiguousarray(np.asarray(heads)[:, :buckets]), np.ascontiguousarray(np.asarray(out)[:, :rows])


cdef object _waiting(Core* core, list places):
    """Return the array ``waiting``."""
    cdef _Place place
    cdef const Pending* pending
    cdef const int64_t* row
    cdef int64_t j, total = 0
    cdef int64_t width = core.outside.pending.width, c
    for place in places:
        total += place.pending.size
    cdef int64_t[:, ::1] out = np.empty((3 + width, total), np.int64)
    total = 0
    for place in places:
        pending = place.pending
        for j in range(pending.size):
            row = row_at(pending, pending.heap[j].row)
            out[0, total], out[1, total] = place.place, pending.heap[j].time
            out[2, total] = row[2] if core.longest else pending.heap[j].birth
            for c in range(width):
                out[3 + c, total] = row[c]
            out[3, total] = place.first + row[0] - place.starts.first
            if core.longest:
                out[5, total] = pending.heap[j].time  # the row has the birth there
            for c in range(core.n_slots):
                if not core.states[row[1]].has[c]:
                    out[3 + HEAD + c, total] = -1  # the memory of an absent binding is undefined
                elif is_chained(core, <int>c) and row[HEAD + c] >= 0:
                    out[3 + HEAD + c, total] = place.nodes[row[HEAD + c]]
            total += 1
    return np.asarray(out)


cdef object _partitions(Core* core):
    """Return the array ``partitions``."""
    cdef const Index* index = &core.partitions
    cdef Bucket* bucket
    cdef int64_t b
    cdef int c, words = index.words if core.partition != NULL else 0
    cdef int64_t[:, ::1] out = np.empty((1 + words, index.n_buckets), np.int64)
    for b in range(index.n_buckets):
        bucket = bucket_at(index, b)
        out[0, b] = bucket.data[0]
        for c in range(words):
            out[1 + c, b] = key_of(bucket)[c]
    return np.asarray(out)
