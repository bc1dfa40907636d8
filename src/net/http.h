/*
 * One HTTP/1.1 request and its answer, through libcurl. Redirects are not followed, nothing is
 * decoded, and a request that may have had an effect is never sent twice by itself: only GET, HEAD,
 * OPTIONS, PUT and DELETE are tried again when a kept connection turns out to be dead.
 */
#ifndef CV_NET_HTTP_H
#define CV_NET_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "net/multi.h"
#include "net/target.h"
#include "proto/headers.h"
#include "reactor/reactor.h"

struct cv_http_request {
    struct cv_target target;
    const char *method;        /* a token in capitals */
    struct cv_strings headers; /* name, value, name, value, ... */
    const void *body;          /* copied; NULL: none */
    size_t body_length;
    size_t max_body;    /* of the answer, when it is collected */
    bool stream;        /* hand out the body of a 2xx answer as it comes */
    int64_t timeout_ms; /* for the whole exchange; 0: none */
    int64_t idle_ms;    /* without a byte in either direction; 0: none */
};

struct cv_http;

/* What the owner is told; `done` exactly once and last. None may call back into the exchange. */
struct cv_http_events {
    /* Streamed only: the head of a 2xx answer is there. */
    void (*head)(struct cv_http *http);
    /*
     * Streamed only: 1 when they are taken; 0 when they can't be now, and cv_http_resume then
     * brings them again; -1 without memory, which fails the exchange.
     */
    int (*bytes)(struct cv_http *http, const void *bytes, size_t length);
    /* The answer is whole (`err` NULL), or there is none. */
    void (*done)(struct cv_http *http, const struct cv_err *err);
};

struct cv_http {
    int status;
    struct cv_headers headers;
    struct cv_buf body; /* collected */
    /* The exchange's own. */
    struct cv_transfer transfer;
    struct cv_route route;
    const struct cv_http_events *events;
    struct curl_slist *fields;
    uint8_t *sent; /* the request's body */
    struct cv_alarm deadline;
    struct cv_alarm idle;
    int64_t timeout_ms;
    int64_t idle_ms;
    int64_t heard_ms;  /* when the last byte came or went */
    curl_off_t upload; /* bytes sent when that was last looked at */
    enum cv_progress progress;
    bool repeatable; /* may be sent again */
    bool asked;      /* was sent, or tried to be */
    bool stream;
    bool streaming; /* the answer is handed out */
    bool paused;
    struct cv_err err; /* found in a callback of libcurl */
};

/*
 * Starts the exchange. 0, or -1 with `err` (invalid_request, start_failed); then `done` is not
 * called and nothing is left.
 */
int cv_http_open(struct cv_http *http, struct cv_multi *multi, const struct cv_http_events *events,
                 const struct cv_http_request *request, struct cv_err *err);
/* Ends it without a word, wherever it is, and frees all but the structure. Idempotent. */
void cv_http_close(struct cv_http *http);
/* The owner takes bytes again; may tell events. */
void cv_http_resume(struct cv_http *http);

#endif
