# cython: language_level=3
"""The predicates: a bytecode evaluator over chunks of rows (tier 0), and the call of a generated kernel (tier 1).

A program (``fastcep.plan.bytecode``) reads *inputs* (columns or broadcast scalars), works on registers of ``CHUNK``
8-byte values with null masks, and ends in ``filter`` (keep the rows that are true) and ``store`` (write an output).
Values: int64, float64 by bits, bool as 0/1, strings as codes. Null propagates; comparisons are SQL's.

``arithmetic_nulls`` counts an overflow or an integer division by zero of a row only if no earlier filter of the program,
nor ``keep`` on entry, has rejected the row. So the count depends neither on the chunks nor on the tier.

Invariants: ``n <= CHUNK``; inputs of kind ``row`` share one ``bits``; a register is written by one instruction and read by later ones before its next write; a mask
pointer of NULL means that the register holds no null.
"""
from libc.math cimport copysign, exp, fabs, floor, fmod, isnan, log, pow, sqrt
from libc.stdint cimport INT64_MIN, uint64_t
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil

cdef extern from *:
    bint __builtin_add_overflow(int64_t, int64_t, int64_t*) noexcept nogil
    bint __builtin_sub_overflow(int64_t, int64_t, int64_t*) noexcept nogil
    bint __builtin_mul_overflow(int64_t, int64_t, int64_t*) noexcept nogil


cdef enum:
    END, LOAD, CONST, STORE, FILTER
    I2F, NOT, AND, OR, GUARD, SELECT, KNOWN_I, KNOWN_F, KEY_F
    ADD_I, SUB_I, MUL_I, FLOORDIV_I, MOD_I, NEG_I, ABS_I, MIN_I, MAX_I
    ADD_F, SUB_F, MUL_F, FLOORDIV_F, MOD_F, NEG_F, ABS_F, MIN_F, MAX_F
    DIV_F, POW_F, SQRT, EXP, LOG, FLOOR
    EQ_I, NE_I, LT_I, LE_I, EQ_F, NE_F, LT_F, LE_F
    AGG_KNOWN, AGG_SUM_I, AGG_SUM_F, AGG_MIN_I, AGG_MIN_F, AGG_MAX_I, AGG_MAX_F
    AGG_MEAN, AGG_M2, STDDEV, CALL, IN_I, IN_F
    N_OPCODES

#: The operations in the order of this file's enum; the compiler of ``fastcep.plan`` numbers them by it.
OPCODES = (
    "end", "load", "const", "store", "filter",
    "i2f", "not", "and", "or", "guard", "select", "known_i", "known_f", "key_f",
    "add_i", "sub_i", "mul_i", "floordiv_i", "mod_i", "neg_i", "abs_i", "min_i", "max_i",
    "add_f", "sub_f", "mul_f", "floordiv_f", "mod_f", "neg_f", "abs_f", "min_f", "max_f",
    "div_f", "pow_f", "sqrt", "exp", "log", "floor",
    "eq_i", "ne_i", "lt_i", "le_i", "eq_f", "ne_f", "lt_f", "le_f",
    "agg_known", "agg_sum_i", "agg_sum_f", "agg_min_i", "agg_min_f", "agg_max_i", "agg_max_f",
    "agg_mean", "agg_m2", "stddev", "call", "in_i", "in_f",
)
assert len(OPCODES) == N_OPCODES


cdef Machine* machine_new() except NULL:
    cdef Machine* vm = <Machine*>calloc(1, sizeof(Machine))
    cdef int i
    if vm == NULL:
        raise MemoryError("no memory for the predicate evaluator")
    vm.values = <int64_t*>calloc(MAX_REGISTERS * CHUNK, sizeof(int64_t))
    vm.nulls = <uint8_t*>calloc(MAX_REGISTERS * CHUNK, 1)
    vm.ones = <uint8_t*>malloc(CHUNK)
    vm.zeros = <uint8_t*>calloc(CHUNK, 1)
    vm.identity = <int32_t*>malloc(CHUNK * sizeof(int32_t))
    if vm.values == NULL or vm.nulls == NULL or vm.ones == NULL or vm.zeros == NULL or vm.identity == NULL:
        machine_free(vm)
        raise MemoryError("no memory for the predicate evaluator")
    memset(vm.ones, 1, CHUNK)
    for i in range(CHUNK):
        vm.identity[i] = i
    return vm


