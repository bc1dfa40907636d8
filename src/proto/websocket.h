/*
 * The frames of a WebSocket (RFC 6455) on the client's side, by wslay: the only code that knows it.
 * Sans-I/O: received bytes in, events out; messages in, bytes to be sent out.
 *
 * What a server sends is taken for hostile. Messages, and the frames that one comes in, have a
 * bound. The chunk is worked off in small steps, so that what a step leaves behind (events, pongs)
 * is small too. Nothing is compressed: no extension is offered.
 */
#ifndef CV_PROTO_WEBSOCKET_H
#define CV_PROTO_WEBSOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

/* The most frames that one message may come in. */
#define CV_WEBSOCKET_FRAMES_MAX 65536
/* The longest payload of a ping, and the longest reason of a close: RFC 6455, section 5.5. */
#define CV_WEBSOCKET_PING_MAX 125
#define CV_WEBSOCKET_REASON_MAX 123
/* What is read as the code of a close that had none. */
#define CV_WEBSOCKET_NO_CODE 1005

enum cv_websocket_type {
    CV_WEBSOCKET_MESSAGE, /* a binary one, whole */
    CV_WEBSOCKET_TEXT,    /* a text, whole and valid UTF-8 */
    CV_WEBSOCKET_PONG,  /* with the payload of the ping that it answers, if the server is honest */
    CV_WEBSOCKET_CLOSE, /* the last event: code and reason; the answer is in the output already */
};

struct cv_websocket_event {
    enum cv_websocket_type type;
    uint16_t code; /* of a close */
    size_t length;
    struct cv_websocket_event *next;
    uint8_t bytes[];
};

struct wslay_event_context;

struct cv_websocket {
    struct cv_buf out;   /* bytes to be sent, to be consumed by the owner */
    const char *problem; /* static text, once it is broken */
    /* Its own. */
    struct wslay_event_context *frames;
    struct cv_websocket_event *first, *last;
    const uint8_t *chunk;
    size_t length; /* of what is left of the chunk */
    size_t serve;  /* how much of it this step may take */
    unsigned fragments;
    bool handed_out; /* `first` is with the owner */
    bool ended;      /* the server has closed */
};

/*
 * Messages of at most `max_message` bytes, in either direction. 0, or -1 with `err` (start_failed)
 * without memory; cv_websocket_free is due in any case. The structure must not move.
 */
int cv_websocket_init(struct cv_websocket *socket, size_t max_message, struct cv_err *err);
void cv_websocket_free(struct cv_websocket *socket);

/* Gives the next received chunk, which is borrowed; the one before must be used up. */
void cv_websocket_push(struct cv_websocket *socket, const void *bytes, size_t length);
/*
 * 1: *event is the next one, valid until the next call here. 0: the chunk is used up, or the server
 * has closed. -1: what comes is no WebSocket, is over a bound, or there is no memory: see
 * `problem`; it stays broken, and a close that says so may be in the output.
 */
int cv_websocket_next(struct cv_websocket *socket, const struct cv_websocket_event **event);

/*
 * Put a binary message, a ping (at most CV_WEBSOCKET_PING_MAX bytes) or a close into the output. A
 * close has a code from 1000 to 4999 and a reason, UTF-8 of at most CV_WEBSOCKET_REASON_MAX bytes.
 * 0, or -1 with `err`: closed when a close was sent or the socket is broken, invalid_request for
 * what is too long or no such code, start_failed without memory or random bytes; then nothing can
 * be sent any more.
 */
int cv_websocket_message(struct cv_websocket *socket, const void *bytes, size_t length,
                         struct cv_err *err);
int cv_websocket_ping(struct cv_websocket *socket, const void *bytes, size_t length,
                      struct cv_err *err);
int cv_websocket_close(struct cv_websocket *socket, int64_t code, const void *reason, size_t length,
                       struct cv_err *err);

#endif
