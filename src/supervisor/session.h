/* The conversation with the host: frames in, frames out, and everything in between, on one loop. */
#ifndef CV_SUPERVISOR_SESSION_H
#define CV_SUPERVISOR_SESSION_H

#include <sys/resource.h>

#include "supervisor/children.h"

struct cv_session_config {
    int input;  /* the stream of the host */
    int output; /* the same, or another descriptor */
    int host;   /* a pidfd of the host, or -1 */
    pid_t guard_pid;
    int guard;           /* a pidfd of the guard, or -1: then its death is seen by getppid(2) */
    struct rlimit files; /* RLIMIT_NOFILE of the commands */
    int record_errno;    /* why the guard could not lock the workspace's record; 0: it has */
    cv_beat *beat;
};

/*
 * Serves until the host closes the stream or dies, the guard dies, the lease runs out or the host
 * breaks the protocol; then everything it started is dead, as far as it can be killed.
 */
void cv_session_run(const struct cv_session_config *config);

#endif
