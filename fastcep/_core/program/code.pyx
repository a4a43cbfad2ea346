# cython: language_level=3
"""Copy the programs of a plan (``fastcep.plan.bytecode.Program``) into C arrays."""
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t, uint64_t
from libc.stdlib cimport calloc, free

from fastcep._core.program.machine cimport Code, Comparison
from fastcep._core.program.opcodes cimport CONST, END, EQ_F, EQ_I, FILTER, LE_F, LOAD, LT_I
from fastcep._core.program.value_set cimport set_slot

cdef enum:
    WIDTH = 6                # words of an instruction


cdef bint _is_set(object constant):
    return hasattr(constant, "values")


cdef Py_ssize_t _slots(Py_ssize_t count):
    """Return the size of a hash table for ``count`` values: a power of two, at most half full."""
    cdef Py_ssize_t size = 16
    while size < 2 * count:
        size *= 2
    return size


cdef Py_ssize_t _fill(int64_t* table, tuple values, object intern) except -1:
    """Write the hash table of a value set: shift, mask, the word that marks an empty slot, slots.

    Returns its length.
    """
    cdef Py_ssize_t size = _slots(len(values)), i
    cdef int64_t word, shift = 64
    cdef uint64_t at
    cdef double real
    words = set()
    for value in values:
        if isinstance(value, float):
            real = value
            words.add((<int64_t*>&real)[0])
        else:
            words.add(value if isinstance(value, int) else intern(value))
    i = size
    while i > 1:
        i //= 2
        shift -= 1
    word = INT64_MIN
    while word in words:
        word += 1
    table[0], table[1], table[2] = shift, size - 1, word
    for i in range(size):
        table[3 + i] = word
    for value in words:
        word = value
        at = set_slot(table, word)
        while table[3 + at] != table[2]:
            at = (at + 1) & <uint64_t>table[1]
        table[3 + at] = word
    return 3 + size


cdef int code_new(Code* out, object program, object intern) except -1:
    """Copy a ``Program`` into C arrays.

    ``intern`` returns the word of a constant that is not a number (see ``Program``). The hash tables of value sets
    follow the constants; the constant of a set is the offset of its table.
    """
    cdef double real
    cdef Py_ssize_t i, end = len(program.constants)
    cdef Py_ssize_t words = end + sum([3 + _slots(len(value.values)) for value in program.constants if _is_set(value)])
    kinds = {"row": 0, "event": 1, "out": 2, "elem": 3}
    out.code = <int32_t*>calloc(max(1, len(program.code)), sizeof(int32_t))
    out.constants = <int64_t*>calloc(max(1, words), sizeof(int64_t))
    out.constant_nulls = <uint8_t*>calloc(max(1, len(program.constants)), 1)
    out.n_inputs = len(program.inputs)
    out.input_kind = <int32_t*>calloc(max(1, len(program.inputs)), sizeof(int32_t))
    out.input_number = <int32_t*>calloc(max(1, len(program.inputs)), sizeof(int32_t))
    for i, value in enumerate(program.code):
        out.code[i] = value
    for i, value in enumerate(program.constants):
        if value is None:
            out.constant_nulls[i] = 1
        elif isinstance(value, float):
            real = value
            out.constants[i] = (<int64_t*>&real)[0]
        elif isinstance(value, int):
            out.constants[i] = value
        elif _is_set(value):
            out.constants[i] = end
            end += _fill(out.constants + end, value.values, intern)
        else:
            out.constants[i] = intern(value)
    for i, (kind, number) in enumerate(program.inputs):
        out.input_kind[i] = kinds[kind]
        out.input_number[i] = number
    return 0


cdef bint _comparison(const Code* code, const int32_t* ip, Comparison* out) noexcept:
    """Read the comparison of an input with a constant that four instructions make a condition; False if they do not."""
    cdef const int32_t* left = ip
    cdef const int32_t* right = ip + WIDTH
    cdef const int32_t* compare = ip + 2 * WIDTH
    cdef const int32_t* test = ip + 3 * WIDTH
    cdef int kind
    cdef bint swapped
    if not EQ_I <= compare[0] <= LE_F or test[0] != FILTER:
        return False
    if compare[2] != left[1] or compare[3] != right[1] or test[2] != compare[1]:
        return False
    swapped = left[0] == CONST
    if swapped:
        left, right = right, left
    if left[0] != LOAD or right[0] != CONST or code.constant_nulls[right[2]]:
        return False
    kind = (compare[0] - EQ_I) % (EQ_F - EQ_I)
    out.input = left[2]
    out.constant = code.constants[right[2]]
    out.operation = kind + 2 * (swapped and kind >= LT_I - EQ_I) + 6 * (compare[0] >= EQ_F)  # 6: those of int64
    return True


cdef int find_comparisons(Code* code) except -1:
    """Find the conditions of a program that compare an input with a constant, up to the first other condition."""
    cdef Py_ssize_t size = 0
    while code.code[size] != END:
        size += WIDTH
    code.comparisons = <Comparison*>calloc(size // (4 * WIDTH) + 1, sizeof(Comparison))
    if code.comparisons == NULL:
        raise MemoryError("no memory for a program")
    while ((code.n_comparisons + 1) * 4 * WIDTH <= size
           and _comparison(code, code.code + code.n_comparisons * 4 * WIDTH, code.comparisons + code.n_comparisons)):
        code.n_comparisons += 1
    code.only_compares = code.n_comparisons * 4 * WIDTH == size
    return 0


cdef void code_free(Code* code) noexcept:
    """Free the arrays of a program."""
    free(code.code)
    free(code.constants)
    free(code.constant_nulls)
    free(code.input_kind)
    free(code.input_number)
    free(code.comparisons)
