/* Join of the factorised store: find the rows that have a given value and are before a given position. With AVX2 four rows are
 * compared at once; the checked build compares one row at a time. */
#ifndef FASTCEP_JOIN_H
#define FASTCEP_JOIN_H
#include <stdint.h>
#define FC_INLINE static inline __attribute__((always_inline))
#define FC_ROWS const int64_t *pos, const int64_t *value, int n
#define FC_TARGETS const int64_t *targets, const int64_t *before, int m
#define FC_PROBE_ROWS 256

/* Write for each probe row the value that it looks for, base + probe_value or base - probe_value, and its position. Rows are
 * left out if the sum overflows, if it is not between the least and the greatest of the values, or if no row is before them.
 * Returns the number of targets. */
FC_INLINE int fc_targets(FC_ROWS, const int64_t *probe, const int64_t *probe_value, int probe_n, int64_t base, int sign,
                         int64_t *targets, int64_t *before) {
    int64_t least = value[0], greatest = value[0], target;
    int m = 0;
    for (int i = 1; i < n; i++) {
        least = value[i] < least ? value[i] : least;
        greatest = value[i] > greatest ? value[i] : greatest;
    }
    for (int i = 0; i < probe_n; i++) {
        const int overflow = sign > 0 ? __builtin_add_overflow(base, probe_value[i], &target)
                                      : __builtin_sub_overflow(base, probe_value[i], &target);
        targets[m] = target;
        before[m] = probe[i];
        m += !overflow & (target >= least) & (target <= greatest) & (probe[i] > pos[0]);
    }
    return m;
}

/* Write the joined pairs of `m` targets. `equal` returns a bit mask of the rows that equal a target. `blocks` is a literal where
 * possible, so that the compiler unrolls the loop. Most targets have at most two rows, so two are always written, without a
 * branch. */
#define FC_JOIN(name, attributes, equal, lowest)                                                                        \
    FC_INLINE attributes int64_t name(FC_ROWS, FC_TARGETS, int64_t *first, int64_t *second, int blocks) {               \
        int64_t *to = first;                                                                                            \
        for (int i = 0; i < m; i++) {                                                                                   \
            uint64_t bits = equal(pos, value, n, blocks, targets[i], before[i]);                                        \
            const int count = __builtin_popcountll(bits);                                                               \
            to[0] = pos[lowest(bits)];                                                                                  \
            second[0] = before[i];                                                                                      \
            bits &= bits - 1;                                                                                           \
            to[1] = pos[lowest(bits)];                                                                                  \
            second[1] = before[i];                                                                                      \
            for (int c = 2; c < count; c++) {                                                                           \
                bits &= bits - 1;                                                                                       \
                to[c] = pos[lowest(bits)];                                                                              \
                second[c] = before[i];                                                                                  \
            }                                                                                                           \
            to += count;                                                                                                \
            second += count;                                                                                            \
        }                                                                                                               \
        return to - first;                                                                                              \
    }

FC_INLINE uint64_t fc_equal(const int64_t *pos, const int64_t *value, int rows, int blocks, int64_t target,
                            int64_t before) {
    uint64_t bits = 0;
    for (int i = 0; i < rows; i++)
        bits |= (uint64_t)((value[i] == target) & (pos[i] < before)) << i;
    (void)blocks;
    return bits;
}

#define FC_LOWEST(bits) ((bits) ? __builtin_ctzll(bits) : 0)
FC_JOIN(fc_join_any, , fc_equal, FC_LOWEST)

#if defined(__x86_64__) && defined(__GNUC__) && !defined(FASTCEP_DEBUG)
#include <immintrin.h>
#define FC_AVX2 __attribute__((target("avx2,bmi,popcnt")))
#define FC_LOWEST_BMI(bits) (_tzcnt_u64(bits) & 63)

FC_INLINE FC_AVX2 uint64_t fc_equal_avx2(const int64_t *pos, const int64_t *value, int rows, int blocks, int64_t target,
                                         int64_t before) {
    const __m256i value_target = _mm256_set1_epi64x(target), end = _mm256_set1_epi64x(before);
    uint64_t bits = 0;
    for (int i = 0; i < blocks; i++) { /* the last block may extend past the rows */
        const __m256i v = _mm256_loadu_si256((const __m256i *)(value + 4 * i));
        const __m256i p = _mm256_loadu_si256((const __m256i *)(pos + 4 * i));
        const __m256i both = _mm256_and_si256(_mm256_cmpeq_epi64(v, value_target), _mm256_cmpgt_epi64(end, p));
        bits |= (uint64_t)(unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(both)) << (4 * i);
    }
    return bits & (~(uint64_t)0 >> (64 - rows));
}

FC_JOIN(fc_join_blocks, FC_AVX2, fc_equal_avx2, FC_LOWEST_BMI)

static FC_AVX2 int64_t fc_join_avx2(FC_ROWS, FC_TARGETS, int64_t *first, int64_t *second) {
    switch ((n + 3) / 4) {
    case 1: return fc_join_blocks(pos, value, n, targets, before, m, first, second, 1);
    case 2: return fc_join_blocks(pos, value, n, targets, before, m, first, second, 2);
    case 3: return fc_join_blocks(pos, value, n, targets, before, m, first, second, 3);
    case 4: return fc_join_blocks(pos, value, n, targets, before, m, first, second, 4);
    case 5: return fc_join_blocks(pos, value, n, targets, before, m, first, second, 5);
    case 6: return fc_join_blocks(pos, value, n, targets, before, m, first, second, 6);
    case 7: return fc_join_blocks(pos, value, n, targets, before, m, first, second, 7);
    case 8: return fc_join_blocks(pos, value, n, targets, before, m, first, second, 8);
    default: return fc_join_blocks(pos, value, n, targets, before, m, first, second, (n + 3) / 4);
    }
}
#endif

/* Join the probe rows (at most 256; positions, ascending) with the `n` build rows (at most 64; positions `pos`, values `value`).
 * A build row joins if it is before the probe row and has the value base + probe_value, or base - probe_value if `sign` < 0; a
 * sum that overflows equals nothing. For each pair the position of the build row is written to `first` and that of the probe row
 * to `second`. Returns the number of pairs. Up to two more words of `first` and `second` may be written, and up to three words
 * past the build rows are read. */
static inline int64_t fc_join(FC_ROWS, const int64_t *probe, const int64_t *probe_value, int probe_n, int64_t base, int sign,
                              int64_t *first, int64_t *second) {
    int64_t targets[FC_PROBE_ROWS], before[FC_PROBE_ROWS];
    const int m = fc_targets(pos, value, n, probe, probe_value, probe_n, base, sign, targets, before);
#ifdef FC_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt"))
        return fc_join_avx2(pos, value, n, targets, before, m, first, second);
#endif
    return fc_join_any(pos, value, n, targets, before, m, first, second, 0);
}
#endif
