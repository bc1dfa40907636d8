#include "output/collector.h"

#include <string.h>

#include "output/utf8.h"

#define REPLACEMENT_SIZE 3
static const uint8_t replacement[REPLACEMENT_SIZE] = {0xef, 0xbf, 0xbd}; /* U+FFFD */

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
        enum cv_utf8 found = cv_utf8_first(collector->pending, had + 1, &size);
        if (found != CV_UTF8_INVALID)
            (*taken)++;
        collector->pending_length = found == CV_UTF8_PARTIAL ? (uint8_t)(had + 1) : 0;
        int kept = 0;
        if (found == CV_UTF8_WHOLE)
            kept = keep(collector, collector->pending, size);
        else if (found == CV_UTF8_INVALID)
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
        size_t size = cv_utf8_run(bytes + at, length - at);
        if (keep(collector, bytes + at, size) != 0)
            return -1;
        at += size;
        if (at == length || collector->truncated)
            break;
        if (cv_utf8_first(bytes + at, length - at, &size) == CV_UTF8_PARTIAL) {
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
