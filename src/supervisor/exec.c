#include "supervisor/exec.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "proto/supervise/frame.h"

#define TERM_TO_KILL_MS 5000
/* How long a killed leader is waited for. Who holds it by ptrace(2) can keep it from being reaped,
   and a system call that does not end from dying. */
#define KILL_TO_END_MS 2000
/* What is told of a leader that was given up: what timeout(1) exits with after a time limit. */
#define EXIT_UNSEEN 124
/* How long an exec whose command has exited waits for those who still hold its output. */
#define HELD_OUTPUT_MS 2000

enum { OUT, ERR };

struct cv_exec *cv_exec_find(const struct cv_runtime *runtime, uint32_t id)
{
    struct cv_idnode *node = cv_idmap_find(&runtime->by_id, id);
    return node == NULL ? NULL : cv_list_entry(node, struct cv_exec, by_id);
}

static void set_timer(struct cv_runtime *runtime, struct cv_exec *exec, int64_t delay_ms)
{
    /* The heap has room: it held this timer, or made room for it, when the exec started. */
    cv_heap_set(&runtime->timers, &exec->timer, cv_clock_ms() + delay_ms);
}

/*
 * The leader is not reaped, so its number is its own. It may not have made its group yet, or have
 * left it for another one of its session, and may do so at any moment: SIGKILL is meant for it in
 * any case, and is the only signal that does no harm twice.
 */
static void signal_group(const struct cv_exec *exec, int signal)
{
    bool apart = getpgid(exec->pid) != exec->pid;
    kill(-exec->pid, signal);
    if (apart || signal == SIGKILL)
        kill(exec->pid, signal);
}

/* ---- start -------------------------------------------------------------------------------- */

/* The six ends of the pipes of one command, all -1 when there is none. */
struct pipes {
    int in[2];
    int out[2];
    int err[2];
};

static void close_pipes(struct pipes *pipes)
{
    int *ends[] = {pipes->in, pipes->out, pipes->err};
    for (int i = 0; i < 3; i++) {
        cv_fd_close(&ends[i][0]);
        cv_fd_close(&ends[i][1]);
    }
}

static bool open_pipes(struct pipes *pipes, bool with_stdin)
{
    *pipes = (struct pipes){{-1, -1}, {-1, -1}, {-1, -1}};
    return (!with_stdin || pipe2(pipes->in, O_CLOEXEC) == 0) && pipe2(pipes->out, O_CLOEXEC) == 0 &&
           pipe2(pipes->err, O_CLOEXEC) == 0;
}

/* Hands our ends over to the streams and the feed. False with errno. */
static bool watch_pipes(struct cv_runtime *runtime, struct cv_exec *exec, struct pipes *pipes)
{
    if (!cv_stream_open(runtime, &exec->streams[OUT], pipes->out[0]))
        return false;
    pipes->out[0] = -1;
    if (!cv_stream_open(runtime, &exec->streams[ERR], pipes->err[0]))
        return false;
    pipes->err[0] = -1;
    if (pipes->in[1] >= 0) {
        if (!cv_feed_open(&exec->feed, pipes->in[1]))
            return false;
        pipes->in[1] = -1;
    }
    return true;
}

static void forget(struct cv_runtime *runtime, struct cv_exec *exec)
{
    cv_stream_close(runtime, &exec->streams[OUT]);
    cv_stream_close(runtime, &exec->streams[ERR]);
    cv_feed_close(runtime, &exec->feed);
    cv_heap_remove(&runtime->timers, &exec->timer);
    free(exec);
}

static struct cv_exec *create(struct cv_runtime *runtime, uint32_t id, const struct cv_start *start)
{
    struct cv_exec *exec = calloc(1, sizeof *exec);
    if (exec == NULL)
        return NULL;
    bool all = (start->flags & CV_START_STREAM_ALL) != 0;
    cv_stream_init(&exec->streams[OUT], exec, CV_FRAME_STDOUT, id,
                   all ? UINT64_MAX : start->stdout_cap);
    cv_stream_init(&exec->streams[ERR], exec, CV_FRAME_STDERR, id,
                   all ? UINT64_MAX : start->stderr_cap);
    cv_feed_init(&exec->feed, id, runtime->stdin_credit);
    /* Rounded up, and from the moment that the duration is counted from: never struck early. */
    exec->started_ns = cv_clock_ns();
    int64_t limit = exec->started_ns / 1000000 + 1 + start->timeout_ms;
    if (cv_heap_set(&runtime->timers, &exec->timer, limit) != 0) {
        free(exec);
        return NULL;
    }
    return exec;
}

/* Both maps have room before the command is let go, so that a started one is always known. */
static bool enter(struct cv_runtime *runtime, struct cv_exec *exec, uint32_t id)
{
    if (cv_idmap_add(&runtime->by_id, &exec->by_id, id) != 0)
        return false;
    if (cv_idmap_add(&runtime->by_pid, &exec->by_pid, (uint32_t)exec->pid) == 0)
        return true;
    cv_idmap_remove(&runtime->by_id, &exec->by_id);
    return false;
}

