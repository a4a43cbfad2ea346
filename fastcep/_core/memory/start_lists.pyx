# cython: language_level=3
"""Lists of starts by the position of the last event that extended them: a hash table of the newest start of each list.

The latest list is outside the table: without partitions it is the next one that is taken.
Each start links to the next older one (``Starts.older``). A start that has ended stays in its list until the list is
taken or the table grows; all starts after it in the list have ended too.
"""
from libc.stdint cimport int64_t, uint64_t
from libc.string cimport memset

from fastcep._core.memory.allocator cimport Budget, give_back, obtain

cdef enum:
    FIRST_SLOTS = 64


cdef inline int64_t _home(const StartLists* lists, int64_t position) noexcept nogil:
    return <int64_t>(<uint64_t>position * 0x9E3779B97F4A7C15ULL >> 32) & (lists.n_slots - 1)


cdef void lists_init(StartLists* lists, Budget* budget) noexcept nogil:
    """Initialise a table without memory."""
    memset(lists, 0, sizeof(StartLists))
    lists.budget = budget
    lists.position = -1


cdef void lists_clear(StartLists* lists) noexcept nogil:
    """Free all memory."""
    give_back(lists.budget, lists.slots, lists.n_slots * 16)
    lists_init(lists, lists.budget)


cdef int64_t take_list(StartLists* lists, int64_t position) noexcept nogil:
    """Remove the list of a position, and return its newest start; -1 if there is none."""
    cdef int64_t mask = lists.n_slots - 1, hole, i, newest
    if position == lists.position:
        lists.position = -1
        return lists.newest
    if lists.used == 0:
        return -1
    hole = _home(lists, position)
    while lists.slots[2 * hole] != position:
        if lists.slots[2 * hole] < 0:
            return -1
        hole = (hole + 1) & mask
    newest = lists.slots[2 * hole + 1]
    lists.used -= 1
    i = (hole + 1) & mask
    while lists.slots[2 * i] >= 0:
        if ((i - _home(lists, lists.slots[2 * i])) & mask) >= ((i - hole) & mask):  # it may move to the hole
            lists.slots[2 * hole] = lists.slots[2 * i]
            lists.slots[2 * hole + 1] = lists.slots[2 * i + 1]
            hole = i
        i = (i + 1) & mask
    lists.slots[2 * hole] = -1
    return newest


cdef int put_list(StartLists* lists, int64_t position, int64_t newest, int64_t first) noexcept nogil:
    """Add a list, whose position has none; ``first`` is the first start that has not ended. -1 without memory."""
    if lists.position >= 0 and lists.newest >= first:
        if 2 * (lists.used + 1) > lists.n_slots and _resize(lists, first) < 0:
            return -1
        _enter(lists, lists.position, lists.newest)
    lists.position, lists.newest = position, newest
    return 0


cdef void _enter(StartLists* lists, int64_t position, int64_t newest) noexcept nogil:
    cdef int64_t slot = _home(lists, position)
    while lists.slots[2 * slot] >= 0:
        slot = (slot + 1) & (lists.n_slots - 1)
    lists.slots[2 * slot] = position
    lists.slots[2 * slot + 1] = newest
    lists.used += 1


cdef int _resize(StartLists* lists, int64_t first) noexcept nogil:
    """Make a table with room for as many lists again, without the lists of starts that have all ended."""
    cdef int64_t* old = lists.slots
    cdef int64_t n_old = lists.n_slots, n = FIRST_SLOTS, live = 1, i
    cdef int64_t* slots
    for i in range(n_old):
        live += old[2 * i] >= 0 and old[2 * i + 1] >= first
    while n < 4 * live:
        n *= 2
    slots = <int64_t*>obtain(lists.budget, n * 16)
    if slots == NULL:
        return -1
    memset(slots, 0xFF, n * 16)
    lists.slots, lists.n_slots, lists.used = slots, n, 0
    for i in range(n_old):
        if old[2 * i] >= 0 and old[2 * i + 1] >= first:
            _enter(lists, old[2 * i], old[2 * i + 1])
    give_back(lists.budget, old, n_old * 16)
    return 0
