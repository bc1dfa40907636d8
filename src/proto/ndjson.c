#include "proto/ndjson.h"

#include <string.h>

void cv_ndjson_init(struct cv_ndjson *splitter, size_t max)
{
    memset(splitter, 0, sizeof *splitter);
    cv_buf_init(&splitter->carry, max + 1); /* and the CR of a line end */
}

void cv_ndjson_free(struct cv_ndjson *splitter)
{
    cv_buf_free(&splitter->carry);
}

void cv_ndjson_push(struct cv_ndjson *splitter, const void *bytes, size_t length)
{
    splitter->chunk = bytes;
    splitter->length = length;
}

static int broken(struct cv_ndjson *splitter)
{
    splitter->broken = true;
    return -1;
}

static void drop_carry(struct cv_ndjson *splitter)
{
    if (splitter->carry_out)
        cv_buf_consume(&splitter->carry, cv_buf_length(&splitter->carry));
    splitter->carry_out = false;
}

/* The line without its CR; 0 when nothing is left, -1 when it is too long. */
static int finish_line(struct cv_ndjson *splitter, const char **line, size_t *length)
{
    if (*length > 0 && (*line)[*length - 1] == '\r')
        --*length;
    if (*length > splitter->carry.max - 1)
        return broken(splitter);
    return *length > 0;
}

int cv_ndjson_next(struct cv_ndjson *splitter, const char **line, size_t *length)
{
    int got = 0;
    drop_carry(splitter);
    while (!splitter->broken && splitter->length > 0 && got == 0) {
        const char *chunk = splitter->chunk;
        const char *end = memchr(chunk, '\n', splitter->length);
        const size_t count = end == NULL ? splitter->length : (size_t)(end - chunk);
        const size_t used = count + (end == NULL ? 0 : 1);
        splitter->chunk += used;
        splitter->length -= used;
        drop_carry(splitter);
        if (end != NULL && cv_buf_length(&splitter->carry) == 0) {
            *line = chunk;
            *length = count;
            got = finish_line(splitter, line, length);
            continue;
        }
        if (cv_buf_append(&splitter->carry, chunk, count) != 0)
            return broken(splitter);
        if (end == NULL)
            return 0;
        splitter->carry_out = true;
        *line = (const char *)cv_buf_data(&splitter->carry);
        *length = cv_buf_length(&splitter->carry);
        got = finish_line(splitter, line, length);
    }
    return splitter->broken ? -1 : got;
}

int cv_ndjson_end(struct cv_ndjson *splitter, const char **line, size_t *length)
{
    drop_carry(splitter);
    if (splitter->broken)
        return -1;
    splitter->carry_out = true;
    *line = (const char *)cv_buf_data(&splitter->carry);
    *length = cv_buf_length(&splitter->carry);
    return finish_line(splitter, line, length);
}
