#include "process/host.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/linux.h"
#include "process/channel.h"
#include "process/launch.h"
#include "process/limits.h"
#include "proto/supervise/frame.h"

/* How long a guard that was asked to end may take. */
#define END_LIMIT_MS 5000
/* How long a close waits in all for supervisors that have not read yet what was sent before it. */
#define CLOSE_LIMIT_MS 1000

static struct cv_channel *find_channel(const struct cv_host *host, uint32_t workspace)
{
    struct cv_idnode *node = cv_idmap_find(&host->workspaces, workspace);
    return node == NULL ? NULL : cv_list_entry(node, struct cv_channel, by_handle);
}

static struct cv_op *find_op(const struct cv_host *host, uint32_t id)
{
    struct cv_idnode *node = cv_idmap_find(&host->ops, id);
    return node == NULL ? NULL : cv_list_entry(node, struct cv_op, by_id);
}

int cv_host_open(struct cv_host *host, const char *supervisor, struct cv_err *err)
{
    memset(host, 0, sizeof *host);
    host->reactor.epoll = -1;
    cv_idmap_init(&host->ops);
    cv_idmap_init(&host->workspaces);
    host->supervisor = strdup(supervisor);
    host->scratch = malloc(CV_HOST_SCRATCH);
    if (host->supervisor == NULL || host->scratch == NULL) {
        cv_err_set(err, "create_failed", "no memory");
    } else if (cv_reactor_open(&host->reactor, err) == 0) {
        return 0;
    }
    cv_host_close(host);
    return -1;
}

void cv_host_close(struct cv_host *host)
{
    struct cv_idnode *node;
    const int64_t deadline = cv_clock_ms() + CLOSE_LIMIT_MS;
    while ((node = cv_idmap_any(&host->workspaces)) != NULL)
        cv_channel_drop(cv_list_entry(node, struct cv_channel, by_handle), deadline);
    while ((node = cv_idmap_any(&host->ops)) != NULL) {
        struct cv_op *op = cv_list_entry(node, struct cv_op, by_id);
        cv_idmap_remove(&host->ops, node);
        cv_alarm_clear(&host->reactor, &op->alarm);
        cv_source_close(&host->reactor, &op->source);
        cv_list_remove(&op->completion.link);
        cv_op_free(op);
    }
    cv_idmap_free(&host->workspaces);
    cv_idmap_free(&host->ops);
    cv_reactor_close(&host->reactor);
    free(host->supervisor);
    free(host->scratch);
    host->supervisor = NULL;
    host->scratch = NULL;
}

/* ---- operations --------------------------------------------------------------------------- */

bool cv_host_usable(const struct cv_host *host, struct cv_err *err)
{
    if (host->scratch == NULL) {
        cv_err_set(err, "closed", "the core is closed");
        return false;
    }
    if (cv_reactor_foreign(&host->reactor)) {
        cv_err_set(err, "closed", "used in a forked process: start anew in the child");
        return false;
    }
    return true;
}

/* An operation under a new id, or NULL with `err`. */
static struct cv_op *new_op(struct cv_host *host, enum cv_op_kind kind, size_t cap,
                            struct cv_err *err)
{
    struct cv_op *op = cv_op_new(kind, cap);
    do {
        host->last_id++;
    } while (host->last_id == 0 || find_op(host, host->last_id) != NULL);
    if (op != NULL && cv_idmap_add(&host->ops, &op->by_id, host->last_id) == 0)
        return op;
    if (op != NULL)
        cv_op_free(op);
    cv_err_set(err, "start_failed", "no memory for an operation");
    return NULL;
}

static void discard_op(struct cv_host *host, struct cv_op *op)
{
    cv_idmap_remove(&host->ops, &op->by_id);
    cv_op_free(op);
}

void cv_host_announce(struct cv_host *host, struct cv_op *op)
{
    if (op->queued)
        return;
    op->queued = true;
    cv_reactor_complete(&host->reactor, &op->completion, host);
}

void cv_host_finish(struct cv_host *host, struct cv_op *op, const struct cv_err *err)
{
    if (op->done)
        return;
    op->done = true;
    if (err != NULL)
        op->err = *err;
    cv_alarm_clear(&host->reactor, &op->alarm);
    cv_source_close(&host->reactor, &op->source);
    cv_host_announce(host, op);
}

static void timer_strike(struct cv_alarm *alarm)
{
    struct cv_op *op = cv_list_entry(alarm, struct cv_op, alarm);
    cv_host_finish(op->host, op, NULL);
}