cdef void machine_free(Machine* vm) noexcept:
    if vm != NULL:
        free(vm.values)
        free(vm.nulls)
        free(vm.ones)
        free(vm.zeros)
        free(vm.identity)
        free(vm)


cdef bint _is_set(object constant):
    return hasattr(constant, "values")


cdef Py_ssize_t _slots(Py_ssize_t count):
    """Size of the hash table of so many values: a power of two, at most half full."""
    cdef Py_ssize_t size = 16
    while size < 2 * count:
        size *= 2
    return size


cdef Py_ssize_t _fill(int64_t* table, tuple values, object intern) except -1:
    """Make the hash table of a value set: shift, mask, the word that marks an empty slot, slots; returns its length."""
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
        at = _slot(table, word)
        while table[3 + at] != table[2]:
            at = (at + 1) & <uint64_t>table[1]
        table[3 + at] = word
    return 3 + size


cdef inline uint64_t _slot(const int64_t* table, int64_t word) noexcept nogil:
    return (<uint64_t>word * <uint64_t>0x9E3779B97F4A7C15) >> table[0]


cdef inline bint _holds(const int64_t* table, int64_t word) noexcept nogil:
    """Whether the hash table of a value set holds a word."""
    cdef uint64_t at = _slot(table, word)
    while table[3 + at] != table[2]:
        if table[3 + at] == word:
            return True
        at = (at + 1) & <uint64_t>table[1]
    return False


cdef int code_new(Code* out, object program, object intern) except -1:
    """Copy a ``Program`` into C arrays; ``intern`` gives the word of a constant that is no number (see ``Program``).

    The hash tables of value sets stand behind the constants; the constant of a set is where its table begins.
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


cdef void code_free(Code* code) noexcept:
    free(code.code)
    free(code.constants)
    free(code.constant_nulls)
    free(code.input_kind)
    free(code.input_number)


cdef inline void _load(Machine* vm, int dst, const Input* item, const int32_t* rows, int n) noexcept nogil:
    """Point a register at its input, gathering ``rows`` of a column when given."""
    cdef int64_t* values = vm.values + dst * CHUNK
    cdef uint8_t* nulls = vm.nulls + dst * CHUNK
    cdef int i
    cdef uint8_t found = 0
    vm.null[dst] = NULL
    if item.stride == 0:
        vm.data[dst] = item.data
        vm.step[dst] = 0
        if item.nulls != NULL and item.nulls[0]:
            vm.null[dst] = vm.ones
        elif item.bits != NULL and (item.bits[0] >> item.bit) & 1:
            vm.null[dst] = vm.ones
        return
    vm.step[dst] = 1
    if rows == NULL:
        vm.data[dst] = item.data
        if item.nulls != NULL:
            vm.null[dst] = item.nulls
        elif item.bits != NULL:
            for i in range(n):
                nulls[i] = (item.bits[i] >> item.bit) & 1
                found |= nulls[i]
            if found:
                vm.null[dst] = nulls
        return
    vm.data[dst] = values
    for i in range(n):
        values[i] = item.data[rows[i]]
    if item.nulls != NULL:
        for i in range(n):
            nulls[i] = item.nulls[rows[i]]
            found |= nulls[i]
    elif item.bits != NULL:
        for i in range(n):
            nulls[i] = (item.bits[rows[i]] >> item.bit) & 1
            found |= nulls[i]
    if found:
        vm.null[dst] = nulls


cdef inline const uint8_t* _merge(const uint8_t* a, const uint8_t* b, uint8_t* out, int n) noexcept nogil:
    """Null mask of an operation of two operands."""
    cdef int i
    if a == NULL and b == NULL:
        return NULL
    if a == NULL:
        for i in range(n):
            out[i] = b[i]
    elif b == NULL:
        for i in range(n):
            out[i] = a[i]
    else:
        for i in range(n):
            out[i] = a[i] | b[i]
    return out


cdef inline double _floordiv(double a, double b) noexcept nogil:
    """Python's floor division of floats; IEEE division by zero."""
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


cdef inline double _mod(double a, double b) noexcept nogil:
    """Python's modulo of floats; nan for divisor zero."""
    cdef double mod
    mod = fmod(a, b)
    if mod == 0.0:
        return copysign(0.0, b) if b != 0.0 else mod
    return mod + b if (b < 0.0) != (mod < 0.0) else mod


