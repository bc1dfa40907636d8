#include "proto/websocket.h"

#include <stdlib.h>
#include <string.h>
#include <wslay/wslay.h>

#include "proto/digest.h"

/* How much is taken of the chunk at once; wslay reads by as much. */
#define STEP 4096
/* Frames that answer what came in, beside a message of the owner's. */
#define OUT_SLACK 65536

/* ---- what wslay calls --------------------------------------------------------------------- */

static ssize_t give_chunk(wslay_event_context_ptr frames, uint8_t *to, size_t room, int flags,
                          void *data)
{
    struct cv_websocket *socket = data;
    size_t count = socket->serve < room ? socket->serve : room;
    (void)flags;
    if (count == 0) {
        wslay_event_set_error(frames, WSLAY_ERR_WOULDBLOCK);
        return -1;
    }
    memcpy(to, socket->chunk, count);
    socket->chunk += count;
    socket->length -= count;
    socket->serve -= count;
    return (ssize_t)count;
}

static ssize_t take_output(wslay_event_context_ptr frames, const uint8_t *bytes, size_t length,
                           int flags, void *data)
{
    struct cv_websocket *socket = data;
    (void)flags;
    if (cv_buf_append(&socket->out, bytes, length) == 0)
        return (ssize_t)length;
    wslay_event_set_error(frames, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static int make_mask(wslay_event_context_ptr frames, uint8_t *bytes, size_t length, void *data)
{
    (void)data;
    if (cv_random(bytes, length) == 0)
        return 0;
    wslay_event_set_error(frames, WSLAY_ERR_CALLBACK_FAILURE);
    return -1;
}

static void break_off(struct cv_websocket *socket, const char *problem)
{
    if (socket->problem == NULL)
        socket->problem = problem;
    wslay_event_shutdown_read(socket->frames);
}

/* wslay bounds the bytes of a message, but remembers of each of its frames more than a byte. */
static void count_frame(wslay_event_context_ptr frames,
                        const struct wslay_event_on_frame_recv_start_arg *frame, void *data)
{
    struct cv_websocket *socket = data;
    (void)frames;
    if (!wslay_is_ctrl_frame(frame->opcode) && ++socket->fragments > CV_WEBSOCKET_FRAMES_MAX)
        break_off(socket, "a message has too many fragments");
}

static enum cv_websocket_type type_of(uint8_t opcode)
{
    switch (opcode) {
    case WSLAY_TEXT_FRAME:
        return CV_WEBSOCKET_TEXT;
    case WSLAY_PONG:
        return CV_WEBSOCKET_PONG;
    case WSLAY_CONNECTION_CLOSE:
        return CV_WEBSOCKET_CLOSE;
    default:
        return CV_WEBSOCKET_MESSAGE;
    }
}

static void keep_event(wslay_event_context_ptr frames,
                       const struct wslay_event_on_msg_recv_arg *message, void *data)
{
    struct cv_websocket *socket = data;
    const uint8_t *bytes = message->msg;
    size_t length = message->msg_length;
    (void)frames;
    if (!wslay_is_ctrl_frame(message->opcode))
        socket->fragments = 0;
    if (message->opcode == WSLAY_PING)
        return;
    const enum cv_websocket_type type = type_of(message->opcode);
    if (type == CV_WEBSOCKET_CLOSE) { /* the code lies in front of the reason */
        bytes = length < 2 ? NULL : bytes + 2;
        length = length < 2 ? 0 : length - 2;
        socket->ended = true;
    }
    struct cv_websocket_event *event = malloc(sizeof *event + length);
    if (event == NULL) {
        break_off(socket, "there is no memory for a message");
        return;
    }
    *event = (struct cv_websocket_event){.type = type, .length = length};
    if (type == CV_WEBSOCKET_CLOSE)
        event->code = message->status_code == 0 ? CV_WEBSOCKET_NO_CODE : message->status_code;
    if (length > 0)
        memcpy(event->bytes, bytes, length);
    if (socket->last == NULL)
        socket->first = event;
    else
        socket->last->next = event;
    socket->last = event;
}

/* ---- life --------------------------------------------------------------------------------- */

int cv_websocket_init(struct cv_websocket *socket, size_t max_message, struct cv_err *err)
{
    static const struct wslay_event_callbacks callbacks = {
        .recv_callback = give_chunk,
        .send_callback = take_output,
        .genmask_callback = make_mask,
        .on_frame_recv_start_callback = count_frame,
        .on_msg_recv_callback = keep_event,
    };
    memset(socket, 0, sizeof *socket);
    cv_buf_init(&socket->out, max_message + OUT_SLACK);
    if (wslay_event_context_client_init(&socket->frames, &callbacks, socket) != 0) {
        socket->frames = NULL;
        return cv_err_set(err, "start_failed", "no memory for a WebSocket");
    }
    wslay_event_config_set_max_recv_msg_length(socket->frames, max_message);
    return 0;
}

static void drop_event(struct cv_websocket *socket)
{
    struct cv_websocket_event *event = socket->first;
    socket->first = event->next;
    if (socket->first == NULL)
        socket->last = NULL;
    free(event);
}

void cv_websocket_free(struct cv_websocket *socket)
{
    while (socket->first != NULL)
        drop_event(socket);
    if (socket->frames != NULL)
        wslay_event_context_free(socket->frames);
    socket->frames = NULL;
    cv_buf_free(&socket->out);
}

/* ---- reading ------------------------------------------------------------------------------ */

void cv_websocket_push(struct cv_websocket *socket, const void *bytes, size_t length)
{
    socket->chunk = bytes;
    socket->length = length;
}

/* What wslay found wrong it says with the code of the close that it has queued. */
static const char *problem_of(wslay_event_context_ptr frames)
{
    switch (wslay_event_get_status_code_sent(frames)) {
    case WSLAY_CODE_MESSAGE_TOO_BIG:
        return "a message is too long";
    case WSLAY_CODE_INVALID_FRAME_PAYLOAD_DATA:
        return "a text is not UTF-8";
    default:
        return "what comes is no valid frame";
    }
}

static void step(struct cv_websocket *socket)
{
    socket->serve = socket->length < STEP ? socket->length : STEP;
    bool failed = wslay_event_recv(socket->frames) != 0;
    if (wslay_event_send(socket->frames) != 0)
        break_off(socket, "an answer can't be sent");
    if (failed || (!socket->ended && wslay_event_get_read_enabled(socket->frames) == 0))
        break_off(socket, problem_of(socket->frames));
}

int cv_websocket_next(struct cv_websocket *socket, const struct cv_websocket_event **event)
{
    if (socket->handed_out)
        drop_event(socket);
    socket->handed_out = false;
    while (socket->first == NULL && socket->length > 0 && socket->problem == NULL && !socket->ended)
        step(socket);
    if (socket->first != NULL) {
        *event = socket->first;
        socket->handed_out = true;
        return 1;
    }
    return socket->problem == NULL ? 0 : -1;
}

/* ---- writing ------------------------------------------------------------------------------ */

static int put_frame(struct cv_websocket *socket, uint8_t opcode, const void *bytes, size_t length,
                     struct cv_err *err)
{
    const struct wslay_event_msg message = {opcode, bytes, length};
    if (socket->problem != NULL)
        return cv_err_set(err, "closed", "the WebSocket is broken: %s", socket->problem);
    int result = wslay_event_queue_msg(socket->frames, &message);
    if (result == WSLAY_ERR_NO_MORE_MSG)
        return cv_err_set(err, "closed", "the WebSocket is closed");
    if (result == 0)
        result = wslay_event_send(socket->frames);
    if (result == 0)
        return 0;
    break_off(socket, "a message can't be sent");
    return cv_err_set(err, "start_failed", "no memory or no random bytes for a WebSocket");
}

int cv_websocket_message(struct cv_websocket *socket, const void *bytes, size_t length,
                         struct cv_err *err)
{
    const size_t max = socket->out.max - OUT_SLACK;
    if (length > max)
        return cv_err_set(err, "invalid_request", "a message may have %zu bytes at most", max);
    return put_frame(socket, WSLAY_BINARY_FRAME, bytes, length, err);
}

int cv_websocket_ping(struct cv_websocket *socket, const void *bytes, size_t length,
                      struct cv_err *err)
{
    if (length > CV_WEBSOCKET_PING_MAX)
        return cv_err_set(err, "invalid_request", "a ping may have %d bytes at most",
                          CV_WEBSOCKET_PING_MAX);
    return put_frame(socket, WSLAY_PING, bytes, length, err);
}

int cv_websocket_close(struct cv_websocket *socket, int64_t code, const void *reason, size_t length,
                       struct cv_err *err)
{
    uint8_t payload[2 + CV_WEBSOCKET_REASON_MAX] = {(uint8_t)(code >> 8), (uint8_t)code};
    /* RFC 6455, section 7.4: those below are never sent. */
    if (code < 1000 || code > 4999 || (code >= 1004 && code <= 1006) || code == 1015 ||
        length > CV_WEBSOCKET_REASON_MAX)
        return cv_err_set(err, "invalid_request", "a WebSocket can't be closed with that");
    if (length > 0)
        memcpy(payload + 2, reason, length);
    return put_frame(socket, WSLAY_CONNECTION_CLOSE, payload, 2 + length, err);
}
