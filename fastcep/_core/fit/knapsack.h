/* The loops of a knapsack over plain arrays: order, search, and its table, sixteen columns at a time where the machine
 * can (the checked build takes them one by one). */
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

/* By key, then by tie, then by number. */
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

/* Order the items that have a value by value per weight, and the heavier first; returns how many there are. */
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

/* The first place from `low` on, before `high`, where ascending sums come to so much; `high` if none does. */
static inline int32_t fc_first(const double *sums, int32_t low, int32_t high, double least) {
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (sums[middle] >= least) high = middle;
        else low = middle + 1;
    }
    return low;
}

/* `old` and `least` hold per sum of weights, 0 to `most`, the least value with it: before and behind an item with a
 * weight of at least 1. `takes` says where the item is taken: 0 or not. */
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
    const __m128d more = _mm_set1_pd(value);
    for (; c + 16 <= n; c += 16) {
        __m128i m[8];
        for (int i = 0; i < 8; i++) {
            const __m128d a = _mm_loadu_pd(without + c + 2 * i);
            const __m128d b = _mm_add_pd(_mm_loadu_pd(old + c + 2 * i), more);
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

/* The sum over those that are chosen. */
static inline double fc_sum(const double *of, const uint8_t *chosen, int32_t n) {
    double sum = 0;
    for (int32_t k = 0; k < n; k++) sum += chosen[k] ? of[k] : 0.0;
    return sum;
}

/* One item against `n` sets out of the table: where each stands before the item, and what it saves with it. */
static inline void fc_weigh(const uint8_t *restrict takes, int32_t *restrict columns, double *restrict saved, int32_t n,
                            int32_t whole, double weight) {
    for (int32_t k = 0; k < n; k++) {
        const int taken = takes[columns[k]] != 0;
        columns[k] -= taken ? whole : 0;
        saved[k] += taken ? weight : 0.0;
    }
}
#endif
