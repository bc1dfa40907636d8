#include "net/stream.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

static struct cv_reactor *reactor_of(const struct cv_stream *stream)
{
    return stream->transfer.multi->reactor;
}

/* Nothing moves any more; what the owner may look at stays until cv_stream_close. */
static void stop(struct cv_stream *stream)
{
    cv_alarm_clear(reactor_of(stream), &stream->deadline);
    cv_source_detach(reactor_of(stream), &stream->source); /* before libcurl closes it */
    cv_transfer_close(&stream->transfer);
    stream->fd = -1;
    stream->state = CV_STREAM_OVER;
}

static void fail(struct cv_stream *stream, const struct cv_err *err)
{
    stop(stream);
    stream->events->failed(stream, err);
}

/* How far it came, for an error. */
static enum cv_progress progress(const struct cv_stream *stream)
{
    if (stream->state == CV_STREAM_CONNECTING)
        return CV_CONNECTING;
    return stream->state == CV_STREAM_ASKING && stream->answer.status == 0 ? CV_ASKED : CV_ANSWERED;
}

static void fail_with(struct cv_stream *stream, CURLcode result)
{
    struct cv_err err;
    cv_route_fault(&stream->route, &stream->transfer, result, progress(stream), &err);
    fail(stream, &err);
}

/* Bytes that wait to be sent. */
static size_t waiting(const struct cv_stream *stream)
{
    return stream->piece_end - stream->piece_start + cv_buf_length(&stream->out);
}

/* Waits for what can go on. A descriptor that waits for nothing would still tell of a hang-up. */
static void watch(struct cv_stream *stream)
{
    uint32_t events = 0;
    if (stream->fd < 0)
        return;
    if (!stream->read_end && (stream->credit > 0 || stream->state == CV_STREAM_ASKING))
        events |= EPOLLIN;
    /* Reading a broken connection is tried at once: see fill. */
    if (waiting(stream) > 0 || stream->full || (stream->broken && events != 0))
        events |= EPOLLOUT;
    if (events == 0) {
        cv_source_detach(reactor_of(stream), &stream->source);
    } else if (stream->source.fd >= 0) {
        cv_source_want(reactor_of(stream), &stream->source, events);
    } else if (cv_source_open(reactor_of(stream), &stream->source, stream->fd, events) != 0) {
        struct cv_err err;
        cv_err_system(&err, "transport_lost", errno, "can't watch the connection to %s",
                      stream->route.peer);
        fail(stream, &err);
    }
}

/* ---- writing ------------------------------------------------------------------------------ */

/* The owner is told of room once half of the queue is free, and of an end at once. */
static void tell_drained(struct cv_stream *stream)
{
    if (!stream->full || (!stream->write_over && waiting(stream) > CV_STREAM_QUEUE / 2))
        return;
    stream->full = false;
    stream->events->drained(stream);
}

/*
 * Offers what comes next, which may be what was not taken before: OpenSSL wants the same bytes at
 * the same place then (SSL_write(3)), and the queue moves its bytes as it grows.
 */
static CURLcode send_piece(struct cv_stream *stream)
{
    if (stream->piece_start == stream->piece_end) {
        const size_t length = cv_buf_length(&stream->out);
        stream->piece_start = 0;
        stream->piece_end = length < sizeof stream->piece ? length : sizeof stream->piece;
        memcpy(stream->piece, cv_buf_data(&stream->out), stream->piece_end);
        cv_buf_consume(&stream->out, stream->piece_end);
    }
    size_t sent = 0;
    CURLcode result = curl_easy_send(stream->transfer.easy, stream->piece + stream->piece_start,
                                     stream->piece_end - stream->piece_start, &sent);
    stream->piece_start += sent;
    return result;
}

/*
 * Sends what the connection takes. A failure ends our direction alone: what the server has sent
 * before it went is still to be read, and the end of that says what happened.
 */
static void flush(struct cv_stream *stream)
{
    CURLcode result = CURLE_OK;
    while (result == CURLE_OK && waiting(stream) > 0 && !stream->write_over)
        result = send_piece(stream);
    if (result != CURLE_OK && result != CURLE_AGAIN)
        stream->write_over = stream->broken = true;
    if (stream->write_end && stream->state == CV_STREAM_OPEN && !stream->write_over &&
        waiting(stream) == 0) {
        shutdown(stream->fd, SHUT_WR);
        stream->write_over = true;
    }
    if (stream->write_over) {
        cv_buf_consume(&stream->out, cv_buf_length(&stream->out));
        stream->piece_start = stream->piece_end = 0;
    }
}

/* ---- reading ------------------------------------------------------------------------------ */

