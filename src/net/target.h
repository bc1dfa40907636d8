/*
 * Where a request goes and how it gets there: a unix socket, TCP or TLS, with or without a proxy.
 *
 * Nothing is taken from the host's files or environment unless asked for: no ~/.netrc, no cookies,
 * no proxy variables. The names of files and the peer appear in error messages; URLs, header
 * fields, keys and proxies, which may hold secrets, do not.
 */
#ifndef CV_NET_TARGET_H
#define CV_NET_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <curl/curl.h>

#include "base/err.h"
#include "base/strings.h"
#include "net/multi.h"

/* PEM text from a file or from memory; `path` counts when both are given. */
struct cv_pem {
    const char *path;
    const void *bytes; /* copied */
    size_t length;
};

struct cv_target {
    const char *url;         /* http: or https:, without user info */
    const char *unix_socket; /* path; NULL: TCP */
    struct cv_pem ca;        /* who may sign the server's certificate; none: the system's */
    struct cv_pem cert;      /* the client's certificate and key, unencrypted */
    struct cv_pem key;
    const char *server_name; /* instead of the URL's host in TLS; NULL: that */
    bool insecure;           /* takes any certificate */
    const char *proxy;       /* URL, as CURLOPT_PROXY, but port 80 for http; NULL: none */
    bool proxy_env;          /* without `proxy`: the one of the environment (proxy.h) */
    int64_t connect_ms;      /* bound for connecting, TLS included; over 0 */
};

/* What of a request outlives its start. */
struct cv_route {
    CURLU *url;
    struct curl_slist *connect_to;
    char peer[128];      /* for messages: the socket's path, or host and port */
    char authority[256]; /* what Host says: host, and port where it is not the default */
    char *resource;      /* path and query, owned */
    char *proxy;         /* the environment's, owned; NULL: none */
    bool tls;
    bool unix_socket;
    bool has_certificate; /* of the client */
    int64_t connect_ms;
    char words[CURL_ERROR_SIZE]; /* libcurl's, of the failure */
};

/*
 * Checks the target and sets the transfer's options. 0, or -1 with `err` (invalid_request for a
 * malformed target). The route is to be freed either way, after the transfer is closed.
 */
int cv_route_open(struct cv_route *route, struct cv_transfer *transfer,
                  const struct cv_target *target, struct cv_err *err);
void cv_route_free(struct cv_route *route);

/* How far a transfer came that has failed. */
enum cv_progress {
    CV_CONNECTING,
    CV_ASKED,    /* the request may have had an effect */
    CV_ANSWERED, /* the answer has begun */
};

/*
 * Fills `err` for a transfer that has failed: engine_unreachable when nothing can have come of it,
 * else transport_lost.
 */
void cv_route_fault(const struct cv_route *route, const struct cv_transfer *transfer,
                    CURLcode result, enum cv_progress progress, struct cv_err *err);
/* Fills `err` for a deadline of `timeout_ms` that has passed. */
void cv_route_late(const struct cv_route *route, enum cv_progress progress, int64_t timeout_ms,
                   struct cv_err *err);

#endif
