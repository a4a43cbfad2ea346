/* Loops over whole columns, in a portable version and in one for AVX2 (the checked build has only the portable one). */
#ifndef FASTCEP_COLUMNS_H
#define FASTCEP_COLUMNS_H
#include <stdint.h>
#define FC_INLINE static inline __attribute__((always_inline))

FC_INLINE int fc_scale_any(const int64_t *values, int64_t n, int64_t factor, int64_t *to) {
    int64_t descends = 0, previous = values[0];
    for (int64_t i = 0; i < n; i++) {
        descends |= values[i] < previous;
        to[i] = (int64_t)((uint64_t)values[i] * (uint64_t)factor);
        previous = values[i];
    }
    return !descends;
}

FC_INLINE int fc_ascends_any(const int64_t *values, int64_t n) {
    int64_t descends = 0;
    for (int64_t i = 1; i < n; i++)
        descends |= values[i] < values[i - 1];
    return !descends;
}

FC_INLINE void fc_look_up_any(const int32_t *indices, int64_t n, const uint16_t *table, uint16_t *to) {
    for (int64_t i = 0; i < n; i++)
        to[i] = table[indices[i]];
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(FASTCEP_DEBUG)
#include <immintrin.h>
#define FC_WIDE __attribute__((target("avx2")))
#define FC_IS_WIDE __builtin_cpu_supports("avx2")

static FC_WIDE int fc_scale_wide(const int64_t *values, int64_t n, int64_t factor, int64_t *to) {
    const __m256i multiplier = _mm256_set1_epi64x(factor); /* less than 2^32 */
    __m256i descends = _mm256_setzero_si256();
    int64_t i = 1;
    to[0] = (int64_t)((uint64_t)values[0] * (uint64_t)factor);
    for (; i + 4 <= n; i += 4) {
        const __m256i v = _mm256_loadu_si256((const __m256i *)(values + i));
        const __m256i before = _mm256_loadu_si256((const __m256i *)(values + i - 1));
        const __m256i high = _mm256_slli_epi64(_mm256_mul_epu32(_mm256_srli_epi64(v, 32), multiplier), 32);
        descends = _mm256_or_si256(descends, _mm256_cmpgt_epi64(before, v));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_add_epi64(_mm256_mul_epu32(v, multiplier), high));
    }
    int64_t less = 0;
    for (; i < n; i++) {
        less |= values[i] < values[i - 1];
        to[i] = (int64_t)((uint64_t)values[i] * (uint64_t)factor);
    }
    return _mm256_testz_si256(descends, descends) & !less;
}

static FC_WIDE int fc_ascends_wide(const int64_t *values, int64_t n) { return fc_ascends_any(values, n); }

/* For at most eight entries; an index out of range gives an arbitrary entry. */
static FC_WIDE void fc_look_up_wide(const int32_t *indices, int64_t n, const uint16_t *table, uint16_t *to) {
    const __m256i lanes = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)table));
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
        const __m256i a = _mm256_permutevar8x32_epi32(lanes, _mm256_loadu_si256((const __m256i *)(indices + i)));
        const __m256i b = _mm256_permutevar8x32_epi32(lanes, _mm256_loadu_si256((const __m256i *)(indices + i + 8)));
        _mm256_storeu_si256((__m256i *)(to + i), _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8));
    }
    fc_look_up_any(indices + i, n - i, table, to + i);
}
#else
#define FC_IS_WIDE 0
#define fc_scale_wide fc_scale_any
#define fc_ascends_wide fc_ascends_any
#define fc_look_up_wide fc_look_up_any
#endif

/* Write `n` values (at least one) times a positive factor; values that do not fit wrap around. Returns whether the
 * values ascend; that result is undefined if `to` is `values`. */
static inline int fc_scale(const int64_t *values, int64_t n, int64_t factor, int64_t *to) {
    return FC_IS_WIDE && factor >> 32 == 0 ? fc_scale_wide(values, n, factor, to) : fc_scale_any(values, n, factor, to);
}

static inline int fc_ascends(const int64_t *values, int64_t n) {
    return FC_IS_WIDE ? fc_ascends_wide(values, n) : fc_ascends_any(values, n);
}

/* Write the entry of `table` for each index. The table has `entries` entries and memory for at least eight. */
static inline void fc_look_up(const int32_t *indices, int64_t n, const uint16_t *table, int64_t entries, uint16_t *to) {
    if (FC_IS_WIDE && entries <= 8)
        fc_look_up_wide(indices, n, table, to);
    else
        fc_look_up_any(indices, n, table, to);
}
#endif
