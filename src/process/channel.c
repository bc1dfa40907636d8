#include "process/channel.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/linux.h"
#include "process/host.h"
#include "process/inbox.h"
#include "process/limits.h"
#include "process/request.h"
#include "proto/supervise/message.h"
#include "proto/supervise/wire.h"

/* Stdin is queued for the socket only up to here; the rest waits in its operation. */
#define FEED_MARK ((size_t)64 * 1024)
#define OUT_MAX ((size_t)64 * 1024 * 1024)
/* Memory that is kept while nothing is queued. */
#define OUT_KEPT ((size_t)256 * 1024)
/* A healthy supervisor with work to do is heard of at least each CV_PING_MS. */
#define CHECK_MS 5000
#define ENDING_CHECK_MS 250
#define LOST_MS 20000
/* The guard ends at most some 3 s after the stream; past this it is killed, then given up. */
#define REAP_CHECK_MS 50
#define KILL_GUARD_MS 5000
#define GIVE_UP_MS 10000

/* ---- the guard ---------------------------------------------------------------------------- */

/* True when the guard has ended. Its status may have been taken by the host program (ECHILD). */
static bool reap_guard(struct cv_channel *channel)
{
    int status = 0;
    if (channel->guard_pid != 0 && waitpid(channel->guard_pid, &status, WNOHANG) != 0)
        channel->guard_pid = 0;
    if (WIFSIGNALED(status))
        channel->guard_killed = true;
    if (WIFEXITED(status) && WEXITSTATUS(status) == CV_GUARD_LEFT_SOME &&
        channel->failure.code == NULL)
        cv_err_set(&channel->failure, "kill_failed",
                   "the workspace's guard could not kill all that it guarded");
    return channel->guard_pid == 0;
}

/* Signals the guard if it still is our unreaped child, so that its number is its own. */
static void signal_guard(struct cv_channel *channel, int signal)
{
    if (!reap_guard(channel))
        kill(channel->guard_pid, signal);
}

static void free_channel(struct cv_channel *channel)
{
    struct cv_reactor *reactor = &channel->host->reactor;
    cv_source_close(reactor, &channel->stream);
    cv_source_close(reactor, &channel->guard);
    cv_alarm_clear(reactor, &channel->health);
    struct cv_idnode *node;
    while ((node = cv_idmap_any(&channel->flights)) != NULL) {
        struct cv_op *op = cv_channel_flight(node);
        cv_idmap_remove(&channel->flights, node);
        op->flying = false;
        if (op->dropped)
            cv_op_free(op);
    }
    cv_idmap_remove(&channel->host->workspaces, &channel->by_handle);
    cv_idmap_free(&channel->flights);
    cv_frame_reader_free(&channel->reader);
    cv_buf_free(&channel->out);
    free(channel);
}

static void finish_removal(struct cv_channel *channel)
{
    struct cv_err lost;
    const struct cv_err *err = NULL;
    if (channel->failure.code != NULL) {
        err = &channel->failure;
    } else if (!channel->removed) {
        cv_err_set(&lost, "transport_lost", "the workspace's supervisor is gone");
        err = &lost;
    }
    cv_host_finish(channel->host, channel->removal, err);
    free_channel(channel);
}

/* Nothing of guard and supervisor is left: whoever waits for that is told. */
static void over(struct cv_channel *channel)
{
    cv_source_close(&channel->host->reactor, &channel->guard);
    cv_alarm_clear(&channel->host->reactor, &channel->health);
    channel->state = CV_CHANNEL_OVER;
    if (channel->silent && channel->guard_killed && channel->failure.code == NULL)
        cv_err_set(
            &channel->failure, "kill_failed",
            "the workspace's guard was killed and its supervisor does not answer, so what they "
            "looked after may still run");
    if (channel->removal != NULL) {
        finish_removal(channel);
    } else if (channel->launch != NULL) {
        cv_host_finish(channel->host, channel->launch, &channel->failure);
        free_channel(channel);
    } else if (channel->unwanted) {
        free_channel(channel);
    }
}