uint32_t cv_host_timer(struct cv_host *host, int64_t delay_ms, struct cv_err *err)
{
    struct cv_op *op = cv_host_usable(host, err) ? new_op(host, CV_OP_TIMER, 0, err) : NULL;
    if (op == NULL)
        return 0;
    op->host = host;
    op->alarm.strike = timer_strike;
    if (cv_alarm_set(&host->reactor, &op->alarm, delay_ms) != 0) {
        discard_op(host, op);
        cv_err_set(err, "start_failed", "no memory for a timer");
        return 0;
    }
    return op->by_id.id;
}

static void end_ready(struct cv_source *source, uint32_t events)
{
    (void)events;
    struct cv_op *op = cv_list_entry(source, struct cv_op, source);
    cv_host_finish(op->host, op, NULL);
}

static void end_strike(struct cv_alarm *alarm)
{
    struct cv_err err;
    struct cv_op *op = cv_list_entry(alarm, struct cv_op, alarm);
    cv_err_set(&err, "gc_failed", "the workspace's guard does not end");
    cv_host_finish(op->host, op, &err);
}

uint32_t cv_host_end(struct cv_host *host, int pidfd, struct cv_err *err)
{
    struct cv_op *op = cv_host_usable(host, err) ? new_op(host, CV_OP_END, 0, err) : NULL;
    if (op == NULL) {
        cv_fd_close(&pidfd);
        return 0;
    }
    op->host = host;
    op->source.ready = end_ready;
    op->alarm.strike = end_strike;
    if (cv_pidfd_signal(pidfd, SIGCONT) == 0) /* a command may have stopped it */
        cv_pidfd_signal(pidfd, SIGTERM);
    if (cv_source_open(&host->reactor, &op->source, pidfd, EPOLLIN) != 0 ||
        cv_alarm_set(&host->reactor, &op->alarm, END_LIMIT_MS) != 0) {
        cv_err_set(err, "gc_failed", "can't wait for the workspace's guard");
        if (op->source.fd < 0)
            cv_fd_close(&pidfd);
        cv_source_close(&host->reactor, &op->source);
        discard_op(host, op);
        return 0;
    }
    return op->by_id.id;
}

/* ---- workspaces --------------------------------------------------------------------------- */

static struct cv_channel *start_supervisor(struct cv_host *host, uint32_t handle, int record,
                                           bool removal, struct cv_err *err)
{
    struct cv_launched launched;
    const struct cv_lock_request request = {.fd = record, .removal = removal};
    if (cv_launch(host->supervisor, record < 0 ? NULL : &request, &launched, err) != 0)
        return NULL;
    struct cv_channel *channel = cv_channel_open(host, launched.socket, launched.guard, err);
    if (channel != NULL && cv_idmap_add(&host->workspaces, &channel->by_handle, handle) == 0)
        return channel;
    if (channel != NULL) {
        cv_source_close(&host->reactor, &channel->stream);
        free(channel);
        cv_err_set(err, "create_failed", "no memory for a workspace");
    }
    cv_launch_undo(launched.guard);
    return NULL;
}

static int encode_hello(struct cv_buf *payload, struct cv_hello *hello)
{
    hello->version = CV_FRAME_VERSION;
    hello->credit = CV_OUTPUT_CREDIT;
    hello->stdin_credit = CV_STDIN_CREDIT;
    hello->ping_ms = CV_PING_MS;
    hello->lease_ms = 0;
    return cv_hello_encode(payload, hello);
}

/* Starts the supervisor and queues its hello. NULL with `err`; then nobody waits for it. */
static struct cv_channel *greet_supervisor(struct cv_host *host, uint32_t handle, int record,
                                           bool removal, const struct cv_buf *hello,
                                           struct cv_err *err)
{
    struct cv_channel *channel = start_supervisor(host, handle, record, removal, err);
    if (channel == NULL)
        return NULL;
    if (cv_channel_queue(channel, CV_FRAME_HELLO, 0, cv_buf_data(hello), cv_buf_length(hello)) == 0)
        return channel;
    cv_err_set(err, "create_failed", "no memory for a workspace");
    cv_channel_remove(channel, NULL);
    return NULL;
}

uint32_t cv_host_launch(struct cv_host *host, struct cv_hello *hello, int record,
                        uint32_t *workspace, struct cv_err *err)
{
    struct cv_op *op = cv_host_usable(host, err) ? new_op(host, CV_OP_LAUNCH, 0, err) : NULL;
    struct cv_channel *channel = NULL;
    struct cv_buf payload;
    if (op == NULL)
        return 0;
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    /* The id of its launch is the handle of the workspace: both are never used again. */
    if (encode_hello(&payload, hello) == 0)
        channel = greet_supervisor(host, op->by_id.id, record,
                                   (hello->flags & CV_HELLO_REMOVE_ONLY) != 0, &payload, err);
    else
        cv_err_set(err, "create_failed", "the environment is too large (over %d bytes)",
                   CV_MESSAGE_MAX);
    cv_buf_free(&payload);
    if (channel == NULL) {
        discard_op(host, op);
        return 0;
    }
    op->workspace = *workspace = op->by_id.id;
    channel->launch = op;
    cv_channel_flush(channel);
    return op->by_id.id;
}

