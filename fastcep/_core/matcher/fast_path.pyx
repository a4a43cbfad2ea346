# cython: language_level=3
"""The short way of a batch, or of one event, through an engine.

What is usual goes from its buffers to the matchers without Python: read (``intake``, ``single``), in order, kept in the
event ring, matched; matches are made in Python, if there are any. Whatever else there is goes the long way, by
``fastcep.engine``: other data, whatever is wrong, and engines with an option that this knows nothing of. Nothing has
happened then. Both ways share all state and may take turns.
"""
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject, PyTypeObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int64_t, uint8_t, uint16_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from fastcep._core.input.event_reader cimport EventReader
from fastcep._core.matcher.interrupt cimport Pieces, always, poll
from fastcep._core.matcher.matcher cimport Matcher
from fastcep._core.state.state_metrics cimport first_position

import inspect

cdef extern from "Python.h":
    ctypedef PyObject* (*PyCFunction)(PyObject*, PyObject*)
    ctypedef struct PyMethodDef:
        const char* ml_name
        PyCFunction ml_meth
        int ml_flags
        const char* ml_doc
    enum:
        METH_FASTCALL
        METH_KEYWORDS
    object PyDescr_NewMethod(PyTypeObject*, PyMethodDef*)
    object PyObject_Vectorcall(object, PyObject**, size_t, PyObject*)

cdef enum:
    SLICE = 1 << 15          # events that all queries go over before the next ones
    RELEASED = 64            # events for which it is worth while to give the GIL back


