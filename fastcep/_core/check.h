/* What the kernels need of C: bounds checks (on with FASTCEP_DEBUG=1 at build time) and huge pages where Linux has them. */
#ifndef FASTCEP_CHECK_H
#define FASTCEP_CHECK_H
#include <stdio.h>
#include <stdlib.h>
#ifdef FASTCEP_DEBUG
#define FC_CHECK(condition)                                                                    \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "fastcep: check failed at %s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                           \
        }                                                                                      \
    } while (0)
#define FC_DEBUG 1
#else
#define FC_CHECK(condition) ((void)0)
#define FC_DEBUG 0
#endif
#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
/* Ask for huge pages for the whole pages inside a block; a refusal does no harm. */
static inline void fc_huge(void *data, size_t bytes) {
    uintptr_t from = ((uintptr_t)data + 4095) & ~(uintptr_t)4095;
    uintptr_t to = ((uintptr_t)data + bytes) & ~(uintptr_t)4095;
    if (to > from)
        (void)madvise((void *)from, to - from, MADV_HUGEPAGE);
}
#else
static inline void fc_huge(void *data, size_t bytes) { (void)data; (void)bytes; }
#endif
#endif
