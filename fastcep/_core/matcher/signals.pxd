# Delays signal handlers while an engine changes its state. See signals.pyx.


cdef class Signals:
    cdef public bint torn
    cdef public double patience
    cdef int depth
    cdef dict handlers       # those that are delayed, by signal
    cdef dict waiting        # by signal that has come: the time in ns, and the frame that it interrupted
    cdef object bound        # what is set in the handlers' place, while they are delayed

    cpdef int deliver(self) except -1
    cdef object enter_despite(self, object error)
    cdef int leave(self, object error) except -1
    cdef int run(self, dict handlers, object error) except -1
