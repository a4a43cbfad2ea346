/* Large arrays in huge pages. Blocks are aligned to huge pages, so that the kernel can use them and growing is no copy.
 *
 * A block is a private mapping that starts at the boundary of a huge page. On systems without huge pages or mremap, it
 * is an ordinary allocation: slower, but correct. */
#ifndef FASTCEP_PAGES_H
#define FASTCEP_PAGES_H
#include <stdlib.h>
#ifdef __linux__
#include <stdint.h>
#include <sys/mman.h>
#define FC_PAGE ((size_t)1 << 21)

/* Create an aligned mapping of `bytes`, a multiple of FC_PAGE; NULL without memory. */
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

/* Resize a block (NULL: allocate one) to `bytes`, a multiple of FC_PAGE. Without memory, returns NULL and keeps the old
 * block. */
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

/* Free the huge pages after the first `used` bytes, unless they are a small part of the block: a reused block would
 * soon grow again by as much. Returns the new size of the block in bytes. */
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
