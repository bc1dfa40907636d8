/*
 * libcurl's multi interface on the reactor: its sockets and its timer are the reactor's, and a
 * transfer that has ended is told to whoever owns it.
 *
 * Everything runs on the reactor's thread and never waits. libcurl looks names up on threads of its
 * own; one that still waits for an answer when its transfer is closed is left alone, not joined.
 * libcurl's own sockets for that and for its (unused) wake-up are not close-on-exec; all others
 * are.
 */
#ifndef CV_NET_MULTI_H
#define CV_NET_MULTI_H

#include <stdbool.h>

#include <curl/curl.h>

#include "base/err.h"
#include "base/idmap.h"
#include "base/list.h"
#include "reactor/reactor.h"

struct cv_multi {
    struct cv_reactor *reactor;
    CURLM *curl;
    struct cv_alarm clock;   /* libcurl's timer */
    struct cv_idmap sockets; /* struct cv_multi_socket by descriptor */
    struct cv_list failed;   /* transfers whose socket can't be watched */
    bool global;             /* libcurl was initialized */
};

/* One easy handle. Embedded in the owner's structure. */
struct cv_transfer {
    CURL *easy; /* NULL: closed */
    struct cv_multi *multi;
    bool added;
    int errnum;            /* why no socket could be made or watched, 0: none */
    struct cv_list failed; /* in the multi's list */
    /* It has ended, or with CURLOPT_CONNECT_ONLY is connected. May close any transfer. */
    void (*done)(struct cv_transfer *transfer, CURLcode result);
};

/* 0, or -1 with `err`; then nothing is left open. */
int cv_multi_open(struct cv_multi *multi, struct cv_reactor *reactor, struct cv_err *err);
/*
 * Closes every connection; the transfers must be closed before. Idempotent. In a forked child
 * cv_multi_abandon has to come first of all.
 */
void cv_multi_close(struct cv_multi *multi);
/*
 * In a forked child: replaces each connection by one that is dead, so that closing it (TLS says
 * good-bye) sends nothing on what the parent still uses.
 */
void cv_multi_abandon(struct cv_multi *multi);

/* An easy handle with what every transfer has in common. 0, or -1 with `err`. */
int cv_transfer_open(struct cv_transfer *transfer, struct cv_multi *multi,
                     void (*done)(struct cv_transfer *, CURLcode), struct cv_err *err);
/* Starts it; `done` is called later, never from here. 0, or -1 with `err`. */
int cv_transfer_start(struct cv_transfer *transfer, struct cv_err *err);
/*
 * Ends it, wherever it is; a connection in mid-transfer is closed, an idle one stays for the next
 * transfer. Not from a callback of libcurl. Idempotent.
 */
void cv_transfer_close(struct cv_transfer *transfer);

#endif
