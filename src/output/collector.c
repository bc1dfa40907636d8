#include "output/collector.h"

#include <string.h>

#define REPLACEMENT_SIZE 3
static const uint8_t replacement[REPLACEMENT_SIZE] = {0xef, 0xbf, 0xbd}; /* U+FFFD */

enum sequence {
    SEQUENCE_WHOLE,   /* a well-formed character */
    SEQUENCE_PARTIAL, /* the bytes end inside what may become one */
    SEQUENCE_INVALID, /* a maximal subpart: one U+FFFD */
};

/*
 * Looks at the first character of `length` > 0 bytes; *size becomes the number of bytes that the
 * answer covers. Well-formed is what table 3-7 of the Unicode Standard lists: only the second byte
 * has a range of its own, which rules out overlong forms, surrogates and values over U+10FFFF.
 */
static enum sequence first_sequence(const uint8_t *bytes, size_t length, size_t *size)
{
    uint8_t lead = bytes[0];
    *size = 1;
    if (lead < 0x80)
        return SEQUENCE_WHOLE;
    if (lead < 0xc2 || lead > 0xf4)
        return SEQUENCE_INVALID;
    size_t need = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
    uint8_t low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
    uint8_t high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
    for (; *size < need; (*size)++) {
        if (*size == length)
            return SEQUENCE_PARTIAL;
        if (bytes[*size] < low || bytes[*size] > high)
            return SEQUENCE_INVALID;
        low = 0x80;
        high = 0xbf;
    }
    return SEQUENCE_WHOLE;
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

/* The length of the well-formed text, in whole characters, that `bytes` begin with. */
static size_t valid_run(const uint8_t *bytes, size_t length)
{
    size_t at = 0;
    while (at < length) {
        size_t size = ascii_run(bytes + at, length - at);
        if (size == 0 && first_sequence(bytes + at, length - at, &size) != SEQUENCE_WHOLE)
            break;
        at += size;
    }
    return at;
}

static size_t room_of(const struct cv_collector *collector)
{
    return collector->text.max - cv_buf_length(&collector->text);
}

/* Keeps as many whole characters of a well-formed text as the cap allows. */
static int keep(struct cv_collector *collector, const uint8_t *text, size_t length)
{
    size_t room = room_of(collector);
    if (length > room) {
        collector->truncated = true;
        length = room;
        while (length > 0 && (text[length] & 0xc0) == 0x80)
            length--;
    }
    return length == 0 ? 0 : cv_buf_append(&collector->text, text, length);
}

/*
 * Finishes the pending character with the first bytes, as many as it takes; *taken becomes their
 * number. A byte that proves it invalid is not one of them: it starts the next character.
 */
static int finish_pending(struct cv_collector *collector, const uint8_t *bytes, size_t length,
                          size_t *taken)
{
    *taken = 0;
    while (collector->pending_length > 0 && *taken < length) {
        size_t had = collector->pending_length;
        size_t size;
        collector->pending[had] = bytes[*taken];
        enum sequence found = first_sequence(collector->pending, had + 1, &size);
        if (found != SEQUENCE_INVALID)
            (*taken)++;
        collector->pending_length = found == SEQUENCE_PARTIAL ? (uint8_t)(had + 1) : 0;
        int kept = 0;
        if (found == SEQUENCE_WHOLE)
            kept = keep(collector, collector->pending, size);
        else if (found == SEQUENCE_INVALID)
            kept = keep(collector, replacement, REPLACEMENT_SIZE);
        if (kept != 0)
            return -1;
    }
    return 0;
}

static int decode(struct cv_collector *collector, const uint8_t *bytes, size_t length)
{
    size_t at;
    if (finish_pending(collector, bytes, length, &at) != 0)
        return -1;
    while (at < length && !collector->truncated) {
        size_t size = valid_run(bytes + at, length - at);
        if (keep(collector, bytes + at, size) != 0)
            return -1;
        at += size;
        if (at == length || collector->truncated)
            break;
        if (first_sequence(bytes + at, length - at, &size) == SEQUENCE_PARTIAL) {
            memcpy(collector->pending, bytes + at, size);
            collector->pending_length = (uint8_t)size;
        } else if (keep(collector, replacement, REPLACEMENT_SIZE) != 0) {
            return -1;
        }
        at += size;
    }
    return 0;
}

void cv_collector_init(struct cv_collector *collector, size_t max)
{
    memset(collector, 0, sizeof *collector);
    cv_buf_init(&collector->text, max);
}

void cv_collector_free(struct cv_collector *collector)
{
    cv_buf_free(&collector->text);
}

int cv_collector_write(struct cv_collector *collector, const void *bytes, size_t length)
{
    struct cv_collector before = *collector;
    if (decode(collector, bytes, length) != 0) {
        /* What was kept is taken back; the memory that was got for it stays. */
        before.text.bytes = collector->text.bytes;
        before.text.size = collector->text.size;
        *collector = before;
        return -1;
    }
    collector->total += length;
    return 0;
}

int cv_collector_text(struct cv_collector *collector, const char **text, size_t *length)
{
    size_t size = cv_buf_length(&collector->text);
    if (collector->pending_length > 0 && room_of(collector) >= REPLACEMENT_SIZE) {
        /* Written behind the end and not committed: the next write goes over it. */
        uint8_t *tail = cv_buf_reserve(&collector->text, REPLACEMENT_SIZE);
        if (tail == NULL)
            return -1;
        memcpy(tail, replacement, REPLACEMENT_SIZE);
        size += REPLACEMENT_SIZE;
    }
    *text = size == 0 ? "" : (const char *)cv_buf_data(&collector->text);
    *length = size;
    return 0;
}

bool cv_collector_incomplete(const struct cv_collector *collector)
{
    return collector->truncated ||
           (collector->pending_length > 0 && room_of(collector) < REPLACEMENT_SIZE);
}
