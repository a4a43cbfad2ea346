/* Loops of the covering knapsack over plain arrays: ordering, search, and the table, sixteen columns at a time with
 * SSE2 (one by one in the checked build). */
#ifndef FASTCEP_KNAPSACK_H
#define FASTCEP_KNAPSACK_H
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE2__) && !defined(FASTCEP_DEBUG)
#include <emmintrin.h>
#define FC_RELAX_SSE2
#endif

typedef struct {
    double key, tie;
    int32_t item;
} fc_ranked;

/* Compare by key, then by tie, then by item. */
static int fc_compare(const void *a, const void *b) {
    const fc_ranked *one = (const fc_ranked *)a, *other = (const fc_ranked *)b;
    if (one->key != other->key) return one->key < other->key ? -1 : 1;
    if (one->tie != other->tie) return one->tie < other->tie ? -1 : 1;
    return one->item < other->item ? -1 : 1;
}

/* Write the numbers 0 to `n` in the order of their keys: ascending with sign 1, descending with -1. */
static inline void fc_order(const double *keys, double sign, int32_t n, fc_ranked *items, int32_t *order) {
    for (int32_t k = 0; k < n; k++) {
        items[k].key = sign * keys[k];
        items[k].tie = 0;
        items[k].item = k;
    }
    qsort(items, n, sizeof(fc_ranked), fc_compare);
    for (int32_t k = 0; k < n; k++) order[k] = items[k].item;
}

/* Order the items that have a value by value per weight, heavier items first among equals; returns their number. */
static inline int32_t fc_rank(const double *values, const double *weights, int32_t n, fc_ranked *items) {
    int32_t count = 0;
    for (int32_t i = 0; i < n; i++) {
        if (values[i] > 0) {
            items[count].key = values[i] / weights[i];
            items[count].tie = -weights[i];
            items[count++].item = i;
        }
    }
    qsort(items, count, sizeof(fc_ranked), fc_compare);
    return count;
}

/* Return the first index in `low` to `high` whose sum is at least `least`, `high` if there is none; sums ascend. */
static inline int32_t fc_first(const double *sums, int32_t low, int32_t high, double least) {
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (sums[middle] >= least) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* Add an item with a weight of at least 1 to the table. `old` and `least` hold the least value per sum of weights, 0 to
 * `most`, without and with the item. `takes` is nonzero for the sums whose set contains the item. */
static inline void fc_relax(const double *restrict old, double *restrict least, uint8_t *restrict takes, int32_t weight,
                            double value, int32_t most) {
    const double *restrict without = old + weight;
    int32_t c = 0;
    const int32_t n = most - weight + 1;
    memcpy(least, old, weight * sizeof(double));
    memset(takes, 0, weight);
    least += weight;
    takes += weight;
#ifdef FC_RELAX_SSE2
    const __m128d added = _mm_set1_pd(value);
    for (; c + 16 <= n; c += 16) {
        __m128i m[8];
        for (int i = 0; i < 8; i++) {
            const __m128d a = _mm_loadu_pd(without + c + 2 * i);
            const __m128d b = _mm_add_pd(_mm_loadu_pd(old + c + 2 * i), added);
            m[i] = _mm_castpd_si128(_mm_cmplt_pd(b, a));
            _mm_storeu_pd(least + c + 2 * i, _mm_min_pd(b, a));
        }
        for (int i = 0; i < 4; i++) m[i] = _mm_packs_epi32(m[2 * i], m[2 * i + 1]);
        for (int i = 0; i < 2; i++) m[i] = _mm_packs_epi16(m[2 * i], m[2 * i + 1]);
        _mm_storeu_si128((__m128i *)(takes + c), _mm_packs_epi16(m[0], m[1]));
    }
#endif
    for (; c < n; c++) {
        const double a = without[c], b = old[c] + value;
        takes[c] = b < a;
        least[c] = b < a ? b : a;
    }
}

/* Return the sum of the chosen numbers. */
static inline double fc_sum(const double *numbers, const uint8_t *chosen, int32_t n) {
    double sum = 0;
    for (int32_t k = 0; k < n; k++) sum += chosen[k] ? numbers[k] : 0.0;
    return sum;
}

/* Step back over one item in `n` sets of the table: move the columns of the sets that contain it, and add its weight to
 * what they save. */
static inline void fc_weigh(const uint8_t *restrict takes, int32_t *restrict columns, double *restrict saved, int32_t n,
                            int32_t weight_steps, double weight) {
    for (int32_t k = 0; k < n; k++) {
        const int taken = takes[columns[k]] != 0;
        columns[k] -= taken ? weight_steps : 0;
        saved[k] += taken ? weight : 0.0;
    }
}
#endif
