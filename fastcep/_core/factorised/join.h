/* Join of the factorised store: find the rows that have a given value among the first ones of a bucket. With AVX-512 eight rows
 * are compared at once, with AVX2 four; the checked build compares one row at a time. */
#ifndef FASTCEP_JOIN_H
#define FASTCEP_JOIN_H
#include <stdint.h>
#define FC_INLINE static inline __attribute__((always_inline))
#define FC_ROWS const int64_t *pos, const int64_t *value
#define FC_PROBES const int64_t *probe, const int64_t *probe_value, const int64_t *counts, int64_t offset, int m, int64_t base, int sign
#define FC_JOIN_SLACK 2
#define FC_PROBE_ROWS 256

/* The value that a probe row looks for, base + value or base - value; an overflow equals nothing, so then no row is compared. */
FC_INLINE int64_t fc_target(int64_t value, int64_t base, int sign, int *rows) {
    int64_t target;
    if (sign > 0 ? __builtin_add_overflow(base, value, &target) : __builtin_sub_overflow(base, value, &target))
        *rows = 0;
    return target;
}

/* Write the joined pairs of `m` probe rows: first find those that join at all, without a branch, then write their pairs. `equal`
 * returns a bit mask of the rows that equal a target. `blocks` is a literal where possible, so that the compiler unrolls the
 * loop. Most targets have at most two rows, so two are always written, without a branch. */
#define FC_JOIN(name, attributes, equal, lowest)                                                                        \
    FC_INLINE attributes int64_t name(FC_ROWS, int size, FC_PROBES, int64_t *first, int64_t *second, int blocks) {      \
        int64_t *to = first, joined[FC_PROBE_ROWS];                                                                     \
        uint64_t found[FC_PROBE_ROWS];                                                                                  \
        int n = 0;                                                                                                      \
        for (int i = 0; i < m; i++) {                                                                                   \
            int rows = counts[i] > offset ? (int)(counts[i] - offset) : 0;                                              \
            const int64_t target = fc_target(probe_value[i], base, sign, &rows);                                        \
            found[n] = equal(value, size, blocks, rows, target);                                                        \
            joined[n] = probe[i];                                                                                       \
            n += found[n] != 0;                                                                                         \
        }                                                                                                               \
        for (int i = 0; i < n; i++) {                                                                                   \
            uint64_t bits = found[i];                                                                                   \
            const int count = __builtin_popcountll(bits);                                                               \
            to[0] = pos[lowest(bits)];                                                                                  \
            second[0] = joined[i];                                                                                      \
            bits &= bits - 1;                                                                                           \
            to[1] = pos[lowest(bits)];                                                                                  \
            second[1] = joined[i];                                                                                      \
            for (int c = 2; c < count; c++) {                                                                           \
                bits &= bits - 1;                                                                                       \
                to[c] = pos[lowest(bits)];                                                                              \
                second[c] = joined[i];                                                                                  \
            }                                                                                                           \
            to += count;                                                                                                \
            second += count;                                                                                            \
        }                                                                                                               \
        return to - first;                                                                                              \
    }

FC_INLINE uint64_t fc_equal(const int64_t *value, int size, int blocks, int rows, int64_t target) {
    uint64_t bits = 0;
    for (int i = 0; i < rows; i++)
        bits |= (uint64_t)(value[i] == target) << i;
    (void)size, (void)blocks;
    return bits;
}

#define FC_LOWEST(bits) ((bits) ? __builtin_ctzll(bits) : 0)
FC_JOIN(fc_join_any, , fc_equal, FC_LOWEST)

#if defined(__x86_64__) && defined(__GNUC__) && !defined(FASTCEP_DEBUG)
#include <immintrin.h>
#define FC_AVX2 __attribute__((target("avx2,bmi,bmi2,popcnt")))
#define FC_AVX512 __attribute__((target("avx512f,bmi,bmi2,popcnt")))
#define FC_LOWEST_BMI(bits) (_tzcnt_u64(bits) & 63)
#define FC_SWITCH(name)                                                                                                 \
    switch (blocks) {                                                                                                   \
    case 1: return name(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second, 1);                         \
    case 2: return name(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second, 2);                         \
    case 3: return name(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second, 3);                         \
    case 4: return name(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second, 4);                         \
    case 5: return name(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second, 5);                         \
    case 6: return name(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second, 6);                         \
    default: return name(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second, blocks);                   \
    }

