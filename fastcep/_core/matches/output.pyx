# cython: language_level=3
"""Matches that a matcher has found in a call; their arrays are made on demand."""
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy

from fastcep._core.memory.starts cimport EXPLICIT
from fastcep._core.memory.vectors cimport Vec, adopt_array, take, vec_free
from fastcep._core.state.core cimport Core

cdef enum:
    MANY = 1 << 12           # from this number of words on, the vectors become arrays without a copy


cdef class Output:
    """``n`` matches of a query, as event positions; made by ``Matcher.take_output``."""

    def __dealloc__(self):
        free(self.block)

    cdef int move(self, Core* core, plan) except -1:
        """Move the output out of the state of a query."""
        cdef int i, n_vectors = 2 * core.n_variables + 4
        cdef int64_t words = 0
        cdef int64_t* to
        cdef Vec* vec
        self.n_variables, self.has_windows = core.n_variables, core.window_kind == EXPLICIT
        self.query, self.lists = plan.query, plan.lists
        for i in range(core.detected_counts.size):
            self.n += core.detected_counts.data[i]
        for i in range(n_vectors):
            words += _vector(core, i).size
        core.emitted = 0
        if words >= MANY:
            self.columns = self._arrange([take(_vector(core, i)) for i in range(n_vectors)])
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
        """Return the matches as int64 arrays: ``(values, lengths, positions, times, counts, windows)``.

        ``values[m]`` are the event positions of variable m, one per match (-1: absent), and ``lengths[m]`` is None. If
        the variable binds lists, ``values[m]`` are the elements of all matches one after the other, and ``lengths[m]``
        the number of elements per match. ``positions``, ``times`` and ``counts`` are per completing event: its position
        (-1: decided by time), its time, and its number of matches. ``windows`` are window ids per match, None without
        explicit windows.
        """
        cdef int i, n_vectors = 2 * self.n_variables + 4
        cdef int64_t at = n_vectors
        cdef int64_t* block
        cdef list vectors = []
        if self.columns is None:
            if self.block == NULL:
                raise MemoryError("no memory for the matches")
            sizes = [self.block[i] for i in range(n_vectors)]
            block, self.block = self.block, NULL  # the array owns the block from here on
            words = adopt_array(block, n_vectors + sum(sizes))
            for size in sizes:
                vectors.append(words[at:at + size])
                at += size
            self.columns = self._arrange(vectors)
        return self.columns

    def to_lists(self):
        """Return the matches in the form of `arrays`, with lists in place of arrays; faster for few matches."""
        cdef int i, n_vectors = 2 * self.n_variables + 4
        cdef int64_t at = n_vectors, j
        cdef list vectors = []
        if self.columns is not None or self.block == NULL:
            values, lengths, *others = self.arrays()
            return [_list(of) for of in values], [_list(of) for of in lengths], *[_list(of) for of in others]
        for i in range(n_vectors):
            vectors.append([self.block[at + j] for j in range(self.block[i])])
            at += self.block[i]
        return self._arrange(vectors)

    def _arrange(self, list vectors):
        """Return the vectors in the form of `arrays`."""
        cdef int n = self.n_variables
        lengths = [vectors[n + i] if listed else None for i, listed in enumerate(self.lists)]
        windows = vectors[2 * n + 3] if self.has_windows else None
        return vectors[:n], lengths, vectors[2 * n], vectors[2 * n + 1], vectors[2 * n + 2], windows


def _list(vector):
    """Return the elements of an array; None if there is none."""
    return None if vector is None else vector.tolist()


cdef Vec* _vector(Core* core, int number) noexcept:
    """Return vector ``number`` of the output: values of each variable, lengths, positions, times, counts, windows."""
    cdef int n = core.n_variables
    if number < n:
        return core.out_values + number
    if number < 2 * n:
        return core.out_lengths + number - n
    if number == 2 * n:
        return &core.detected
    if number == 2 * n + 1:
        return &core.detected_times
    return &core.detected_counts if number == 2 * n + 2 else &core.out_windows
