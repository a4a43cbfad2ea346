# cython: language_level=3
"""Run a tier-0 program over whole columns (RETURN, and the tests of the operations)."""
from libc.stdint cimport int64_t, uint8_t
from libc.stdlib cimport calloc, free

import numpy as np

from fastcep._core.predicate cimport CHUNK, Code, Input, Machine, code_free, code_new, machine_free, machine_new, run


def evaluate(program, intern, list values, list nulls, Py_ssize_t n):
    """Evaluate output 0 of ``program`` for ``n`` rows.

    Parameters
    ----------
    program
        ``fastcep.plan.bytecode.Program`` whose inputs are all of kind ``event``.
    intern
        Gives the word of a constant that is no number (see ``Program``).
    values, nulls
        Per input column an 8-byte array of n values, and uint8[n] (1 = null) or None.

    Returns
    -------
    tuple
        int64[n] values (bits of float64 where the result is one), uint8[n] nulls, the number of arithmetic nulls and
        that of exceptions in users' functions.
    """
    cdef Machine* vm = machine_new()
    cdef Code code
    cdef Input* inputs = <Input*>calloc(max(1, len(program.inputs)), sizeof(Input))
    cdef Py_ssize_t i, j, m
    cdef const int64_t[::1] view
    cdef const uint8_t[::1] mask
    cdef int64_t[::1] out
    cdef uint8_t[::1] out_null
    cdef int64_t* outs[1]
    cdef uint8_t* out_nulls[1]
    cdef int64_t counted, errors
    keep = []
    result, result_null = np.zeros(n, np.int64), np.zeros(n, np.uint8)
    if n == 0:
        machine_free(vm)
        free(inputs)
        return result, result_null, 0, 0
    out, out_null = result, result_null
    outs[0], out_nulls[0] = &out[0], &out_null[0]
    code_new(&code, program, intern)
    try:
        for i in range(0, n, CHUNK):
            m = min(<Py_ssize_t>CHUNK, n - i)
            for j in range(code.n_inputs):
                view = values[code.input_number[j]].view(np.int64)
                inputs[j].data = &view[i]
                inputs[j].nulls = NULL
                if nulls[code.input_number[j]] is not None:
                    mask = nulls[code.input_number[j]]
                    inputs[j].nulls = &mask[i]
                inputs[j].bits = NULL
                inputs[j].stride = 1
            run(vm, &code, inputs, NULL, <int>m, NULL, outs, out_nulls, i)
        counted, errors = vm.arithmetic_nulls, vm.function_errors
    finally:
        code_free(&code)
        free(inputs)
        machine_free(vm)
    return result, result_null, counted, errors
