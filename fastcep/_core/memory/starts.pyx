# cython: language_level=3
"""Starts: a ring with one entry per event that begins partial matches.

Every row stores the ordinal of its start and is dead when the ordinal is before ``first``. Therefore expiry costs one
comparison per row, and the number of live rows is always exact. Chain nodes hold the elements of Kleene variables and
are shared by all rows that extend them. They belong to a start and are freed with it, without reference counts or
garbage collection.
"""
from libc.stdint cimport INT64_MAX, int64_t
from libc.string cimport memset

from fastcep._core.memory.allocator cimport Budget, give_back, obtain, regrow, shrink
from fastcep._core.memory.start_lists cimport lists_clear, lists_init, put_list, take_list

cdef enum:
    FIRST_ENTRIES = 64       # entries of a new ring
    MOST_IDLE = 4096         # entries, and chain nodes, that an empty ring may keep
    ENTRY_BYTES = 40         # bytes of an entry,
    TRACKED_BYTES = 64       # and of one with the words of SELECT longest


cdef inline int64_t _entry_bytes(const Starts* starts) noexcept nogil:
    return TRACKED_BYTES if starts.tracks else ENTRY_BYTES


cdef int grow(Starts* starts) noexcept nogil:
    """Double the ring; -1 without memory."""
    cdef int64_t old = 0 if starts.time == NULL else starts.mask + 1
    cdef int64_t capacity = old * 2 if old else FIRST_ENTRIES, i
    cdef int64_t* grown = <int64_t*>obtain(starts.budget, capacity * _entry_bytes(starts))
    cdef int64_t* old_block = starts.time
    if grown == NULL:
        return -1
    _clear_block(starts, grown, capacity)
    for i in range(starts.kept, starts.next):
        grown[i & (capacity - 1)] = starts.time[i & starts.mask]
        grown[capacity + (i & (capacity - 1))] = starts.position[i & starts.mask]
        grown[2 * capacity + (i & (capacity - 1))] = starts.rows[i & starts.mask]
        grown[3 * capacity + (i & (capacity - 1))] = starts.node[i & starts.mask]
        grown[4 * capacity + (i & (capacity - 1))] = starts.window[i & starts.mask]
        if starts.tracks:
            grown[5 * capacity + (i & (capacity - 1))] = starts.alive[i & starts.mask]
            grown[6 * capacity + (i & (capacity - 1))] = starts.best[i & starts.mask]
            grown[7 * capacity + (i & (capacity - 1))] = starts.older[i & starts.mask]
    _set_block(starts, grown, capacity)
    give_back(starts.budget, old_block, old * _entry_bytes(starts))
    return 0


cdef int starts_init(Starts* starts, Budget* budget, int kind, int64_t span, bint tracks) noexcept nogil:
    """Initialise an empty ring for windows of this kind and length; -1 without memory."""
    memset(starts, 0, sizeof(Starts))
    starts.budget = budget
    lists_init(&starts.lists, budget)
    starts.kind = kind
    starts.span = span
    starts.tracks = tracks
    starts.due = INT64_MAX
    starts.free_node = -1
    return grow(starts)


cdef void starts_clear(Starts* starts) noexcept nogil:
    """Free all memory."""
    if starts.budget != NULL:
        give_back(starts.budget, starts.time, (starts.mask + 1) * _entry_bytes(starts))
        _clear_nodes(starts)
        lists_clear(&starts.lists)
        starts.time = NULL


cdef void _clear_nodes(Starts* starts) noexcept nogil:
    give_back(starts.budget, starts.event, starts.node_capacity * 8)
    give_back(starts.budget, starts.previous, starts.node_capacity * 8)
    give_back(starts.budget, starts.sibling, starts.node_capacity * 8)
    starts.event = starts.previous = starts.sibling = NULL
    starts.node_capacity = starts.nodes_used = 0
    starts.free_node = -1


cdef int64_t starts_bytes(const Starts* starts) noexcept nogil:
    """Return the bytes of the ring and of the chain nodes."""
    return (starts.mask + 1) * _entry_bytes(starts) + starts.node_capacity * 24 + starts.lists.n_slots * 16


