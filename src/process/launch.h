/* Starting a guard and its supervisor from a host in any state. */
#ifndef CV_PROCESS_LAUNCH_H
#define CV_PROCESS_LAUNCH_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct cv_launched {
    int socket;  /* non-blocking, close-on-exec; the caller's */
    pid_t guard; /* a child of this process; the caller reaps it */
};

/* The record of the workspace, whose lock tells other processes that it is looked after. */
struct cv_lock_request {
    int fd;       /* stays the caller's */
    bool removal; /* lock it as one who removes the workspace, not as one who runs it */
};

/*
 * Runs the program `path` with the far end of a new socket, a pidfd of this process, and a record
 * that the guard locks (NULL: none). Touches neither signals, working directory, environment nor
 * any descriptor of the host. 0, or -1 with `err` (create_failed); then nothing is left.
 */
int cv_launch(const char *path, const struct cv_lock_request *record, struct cv_launched *launched,
              struct cv_err *err);
/* Ends and reaps a guard that was asked for nothing yet and whose socket is closed. */
void cv_launch_undo(pid_t guard);

#endif
