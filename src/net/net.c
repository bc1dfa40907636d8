#include "net/net.h"

#include <stdlib.h>
#include <string.h>

static struct cv_net_op *find_op(const struct cv_net *net, uint32_t id)
{
    struct cv_idnode *node = cv_idmap_find(&net->ops, id);
    return node == NULL ? NULL : cv_list_entry(node, struct cv_net_op, by_id);
}

int cv_net_open(struct cv_net *net, struct cv_reactor *reactor, struct cv_err *err)
{
    memset(net, 0, sizeof *net);
    cv_idmap_init(&net->ops);
    return cv_multi_open(&net->multi, reactor, err);
}

/* ---- news --------------------------------------------------------------------------------- */

static void announce(struct cv_net_op *op)
{
    if (op->queued)
        return;
    op->queued = true;
    cv_reactor_complete(op->net->multi.reactor, &op->completion, op->net);
}

static void drop_chunks(struct cv_net_op *op)
{
    struct cv_net_chunk *chunk;
    while ((chunk = cv_net_op_chunk(op)) != NULL) {
        cv_list_remove(&chunk->link);
        free(chunk);
    }
}

static void finish(struct cv_net_op *op, enum cv_net_news last, const struct cv_err *err)
{
    if (op->over)
        return;
    op->over = true;
    op->last = last;
    if (err != NULL)
        op->err = *err;
    announce(op);
}

/* What the caller no longer waits for is dropped, so that the end comes at once. */
static void cut(struct cv_net_op *op, enum cv_net_news last, const struct cv_err *err)
{
    if (op->over)
        return;
    if (op->is_stream)
        cv_stream_close(&op->stream);
    else
        cv_http_close(&op->http);
    drop_chunks(op);
    op->head = op->drained = op->ended = false;
    finish(op, last, err);
}

static bool add_chunk(struct cv_net_op *op, const void *bytes, size_t length)
{
    struct cv_net_chunk *chunk = malloc(sizeof *chunk + length);
    if (chunk == NULL)
        return false;
    chunk->length = length;
    memcpy(chunk->bytes, bytes, length);
    cv_list_append(&op->chunks, &chunk->link);
    op->held += length;
    announce(op);
    return true;
}

/* ---- requests ----------------------------------------------------------------------------- */

static struct cv_net_op *op_of_http(struct cv_http *http)
{
    return cv_list_entry(http, struct cv_net_op, http);
}

static void http_head(struct cv_http *http)
{
    struct cv_net_op *op = op_of_http(http);
    op->head = true;
    announce(op);
}

static int http_bytes(struct cv_http *http, const void *bytes, size_t length)
{
    struct cv_net_op *op = op_of_http(http);
    if (op->held >= CV_NET_WINDOW)
        return 0;
    return add_chunk(op, bytes, length) ? 1 : -1;
}

static void http_done(struct cv_http *http, const struct cv_err *err)
{
    finish(op_of_http(http), err == NULL ? CV_NET_DONE : CV_NET_FAILED, err);
}

static const struct cv_http_events http_events = {http_head, http_bytes, http_done};

/* ---- streams ------------------------------------------------------------------------------ */

static struct cv_net_op *op_of_stream(struct cv_stream *stream)
{
    return cv_list_entry(stream, struct cv_net_op, stream);
}

static void stream_opened(struct cv_stream *stream)
{
    struct cv_net_op *op = op_of_stream(stream);
    op->head = true;
    announce(op);
}

static void stream_refused(struct cv_stream *stream)
{
    finish(op_of_stream(stream), CV_NET_REFUSED, NULL);
}

static void stream_bytes(struct cv_stream *stream, const void *bytes, size_t length)
{
    struct cv_err err;
    struct cv_net_op *op = op_of_stream(stream);
    if (add_chunk(op, bytes, length))
        return;
    cv_err_set(&err, "transport_lost", "no memory for what came from %s", stream->route.peer);
    cv_stream_close(stream);
    finish(op, CV_NET_FAILED, &err);
}

static void stream_drained(struct cv_stream *stream)
{
    struct cv_net_op *op = op_of_stream(stream);
    op->drained = true;
    announce(op);
}

static void stream_ended(struct cv_stream *stream)
{
    struct cv_net_op *op = op_of_stream(stream);
    op->ended = true;
    announce(op);
}

static void stream_failed(struct cv_stream *stream, const struct cv_err *err)
{
    finish(op_of_stream(stream), CV_NET_FAILED, err);
}

static const struct cv_stream_events stream_events = {
    .opened = stream_opened,
    .refused = stream_refused,
    .bytes = stream_bytes,
    .drained = stream_drained,
    .ended = stream_ended,
    .failed = stream_failed,
};

/* ---- operations --------------------------------------------------------------------------- */

/* An operation under a new id, or NULL with `err`. */
static struct cv_net_op *new_op(struct cv_net *net, struct cv_err *err)
{
    struct cv_net_op *op = calloc(1, sizeof *op);
    do {
        net->last_id++;
    } while (net->last_id == 0 || find_op(net, net->last_id) != NULL);
    if (op != NULL && cv_idmap_add(&net->ops, &op->by_id, net->last_id) == 0) {
        op->net = net;
        cv_list_init(&op->completion.link);
        cv_list_init(&op->chunks);
        return op;
    }
    free(op);
    cv_err_set(err, "start_failed", "no memory for a request");
    return NULL;
}

static uint32_t started(struct cv_net *net, struct cv_net_op *op, int result)
{
    if (result == 0)
        return op->by_id.id;
    cv_idmap_remove(&net->ops, &op->by_id);
    free(op);
    return 0;
}