static void guard_ready(struct cv_source *source, uint32_t events)
{
    (void)events;
    struct cv_channel *channel = cv_list_entry(source, struct cv_channel, guard);
    reap_guard(channel);
    over(channel); /* the pidfd says that it has ended, whoever took its status */
}

static void reap_later(struct cv_channel *channel)
{
    if (reap_guard(channel)) {
        over(channel);
        return;
    }
    if (channel->reaping_ms == KILL_GUARD_MS) {
        kill(channel->guard_pid, SIGKILL);
        if (channel->failure.code == NULL && !channel->removed)
            cv_err_set(&channel->failure, "kill_failed",
                       "the workspace's guard had to be killed, so what it guarded may still run");
    }
    if (channel->reaping_ms >= GIVE_UP_MS) {
        over(channel);
        return;
    }
    kill(channel->guard_pid, SIGCONT); /* a command may have stopped it */
    channel->reaping_ms += REAP_CHECK_MS;
    if (cv_alarm_set(&channel->host->reactor, &channel->health, REAP_CHECK_MS) != 0)
        over(channel);
}

/* The stream has ended: by the rules of the guard everything is dead, or is about to be. */
static void begin_reaping(struct cv_channel *channel)
{
    struct cv_reactor *reactor = &channel->host->reactor;
    cv_source_close(reactor, &channel->stream);
    channel->state = CV_CHANNEL_REAPING;
    if (channel->guard_pid != 0) {
        int pidfd = cv_fd_above_stdio(cv_pidfd_open(channel->guard_pid));
        /* Not our child any more, so perhaps another's number: its status was taken, it is dead. */
        if (pidfd >= 0 && (waitid((idtype_t)CV_P_PIDFD, (id_t)pidfd, &(siginfo_t){0},
                                  WEXITED | WNOHANG | WNOWAIT) != 0 ||
                           cv_source_open(reactor, &channel->guard, pidfd, EPOLLIN) != 0))
            close(pidfd);
    }
    reap_later(channel);
}

/* ---- the end of operations ---------------------------------------------------------------- */

void cv_channel_stop_input(struct cv_op *op)
{
    cv_list_remove(&op->feeding);
    free(op->input.bytes);
    op->input = (struct cv_input){0};
}

void cv_channel_land(struct cv_channel *channel, struct cv_op *op)
{
    cv_channel_stop_input(op);
    if (op->requested)
        channel->requests--;
    op->requested = false;
    if (op->abort_owed)
        channel->aborts_owed--;
    op->abort_owed = false;
    cv_idmap_remove(&channel->flights, &op->in_flight);
    op->flying = false;
    if (op->dropped)
        cv_op_free(op);
}

/* Every operation under way ends with the error; the supervisor may still send their last frames.
 */
void cv_channel_fail_flights(struct cv_channel *channel, const struct cv_err *err)
{
    for (size_t i = 0; i < channel->flights.size; i++) {
        for (struct cv_idnode *node = channel->flights.buckets[i]; node != NULL;
             node = node->next) {
            struct cv_op *op = cv_channel_flight(node);
            cv_channel_stop_input(op);
            cv_host_finish(channel->host, op, err);
        }
    }
}

static void fail_launch(struct cv_channel *channel, const struct cv_err *err)
{
    if (channel->launch != NULL && channel->failure.code == NULL)
        channel->failure = *err;
}

static void lose(struct cv_channel *channel, const char *message)
{
    struct cv_err err;
    cv_err_set(&err, "transport_lost", "%s", message);
    fail_launch(channel, &err);
    cv_channel_fail_flights(channel, &err);
    channel->lost = true;
    begin_reaping(channel);
}

/* ---- the end of the stream ----------------------------------------------------------------- */