cdef class FastPath:
    """The compiled side of an engine: where its stream stands, and the short way.

    The engine, which inherits from it, gives ``_swap``, ``_give``, ``_settle``, ``_gave_up``, ``_failed``, ``_lose``,
    ``_decide``, ``_judge`` and ``_interrupted``.
    """

    def __cinit__(self, *_, **__):
        self._pieces = Pieces()

    def __dealloc__(self):
        free(self.kept)

    @property
    def _time(self):
        """Of the last event, int ns; None before the first."""
        return self.time if self.is_timed else None

    @_time.setter
    def _time(self, time):
        self.is_timed = time is not None
        self.time = time if time is not None else 0

    @property
    def _sequence(self):
        """Of the last event, if the schema has sequence numbers; None before the first."""
        return self.sequence if self.is_numbered else None

    @_sequence.setter
    def _sequence(self, sequence):
        self.is_numbered = sequence is not None
        self.sequence = sequence if sequence is not None else 0

    def _enter(self):
        """Hold the engine for a call; False: another one does."""
        if self.busy:
            return False
        self.busy = True
        return True

    def _leave(self):
        """End what `_enter` began."""
        self.busy = False

    def _bind(self, BatchReader intake not None, dict singles not None, strings):
        """Say how the events of the schema are read: whole batches, and by type name an `EventReader`."""
        self.intake, self.singles, self.strings = intake, singles, strings

    def _shut(self):
        """Let everything go the long way."""
        self.is_open = False
        self.matchers = self.tried = ()
        self.n_matchers = self.n_tried = 0

    def _open(self, matchers, Filters filters, ring, nothings, make, layout, bint plain, bint decides,
              tried=(), Py_ssize_t step=0):
        """Let what is usual go the short way.

        Parameters
        ----------
        matchers
            Of all queries, in order.
        filters
            What several of them share.
        ring
            The event ring, or None.
        nothings
            The matches of each in a call that found none.
        make, layout
            Makes one of matches of each, and what it is told beside these.
        plain
            Whether these are no more than what the matchers put out.
        decides
            Whether any of them may wait for time.
        tried, step
            Matchers that take the same events, whose matches are thrown away; after how many events they are judged.
        """
        cdef Matcher matcher
        for matcher in (*matchers, *tried):
            pass  # what is none is refused here, and cast from now on
        self.tried, self.n_tried, self.step = tuple(tried), len(tried), step
        self.matchers, self.n_matchers = tuple(matchers), len(matchers)
        self.filters, self.ring, self.decides = filters, ring, decides
        self.nothings, self.make, self.layout, self.is_plain = list(nothings), make, layout, plain
        self.nothing = make(nothings, layout)
        self.buffers = None
        self.is_settled = False
        self.is_open = True

    def _quick(self, data):
        """Take a batch the short way and give the matches; None: it has to go the long way."""
        cdef BatchReader intake = self.intake
        if not self.is_open or self.busy or self._ended:
            return None
        self.busy = True
        try:
            if not self.is_settled:
                self.is_settled = self._swap()
            if not intake.read(data):
                return None
            if not self.in_order(&intake.events):
                return None
            return self.match(&intake.events, intake.events.size >= RELEASED)
        finally:
            intake.done()
            self.busy = False

    cdef bint in_order(self, const Events* events) noexcept:
        """Whether the events, whose times ascend, run on from where the stream stands."""
        cdef const int64_t* sequence = events.sequence
        cdef Py_ssize_t i
        cdef bint wrong = self.is_timed and events.time[0] < self.time
        if sequence != NULL:
            wrong |= self.is_numbered and sequence[0] <= self.sequence
            for i in range(1, events.size):
                wrong |= sequence[i] <= sequence[i - 1]
        return not wrong

    cdef object match(self, const Events* events, bint release):
        """Match events that come next in the stream; ``events`` gets its position.

        What a signal's handler raises ends this between two events, as if only those before had come.
        """
        cdef Matcher matcher
        cdef Py_ssize_t taken = 0
        cdef bint found = False, is_timed = self.is_timed, is_numbered = self.is_numbered
        cdef int i
        cdef int64_t start = self._position, time = self.time, sequence = self.sequence
        cdef set out = None
        (<Events*>events).position = start
        try:
            out = self.take(events, release, &taken)
            if self.decides:
                self._decide()
            for i in range(self.n_tried):
                matcher = <Matcher>self.tried[i]
                if matcher.has_output():
                    try:
                        matcher.take_output()
                    except MemoryError:
                        self._judge(self._position, self.time, self.time, set(), {matcher})
                        break
            for i in range(self.n_matchers):
                found |= (<Matcher>self.matchers[i]).has_output()
            if found:
                poll()  # a handler that ran when they have been taken out would lose them
        except BaseException as error:
            self._position = start + taken
            self.time, self.is_timed, self.sequence, self.is_numbered = time, is_timed, sequence, is_numbered
            if taken:
                self.time, self.is_timed = events.time[taken - 1], True
                if events.sequence != NULL:
                    self.sequence, self.is_numbered = events.sequence[taken - 1], True
            self._interrupted(error, taken, events.size)
            raise
        if (out is not None or self._waits or (found and not self.is_plain)
                or (self.intake.has_texts and len(<dict>self.strings.codes) > self._many)):
            return self._give()
        return self.give() if found else self.nothing

    cdef set take(self, const Events* events, bint release, Py_ssize_t* taken):
        """Let all matchers take the events; ``taken`` is how many all of them have.

        Returns the numbers of those that could not take all of them, or None.
        """
        cdef Matcher matcher
        cdef Py_ssize_t first = 0, last, size = events.size, came, judged = 0
        cdef bint ends, shared = False, polls = release or always(), may_pause = polls and self.n_matchers == 1
        cdef int i
        cdef int64_t lost
        cdef set out = None
        if self.ring is not None:
            self.keep(events)
        self._position += size  # at once: it says what is in the ring, whatever happens to the matchers
        self.time, self.is_timed = events.time[size - 1], True
        if events.sequence != NULL:
            self.sequence, self.is_numbered = events.sequence[size - 1], True
        for i in range(self.n_matchers):
            matcher = <Matcher>self.matchers[i]
            try:
                matcher.bind_ring(self.ring)
            except Exception as error:
                out = (out or set()) | {i}
                self._failed(i, error, events.time[size - 1])
        while first < size:
            last = size if self.n_matchers < 2 else min(first + SLICE, size)
            if self.n_tried:
                last = min(judged + self.step, size)
            if polls and self.n_matchers > 1:
                last = first + self._pieces.begin(last - first, self.step if self.n_tried else 1)
            if self.n_matchers > 1:
                shared = self.filters.look_through(events, first, last, release)
            for i in range(self.n_matchers):
                if out is not None and i in out:
                    continue
                matcher = <Matcher>self.matchers[i]
                lost = matcher.core.lost
                came = matcher.take(events, first, last, shared, release, may_pause)
                if matcher.pause.paused:
                    last = came
                elif came < last:
                    out = (out or set()) | {i}
                    self._gave_up(i, events.position + came, matcher.core.lost - lost)
            if polls and self.n_matchers > 1:
                self._pieces.end(last - first)
            taken[0] = last
            if self.n_tried:
                ends = last == size or last == judged + self.step
                self.follow(events, first, last, shared, release, judged if ends else -1, out)
                judged = last if ends else judged
            if polls and last < size:
                poll()
            first = last
        return out

    cdef int follow(self, const Events* events, Py_ssize_t first, Py_ssize_t last, bint shared, bint release,
                    Py_ssize_t since, set out) except -1:
        """Let the other stores take what the queries have taken, but those that are ``out``, and judge them.

        They are judged by the events from ``since`` on; -1: not now. Where the last trials end this opens the way anew.
        """
        cdef Matcher matcher
        cdef set lost = set()
        cdef int i
        for i in range(self.n_tried):
            matcher = <Matcher>self.tried[i]
            try:
                matcher.bind_ring(self.ring)
                if matcher.take(events, first, last, shared, release) < last:
                    lost.add(matcher)
            except MemoryError:
                lost.add(matcher)
        if since >= 0 or lost:
            if release:
                poll()
            since = max(since, <Py_ssize_t>0)
            self._judge(events.position + last, events.time[since], events.time[last - 1], out or set(), lost)
        return 0

    cdef object give(self):
        """What was found, by queries whose matches are what their matchers put out."""
        cdef Matcher matcher
        cdef list parts = []
        cdef bint lost = False
        cdef int i
        for i in range(self.n_matchers):
            matcher = <Matcher>self.matchers[i]
            if not matcher.has_output():
                parts.append(self.nothings[i])
                continue
            try:
                parts.append(matcher.take_output())
            except Exception as error:
                parts.append(self.nothings[i])
                self._lose(i, error)
                lost = True
        found = self.make(parts, self.layout)
        return self._settle(found) if lost else found

    # ------------------------------------------------------------------ the event ring

    cdef int keep(self, const Events* events) except -1:
        """Append the events to the ring, as ``EventRing.append`` does; what no match needs goes when room is wanted."""
        cdef Matcher matcher
        cdef int64_t size = events.size, tail = self.ring.tail, start, stretch, row = 0, i, oldest = events.position
        cdef Kept* column
        cdef int k
        if self.ring.buffers is not self.buffers:
            self._find_buffers()
        if tail + size - <int64_t>self.ring.head > self.ring_mask + 1:
            for matcher in (*self.matchers, *self.tried):
                oldest = min(oldest, first_position(&matcher.core))
            self.ring.reclaim(oldest)
            self.ring.make_room(size)
            if self.ring.buffers is not self.buffers:
                self._find_buffers()
        while row < size:
            start = (tail + row) & self.ring_mask
            stretch = min(size - row, self.ring_mask + 1 - start)
            memcpy(self.ring_time + start, events.time + row, stretch * sizeof(int64_t))
            memcpy(self.ring_type + start, events.types + row, stretch * sizeof(uint16_t))
            if events.sequence != NULL:
                memcpy(self.ring_seq + start, events.sequence + row, stretch * sizeof(int64_t))
            else:
                for i in range(stretch):
                    self.ring_seq[start + i] = tail + row + i
            for k in range(self.n_kept):
                column = self.kept + k
                memcpy(column.values + start, events.data[column.column] + row, stretch * sizeof(int64_t))
                if events.null[column.column] != NULL:
                    memcpy(column.nulls + start, events.null[column.column] + row, stretch)
                    self.ring.note_nulls(column.column)
                else:
                    memset(column.nulls + start, 0, stretch)
            row += stretch
        self.ring.appended(size)
        return 0

    cdef int _find_buffers(self) except -1:
        cdef int64_t[::1] values
        cdef uint16_t[::1] types
        cdef uint8_t[::1] nulls
        cdef Kept* kept
        cdef int k
        ring = self.ring
        columns = sorted(ring.columns)
        kept = <Kept*>calloc(len(columns) + 1, sizeof(Kept))
        if kept == NULL:
            raise MemoryError("no memory for the event ring")
        free(self.kept)
        self.kept, self.n_kept = kept, len(columns)
        values = ring.arrays("time")[0]
        self.ring_time = &values[0]
        values = ring.arrays("seq")[0]
        self.ring_seq = &values[0]
        types = ring.arrays("type")[0]
        self.ring_type = &types[0]
        for k in range(self.n_kept):
            array, flags = ring.arrays(columns[k])
            values, nulls = array.view("int64"), flags
            kept[k].column, kept[k].values, kept[k].nulls = columns[k], &values[0], &nulls[0]
        self.ring_mask = ring.capacity - 1
        self.buffers = ring.buffers
        return 0


