#include "supervisor/outq.h"

#include <errno.h>
#include <sys/uio.h>

#include "proto/supervise/frame.h"
#include "proto/supervise/wire.h"

#define CONTROL_MAX ((size_t)4 * 1024 * 1024)
#define ORDERED_MAX ((size_t)16 * 1024 * 1024)
/* Output waits in its pipe rather than behind more than this. */
#define OUTPUT_MARK ((size_t)64 * 1024)

void cv_outq_init(struct cv_outq *queue, int fd)
{
    queue->fd = fd;
    queue->torn = 0;
    cv_buf_init(&queue->control, CONTROL_MAX);
    cv_buf_init(&queue->ordered, ORDERED_MAX);
}

bool cv_outq_room(const struct cv_outq *queue)
{
    return cv_buf_length(&queue->ordered) < OUTPUT_MARK;
}

bool cv_outq_control(struct cv_outq *queue, uint8_t type, uint32_t id, const void *payload,
                     size_t length)
{
    return cv_frame_append(&queue->control, type, id, payload, length) == 0;
}

bool cv_outq_ordered(struct cv_outq *queue, uint8_t type, uint32_t id, const void *payload,
                     size_t length)
{
    return cv_frame_append(&queue->ordered, type, id, payload, length) == 0;
}

uint8_t *cv_outq_reserve(struct cv_outq *queue, size_t length)
{
    uint8_t *frame = cv_buf_reserve(&queue->ordered, CV_FRAME_HEADER_SIZE + length);
    return frame == NULL ? NULL : frame + CV_FRAME_HEADER_SIZE;
}

void cv_outq_claim(struct cv_outq *queue, uint8_t type, uint8_t flags, uint32_t id, size_t length)
{
    cv_frame_header(queue->ordered.bytes + queue->ordered.end, type, flags, id, (uint32_t)length);
    cv_buf_commit(&queue->ordered, CV_FRAME_HEADER_SIZE + length);
}

static void add_part(struct iovec *parts, int *count, const struct cv_buf *buf, size_t from,
                     size_t length)
{
    if (length == 0)
        return;
    parts[*count].iov_base = buf->bytes + buf->start + from;
    parts[*count].iov_len = length;
    (*count)++;
}

/* Drops `count` written bytes from the front of a buffer and returns what is left of them. */
static size_t drop(struct cv_buf *buf, size_t count, size_t at_most)
{
    size_t dropped = count < at_most ? count : at_most;
    cv_buf_consume(buf, dropped);
    return count - dropped;
}

/* `written` bytes of whole frames and perhaps a part of the next one have left the queue. */
static void drop_frames(struct cv_outq *queue, size_t written)
{
    while (written > 0) {
        size_t frame = CV_FRAME_HEADER_SIZE + cv_wire_get_u32(cv_buf_data(&queue->ordered));
        if (frame > written) {
            queue->torn = frame - written;
            frame = written;
        }
        cv_buf_consume(&queue->ordered, frame);
        written -= frame;
    }
}

int cv_outq_flush(struct cv_outq *queue)
{
    for (;;) {
        struct iovec parts[3];
        int count = 0;
        size_t torn = queue->torn;
        size_t ordered_length = cv_buf_length(&queue->ordered);
        size_t control_length = cv_buf_length(&queue->control);
        add_part(parts, &count, &queue->ordered, 0, torn);
        add_part(parts, &count, &queue->control, 0, control_length);
        add_part(parts, &count, &queue->ordered, torn, ordered_length - torn);
        if (count == 0)
            return 1;
        ssize_t written = writev(queue->fd, parts, count);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0)
            return errno == EAGAIN ? 0 : -1;
        size_t left = drop(&queue->ordered, (size_t)written, torn);
        queue->torn = torn - ((size_t)written - left);
        left = drop(&queue->control, left, control_length);
        drop_frames(queue, left);
    }
}