/* A started command that can't be kept track of must not run on. */
static void undo(struct cv_exec *exec)
{
    signal_group(exec, SIGKILL);
    waitpid(exec->pid, NULL, 0);
    cv_spawn_release(exec->spawn);
}

/*
 * Runs the command in the folder `cwd`. Returns NULL, or what failed, with errno. The child comes
 * first: what can be done while it is on its way to its execve is done then.
 */
static const char *run(struct cv_runtime *runtime, struct cv_exec *exec, uint32_t id,
                       const struct cv_start *start, int cwd)
{
    struct pipes pipes;
    const char *failed = NULL;
    if (!open_pipes(&pipes, (start->flags & CV_START_STDIN) != 0))
        failed = "making the command's pipes";
    const struct cv_spawn_request request = {.argv = &start->argv,
                                             .env = runtime->workspace.env,
                                             .path = runtime->workspace.path,
                                             .stdin_fd = pipes.in[0],
                                             .stdout_fd = pipes.out[1],
                                             .stderr_fd = pipes.err[1],
                                             .cwd = cwd,
                                             .files = &runtime->files};
    if (failed == NULL && (exec->pid = cv_spawn(&request, &exec->spawn)) < 0)
        failed = "starting a process";
    int saved = errno;
    if (failed == NULL && (!watch_pipes(runtime, exec, &pipes) || !enter(runtime, exec, id))) {
        failed = "watching the command";
        saved = errno;
        undo(exec);
    }
    close_pipes(&pipes);
    errno = saved;
    return failed;
}

bool cv_exec_start(struct cv_runtime *runtime, uint32_t id, const struct cv_start *start)
{
    if (cv_exec_find(runtime, id) != NULL)
        return false;
    if (!cv_workspace_present(&runtime->workspace)) {
        cv_runtime_fail(runtime, id, CV_FAILURE_GONE, 0, "the workspace's folder is gone");
        return true;
    }
    bool owned;
    int cwd = cv_workspace_cwd(&runtime->workspace, start->cwd, &owned);
    if (cwd < 0) {
        if (errno == EXDEV)
            cv_runtime_fail(runtime, id, CV_FAILURE_OUTSIDE, 0,
                            "the working directory leads out of the workspace");
        else
            cv_runtime_fail(runtime, id, CV_FAILURE_CWD, errno, "entering the working directory");
        return true;
    }
    struct cv_exec *exec = create(runtime, id, start);
    const char *failed = exec == NULL ? "starting a process" : run(runtime, exec, id, start, cwd);
    if (failed != NULL) {
        cv_runtime_fail(runtime, id, CV_FAILURE_START, errno, failed);
        if (exec != NULL)
            forget(runtime, exec);
    }
    if (owned)
        close(cwd);
    return true;
}

/* ---- kill --------------------------------------------------------------------------------- */

static void leave(struct cv_runtime *runtime, struct cv_exec *exec, const siginfo_t *info);

static bool leader_left(const struct cv_exec *exec)
{
    return exec->state >= CV_EXEC_EXITED;
}

static void kill_leader(struct cv_runtime *runtime, struct cv_exec *exec)
{
    exec->state = CV_EXEC_KILLED;
    signal_group(exec, SIGKILL);
    set_timer(runtime, exec, KILL_TO_END_MS);
}

/*
 * The host gets its answer in time; the leader is reaped whenever that is possible. Whether it has
 * died, and of what, is not known, so no signal is named.
 */
static void give_up(struct cv_runtime *runtime, struct cv_exec *exec)
{
    const siginfo_t unseen = {.si_code = CLD_EXITED, .si_status = EXIT_UNSEEN};
    exec->given_up = true;
    leave(runtime, exec, &unseen);
}

void cv_exec_timer(struct cv_runtime *runtime, struct cv_exec *exec)
{
    switch (exec->state) {
    case CV_EXEC_RUNNING:
        exec->timed_out = true;
        exec->state = CV_EXEC_TERMED;
        signal_group(exec, SIGTERM);
        signal_group(exec, SIGCONT); /* a stopped command must see its SIGTERM */
        set_timer(runtime, exec, TERM_TO_KILL_MS);
        break;
    case CV_EXEC_TERMED:
        kill_leader(runtime, exec);
        break;
    case CV_EXEC_KILLED:
        give_up(runtime, exec);
        break;
    case CV_EXEC_EXITED:
        exec->state = CV_EXEC_LINGERED;
        cv_exec_settle(runtime, exec);
        break;
    default:
        break;
    }
}

void cv_exec_abort(struct cv_runtime *runtime, struct cv_exec *exec)
{
    exec->aborted = true;
    cv_stream_discard(runtime, &exec->streams[OUT]);
    cv_stream_discard(runtime, &exec->streams[ERR]);
    cv_feed_close(runtime, &exec->feed);
    if (leader_left(exec)) {
        cv_children_kill_group(&runtime->children, exec->pid);
        cv_exec_settle(runtime, exec);
        return;
    }
    kill_leader(runtime, exec);
}

/* ---- end ---------------------------------------------------------------------------------- */

