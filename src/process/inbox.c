#include "process/inbox.h"

#include <stdlib.h>
#include <string.h>

#include "process/host.h"
#include "process/limits.h"
#include "process/request.h"
#include "proto/supervise/message.h"

static void failure_to_err(const struct cv_failure *failure, struct cv_err *err)
{
    const char *code = cv_failure_public_code(failure->code);
    int length = (int)failure->length;
    if (failure->errnum != 0)
        cv_err_system(err, code, (int)failure->errnum, "%.*s", length, failure->text);
    else if (length == 0 || failure->text[0] == '\0')
        cv_err_set(err, code, "the supervisor gives no reason");
    else
        cv_err_set(err, code, "%.*s", length, failure->text);
}

bool cv_channel_receive(struct cv_channel *channel, uint32_t bytes)
{
    channel->unreturned += bytes;
    return channel->unreturned <= CV_OUTPUT_CREDIT;
}

static bool on_output(struct cv_channel *channel, struct cv_op *op, const struct cv_frame *frame)
{
    enum cv_stream_name stream = frame->type == CV_FRAME_STDOUT ? CV_STDOUT : CV_STDERR;
    if (!cv_channel_receive(channel, frame->length))
        return false;
    if (op->done || frame->length == 0) {
        cv_channel_used(channel, frame->length);
        return true;
    }
    bool kept = cv_collector_write(&op->output[stream], frame->payload, frame->length) == 0;
    if (kept && op->stream_all) {
        struct cv_chunk *chunk = malloc(sizeof *chunk + frame->length);
        kept = chunk != NULL;
        if (kept) {
            chunk->stream = stream;
            chunk->length = frame->length;
            memcpy(chunk->bytes, frame->payload, frame->length);
            cv_list_append(&op->chunks, &chunk->link);
            cv_host_announce(channel->host, op);
            return true;
        }
    }
    cv_channel_used(channel, frame->length);
    if (!kept)
        cv_host_abort(channel->host, op->by_id.id, "start_failed", "no memory for its output");
    return true;
}

static bool on_ended(struct cv_channel *channel, struct cv_op *op, const struct cv_frame *frame)
{
    struct cv_ended ended;
    if (!cv_ended_decode(frame->payload, frame->length, &ended))
        return false;
    if (!op->done)
        op->ended = ended;
    cv_host_finish(channel->host, op, NULL);
    cv_channel_land(channel, op);
    return true;
}

bool cv_channel_failed(struct cv_channel *channel, struct cv_op *op, const struct cv_frame *frame)
{
    struct cv_failure failure;
    struct cv_err err;
    if (!cv_failure_decode(frame->payload, frame->length, &failure))
        return false;
    failure_to_err(&failure, &err);
    cv_host_finish(channel->host, op, &err);
    cv_channel_land(channel, op);
    return true;
}

/* The stream or the removal has failed; the supervisor ends after it by itself. */
static bool on_stream_failure(struct cv_channel *channel, const struct cv_frame *frame)
{
    struct cv_failure failure;
    if (!cv_failure_decode(frame->payload, frame->length, &failure))
        return false;
    if (channel->failure.code == NULL)
        failure_to_err(&failure, &channel->failure);
    cv_channel_fail_flights(channel, &channel->failure);
    return true;
}

static bool on_stdin_credit(struct cv_channel *channel, struct cv_op *op,
                            const struct cv_frame *frame)
{
    uint32_t credit;
    if (!cv_u32_decode(frame->payload, frame->length, &credit))
        return false;
    op->input.credit += credit;
    cv_channel_feed(channel, op);
    return true;
}

static bool on_removed(struct cv_channel *channel, const struct cv_frame *frame)
{
    uint32_t survivors;
    if (channel->state != CV_CHANNEL_ENDING ||
        !cv_u32_decode(frame->payload, frame->length, &survivors))
        return false;
    channel->removed = true;
    if (survivors > 0 && channel->failure.code == NULL)
        cv_err_set(&channel->failure, "remove_failed", "%u processes could not be killed",
                   (unsigned)survivors);
    return true;
}

/* False for a frame that no honest supervisor sends. */
static bool on_flight_frame(struct cv_channel *channel, const struct cv_frame *frame)
{
    struct cv_idnode *node = cv_idmap_find(&channel->flights, frame->id);
    if (node == NULL)
        return false;
    struct cv_op *op = cv_channel_flight(node);
    if (cv_request_is(op))
        return cv_request_answer(channel, op, frame);
    switch (frame->type) {
    case CV_FRAME_STDOUT:
    case CV_FRAME_STDERR:
        return on_output(channel, op, frame);
    case CV_FRAME_STDIN_CREDIT:
        return on_stdin_credit(channel, op, frame);
    case CV_FRAME_STDIN_CLOSED:
        cv_channel_stop_input(op);
        return true;
    case CV_FRAME_ENDED:
        return on_ended(channel, op, frame);
    case CV_FRAME_ERROR:
        return cv_channel_failed(channel, op, frame);
    default:
        return false;
    }
}

static bool on_ready(struct cv_channel *channel, const struct cv_frame *frame)
{
    uint32_t version;
    if (!cv_u32_decode(frame->payload, frame->length, &version) || version != CV_FRAME_VERSION ||
        channel->failure.code != NULL)
        return false;
    if (channel->state != CV_CHANNEL_GREETING)
        return channel->state == CV_CHANNEL_ENDING;
    channel->state = CV_CHANNEL_OPEN;
    cv_host_finish(channel->host, channel->launch, NULL);
    channel->launch = NULL;
    return true;
}

static bool on_ping(struct cv_channel *channel)
{
    /* Any frame renews the lease, so that pings can't make a queue that nobody reads grow. */
    if (cv_buf_length(&channel->out) == 0)
        cv_channel_queue(channel, CV_FRAME_PONG, 0, NULL, 0);
    return channel->state != CV_CHANNEL_GREETING; /* the hello has not told how often yet */
}

static bool on_frame(struct cv_channel *channel, const struct cv_frame *frame)
{
    if ((frame->flags & CV_FRAME_MORE) != 0 && frame->type != CV_FRAME_FILE)
        return false;
    bool of_removal = channel->removal != NULL && frame->id == channel->removal->by_id.id;
    switch (frame->type) {
    case CV_FRAME_PING:
        return on_ping(channel);
    case CV_FRAME_READY:
        return on_ready(channel, frame);
    case CV_FRAME_REMOVED:
        return on_removed(channel, frame);
    case CV_FRAME_ERROR:
        if (frame->id == 0 || of_removal)
            return on_stream_failure(channel, frame);
        return on_flight_frame(channel, frame);
    default:
        return on_flight_frame(channel, frame);
    }
}

bool cv_inbox_read(struct cv_channel *channel, size_t length)
{
    cv_frame_reader_push(&channel->reader, channel->host->scratch, length);
    for (;;) {
        struct cv_frame frame;
        int next = cv_frame_reader_next(&channel->reader, &frame);
        if (next == 0)
            return true;
        if (next < 0 || !on_frame(channel, &frame))
            return false;
    }
}
