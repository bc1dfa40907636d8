#include "net/http.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

static struct cv_reactor *reactor_of(const struct cv_http *http)
{
    return http->transfer.multi->reactor;
}

/* Frees what runs, but not the answer, and tells the owner. */
static void finish(struct cv_http *http, const struct cv_err *err)
{
    cv_alarm_clear(reactor_of(http), &http->deadline);
    cv_alarm_clear(reactor_of(http), &http->idle);
    cv_transfer_close(&http->transfer);
    http->events->done(http, err);
}

/* ---- libcurl's callbacks: an error is kept until the transfer's end ----------------------- */

/* The end of a head decides whether its body is streamed. */
static void end_head(struct cv_http *http)
{
    long status = 0;
    curl_easy_getinfo(http->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    http->status = (int)status;
    if (!http->stream || http->streaming || status < 200 || status > 299)
        return;
    http->streaming = true;
    http->events->head(http);
}

/* CURLOPT_HEADERFUNCTION: one line at a time; a status line begins anew, after an interim head. */
static size_t on_header(char *line, size_t one, size_t length, void *context)
{
    struct cv_http *http = context;
    size_t whole = one * length;
    size_t end = whole;
    http->heard_ms = cv_clock_ms();
    http->progress = CV_ANSWERED;
    while (end > 0 && (line[end - 1] == '\n' || line[end - 1] == '\r'))
        end--;
    if (end == 0) {
        end_head(http);
        return whole;
    }
    if (end >= 5 && memcmp(line, "HTTP/", 5) == 0) {
        cv_headers_clear(&http->headers);
        return whole;
    }
    if (http->streaming || cv_headers_add(&http->headers, line, end) == 0) /* not trailers */
        return whole;
    if (errno == EINVAL)
        cv_err_set(&http->err, "transport_lost", "%s answers with something that is no HTTP",
                   http->route.peer);
    else if (errno == ENOBUFS)
        cv_err_set(&http->err, "response_too_large", "the answer of %s has over %d bytes of header",
                   http->route.peer, CV_HEADERS_MAX);
    else
        cv_err_set(&http->err, "start_failed", "no memory for an answer");
    return 0;
}

/* CURLOPT_WRITEFUNCTION */
static size_t on_body(char *bytes, size_t one, size_t length, void *context)
{
    struct cv_http *http = context;
    size_t count = one * length;
    http->heard_ms = cv_clock_ms();
    int taken;
    if (http->streaming)
        taken = http->events->bytes(http, bytes, count);
    else
        taken = cv_buf_append(&http->body, bytes, count) == 0 ? 1 : -1;
    if (taken > 0)
        return count;
    if (taken == 0) {
        http->paused = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (!http->streaming && errno == ENOBUFS)
        cv_err_set(&http->err, "response_too_large", "the answer of %s is longer than %zu bytes",
                   http->route.peer, http->body.max);
    else
        cv_err_set(&http->err, "start_failed", "no memory for an answer");
    return 0;
}

/* CURLOPT_PREREQFUNCTION: connected, about to ask; once more when libcurl tries again. */
static int on_connected(void *context, char *ip, char *local_ip, int port, int local_port)
{
    struct cv_http *http = context;
    (void)ip, (void)local_ip, (void)port, (void)local_port;
    if (http->asked && !http->repeatable) {
        cv_err_set(&http->err, "transport_lost", "%s closed the connection without an answer",
                   http->route.peer);
        return CURL_PREREQFUNC_ABORT;
    }
    http->asked = true;
    http->progress = CV_ASKED;
    http->heard_ms = cv_clock_ms();
    return CURL_PREREQFUNC_OK;
}

static void on_done(struct cv_transfer *transfer, CURLcode result)
{
    struct cv_http *http = cv_list_entry(transfer, struct cv_http, transfer);
    if (result == CURLE_OK && http->status < 200) /* the end came inside the head */
        result = CURLE_PARTIAL_FILE;
    if (result != CURLE_OK && http->err.code == NULL)
        cv_route_fault(&http->route, transfer, result, http->progress, &http->err);
    finish(http, result == CURLE_OK ? NULL : &http->err);
}

/* ---- deadlines ---------------------------------------------------------------------------- */

static void deadline_strikes(struct cv_alarm *alarm)
{
    struct cv_http *http = cv_list_entry(alarm, struct cv_http, deadline);
    struct cv_err err;
    cv_route_late(&http->route, http->progress, http->timeout_ms, &err);
    finish(http, &err);
}

/* The owner's own pause does not count. */
static bool still_moving(struct cv_http *http)
{
    curl_off_t upload = 0;
    curl_easy_getinfo(http->transfer.easy, CURLINFO_SIZE_UPLOAD_T, &upload);
    bool moving = http->paused || upload != http->upload;
    http->upload = upload;
    if (moving)
        http->heard_ms = cv_clock_ms();
    return moving;
}

static void idle_strikes(struct cv_alarm *alarm)
{
    struct cv_http *http = cv_list_entry(alarm, struct cv_http, idle);
    struct cv_err err;
    int64_t left = http->heard_ms + http->idle_ms - cv_clock_ms();
    if (left <= 0 && still_moving(http))
        left = http->idle_ms;
    /* The alarm's place in the heap is still there. */
    if (left > 0 && cv_alarm_set(reactor_of(http), alarm, left) == 0)
        return;
    cv_route_late(&http->route, http->progress, http->idle_ms, &err);
    finish(http, &err);
}

static bool set_alarms(struct cv_http *http)
{
    http->deadline.strike = deadline_strikes;
    http->idle.strike = idle_strikes;
    http->heard_ms = cv_clock_ms();
    return (http->timeout_ms == 0 ||
            cv_alarm_set(reactor_of(http), &http->deadline, http->timeout_ms) == 0) &&
           (http->idle_ms == 0 || cv_alarm_set(reactor_of(http), &http->idle, http->idle_ms) == 0);
}

/* ---- the request -------------------------------------------------------------------------- */

static bool add_line(struct cv_http *http, const char *line)
{
    struct curl_slist *list = curl_slist_append(http->fields, line);
    if (list == NULL)
        return false;
    http->fields = list;
    return true;
}

/* libcurl writes "Name;" for a field without a value; "Name:" would drop it. */
static bool add_field(struct cv_http *http, const char *name, const char *value)
{
    size_t size = strlen(name) + strlen(value) + 3;
    char *line = malloc(size);
    if (line == NULL)
        return false;
    if (*value == '\0')
        snprintf(line, size, "%s;", name);
    else
        snprintf(line, size, "%s: %s", name, value);
    bool added = add_line(http, line);
    free(line);
    return added;
}

static bool takes_over(const char *name)
{
    static const char *const names[] = {
        "content-length", "transfer-encoding", "connection", "host", "expect", NULL};
    for (int i = 0; names[i] != NULL; i++) {
        if (strcasecmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static int set_fields(struct cv_http *http, const struct cv_http_request *request,
                      struct cv_err *err)
{
    const char *name = request->headers.bytes;
    bool typed = false;
    bool added = true;
    for (uint32_t i = 0; i < request->headers.count; i += 2) {
        const char *value = cv_strings_next(name);
        if (!cv_is_token(name, strlen(name)) || !cv_is_field_value(value, strlen(value)))
            return cv_err_set(err, "invalid_request",
                              "a header field has a malformed name, or control bytes");
        if (takes_over(name))
            return cv_err_set(err, "invalid_request", "the header field %s can't be set", name);
        typed = typed || strcasecmp(name, "content-type") == 0;
        added = added && add_field(http, name, value);
        name = cv_strings_next(value);
    }
    if (request->target.server_name != NULL)
        added = added && add_field(http, "Host", http->route.authority);
    /* libcurl would ask first whether a body of 1 MB is welcome, and call every body a form. */
    added = added && add_line(http, "Expect:") && (typed || add_line(http, "Content-Type:"));
    if (!added)
        return cv_err_set(err, "start_failed", "no memory for a request");
    curl_easy_setopt(http->transfer.easy, CURLOPT_HTTPHEADER, http->fields);
    curl_easy_setopt(http->transfer.easy, CURLOPT_HEADEROPT, (long)CURLHEADER_SEPARATE);
    return 0;
}

static int set_method(struct cv_http *http, const struct cv_http_request *request,
                      struct cv_err *err)
{
    static const char *const repeatable[] = {"GET", "HEAD", "OPTIONS", "PUT", "DELETE", NULL};
    CURL *easy = http->transfer.easy;
    if (!cv_is_token(request->method, strlen(request->method)))
        return cv_err_set(err, "invalid_request", "the method is no token");
    for (int i = 0; repeatable[i] != NULL; i++)
        http->repeatable = http->repeatable || strcmp(request->method, repeatable[i]) == 0;
    if (request->body != NULL) {
        /* One byte more, since an empty body is one too and malloc(0) may give nothing. */
        http->sent = malloc(request->body_length + 1);
        if (http->sent == NULL)
            return cv_err_set(err, "start_failed", "no memory for the body of a request");
        memcpy(http->sent, request->body, request->body_length);
    }
    if (http->sent != NULL || strcmp(request->method, "POST") == 0) {
        curl_easy_setopt(easy, CURLOPT_POST, 1L);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDS, http->sent == NULL ? "" : (char *)http->sent);
        curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body_length);
    } else if (strcmp(request->method, "HEAD") == 0) {
        curl_easy_setopt(easy, CURLOPT_NOBODY, 1L);
    }
    if (curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) != CURLE_OK)
        return cv_err_set(err, "start_failed", "no memory for a request");
    return 0;
}

static void set_callbacks(struct cv_http *http)
{
    CURL *easy = http->transfer.easy;
    curl_easy_setopt(easy, CURLOPT_USERAGENT, "chamvi-sandbox");
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, http);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, http);
    curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, on_connected);
    curl_easy_setopt(easy, CURLOPT_PREREQDATA, http);
}

