# cython: language_level=3
"""How long events are matched between two looks for signals: about ``PAUSE``.

The loop of one query over events pauses behind a chunk when its time is up (`Pause`). Several queries, and the parts of
one in threads, must all stand behind the same event: they take piece after piece of a batch, and `Pieces` says how many
events of a piece take so long, as the ones before did.
"""
from cpython.exc cimport PyErr_CheckSignals
from libc.stdint cimport int64_t
from posix.time cimport CLOCK_MONOTONIC, clock_gettime, timespec

from fastcep._core.predicate cimport CHUNK

cdef enum:
    PAUSE = 25_000_000       # ns
    LONG = 1_000_000         # for a chunk: the next one is smaller
    FIRST = 64               # events of the first piece; what they take is not known yet
    LARGEST = 1 << 30

cdef int64_t pause = PAUSE
cdef object told = None


cdef int64_t monotonic() noexcept nogil:
    """The time in ns on a clock that only grows."""
    cdef timespec now
    clock_gettime(CLOCK_MONOTONIC, &now)
    return <int64_t>now.tv_sec * 1_000_000_000 + now.tv_nsec


cdef int64_t deadline() noexcept:
    """Of a loop that begins now."""
    return monotonic() + pause if pause else -1


cdef bint is_over(Pause* pause, int64_t* began) noexcept nogil:
    """Whether the time of a loop is up behind a chunk, which ``began`` then; the next one begins now."""
    cdef int64_t now = monotonic()
    if now - began[0] > LONG:
        pause.most = max(1, pause.most // 8)
    else:
        pause.most = min(<int>CHUNK, 2 * pause.most)
    began[0] = now
    pause.paused = now >= pause.deadline
    return pause.paused


cdef bint always() noexcept:
    """Whether signals are looked for behind every event, see `set_pause`."""
    return pause == 0


cdef int poll() except -1:
    """Run the handlers of signals that have come, if this is the main thread; what they raise is raised here."""
    if told is not None:
        told()
    PyErr_CheckSignals()
    return 0


def tell():
    """Call what `set_pause` was given."""
    if told is not None:
        told()


def set_pause(int64_t nanoseconds=PAUSE, call=None):
    """Look for signals so often, 0: behind every event; call this each time. For tests."""
    global pause, told
    pause, told = nanoseconds, call


cdef class Pieces:
    """How many events a piece of a batch has."""

    def __cinit__(self):
        self.step = FIRST

    cdef Py_ssize_t begin(self, Py_ssize_t rest, Py_ssize_t least) noexcept:
        self.began = monotonic()
        return min(rest, max(least, self.step if pause else <Py_ssize_t>1))

    cdef void end(self, Py_ssize_t events) noexcept:
        cdef int64_t spent = max(<int64_t>1, monotonic() - self.began)
        cdef double fits = <double>events * PAUSE / spent
        if events >= self.step or spent > PAUSE:  # else it was the end of a batch, and tells little
            self.step = <Py_ssize_t>max(1.0, min(fits, 4.0 * events, <double>LARGEST))

    def size(self, Py_ssize_t rest, Py_ssize_t least=1):
        """Begin a piece: how many of the ``rest`` events it has; ``least``, if there are so many."""
        return self.begin(rest, least)

    def took(self, Py_ssize_t events):
        """End a piece that had so many events."""
        self.end(events)
