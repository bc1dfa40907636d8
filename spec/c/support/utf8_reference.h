/*
 * What the output collector should make of some bytes, worked out the slow way: straight from the
 * definitions (Unicode 15, D92 and section 3.9, "U+FFFD Substitution of Maximal Subparts"), by code
 * points and search, with no table of byte ranges.
 */
#ifndef CV_SPEC_UTF8_REFERENCE_H
#define CV_SPEC_UTF8_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* The UTF-8 form of a code point; its length, 0 for a surrogate or a value past U+10FFFF. */
static inline size_t reference_encode(uint32_t point, uint8_t out[4])
{
    if ((point >= 0xd800 && point <= 0xdfff) || point > 0x10ffff)
        return 0;
    size_t length = point < 0x80 ? 1 : point < 0x800 ? 2 : point < 0x10000 ? 3 : 4;
    for (size_t i = length; i-- > 1; point >>= 6)
        out[i] = (uint8_t)(0x80 | (point & 0x3f));
    out[0] = (uint8_t)(length == 1 ? point : (0xf00U >> length & 0xff) | point);
    return length;
}

/* True when the bytes are the UTF-8 form of a code point: decode loosely, encode, compare. */
static inline bool reference_is_character(const uint8_t *bytes, size_t length)
{
    uint8_t again[4];
    uint32_t point = length == 1 ? bytes[0] : bytes[0] & (0x7fU >> length);
    for (size_t i = 1; i < length; i++)
        point = point << 6 | (bytes[i] & 0x3f);
    return reference_encode(point, again) == length && memcmp(again, bytes, length) == 0;
}

/* True when the bytes begin some longer character. */
static inline bool reference_is_beginning(const uint8_t *bytes, size_t length)
{
    /* The smallest and every other choice of the next byte decide; the rest may be anything. */
    for (size_t whole = length + 1; whole <= 4; whole++) {
        uint8_t tried[4] = {0x80, 0x80, 0x80, 0x80};
        memcpy(tried, bytes, length);
        for (unsigned next = 0x80; next <= 0xbf; next++) {
            tried[length] = (uint8_t)next;
            if (reference_is_character(tried, whole))
                return true;
        }
    }
    return false;
}

/* The text of `length` bytes under a cap, as a snapshot at their end shows it. */
struct reference {
    size_t length; /* of the text, written to `out` */
    bool incomplete;
};

static inline struct reference reference_decode(const uint8_t *bytes, size_t length, size_t max,
                                                uint8_t *out)
{
    static const uint8_t replacement[] = {0xef, 0xbf, 0xbd};
    struct reference result = {0};
    size_t at = 0;
    while (at < length) {
        size_t left = length - at;
        size_t taken = 0;
        size_t size = 0;
        for (size_t whole = 1; size == 0 && whole <= 4 && whole <= left; whole++) {
            if (reference_is_character(bytes + at, whole))
                taken = size = whole;
        }
        const uint8_t *character = bytes + at;
        if (size == 0) {
            /* The longest beginning of a character; a single byte where there is none. */
            taken = 1;
            while (taken < left && taken < 3 && reference_is_beginning(bytes + at, taken + 1))
                taken++;
            character = replacement;
            size = sizeof replacement;
        }
        if (size > max - result.length) {
            result.incomplete = true;
            break;
        }
        memcpy(out + result.length, character, size);
        result.length += size;
        at += taken;
    }
    return result;
}

#endif