static void on_end_of_file(struct cv_channel *channel)
{
    if (channel->state == CV_CHANNEL_ENDING || channel->failure.code != NULL) {
        channel->lost = channel->lost || channel->state == CV_CHANNEL_OPEN;
        begin_reaping(channel);
    } else {
        lose(channel, "the workspace's supervisor has ended unexpectedly");
    }
}

static void stream_ready(struct cv_source *source, uint32_t events)
{
    struct cv_channel *channel = cv_list_entry(source, struct cv_channel, stream);
    if ((events & ~(uint32_t)EPOLLOUT) != 0) {
        ssize_t got = recv(source->fd, channel->host->scratch, CV_HOST_SCRATCH, MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR)) {
            on_end_of_file(channel);
            return;
        }
        channel->heard = true;
        if (got > 0 && !cv_inbox_read(channel, (size_t)got)) {
            lose(channel, "the workspace's supervisor sent garbage");
            return;
        }
    }
    cv_channel_flush(channel);
}

/* ---- sending ------------------------------------------------------------------------------ */

int cv_channel_queue(struct cv_channel *channel, uint8_t type, uint32_t id, const void *bytes,
                     size_t length)
{
    return cv_frame_append(&channel->out, type, id, bytes, length);
}

static bool active(const struct cv_channel *channel)
{
    return channel->state == CV_CHANNEL_GREETING || channel->state == CV_CHANNEL_ENDING ||
           channel->flights.count > 0;
}

static int check_interval(const struct cv_channel *channel)
{
    return channel->state == CV_CHANNEL_ENDING ? ENDING_CHECK_MS : CHECK_MS;
}

/* Silence counts in time of our own stepping: a host that was busy itself has not listened. */
static void health_strike(struct cv_alarm *alarm)
{
    struct cv_channel *channel = cv_list_entry(alarm, struct cv_channel, health);
    if (channel->state >= CV_CHANNEL_REAPING) {
        reap_later(channel);
        return;
    }
    channel->silent_ms =
        channel->heard ? 0 : channel->silent_ms + (unsigned)check_interval(channel);
    channel->heard = false;
    if (!active(channel))
        return;
    if (channel->silent_ms >= LOST_MS) {
        channel->silent = true;
        lose(channel, "the workspace's supervisor does not answer");
        return;
    }
    if (channel->state == CV_CHANNEL_ENDING || channel->silent_ms > 0)
        signal_guard(channel,
                     SIGCONT); /* a stopped guard can't see that its supervisor is stopped */
    cv_alarm_set(&channel->host->reactor, &channel->health, check_interval(channel));
    cv_channel_flush(channel); /* what found no memory is tried again */
}

/* False when the socket takes no more for now. */
static bool write_out(struct cv_channel *channel)
{
    while (cv_buf_length(&channel->out) > 0) {
        ssize_t sent = send(channel->stream.fd, cv_buf_data(&channel->out),
                            cv_buf_length(&channel->out), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent >= 0)
            cv_buf_consume(&channel->out, (size_t)sent);
        else if (errno == EAGAIN || errno == ENOBUFS || errno == ENOMEM)
            return false;
        else if (errno != EINTR) /* nobody reads: the end of file tells, after the last frames */
            cv_buf_consume(&channel->out, cv_buf_length(&channel->out));
    }
    return true;
}

static void feed_waiting(struct cv_channel *channel)
{
    struct cv_list waiting;
    cv_list_init(&waiting);
    while (!cv_list_empty(&channel->feeding)) {
        struct cv_list *link = channel->feeding.next;
        cv_list_remove(link);
        cv_list_append(&waiting, link);
    }
    while (!cv_list_empty(&waiting)) {
        struct cv_op *op = cv_list_entry(waiting.next, struct cv_op, feeding);
        cv_channel_feed(channel, op);
    }
}

static void queue_abort(struct cv_channel *channel, struct cv_op *op)
{
    bool owed = cv_channel_queue(channel, CV_FRAME_ABORT, op->by_id.id, NULL, 0) != 0;
    channel->aborts_owed += (unsigned)owed - (unsigned)op->abort_owed;
    op->abort_owed = owed;
}

