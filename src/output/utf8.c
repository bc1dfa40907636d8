#include "output/utf8.h"

#include <string.h>

/*
 * Only the second byte has a range of its own, which rules out overlong forms, surrogates and
 * values over U+10FFFF.
 */
enum cv_utf8 cv_utf8_first(const uint8_t *bytes, size_t length, size_t *size)
{
    uint8_t lead = bytes[0];
    *size = 1;
    if (lead < 0x80)
        return CV_UTF8_WHOLE;
    if (lead < 0xc2 || lead > 0xf4)
        return CV_UTF8_INVALID;
    size_t need = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (; *size < need; (*size)++) {
        if (*size == length)
            return CV_UTF8_PARTIAL;
        if (bytes[*size] < low || bytes[*size] > high)
            return CV_UTF8_INVALID;
        low = 0x80;
        high = 0xbf;
    }
    return CV_UTF8_WHOLE;
}

static size_t ascii_run(const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    uint64_t word;
    for (; length - at >= sizeof word; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        if ((word & UINT64_C(0x8080808080808080)) != 0)
            break;
    }
    while (at < length && bytes[at] < 0x80)
        at++;
    return at;
}

size_t cv_utf8_run(const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    while (at < length) {
        size_t size = ascii_run(bytes + at, length - at);
        if (size == 0 && cv_utf8_first(bytes + at, length - at, &size) != CV_UTF8_WHOLE)
            break;
        at += size;
    }
    return at;
}