static void read_answer_end(struct cv_stream *stream, enum cv_upgrade_result result)
{
    struct cv_err err;
    if (result == CV_UPGRADE_MORE)
        return;
    if (result == CV_UPGRADE_REFUSED) {
        stop(stream);
        stream->events->refused(stream);
        return;
    }
    const char *protocol = cv_headers_get(&stream->answer.headers, "upgrade");
    const char *problem = stream->answer.problem;
    if (result == CV_UPGRADE_OPEN) {
        if (protocol != NULL && strcasecmp(protocol, stream->upgrade) == 0) {
            cv_alarm_clear(reactor_of(stream), &stream->deadline);
            stream->state = CV_STREAM_OPEN;
            stream->events->opened(stream);
            return;
        }
        problem = "it switches to another protocol than was asked for";
    }
    if (stream->answer.status == 0 && stream->read_end)
        cv_err_set(&err, "transport_lost", "%s closed the connection without an answer",
                   stream->route.peer);
    else
        cv_err_set(&err, "transport_lost", "the answer of %s is no valid HTTP: %s",
                   stream->route.peer, problem);
    fail(stream, &err);
}

/* What lies behind the answer's head is the new protocol's: it may come with it in one read. */
static void take(struct cv_stream *stream, const uint8_t *bytes, size_t length)
{
    size_t used = 0;
    if (stream->state == CV_STREAM_ASKING) {
        read_answer_end(stream, cv_upgrade_feed(&stream->answer, bytes, length, &used));
        if (stream->state != CV_STREAM_OPEN || used == length)
            return;
    }
    length -= used;
    stream->credit -= length < stream->credit ? length : stream->credit;
    stream->events->bytes(stream, bytes + used, length);
}

static void take_end(struct cv_stream *stream)
{
    stream->read_end = true;
    if (stream->state == CV_STREAM_ASKING)
        read_answer_end(stream, cv_upgrade_end(&stream->answer));
    else
        stream->events->ended(stream);
}

static size_t may_read(const struct cv_stream *stream)
{
    if (stream->read_end || stream->state == CV_STREAM_OVER)
        return 0;
    /* What comes with the answer's head is within one read, whatever the credit. */
    if (stream->state == CV_STREAM_ASKING || stream->credit > CV_STREAM_READ)
        return CV_STREAM_READ;
    return stream->credit;
}

/*
 * Reads until nothing is there: with TLS, libcurl may hold bytes that the descriptor won't show.
 * And there, after a failure to write, "nothing yet" may mean that nothing will ever be read.
 */
static void fill(struct cv_stream *stream)
{
    uint8_t bytes[CV_STREAM_READ];
    size_t most;
    if (stream->reading)
        return;
    stream->reading = true;
    while ((most = may_read(stream)) > 0) {
        size_t got = 0;
        CURLcode result = curl_easy_recv(stream->transfer.easy, bytes, most, &got);
        if (result == CURLE_AGAIN && !(stream->broken && stream->route.tls))
            break;
        if (result != CURLE_OK)
            fail_with(stream, result == CURLE_AGAIN ? CURLE_SEND_ERROR : result);
        else if (got == 0)
            take_end(stream);
        else
            take(stream, bytes, got);
    }
    stream->reading = false;
}

static void move(struct cv_stream *stream)
{
    fill(stream);
    if (stream->state == CV_STREAM_OVER)
        return;
    flush(stream);
    tell_drained(stream);
    watch(stream);
}

static void source_ready(struct cv_source *source, uint32_t events)
{
    (void)events;
    move(cv_list_entry(source, struct cv_stream, source));
}

/* ---- opening ------------------------------------------------------------------------------ */

static void on_done(struct cv_transfer *transfer, CURLcode result)
{
    struct cv_stream *stream = cv_list_entry(transfer, struct cv_stream, transfer);
    curl_socket_t fd = CURL_SOCKET_BAD;
    if (result == CURLE_OK)
        result = curl_easy_getinfo(transfer->easy, CURLINFO_ACTIVESOCKET, &fd);
    if (result == CURLE_OK && fd == CURL_SOCKET_BAD)
        result = CURLE_COULDNT_CONNECT;
    if (result != CURLE_OK) {
        fail_with(stream, result);
        return;
    }
    stream->fd = fd;
    stream->state = CV_STREAM_ASKING;
    move(stream);
}

static void deadline_strikes(struct cv_alarm *alarm)
{
    struct cv_stream *stream = cv_list_entry(alarm, struct cv_stream, deadline);
    struct cv_err err;
    cv_route_late(&stream->route, progress(stream), stream->timeout_ms, &err);
    fail(stream, &err);
}

static bool put(struct cv_stream *stream, const char *text)
{
    return cv_buf_append(&stream->out, text, strlen(text)) == 0;
}

static bool put_field(struct cv_stream *stream, const char *name, const char *value)
{
    return put(stream, name) && put(stream, ": ") && put(stream, value) && put(stream, "\r\n");
}

