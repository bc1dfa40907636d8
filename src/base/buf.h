/*
 * A growing byte buffer with a stated maximum.
 *
 * Bytes are appended at the end and consumed from the front. Memory is owned by the buffer; a
 * pointer into it is valid until the next call that takes the buffer. Not thread-safe.
 */
#ifndef CV_BASE_BUF_H
#define CV_BASE_BUF_H

#include <stddef.h>
#include <stdint.h>

struct cv_buf {
    uint8_t *bytes; /* NULL while nothing was ever reserved */
    size_t start;   /* first unconsumed byte */
    size_t end;     /* one past the last byte */
    size_t size;    /* allocated */
    size_t max;     /* never holds more unconsumed bytes than this */
};

/* An empty buffer that holds at most `max` bytes; allocates nothing. */
void cv_buf_init(struct cv_buf *buf, size_t max);
/* Releases the memory; the buffer is empty and usable afterwards. */
void cv_buf_free(struct cv_buf *buf);

static inline size_t cv_buf_length(const struct cv_buf *buf)
{
    return buf->end - buf->start;
}

/* The unconsumed bytes; NULL while nothing was ever reserved. */
static inline const uint8_t *cv_buf_data(const struct cv_buf *buf)
{
    return buf->bytes == NULL ? NULL : buf->bytes + buf->start;
}

/*
 * Room for `count` more bytes at the end, to be written by the caller and then claimed with
 * cv_buf_commit. NULL with errno ENOBUFS past the maximum, ENOMEM without memory.
 */
uint8_t *cv_buf_reserve(struct cv_buf *buf, size_t count);
/* Claims `count` bytes that were written after cv_buf_reserve. */
void cv_buf_commit(struct cv_buf *buf, size_t count);
/* Copies `count` bytes to the end. 0, or -1 with errno as cv_buf_reserve; then nothing changed. */
int cv_buf_append(struct cv_buf *buf, const void *bytes, size_t count);
/* Drops `count` bytes (at most the length) from the front. */
void cv_buf_consume(struct cv_buf *buf, size_t count);

#endif
