# cython: language_level=3
"""Operations of the bytecode that take more than a line: calls of user functions, checked arithmetic, aggregates."""
from libc.math cimport isnan, sqrt
from libc.stdint cimport INT64_MIN, int32_t, int64_t, uint8_t
from libc.string cimport memset

from fastcep._core.program.machine cimport CHUNK, MAX_ARGUMENTS, MAX_REGISTERS, Machine, UserFunction
from fastcep._core.program.opcodes cimport (
    ABS_I, ADD_I, AGG_KNOWN, AGG_M2, AGG_MAX_I, AGG_MEAN, AGG_MIN_F, AGG_MIN_I, AGG_SUM_F, AGG_SUM_I, FLOORDIV_I, MUL_I,
    NEG_I, SELECT, STDDEV, SUB_I,
)

from fastcep._core.program.text_entry cimport TEXT_ERROR, TEXT_VALUE, TextEntries, text_entry

cdef extern from "check.h":
    void FC_CHECK(bint) noexcept nogil

cdef extern from *:
    bint __builtin_add_overflow(int64_t, int64_t, int64_t*) noexcept nogil
    bint __builtin_sub_overflow(int64_t, int64_t, int64_t*) noexcept nogil
    bint __builtin_mul_overflow(int64_t, int64_t, int64_t*) noexcept nogil


cdef void call_function(Machine* vm, const int32_t* ip, int64_t address, const uint8_t* keep, int n) noexcept nogil:
    """Call a user function for the rows that are still kept and have no null argument; other rows get null.

    The arguments are the registers from ``dst`` on, so a row is read before it is written. If no argument differs
    between rows, one call computes the result of all rows.
    """
    cdef UserFunction function = <UserFunction>address
    cdef int dst = ip[1], count = ip[3], i, k, status
    cdef int64_t* d = vm.values + dst * CHUNK
    cdef uint8_t* nd = vm.nulls + dst * CHUNK
    cdef int64_t arguments[8]
    cdef bint single = True, missing
    cdef uint8_t has_nulls = 0
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
            has_nulls = 1
        if status == 1:
            for k in range(n if single else 1):  # an exception counts once per row, also if one call served all rows
                vm.function_errors += 1 if not single or keep == NULL else keep[k]
    vm.data[dst] = d
    vm.step[dst] = not single
    vm.null[dst] = NULL if not has_nulls else vm.ones if single else nd


cdef void text_lookup(Machine* vm, int dst, int64_t address, const int64_t* a, int64_t sa, const uint8_t* na,
                      const uint8_t* keep, int n) noexcept nogil:
    """Look up a text function for the rows that are still kept and not null; other rows get null.

    ``address`` is that of the function's table (text_entry.pxd), ``a`` the codes of its argument.
    """
    cdef const TextEntries* table = <const TextEntries*><size_t>address
    cdef const int64_t* entry
    cdef int64_t* d = vm.values + dst * CHUNK
    cdef uint8_t* nd = vm.nulls + dst * CHUNK
    cdef uint8_t has_nulls = 0
    cdef int64_t code
    cdef int i, k
    cdef bint wanted
    for i in range(n if sa else 1):
        code = a[i]  # read first: the result may go to the same register
        wanted = (na == NULL or not na[i]) and (not sa or keep == NULL or keep[i])
        d[i] = 0
        nd[i] = 1
        if wanted:
            entry = text_entry(table, code)
            if entry[0] == TEXT_VALUE:
                d[i] = entry[1]
                nd[i] = 0
            elif entry[0] == TEXT_ERROR:
                for k in range(1 if sa else n):  # once per row, also if one look-up served all rows
                    vm.function_errors += 1 if sa or keep == NULL else keep[k]
        has_nulls |= nd[i]
    vm.data[dst] = d
    vm.step[dst] = sa
    vm.null[dst] = NULL if not has_nulls else nd if sa else vm.ones


cdef const uint8_t* checked_arithmetic(
        Machine* vm, int op, int64_t* d, uint8_t* nd, const uint8_t* nulls, const int64_t* a, int64_t sa, const int64_t* b,
        int64_t sb, int n, const uint8_t* keep) noexcept nogil:
    """Integer arithmetic: overflow and division by zero give null, counted for rows in ``keep``.

    Returns the null mask.
    """
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


cdef void ternary(
        Machine* vm, int op, int64_t* d, uint8_t* nd, const int64_t* a, int64_t sa, const uint8_t* na, const int64_t* b,
        int64_t sb, const uint8_t* nb, const int64_t* c, int64_t sc, const uint8_t* nc, const int32_t* ip, int n,
        const uint8_t* keep) noexcept nogil:
    """``select`` and the running aggregates over (old, number of known values, value).

    Mean and m2 as in Welford's method.
    """
    cdef int i
    cdef bint xa, xb, xc
    cdef int64_t va, vb, vc, n_known
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
        if op == STDDEV:                         # (m2, n_known)
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
            n_known = vc
            vc = vm.data[ip[5]][i * vm.step[ip[5]]]
            xc = vm.null[ip[5]] != NULL and vm.null[ip[5]][i] != 0
        else:
            n_known = vb
        d[i] = va
        nd[i] = xa
        if xc:
            continue
        number = (<double*>&vc)[0]
        if op == AGG_MEAN:
            mean = 0.0 if n_known == 0 else (<double*>&va)[0]
            (<double*>d)[i] = mean + (number - mean) / <double>(n_known + 1)
            nd[i] = 0
        elif op == AGG_M2:
            mean = 0.0 if n_known == 0 else (<double*>&vb)[0]
            fd = number - mean
            fa = 0.0 if n_known == 0 else (<double*>&va)[0]
            (<double*>d)[i] = fa + fd * (number - (mean + fd / <double>(n_known + 1)))
            nd[i] = 0
        elif n_known == 0:
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