/* 0, or -1 with `err`; then nothing was queued. */
static int queue_start(struct cv_channel *channel, const struct cv_op *op,
                       const struct cv_exec_request *request, struct cv_err *err)
{
    struct cv_buf payload;
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    const uint32_t raw_cap = (uint32_t)(request->cap + CV_COLLECTOR_SLACK);
    const struct cv_start start = {
        .flags =
            (op->input.open ? CV_START_STDIN : 0) | (request->stream_all ? CV_START_STREAM_ALL : 0),
        .timeout_ms = request->timeout_ms,
        .stdout_cap = raw_cap,
        .stderr_cap = raw_cap,
        .cwd = request->cwd,
        .argv = request->argv,
    };
    int queued = cv_start_encode(&payload, &start);
    if (queued != 0 && errno == ENOBUFS)
        cv_err_set(err, "invalid_argv", "the arguments are too long: over %d bytes in all",
                   CV_MESSAGE_MAX);
    else if (queued != 0)
        cv_err_set(err, "start_failed", "no memory for the command");
    else if ((queued = cv_channel_queue(channel, CV_FRAME_START, op->by_id.id,
                                        cv_buf_data(&payload), cv_buf_length(&payload))) != 0)
        cv_err_system(err, "start_failed", errno, "can't queue the command for the supervisor");
    cv_buf_free(&payload);
    return queued;
}

/* Copies stdin into the operation. An empty one is none: the command reads end of file either way.
 */
static bool take_input(struct cv_op *op, const struct cv_exec_request *request)
{
    if (request->stdin_length == 0)
        return true;
    op->input.bytes = malloc(request->stdin_length);
    if (op->input.bytes == NULL)
        return false;
    memcpy(op->input.bytes, request->stdin_bytes, request->stdin_length);
    op->input.length = request->stdin_length;
    op->input.credit = CV_STDIN_CREDIT;
    op->input.open = true;
    return true;
}

/* The channel of a workspace that takes work, or NULL with `err`. */
static struct cv_channel *working_channel(struct cv_host *host, uint32_t workspace,
                                          struct cv_err *err)
{
    if (!cv_host_usable(host, err))
        return NULL;
    struct cv_channel *channel = find_channel(host, workspace);
    if (channel != NULL && channel->state == CV_CHANNEL_OPEN && channel->failure.code == NULL)
        return channel;
    cv_err_set(err, "gone", "the workspace's supervisor is gone");
    return NULL;
}

uint32_t cv_host_exec(struct cv_host *host, uint32_t workspace,
                      const struct cv_exec_request *request, struct cv_err *err)
{
    struct cv_channel *channel = working_channel(host, workspace, err);
    if (channel == NULL)
        return 0;
    struct cv_op *op = new_op(host, CV_OP_EXEC, request->cap, err);
    if (op == NULL)
        return 0;
    op->workspace = workspace;
    op->stream_all = request->stream_all;
    if (!take_input(op, request) || cv_channel_fly(channel, op) != 0) {
        discard_op(host, op);
        cv_err_set(err, "start_failed", "no memory for the command's stdin");
        return 0;
    }
    if (queue_start(channel, op, request, err) != 0) {
        cv_idmap_remove(&channel->flights, &op->in_flight);
        discard_op(host, op);
        return 0;
    }
    cv_channel_feed(channel, op);
    cv_channel_flush(channel);
    return op->by_id.id;
}

/* Hands the request over: `payload`, whose memory becomes the operation's. */
static uint32_t request_file(struct cv_host *host, struct cv_channel *channel, enum cv_op_kind kind,
                             uint32_t max, struct cv_buf *payload, struct cv_err *err)
{
    struct cv_op *op = new_op(host, kind, 0, err);
    if (op != NULL && cv_channel_fly(channel, op) != 0) {
        discard_op(host, op);
        cv_err_set(err, "file_failed", "no memory for a request");
        op = NULL;
    }
    if (op == NULL) {
        cv_buf_free(payload);
        return 0;
    }
    op->workspace = channel->by_handle.id;
    op->content.max = max;
    op->input.bytes = payload->bytes;
    op->input.length = cv_buf_length(payload);
    cv_channel_request(channel, op);
    return op->by_id.id;
}

