# cython: language_level=3
"""The loop that takes batches and single events through the queries of an engine. There is no other.

A call goes from its buffers to the matchers without Python: ``batch_reader`` or ``event_reader`` reads the events, the loop
checks their order, keeps them in the event ring, and matches them; Python makes the matches, if there are any.

Two entries lead into the loop. `EventLoop.process` and ``send`` read the buffers of the data directly. Data that the
readers do not accept, or an engine with an option that works in Python between events (lateness, a memory limit, explicit
windows, threads, overload control), goes through ``fastcep.engine.stream``: it converts or rejects the data, and hands the
converted batch to `EventLoop.process_batch`. If only the overload control works in Python, it hands the data to
`EventLoop.process_held` where it can.

Invariant: when a call ends, also with an error, all queries have taken the same events, and `EventLoop.position` and
`EventLoop.time` say which. A query that failed or ran out of memory has lost its state instead.

Signal handlers run between the instructions of Python code, so also after the loop and before the caller of an engine's
method has its matches. So these are kept in `EventLoop.unreturned`. The method takes them from there, sets it to None, and
returns: no handler runs between these instructions. If a handler raises before, the next call returns the matches; that
may also be a call by the handler.
"""
from libc.stdint cimport int64_t

from fastcep._core.input.batch cimport Batch, Events
from fastcep._core.input.batch_reader cimport BatchReader
from fastcep._core.input.filters cimport Filters
from fastcep._core.input.ring_writer cimport RingWriter
from fastcep._core.matcher.interrupt cimport Pieces, always, poll
from fastcep._core.matcher.matcher cimport Matcher
from fastcep._core.matcher.signals cimport Signals
from fastcep._core.state.state_metrics cimport first_position

cdef enum:
    SLICE = 1 << 15          # events that all queries take before the next ones
    RELEASED = 64            # a batch of fewer events is matched without releasing the GIL
    ATTEMPTS = 100           # to make matches while handlers raise; more only if they cannot be made


