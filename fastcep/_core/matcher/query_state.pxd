# Memory and metrics of the state of one query. See query_state.pyx.
from fastcep._core.program.plan_tables cimport Tables
from fastcep._core.state.core cimport Core


cdef class QueryState:
    cdef readonly object plan
    cdef Tables tables
    cdef Core core

    cdef int _init_factorised(self, Tables tables) except -1
