# cython: language_level=3
"""Signal checks while events are matched: the engine checks about every `PAUSE` nanoseconds.

The loop of a single query pauses after the chunk in which its deadline passes (`Pause`). Several queries, or the parts
of one query in several threads, must all have matched the same events when the engine checks. They process a batch
piece by piece, and `Pieces` derives the size of the next piece from the time that the last one took.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from fastcep._core.program.predicate cimport CHUNK

cdef enum:
    PAUSE = 25_000_000       # ns
    LONG = 1_000_000         # ns between two reads of the clock; if it took longer, chunks get smaller
    MOST_CHUNKS = 4          # between two reads of the clock
    FIRST_PIECE = 64         # events of the first piece, before the cost per event is measured
    LARGEST_PIECE = 1 << 30

cdef int64_t pause = PAUSE
cdef object hook = None      # called at every signal check


cdef int64_t monotonic() noexcept nogil:
    """Return the time of the monotonic clock in ns."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef int64_t deadline() noexcept:
    """Return the time at which a loop that starts now must pause; -1: after every chunk."""
    return monotonic() + pause if pause else -1


cdef bint is_over(Pause* pause, int64_t* started) noexcept nogil:
    """Return whether the loop must pause, and adapt the chunks to the time since ``started``, which is set to now."""
    cdef int64_t now = monotonic(), spent = now - started[0]
    if spent > LONG:
        pause.chunk_size, pause.chunks_per_check = max(1, pause.chunk_size // 8), 1
    elif pause.chunk_size < CHUNK:
        pause.chunk_size = min(<int>CHUNK, 2 * pause.chunk_size)
    elif spent < LONG // 8:
        pause.chunks_per_check = min(<int>MOST_CHUNKS, 2 * pause.chunks_per_check)
    started[0] = now
    pause.paused = now >= pause.deadline
    return pause.paused


cdef bint always() noexcept:
    """Return whether the engine checks for signals after every event, see `set_pause`."""
    return pause == 0


cdef int poll() except -1:
    """Run the handlers of pending signals, if this is the main thread. Their exceptions propagate."""
    call_hook()
    PyErr_CheckSignals()
    return 0


cpdef int call_hook() except -1:
    """Call the function that `set_pause` set."""
    if hook is not None:
        hook()
    return 0


def set_pause(int64_t nanoseconds=PAUSE, call=None):
    """Set the time between two signal checks, and a function that each check calls. For tests.

    Parameters
    ----------
    nanoseconds
        Time between two checks; 0: check after every event.
    call
        Function without arguments; None: no function.
    """
    global pause, hook
    pause, hook = nanoseconds, call


cdef class Pieces:
    """Sizes of the pieces in which a batch is matched."""

    def __cinit__(self):
        self.size = FIRST_PIECE

    cpdef Py_ssize_t begin(self, Py_ssize_t remaining, Py_ssize_t least=1) noexcept:
        """Start a piece and return its size: at least ``least`` events, at most ``remaining``."""
        self.started = monotonic()
        return min(remaining, max(least, self.size if pause else <Py_ssize_t>1))

    cpdef void end(self, Py_ssize_t events) noexcept:
        """End a piece of this many events, and derive the size of the next one."""
        cdef int64_t spent = max(<int64_t>1, monotonic() - self.started)
        cdef double fits = <double>events * PAUSE / spent
        if events >= self.size or spent > PAUSE:  # a short last piece of a batch costs mostly the call
            self.size = <Py_ssize_t>max(1.0, min(fits, 4.0 * events, <double>LARGEST_PIECE))
