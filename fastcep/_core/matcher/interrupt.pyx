# cython: language_level=3
"""How many events are matched before the engine looks for signals again: as many as take about `PAUSE`.

The loop of a single query over the events stops after the chunk in which its time runs out (`Pause`). Several queries, or
the parts of one query in several threads, must all have matched the same events at that moment: they take a batch piece by
piece, and `Pieces` derives the size of the next piece from the time that the last one took.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from fastcep._core.program.predicate cimport CHUNK

cdef enum:
    PAUSE = 25_000_000       # ns
    LONG = 1_000_000         # ns between two looks at the clock; after a longer time chunks are smaller
    MOST_CHUNKS = 4          # between two looks at the clock
    FIRST = 64               # events of the first piece, whose cost per event is not known yet
    LARGEST = 1 << 30

cdef int64_t pause = PAUSE
cdef object hook = None      # called whenever the engine looks for signals


cdef int64_t monotonic() noexcept nogil:
    """Return the time in ns of a clock that is never set back."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef int64_t deadline() noexcept:
    """Return when a loop that starts now has to pause."""
    return monotonic() + pause if pause else -1


cdef bint is_over(Pause* pause, int64_t* began) noexcept nogil:
    """Return whether a loop has to pause after the chunks since ``began``, which is set to now for the next ones."""
    cdef int64_t now = monotonic(), spent = now - began[0]
    if spent > LONG:
        pause.most, pause.chunks = max(1, pause.most // 8), 1
    elif pause.most < CHUNK:
        pause.most = min(<int>CHUNK, 2 * pause.most)
    elif spent < LONG // 8:
        pause.chunks = min(<int>MOST_CHUNKS, 2 * pause.chunks)
    began[0] = now
    pause.paused = now >= pause.deadline
    return pause.paused


cdef bint always() noexcept:
    """Return whether the engine looks for signals after every event, see `set_pause`."""
    return pause == 0


cdef int poll() except -1:
    """Run the handlers of signals that have come, if this is the main thread; what they raise is raised here."""
    call_hook()
    PyErr_CheckSignals()
    return 0


cpdef int call_hook() except -1:
    """Call the function that `set_pause` set."""
    if hook is not None:
        hook()
    return 0


def set_pause(int64_t nanoseconds=PAUSE, call=None):
    """Set the time between two looks for signals, and a function that each look calls. For tests.

    Parameters
    ----------
    nanoseconds
        The time; 0: look after every event.
    call
        The function; None: none.
    """
    global pause, hook
    pause, hook = nanoseconds, call


cdef class Pieces:
    """Sizes of the pieces in which a batch is matched."""

    def __cinit__(self):
        self.step = FIRST

    cpdef Py_ssize_t begin(self, Py_ssize_t rest, Py_ssize_t least=1) noexcept:
        """Start a piece; return how many of the ``rest`` events it has, ``least`` or more if there are as many."""
        self.began = monotonic()
        return min(rest, max(least, self.step if pause else <Py_ssize_t>1))

    cpdef void end(self, Py_ssize_t events) noexcept:
        """End a piece of this many events."""
        cdef int64_t spent = max(<int64_t>1, monotonic() - self.began)
        cdef double fits = <double>events * PAUSE / spent
        if events >= self.step or spent > PAUSE:  # not the short rest of a batch, whose cost is mostly that of the call
            self.step = <Py_ssize_t>max(1.0, min(fits, 4.0 * events, <double>LARGEST))
