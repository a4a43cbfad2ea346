/* Sets of the events of a chunk: event k is in a set if bit k % 64 of word k / 64 is 1; bits past the last event are 0.
 * The loops over events have a portable version and one for AVX2 (the checked build has only the portable one). */
#ifndef FASTCEP_EVENT_SETS_H
#define FASTCEP_EVENT_SETS_H
#include <stdint.h>
#include <string.h>

typedef struct {
    uint8_t *has; /* per type id: 1 if the set has the type */
    int32_t n_types;
    /* Of the first 256 types: bit h % 8 of byte 16 * (h / 8) + l is 1 if the set has type 16 * h + l. */
    uint8_t nibbles[32];
} fc_type_set;

/* Comparisons of a value with a constant; those of float64 follow in the same order. */
enum { FC_EQUAL, FC_UNEQUAL, FC_LESS, FC_LESS_EQUAL, FC_GREATER, FC_GREATER_EQUAL, FC_FLOATS };

/* Fill the table of halves from `has`. */
static inline void fc_type_set_fill(fc_type_set *set) {
    memset(set->nibbles, 0, sizeof(set->nibbles));
    for (int i = 0; i < set->n_types && i < 256; i++)
        set->nibbles[i / 128 * 16 + i % 16] |= (uint8_t)(set->has[i] << (i / 16 % 8));
}

static inline void fc_of_types_any(const fc_type_set *set, const uint16_t *types, int n, uint64_t *events) {
    for (int first = 0; first < n; first += 64, events++) {
        const int size = n - first < 64 ? n - first : 64;
        uint64_t bits = 0;
        for (int k = 0; k < size; k++)
            bits |= (uint64_t)set->has[types[first + k]] << k;
        *events = bits;
    }
}

/* This and the next one read only the values of events in the set. */
static inline void fc_without_nulls_any(const uint8_t *nulls, int n, uint64_t *events) {
    for (int first = 0; first < n; first += 64, events++) {
        uint64_t bits = 0;
        for (uint64_t rest = *events; rest; rest &= rest - 1) {
            const int k = __builtin_ctzll(rest);
            bits |= (uint64_t)(nulls[first + k] == 0) << k;
        }
        *events = bits;
    }
}

#define FC_KEEP(condition)                                                                                             \
    for (uint64_t rest = *events; rest; rest &= rest - 1) {                                                            \
        const int k = first + __builtin_ctzll(rest);                                                                   \
        bits |= (uint64_t)(condition) << (k - first);                                                                  \
    }                                                                                                                  \
    break;
static inline void fc_compare_any(const int64_t *values, int n, int comparison, int64_t constant, uint64_t *events) {
    const double *reals = (const double *)values;
    double real;
    memcpy(&real, &constant, sizeof(real));
    for (int first = 0; first < n; first += 64, events++) {
        uint64_t bits = 0;
        switch (comparison) {
        case FC_EQUAL: FC_KEEP(values[k] == constant)
        case FC_UNEQUAL: FC_KEEP(values[k] != constant)
        case FC_LESS: FC_KEEP(values[k] < constant)
        case FC_LESS_EQUAL: FC_KEEP(values[k] <= constant)
        case FC_GREATER: FC_KEEP(values[k] > constant)
        case FC_GREATER_EQUAL: FC_KEEP(values[k] >= constant)
        case FC_FLOATS + FC_EQUAL: FC_KEEP(reals[k] == real)
        case FC_FLOATS + FC_UNEQUAL: FC_KEEP(reals[k] != real)
        case FC_FLOATS + FC_LESS: FC_KEEP(reals[k] < real)
        case FC_FLOATS + FC_LESS_EQUAL: FC_KEEP(reals[k] <= real)
        case FC_FLOATS + FC_GREATER: FC_KEEP(reals[k] > real)
        default: FC_KEEP(reals[k] >= real)
        }
        *events = bits;
    }
}
#undef FC_KEEP

