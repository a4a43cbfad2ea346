# cython: language_level=3
"""Delay signal handlers while an engine changes its state, and run them between two events.

Python may run the handler of a signal between any two instructions of the main thread, and what the handler raises
(that of Ctrl-C raises ``KeyboardInterrupt``) is raised there. In the middle of a call this would leave an engine in
which some queries have seen an event that others have not. So a call of an engine delays the handlers (`Signals` is
its context manager) and runs them where all queries have seen the same events (`Signals.deliver`), about every 25 ms
or more often.

If a handler has been delayed for longer than `Signals.patience`, because a shedder or a listener does not return, it
runs at once when its signal comes again. If it raises then, the engine's state is inconsistent: `Signals.torn`.

This is compiled because handlers run between the instructions of Python code, also of the code that replaces and
restores them. Compiled code runs none, but where it calls ``signal.signal``: that runs the handlers of pending signals
before it sets a handler, and sets none if one of them raises.
"""
import _signal
import os
import signal
import threading

from libc.stdint cimport int64_t

from fastcep._core.matcher.interrupt cimport call_hook, monotonic

cdef extern from "pythread.h":
    unsigned long PyThread_get_thread_ident() nogil

cdef enum:
    ATTEMPTS = 1000  # to set a handler while others raise; more only if it cannot be set

cdef double PATIENCE = 1.0

# The signals whose handlers are delayed: those that are sent to end, interrupt or wake a program.
cdef tuple NUMBERS = tuple([
    int(getattr(signal, name))
    for name in (
        "SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGUSR1", "SIGUSR2", "SIGBREAK",
    )
    if hasattr(signal, name)
])

# What `signal.getsignal` and `signal.signal` call; they convert numbers to enums, which takes ten times as long.
cdef object get_handler = _signal.getsignal
cdef object set_handler = _signal.signal

cdef unsigned long main_thread = threading.main_thread().ident


def _after_fork():
    global main_thread
    main_thread = PyThread_get_thread_ident()


os.register_at_fork(after_in_child=_after_fork)


cdef bint is_main() noexcept:
    """Return whether this is the main thread; no handler runs in another one."""
    return PyThread_get_thread_ident() == main_thread


cdef object latest(object error, object later):
    """Return the exception that came later, raised while the other one, or None, was handled."""
    if error is not None and later is not error and later.__context__ is None:
        later.__context__ = error
    return later


cdef class Signals:
    """Context manager that delays signal handlers; it may be nested. Outside the main thread it does nothing.

    An exception of a handler is raised before the body begins, after it has ended, or by `deliver`.

    Attributes
    ----------
    torn
        True if a handler has raised in the middle of a call, because it had been delayed for too long.
    patience
        A handler that has been delayed for this many seconds runs at once when its signal comes again.
    """

    def __cinit__(self):
        self.torn, self.patience, self.depth = False, PATIENCE, 0
        self.handlers, self.waiting, self.bound = {}, {}, None

    def __enter__(self):
        if not is_main():
            return self
        if self.depth == 0:
            self.bound = self.note
            try:
                for number in NUMBERS:
                    handler = get_handler(number)
                    if callable(handler) and handler != self.bound:  # a program may have set it
                        set_handler(number, self.bound)
                        self.handlers[number] = handler
            except BaseException as error:
                self.leave(error)
        self.depth += 1
        return self

    cdef object enter_despite(self, object error):
        """Enter also if handlers raise; return the last exception, which is ``error`` if none does."""
        for _ in range(ATTEMPTS):
            try:
                self.__enter__()
                return error
            except BaseException as later:
                error = latest(error, later)
        raise error

    def __exit__(self, kind, value, traceback):
        if not is_main() or self.depth == 0:  # 0: the process was forked by a thread that had entered
            return
        self.depth -= 1
        if self.depth == 0:
            self.leave(None)

    cdef int leave(self, object error) except -1:
        """Restore the handlers, run those whose signals have come, and raise the last exception, if there is one."""
        cdef dict handlers = self.handlers
        cdef object bound = self.bound
        for number, handler in handlers.items():
            for _ in range(ATTEMPTS):
                try:
                    if get_handler(number) is bound:  # not if the program has set another one meanwhile
                        set_handler(number, handler)
                    break
                except BaseException as later:
                    error = latest(error, later)
        self.handlers, self.bound = {}, None
        return self.run(handlers, error)

    cpdef int deliver(self) except -1:
        """Run the handlers of the signals that have come; an exception of a handler is raised here."""
        call_hook()
        if self.waiting and is_main():
            self.run(self.handlers, None)
        return 0

    cdef int run(self, dict handlers, object error) except -1:
        """Run the handlers of all signals that have come, and raise the last exception, if there is one."""
        while self.waiting:
            number = next(iter(self.waiting))  # that came first
            _, frame = self.waiting.pop(number)
            try:
                handlers[number](number, frame)
            except BaseException as later:
                error = latest(error, later)
        if error is not None:
            raise error
        return 0

    def note(self, int number, frame):
        """Delay a signal; run its handler at once if an earlier signal has waited too long."""
        cdef int64_t now = monotonic()
        if number not in self.handlers:  # a program has set this method as its handler
            return
        first = self.waiting.get(number)
        if first is None:
            self.waiting[number] = now, frame
        elif self.depth and now - <int64_t>first[0] > 1e9 * self.patience:
            del self.waiting[number]
            self.torn = True
            self.handlers[number](number, frame)
            self.torn = False
