# Tier-0 predicate evaluator: the structs that the matcher fills. See predicate.pyx.
from libc.stdint cimport int32_t, int64_t, uint8_t

cdef enum:
    CHUNK = 256        # rows a program runs over at once
    MAX_REGISTERS = 48
    MAX_ARGUMENTS = 8  # of a user's function

# A user's function: returns 0 for a value, 1 for an exception, else for null.
ctypedef int (*UserFunction)(const int64_t* arguments, int64_t* result) noexcept nogil


cdef struct Input:
    const int64_t* data      # 8-byte values (int64, or float64 bits)
    const uint8_t* nulls     # one byte a row, or NULL
    const int64_t* bits      # null bit words of rows, or NULL
    int32_t bit              # which bit of ``bits``
    int32_t stride           # 1 column, 0 broadcast


# A generated kernel (fastcep.kernels): ``run`` compiled for one program. The first two arguments are where it puts how many
# rows it kept, and one that it never uses (the calling convention of Numba); then ``Input``s, constants, ``Machine.zeros``,
# rows (never NULL), n, keep, outputs, output nulls, offset and the counter of arithmetic nulls.
ctypedef int32_t (*Kernel)(int64_t*, void**, const Input*, const int64_t*, const uint8_t*, const int32_t*, int64_t,
                           uint8_t*, int64_t**, uint8_t**, int64_t, int64_t*) noexcept nogil


cdef struct Code:
    int32_t* code            # instructions, six int32 each; NULL = no program
    Kernel kernel            # NULL = interpret (tier 0)
    int64_t* constants
    uint8_t* constant_nulls
    int32_t n_inputs
    int32_t* input_kind
    int32_t* input_number


cdef struct Machine:
    int64_t* values          # [MAX_REGISTERS][CHUNK]
    uint8_t* nulls           # [MAX_REGISTERS][CHUNK]
    uint8_t* ones            # [CHUNK] all 1
    uint8_t* zeros           # [CHUNK] all 0: the null bytes of a column without nulls
    int32_t* identity        # [CHUNK] 0, 1, …: the rows of a call without ``rows``
    const int64_t* data[48]
    const uint8_t* null[48]
    int32_t step[48]
    int64_t arithmetic_nulls # overflows and integer divisions by zero so far
    int64_t function_errors  # exceptions in users' functions so far


cdef Machine* machine_new() except NULL
cdef void machine_free(Machine* vm) noexcept
cdef int code_new(Code* out, object program, object intern) except -1
cdef void code_free(Code* code) noexcept
cdef int run(Machine* vm, const Code* program, const Input* inputs, const int32_t* rows, int n,
             uint8_t* keep, int64_t** outputs, uint8_t** output_nulls, int64_t offset) noexcept nogil