/* What a supervisor would take for a broken protocol must not reach it. */
static bool path_fits(const char *path, struct cv_err *err)
{
    if (path[0] != '/' && strlen(path) <= CV_FILE_PATH_MAX)
        return true;
    cv_err_set(err, "invalid_path", "the path is absolute or longer than %d bytes",
               CV_FILE_PATH_MAX);
    return false;
}

uint32_t cv_host_read_file(struct cv_host *host, uint32_t workspace, const char *path, uint32_t max,
                           struct cv_err *err)
{
    const struct cv_read_file read = {.path = path, .max = max < CV_FILE_MAX ? max : CV_FILE_MAX};
    struct cv_channel *channel = working_channel(host, workspace, err);
    struct cv_buf payload;
    if (channel == NULL || !path_fits(path, err))
        return 0;
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    if (cv_read_file_encode(&payload, &read) == 0)
        return request_file(host, channel, CV_OP_READ_FILE, read.max, &payload, err);
    cv_err_set(err, "file_failed", "no memory for a request");
    return 0;
}

uint32_t cv_host_write_file(struct cv_host *host, uint32_t workspace, const char *path,
                            const void *bytes, size_t length, struct cv_err *err)
{
    const struct cv_write_file write = {.path = path, .bytes = bytes, .length = length};
    struct cv_channel *channel = working_channel(host, workspace, err);
    struct cv_buf payload;
    if (channel == NULL || !path_fits(path, err))
        return 0;
    if (length > CV_FILE_MAX) {
        cv_err_set(err, "file_too_large", "the content has more than %d bytes", CV_FILE_MAX);
        return 0;
    }
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    if (cv_write_file_encode(&payload, &write) == 0)
        return request_file(host, channel, CV_OP_WRITE_FILE, 0, &payload, err);
    cv_err_set(err, "file_failed", "no memory for a request");
    return 0;
}

uint32_t cv_host_remove(struct cv_host *host, uint32_t workspace, struct cv_err *err)
{
    if (!cv_host_usable(host, err))
        return 0;
    struct cv_channel *channel = find_channel(host, workspace);
    if (channel == NULL || channel->removal != NULL) {
        cv_err_set(err, "disposed", "the workspace was removed before");
        return 0;
    }
    struct cv_op *op = new_op(host, CV_OP_REMOVE, 0, err);
    if (op == NULL)
        return 0;
    op->workspace = workspace;
    uint32_t id = op->by_id.id;
    cv_channel_remove(channel, op);
    return id;
}

bool cv_host_lost(const struct cv_host *host, uint32_t workspace)
{
    const struct cv_channel *channel = find_channel(host, workspace);
    return channel == NULL || channel->lost || channel->failure.code != NULL;
}

void cv_host_abort(struct cv_host *host, uint32_t id, const char *code, const char *message)
{
    struct cv_op *op = find_op(host, id);
    struct cv_err err;
    if (op == NULL || op->done || op->kind == CV_OP_REMOVE || cv_reactor_foreign(&host->reactor))
        return;
    cv_err_set(&err, code, "%s", message);
    cv_host_finish(host, op, &err);
    struct cv_channel *channel = find_channel(host, op->workspace);
    if (op->kind == CV_OP_LAUNCH && channel != NULL)
        cv_channel_remove(channel, NULL);
    else if (op->flying)
        cv_channel_abort(channel, op);
}

/* ---- completions -------------------------------------------------------------------------- */

struct cv_op *cv_host_next(const struct cv_host *host)
{
    if (host->scratch == NULL || cv_reactor_foreign(&host->reactor))
        return NULL;
    struct cv_completion *completion = cv_reactor_first(&host->reactor);
    if (completion == NULL || completion->owner != host)
        return NULL;
    return cv_list_entry(completion, struct cv_op, completion);
}

static void dequeue(struct cv_op *op)
{
    cv_list_remove(&op->completion.link);
    op->queued = false;
}

void cv_host_take_chunk(struct cv_host *host, struct cv_op *op)
{
    struct cv_chunk *chunk = cv_op_chunk(op);
    struct cv_channel *channel = find_channel(host, op->workspace);
    size_t length = chunk->length;
    cv_list_remove(&chunk->link);
    free(chunk);
    dequeue(op);
    if (op->done || cv_op_chunk(op) != NULL)
        cv_host_announce(host, op); /* behind the others, so that one loud command starves nobody */
    if (channel == NULL)
        return;
    cv_channel_used(channel, length);
    cv_channel_flush(channel);
}

void cv_host_take(struct cv_host *host, struct cv_op *op)
{
    dequeue(op);
    cv_idmap_remove(&host->ops, &op->by_id);
    if (op->flying)
        op->dropped = true; /* until the supervisor's last frame under its id */
    else
        cv_op_free(op);
}