FC_INLINE FC_AVX2 uint64_t fc_equal_avx2(const int64_t *value, int size, int blocks, int rows, int64_t target) {
    const __m256i wanted = _mm256_set1_epi64x(target);
    uint64_t bits = 0;
    (void)size;
    for (int i = 0; i < blocks; i++) { /* the last block may extend past the rows */
        const __m256i equal = _mm256_cmpeq_epi64(_mm256_loadu_si256((const __m256i *)(value + 4 * i)), wanted);
        bits |= (uint64_t)(unsigned)_mm256_movemask_pd(_mm256_castsi256_pd(equal)) << (4 * i);
    }
    return _bzhi_u64(bits, (unsigned)rows);
}

FC_JOIN(fc_join_blocks, FC_AVX2, fc_equal_avx2, FC_LOWEST_BMI)

static FC_AVX2 int64_t fc_join_avx2(FC_ROWS, int size, FC_PROBES, int64_t *first, int64_t *second, int blocks) {
    FC_SWITCH(fc_join_blocks)
}

FC_INLINE FC_AVX512 uint64_t fc_equal_avx512(const int64_t *value, int size, int blocks, int rows, int64_t target) {
    const __m512i wanted = _mm512_set1_epi64(target);
    const __mmask8 tail = (__mmask8)_bzhi_u32(255, (unsigned)(size - 8 * (blocks - 1))); /* reads no row past the last one */
    uint64_t bits = 0;
    for (int i = 0; i < blocks - 1; i++)
        bits |= (uint64_t)_mm512_cmpeq_epi64_mask(_mm512_loadu_si512(value + 8 * i), wanted) << (8 * i);
    const __m512i values = _mm512_maskz_loadu_epi64(tail, value + 8 * (blocks - 1));
    bits |= (uint64_t)_mm512_cmpeq_epi64_mask(values, wanted) << (8 * (blocks - 1));
    return _bzhi_u64(bits, (unsigned)rows);
}

FC_JOIN(fc_join_eights, FC_AVX512, fc_equal_avx512, FC_LOWEST_BMI)

static FC_AVX512 int64_t fc_join_avx512(FC_ROWS, int size, FC_PROBES, int64_t *first, int64_t *second, int blocks) {
    FC_SWITCH(fc_join_eights)
}
#endif

/* Return the number of rows that are compared at once: eight, four or one. */
static inline int fc_join_width(void) {
#ifdef FC_AVX512
    if (__builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("popcnt"))
        return __builtin_cpu_supports("avx512f") ? 8 : __builtin_cpu_supports("avx2") ? 4 : 1;
#endif
    return 1;
}

/* Join `m` probe rows, at most 256, with build rows (positions `pos`, values `value`). Probe row i is preceded by the first
 * counts[i] - offset build rows; no probe row by more than `size`, which is at most 64. It joins those of them that have the value
 * base + probe_value, or base - probe_value if `sign` < 0; a sum that overflows equals nothing. For each pair the position of the
 * build row is written to `first` and that of the probe row to `second`. Returns the number of pairs. Up to FC_JOIN_SLACK more
 * words of `first` and `second` may be written, and up to three words past the build rows are read. */
static inline int64_t fc_join(int width, FC_ROWS, int size, FC_PROBES, int64_t *first, int64_t *second) {
#ifdef FC_AVX512
    if (width == 8)
        return fc_join_avx512(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second,
                              (size + 7) / 8);
    if (width == 4)
        return fc_join_avx2(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second,
                            (size + 3) / 4);
#endif
    (void)width;
    return fc_join_any(pos, value, size, probe, probe_value, counts, offset, m, base, sign, first, second, 0);
}
#endif
