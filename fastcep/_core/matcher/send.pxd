# One event to the loop of an engine. See send.pyx.
from fastcep._core.matcher.event_loop cimport EventLoop


cdef class HasEventLoop:
    cdef public EventLoop _loop
    cdef public object _stream
