# cython: language_level=3
"""Evaluate predicates: a bytecode interpreter over chunks of rows (tier 0), and calls of generated kernels (tier 1).

A program (``fastcep.plan.bytecode``) reads *inputs* (columns or broadcast scalars), works on registers of ``CHUNK``
8-byte values with null masks, and ends in ``filter`` (keep the rows that are true) and ``store`` (write an output).
Values are int64, the bits of float64, 0/1 for bool, or codes for strings. Nulls propagate; comparisons follow SQL.

``arithmetic_nulls`` counts an overflow or an integer division by zero of a row only if neither ``keep`` on entry nor an
earlier filter of the program has rejected the row. Therefore the count depends neither on the chunks nor on the tier.

Invariants: ``n <= CHUNK``; inputs of kind ``row`` share one ``bits``; a register is written by one instruction and read
by later ones before its next write; a NULL mask pointer means that the register holds no null.
"""
from libc.math cimport exp, fabs, floor, isnan, log, pow, sqrt
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from fastcep._core.program.machine cimport MAX_REGISTERS
from fastcep._core.program.opcodes cimport (
    ABS_F, ABS_I, ADD_F, AGG_KNOWN, AND, CALL, CONST, DIV_F, END, EQ_F, EQ_I, EXP, FILTER, FLOOR, FLOORDIV_F, GUARD, I2F,
    IN_F, IN_I, KEY_F, KNOWN_F, KNOWN_I, LE_F, LE_I, LOAD, LOG, LT_F, LT_I, MAX_F, MAX_I, MIN_F, MIN_I, MOD_F, MUL_F,
    N_OPCODES, NE_F, NE_I, NEG_F, NEG_I, NOT, OR, POW_F, SELECT, SQRT, STORE, SUB_F, TEXT, ZONE,
)
from fastcep._core.program.operations cimport call_function, checked_arithmetic, floordiv, modulo, ternary, text_lookup
from fastcep._core.program.text_entry cimport TEXT_NULL, TextEntries, text_entry, zone_offset
from fastcep._core.program.value_set cimport set_holds

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil

#: Names of the operations, in the order of the enum in ``opcodes.pxd``; ``fastcep.plan.bytecode`` numbers them by it.
OPCODES = (
    "end", "load", "const", "store", "filter",
    "i2f", "not", "and", "or", "guard", "select", "known_i", "known_f", "key_f",
    "add_i", "sub_i", "mul_i", "floordiv_i", "mod_i", "neg_i", "abs_i", "min_i", "max_i",
    "add_f", "sub_f", "mul_f", "floordiv_f", "mod_f", "neg_f", "abs_f", "min_f", "max_f",
    "div_f", "pow_f", "sqrt", "exp", "log", "floor",
    "eq_i", "ne_i", "lt_i", "le_i", "eq_f", "ne_f", "lt_f", "le_f",
    "agg_known", "agg_sum_i", "agg_sum_f", "agg_min_i", "agg_min_f", "agg_max_i", "agg_max_f",
    "agg_mean", "agg_m2", "stddev", "call", "in_i", "in_f", "text", "zone",
)
assert len(OPCODES) == N_OPCODES


cdef Machine* machine_new() except NULL:
    """Allocate the registers of an evaluator."""
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
    """Free an evaluator; NULL is allowed."""
    if vm != NULL:
        free(vm.values)
        free(vm.nulls)
        free(vm.ones)
        free(vm.zeros)
        free(vm.identity)
        free(vm)


cdef inline void _load(Machine* vm, int dst, const Input* item, const int32_t* rows, int n) noexcept nogil:
    """Point a register at its input; with ``rows``, gather these rows of a column."""
    cdef int64_t* values = vm.values + dst * CHUNK
    cdef uint8_t* nulls = vm.nulls + dst * CHUNK
    cdef int i
    cdef uint8_t has_nulls = 0
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
                has_nulls |= nulls[i]
            if has_nulls:
                vm.null[dst] = nulls
        return
    vm.data[dst] = values
    for i in range(n):
        values[i] = item.data[rows[i]]
    if item.nulls != NULL:
        for i in range(n):
            nulls[i] = item.nulls[rows[i]]
            has_nulls |= nulls[i]
    elif item.bits != NULL:
        for i in range(n):
            nulls[i] = (item.bits[rows[i]] >> item.bit) & 1
            has_nulls |= nulls[i]
    if has_nulls:
        vm.null[dst] = nulls


