/*
 * Lines as a hostile engine may send them. The first byte of an input is the size of the chunks
 * (0: all at once), the second the bound of a line, the rest the stream. What comes out is compared
 * with a plain reading of the whole.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/ndjson.h"
#include "require.h"

struct reader {
    const char *at;
    const char *end;
    size_t max;
};

/* The next line that is not empty. 1, 0 at the end, -1 when it is too long. */
static int plain_line(struct reader *reader, const char **line, size_t *length)
{
    while (reader->at < reader->end) {
        const char *end = memchr(reader->at, '\n', (size_t)(reader->end - reader->at));
        *line = reader->at;
        *length = (size_t)((end == NULL ? reader->end : end) - reader->at);
        reader->at = end == NULL ? reader->end : end + 1;
        if (*length > 0 && (*line)[*length - 1] == '\r')
            --*length;
        if (*length > reader->max)
            return -1;
        if (*length > 0)
            return 1;
    }
    return 0;
}

static void check(struct reader *reader, int got, const char *line, size_t length)
{
    const char *plain;
    size_t plain_length;
    REQUIRE(plain_line(reader, &plain, &plain_length) == got);
    if (got > 0)
        REQUIRE(length == plain_length && memcmp(line, plain, length) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_ndjson splitter;
    const char *line = NULL;
    size_t length = 0;
    if (size < 3)
        return 0;
    const size_t step = data[0] == 0 ? size : data[0];
    struct reader reader = {(const char *)data + 2, (const char *)data + size, data[1]};
    cv_ndjson_init(&splitter, data[1]);
    int got = 0;
    for (size_t at = 2; at < size && got == 0; at += step) {
        size_t count = step < size - at ? step : size - at;
        uint8_t *chunk = malloc(count);
        memcpy(chunk, data + at, count);
        cv_ndjson_push(&splitter, chunk, count);
        while ((got = cv_ndjson_next(&splitter, &line, &length)) > 0)
            check(&reader, got, line, length);
        free(chunk);
    }
    if (got == 0)
        got = cv_ndjson_end(&splitter, &line, &length);
    check(&reader, got, line, length);
    REQUIRE(splitter.carry.size <= splitter.carry.max);
    cv_ndjson_free(&splitter);
    return 0;
}
