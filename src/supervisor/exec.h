/*
 * One command, from start to its last byte: time limit, kill escalation, exit-led finish.
 *
 * An exec is reported (ended or error) exactly once. It is forgotten when it was reported, its
 * leader is reaped and nobody holds its output any more.
 */
#ifndef CV_SUPERVISOR_EXEC_H
#define CV_SUPERVISOR_EXEC_H

#include <sys/wait.h>

#include "proto/supervise/message.h"
#include "supervisor/feed.h"
#include "supervisor/runtime.h"
#include "supervisor/spawn.h"
#include "supervisor/stream.h"

enum cv_exec_state {
    CV_EXEC_RUNNING,  /* timer: the time limit */
    CV_EXEC_TERMED,   /* SIGTERM was sent; timer: SIGKILL */
    CV_EXEC_KILLED,   /* SIGKILL was sent; timer: how long its effect is waited for */
    CV_EXEC_EXITED,   /* the leader is reaped, or given up; timer: the same for held output */
    CV_EXEC_LINGERED, /* that time is over */
    CV_EXEC_REPORTED, /* the host knows; what is still printed is read away */
};

struct cv_exec {
    struct cv_idnode by_id;
    struct cv_idnode by_pid;
    struct cv_timer timer;
    enum cv_exec_state state;
    pid_t pid; /* also the process group */
    bool timed_out;
    bool aborted;
    bool given_up; /* its leader was killed and can't be reaped yet */
    siginfo_t exit;
    int64_t started_ns;
    int64_t exited_ns;
    struct cv_stream streams[2]; /* stdout, stderr */
    struct cv_feed feed;
    struct cv_spawn *spawn; /* until the leader is reaped */
};

/* Starts the command under `id`, or reports why it can't be. False: the id is in use. */
bool cv_exec_start(struct cv_runtime *runtime, uint32_t id, const struct cv_start *start);
/* The exec of `id`, or NULL when there is none or it was reported. */
struct cv_exec *cv_exec_find(const struct cv_runtime *runtime, uint32_t id);
/* Kills the process group; output that was not sent yet is dropped. */
void cv_exec_abort(struct cv_runtime *runtime, struct cv_exec *exec);
/* Reaps every child that has ended, known or adopted. */
void cv_exec_reap(struct cv_runtime *runtime);
/* The exec's timer has struck. */
void cv_exec_timer(struct cv_runtime *runtime, struct cv_exec *exec);
/* Reports the exec if it is at its end, and frees it if nothing holds it any more. */
void cv_exec_settle(struct cv_runtime *runtime, struct cv_exec *exec);

#endif