cdef int run(Machine* vm, const Code* program, const Input* inputs, const int32_t* rows, int n,
             uint8_t* keep, int64_t** outputs, uint8_t** output_nulls, int64_t offset) noexcept nogil:
    """Run ``program`` over ``n`` rows (``rows`` selects them from the columns, NULL = the first ``n``).

    ``keep`` (may be NULL without filters) says which rows count, by 0 and 1, and receives those that the filters keep;
    outputs go to ``outputs[j][offset:]``. Returns how many rows are kept; 0 may end the program early.
    """
    cdef int64_t kept = 0
    cdef void* error = NULL
    FC_CHECK(n <= CHUNK)
    if program.kernel == NULL:
        return _interpret(vm, program, inputs, rows, n, keep, outputs, output_nulls, offset)
    if rows == NULL:
        rows = vm.identity
    program.kernel(&kept, &error, inputs, program.constants, vm.zeros, rows, n, keep, outputs, output_nulls, offset,
                   &vm.arithmetic_nulls)
    return <int>kept


cdef int _interpret(Machine* vm, const Code* program, const Input* inputs, const int32_t* rows, int n,
                    uint8_t* keep, int64_t** outputs, uint8_t** output_nulls, int64_t offset) noexcept nogil:
    cdef const int32_t* ip = program.code
    cdef int op, dst, i, kept = n
    cdef int64_t* d
    cdef double* fd
    cdef uint8_t* nd
    cdef const int64_t* a
    cdef const int64_t* b
    cdef const int64_t* c
    cdef const double* fa
    cdef const double* fb
    cdef const uint8_t* na
    cdef const uint8_t* nb
    cdef const uint8_t* nc
    cdef const uint8_t* nulls
    cdef int64_t sa, sb, sc, x, y
    cdef double fx, fy
    cdef uint8_t ta, tb
    while True:
        op = ip[0]
        dst = ip[1]
        if op == END:
            return kept
        if op == LOAD:
            _load(vm, dst, inputs + ip[2], rows, n)
            ip += 6
            continue
        if op == CONST:
            vm.data[dst] = program.constants + ip[2]
            vm.step[dst] = 0
            vm.null[dst] = vm.ones if program.constant_nulls[ip[2]] else NULL
            ip += 6
            continue
        if op == CALL:
            _call(vm, ip, program.constants[ip[2]], keep, n)
            ip += 6
            continue
        FC_CHECK(0 <= ip[2] < MAX_REGISTERS and 0 <= dst)
        a = vm.data[ip[2]]
        sa = vm.step[ip[2]]
        na = vm.null[ip[2]]
        if op == STORE:
            d = outputs[dst] + offset
            nd = output_nulls[dst] + offset
            if sa == 0:
                x = a[0]
                for i in range(n):
                    d[i] = x
            else:
                for i in range(n):
                    d[i] = a[i]
            if na == NULL:
                memset(nd, 0, n)
            else:
                for i in range(n):
                    nd[i] = na[i]
            ip += 6
            continue
        if op == FILTER:
            kept = 0
            if na == NULL:
                for i in range(n):
                    keep[i] &= a[i * sa] != 0
                    kept += keep[i]
            else:
                for i in range(n):
                    keep[i] &= a[i * sa] != 0 and not na[i]
                    kept += keep[i]
            if kept == 0:
                return 0
            ip += 6
            continue
        if op == IN_I or op == IN_F:
            b = program.constants + program.constants[ip[3]]
            d = vm.values + dst * CHUNK
            nd = vm.nulls + dst * CHUNK
            for i in range(n if sa else 1):
                x = a[i]
                if op == IN_F:  # both zeros are equal, and NaN is in no set
                    fx = (<const double*>a)[i] + 0.0
                    x = (<int64_t*>&fx)[0]
                d[i] = _holds(b, x)
            if na != NULL and na != vm.ones:
                for i in range(n):
                    nd[i] = na[i]
                na = nd
            vm.data[dst] = d
            vm.step[dst] = sa
            vm.null[dst] = na
            ip += 6
            continue
        b = vm.data[ip[3]]
        sb = vm.step[ip[3]]
        nb = vm.null[ip[3]]
        fa = <const double*>a
        fb = <const double*>b
        d = vm.values + dst * CHUNK
        fd = <double*>d
        nd = vm.nulls + dst * CHUNK
        vm.step[dst] = 1
        if op == AND or op == OR:
            # SQL's three values: the determining operand (false for AND, true for OR) beats null.
            for i in range(n):
                x = a[i * sa] != 0
                y = b[i * sb] != 0
                ta = na != NULL and na[i] != 0
                tb = nb != NULL and nb[i] != 0
                if op == AND:
                    if (not ta and not x) or (not tb and not y):
                        d[i] = 0
                        nd[i] = 0
                    else:
                        nd[i] = ta | tb
                        d[i] = not nd[i]
                else:
                    if (not ta and x) or (not tb and y):
                        d[i] = 1
                        nd[i] = 0
                    else:
                        nd[i] = ta | tb
                        d[i] = 0
            vm.data[dst] = d
            vm.null[dst] = nd if (na != NULL or nb != NULL) else NULL
            ip += 6
            continue
        if op == GUARD:
            # The condition b counts only where a is true.
            for i in range(n):
                if a[i * sa] != 0 and (na == NULL or not na[i]):
                    x = b[i * sb] != 0
                    nd[i] = nb != NULL and nb[i] != 0
                    d[i] = x
                else:
                    d[i] = 1
                    nd[i] = 0
            vm.data[dst] = d
            vm.null[dst] = nd
            ip += 6
            continue
        if op == KNOWN_I or op == KNOWN_F:
            for i in range(n):
                x = na == NULL or not na[i]
                if op == KNOWN_F and isnan(fa[i * sa]):
                    x = 0
                d[i] = x
            vm.data[dst] = d
            vm.null[dst] = NULL
            ip += 6
            continue
        if op == KEY_F:
            # A float as key word: both zeros are equal, NaN equals nothing (null joins nothing).
            for i in range(n):
                fx = fa[i * sa]
                nd[i] = (na != NULL and na[i] != 0) or isnan(fx)
                fd[i] = fx + 0.0
            vm.data[dst] = d
            vm.null[dst] = nd
            ip += 6
            continue
        if op == SELECT or op >= AGG_KNOWN:
            c = vm.data[ip[4]]
            sc = vm.step[ip[4]]
            nc = vm.null[ip[4]]
            _three(vm, op, d, nd, a, sa, na, b, sb, nb, c, sc, nc, ip, n, keep)
            vm.data[dst] = d
            vm.null[dst] = nd
            ip += 6
            continue
        nulls = na
        if op == NOT or op == I2F or NEG_I <= op <= ABS_I or NEG_F <= op <= ABS_F or SQRT <= op <= FLOOR:
            if na != NULL:
                for i in range(n):
                    nd[i] = na[i]
                nulls = nd
        else:
            nulls = _merge(na, nb, nd, n)
        if op == I2F:
            for i in range(n):
                fd[i] = <double>a[i * sa]
        elif op == NOT:
            for i in range(n):
                d[i] = a[i * sa] == 0
        elif op == EQ_I:
            for i in range(n):
                d[i] = a[i * sa] == b[i * sb]
        elif op == NE_I:
            for i in range(n):
                d[i] = a[i * sa] != b[i * sb]
        elif op == LT_I:
            for i in range(n):
                d[i] = a[i * sa] < b[i * sb]
        elif op == LE_I:
            for i in range(n):
                d[i] = a[i * sa] <= b[i * sb]
        elif op == EQ_F:
            for i in range(n):
                d[i] = fa[i * sa] == fb[i * sb]
        elif op == NE_F:
            for i in range(n):
                d[i] = fa[i * sa] != fb[i * sb]
        elif op == LT_F:
            for i in range(n):
                d[i] = fa[i * sa] < fb[i * sb]
        elif op == LE_F:
            for i in range(n):
                d[i] = fa[i * sa] <= fb[i * sb]
        elif op == ADD_F:
            for i in range(n):
                fd[i] = fa[i * sa] + fb[i * sb]
        elif op == SUB_F:
            for i in range(n):
                fd[i] = fa[i * sa] - fb[i * sb]
        elif op == MUL_F:
            for i in range(n):
                fd[i] = fa[i * sa] * fb[i * sb]
        elif op == DIV_F:
            for i in range(n):
                fd[i] = fa[i * sa] / fb[i * sb]
        elif op == FLOORDIV_F:
            for i in range(n):
                fd[i] = _floordiv(fa[i * sa], fb[i * sb])
        elif op == MOD_F:
            for i in range(n):
                fd[i] = _mod(fa[i * sa], fb[i * sb])
        elif op == POW_F:
            for i in range(n):
                fd[i] = pow(fa[i * sa], fb[i * sb])
        elif op == MIN_F:
            for i in range(n):
                fx = fa[i * sa]
                fy = fb[i * sb]
                fd[i] = fx + fy if isnan(fx) or isnan(fy) else (fy if fy < fx else fx)
        elif op == MAX_F:
            for i in range(n):
                fx = fa[i * sa]
                fy = fb[i * sb]
                fd[i] = fx + fy if isnan(fx) or isnan(fy) else (fy if fy > fx else fx)
        elif op == NEG_F:
            for i in range(n):
                fd[i] = -fa[i * sa]
        elif op == ABS_F:
            for i in range(n):
                fd[i] = fabs(fa[i * sa])
        elif op == SQRT:
            for i in range(n):
                fd[i] = sqrt(fa[i * sa])
        elif op == EXP:
            for i in range(n):
                fd[i] = exp(fa[i * sa])
        elif op == LOG:
            for i in range(n):
                fd[i] = log(fa[i * sa])
        elif op == FLOOR:
            for i in range(n):
                fd[i] = floor(fa[i * sa])
        elif op == MIN_I:
            for i in range(n):
                d[i] = min(a[i * sa], b[i * sb])
        elif op == MAX_I:
            for i in range(n):
                d[i] = max(a[i * sa], b[i * sb])
        else:
            nulls = _checked(vm, op, d, nd, nulls, a, sa, b, sb, n, keep)
        vm.data[dst] = d
        vm.null[dst] = nulls
        ip += 6