static int put_fields(struct cv_stream *stream, const struct cv_strings *headers,
                      struct cv_err *err)
{
    static const char *const own[] = {
        "host",           "user-agent",        "connection", "upgrade",
        "content-length", "transfer-encoding", "expect",     NULL};
    const char *name = headers->bytes;
    for (uint32_t i = 0; i < headers->count; i += 2) {
        const char *value = cv_strings_next(name);
        if (!cv_is_token(name, strlen(name)) || !cv_is_field_value(value, strlen(value)))
            return cv_err_set(err, "invalid_request",
                              "a header field has a malformed name, or control bytes");
        for (int j = 0; own[j] != NULL; j++) {
            if (strcasecmp(name, own[j]) == 0)
                return cv_err_set(err, "invalid_request", "the header field %s can't be set", name);
        }
        if (!put_field(stream, name, value))
            return cv_err_set(err, "invalid_request", "the request is too long");
        name = cv_strings_next(value);
    }
    return 0;
}

static int put_request(struct cv_stream *stream, const struct cv_stream_request *request,
                       struct cv_err *err)
{
    char length[32];
    if (!cv_is_token(request->method, strlen(request->method)) ||
        !cv_is_token(request->upgrade, strlen(request->upgrade)))
        return cv_err_set(err, "invalid_request", "the method or the protocol is no token");
    bool fits = put(stream, request->method) && put(stream, " ") &&
                put(stream, stream->route.resource) && put(stream, " HTTP/1.1\r\n") &&
                put_field(stream, "Host", stream->route.authority) &&
                put_field(stream, "User-Agent", "chamvi-sandbox") &&
                put_field(stream, "Connection", "Upgrade") &&
                put_field(stream, "Upgrade", request->upgrade);
    snprintf(length, sizeof length, "%zu", request->body_length);
    if (fits && request->body != NULL)
        fits = put_field(stream, "Content-Length", length);
    if (fits && put_fields(stream, &request->headers, err) != 0)
        return -1;
    fits = fits && put(stream, "\r\n");
    if (fits && request->body != NULL)
        fits = cv_buf_append(&stream->out, request->body, request->body_length) == 0;
    return fits ? 0 : cv_err_set(err, "invalid_request", "the request is too long");
}

/* Connecting alone, and whatever the proxy, through to the server. */
static void set_connect_only(CURL *easy)
{
    curl_easy_setopt(easy, CURLOPT_CONNECT_ONLY, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTPPROXYTUNNEL, 1L);
    curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
}

int cv_stream_open(struct cv_stream *stream, struct cv_multi *multi,
                   const struct cv_stream_events *events, const struct cv_stream_request *request,
                   struct cv_err *err)
{
    memset(stream, 0, sizeof *stream);
    cv_upgrade_init(&stream->answer);
    cv_buf_init(&stream->out, CV_STREAM_QUEUE);
    stream->events = events;
    stream->fd = stream->source.fd = -1;
    stream->source.ready = source_ready;
    stream->deadline.strike = deadline_strikes;
    stream->timeout_ms = request->timeout_ms;
    stream->credit = request->credit;
    int result = cv_transfer_open(&stream->transfer, multi, on_done, err);
    if (result == 0)
        result = cv_route_open(&stream->route, &stream->transfer, &request->target, err);
    if (result == 0)
        result = put_request(stream, request, err);
    if (result == 0 && (stream->upgrade = strdup(request->upgrade)) == NULL)
        result = cv_err_set(err, "start_failed", "no memory for a request");
    if (result == 0 &&
        cv_alarm_set(reactor_of(stream), &stream->deadline, request->timeout_ms) != 0)
        result = cv_err_set(err, "start_failed", "no memory for a timer");
    if (result == 0) {
        set_connect_only(stream->transfer.easy);
        result = cv_transfer_start(&stream->transfer, err);
    }
    if (result != 0)
        cv_stream_close(stream);
    return result;
}

void cv_stream_close(struct cv_stream *stream)
{
    stop(stream);
    cv_route_free(&stream->route);
    cv_upgrade_free(&stream->answer);
    cv_buf_free(&stream->out);
    free(stream->upgrade);
    stream->upgrade = NULL;
}

/* ---- the owner's side --------------------------------------------------------------------- */

ssize_t cv_stream_write(struct cv_stream *stream, const void *bytes, size_t length,
                        struct cv_err *err)
{
    if (stream->write_end || stream->write_over || stream->state == CV_STREAM_OVER)
        return cv_err_set(err, "closed", "the stream to %s takes no more bytes",
                          stream->route.peer);
    size_t room = CV_STREAM_QUEUE - waiting(stream);
    if (stream->state != CV_STREAM_OPEN)
        room = 0;
    const size_t count = length < room ? length : room;
    if (cv_buf_append(&stream->out, bytes, count) != 0)
        return cv_err_set(err, "start_failed", "no memory for what is to be sent");
    stream->full = count < length;
    flush(stream);
    watch(stream);
    return (ssize_t)count;
}

void cv_stream_shutdown(struct cv_stream *stream)
{
    stream->write_end = true;
    if (stream->state != CV_STREAM_OPEN)
        return;
    flush(stream);
    watch(stream);
}

void cv_stream_credit(struct cv_stream *stream, size_t bytes)
{
    stream->credit += bytes;
    if (stream->state != CV_STREAM_OPEN || stream->reading)
        return;
    fill(stream);
    if (stream->state != CV_STREAM_OVER)
        watch(stream);
}
