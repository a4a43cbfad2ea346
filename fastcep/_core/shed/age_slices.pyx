# cython: language_level=3
"""Age slice of a partial match: the part of its window that has passed.

The duration of a window, or its number of events, is divided into equal slices. The age of a partial match is measured
from its first event to the current event; in an explicit window, from the event that opened the window.

Invariant: starts are in the order of their events, so a younger start has a smaller slice, or the same one.
"""
from libc.stdint cimport int64_t

from fastcep._core.memory.open_windows cimport AFTER_EVENTS, AFTER_TIME, Opened, window_at, window_of
from fastcep._core.memory.starts cimport EVENTS, EXPLICIT, TIME, Starts
from fastcep._core.state.core cimport Core
from fastcep._core.state.shedding_tables cimport Shed


cdef int slice_at(Core* core, int64_t start) noexcept nogil:
    """Return the age slice of the partial matches of a start at the current event; -1: of one that begins with it."""
    cdef Shed* shed = &core.shed
    cdef int64_t window = window_of(&core.windows, core.opened) if core.is_isolated else -1
    cdef int64_t last = core.event_position, bound
    cdef int age_slice
    if start < 0:
        if core.starts.kind != EXPLICIT:
            return 0
        return slice_of(core, start, shed.slices, window if core.is_isolated else core.starts.newest, last)
    if shed.bounds_at != last or core.is_isolated:
        for age_slice in range(shed.slices - 1):
            bound = max(shed.bounds[age_slice], core.starts.first)
            if core.is_isolated or bound > core.starts.next:
                bound = first_start_in(core, age_slice, shed.slices, window, last)
            while bound < core.starts.next and slice_of(core, bound, shed.slices, window, last) > age_slice:
                bound += 1
            shed.bounds[age_slice] = bound
        shed.bounds_at = last
    age_slice = 0
    while age_slice < shed.slices - 1 and start < shed.bounds[age_slice]:
        age_slice += 1
    return age_slice


cdef int64_t first_start_in(Core* core, int age_slice, int slices, int64_t window, int64_t last) noexcept nogil:
    """Return the oldest start whose age slice is at most ``age_slice`` at the event at position ``last``."""
    cdef int64_t low = core.starts.first, high = core.starts.next, middle
    while low < high:
        middle = low + (high - low) // 2
        if slice_of(core, middle, slices, window, last) > age_slice:
            low = middle + 1
        else:
            high = middle
    return low


cdef int slice_of(Core* core, int64_t start, int slices, int64_t window, int64_t last) noexcept nogil:
    """Return the age slice of a start at the event at position ``last``; in an explicit window since it opened."""
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