uint32_t cv_net_http(struct cv_net *net, const struct cv_http_request *request, struct cv_err *err)
{
    struct cv_net_op *op = new_op(net, err);
    if (op == NULL)
        return 0;
    return started(net, op, cv_http_open(&op->http, &net->multi, &http_events, request, err));
}

uint32_t cv_net_stream(struct cv_net *net, struct cv_stream_request *request, struct cv_err *err)
{
    struct cv_net_op *op = new_op(net, err);
    if (op == NULL)
        return 0;
    op->is_stream = true;
    request->credit = CV_NET_WINDOW;
    return started(net, op, cv_stream_open(&op->stream, &net->multi, &stream_events, request, err));
}

static struct cv_net_op *live_stream(const struct cv_net *net, uint32_t id)
{
    struct cv_net_op *op = find_op(net, id);
    return op != NULL && op->is_stream && !op->over ? op : NULL;
}

ssize_t cv_net_write(struct cv_net *net, uint32_t id, const void *bytes, size_t length,
                     struct cv_err *err)
{
    struct cv_net_op *op = live_stream(net, id);
    if (op == NULL)
        return cv_err_set(err, "closed", "the stream is closed");
    return cv_stream_write(&op->stream, bytes, length, err);
}

void cv_net_shutdown(struct cv_net *net, uint32_t id)
{
    struct cv_net_op *op = live_stream(net, id);
    if (op != NULL)
        cv_stream_shutdown(&op->stream);
}

void cv_net_used(struct cv_net *net, uint32_t id, size_t bytes)
{
    struct cv_net_op *op = find_op(net, id);
    if (op == NULL || op->over)
        return;
    if (bytes > op->held)
        bytes = op->held;
    op->held -= bytes;
    if (op->is_stream)
        cv_stream_credit(&op->stream, bytes);
    else if (op->held <= CV_NET_WINDOW / 2)
        cv_http_resume(&op->http);
}

void cv_net_shut(struct cv_net *net, uint32_t id)
{
    struct cv_net_op *op = live_stream(net, id);
    if (op != NULL)
        cut(op, CV_NET_CLOSED, NULL);
}

void cv_net_abort(struct cv_net *net, uint32_t id, const char *code, const char *message)
{
    struct cv_err err;
    struct cv_net_op *op = find_op(net, id);
    if (op == NULL)
        return;
    cv_err_set(&err, code, "%s", message);
    cut(op, CV_NET_FAILED, &err);
}

/* ---- taking ------------------------------------------------------------------------------- */

struct cv_net_op *cv_net_next(const struct cv_net *net)
{
    struct cv_completion *completion = cv_reactor_first(net->multi.reactor);
    if (completion == NULL || completion->owner != net)
        return NULL;
    return cv_list_entry(completion, struct cv_net_op, completion);
}

struct cv_net_chunk *cv_net_op_chunk(const struct cv_net_op *op)
{
    if (cv_list_empty(&op->chunks))
        return NULL;
    return cv_list_entry(op->chunks.next, struct cv_net_chunk, link);
}

enum cv_net_news cv_net_op_news(const struct cv_net_op *op)
{
    if (op->head)
        return CV_NET_HEAD;
    if (op->drained)
        return CV_NET_DRAINED;
    if (cv_net_op_chunk(op) != NULL)
        return CV_NET_CHUNK;
    return op->ended ? CV_NET_ENDED : op->last;
}

int cv_net_op_status(const struct cv_net_op *op)
{
    return op->is_stream ? op->stream.answer.status : op->http.status;
}

const struct cv_headers *cv_net_op_headers(const struct cv_net_op *op)
{
    return op->is_stream ? &op->stream.answer.headers : &op->http.headers;
}

const struct cv_buf *cv_net_op_body(const struct cv_net_op *op)
{
    return op->is_stream ? &op->stream.answer.body : &op->http.body;
}

static void free_op(struct cv_net *net, struct cv_net_op *op)
{
    cv_idmap_remove(&net->ops, &op->by_id);
    cv_list_remove(&op->completion.link);
    drop_chunks(op);
    if (op->is_stream)
        cv_stream_close(&op->stream);
    else
        cv_http_close(&op->http);
    free(op);
}

void cv_net_take(struct cv_net *net, struct cv_net_op *op)
{
    struct cv_net_chunk *chunk = cv_net_op_chunk(op);
    cv_list_remove(&op->completion.link);
    op->queued = false;
    switch (cv_net_op_news(op)) {
    case CV_NET_HEAD:
        op->head = false;
        break;
    case CV_NET_DRAINED:
        op->drained = false;
        break;
    case CV_NET_CHUNK:
        cv_list_remove(&chunk->link);
        free(chunk);
        break;
    case CV_NET_ENDED:
        op->ended = false;
        break;
    default:
        free_op(net, op);
        return;
    }
    /* Behind the others, so that one loud answer starves nobody. */
    if (op->head || op->drained || op->ended || op->over || cv_net_op_chunk(op) != NULL)
        announce(op);
}

void cv_net_close(struct cv_net *net)
{
    struct cv_idnode *node;
    if (net->multi.reactor == NULL)
        return;
    if (cv_reactor_foreign(net->multi.reactor))
        cv_multi_abandon(&net->multi);
    while ((node = cv_idmap_any(&net->ops)) != NULL)
        free_op(net, cv_list_entry(node, struct cv_net_op, by_id));
    cv_idmap_free(&net->ops);
    cv_multi_close(&net->multi);
}
