/* What is well-formed UTF-8: table 3-7 of the Unicode Standard. */
#ifndef CV_OUTPUT_UTF8_H
#define CV_OUTPUT_UTF8_H

#include <stddef.h>
#include <stdint.h>

enum cv_utf8 {
    CV_UTF8_WHOLE,   /* a well-formed character */
    CV_UTF8_PARTIAL, /* the bytes end inside what may become one */
    CV_UTF8_INVALID, /* a maximal subpart: one U+FFFD */
};

/*
 * Looks at the first character of `length` > 0 bytes; *size becomes the number of bytes that the
 * answer covers.
 */
enum cv_utf8 cv_utf8_first(const uint8_t *bytes, size_t length, size_t *size);

/* The length of the well-formed text, in whole characters, that `bytes` begin with. */
size_t cv_utf8_run(const uint8_t *bytes, size_t length);

#endif
