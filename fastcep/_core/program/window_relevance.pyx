# cython: language_level=3
"""In which isolated windows an event can do anything: what a plan says of it.

What stands in a window is compared with it in ``parts``, so that windows are passed over that an event need not enter.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free


cdef int able_new(WindowRelevance* able, object plan) except -1:
    """Find out which members do what in ``plan`` (``fastcep.plan.Plan``)."""
    cdef Py_ssize_t i
    cdef uint64_t bit
    able.extends = <uint64_t*>calloc(max(1, len(plan.indexes)), sizeof(uint64_t))
    able.settles = <uint64_t*>calloc(max(1, len(plan.negations)), sizeof(uint64_t))
    if able.extends == NULL or able.settles == NULL:
        raise MemoryError("no memory for the plan")
    able.keyed = ~<uint64_t>0
    for edge in plan.edges:
        bit = <uint64_t>1 << <int>edge.member
        if edge.source < 0:
            able.begins |= bit
        else:
            able.extends[<int>edge.index] |= bit
        if edge.source < 0 or not edge.probe:
            able.keyed &= ~bit
    for i, item in enumerate(plan.negations):
        bit = <uint64_t>1 << <int>item.member
        able.keyed &= ~bit
        if item.by_time:
            able.begins |= bit
        else:
            able.watches |= bit
        able.settles[i] = _settled(plan, i)
    return 0


cdef void able_free(WindowRelevance* able) noexcept:
    """Give the memory back."""
    free(able.extends)
    free(able.settles)


def _settled(plan, number):
    """Members that do nothing in an isolated window any more once an event of negation ``number`` is kept, as bits.

    Those that only begin what a leading NEG without conditions rules out, and its own, if nothing else asks for it.
    """
    item = plan.negations[number]
    if plan.consumes or item.keys or not item.by_time:
        return 0
    checks = {i for i, check in enumerate(plan.absences) if check.negation == number}
    sure = {i for i in checks if plan.absences[i].program is None and not plan.absences[i].forall
            and plan.absences[i].guard < 0 and plan.absences[i].group < 0}
    begins = [edge for edge in plan.edges if edge.source < 0]
    free = {edge.member for edge in begins if sure.isdisjoint(edge.absences)}
    settled = {edge.member for edge in begins} - free
    asked = [edge.absences for edge in plan.edges if edge.source >= 0]
    asked += [numbers for state in plan.states for numbers in (state.accept_absences, state.at_end)]
    alone = [other.member for other in plan.negations].count(item.member) == 1
    if alone and checks == sure and checks.isdisjoint(i for numbers in asked for i in numbers):
        settled.add(item.member)
    return sum(1 << member for member in settled)
