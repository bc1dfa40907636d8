/*
 * The output collector: raw bytes in, a capped prefix of their UTF-8 decoding out.
 *
 * The text is always valid UTF-8: invalid input becomes U+FFFD, one per maximal subpart (Unicode
 * 15, section 3.9, table 3-8; the WHATWG decoder does the same); a character split across writes
 * is joined. The cap counts output bytes and never splits a character; nothing is kept after the
 * first character that was dropped. Memory: at most `max` plus a constant.
 */
#ifndef CV_OUTPUT_COLLECTOR_H
#define CV_OUTPUT_COLLECTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * A producer that stops after `max` + CV_COLLECTOR_SLACK raw bytes loses nothing that the
 * collector would have kept: every raw byte decodes to at least one byte of text, but for an
 * unfinished character of at most 3 bytes.
 */
#define CV_COLLECTOR_SLACK 3

struct cv_collector {
    struct cv_buf text; /* decoded, valid UTF-8 */
    uint8_t pending[4]; /* an unfinished character */
    uint8_t pending_length;
    bool truncated; /* something was dropped */
    uint64_t total; /* raw bytes seen, kept or not */
};

/* A collector of at most `max` bytes of text; allocates nothing. */
void cv_collector_init(struct cv_collector *collector, size_t max);
void cv_collector_free(struct cv_collector *collector);
/* Takes the next raw bytes. 0, or -1 without memory (errno ENOMEM); then nothing was taken. */
int cv_collector_write(struct cv_collector *collector, const void *bytes, size_t length);
/*
 * A snapshot of the text: `*text` (borrowed until the next write) and its length, with an
 * unfinished tail shown as one U+FFFD where it fits. Changes nothing that a later write or
 * snapshot could see. 0, or -1 without memory.
 */
int cv_collector_text(struct cv_collector *collector, const char **text, size_t *length);
/* True when a snapshot now would lack something: `truncated`, or a tail that does not fit. */
bool cv_collector_incomplete(const struct cv_collector *collector);

#endif
