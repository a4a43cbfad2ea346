# cython: language_level=3
"""Staging: the children that one event makes in one state, stored by column, and their order.

A probe writes its children here in the order of their parents' births. If several edges lead to a state, their runs are
merged by birth, so that rows and matches have the order that the semantics defines, independently of the plan.
"""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from fastcep._core.memory.allocator cimport Budget, claim
from fastcep._core.program.predicate cimport CHUNK


cdef int stage_init(Stage* stage, Budget* budget, int slots, int outputs) noexcept nogil:
    """Initialise a stage with room for ``CHUNK`` children; -1 without memory."""
    memset(stage, 0, sizeof(Stage))
    stage.budget = budget
    stage.slots = slots
    stage.outputs = outputs
    stage.bind = <int64_t**>calloc(slots, sizeof(void*))
    stage.out = <int64_t**>calloc(max(1, outputs), sizeof(void*))
    stage.out_null = <uint8_t**>calloc(max(1, outputs), sizeof(void*))
    if stage.bind == NULL or stage.out == NULL or stage.out_null == NULL:
        return -1
    return stage_grow(stage, CHUNK)


cdef void stage_clear(Stage* stage) noexcept nogil:
    """Free all memory."""
    cdef int j
    for j in range(stage.slots if stage.bind != NULL else 0):
        free(stage.bind[j])
    for j in range(stage.outputs):
        if stage.out != NULL:
            free(stage.out[j])
        if stage.out_null != NULL:
            free(stage.out_null[j])
    free(stage.start)
    free(stage.birth)
    free(stage.parent)
    free(stage.class_)
    free(stage.edge)
    free(stage.order)
    free(stage.nulls)
    free(stage.bind)
    free(stage.out)
    free(stage.out_null)
    stage.budget.used -= stage.capacity * child_bytes(stage)
    stage.capacity = 0


cdef void stage_rest(Stage* stage, bint fully) noexcept nogil:
    """Shrink an unused stage to its initial size if it is large, or in any case with ``fully``."""
    if stage.capacity > (CHUNK if fully else 16 * CHUNK):
        _regrow_all(stage, CHUNK)  # an array that realloc cannot shorten stays longer, which is harmless
        stage.budget.used -= (stage.capacity - CHUNK) * child_bytes(stage)
        stage.capacity = CHUNK


cdef int64_t child_bytes(const Stage* stage) noexcept nogil:
    """Return the bytes of one child."""
    return 6 * 8 + 4 + 8 * stage.slots + 9 * stage.outputs


cdef int stage_grow(Stage* stage, int64_t needed) noexcept nogil:
    """Make room for ``needed`` children and keep the present ones; -1 without memory."""
    cdef int64_t old = stage.capacity, capacity = max(old, CHUNK)
    while capacity < needed:
        capacity *= 2
    # Memory is counted by ``capacity``: after a failure, some arrays may be longer, which is harmless.
    if not claim(stage.budget, (capacity - old) * child_bytes(stage)):
        return -1
    if not _regrow_all(stage, capacity):
        stage.budget.used -= (capacity - old) * child_bytes(stage)
        return -1
    stage.capacity = capacity
    return 0


cdef bint _regrow_all(Stage* stage, int64_t capacity) noexcept nogil:
    cdef int j
    if not (_regrow(<void**>&stage.start, capacity * 8) and _regrow(<void**>&stage.birth, capacity * 8)
            and _regrow(<void**>&stage.edge, capacity * 4) and _regrow(<void**>&stage.order, capacity * 8)
            and _regrow(<void**>&stage.nulls, capacity * 8) and _regrow(<void**>&stage.parent, capacity * 8)
            and _regrow(<void**>&stage.class_, capacity * 8)):
        return False
    for j in range(stage.slots):
        if not _regrow(<void**>(stage.bind + j), capacity * 8):
            return False
    for j in range(stage.outputs):
        if not (_regrow(<void**>(stage.out + j), capacity * 8) and _regrow(<void**>(stage.out_null + j), capacity)):
            return False
    return True


cdef inline bint _regrow(void** data, int64_t bytes) noexcept nogil:
    cdef void* grown = realloc(data[0], bytes)
    if grown == NULL:
        return False
    data[0] = grown
    return True


cdef int stage_merge(Stage* stage) noexcept nogil:
    """Set ``order`` so that the children ascend by their parents' births; the run of each edge ascends already."""
    cdef int64_t i, end, middle = 1
    for i in range(stage.size):
        stage.order[i] = i
    while middle < stage.size and stage.edge[middle] == stage.edge[middle - 1]:
        middle += 1
    while middle < stage.size:
        end = middle
        while end < stage.size and stage.edge[end] == stage.edge[middle]:
            end += 1
        if stage.birth[middle] < stage.birth[stage.order[middle - 1]] and _merge_run(stage, middle, end) < 0:
            return -1
        middle = end
    return 0


cdef int _merge_run(Stage* stage, int64_t middle, int64_t end) noexcept nogil:
    """Merge ``order[:middle]`` with ``order[middle:end]`` from the back; the unused end of ``order`` is the scratch."""
    cdef int64_t left = middle - 1, right = end - 1, to = end - 1, i
    cdef int64_t* scratch
    if stage.size * 2 > stage.capacity and stage_grow(stage, stage.size * 2) < 0:
        return -1
    scratch = stage.order + stage.size
    for i in range(middle, end):
        scratch[i - middle] = stage.order[i]
    while right >= middle:
        if left >= 0 and stage.birth[stage.order[left]] > stage.birth[scratch[right - middle]]:
            stage.order[to] = stage.order[left]
            left -= 1
        else:
            stage.order[to] = scratch[right - middle]
            right -= 1
        to -= 1
    return 0