cdef void _call(Machine* vm, const int32_t* ip, int64_t address, const uint8_t* keep, int n) noexcept nogil:
    """Call a user's function for the rows that are still kept and have no null argument; the others are null.

    The arguments are the registers from ``dst`` on, so a row is read before it is written. If none differs between
    rows, one call serves them all.
    """
    cdef UserFunction function = <UserFunction>address
    cdef int dst = ip[1], count = ip[3], i, k, status
    cdef int64_t* d = vm.values + dst * CHUNK
    cdef uint8_t* nd = vm.nulls + dst * CHUNK
    cdef int64_t arguments[8]
    cdef bint single = True, missing
    cdef uint8_t found = 0
    FC_CHECK(0 < count <= MAX_ARGUMENTS and 0 <= dst and dst + count <= MAX_REGISTERS)
    for k in range(count):
        single = single and vm.step[dst + k] == 0
    for i in range(1 if single else n):
        missing = not single and keep != NULL and not keep[i]
        for k in range(count):
            missing = missing or (vm.null[dst + k] != NULL and vm.null[dst + k][i] != 0)
            arguments[k] = vm.data[dst + k][i * vm.step[dst + k]]
        status = 2 if missing else function(arguments, d + i)
        nd[i] = status != 0
        if status != 0:
            d[i] = 0
            found = 1
        if status == 1:
            for k in range(n if single else 1):  # an exception counts for every row, however it was called
                vm.function_errors += 1 if not single or keep == NULL else keep[k]
    vm.data[dst] = d
    vm.step[dst] = not single
    vm.null[dst] = NULL if not found else vm.ones if single else nd


