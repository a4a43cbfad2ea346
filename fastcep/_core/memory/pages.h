/* Large arrays in huge pages: aligned to them, so that the kernel gives them and growing moves no data.
 *
 * A block is a private mapping that starts on a huge page's boundary. Where huge pages or mremap are not to be had it
 * is an ordinary allocation: slower, never wrong. */
#ifndef FASTCEP_PAGES_H
#define FASTCEP_PAGES_H
#include <stdlib.h>
#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
#define FC_PAGE ((size_t)1 << 21)

/* An aligned mapping of `bytes`, a multiple of FC_PAGE; NULL without memory. */
static inline void *fc_pages_map(size_t bytes, int access) {
    char *raw = (char *)mmap(NULL, bytes + FC_PAGE, access, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (raw == MAP_FAILED)
        return NULL;
    char *aligned = (char *)(((uintptr_t)raw + FC_PAGE - 1) & ~(uintptr_t)(FC_PAGE - 1));
    if (aligned > raw)
        (void)munmap(raw, (size_t)(aligned - raw));
    (void)munmap(aligned + bytes, (size_t)(raw + FC_PAGE - aligned));
    return aligned;
}

/* Grow (or shrink) a block, NULL = a new one, to `bytes`, a multiple of FC_PAGE; NULL without memory, the old block stays
 * then. */
static inline void *fc_pages_grow(void *old, size_t old_bytes, size_t bytes) {
    void *block;
    if (old == NULL)
        block = fc_pages_map(bytes, PROT_READ | PROT_WRITE);
    else {
        block = mremap(old, old_bytes, bytes, 0);
        if (block == MAP_FAILED) {
            void *place = fc_pages_map(bytes, PROT_NONE);
            if (place == NULL)
                return NULL;
            block = mremap(old, old_bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
            if (block == MAP_FAILED) {
                (void)munmap(place, bytes);
                return NULL;
            }
        }
    }
    if (block != NULL)
        (void)madvise(block, bytes, MADV_HUGEPAGE);
    return block;
}

/* Give back the huge pages behind `used` bytes, unless they are a small part of the block: one that is used again
 * grows by as much. Returns how many bytes it has now. */
static inline size_t fc_pages_trim(void *block, size_t bytes, size_t used) {
    size_t keep = (used + FC_PAGE - 1) & ~(FC_PAGE - 1);
    if (keep > 0 && keep + keep / 4 < bytes && munmap((char *)block + keep, bytes - keep) == 0)
        return keep;
    return bytes;
}

static inline void fc_pages_free(void *block, size_t bytes) { (void)munmap(block, bytes); }
#else
#define FC_PAGE ((size_t)1 << 21)
static inline void *fc_pages_grow(void *old, size_t old_bytes, size_t bytes) {
    (void)old_bytes;
    return realloc(old, bytes);
}
static inline size_t fc_pages_trim(void *block, size_t bytes, size_t used) {
    (void)block;
    (void)used;
    return bytes;
}
static inline void fc_pages_free(void *block, size_t bytes) {
    (void)bytes;
    free(block);
}
#endif
#endif