static inline int fc_list_any(const uint64_t *events, int n, int32_t *rows) {
    int size = 0;
    for (int first = 0; first < n; first += 64, events++)
        for (uint64_t bits = *events; bits; bits &= bits - 1)
            rows[size++] = first + __builtin_ctzll(bits);
    return size;
}

#if defined(__x86_64__) && defined(__GNUC__) && !defined(FASTCEP_DEBUG)
#include <immintrin.h>
#define FC_SIMD __attribute__((target("avx2,bmi,popcnt")))
#define FC_HAS_SIMD                                                                                                    \
    (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("popcnt"))

/* Looks 32 types up at once by the two halves of their ids. */
static FC_SIMD void fc_of_types_simd(const fc_type_set *set, const uint16_t *types, int n, uint64_t *events) {
    const __m256i low_half = _mm256_set1_epi8(15);
    const __m256i below_128 = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)set->nibbles));
    const __m256i from_128 = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)(set->nibbles + 16)));
    const __m256i bit_of = _mm256_set1_epi64x((int64_t)0x8040201008040201u);
    int first = 0;
    for (; first + 64 <= n; first += 64, events++) {
        uint64_t bits = 0;
        for (int k = 0; k < 64; k += 32) {
            const __m256i *from = (const __m256i *)(types + first + k);
            const __m256i packed = _mm256_packus_epi16(_mm256_loadu_si256(from), _mm256_loadu_si256(from + 1));
            const __m256i ids = _mm256_permute4x64_epi64(packed, 0xD8);
            const __m256i low = _mm256_and_si256(ids, low_half);
            const __m256i high = _mm256_and_si256(_mm256_srli_epi16(ids, 4), low_half);
            const __m256i columns =
                _mm256_blendv_epi8(_mm256_shuffle_epi8(below_128, low), _mm256_shuffle_epi8(from_128, low), ids);
            const __m256i bit = _mm256_shuffle_epi8(bit_of, high);
            const __m256i found = _mm256_cmpeq_epi8(_mm256_and_si256(columns, bit), bit);
            bits |= (uint64_t)(uint32_t)_mm256_movemask_epi8(found) << k;
        }
        *events = bits;
    }
    fc_of_types_any(set, types + first, n - first, events);
}

static FC_SIMD void fc_without_nulls_simd(const uint8_t *nulls, int n, uint64_t *events) {
    const __m256i zero = _mm256_setzero_si256();
    int first = 0;
    for (; first + 64 <= n; first += 64, events++) {
        const __m256i *from = (const __m256i *)(nulls + first);
        const uint32_t low = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256(from), zero));
        const uint32_t high = (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_loadu_si256(from + 1), zero));
        *events &= low | (uint64_t)high << 32;
    }
    fc_without_nulls_any(nulls + first, n - first, events);
}

