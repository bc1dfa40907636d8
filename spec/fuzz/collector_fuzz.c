/*
 * The output collector on any bytes. An input is a cap (two bytes), a pattern of chunk sizes (two
 * bytes) and what a command prints. The text is compared with the slow reference decoder, as a
 * whole and at snapshots on the way.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "../c/support/utf8_reference.h"
#include "output/collector.h"
#include "require.h"

#define RAW_MAX 1024
/* Looked at on the way; each costs the time of a whole decoding by the reference. */
#define SNAPSHOTS_MAX 4

static void check_valid(const uint8_t *text, size_t length)
{
    size_t size;
    for (size_t at = 0; at < length; at += size) {
        for (size = 1; size <= 4 && size <= length - at; size++) {
            if (reference_is_character(text + at, size))
                break;
        }
        REQUIRE(size <= 4 && size <= length - at);
    }
}

static void check_snapshot(struct cv_collector *collector, const uint8_t *raw, size_t length)
{
    static uint8_t expected[3 * RAW_MAX];
    struct reference reference = reference_decode(raw, length, collector->text.max, expected);
    const char *text;
    size_t got;
    REQUIRE(cv_collector_text(collector, &text, &got) == 0);
    REQUIRE(got <= collector->text.max && collector->text.size <= collector->text.max);
    check_valid((const uint8_t *)text, got);
    REQUIRE(got == reference.length && memcmp(text, expected, got) == 0);
    REQUIRE(cv_collector_incomplete(collector) == reference.incomplete);
    REQUIRE(collector->total == length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4 || size - 4 > RAW_MAX)
        return 0;
    size_t max = (size_t)data[0] | (size_t)data[1] << 8;
    const uint8_t steps[2] = {data[2], data[3]};
    const uint8_t *raw = data + 4;
    size_t length = size - 4;
    struct cv_collector collector;
    cv_collector_init(&collector, max);
    size_t at = 0;
    int snapshots = 0;
    for (size_t turn = 0; at < length; turn++) {
        size_t part = (size_t)steps[turn % 2] + (turn % 2); /* a size of 0 takes turns with 1 */
        if (part > length - at)
            part = length - at;
        /* Memory of its own, so that a read past the chunk shows. */
        uint8_t *chunk = malloc(part);
        if (part > 0)
            memcpy(chunk, raw + at, part);
        REQUIRE(cv_collector_write(&collector, chunk, part) == 0);
        free(chunk);
        at += part;
        if (turn % 16 == 3 && snapshots++ < SNAPSHOTS_MAX)
            check_snapshot(&collector, raw, at);
    }
    check_snapshot(&collector, raw, length);
    cv_collector_free(&collector);
    return 0;
}
