/* Starting a guard and its supervisor from a host in any state. */
#ifndef CV_PROCESS_LAUNCH_H
#define CV_PROCESS_LAUNCH_H

#include <sys/types.h>

#include "base/err.h"

struct cv_launched {
    int socket;  /* non-blocking, close-on-exec; the caller's */
    pid_t guard; /* a child of this process; the caller reaps it */
};

/*
 * Runs the program `path` with the far end of a new socket and a pidfd of this process. Touches
 * neither signals, working directory, environment nor any descriptor of the host. 0, or -1 with
 * `err` (create_failed); then nothing is left.
 */
int cv_launch(const char *path, struct cv_launched *launched, struct cv_err *err);
/* Ends and reaps a guard that was asked for nothing yet and whose socket is closed. */
void cv_launch_undo(pid_t guard);

#endif
