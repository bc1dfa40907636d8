/*
 * What the parts of the supervisor share: one event loop, one stream to the host, its credit.
 * There is one runtime per process and one thread in it.
 */
#ifndef CV_SUPERVISOR_RUNTIME_H
#define CV_SUPERVISOR_RUNTIME_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>

#include "base/heap.h"
#include "base/idmap.h"
#include "base/list.h"
#include "supervisor/children.h"
#include "supervisor/files.h"
#include "supervisor/outq.h"
#include "supervisor/workspace.h"

/* What an epoll event is about; the first member of whatever is watched. */
enum cv_watch_kind {
    CV_WATCH_INPUT,  /* frames of the host */
    CV_WATCH_OUTPUT, /* the stream to the host, where it is another descriptor */
    CV_WATCH_SIGNAL, /* SIGCHLD */
    CV_WATCH_DEATH,  /* a pidfd of the host or the guard */
    CV_WATCH_STREAM, /* struct cv_stream */
    CV_WATCH_FEED,   /* struct cv_feed */
};

struct cv_watch {
    enum cv_watch_kind kind;
};

struct cv_runtime {
    int epoll;
    struct cv_outq out;
    uint64_t credit;        /* output bytes that may still be sent */
    uint64_t least_credit;  /* what a read of output needs: a packet of a pipe, or all there is */
    uint32_t stdin_credit;  /* bytes of stdin buffered per command */
    struct cv_heap timers;  /* milliseconds of CLOCK_MONOTONIC */
    struct cv_list ready;   /* streams that may have something to read */
    struct cv_list stalled; /* streams that wait for credit or for room in `out` */
    struct cv_idmap by_id;  /* execs not yet reported */
    struct cv_idmap by_pid; /* execs whose leader is not yet reaped */
    struct cv_children children;
    struct cv_workspace workspace;
    struct cv_files requests;
    struct rlimit files; /* RLIMIT_NOFILE of the commands */
    cv_beat *beat;
    int64_t now; /* milliseconds, as of the last wake-up */
    unsigned large_pipes;
    bool broken; /* the stream to the host can't be used any more: end */
};

/* Tells the host why an id, or with id 0 the whole stream, has failed; behind all output. */
void cv_runtime_fail(struct cv_runtime *runtime, uint32_t id, uint32_t code, int errnum,
                     const char *text);

#endif
