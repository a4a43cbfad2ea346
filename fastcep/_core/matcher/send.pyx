# cython: language_level=3
"""``Engine.send``: one event to the `EventLoop`, without a dict of its attributes and without Python code."""
from cpython.dict cimport PyDict_GetItemWithError
from cpython.exc cimport PyErr_CheckSignals
from cpython.object cimport PyObject, PyTypeObject
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memcpy

from fastcep._core.input.event_reader cimport EventReader
from fastcep._core.matcher.event_loop cimport EventLoop

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

cdef object _send_by_batch = None     # sends an event as a batch of one


cdef object _send(PyObject* engine, PyObject** arguments, Py_ssize_t count, PyObject* keywords):
    """``Engine.send`` with the calling convention that needs no dict of the keywords."""
    cdef EventLoop self = (<HasEventLoop>engine)._loop
    cdef PyObject* entry
    cdef EventReader reader
    if self.is_direct and not self.busy and not self.ended and count == 1 and keywords != NULL:
        if PyUnicode_CheckExact(<object>arguments[0]):
            entry = PyDict_GetItemWithError(self.event_readers, <object>arguments[0])
            if entry != NULL:
                reader = <EventReader>entry
                self.busy = True
                try:
                    if reader.fill(arguments + 1, <tuple>keywords) and self.in_order(&reader.events):
                        self.match((<HasEventLoop>engine)._stream, &reader.events, None, False)
                        if self.failed:
                            return (<HasEventLoop>engine)._stream.returned()
                        if self.unreturned is None:
                            return self.nothing
                        PyErr_CheckSignals()
                        matches, self.unreturned = self.unreturned, None
                        return self.nothing if matches is None else matches  # a handler may have called the engine
                finally:
                    self.busy = False
    return _call_send_by_batch(engine, arguments, count, keywords)


cdef object _call_send_by_batch(PyObject* engine, PyObject** arguments, Py_ssize_t count, PyObject* keywords):
    """Call the function that was given to ``compiled``."""
    cdef Py_ssize_t named = 0 if keywords == NULL else len(<tuple>keywords)
    cdef PyObject** given = <PyObject**>malloc((1 + count + named) * sizeof(PyObject*))
    if given == NULL:
        raise MemoryError("no memory for the call")
    given[0] = engine
    memcpy(given + 1, arguments, (count + named) * sizeof(PyObject*))
    try:
        return PyObject_Vectorcall(_send_by_batch, given, 1 + count, keywords)
    finally:
        free(given)


cdef class HasEventLoop:
    """Base of a class whose ``send`` is compiled: its instances set ``_loop``."""


def compiled(function):
    """Return the compiled ``send`` with this function's name and documentation.

    It calls the function for an event that cannot enter the loop directly. There is one for all engines.
    """
    global _send_by_batch
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
    _send_by_batch = function
    return PyDescr_NewMethod(<PyTypeObject*>HasEventLoop, definition)


cdef list _kept = []
