# cython: language_level=3
"""What a matcher found in a call, of which arrays are made when they are asked for."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from fastcep._core.memory.starts cimport EXPLICIT
from fastcep._core.memory.vectors cimport Vec, own, take, vec_free
from fastcep._core.state.core cimport Core

cdef enum:
    MANY = 1 << 12           # words from which on the vectors themselves become arrays, without a copy


cdef class Output:
    """``n`` matches of a query, by position; made by ``Matcher.take_output``."""

    def __dealloc__(self):
        free(self.block)

    cdef int move(self, Core* core, plan) except -1:
        """Take the output over from the state of a query and leave that empty."""
        cdef int i, n_vectors = 2 * core.n_members + 4
        cdef int64_t words = 0
        cdef int64_t* to
        cdef Vec* vec
        self.n_members, self.has_windows = core.n_members, core.window_kind == EXPLICIT
        self.query, self.lists = plan.query, plan.lists
        for i in range(core.detected_counts.size):
            self.n += core.detected_counts.data[i]
        for i in range(n_vectors):
            words += _vector(core, i).size
        core.emitted = 0
        if words >= MANY:
            self.made = self._arranged([take(_vector(core, i)) for i in range(n_vectors)])
            return 0
        self.block = <int64_t*>malloc((n_vectors + words) * sizeof(int64_t))
        if self.block == NULL:
            raise MemoryError("no memory for the matches")
        to = self.block + n_vectors
        for i in range(n_vectors):
            vec = _vector(core, i)
            self.block[i] = vec.size
            if vec.size > 0:
                memcpy(to, vec.data, vec.size * sizeof(int64_t))
                to += vec.size
            vec.hint = max(vec.size + vec.size // 8, vec.hint // 2)
            if vec.capacity > 0:
                vec_free(vec)
        return 0

    def arrays(self):
        """``(values, lengths, detecting positions, their times, matches per position, window ids)``, the last None
        without explicit windows.

        ``values[m]`` holds event positions of member m, one per match (-1 absent); for one that holds a list its
        elements one match after the other, ``lengths[m]`` of them each (``lengths[m]`` is None for single members). The
        position is -1 for what was decided at a time and not by an event.
        """
        cdef int i, n_vectors = 2 * self.n_members + 4
        cdef int64_t at = n_vectors
        cdef int64_t* block
        cdef list parts = []
        if self.made is None:
            if self.block == NULL:
                raise MemoryError("no memory for the matches")
            sizes = [self.block[i] for i in range(n_vectors)]
            block, self.block = self.block, NULL  # it is the array's, whatever happens
            whole = own(block, n_vectors + sum(sizes))
            for size in sizes:
                parts.append(whole[at:at + size])
                at += size
            self.made = self._arranged(parts)
        return self.made

    def _arranged(self, list parts):
        cdef int n = self.n_members
        lengths = [parts[n + i] if listed else None for i, listed in enumerate(self.lists)]
        windows = parts[2 * n + 3] if self.has_windows else None
        return parts[:n], lengths, parts[2 * n], parts[2 * n + 1], parts[2 * n + 2], windows


cdef Vec* _vector(Core* core, int number) noexcept:
    """Values of each member, lengths of each, detecting positions, their times, matches of each, windows."""
    cdef int n = core.n_members
    if number < n:
        return core.out_values + number
    if number < 2 * n:
        return core.out_lengths + number - n
    if number == 2 * n:
        return &core.detected
    if number == 2 * n + 1:
        return &core.detected_times
    return &core.detected_counts if number == 2 * n + 2 else &core.out_windows
