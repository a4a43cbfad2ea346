/* The bytes of a text as words, to compare and hash it without a loop. */
#ifndef FASTCEP_NAMES_H
#define FASTCEP_NAMES_H
#include <stdint.h>
#include <string.h>

/* Return the first eight bytes of a text, or all of it and zeros if it is shorter. Eight bytes are read. */
static inline uint64_t fc_word(const uint8_t *text, int64_t length) {
    uint64_t word;
    const int unused = length < 8 ? (int)(4 * (8 - length)) : 0; /* half the bits, as shifts by 64 are undefined */
    memcpy(&word, text, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    return word >> unused >> unused;
#else
    return word << unused << unused;
#endif
}
#endif
