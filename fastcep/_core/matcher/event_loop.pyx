# cython: language_level=3
"""The loop that takes batches and single events through the queries of an engine.

A call goes from its buffers to the matchers without Python: events are read (``batch_reader``, ``event_reader``), checked to
be in order, kept in the event ring, and matched; Python makes the matches, if there are any. Data that the readers do
not know, and data with an error, is left to ``fastcep.engine.stream``, which converts or rejects it; converted data
enters the same loop (`EventLoop.process_batch`). Nothing has happened by then.

The loop is closed while a query or an option needs work between events that only Python does: lateness, a memory limit,
explicit windows, threads, overload control. ``fastcep.engine.stream`` then hands pieces of a batch to the matchers.
"""
from cpython.dict cimport PyDict_GetItemWithError
from cpython.object cimport PyObject, PyTypeObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int64_t, uint8_t, uint16_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy, memset

from fastcep._core.input.batch cimport Batch, Events
from fastcep._core.input.batch_reader cimport BatchReader
from fastcep._core.input.event_reader cimport EventReader
from fastcep._core.input.filters cimport Filters
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


cdef class EventLoop:
    """The position of an engine in its stream, and the compiled loop over events.

    Parameters
    ----------
    queries, faults
        The queries of the engine, and what went wrong with single ones.
    batch_reader, event_readers
        Read batches, and by type name single events.
    strings
        The texts of the events.

    Notes
    -----
    Calls get the stream of the engine. It makes the matches where Python has to (``give``), keeps them when a signal ends a
    call (``interrupted``) and decides whether the loop serves the queries that there are (``choose_path``).
    """

    def __init__(self, queries, faults, BatchReader batch_reader not None, dict event_readers not None, strings):
        self.queries, self.faults = queries, faults
        self.batch_reader, self.event_readers, self.strings = batch_reader, event_readers, strings
        self.matchers = self.tried = ()
        self.pieces = Pieces()

    def __dealloc__(self):
        free(self.kept)

    @property
    def time(self):
        """Of the last event, int ns; None before the first."""
        return self.last_time if self.is_timed else None

    @time.setter
    def time(self, time):
        self.is_timed = time is not None
        self.last_time = time if time is not None else 0

    @property
    def sequence(self):
        """Of the last event, if the schema has sequence numbers; None before the first."""
        return self.last_sequence if self.is_numbered else None

    @sequence.setter
    def sequence(self, sequence):
        self.is_numbered = sequence is not None
        self.last_sequence = sequence if sequence is not None else 0

    def enter(self):
        """Hold the engine for a call; False: another one does."""
        if self.busy:
            return False
        self.busy = True
        return True

    def leave(self):
        """End what `enter` began."""
        self.busy = False

    def close(self):
        """Let everything go the long way."""
        self.is_open = False
        self.matchers = self.tried = ()
        self.n_matchers = self.n_tried = 0

    def open(self, matchers, Filters filters, ring, nothings, make, layout, bint plain, bint decides,
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

    def process(self, data, stream):
        """Take a batch the short way and give the matches; None: it has to go the long way."""
        cdef BatchReader reader = self.batch_reader
        if not self.is_open or self.busy or self.ended:
            return None
        self.busy = True
        try:
            if not self.is_settled:
                self._swap_kernels()
            if not reader.read(data):
                return None
            if not self.in_order(&reader.events):
                return None
            return self.match(stream, &reader.events, reader.events.size >= RELEASED)
        finally:
            reader.done()
            self.busy = False

    def process_batch(self, Batch batch not None, stream):
        """Match events that were converted and checked; None if another thread has used the engine since."""
        if not self.is_open or self.busy or self.ended or not self.in_order(&batch.events):
            return None
        self.busy = True
        try:
            if not self.is_settled:
                self._swap_kernels()
            return self.match(stream, &batch.events, batch.events.size >= RELEASED)
        finally:
            self.busy = False

    cdef int _swap_kernels(self) except -1:
        """Let the queries run the kernels that have been generated since the last call."""
        self.queries.kernels.swap()
        self.is_settled = self.queries.kernels.settled
        return 0

    cdef int _judge(self, object stream, int64_t position, int64_t first_time, int64_t time, set out, set lost) except -1:
        """Compare the stores that are tried, and end the trials that are decided, see `QuerySet.judge`."""
        if self.queries.judge(position, first_time, time, out, lost):
            stream.choose_path()
        return 0

    cdef bint in_order(self, const Events* events) noexcept:
        """Whether the events, whose times ascend, run on from where the stream stands."""
        cdef const int64_t* sequence = events.sequence
        cdef Py_ssize_t i
        cdef bint wrong = self.is_timed and events.time[0] < self.last_time
        if sequence != NULL:
            wrong |= self.is_numbered and sequence[0] <= self.last_sequence
            for i in range(1, events.size):
                wrong |= sequence[i] <= sequence[i - 1]
        return not wrong

    cdef object match(self, object stream, const Events* events, bint release):
        """Match events that come next in the stream; ``events`` gets its position.

        What a signal's handler raises ends this between two events, as if only those before had come.
        """
        cdef Matcher matcher
        cdef Py_ssize_t taken = 0
        cdef bint found = False, is_timed = self.is_timed, is_numbered = self.is_numbered
        cdef int i
        cdef int64_t start = self.position, time = self.last_time, sequence = self.last_sequence
        cdef set out = None
        (<Events*>events).position = start
        try:
            out = self.take(stream, events, release, &taken)
            if self.decides:
                self.queries.decide(self.last_time, self.position, self.faults, complete=False)
            for i in range(self.n_tried):
                matcher = <Matcher>self.tried[i]
                if matcher.has_output():
                    try:
                        matcher.take_output()
                    except MemoryError:
                        self._judge(stream, self.position, self.last_time, self.last_time, set(), {matcher})
                        break
            for i in range(self.n_matchers):
                found |= (<Matcher>self.matchers[i]).has_output()
            if found:
                poll()  # a handler that ran when they have been taken out would lose them
        except BaseException as error:
            self.position = start + taken
            self.last_time, self.is_timed, self.last_sequence, self.is_numbered = time, is_timed, sequence, is_numbered
            if taken:
                self.last_time, self.is_timed = events.time[taken - 1], True
                if events.sequence != NULL:
                    self.last_sequence, self.is_numbered = events.sequence[taken - 1], True
            stream.interrupted(error, taken, events.size)
            raise
        if (out is not None or self.matches_wait or (found and not self.is_plain)
                or (self.batch_reader.has_texts and len(<dict>self.strings.codes) > self.string_limit)):
            return stream.give()
        return self.give() if found else self.nothing

    cdef set take(self, object stream, const Events* events, bint release, Py_ssize_t* taken):
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
        self.position += size  # at once: it says what is in the ring, whatever happens to the matchers
        self.last_time, self.is_timed = events.time[size - 1], True
        if events.sequence != NULL:
            self.last_sequence, self.is_numbered = events.sequence[size - 1], True
        for i in range(self.n_matchers):
            matcher = <Matcher>self.matchers[i]
            try:
                matcher.bind_ring(self.ring)
            except Exception as error:
                out = (out or set()) | {i}
                self.queries.running[i].fail(error, events.time[size - 1], self.faults)
        while first < size:
            last = size if self.n_matchers < 2 else min(first + SLICE, size)
            if self.n_tried:
                last = min(judged + self.step, size)
            if polls and self.n_matchers > 1:
                last = first + self.pieces.begin(last - first, self.step if self.n_tried else 1)
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
                    self.queries.running[i].give_up(events.position + came, matcher.core.lost - lost, self.faults)
            if polls and self.n_matchers > 1:
                self.pieces.end(last - first)
            taken[0] = last
            if self.n_tried:
                ends = last == size or last == judged + self.step
                self.follow(stream, events, first, last, shared, release, judged if ends else -1, out)
                judged = last if ends else judged
            if polls and last < size:
                poll()
            first = last
        return out

    cdef int follow(self, object stream, const Events* events, Py_ssize_t first, Py_ssize_t last, bint shared, bint release,
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
            self._judge(stream, events.position + last, events.time[since], events.time[last - 1], out or set(), lost)
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
                self.queries.running[i].lose(error, self.faults)
                lost = True
        found = self.make(parts, self.layout)
        return self.faults.settle(found) if lost else found

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
    cdef EventLoop self = (<HasEventLoop>engine)._loop
    cdef PyObject* found
    cdef EventReader single
    if self.is_open and not self.busy and not self.ended and count == 1 and keywords != NULL:
        if PyUnicode_CheckExact(<object>arguments[0]):
            found = PyDict_GetItemWithError(self.event_readers, <object>arguments[0])
            if found != NULL:
                single = <EventReader>found
                self.busy = True
                try:
                    if not self.is_settled:
                        self._swap_kernels()
                    if single.fill(arguments + 1, <tuple>keywords) and self.in_order(&single.events):
                        return self.match((<HasEventLoop>engine)._stream, &single.events, False)
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


cdef class HasEventLoop:
    """Base of a class whose ``send`` is compiled: its instances set ``_loop``."""


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
    return PyDescr_NewMethod(<PyTypeObject*>HasEventLoop, definition)


cdef list _kept = []
