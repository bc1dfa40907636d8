/*
 * Starting one command.
 *
 * The child shares the memory of the supervisor until its execve (clone(2) with CLONE_VM and a
 * stack of its own): as fast as vfork, but the supervisor never waits for it, so a command that
 * stops a half-started child stops that child alone. Sanitizer builds use fork.
 */
#ifndef CV_SUPERVISOR_SPAWN_H
#define CV_SUPERVISOR_SPAWN_H

#include <stddef.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "proto/supervise/message.h"

/* Where the child failed before its execve, as cv_spawn_failure reports it. */
enum cv_spawn_step { CV_SPAWN_STEP_NONE, CV_SPAWN_STEP_CWD, CV_SPAWN_STEP_EXEC };

/* What a child needs until its execve. Owned by the caller of cv_spawn until cv_spawn_release. */
struct cv_spawn;

struct cv_spawn_request {
    const struct cv_strings *argv;
    char *const *env; /* must stay until cv_spawn_release */
    const char *path; /* the value of PATH in `env`, or NULL */
    int stdin_fd;     /* -1: /dev/null */
    int stdout_fd;
    int stderr_fd;
    int cwd;                    /* descriptor of the working directory */
    const struct rlimit *files; /* RLIMIT_NOFILE of the command */
};

/*
 * Starts the command and returns its process id, or -1 with errno. The child is the leader of its
 * own process group soon after. It reports a program that is missing (127) or not executable (126)
 * by one line on its stderr and its exit code, as a shell does; every other failure by
 * cv_spawn_failure, once it has been reaped.
 *
 * Descriptors are the caller's and may be closed at once; `*spawn` must be kept until the child
 * was reaped and then given to cv_spawn_release.
 */
pid_t cv_spawn(const struct cv_spawn_request *request, struct cv_spawn **spawn);

/* The step at which the reaped child failed and its errno, or CV_SPAWN_STEP_NONE. */
enum cv_spawn_step cv_spawn_failure(const struct cv_spawn *spawn, int *errnum);

/* Releases the memory of a child that was reaped; NULL is fine. */
void cv_spawn_release(struct cv_spawn *spawn);

#endif
