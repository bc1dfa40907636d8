/*
 * Requests and streams under integer ids, whose news lie in the reactor's completion queue until
 * they are taken. Nothing here knows Lua.
 *
 * A function that starts something returns its id (over 0), or 0 with `err`. Each id brings its
 * news in order and ends with exactly one CV_NET_DONE, CV_NET_REFUSED, CV_NET_CLOSED or
 * CV_NET_FAILED.
 */
#ifndef CV_NET_NET_H
#define CV_NET_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/idmap.h"
#include "base/list.h"
#include "net/http.h"
#include "net/multi.h"
#include "net/stream.h"
#include "reactor/reactor.h"

/* Bytes of an answer or a stream that may wait to be taken and used. */
#define CV_NET_WINDOW (256 * 1024)

struct cv_net {
    struct cv_multi multi;
    struct cv_idmap ops; /* struct cv_net_op that were not taken to their end */
    uint32_t last_id;
};

enum cv_net_news {
    CV_NET_HEAD,    /* status and fields of a streamed answer or an opened stream */
    CV_NET_CHUNK,   /* bytes */
    CV_NET_DRAINED, /* a stream takes bytes again, or will never */
    CV_NET_ENDED,   /* the other side of a stream sends nothing more */
    CV_NET_DONE,    /* a request's answer is whole */
    CV_NET_REFUSED, /* the answer to a stream's request, which was not the switch */
    CV_NET_CLOSED,  /* a stream that was closed */
    CV_NET_FAILED,
};

struct cv_net_chunk {
    struct cv_list link;
    size_t length;
    uint8_t bytes[];
};

struct cv_net_op {
    struct cv_completion completion;
    struct cv_idnode by_id;
    struct cv_net *net;
    bool is_stream;
    bool queued;
    bool over; /* nothing more will happen: `last` is the last news */
    enum cv_net_news last;
    struct cv_err err; /* of CV_NET_FAILED */
    bool head;         /* news that were not taken yet */
    bool drained;
    bool ended;
    struct cv_list chunks;
    size_t held; /* bytes in chunks, or taken and not used: under CV_NET_WINDOW */
    union {
        struct cv_http http;
        struct cv_stream stream;
    };
};

/* 0, or -1 with `err`; then nothing is left open. */
int cv_net_open(struct cv_net *net, struct cv_reactor *reactor, struct cv_err *err);
/* Cuts everything, and releases it; in a forked child without a sign to the other side. Idempotent.
 */
void cv_net_close(struct cv_net *net);

uint32_t cv_net_http(struct cv_net *net, const struct cv_http_request *request, struct cv_err *err);
/* `credit` of the request is set here. */
uint32_t cv_net_stream(struct cv_net *net, struct cv_stream_request *request, struct cv_err *err);

/* cv_stream_write; -1 also for an id that is no open stream. */
ssize_t cv_net_write(struct cv_net *net, uint32_t id, const void *bytes, size_t length,
                     struct cv_err *err);
/* cv_stream_shutdown; harmless for an id that is no open stream. */
void cv_net_shutdown(struct cv_net *net, uint32_t id);
/* Bytes that were taken have been used: as many may come anew. */
void cv_net_used(struct cv_net *net, uint32_t id, size_t bytes);
/* Ends the stream with CV_NET_CLOSED; what was not taken is dropped. Harmless when it has ended. */
void cv_net_shut(struct cv_net *net, uint32_t id);
/* Ends it with `code` (static storage) and `message`; what was not taken is dropped. */
void cv_net_abort(struct cv_net *net, uint32_t id, const char *code, const char *message);

/* The first of the completions when it is one of this net, else NULL. */
struct cv_net_op *cv_net_next(const struct cv_net *net);
/* What the operation has to tell now. */
enum cv_net_news cv_net_op_news(const struct cv_net_op *op);
/* The oldest chunk, still in its list, or NULL. */
struct cv_net_chunk *cv_net_op_chunk(const struct cv_net_op *op);
/* Status, fields and collected body, of CV_NET_HEAD, CV_NET_DONE and CV_NET_REFUSED. */
int cv_net_op_status(const struct cv_net_op *op);
const struct cv_headers *cv_net_op_headers(const struct cv_net_op *op);
const struct cv_buf *cv_net_op_body(const struct cv_net_op *op);
/* Takes that news; with the last the operation is freed. */
void cv_net_take(struct cv_net *net, struct cv_net_op *op);

#endif