# ---------------------------------------------------------------------- one event

cdef object _by_batch = None     # takes an event the long way


cdef object _send(PyObject* engine, PyObject** arguments, Py_ssize_t count, PyObject* keywords):
    """``Engine.send`` by the calling convention that makes no dict of the keywords."""
    cdef FastPath self = <FastPath>engine
    cdef PyObject* found
    cdef EventReader single
    if self.is_open and not self.busy and not self._ended and count == 1 and keywords != NULL:
        if PyUnicode_CheckExact(<object>arguments[0]):
            found = PyDict_GetItemWithError(self.singles, <object>arguments[0])
            if found != NULL:
                single = <EventReader>found
                self.busy = True
                try:
                    if not self.is_settled:
                        self.is_settled = self._swap()
                    if single.fill(arguments + 1, <tuple>keywords) and self.in_order(&single.events):
                        return self.match(&single.events, False)
                finally:
                    self.busy = False
    return _long_way(engine, arguments, count, keywords)


cdef object _long_way(PyObject* engine, PyObject** arguments, Py_ssize_t count, PyObject* keywords):
    """Call the function that ``compiled`` was given."""
    cdef Py_ssize_t named = 0 if keywords == NULL else len(<tuple>keywords)
    cdef PyObject** given = <PyObject**>malloc((1 + count + named) * sizeof(PyObject*))
    if given == NULL:
        raise MemoryError("no memory for the call")
    given[0] = engine
    memcpy(given + 1, arguments, (count + named) * sizeof(PyObject*))
    try:
        return PyObject_Vectorcall(_by_batch, given, 1 + count, keywords)
    finally:
        free(given)


def compiled(function):
    """The compiled ``send`` with this function's name and documentation, which calls it for what goes the long way.

    There is one for all engines.
    """
    global _by_batch
    cdef PyMethodDef* definition = <PyMethodDef*>calloc(1, sizeof(PyMethodDef))
    if definition == NULL:
        raise MemoryError("no memory for a method")
    parameters = [parameter.replace(annotation=inspect.Parameter.empty)
                  for parameter in inspect.signature(function).parameters.values()]
    shown = str(inspect.Signature(parameters)).replace("(self", "($self", 1)
    texts = f"{function.__name__}{shown}\n--\n\n{inspect.cleandoc(function.__doc__)}".encode(), function.__name__.encode()
    _kept.append(texts)  # a method is never freed
    definition.ml_doc, definition.ml_name = <const char*><bytes>texts[0], <const char*><bytes>texts[1]
    definition.ml_meth = <PyCFunction><void*>_send
    definition.ml_flags = METH_FASTCALL | METH_KEYWORDS
    _by_batch = function
    return PyDescr_NewMethod(<PyTypeObject*>FastPath, definition)


cdef list _kept = []
