/*
 * One epoll set per lua_State: sources, alarms and a queue of completions behind one descriptor
 * that any event loop can watch. The alarms' timerfd lies in the same set, so the descriptor alone
 * tells when there is something to do.
 *
 * Single-threaded. Callbacks run inside cv_reactor_step and may add, change and close sources and
 * alarms, their own too. Nothing here knows Lua.
 */
#ifndef CV_REACTOR_REACTOR_H
#define CV_REACTOR_REACTOR_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/heap.h"
#include "base/list.h"

#define CV_REACTOR_BATCH 64

/* A descriptor in the set, which the source owns. Embedded in the caller's structure. */
struct cv_source {
    int fd; /* -1: closed */
    uint32_t events;
    void (*ready)(struct cv_source *source, uint32_t events);
};

/* A moment at which something happens. Embedded in the caller's structure. */
struct cv_alarm {
    struct cv_timer timer;
    void (*strike)(struct cv_alarm *alarm);
};

/*
 * Something that has ended, or has news, and waits to be taken. Embedded in the caller's structure.
 * Several parties share the queue: the owner is whose completion it is.
 */
struct cv_completion {
    struct cv_list link;
    const void *owner;
};

struct cv_reactor {
    int epoll;
    struct cv_source clock; /* the timerfd */
    int64_t clock_set;      /* what the timerfd is set to, 0: nothing; ms of CLOCK_MONOTONIC */
    struct cv_heap alarms;
    struct cv_list completions;
    uint8_t *owner; /* a page that a fork wipes: zero in a child; NULL: compare `pid` */
    pid_t pid;
    struct epoll_event batch[CV_REACTOR_BATCH]; /* of the step under way */
    int batch_at;
    int batch_count;
    bool stepping;
};

/* Makes the epoll set and the timerfd. 0, or -1 with `err`; then nothing is left open. */
int cv_reactor_open(struct cv_reactor *reactor, struct cv_err *err);
/*
 * Closes the reactor's own descriptors; sources are the callers' to close before. In a forked child
 * it only closes: the set is shared with the parent, and taking anything out would take it from the
 * parent too. Idempotent.
 */
void cv_reactor_close(struct cv_reactor *reactor);
/* True in a process that was forked from the one that opened the reactor. */
bool cv_reactor_foreign(const struct cv_reactor *reactor);

/*
 * Puts `fd`, which becomes the source's, into the set. 0, or -1 with errno; then `fd` stays the
 * caller's and source->fd is -1. Events as epoll_ctl(2), level-triggered.
 */
int cv_source_open(struct cv_reactor *reactor, struct cv_source *source, int fd, uint32_t events);
/* Changes the events that are waited for. */
void cv_source_want(struct cv_reactor *reactor, struct cv_source *source, uint32_t events);
/* Takes the descriptor out of the set (not in a forked child) and closes it. Idempotent. */
void cv_source_close(struct cv_reactor *reactor, struct cv_source *source);
/* The same without closing: the descriptor is the caller's again. Idempotent. */
void cv_source_detach(struct cv_reactor *reactor, struct cv_source *source);

/* Lets the alarm strike once, in `delay_ms` milliseconds. 0, or -1 with errno ENOMEM. */
int cv_alarm_set(struct cv_reactor *reactor, struct cv_alarm *alarm, int64_t delay_ms);
/* Harmless when the alarm is not set. */
void cv_alarm_clear(struct cv_reactor *reactor, struct cv_alarm *alarm);

/*
 * Queues a completion that is in no list; `owner` is for cv_reactor_first's caller. Outside of a
 * step it makes the set's descriptor readable until the next step, for hosts that watch only that.
 */
void cv_reactor_complete(struct cv_reactor *reactor, struct cv_completion *completion,
                         const void *owner);
/* The oldest completion, still queued, or NULL. */
struct cv_completion *cv_reactor_first(const struct cv_reactor *reactor);

/*
 * Waits for at most `timeout_ms` (negative: for ever) until a source is ready, an alarm strikes or
 * a completion is queued, and handles one batch of what is there: sources before alarms. 0, or -1
 * with `err` (a forked child; epoll_wait(2) failed).
 */
int cv_reactor_step(struct cv_reactor *reactor, int64_t timeout_ms, struct cv_err *err);

#endif
