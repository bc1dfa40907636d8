#include "base/buf.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void cv_buf_init(struct cv_buf *buf, size_t max)
{
    memset(buf, 0, sizeof *buf);
    buf->max = max;
}

void cv_buf_free(struct cv_buf *buf)
{
    free(buf->bytes);
    cv_buf_init(buf, buf->max);
}

/* Doubling, but never past what the maximum can need. */
static size_t grown_size(const struct cv_buf *buf, size_t need)
{
    size_t size = buf->size < 256 ? 256 : buf->size;
    while (size < need) {
        if (size > buf->max / 2)
            return buf->max;
        size *= 2;
    }
    return size > buf->max ? buf->max : size;
}

uint8_t *cv_buf_reserve(struct cv_buf *buf, size_t count)
{
    size_t length = cv_buf_length(buf);
    if (count > buf->max || length > buf->max - count) {
        errno = ENOBUFS;
        return NULL;
    }
    if (buf->bytes != NULL && count <= buf->size - buf->end)
        return buf->bytes + buf->end;
    if (buf->start > 0) {
        memmove(buf->bytes, buf->bytes + buf->start, length);
        buf->start = 0;
        buf->end = length;
    }
    if (buf->bytes == NULL || count > buf->size - buf->end) {
        size_t size = grown_size(buf, length + count);
        uint8_t *bytes = realloc(buf->bytes, size == 0 ? 1 : size);
        if (bytes == NULL) {
            errno = ENOMEM;
            return NULL;
        }
        buf->bytes = bytes;
        buf->size = size;
    }
    return buf->bytes + buf->end;
}

void cv_buf_commit(struct cv_buf *buf, size_t count)
{
    buf->end += count;
}

int cv_buf_append(struct cv_buf *buf, const void *bytes, size_t count)
{
    uint8_t *room = cv_buf_reserve(buf, count);
    if (room == NULL)
        return -1;
    if (count > 0)
        memcpy(room, bytes, count);
    cv_buf_commit(buf, count);
    return 0;
}

void cv_buf_consume(struct cv_buf *buf, size_t count)
{
    buf->start += count;
    if (buf->start == buf->end)
        buf->start = buf->end = 0;
}