/* Compares 64 values, unless none of their events is in the set. */
static FC_SIMD void fc_compare_simd(const int64_t *values, int n, int comparison, int64_t constant, uint64_t *events) {
    const __m256i word = _mm256_set1_epi64x(constant);
    const __m256d real = _mm256_castsi256_pd(word);
    const int words = n / 64;
    const int64_t *from = values;
#define FC_KEEP(condition, inverted)                                                                                   \
    for (int w = 0; w < words; w++, from += 64) {                                                                      \
        uint64_t bits = 0;                                                                                             \
        if (events[w] == 0)                                                                                            \
            continue;                                                                                                  \
        _Pragma("GCC unroll 16") for (int k = 0; k < 64; k += 4) {                                                     \
            const __m256i value = _mm256_loadu_si256((const __m256i *)(from + k));                                     \
            bits |= (uint64_t)(uint32_t)_mm256_movemask_pd(condition) << k;                                            \
        }                                                                                                              \
        events[w] &= inverted bits;                                                                                    \
    }                                                                                                                  \
    break;
#define FC_REALS(predicate) FC_KEEP(_mm256_cmp_pd(_mm256_castsi256_pd(value), real, predicate), )
    switch (comparison) {
    case FC_EQUAL: FC_KEEP(_mm256_castsi256_pd(_mm256_cmpeq_epi64(value, word)), )
    case FC_UNEQUAL: FC_KEEP(_mm256_castsi256_pd(_mm256_cmpeq_epi64(value, word)), ~)
    case FC_LESS: FC_KEEP(_mm256_castsi256_pd(_mm256_cmpgt_epi64(word, value)), )
    case FC_LESS_EQUAL: FC_KEEP(_mm256_castsi256_pd(_mm256_cmpgt_epi64(value, word)), ~)
    case FC_GREATER: FC_KEEP(_mm256_castsi256_pd(_mm256_cmpgt_epi64(value, word)), )
    case FC_GREATER_EQUAL: FC_KEEP(_mm256_castsi256_pd(_mm256_cmpgt_epi64(word, value)), ~)
    case FC_FLOATS + FC_EQUAL: FC_REALS(_CMP_EQ_OQ)
    case FC_FLOATS + FC_UNEQUAL: FC_REALS(_CMP_NEQ_UQ)
    case FC_FLOATS + FC_LESS: FC_REALS(_CMP_LT_OQ)
    case FC_FLOATS + FC_LESS_EQUAL: FC_REALS(_CMP_LE_OQ)
    case FC_FLOATS + FC_GREATER: FC_REALS(_CMP_GT_OQ)
    default: FC_REALS(_CMP_GE_OQ)
    }
#undef FC_REALS
#undef FC_KEEP
    fc_compare_any(values + 64 * words, n - 64 * words, comparison, constant, events + words);
}

/* Lists eight events at a time, without a branch for each. */
static FC_SIMD int fc_list_simd(const uint64_t *events, int n, int32_t *rows) {
    int32_t *to = rows;
    for (int first = 0; first < n; first += 64, events++) {
        uint64_t bits = *events;
        const int size = __builtin_popcountll(bits);
        for (int i = 0; i < size; i += 8)
            _Pragma("GCC unroll 8") for (int j = 0; j < 8; j++, bits &= bits - 1)
                to[i + j] = first + (int32_t)_tzcnt_u64(bits);
        to += size;
    }
    return (int)(to - rows);
}
#else
#define FC_HAS_SIMD 0
#define fc_of_types_simd fc_of_types_any
#define fc_without_nulls_simd fc_without_nulls_any
#define fc_compare_simd fc_compare_any
#define fc_list_simd fc_list_any
#endif

/* Return whether `fc_of_types` costs less than an instruction per event. */
static inline int fc_is_simd(const fc_type_set *set) { return FC_HAS_SIMD && set->n_types <= 256; }

/* Set `events` to those whose type is in the set. */
static inline void fc_of_types(const fc_type_set *set, const uint16_t *types, int n, uint64_t *events) {
    if (n >= 64 && fc_is_simd(set))
        fc_of_types_simd(set, types, n, events);
    else
        fc_of_types_any(set, types, n, events);
}

/* Remove the events whose null flag is 1. */
static inline void fc_without_nulls(const uint8_t *nulls, int n, uint64_t *events) {
    if (n >= 64 && FC_HAS_SIMD)
        fc_without_nulls_simd(nulls, n, events);
    else
        fc_without_nulls_any(nulls, n, events);
}

/* Remove the events for which the comparison of their value with the constant is false. Values and constant are int64,
 * or the bits of float64. */
static inline void fc_compare(const int64_t *values, int n, int comparison, int64_t constant, uint64_t *events) {
    if (n >= 64 && FC_HAS_SIMD)
        fc_compare_simd(values, n, comparison, constant, events);
    else
        fc_compare_any(values, n, comparison, constant, events);
}

/* Write the numbers of the events, ascending, and return how many there are. `rows` has room for `n` numbers, rounded
 * up to a multiple of eight. */
static inline int fc_list(const uint64_t *events, int n, int32_t *rows) {
    return n >= 64 && FC_HAS_SIMD ? fc_list_simd(events, n, rows) : fc_list_any(events, n, rows);
}
#endif