cdef class EventLoop:
    """The position of an engine in its stream, and the compiled loop over events.

    Parameters
    ----------
    queries, faults
        The queries of the engine, and the collector of their failures.
    batch_reader, event_readers
        Readers of batches, and of single events by type name.
    strings
        The string table of the engine.
    signals
        Delays signal handlers.

    Notes
    -----
    Every call gets the engine's stream. It prepares the pieces of a batch for options that need it (``prepare``), decides
    matches that wait for time (``decide``), makes the matches where Python has to (``give``), keeps them when an error ends
    a call (``interrupted``), runs signal handlers (``deliver``) and configures the loop when queries change (``configure``).
    """

    def __init__(self, queries, faults, BatchReader batch_reader not None, dict event_readers not None, strings,
                 Signals signals not None):
        self.queries, self.faults, self.signals = queries, faults, signals
        self.batch_reader, self.event_readers, self.strings = batch_reader, event_readers, strings
        self.matchers = self.candidates = ()
        self.pieces = Pieces()

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
        """Take no more events."""
        self.is_direct = False
        self.matchers = self.candidates = ()
        self.n_matchers = self.n_candidates = self.n_queries = 0

    def open(self, matchers, Filters filters, ring, nothings, make_matches, layout, *, bint plain, bint decides, bint direct,
             bint prepares, Py_ssize_t piece_size=0, control=None, threads=None, candidates=(), Py_ssize_t trial_step=0):
        """Set what the loop runs from now on.

        Parameters
        ----------
        matchers
            The matchers of all queries, in order; with ``threads`` the parts of all queries.
        filters
            The filters that queries share.
        ring
            The event ring, or None.
        nothings
            Per query, its matches of a call that found none.
        make_matches, layout
            Called with the matches of each query and ``layout``; returns the matches of the call.
        plain
            Whether matches are exactly what the matchers put out.
        decides
            Whether any match may wait for time.
        direct
            Whether events need not be converted: no option works in Python between events.
        prepares, piece_size
            Whether the stream prepares each piece of a batch, and the number of events of a piece; 0: as many as take about
            25 ms.
        control
            The overload control, or None.
        threads
            Runs the matchers in several threads (`fastcep.engine.parallel_match.ParallelMatch`), or None.
        candidates, trial_step
            Matchers of candidate stores: they take the same events, and their matches are discarded. Stores are compared
            after every ``trial_step`` events.
        """
        cdef Matcher matcher
        for matcher in (*matchers, *candidates):
            pass  # raises TypeError for anything but a matcher: they are cast without a check from now on
        self.candidates, self.n_candidates, self.trial_step = tuple(candidates), len(candidates), trial_step
        self.matchers, self.n_matchers, self.n_queries = tuple(matchers), len(matchers), len(nothings)
        self.filters, self.ring, self.decides = filters, ring, decides
        self.ring_writer = None if ring is None else RingWriter(ring)
        self.nothings, self.make_matches, self.layout, self.is_plain = list(nothings), make_matches, layout, plain
        self.is_direct, self.prepares, self.piece_size = direct, prepares, piece_size
        self.control, self.threads = control, threads
        self.nothing = make_matches(nothings, layout)
        self.is_settled = False

    def process(self, data, stream):
        """Take a batch from its own buffers and return the matches; None if it has to be converted. Nothing is taken then."""
        cdef BatchReader reader = self.batch_reader
        if not self.is_direct or self.busy or self.ended:
            return None
        self.busy = True
        try:
            if not reader.read(data) or not self.in_order(&reader.events):
                return None
            return self.match(stream, &reader.events, None, reader.events.size >= RELEASED)
        finally:
            reader.done()
            self.busy = False

    def process_held(self, data, stream):
        """Take a batch as `process` does, for a caller that holds the engine and delays signal handlers."""
        cdef BatchReader reader = self.batch_reader
        self.is_guarded = True
        try:
            if not reader.read(data) or not self.in_order(&reader.events):
                return None
            return self.match(stream, &reader.events, None, reader.events.size >= RELEASED)
        finally:
            reader.done()
            self.is_guarded = False

    def process_batch(self, Batch batch not None, stream):
        """Take a batch that was converted and checked, of one event or more, and return the matches.

        The caller holds the engine and delays signal handlers (``Stream.exclusive``).
        """
        self.is_guarded = True
        try:
            return self.match(stream, &batch.events, batch, batch.events.size >= RELEASED)
        finally:
            self.is_guarded = False

    cdef int _poll(self, object stream) except -1:
        """Run the handlers of signals that have come; what they raise is raised here."""
        if self.is_guarded:
            stream.deliver()
        else:
            poll()
        return 0

    cdef int _swap_kernels(self) except -1:
        """Let the queries run the kernels that have been generated since the last call."""
        self.queries.kernels.swap()
        self.is_settled = self.queries.kernels.settled
        return 0

    cdef int _judge(self, object stream, int64_t position, int64_t first_time, int64_t time, set out, set lost) except -1:
        """Compare candidate stores, and end the trials that are decided, see `QuerySet.judge`."""
        error = self.signals.enter_despite(None)
        try:
            if self.queries.judge(position, first_time, time, out, lost):
                stream.configure()
        finally:
            self.signals.__exit__(None, None, None)
        if error is not None:
            raise error
        return 0

    cdef bint in_order(self, const Events* events) noexcept:
        """Return whether the events, whose times ascend, continue the stream."""
        cdef const int64_t* sequence = events.sequence
        cdef Py_ssize_t i
        cdef bint wrong = self.is_timed and events.time[0] < self.last_time
        if sequence != NULL:
            wrong |= self.is_numbered and sequence[0] <= self.last_sequence
            for i in range(1, events.size):
                wrong |= sequence[i] <= sequence[i - 1]
        return not wrong

    cdef object match(self, object stream, const Events* events, Batch batch, bint release):
        """Match the next events of the stream: those of ``batch``, or of a reader if that is None; sets their position.

        An exception raised by a signal handler ends the call between two events, as if only the events before had come.
        """
        cdef Matcher matcher
        cdef Py_ssize_t taken = 0
        cdef bint has_matches = False, is_timed = self.is_timed, is_numbered = self.is_numbered
        cdef int i
        cdef int64_t start = self.position, time = self.last_time, sequence = self.last_sequence
        cdef set out = None
        if not self.is_settled:
            self._swap_kernels()
        (<Events*>events).position, self.batch_size = start, events.size
        try:
            if self.prepares:
                self.take_pieces(stream, batch, &taken)
            else:
                if self.control is not None:
                    self.control.begin(0)
                out = self.take(stream, events, batch, release, &taken)
            if self.decides:
                stream.decide()
            for i in range(self.n_candidates):
                matcher = <Matcher>self.candidates[i]
                if matcher.has_output():
                    try:
                        matcher.take_output()
                    except MemoryError:
                        self._judge(stream, self.position, self.last_time, self.last_time, set(), {matcher})
                        break
            for i in range(self.n_matchers):
                has_matches |= (<Matcher>self.matchers[i]).has_output()
            if has_matches:
                self._poll(stream)  # later, an exception of a handler would lose matches that have been taken out
        except BaseException as error:
            self.position = start + taken
            self.last_time, self.is_timed, self.last_sequence, self.is_numbered = time, is_timed, sequence, is_numbered
            if taken:
                self.last_time, self.is_timed = events.time[taken - 1], True
                if events.sequence != NULL:
                    self.last_sequence, self.is_numbered = events.sequence[taken - 1], True
            error = self.signals.enter_despite(error)
            try:
                stream.interrupted(error, taken, batch, events.size)
            finally:
                self.signals.__exit__(None, None, None)
            raise error
        if (not self.is_direct or out is not None or self.matches_wait or self.unreturned is not None
                or (has_matches and not self.is_plain)
                or (self.batch_reader.has_texts and len(<dict>self.strings.codes) > self.string_limit)):
            return self.give_in_python(stream)
        return self.give() if has_matches else self.nothing

    cdef int take_pieces(self, object stream, Batch batch, Py_ssize_t* taken) except -1:
        """Let all matchers take a batch piece by piece; ``stream.prepare`` prepares each piece for options that need it.

        A piece is prepared as a whole, so a call ends between two pieces only. ``taken`` counts the events of all pieces
        that were begun.
        """
        cdef Batch piece
        cdef Py_ssize_t size = batch.events.size, first = 0, number, ignored
        cdef set out
        while first < size:
            if self.piece_size:
                number = min(size - first, self.piece_size)
            else:
                number = self.pieces.begin(size - first, self.trial_step if self.n_candidates else 1)
            piece = batch if number == size else Batch(batch.source.slice(first, first + number), 0)
            piece.events.position = self.position
            taken[0] = first + number
            if self.control is not None:
                self.control.begin(first)
            out = stream.prepare(piece)
            self.take(stream, &piece.events, piece, True, &ignored, out)
            if not self.piece_size:
                self.pieces.end(number)
            first += number
            if first < size:
                stream.read_events()
            self._poll(stream)
        return 0

    cdef set take(self, object stream, const Events* events, Batch batch, bint release, Py_ssize_t* taken, set out=None):
        """Let all matchers take the events, but those of queries that are ``out``; sets ``taken``: how many all have taken.

        Returns the numbers of the queries that did not take all of them, or None.
        """
        cdef Matcher matcher
        cdef Py_ssize_t first = 0, last, size = events.size, reached, judged = 0
        cdef bint ends, shared = False
        cdef bint polls = (release or always()) and not self.prepares, may_pause = polls and self.n_matchers == 1
        cdef int i
        cdef int64_t lost
        if self.ring is not None:
            self.keep(events)
        self.position += size  # at once: it says what is in the ring, whatever happens to the matchers
        self.last_time, self.is_timed = events.time[size - 1], True
        if events.sequence != NULL:
            self.last_sequence, self.is_numbered = events.sequence[size - 1], True
        for i in range(self.n_matchers if self.threads is None else 0):
            matcher = <Matcher>self.matchers[i]
            try:
                matcher.bind_ring(self.ring)
            except Exception as error:
                out = (out or set()) | {i}
                self.queries.running[i].fail(error, events.time[size - 1], self.faults)
        if self.threads is not None:
            self.threads.begin(batch, self.ring, out or (), self.batch_size)
        while first < size:
            last = size if self.n_queries < 2 else min(first + SLICE, size)
            if self.n_candidates:
                last = min(judged + self.trial_step, size)
            if polls and self.n_matchers > 1:
                last = first + self.pieces.begin(last - first, self.trial_step if self.n_candidates else 1)
            if self.control is not None:
                last = first + <Py_ssize_t>self.control.stretch(last - first)
            if self.n_queries > 1:
                shared = self.filters.look_through(events, first, last, release)
            if self.threads is not None:
                self.threads.take(first, last, shared)
            else:
                for i in range(self.n_matchers):
                    if out is not None and i in out:
                        continue
                    matcher = <Matcher>self.matchers[i]
                    lost = matcher.core.lost
                    reached = matcher.take(events, first, last, shared, release, may_pause)
                    if matcher.pause.paused:
                        last = reached
                    elif reached < last:
                        out = (out or set()) | {i}
                        self.queries.running[i].give_up(events.position + reached, matcher.core.lost - lost, self.faults)
            if polls and self.n_matchers > 1:
                self.pieces.end(last - first)
            taken[0] = last
            if self.control is not None:
                self.control.taken(events.time[first], events.time[last - 1], first, last)
                for i in range(self.n_matchers):  # a change of the shedder replaces them
                    (<Matcher>self.matchers[i]).bind_ring(self.ring)
            if self.n_candidates:
                ends = last == size or last == judged + self.trial_step
                self.follow(stream, events, first, last, shared, release, judged if ends else -1, out)
                judged = last if ends else judged
            if polls and last < size:
                self._poll(stream)
            first = last
        if self.threads is not None:
            self.threads.end(self.faults)
        return out

    cdef int follow(self, object stream, const Events* events, Py_ssize_t first, Py_ssize_t last, bint shared, bint release,
                    Py_ssize_t since, set out) except -1:
        """Let the candidate stores take the events that the queries, but those that are ``out``, have taken.

        Then compare the stores by the events from ``since`` on; -1: not yet. The end of the last trial opens the loop anew.
        """
        cdef Matcher matcher
        cdef set lost = set()
        cdef int i
        for i in range(self.n_candidates):
            matcher = <Matcher>self.candidates[i]
            try:
                matcher.bind_ring(self.ring)
                if matcher.take(events, first, last, shared, release) < last:
                    lost.add(matcher)
            except MemoryError:
                lost.add(matcher)
        if since >= 0 or lost:
            if release and not self.prepares:
                self._poll(stream)
            since = max(since, <Py_ssize_t>0)
            self._judge(stream, events.position + last, events.time[since], events.time[last - 1], out or set(), lost)
        return 0

    cdef object give(self):
        """Return the matches of queries whose matches are exactly what their matchers put out."""
        cdef Matcher matcher
        cdef list matches = []
        cdef bint lost = False
        cdef int i
        for i in range(self.n_matchers):
            matcher = <Matcher>self.matchers[i]
            if not matcher.has_output():
                matches.append(self.nothings[i])
                continue
            try:
                matches.append(matcher.take_output())
            except Exception as error:
                matches.append(self.nothings[i])
                self.queries.running[i].lose(error, self.faults)
                lost = True
        result = self.make(matches)
        self.unreturned, self.failed = result, lost
        return result

    cdef object give_in_python(self, object stream):
        """Let the stream make the matches; if the handler of a signal raises, the next call returns them."""
        error = self.signals.enter_despite(None)
        try:
            matches = stream.give()
        finally:
            self.signals.__exit__(None, None, None)
        if error is not None:
            raise error
        return matches

    cdef object make(self, list matches):
        """Make the matches of the call; if the handler of a signal raises meanwhile, the next call returns them."""
        cdef object error = None
        for _ in range(ATTEMPTS):
            try:
                made = self.make_matches(matches, self.layout)
                break
            except BaseException as raised:  # a handler may raise anything, and another one while this is repeated
                error = raised
        else:
            raise error
        if error is not None:
            self.unreturned = made
            raise error
        return made

    cdef int keep(self, const Events* events) except -1:
        """Write the events to the event ring; where it is full, first free the events that no partial match needs."""
        cdef Matcher matcher
        cdef int64_t oldest = events.position
        if not self.ring_writer.has_room(events.size):
            for matcher in (*self.matchers, *self.candidates):
                oldest = min(oldest, first_position(&matcher.core))
            self.ring_writer.make_room(oldest, events.size)
        return self.ring_writer.write(events)