static void queue_removal(struct cv_channel *channel)
{
    uint32_t id = channel->removal == NULL ? 0 : channel->removal->by_id.id;
    channel->removal_owed = cv_channel_queue(channel, CV_FRAME_REMOVE, id, NULL, 0) != 0;
}

/* What must reach the supervisor and found no memory when it was due. */
static void queue_owed(struct cv_channel *channel)
{
    cv_channel_used(channel, 0);
    if (channel->removal_owed)
        queue_removal(channel);
    for (size_t i = 0; i < channel->flights.size && channel->aborts_owed > 0; i++) {
        for (struct cv_idnode *node = channel->flights.buckets[i]; node != NULL;
             node = node->next) {
            struct cv_op *op = cv_channel_flight(node);
            if (op->abort_owed)
                queue_abort(channel, op);
        }
    }
}

void cv_channel_flush(struct cv_channel *channel)
{
    if (channel->state >= CV_CHANNEL_REAPING)
        return;
    queue_owed(channel);
    bool written;
    do {
        written = write_out(channel);
        if (written) {
            cv_request_send(channel, FEED_MARK);
            feed_waiting(channel);
        }
    } while (written && cv_buf_length(&channel->out) > 0);
    if (written && channel->out.size > OUT_KEPT)
        cv_buf_free(&channel->out);
    cv_source_want(&channel->host->reactor, &channel->stream,
                   written ? EPOLLIN : EPOLLIN | EPOLLOUT);
    /* Not left to close alone: a fork of the host may hold the socket. */
    if (written && channel->state == CV_CHANNEL_ENDING && !channel->removal_owed &&
        !channel->shut_down) {
        shutdown(channel->stream.fd, SHUT_WR);
        channel->shut_down = true;
    }
    if (active(channel) && !cv_timer_armed(&channel->health.timer)) {
        channel->heard = true;
        cv_alarm_set(&channel->host->reactor, &channel->health, check_interval(channel));
    }
}

void cv_channel_feed(struct cv_channel *channel, struct cv_op *op)
{
    struct cv_input *input = &op->input;
    cv_list_remove(&op->feeding);
    while (input->open && input->credit > 0 && input->sent < input->length) {
        if (cv_buf_length(&channel->out) >= FEED_MARK) {
            cv_list_append(&channel->feeding, &op->feeding);
            return;
        }
        size_t part = input->length - input->sent;
        if (part > CV_FRAME_PAYLOAD_MAX)
            part = CV_FRAME_PAYLOAD_MAX;
        if (part > input->credit)
            part = (size_t)input->credit;
        if (cv_channel_queue(channel, CV_FRAME_STDIN, op->by_id.id, input->bytes + input->sent,
                             part) != 0) {
            cv_list_append(&channel->feeding, &op->feeding); /* no memory: for a better time */
            return;
        }
        input->sent += part;
        input->credit -= part;
    }
    if (!input->open || input->sent < input->length)
        return;
    if (cv_channel_queue(channel, CV_FRAME_STDIN_END, op->by_id.id, NULL, 0) == 0)
        cv_channel_stop_input(op);
    else
        cv_list_append(&channel->feeding, &op->feeding);
}

void cv_channel_used(struct cv_channel *channel, uint64_t bytes)
{
    channel->to_return += bytes;
    /* Behind a removal nobody reads it, and a supervisor that floods the host runs out of it. */
    if (channel->to_return < CV_OUTPUT_CREDIT / 4 || channel->state >= CV_CHANNEL_ENDING)
        return;
    uint8_t payload[CV_U32_SIZE];
    cv_wire_put_u32(payload, (uint32_t)channel->to_return);
    if (cv_channel_queue(channel, CV_FRAME_CREDIT, 0, payload, sizeof payload) != 0)
        return;
    channel->unreturned -= channel->to_return;
    channel->to_return = 0;
}

