# cython: language_level=3
"""Find out from a plan which isolated windows an event can affect.

``isolated_windows`` compares this with the contents of a window, so that the matcher skips the windows that an event
cannot affect.
"""
from libc.stdint cimport uint64_t
from libc.stdlib cimport calloc, free


cdef int relevance_new(WindowRelevance* relevance, object plan) except -1:
    """Classify the variables of ``plan`` (a ``fastcep.plan.Plan``) by their effect on a window."""
    cdef Py_ssize_t i
    cdef uint64_t bit
    relevance.extends = <uint64_t*>calloc(max(1, len(plan.indexes)), sizeof(uint64_t))
    relevance.settles = <uint64_t*>calloc(max(1, len(plan.negations)), sizeof(uint64_t))
    if relevance.extends == NULL or relevance.settles == NULL:
        raise MemoryError("no memory for the plan")
    relevance.keyed = ~<uint64_t>0
    for edge in plan.edges:
        bit = <uint64_t>1 << <int>edge.variable
        if edge.source < 0:
            relevance.begins |= bit
        else:
            relevance.extends[<int>edge.index] |= bit
        if edge.source < 0 or not edge.probe:
            relevance.keyed &= ~bit
    for i, item in enumerate(plan.negations):
        bit = <uint64_t>1 << <int>item.variable
        relevance.keyed &= ~bit
        if item.by_time:
            relevance.begins |= bit
        else:
            relevance.watches |= bit
        relevance.settles[i] = _settled(plan, i)
    return 0


cdef void relevance_free(WindowRelevance* relevance) noexcept:
    """Free the memory."""
    free(relevance.extends)
    free(relevance.settles)


def _settled(plan, number):
    """Return the variables that have no effect in an isolated window once negation ``number`` has kept an event.

    The result is a bit set. It has the variables that only begin matches which a leading NEG without conditions rules
    out; and the variable of the NEG itself, if no other check uses its events.
    """
    item = plan.negations[number]
    if plan.consumes or item.keys or not item.by_time:
        return 0
    checks = {i for i, check in enumerate(plan.absences) if check.negation == number}
    unconditional = {i for i in checks if plan.absences[i].program is None and not plan.absences[i].forall
                     and plan.absences[i].guard < 0 and plan.absences[i].group < 0}
    begins = [edge for edge in plan.edges if edge.source < 0]
    unaffected = {edge.variable for edge in begins if unconditional.isdisjoint(edge.absences)}
    settled = {edge.variable for edge in begins} - unaffected
    later_checks = [edge.absences for edge in plan.edges if edge.source >= 0]
    later_checks += [numbers for state in plan.states for numbers in (state.accept_absences, state.at_end)]
    is_only_negation = [other.variable for other in plan.negations].count(item.variable) == 1
    if (is_only_negation and checks == unconditional
            and checks.isdisjoint(i for numbers in later_checks for i in numbers)):
        settled.add(item.variable)
    return sum(1 << variable for variable in settled)
