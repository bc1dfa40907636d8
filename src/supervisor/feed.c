#include "supervisor/feed.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/supervise/frame.h"
#include "proto/supervise/message.h"
#include "proto/supervise/wire.h"

/* Credit goes back in portions, not for every small write. */
#define CREDIT_PORTION 16384

void cv_feed_init(struct cv_feed *feed, uint32_t id, uint32_t credit)
{
    *feed = (struct cv_feed){.watch.kind = CV_WATCH_FEED, .id = id, .fd = -1};
    cv_buf_init(&feed->bytes, credit);
}

bool cv_feed_open(struct cv_feed *feed, int fd)
{
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        return false;
    feed->fd = fd;
    return true;
}

void cv_feed_close(struct cv_runtime *runtime, struct cv_feed *feed)
{
    if (feed->fd >= 0 && feed->watched)
        epoll_ctl(runtime->epoll, EPOLL_CTL_DEL, feed->fd, NULL);
    cv_fd_close(&feed->fd);
    cv_buf_free(&feed->bytes);
}

static void give_credit(struct cv_runtime *runtime, struct cv_feed *feed)
{
    bool empty = cv_buf_length(&feed->bytes) == 0;
    if (feed->ended || feed->written == 0 || (feed->written < CREDIT_PORTION && !empty))
        return;
    uint8_t portion[CV_U32_SIZE];
    cv_wire_put_u32(portion, feed->written);
    feed->written = 0;
    if (!cv_outq_control(&runtime->out, CV_FRAME_STDIN_CREDIT, feed->id, portion, sizeof portion))
        runtime->broken = true;
}

/* The command closed its end: what is left has no reader, and the host need not send the rest. */
static void reader_gone(struct cv_runtime *runtime, struct cv_feed *feed)
{
    cv_feed_close(runtime, feed);
    if (!feed->ended && !cv_outq_control(&runtime->out, CV_FRAME_STDIN_CLOSED, feed->id, NULL, 0))
        runtime->broken = true;
}

/* Edge-triggered: a pipe without a reader would report its error for ever. */
static void watch(struct cv_runtime *runtime, struct cv_feed *feed)
{
    struct epoll_event event = {.events = EPOLLOUT | EPOLLET, .data.ptr = &feed->watch};
    if (feed->watched)
        return;
    if (epoll_ctl(runtime->epoll, EPOLL_CTL_ADD, feed->fd, &event) == 0)
        feed->watched = true;
    else
        reader_gone(runtime, feed); /* no memory to watch it: the command sees end of file */
}

void cv_feed_wake(struct cv_runtime *runtime, struct cv_feed *feed)
{
    while (feed->fd >= 0 && cv_buf_length(&feed->bytes) > 0) {
        ssize_t written = write(feed->fd, cv_buf_data(&feed->bytes), cv_buf_length(&feed->bytes));
        if (written > 0) {
            cv_buf_consume(&feed->bytes, (size_t)written);
            feed->written += (uint32_t)written;
        } else if (errno == EAGAIN) {
            watch(runtime, feed);
            break;
        } else if (errno != EINTR) {
            reader_gone(runtime, feed);
        }
    }
    if (feed->fd < 0)
        return;
    if (feed->ended && cv_buf_length(&feed->bytes) == 0)
        cv_feed_close(runtime, feed);
    else
        give_credit(runtime, feed);
}

bool cv_feed_add(struct cv_runtime *runtime, struct cv_feed *feed, const uint8_t *bytes,
                 size_t length)
{
    if (feed->fd < 0)
        return true;
    if (cv_buf_append(&feed->bytes, bytes, length) != 0)
        return false;
    cv_feed_wake(runtime, feed);
    return true;
}

void cv_feed_end(struct cv_runtime *runtime, struct cv_feed *feed)
{
    feed->ended = true;
    cv_feed_wake(runtime, feed);
}