cdef const uint8_t* _checked(Machine* vm, int op, int64_t* d, uint8_t* nd, const uint8_t* nulls, const int64_t* a,
                             int64_t sa, const int64_t* b, int64_t sb, int n, const uint8_t* keep) noexcept nogil:
    """Integer arithmetic whose overflow or zero divisor is null, counted where ``keep``; returns the null mask."""
    cdef int i
    cdef int64_t x, y, q
    cdef bint bad
    for i in range(n):
        if nulls != NULL and nulls[i]:
            d[i] = 0
            continue
        x = a[i * sa]
        y = b[i * sb]
        bad = False
        if op == ADD_I:
            bad = __builtin_add_overflow(x, y, d + i)
        elif op == SUB_I:
            bad = __builtin_sub_overflow(x, y, d + i)
        elif op == MUL_I:
            bad = __builtin_mul_overflow(x, y, d + i)
        elif op == NEG_I:
            bad = x == INT64_MIN
            if not bad:
                d[i] = -x
        elif op == ABS_I:
            bad = x == INT64_MIN
            if not bad:
                d[i] = -x if x < 0 else x
        elif y == 0 or (op == FLOORDIV_I and y == -1 and x == INT64_MIN):
            bad = True
        elif y == -1:
            d[i] = -x if op == FLOORDIV_I else 0
        else:
            q = x / y
            if x % y != 0 and (x < 0) != (y < 0):
                q -= 1
            d[i] = q if op == FLOORDIV_I else x - q * y
        if bad:
            if nulls == NULL:
                memset(nd, 0, n)
                nulls = nd
            nd[i] = 1
            d[i] = 0
            vm.arithmetic_nulls += keep == NULL or keep[i] != 0
    return nulls


