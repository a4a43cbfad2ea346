/* Bounds checks for the compiled code; enable them with FASTCEP_DEBUG=1 at build time. */
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
#endif
