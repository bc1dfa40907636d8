/*
 * A byte stream over an upgraded HTTP/1.1 connection. libcurl connects (unix socket, TCP, TLS,
 * proxy) and carries the bytes; the request and the answer's head are our own.
 *
 * Both directions push back: at most CV_STREAM_QUEUE bytes wait to be sent, and no more bytes are
 * read than the owner has given credit for.
 */
#ifndef CV_NET_STREAM_H
#define CV_NET_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/multi.h"
#include "net/target.h"
#include "proto/http_upgrade.h"
#include "reactor/reactor.h"

/* Bytes that may wait to be sent. */
#define CV_STREAM_QUEUE (256 * 1024)
/* What one read takes at most. */
#define CV_STREAM_READ 32768
/* What one write offers at most. */
#define CV_STREAM_PIECE 32768

struct cv_stream_request {
    struct cv_target target;
    const char *method;
    const char *upgrade; /* the protocol: "tcp", "websocket" */
    struct cv_strings headers;
    const void *body;
    size_t body_length;
    int64_t timeout_ms; /* for connecting and the answer; over 0 */
    size_t credit;      /* bytes that may come at first */
};

struct cv_stream;

/*
 * What the owner is told. `opened`, then any of `bytes`, `drained` and `ended`; or `refused`; and
 * `failed` at any time as the last. Each may call the stream, and close it.
 */
struct cv_stream_events {
    /* The server has switched; status and headers are in stream->answer. */
    void (*opened)(struct cv_stream *stream);
    /* It has answered otherwise: stream->answer has its status, headers and body. The last. */
    void (*refused)(struct cv_stream *stream);
    void (*bytes)(struct cv_stream *stream, const void *bytes, size_t length);
    /* A queue that was full has room again, or nothing is sent any more. */
    void (*drained)(struct cv_stream *stream);
    /* The server sends nothing more; writing may still work. */
    void (*ended)(struct cv_stream *stream);
    void (*failed)(struct cv_stream *stream, const struct cv_err *err);
};

enum cv_stream_state {
    CV_STREAM_CONNECTING,
    CV_STREAM_ASKING, /* the request is sent, the answer awaited */
    CV_STREAM_OPEN,
    CV_STREAM_OVER, /* refused, failed or closed */
};

struct cv_stream {
    struct cv_upgrade answer;
    /* The stream's own. */
    enum cv_stream_state state;
    struct cv_transfer transfer;
    struct cv_route route;
    const struct cv_stream_events *events;
    char *upgrade; /* owned */
    struct cv_source source;
    struct cv_alarm deadline;
    int64_t timeout_ms;
    int fd;            /* libcurl's, -1 until it is connected */
    struct cv_buf out; /* the request, then what the owner writes */
    /* What is offered to libcurl: it has to stay in its place until it is taken. */
    uint8_t piece[CV_STREAM_PIECE];
    size_t piece_start;
    size_t piece_end;
    size_t credit;
    bool full;       /* a write did not fit; `drained` is owed */
    bool reading;    /* inside the loop that reads */
    bool read_end;   /* the server sends nothing more */
    bool write_end;  /* the owner writes nothing more */
    bool write_over; /* our direction is closed, or broken */
    bool broken;     /* ... by a failure */
};

/* Starts connecting. 0, or -1 with `err`; then nothing is left and no event comes. */
int cv_stream_open(struct cv_stream *stream, struct cv_multi *multi,
                   const struct cv_stream_events *events, const struct cv_stream_request *request,
                   struct cv_err *err);
/* Drops what waits, closes the connection and frees all but the structure. Idempotent. */
void cv_stream_close(struct cv_stream *stream);
/*
 * Queues what fits of the bytes and returns how many; once that was not all, `drained` tells when
 * to go on. -1 with `err` (closed) when nothing can be sent any more. Before `opened` nothing fits.
 */
ssize_t cv_stream_write(struct cv_stream *stream, const void *bytes, size_t length,
                        struct cv_err *err);
/*
 * Ends our direction once all is sent; the other stays open. Over TLS that is the end of the TCP
 * direction without a notice of TLS, which libcurl can't send: servers take it for the end or for a
 * cut.
 */
void cv_stream_shutdown(struct cv_stream *stream);
/* That many more bytes may come; events may come from inside. */
void cv_stream_credit(struct cv_stream *stream, size_t bytes);

#endif
