# cython: language_level=3
"""Staging: the children that one event makes in one state, column by column, and their order.

A probe writes its children here in the order of their parents' births. Where several edges lead to a state their runs are
merged by birth, so that rows and matches come out in the order that SEMANTICS defines, whatever the plan.
"""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

from fastcep._core.predicate cimport CHUNK
from fastcep._core.vectors cimport regrow


cdef int stage_init(Stage* stage, int members, int outputs) noexcept nogil:
    """Make room for ``CHUNK`` children; -1 without memory."""
    memset(stage, 0, sizeof(Stage))
    stage.members = members
    stage.outputs = outputs
    stage.bind = <int64_t**>calloc(members, sizeof(void*))
    stage.out = <int64_t**>calloc(max(1, outputs), sizeof(void*))
    stage.out_null = <uint8_t**>calloc(max(1, outputs), sizeof(void*))
    if stage.bind == NULL or stage.out == NULL or stage.out_null == NULL:
        return -1
    return stage_grow(stage, CHUNK)


cdef void stage_clear(Stage* stage) noexcept nogil:
    """Give all memory back."""
    cdef int j
    for j in range(stage.members if stage.bind != NULL else 0):
        free(stage.bind[j])
    for j in range(stage.outputs):
        if stage.out != NULL:
            free(stage.out[j])
        if stage.out_null != NULL:
            free(stage.out_null[j])
    free(stage.start)
    free(stage.birth)
    free(stage.edge)
    free(stage.order)
    free(stage.bind)
    free(stage.out)
    free(stage.out_null)


cdef int stage_rest(Stage* stage) noexcept nogil:
    """Shrink a large stage that is not in use to its first size; -1 without memory."""
    cdef int members = stage.members, outputs = stage.outputs
    if stage.capacity <= 16 * CHUNK:
        return 0
    stage_clear(stage)
    return stage_init(stage, members, outputs)


cdef int stage_grow(Stage* stage, int64_t needed) noexcept nogil:
    """Make room for ``needed`` children, keeping those there are; -1 without memory."""
    cdef int64_t capacity = max(stage.capacity, CHUNK)
    cdef int j
    cdef bint ok = True
    while capacity < needed:
        capacity *= 2
    ok = regrow(<void**>&stage.start, capacity, 8) and ok
    ok = regrow(<void**>&stage.birth, capacity, 8) and ok
    ok = regrow(<void**>&stage.edge, capacity, 4) and ok
    ok = regrow(<void**>&stage.order, capacity, 8) and ok
    for j in range(stage.members):
        ok = regrow(<void**>(stage.bind + j), capacity, 8) and ok
    for j in range(stage.outputs):
        ok = regrow(<void**>(stage.out + j), capacity, 8) and ok
        ok = regrow(<void**>(stage.out_null + j), capacity, 1) and ok
    if not ok:
        return -1
    stage.capacity = capacity
    return 0


cdef int stage_merge(Stage* stage) noexcept nogil:
    """Set ``order`` so that the children ascend by their parents' births; each edge's run ascends already."""
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
