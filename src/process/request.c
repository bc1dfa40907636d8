#include "process/request.h"

#include <errno.h>
#include <stdlib.h>

#include "output/utf8.h"
#include "process/host.h"
#include "process/limits.h"

_Static_assert(CV_FILES_UNDER_WAY <= CV_FILE_READS_MAX, "more than a supervisor takes");

bool cv_request_is(const struct cv_op *op)
{
    return op->kind == CV_OP_READ_FILE || op->kind == CV_OP_WRITE_FILE;
}

static void fail(struct cv_channel *channel, struct cv_op *op, const char *code,
                 const char *message)
{
    struct cv_err err;
    cv_err_set(&err, code, "%s", message);
    cv_host_finish(channel->host, op, &err);
    cv_buf_free(&op->content);
}

void cv_request_send(struct cv_channel *channel, size_t mark)
{
    while (!cv_list_empty(&channel->waiting) && channel->requests < CV_FILES_UNDER_WAY &&
           cv_buf_length(&channel->out) < mark) {
        struct cv_op *op = cv_list_entry(channel->waiting.next, struct cv_op, feeding);
        bool reads = op->kind == CV_OP_READ_FILE;
        int queued = cv_channel_queue(channel, reads ? CV_FRAME_READ_FILE : CV_FRAME_WRITE_FILE,
                                      op->by_id.id, op->input.bytes, op->input.length);
        cv_channel_stop_input(op);
        if (queued == 0) {
            op->requested = true;
            channel->requests++;
        } else {
            fail(channel, op, "file_failed", "no memory to ask the supervisor");
            cv_channel_land(channel, op);
        }
    }
}

/* The last part has come. */
static void finish_read(struct cv_channel *channel, struct cv_op *op)
{
    size_t length = cv_buf_length(&op->content);
    if (op->done)
        cv_buf_free(&op->content);
    else if (cv_utf8_run(cv_buf_data(&op->content), length) != length)
        fail(channel, op, "not_utf8", "the file is no valid UTF-8");
    else
        cv_host_finish(channel->host, op, NULL);
    cv_channel_land(channel, op);
}

static bool on_file(struct cv_channel *channel, struct cv_op *op, const struct cv_frame *frame)
{
    if (!cv_channel_receive(channel, frame->length))
        return false;
    cv_channel_used(channel, frame->length);
    if (!op->done && cv_buf_append(&op->content, frame->payload, frame->length) != 0) {
        if (errno == ENOBUFS) /* more than was asked for */
            return false;
        fail(channel, op, "file_failed", "no memory for the file");
    }
    if ((frame->flags & CV_FRAME_MORE) == 0)
        finish_read(channel, op);
    return true;
}

static bool on_written(struct cv_channel *channel, struct cv_op *op, const struct cv_frame *frame)
{
    if (frame->length != 0)
        return false;
    cv_host_finish(channel->host, op, NULL);
    cv_channel_land(channel, op);
    return true;
}

bool cv_request_answer(struct cv_channel *channel, struct cv_op *op, const struct cv_frame *frame)
{
    if (!op->requested)
        return false;
    switch (frame->type) {
    case CV_FRAME_FILE:
        return op->kind == CV_OP_READ_FILE && on_file(channel, op, frame);
    case CV_FRAME_WRITTEN:
        return op->kind == CV_OP_WRITE_FILE && on_written(channel, op, frame);
    case CV_FRAME_ERROR:
        return cv_channel_failed(channel, op, frame);
    default:
        return false;
    }
}