cdef void _three(Machine* vm, int op, int64_t* d, uint8_t* nd, const int64_t* a, int64_t sa, const uint8_t* na,
                 const int64_t* b, int64_t sb, const uint8_t* nb, const int64_t* c, int64_t sc, const uint8_t* nc,
                 const int32_t* ip, int n, const uint8_t* keep) noexcept nogil:
    """``select`` and the running aggregates: (old, known so far, value), Welford's for mean and m2."""
    cdef int i
    cdef bint xa, xb, xc
    cdef int64_t va, vb, vc, known
    cdef double fa, fc, fd, mean, number
    for i in range(n):
        va = a[i * sa]
        vb = b[i * sb]
        xa = na != NULL and na[i] != 0
        xb = nb != NULL and nb[i] != 0
        if op == AGG_KNOWN:                      # (known, value)
            d[i] = va + (not xb)
            nd[i] = 0
            continue
        if op == STDDEV:                         # (m2, known)
            nd[i] = xa or vb < 2
            (<double*>d)[i] = 0.0 if nd[i] else sqrt((<const double*>a)[i * sa] / <double>(vb - 1))
            continue
        vc = c[i * sc]
        xc = nc != NULL and nc[i] != 0
        if op == SELECT:
            if va != 0 and not xa:
                d[i] = vb
                nd[i] = xb
            else:
                d[i] = vc
                nd[i] = xc
            continue
        if op == AGG_M2:                         # (m2, mean, known, value)
            known = vc
            vc = vm.data[ip[5]][i * vm.step[ip[5]]]
            xc = vm.null[ip[5]] != NULL and vm.null[ip[5]][i] != 0
        else:
            known = vb
        d[i] = va
        nd[i] = xa
        if xc:
            continue
        number = (<double*>&vc)[0]
        if op == AGG_MEAN:
            mean = 0.0 if known == 0 else (<double*>&va)[0]
            (<double*>d)[i] = mean + (number - mean) / <double>(known + 1)
            nd[i] = 0
        elif op == AGG_M2:
            mean = 0.0 if known == 0 else (<double*>&vb)[0]
            fd = number - mean
            fa = 0.0 if known == 0 else (<double*>&va)[0]
            (<double*>d)[i] = fa + fd * (number - (mean + fd / <double>(known + 1)))
            nd[i] = 0
        elif known == 0:
            d[i] = vc
            nd[i] = 0
        elif op == AGG_SUM_I:
            if not xa and __builtin_add_overflow(va, vc, d + i):
                d[i] = 0
                nd[i] = 1
                vm.arithmetic_nulls += keep == NULL or keep[i] != 0
        elif op == AGG_SUM_F:
            (<double*>d)[i] = (<double*>&va)[0] + number
        elif op == AGG_MIN_I:
            d[i] = min(va, vc)
        elif op == AGG_MAX_I:
            d[i] = max(va, vc)
        else:
            fa = (<double*>&va)[0]
            if isnan(fa) or isnan(number):
                fc = fa + number
            elif op == AGG_MIN_F:
                fc = number if number < fa else fa
            else:
                fc = number if number > fa else fa
            (<double*>d)[i] = fc


cdef double _exp(double x) noexcept nogil:
    return exp(x)


cdef double _log(double x) noexcept nogil:
    return log(x)


cdef double _pow(double x, double y) noexcept nogil:
    return pow(x, y)


cdef double _floordiv_f(double x, double y) noexcept nogil:
    return _floordiv(x, y)


cdef double _mod_f(double x, double y) noexcept nogil:
    return _mod(x, y)


cdef int64_t _member(const int64_t* constants, int64_t number, int64_t word) noexcept nogil:
    return _holds(constants + constants[number], word)


#: Functions that generated kernels call by these names, so that both tiers use the same code and the same libm.
SYMBOLS = {
    "fastcep_exp": <size_t><void*>_exp,
    "fastcep_log": <size_t><void*>_log,
    "fastcep_pow": <size_t><void*>_pow,
    "fastcep_floordiv": <size_t><void*>_floordiv_f,
    "fastcep_mod": <size_t><void*>_mod_f,
    "fastcep_member": <size_t><void*>_member,
}
