# The kept events of the factorised store, and their keys. See chunk.pyx.
from libc.stdint cimport int32_t, int64_t

from fastcep._core.memory.row_store cimport Bucket
from fastcep._core.memory.vectors cimport FILL_SLACK, Vec, fill_blocks, gather, reserve
from fastcep._core.program.plan_tables cimport Step, Term
from fastcep._core.state.core cimport Core

cdef extern from *:
    """
    static inline int fc_sum_fits(__int128 sum) { return sum == (__int128)(int64_t)sum; }
    static inline int fc_leading(const int64_t *values, int64_t since) {
        unsigned before = (values[0] < since) | (values[1] < since) << 1 | (values[2] < since) << 2
                          | (values[3] < since) << 3;
        return __builtin_ctz(~before);
    }
    """
    ctypedef long long wide "__int128"
    bint fc_sum_fits(wide) noexcept nogil
    int fc_leading(const int64_t*, int64_t) noexcept nogil  # number of leading values, of four, that are less

cdef enum:                  # kinds of terms
    TERM_EVENT
    TERM_ROW
    TERM_OUT
    TERM_CONST

cdef enum:                  # results of read_words
    MISSING
    READ
    BEYOND

cdef enum:
    MOST_WORDS = 8          # key words of a join


cdef inline int64_t first_live(const Core* core) noexcept nogil:
    """Return the position of the oldest live start; there must be one."""
    return core.starts.position[core.starts.first & core.starts.mask]


cdef inline bint has_live_row(const Bucket* bucket, int64_t since) noexcept nogil:
    """Return whether a bucket has a row that is not before the position ``since``."""
    return bucket.size > 0 and bucket.data[bucket.size - 1] >= since


cdef inline const int64_t* kept_column(const Bucket* bucket, int number) noexcept nogil:
    """Return a column of the kept events of a bucket: 0 is the null bits, 1 the first register."""
    return bucket.data + <int64_t>(1 + number) * bucket.capacity


cdef inline bint read_term(const Core* core, const Term* term, const Bucket* bucket, int64_t row, int k,
                           int64_t* value) noexcept nogil:
    """Read an operand of a key word; False if it is null."""
    if term.kind == TERM_EVENT:
        value[0] = term.column.data[k]
        return term.column.null == NULL or not term.column.null[k]
    if term.kind == TERM_ROW:
        value[0] = kept_column(bucket, 1 + term.number)[row]
        return not (kept_column(bucket, 0)[row] >> term.number) & 1
    if term.kind == TERM_OUT:
        value[0] = core.held[term.number]
        return not core.held_null[term.number]
    value[0] = term.value
    return True


cdef inline int read_words(const Core* core, const Step* step, int n_words, const Bucket* bucket, int64_t row, int k,
                           int64_t* key) noexcept nogil:
    """Compute the first ``n_words`` words of the key of a step from a row of its source.

    The operand that a join compares is left out.

    Returns ``MISSING`` if a word is null or does not fit into int64; ``BEYOND`` if the last word is 2^63, as for
    -INT64_MIN; otherwise ``READ``.
    """
    cdef const Term* term = step.terms
    cdef wide sum
    cdef int64_t value = 0
    cdef int w, t
    for w in range(n_words):
        if step.n_terms[w] == 1 and term.sign > 0:
            if not read_term(core, term, bucket, row, k, key + w):
                return MISSING
            term += 1
            continue
        sum = 0
        for t in range(step.n_terms[w]):
            if not read_term(core, term, bucket, row, k, &value):
                return MISSING
            sum = sum + value if term.sign > 0 else sum - value
            term += 1
        if not fc_sum_fits(sum):
            return BEYOND if w == step.n_words - 1 and fc_sum_fits(sum - 1) and sum > 0 else MISSING
        key[w] = <int64_t>sum
    return READ


cdef inline int first_from(const int64_t* positions, int head, int end, int64_t since) noexcept nogil:
    """Return the index of the first of the ascending positions ``head:end`` that is at least ``since``.

    Usually fewer than four are less, and the code does not branch on their number. Reads up to three words after
    ``end``.
    """
    cdef int before
    while head < end:
        before = fc_leading(positions + head, since)
        head += before
        if before < 4:
            break
    return min(head, end)


cdef inline int end_before(const int64_t* positions, int head, int end, int64_t before) noexcept nogil:
    """Return the end of those of the ascending positions ``head:end`` that are less than ``before``."""
    cdef int middle
    while end - head > 8:
        if positions[end - 1] < before:
            return end
        middle = head + (end - head) // 2
        if positions[middle] >= before:
            end = middle
        else:
            head = middle
    while end > head and positions[end - 1] >= before:
        end -= 1
    return end


cdef inline void emit_first(Core* core, const int64_t* first, const int32_t* rows, int n) noexcept nogil:
    """Write ``n`` events of the first variable, each of which completes a match with the events chosen so far."""
    cdef Vec* values = core.out_values
    if values.size + n > values.capacity and reserve(values, values.size + n) < 0:
        core.failed = True
        return
    gather(values.data + values.size, first, 1, rows, n)
    values.size += n
    core.emitted += n


cdef inline void repeat_variable(Core* core, int variable, int64_t position, int64_t n) noexcept nogil:
    """Write the event that ``variable`` binds in each of the last ``n`` matches."""
    cdef Vec* values = core.out_values + variable
    if values.size + n + FILL_SLACK > values.capacity and reserve(values, values.size + n + FILL_SLACK) < 0:
        core.failed = True
        return
    fill_blocks(values.data + values.size, position, n)
    values.size += n
