/*
 * The guard: a process that does nothing but wait and kill. It is the parent of the supervisor and
 * the subreaper of all that the supervisor's end leaves behind, so a command that kills or stops
 * the supervisor ends itself with it.
 */
#ifndef CV_SUPERVISOR_GUARD_H
#define CV_SUPERVISOR_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

#include "supervisor/children.h"

struct cv_guard {
    pid_t supervisor;
    int socket;    /* watched for hang-up, never read or written */
    int host;      /* a pidfd of the host process, or -1 */
    pid_t parent;  /* the host's process id where there is no pidfd, else 0 */
    cv_beat *beat; /* shared with the supervisor */
};

/*
 * Watches until everything is dead. SIGCHLD and SIGTERM must be blocked; the latter, sent by a
 * collector, ends the workspace. Returns how many processes could not be killed.
 */
unsigned cv_guard_run(struct cv_guard *guard);

#endif
