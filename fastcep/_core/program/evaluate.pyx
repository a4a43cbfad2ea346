# cython: language_level=3
"""Run a program over whole columns (for RETURN), or chunk by chunk as the matcher does (for tests and benchmarks)."""
from libc.stdint cimport int32_t, int64_t, uint8_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import numpy as np

from fastcep._core.program.code cimport code_free, code_new
from fastcep._core.program.predicate cimport CHUNK, Code, Input, Kernel, Machine, machine_free, machine_new, run

#: Number of rows that a program processes at once.
CHUNK_ROWS = CHUNK


cdef class Evaluator:
    """Evaluates output 0 of ``program`` over columns.

    Parameters
    ----------
    program
        A ``fastcep.plan.bytecode.Program``.
    intern
        Function that returns the int64 code of a constant that is not a number (see ``Program``).

    Attributes
    ----------
    arithmetic_nulls
        Number of overflows and integer divisions by zero so far.
    function_errors
        Number of exceptions in user functions so far.
    """
    cdef Machine* vm
    cdef Code code
    cdef Input* inputs

    def __cinit__(self, program, intern):
        self.vm = machine_new()
        code_new(&self.code, program, intern)
        self.inputs = <Input*>calloc(max(1, self.code.n_inputs), sizeof(Input))
        if self.inputs == NULL:
            raise MemoryError("no memory for an expression")

    def __dealloc__(self):
        code_free(&self.code)
        free(self.inputs)
        machine_free(self.vm)

    @property
    def arithmetic_nulls(self):
        return self.vm.arithmetic_nulls

    @property
    def function_errors(self):
        return self.vm.function_errors

    def use_kernel(self, size_t address):
        """Run the generated code at ``address`` from now on; 0: run the bytecode."""
        self.code.kernel = <Kernel>address

    def __call__(self, list values, list nulls, Py_ssize_t n):
        """Evaluate ``n`` rows.

        Parameters
        ----------
        values
            Per input column, indexed by the number of the input: an array of n 8-byte values.
        nulls
            Per input column: uint8[n] (1 = null), or None for no nulls.

        Returns
        -------
        tuple
            int64[n] values (the bits of float64 for a float result) and uint8[n] nulls.
        """
        cdef Py_ssize_t i, j, m
        cdef const int64_t[::1] view
        cdef const uint8_t[::1] mask
        cdef int64_t[::1] out
        cdef uint8_t[::1] out_null
        cdef int64_t* outs[1]
        cdef uint8_t* out_nulls[1]
        result, result_null = np.zeros(n, np.int64), np.zeros(n, np.uint8)
        if n == 0:
            return result, result_null
        out, out_null = result, result_null
        outs[0], out_nulls[0] = &out[0], &out_null[0]
        for i in range(0, n, CHUNK):
            m = min(<Py_ssize_t>CHUNK, n - i)
            for j in range(self.code.n_inputs):
                view = values[self.code.input_number[j]].view(np.int64)
                self.inputs[j].data = &view[i]
                self.inputs[j].nulls = NULL
                if nulls[self.code.input_number[j]] is not None:
                    mask = nulls[self.code.input_number[j]]
                    self.inputs[j].nulls = &mask[i]
                self.inputs[j].bits = NULL
                self.inputs[j].stride = 1
            run(self.vm, &self.code, self.inputs, NULL, <int>m, NULL, outs, out_nulls, i)
        return result, result_null

    def run_chunks(self, list inputs, int32_t[::1] rows, uint8_t[::1] keep, int64_t[:, ::1] outputs,
               uint8_t[:, ::1] output_nulls, int n, Py_ssize_t repeat=1):
        """Run over ``n`` rows chunk by chunk, as the matcher does, and return the number of rows kept.

        Parameters
        ----------
        inputs
            Per input: ``(values, nulls or None, null bit words or None, bit, stride)``.
        rows, keep, outputs, output_nulls
            As for ``predicate.run``; each may be None. With ``rows`` or ``outputs``, ``n`` must not exceed one chunk.
        repeat
            Number of runs, for measuring time. If it is above 1, each run starts with all rows in ``keep``.
        """
        cdef Py_ssize_t j, k, first
        cdef const int64_t[::1] view
        cdef const uint8_t[::1] mask
        cdef Input* bases = <Input*>calloc(max(1, self.code.n_inputs), sizeof(Input))
        cdef int64_t* outs[64]
        cdef uint8_t* out_nulls[64]
        cdef int m, kept = 0
        cdef const int32_t* selected = NULL
        cdef uint8_t* keep_rows = NULL
        cdef uint8_t* keep_chunk
        try:
            if n < 1 or len(inputs) != self.code.n_inputs or (n > CHUNK and (rows is not None or outputs is not None)):
                raise ValueError(f"expected {self.code.n_inputs} inputs and at least 1 row; with outputs or selected "
                                 f"rows, at most {CHUNK} rows")
            for j, (values, nulls, bits, bit, stride) in enumerate(inputs):
                view = values.view(np.int64)
                bases[j].data = &view[0]
                if nulls is not None:
                    mask = nulls
                    bases[j].nulls = &mask[0]
                if bits is not None:
                    view = bits
                    bases[j].bits = &view[0]
                bases[j].bit = bit
                bases[j].stride = stride
            if rows is not None:
                selected = &rows[0]
            if outputs is not None:
                for j in range(outputs.shape[0]):
                    outs[j], out_nulls[j] = &outputs[j, 0], &output_nulls[j, 0]
            if keep is not None:
                keep_rows = &keep[0]
            with nogil:
                for j in range(repeat):
                    if keep_rows != NULL and repeat > 1:
                        memset(keep_rows, 1, n)
                    kept = 0
                    first = 0
                    while first < n:
                        m = min(CHUNK, n - <int>first)
                        for k in range(self.code.n_inputs):
                            self.inputs[k] = bases[k]
                            if bases[k].stride:
                                self.inputs[k].data += first
                                if bases[k].nulls != NULL:
                                    self.inputs[k].nulls += first
                                if bases[k].bits != NULL:
                                    self.inputs[k].bits += first
                        keep_chunk = keep_rows
                        if keep_rows != NULL:
                            keep_chunk += first
                        kept += run(self.vm, &self.code, self.inputs, selected, m, keep_chunk, outs, out_nulls, 0)
                        first += m
        finally:
            free(bases)
        return kept


def evaluate(program, intern, list values, list nulls, Py_ssize_t n):
    """Evaluate output 0 of ``program`` once (see :class:`Evaluator`).

    Returns
    -------
    tuple
        Values, nulls, number of arithmetic nulls, number of function errors.
    """
    evaluator = Evaluator(program, intern)
    result, result_null = evaluator(values, nulls, n)
    return result, result_null, evaluator.arithmetic_nulls, evaluator.function_errors
