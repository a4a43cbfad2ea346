# The structs of the predicate evaluator: programs, their inputs and the registers. See predicate.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    CHUNK = 256        # rows that a program processes at once
    MAX_REGISTERS = 48
    MAX_ARGUMENTS = 8  # of a user function

# A user function. Returns 0 for a value, 1 for an exception, any other number for null.
ctypedef int (*UserFunction)(const int64_t* arguments, int64_t* result) noexcept nogil


cdef struct Input:
    const int64_t* data      # 8-byte values (int64, or float64 bits)
    const uint8_t* nulls     # null flags, one byte per row, or NULL
    const int64_t* bits      # words with the null bits of a row, or NULL
    int32_t bit              # number of the bit in ``bits``
    int32_t stride           # 1: column, 0: broadcast


# A generated kernel (fastcep.kernels): ``run`` compiled for one program. The first two arguments follow the calling
# convention of Numba: a pointer to the result, which is the number of rows kept, and a pointer that is never used. The
# others are: ``Input``s, constants, ``Machine.zeros``, rows (never NULL), n, keep, outputs, output nulls, offset, and
# the counter of arithmetic nulls.
ctypedef int32_t (*Kernel)(int64_t*, void**, const Input*, const int64_t*, const uint8_t*, const int32_t*, int64_t,
                           uint8_t*, int64_t**, uint8_t**, int64_t, int64_t*) noexcept nogil


cdef struct Comparison:      # a condition that compares an input with a constant
    int32_t input
    int32_t operation        # see event_sets.h
    int64_t constant


cdef struct Code:
    int32_t* code            # instructions, six int32 each; NULL = no program
    Kernel kernel            # NULL = interpret (tier 0)
    int64_t* constants
    uint8_t* constant_nulls
    int32_t n_inputs
    int32_t* input_kind
    int32_t* input_number
    Comparison* comparisons  # the conditions before the first other one; NULL = not looked for
    int32_t n_comparisons
    bint only_compares       # there is no other condition


cdef struct Machine:
    int64_t* values          # [MAX_REGISTERS][CHUNK]
    uint8_t* nulls           # [MAX_REGISTERS][CHUNK]
    uint8_t* ones            # [CHUNK] all 1
    uint8_t* zeros           # [CHUNK] all 0: the null flags of a column without nulls
    int32_t* identity        # [CHUNK] 0, 1, …: the rows of a call without ``rows``
    const int64_t* data[48]  # per register: its values,
    const uint8_t* null[48]  # its null flags, or NULL,
    int32_t step[48]         # 1: a value per row, 0: one value for all rows
    int64_t arithmetic_nulls # overflows and integer divisions by zero so far
    int64_t function_errors  # exceptions in user functions so far