cdef inline const uint8_t* _merge(const uint8_t* a, const uint8_t* b, uint8_t* out, int n) noexcept nogil:
    """Return the null mask of an operation on two operands."""
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


cdef int run(Machine* vm, const Code* program, const Input* inputs, const int32_t* rows, int n,
             uint8_t* keep, int64_t** outputs, uint8_t** output_nulls, int64_t offset) noexcept nogil:
    """Run ``program`` over ``n`` rows (``rows`` selects them from the columns; NULL: the first ``n``).

    ``keep`` has 1 for each row to consider and 0 for the others; the filters clear the rows that they reject. It may be
    NULL if the program has no filter. Outputs go to ``outputs[j][offset:]``. Returns the number of rows kept; if it is
    0, the program may have ended early.
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
            call_function(vm, ip, program.constants[ip[2]], keep, n)
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
                d[i] = set_holds(b, x)
            if na != NULL and na != vm.ones:
                for i in range(n):
                    nd[i] = na[i]
                na = nd
            vm.data[dst] = d
            vm.step[dst] = sa
            vm.null[dst] = na
            ip += 6
            continue
        if op == TEXT:
            text_lookup(vm, dst, program.constants[ip[3]], a, sa, na, keep, n)
            ip += 6
            continue
        if op == ZONE:
            b = <const int64_t*><size_t>program.constants[ip[3]]
            d = vm.values + dst * CHUNK
            for i in range(n if sa else 1):
                d[i] = zone_offset(b, a[i])
            vm.null[dst] = _merge(na, NULL, vm.nulls + dst * CHUNK, n) if na != vm.ones else na
            vm.data[dst] = d
            vm.step[dst] = sa
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
            # A float as key word: -0.0 equals 0.0; NaN becomes null, because it equals nothing and null joins nothing.
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
            ternary(vm, op, d, nd, a, sa, na, b, sb, nb, c, sc, nc, ip, n, keep)
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
                fd[i] = floordiv(fa[i * sa], fb[i * sb])
        elif op == MOD_F:
            for i in range(n):
                fd[i] = modulo(fa[i * sa], fb[i * sb])
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
            nulls = checked_arithmetic(vm, op, d, nd, nulls, a, sa, b, sb, n, keep)
        vm.data[dst] = d
        vm.null[dst] = nulls
        ip += 6


cdef double _exp(double x) noexcept nogil:
    return exp(x)


cdef double _log(double x) noexcept nogil:
    return log(x)


cdef double _pow(double x, double y) noexcept nogil:
    return pow(x, y)


cdef double _floordiv_f(double x, double y) noexcept nogil:
    return floordiv(x, y)


cdef double _mod_f(double x, double y) noexcept nogil:
    return modulo(x, y)


cdef int64_t _member(const int64_t* constants, int64_t number, int64_t word) noexcept nogil:
    return set_holds(constants + constants[number], word)


cdef const int64_t* _text(const int64_t* constants, int64_t number, int64_t code, int64_t is_null) noexcept nogil:
    if is_null:
        return _NO_TEXT
    return text_entry(<const TextEntries*><size_t>constants[number], code)


cdef int64_t _zone(const int64_t* constants, int64_t number, int64_t time) noexcept nogil:
    return zone_offset(<const int64_t*><size_t>constants[number], time)


cdef int64_t _NO_TEXT[2]
_NO_TEXT[0], _NO_TEXT[1] = TEXT_NULL, 0

#: Addresses of functions that generated kernels call by name, so that both tiers use the same code and the same libm.
SYMBOLS = {
    "fastcep_exp": <size_t><void*>_exp,
    "fastcep_log": <size_t><void*>_log,
    "fastcep_pow": <size_t><void*>_pow,
    "fastcep_floordiv": <size_t><void*>_floordiv_f,
    "fastcep_mod": <size_t><void*>_mod_f,
    "fastcep_member": <size_t><void*>_member,
    "fastcep_text": <size_t><void*>_text,
    "fastcep_zone": <size_t><void*>_zone,
}