int cv_channel_fly(struct cv_channel *channel, struct cv_op *op)
{
    if (cv_idmap_add(&channel->flights, &op->in_flight, op->by_id.id) != 0)
        return -1;
    op->flying = true;
    return 0;
}

void cv_channel_request(struct cv_channel *channel, struct cv_op *op)
{
    cv_list_append(&channel->waiting, &op->feeding);
    cv_channel_flush(channel);
}

void cv_channel_abort(struct cv_channel *channel, struct cv_op *op)
{
    cv_channel_stop_input(op);
    if (cv_request_is(op)) {
        cv_buf_free(&op->content);
        if (!op->requested)
            cv_channel_land(channel, op);
        return;
    }
    cv_channel_used(channel, cv_op_drop_chunks(op));
    queue_abort(channel, op);
    cv_channel_flush(channel);
}

/* ---- life --------------------------------------------------------------------------------- */

struct cv_channel *cv_channel_open(struct cv_host *host, int socket, pid_t guard,
                                   struct cv_err *err)
{
    struct cv_channel *channel = calloc(1, sizeof *channel);
    if (channel == NULL) {
        cv_fd_close(&socket);
        cv_err_set(err, "create_failed", "no memory for a workspace");
        return NULL;
    }
    channel->host = host;
    channel->guard_pid = guard;
    channel->state = CV_CHANNEL_GREETING;
    channel->stream.ready = stream_ready;
    channel->guard.ready = guard_ready;
    channel->guard.fd = -1;
    channel->health.strike = health_strike;
    cv_frame_reader_init(&channel->reader, 's');
    cv_buf_init(&channel->out, OUT_MAX);
    cv_idmap_init(&channel->flights);
    cv_list_init(&channel->feeding);
    cv_list_init(&channel->waiting);
    if (cv_source_open(&host->reactor, &channel->stream, socket, EPOLLIN) != 0) {
        cv_err_system(err, "create_failed", errno, "can't watch the supervisor");
        cv_fd_close(&socket);
        free(channel);
        return NULL;
    }
    return channel;
}

void cv_channel_remove(struct cv_channel *channel, struct cv_op *removal)
{
    struct cv_err disposed;
    cv_err_set(&disposed, "disposed", "the workspace was disposed");
    channel->removal = removal;
    channel->unwanted = removal == NULL;
    if (channel->launch != NULL)
        cv_host_finish(channel->host, channel->launch,
                       channel->failure.code != NULL ? &channel->failure : &disposed);
    channel->launch = NULL;
    cv_channel_fail_flights(channel, &disposed);
    if (channel->state == CV_CHANNEL_OVER && removal != NULL) {
        finish_removal(channel);
        return;
    }
    if (channel->state >= CV_CHANNEL_REAPING)
        return;
    channel->state = CV_CHANNEL_ENDING;
    channel->silent_ms = 0;
    cv_alarm_clear(&channel->host->reactor, &channel->health);
    queue_removal(channel);
    cv_channel_flush(channel);
    signal_guard(channel, SIGCONT);
}

/* Writes all that is queued, or what the supervisor takes until the deadline. */
static void write_last_words(struct cv_channel *channel, int64_t deadline)
{
    while (!write_out(channel)) {
        struct pollfd room = {.fd = channel->stream.fd, .events = POLLOUT};
        int64_t left = deadline - cv_clock_ms();
        if (left <= 0)
            return;
        poll(&room, 1, (int)left);
    }
}

void cv_channel_drop(struct cv_channel *channel, int64_t deadline)
{
    bool foreign = cv_reactor_foreign(&channel->host->reactor);
    bool live = channel->state < CV_CHANNEL_REAPING;
    if (live && !foreign) {
        cv_channel_queue(channel, CV_FRAME_REMOVE, 0, NULL, 0);
        write_last_words(channel, deadline);
        shutdown(channel->stream.fd, SHUT_WR);
        signal_guard(channel, SIGCONT);
    }
    free_channel(channel);
}
