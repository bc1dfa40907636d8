/* The standard input of one command: bytes from the host, buffered under a credit of its own. */
#ifndef CV_SUPERVISOR_FEED_H
#define CV_SUPERVISOR_FEED_H

#include "base/buf.h"
#include "supervisor/runtime.h"

struct cv_feed {
    struct cv_watch watch; /* first member: CV_WATCH_FEED */
    uint32_t id;
    int fd;              /* write end, -1 when closed */
    struct cv_buf bytes; /* at most the stdin credit */
    uint32_t written;    /* since the last credit that was given back */
    bool ended;          /* the host sends no more */
    bool watched;        /* the pipe was full once: the loop tells when it takes more */
};

/* A closed feed. */
void cv_feed_init(struct cv_feed *feed, uint32_t id, uint32_t credit);
/* Takes over the write end `fd`. False with errno; then `fd` is still the caller's. */
bool cv_feed_open(struct cv_feed *feed, int fd);
/* Bytes of the host. False when it sent more than its credit. A closed feed drops them. */
bool cv_feed_add(struct cv_runtime *runtime, struct cv_feed *feed, const uint8_t *bytes,
                 size_t length);
/* The host sends no more: the command reads end of file behind the last byte. */
void cv_feed_end(struct cv_runtime *runtime, struct cv_feed *feed);
/* The pipe takes more, or nobody reads it any more. */
void cv_feed_wake(struct cv_runtime *runtime, struct cv_feed *feed);
/* Closes the write end and forgets what was not written. */
void cv_feed_close(struct cv_runtime *runtime, struct cv_feed *feed);

#endif