cdef int relist(Starts* starts) noexcept nogil:
    """Make the lists anew, after starts got other numbers; -1 without memory."""
    cdef int64_t start, slot
    lists_clear(&starts.lists)
    for start in range(starts.first, starts.next):
        slot = start & starts.mask
        if starts.best[slot] >= 0 and starts.alive[slot] >= 0:
            starts.older[slot] = take_list(&starts.lists, starts.alive[slot])
            if put_list(&starts.lists, starts.alive[slot], start, starts.first) < 0:
                return -1
    return 0


cdef void starts_rest(Starts* starts, bint fully) noexcept nogil:
    """Shrink an empty ring if it is large, or in any case with ``fully``; ordinals continue."""
    cdef void* block
    if fully or starts.node_capacity > MOST_IDLE:
        _clear_nodes(starts)
    if fully or starts.lists.n_slots > MOST_IDLE:
        lists_clear(&starts.lists)
    if starts.mask >= (FIRST_ENTRIES if fully else MOST_IDLE):
        block = shrink(
            starts.budget, starts.time, (starts.mask + 1) * _entry_bytes(starts), FIRST_ENTRIES * _entry_bytes(starts))
        _clear_block(starts, <int64_t*>block, FIRST_ENTRIES)
        _set_block(starts, <int64_t*>block, FIRST_ENTRIES)


cdef void _clear_block(const Starts* starts, int64_t* block, int64_t capacity) noexcept nogil:
    """Set the nodes and windows of a block without starts.

    The factorised store, which has neither chains nor explicit windows, relies on them and never sets them.
    """
    cdef int64_t i
    for i in range(capacity):
        block[3 * capacity + i] = -1
        block[4 * capacity + i] = starts.newest


cdef void _set_block(Starts* starts, int64_t* block, int64_t capacity) noexcept nogil:
    starts.time = block
    starts.position = block + capacity
    starts.rows = block + 2 * capacity
    starts.node = block + 3 * capacity
    starts.window = block + 4 * capacity
    if starts.tracks:
        starts.alive = block + 5 * capacity
        starts.best = block + 6 * capacity
        starts.older = block + 7 * capacity
    starts.mask = capacity - 1


cdef int _grow_nodes(Starts* starts) noexcept nogil:
    cdef int64_t old = starts.node_capacity, capacity = max(64, old * 2)
    cdef void** arrays[3]
    cdef int j
    arrays[0] = <void**>&starts.event
    arrays[1] = <void**>&starts.previous
    arrays[2] = <void**>&starts.sibling
    for j in range(3):
        if not regrow(starts.budget, arrays[j], old, capacity, 8):
            starts.budget.used -= j * (capacity - old) * 8  # arrays that did grow stay longer than ``node_capacity``
            return -1
    starts.node_capacity = capacity
    return 0


cdef int64_t new_node(Starts* starts, int64_t event, int64_t previous, int64_t start) noexcept nogil:
    """Append ``event`` to the chain that ends in node ``previous`` (-1: a new chain); -1 without memory."""
    cdef int64_t node = starts.free_node
    if node >= 0:
        starts.free_node = starts.sibling[node]
    else:
        if starts.nodes_used == starts.node_capacity and _grow_nodes(starts) < 0:
            return -1
        node = starts.nodes_used
        starts.nodes_used += 1
    starts.nodes_live += 1
    starts.event[node] = event
    starts.previous[node] = previous
    starts.sibling[node] = starts.node[start & starts.mask]
    starts.node[start & starts.mask] = node
    return node


cdef void drop_all(Starts* starts) noexcept nogil:
    """Drop every start."""
    while starts.first < starts.next:
        drop_first(starts)
    release(starts)
    starts.live = 0


cdef void release(Starts* starts) noexcept nogil:
    """Free the chain nodes of dead starts."""
    while starts.kept < starts.first:
        release_first(starts, starts.kept & starts.mask)
