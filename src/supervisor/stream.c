#include "supervisor/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/linux.h"
#include "proto/supervise/frame.h"

/* The supervisor's standard input is /dev/null, open for writing too (reset.c). */
#define NULL_FD 0
/* A turn takes a bounded time, so that an endless writer starves nobody. */
#define SPLICES_PER_TURN 16
#define SPLICE_LENGTH ((size_t)1024 * 1024)
/* A larger pipe drains about twice as fast; few get one, as the kernel budgets pipes per user. */
#define LARGE_PIPE_SIZE (256 * 1024)
#define LARGE_PIPES_MAX 8

void cv_stream_init(struct cv_stream *stream, struct cv_exec *exec, uint8_t type, uint32_t id,
                    uint64_t cap)
{
    *stream = (struct cv_stream){
        .watch.kind = CV_WATCH_STREAM, .exec = exec, .fd = -1, .type = type, .id = id, .cap = cap};
    cv_list_init(&stream->link);
}

bool cv_stream_open(struct cv_runtime *runtime, struct cv_stream *stream, int fd)
{
    /*
     * Edge-triggered: the hang-up of a pipe can't be masked, and a stream that waits for credit
     * must not wake the loop. Every edge ends in reads until the pipe is empty, so none is lost.
     */
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = &stream->watch};
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0 ||
        epoll_ctl(runtime->epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        return false;
    stream->fd = fd;
    return true;
}

void cv_stream_close(struct cv_runtime *runtime, struct cv_stream *stream)
{
    cv_list_remove(&stream->link);
    if (stream->fd < 0)
        return;
    /* A half-started child holds a copy of the descriptor, so closing alone would not stop events.
     */
    epoll_ctl(runtime->epoll, EPOLL_CTL_DEL, stream->fd, NULL);
    cv_fd_close(&stream->fd);
    stream->owed = 0;
    if (stream->large) {
        stream->large = false;
        runtime->large_pipes--;
    }
}

void cv_stream_wake(struct cv_runtime *runtime, struct cv_stream *stream)
{
    if (stream->fd < 0)
        return;
    cv_list_remove(&stream->link);
    cv_list_append(&runtime->ready, &stream->link);
}

void cv_stream_settle(struct cv_stream *stream)
{
    int waiting = 0;
    if (stream->fd >= 0 && ioctl(stream->fd, FIONREAD, &waiting) == 0 && waiting > 0)
        stream->owed = (uint64_t)waiting;
}

static void grow_pipe(struct cv_runtime *runtime, struct cv_stream *stream)
{
    if (stream->large || runtime->large_pipes >= LARGE_PIPES_MAX)
        return;
    if (fcntl(stream->fd, F_SETPIPE_SZ, LARGE_PIPE_SIZE) < 0)
        return; /* EPERM past the user's budget: the small pipe works too */
    stream->large = true;
    runtime->large_pipes++;
}

void cv_stream_discard(struct cv_runtime *runtime, struct cv_stream *stream)
{
    stream->discard = true;
    cv_stream_wake(runtime, stream);
}

static void count(struct cv_stream *stream, uint64_t bytes)
{
    stream->total += bytes;
    stream->owed -= bytes < stream->owed ? bytes : stream->owed;
}

/* What one read or splice came to. */
enum outcome { TOOK, EMPTY, END, STALLED };

static enum outcome outcome_of(ssize_t got)
{
    if (got > 0)
        return TOOK;
    if (got == 0)
        return END;
    if (errno == EINTR)
        return TOOK;
    return errno == EAGAIN ? EMPTY : END;
}

static enum outcome throw_away(struct cv_runtime *runtime, struct cv_stream *stream)
{
    enum outcome outcome = TOOK;
    for (int i = 0; i < SPLICES_PER_TURN && outcome == TOOK; i++) {
        ssize_t got = splice(stream->fd, NULL, NULL_FD, NULL, SPLICE_LENGTH,
                             SPLICE_F_NONBLOCK | SPLICE_F_MOVE);
        outcome = outcome_of(got);
        if (got > 0) {
            count(stream, (uint64_t)got);
            if (i > 0)
                grow_pipe(runtime, stream);
        }
    }
    return outcome;
}

/* What reading would come to, without reading: TOOK when there is something. */
static enum outcome look(const struct cv_stream *stream)
{
    struct pollfd state = {.fd = stream->fd, .events = POLLIN};
    if (poll(&state, 1, 0) <= 0)
        return EMPTY;
    return (state.revents & POLLIN) != 0 ? TOOK : END;
}

void cv_stream_probe(struct cv_runtime *runtime, struct cv_stream *stream)
{
    if (stream->fd >= 0 && look(stream) == END)
        cv_stream_close(runtime, stream);
}

/* A stream that has nothing to send must not wait for credit: its command may be at its end. */
static enum outcome stall(const struct cv_stream *stream)
{
    enum outcome outcome = look(stream);
    return outcome == TOOK ? STALLED : outcome;
}

bool cv_stream_may_send(const struct cv_runtime *runtime, const struct cv_stream *stream)
{
    uint64_t enough = stream->cap < runtime->least_credit ? stream->cap : runtime->least_credit;
    return runtime->credit >= enough && cv_outq_room(&runtime->out);
}

/*
 * A command can make packets of what it writes (O_DIRECT, pipe(2)), and a read loses what it does
 * not take of one. So none asks for less than a whole one: past the cap the rest is only counted.
 */
static enum outcome send_some(struct cv_runtime *runtime, struct cv_stream *stream)
{
    uint64_t most = CV_FRAME_PAYLOAD_MAX;
    if (most > runtime->credit)
        most = runtime->credit;
    size_t length = (size_t)most;
    if (most >= stream->cap) {
        most = stream->cap;
        length = most < PIPE_BUF ? PIPE_BUF : (size_t)most;
    }
    bool may_send = cv_stream_may_send(runtime, stream);
    uint8_t *room = may_send ? cv_outq_reserve(&runtime->out, length) : NULL;
    if (room == NULL)
        return stall(stream);
    ssize_t got = read(stream->fd, room, length);
    if (got > 0) {
        uint64_t sent = (uint64_t)got < most ? (uint64_t)got : most;
        cv_outq_claim(&runtime->out, stream->type, 0, stream->id, (size_t)sent);
        count(stream, (uint64_t)got);
        stream->cap -= sent;
        runtime->credit -= sent;
    }
    return outcome_of(got);
}

bool cv_stream_turn(struct cv_runtime *runtime, struct cv_stream *stream)
{
    uint64_t owed = stream->owed;
    bool dropping = stream->discard || stream->cap == 0;
    enum outcome outcome = dropping ? throw_away(runtime, stream) : send_some(runtime, stream);
    cv_list_remove(&stream->link);
    switch (outcome) {
    case TOOK:
        cv_list_append(&runtime->ready, &stream->link);
        break;
    case STALLED:
        cv_list_append(&runtime->stalled, &stream->link);
        break;
    case EMPTY:
        stream->owed = 0; /* another holder of the pipe has read what was counted */
        break;
    case END:
        cv_stream_close(runtime, stream);
        return true;
    }
    return owed > 0 && stream->owed == 0;
}
