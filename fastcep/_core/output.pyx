# cython: language_level=3
"""What a matcher found in a call: its vectors, taken over whole, and made arrays of when they are asked for."""
from libc.stdint cimport int64_t
from libc.stdlib cimport calloc, free

from fastcep._core.core cimport Core
from fastcep._core.memory cimport unlimited
from fastcep._core.starts cimport EXPLICIT
from fastcep._core.vectors cimport Vec, shrink, take, vec_free

cdef enum:
    MANY = 1 << 12           # matches from which arrays are made at once, which gives back what the vectors do not need


cdef class Output:
    """``n`` matches of a query, by position; made by ``Matcher.take_output``."""

    def __dealloc__(self):
        cdef int i
        for i in range(2 * self.n_members + 4 if self.vectors != NULL else 0):
            vec_free(self.vectors + i)
        free(self.vectors)

    cdef int move(self, Core* core, plan) except -1:
        """Take the output over from the state of a query and leave that empty."""
        cdef int n = core.n_members, i
        cdef Vec* of
        self.vectors = <Vec*>calloc(2 * n + 4, sizeof(Vec))
        if self.vectors == NULL:
            raise MemoryError("no memory for the matches")
        self.n_members, self.has_windows = n, core.window_kind == EXPLICIT
        self.query, self.lists = plan.query, plan.lists
        unlimited(&self.budget)
        for i in range(n):
            self._move(i, core.out_values + i)
            self._move(n + i, core.out_lengths + i)
        self._move(2 * n, &core.detected)
        self._move(2 * n + 1, &core.detected_times)
        self._move(2 * n + 2, &core.detected_counts)
        self._move(2 * n + 3, &core.out_windows)
        of = self.vectors + 2 * n + 2
        for i in range(of.size):
            self.n += of.data[i]
        core.emitted = 0
        if self.n >= MANY:
            self.arrays()
        return 0

    cdef void _move(self, int number, Vec* vec) noexcept:
        cdef int64_t bytes
        vec.hint = max(vec.size + vec.size // 8, vec.hint // 2)
        if vec.size == 0:
            vec_free(vec)  # what was put out may have been withdrawn
        shrink(vec)
        bytes = vec.capacity * sizeof(int64_t)
        self.vectors[number] = vec[0]
        self.vectors[number].budget = &self.budget
        if vec.size > 0:
            vec.budget.used -= bytes
            self.budget.used += bytes
            vec.data = NULL
            vec.size = vec.capacity = 0

    def arrays(self):
        """``(values, lengths, detecting positions, their times, matches per position, window ids)``, the last None
        without explicit windows.

        ``values[m]`` holds event positions of member m, one per match (-1 absent); for one that holds a list its
        elements one match after the other, ``lengths[m]`` of them each (``lengths[m]`` is None for single members). The
        position is -1 for what was decided at a time and not by an event.
        """
        cdef int i, n = self.n_members
        if self.made is None:
            values = [take(self.vectors + i) for i in range(n)]
            lengths = [take(self.vectors + n + i) if self.lists[i] else None for i in range(n)]
            detected, times, counts = [take(self.vectors + 2 * n + i) for i in range(3)]
            windows = take(self.vectors + 2 * n + 3) if self.has_windows else None
            self.made = values, lengths, detected, times, counts, windows
        return self.made