static void leave(struct cv_runtime *runtime, struct cv_exec *exec, const siginfo_t *info)
{
    cv_feed_close(runtime, &exec->feed);
    exec->exit = *info;
    exec->exited_ns = cv_clock_ns();
    exec->state = CV_EXEC_EXITED;
    set_timer(runtime, exec, HELD_OUTPUT_MS);
    for (int i = OUT; i <= ERR; i++) {
        cv_stream_settle(&exec->streams[i]);
        cv_stream_wake(runtime, &exec->streams[i]); /* finds the end of file, if it is there */
    }
    cv_exec_settle(runtime, exec);
}

static void leader_reaped(struct cv_runtime *runtime, struct cv_exec *exec, const siginfo_t *info)
{
    cv_idmap_remove(&runtime->by_pid, &exec->by_pid);
    if (!exec->given_up) {
        leave(runtime, exec, info);
        return;
    }
    exec->given_up = false;
    cv_exec_settle(runtime, exec);
}

void cv_exec_reap(struct cv_runtime *runtime)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT | __WALL) != 0 || info.si_pid == 0)
            return;
        struct cv_idnode *node = cv_idmap_find(&runtime->by_pid, (uint32_t)info.si_pid);
        struct cv_exec *exec = node == NULL ? NULL : cv_list_entry(node, struct cv_exec, by_pid);
        /* While the leader is a zombie its number can't be another group's: kill the rest now. */
        if (exec != NULL && exec->state != CV_EXEC_RUNNING)
            signal_group(exec, SIGKILL);
        siginfo_t reaped;
        waitid(P_PID, (id_t)info.si_pid, &reaped, WEXITED | WNOHANG | __WALL);
        if (exec != NULL)
            leader_reaped(runtime, exec, &info);
    }
}

static bool output_done(const struct cv_exec *exec, const struct cv_stream *stream)
{
    return stream->fd < 0 || exec->aborted ||
           (exec->state == CV_EXEC_LINGERED && stream->owed == 0);
}

/* The child never became the command: the outcome is ours to tell, not the command's. */
static bool report_failure(struct cv_runtime *runtime, struct cv_exec *exec)
{
    int errnum;
    if (exec->given_up)
        return false;
    switch (cv_spawn_failure(exec->spawn, &errnum)) {
    case CV_SPAWN_STEP_CWD:
        cv_runtime_fail(runtime, exec->by_id.id, CV_FAILURE_CWD, errnum,
                        "entering the working directory");
        return true;
    case CV_SPAWN_STEP_EXEC:
        if (errnum == E2BIG) {
            cv_runtime_fail(runtime, exec->by_id.id, CV_FAILURE_TOO_LONG, 0,
                            "the arguments are too long together with the environment: pass less, "
                            "on stdin or in a file");
            return true;
        }
        cv_runtime_fail(runtime, exec->by_id.id, CV_FAILURE_START, errnum, "running the program");
        return true;
    default:
        return false;
    }
}

static void report_end(struct cv_runtime *runtime, struct cv_exec *exec)
{
    cv_stream_probe(runtime, &exec->streams[OUT]);
    cv_stream_probe(runtime, &exec->streams[ERR]);
    bool held = exec->streams[OUT].fd >= 0 || exec->streams[ERR].fd >= 0;
    bool exited = exec->exit.si_code == CLD_EXITED;
    const struct cv_ended ended = {
        .how = exited ? CV_ENDED_EXITED : CV_ENDED_SIGNALED,
        .value = (uint32_t)exec->exit.si_status,
        .flags = (exec->timed_out ? CV_ENDED_TIMED_OUT : 0) | (held ? CV_ENDED_STREAMS_HELD : 0),
        .stdout_bytes = exec->streams[OUT].total,
        .stderr_bytes = exec->streams[ERR].total,
        .duration_us = (uint64_t)(exec->exited_ns - exec->started_ns) / 1000,
    };
    uint8_t payload[CV_ENDED_SIZE];
    cv_ended_encode(payload, &ended);
    if (!cv_outq_ordered(&runtime->out, CV_FRAME_ENDED, exec->by_id.id, payload, sizeof payload))
        runtime->broken = true;
}

static void report(struct cv_runtime *runtime, struct cv_exec *exec)
{
    if (!report_failure(runtime, exec))
        report_end(runtime, exec);
    cv_idmap_remove(&runtime->by_id, &exec->by_id);
    cv_heap_remove(&runtime->timers, &exec->timer);
    exec->state = CV_EXEC_REPORTED;
    cv_stream_discard(runtime, &exec->streams[OUT]);
    cv_stream_discard(runtime, &exec->streams[ERR]);
}

void cv_exec_settle(struct cv_runtime *runtime, struct cv_exec *exec)
{
    if (!leader_left(exec))
        return;
    if (exec->state != CV_EXEC_REPORTED) {
        if (!output_done(exec, &exec->streams[OUT]) || !output_done(exec, &exec->streams[ERR]))
            return;
        report(runtime, exec);
    }
    if (exec->given_up)
        return;
    cv_spawn_release(exec->spawn);
    exec->spawn = NULL;
    if (exec->streams[OUT].fd < 0 && exec->streams[ERR].fd < 0)
        forget(runtime, exec);
}
