# Operations of the bytecode that take more than a line. See operations.pyx.
from libc.math cimport copysign, floor, fmod
from libc.stdint cimport int32_t, int64_t, uint8_t

from fastcep._core.program.machine cimport Machine


cdef inline double floordiv(double a, double b) noexcept nogil:
    """Floor division of floats as in Python, with IEEE division by zero."""
    cdef double mod, div, result
    if b == 0.0:
        return a / b
    mod = fmod(a, b)
    div = (a - mod) / b
    if mod != 0.0 and (b < 0.0) != (mod < 0.0):
        div -= 1.0
    if div == 0.0:
        return copysign(0.0, a / b)
    result = floor(div)
    if div - result > 0.5:
        result += 1.0
    return result


cdef inline double modulo(double a, double b) noexcept nogil:
    """Modulo of floats as in Python, with NaN for a divisor of zero."""
    cdef double mod
    mod = fmod(a, b)
    if mod == 0.0:
        return copysign(0.0, b) if b != 0.0 else mod
    return mod + b if (b < 0.0) != (mod < 0.0) else mod


cdef void call_function(Machine* vm, const int32_t* ip, int64_t address, const uint8_t* keep, int n) noexcept nogil
cdef void text_lookup(Machine* vm, int dst, int64_t address, const int64_t* a, int64_t sa, const uint8_t* na,
                      const uint8_t* keep, int n) noexcept nogil
cdef const uint8_t* checked_arithmetic(
    Machine* vm, int op, int64_t* d, uint8_t* nd, const uint8_t* nulls, const int64_t* a, int64_t sa, const int64_t* b,
    int64_t sb, int n, const uint8_t* keep) noexcept nogil
cdef void ternary(
    Machine* vm, int op, int64_t* d, uint8_t* nd, const int64_t* a, int64_t sa, const uint8_t* na, const int64_t* b,
    int64_t sb, const uint8_t* nb, const int64_t* c, int64_t sc, const uint8_t* nc, const int32_t* ip, int n,
    const uint8_t* keep) noexcept nogil
