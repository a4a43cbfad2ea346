# cython: language_level=3
"""Into which slice of its window's time a partial match has come.

A window's time, or its events, is cut into so many equal slices; a partial match is in that in which the last event is, counted
from its first event on, or in an explicit window from where that has opened.

Invariant: starts are in the order of their events, so that of younger ones the slice is smaller, or the same.
"""
from libc.stdint cimport int64_t

from fastcep._core.memory.open_windows cimport AFTER_EVENTS, AFTER_TIME, Opened, window_at, window_of
from fastcep._core.memory.starts cimport EVENTS, TIME, Starts
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport Shed


cdef int slice_at(Core* core, int64_t start) noexcept nogil:
    """The slice of its window in which the event comes that is matched, for partial matches of a start."""
    cdef Shed* shed = &core.shed
    cdef int64_t window = window_of(&core.windows, core.opened) if core.is_isolated else -1
    cdef int64_t last = core.event_position, bound
    cdef int s
    if shed.bounds_at != last or core.is_isolated:
        for s in range(shed.slices - 1):
            bound = max(shed.bounds[s], core.starts.first)
            if core.is_isolated or bound > core.starts.next:
                bound = first_of(core, s, shed.slices, window, last)
            while bound < core.starts.next and slice_of(core, bound, shed.slices, window, last) > s:
                bound += 1
            shed.bounds[s] = bound
        shed.bounds_at = last
    s = 0
    while s < shed.slices - 1 and start < shed.bounds[s]:
        s += 1
    return s


cdef int64_t first_of(Core* core, int slice, int slices, int64_t window, int64_t last) noexcept nogil:
    """The oldest start whose slice is at most this one, ``last`` being the last event; younger ones have smaller slices."""
    cdef int64_t low = core.starts.first, high = core.starts.next, middle
    while low < high:
        middle = low + (high - low) // 2
        if slice_of(core, middle, slices, window, last) > slice:
            low = middle + 1
        else:
            high = middle
    return low


cdef int slice_of(Core* core, int64_t start, int slices, int64_t window, int64_t last) noexcept nogil:
    """The slice of the window's time, or of events up to ``last``, since a start; of an explicit one since it opened."""
    cdef Starts* starts = &core.starts
    cdef const Opened* opened
    cdef int64_t slot = start & starts.mask
    cdef double age, span
    if starts.kind == TIME:
        age, span = <double>(core.now - starts.time[slot]), <double>starts.span
    elif starts.kind == EVENTS:
        age, span = <double>(last - starts.position[slot]), <double>starts.span
    elif core.windows.first < core.windows.next:
        opened = window_at(&core.windows, window if window >= 0 else max(starts.window[slot], core.windows.first))
        span = <double>core.windows.length
        if core.windows.closing == AFTER_TIME:
            age = <double>(core.now - opened.time)
        elif core.windows.closing == AFTER_EVENTS:
            age = <double>(last - opened.position)
        else:
            return 0
    else:
        return 0
    if span <= 0 or age <= 0:
        return 0
    return <int>min(<double>(slices - 1), age * slices / span)