int cv_http_open(struct cv_http *http, struct cv_multi *multi, const struct cv_http_events *events,
                 const struct cv_http_request *request, struct cv_err *err)
{
    memset(http, 0, sizeof *http);
    cv_headers_init(&http->headers);
    cv_buf_init(&http->body, request->max_body);
    http->events = events;
    http->stream = request->stream;
    http->timeout_ms = request->timeout_ms;
    http->idle_ms = request->idle_ms;
    int result = cv_transfer_open(&http->transfer, multi, on_done, err);
    if (result == 0)
        result = cv_route_open(&http->route, &http->transfer, &request->target, err);
    if (result == 0)
        result = set_method(http, request, err);
    if (result == 0)
        result = set_fields(http, request, err);
    if (result == 0 && !set_alarms(http))
        result = cv_err_set(err, "start_failed", "no memory for a timer");
    if (result == 0) {
        set_callbacks(http);
        result = cv_transfer_start(&http->transfer, err);
    }
    if (result != 0)
        cv_http_close(http);
    return result;
}

void cv_http_close(struct cv_http *http)
{
    cv_alarm_clear(reactor_of(http), &http->deadline);
    cv_alarm_clear(reactor_of(http), &http->idle);
    cv_transfer_close(&http->transfer);
    cv_route_free(&http->route);
    curl_slist_free_all(http->fields);
    http->fields = NULL;
    free(http->sent);
    http->sent = NULL;
    cv_headers_free(&http->headers);
    cv_buf_free(&http->body);
}

void cv_http_resume(struct cv_http *http)
{
    if (!http->paused || http->transfer.easy == NULL)
        return;
    http->paused = false;
    http->heard_ms = cv_clock_ms();
    CURLcode code = curl_easy_pause(http->transfer.easy, CURLPAUSE_CONT);
    if (code == CURLE_OK)
        return;
    cv_route_fault(&http->route, &http->transfer, code, http->progress, &http->err);
    finish(http, &http->err);
}
