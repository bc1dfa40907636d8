/* Starting a guard from hosts in a bad state. */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "base/fd.h"
#include "base/linux.h"
#include "process/launch.h"
#include "support/harness.h"
#include "support/scratch.h"

/* The host's end lies above the descriptors of the child. */
#define FIRST_FD 10

static const char *supervisor;

/*
 * What must hold of every launch; used in forked hosts too, so it reports by its return value: NULL
 * or what is wrong.
 */
static const char *nothing_is_left(int descriptors)
{
    pid_t child;
    if (proc_children(getpid(), &child, 1) != 0)
        return "a process is left";
    return scratch_descriptors() == descriptors ? NULL : "a descriptor is left";
}

/* The supervisor answers an unfit first frame with an error, so it runs and has its socket. */
static bool answers(int fd)
{
    uint8_t header[CV_FRAME_HEADER_SIZE];
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    cv_frame_header(header, CV_FRAME_CLOSE, 0, 0, 0);
    return write(fd, header, sizeof header) == (ssize_t)sizeof header &&
           poll(&watched, 1, SUP_PATIENCE_MS) == 1 &&
           read(fd, header, sizeof header) == (ssize_t)sizeof header && header[4] == CV_FRAME_ERROR;
}

/* Launches, talks, closes and reaps. */
static const char *launch_works(void *context)
{
    struct cv_launched launched;
    struct cv_err err;
    int status;
    int before = scratch_descriptors();
    (void)context;
    if (cv_launch(supervisor, NULL, &launched, &err) != 0)
        return "the launch failed";
    if (launched.socket < FIRST_FD || fcntl(launched.socket, F_GETFD) != FD_CLOEXEC ||
        (fcntl(launched.socket, F_GETFL) & O_NONBLOCK) == 0)
        return "the socket is not high, closed on exec and non-blocking";
    if (scratch_descriptors() != before + 1)
        return "more than the socket is open";
    if (!answers(launched.socket))
        return "the supervisor does not answer";
    close(launched.socket);
    pid_t reaped = waitpid(launched.guard, &status, 0);
    if (reaped == launched.guard ? status != 0 : errno != ECHILD)
        return "the guard did not end with 0";
    return nothing_is_left(before);
}

static void expect_works(void)
{
    const char *wrong = launch_works(NULL);
    if (wrong != NULL)
        sup_fail("%s", wrong);
}

static void expect_fails(const char *path, const char *reason)
{
    struct cv_launched launched;
    struct cv_err err = {0};
    int before = scratch_descriptors();
    assert_int_equal(cv_launch(path, NULL, &launched, &err), -1);
    assert_string_equal(err.code, "create_failed");
    if (strstr(err.message, path) == NULL || strstr(err.message, reason) == NULL)
        sup_fail("the message does not name %s and \"%s\": %s", path, reason, err.message);
    const char *wrong = nothing_is_left(before);
    if (wrong != NULL)
        sup_fail("%s", wrong);
}

static void launch_in_a_plain_host(void **state)
{
    (void)state;
    expect_works();
}

/* ---- programs that are none --------------------------------------------------------------- */

static void missing_program(void **state)
{
    (void)state;
    expect_fails("/no/such/chamvi-supervisor", "No such file");
    expect_fails("/proc/self/exe/below-a-file", "Not a directory");
}

static void program_that_cannot_be_executed(void **state)
{
    char folder[PATH_MAX];
    (void)state;
    scratch_make(folder, false);
    int dir = scratch_open(folder);
    scratch_file(dir, "plain", "#!/bin/sh\n");
    expect_fails(sup_path(folder, "plain"), "Permission denied");
    expect_fails(folder, "Permission denied");
    scratch_file(dir, "text", "no program at all");
    assert_int_equal(fchmodat(dir, "text", 0755, 0), 0);
    expect_fails(sup_path(folder, "text"), "Exec format error");
    close(dir);
    scratch_remove(folder);
}

/* ---- standard streams and descriptors of the host ----------------------------------------- */

static const char *launch_without_stdio(void *mask)
{
    int closed = *(const int *)mask;
    for (int fd = 0; fd <= 2; fd++) {
        if ((closed & 1 << fd) != 0)
            close(fd);
    }
    const char *wrong = launch_works(NULL);
    for (int fd = 0; fd <= 2 && wrong == NULL; fd++) {
        if ((closed & 1 << fd) != 0 && fcntl(fd, F_GETFD) >= 0)
            wrong = "a standard stream was taken";
    }
    return wrong;
}

static void standard_streams_are_closed(void **state)
{
    (void)state;
    for (int closed = 1; closed < 8; closed++)
        scratch_apart(launch_without_stdio, &closed);
}

/* The host's own 3 and 4 go on as they were, and the supervisor gets its own. */
static const char *launch_with_busy_3_and_4(void *context)
{
    int ends[2];
    char byte = 0;
    (void)context;
    if (pipe(ends) != 0)
        return "no pipe";
    int from = cv_fd_move_up(ends[0], 20);
    int to = cv_fd_move_up(ends[1], 20);
    if (dup2(from, 3) != 3 || dup2(to, 4) != 4)
        return "no descriptors 3 and 4";
    close(from);
    close(to);
    const char *wrong = launch_works(NULL);
    if (wrong == NULL && (write(4, "x", 1) != 1 || read(3, &byte, 1) != 1 || byte != 'x'))
        wrong = "the host's own pipe is broken";
    close(4);
    if (wrong == NULL && read(3, &byte, 1) != 0)
        wrong = "somebody else holds the host's pipe";
    return wrong;
}

static void descriptors_3_and_4_are_the_hosts(void **state)
{
    (void)state;
    scratch_apart(launch_with_busy_3_and_4, NULL);
}

static const char *launch_with_everything_low_taken(void *context)
{
    (void)context;
    for (int fd = 0; fd < 40; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY) < 0)
            return "no descriptor";
    }
    return launch_works(NULL);
}

static void low_descriptors_are_taken(void **state)
{
    (void)state;
    scratch_apart(launch_with_everything_low_taken, NULL);
}

/* A launch while this process may open no descriptor from `limit` up; NULL or what is wrong. */
static const char *launch_below(rlim_t limit, bool *worked)
{
    struct cv_launched launched;
    struct cv_err err = {0};
    struct rlimit files;
    int before = scratch_descriptors();
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return "no limit";
    const rlim_t enough = files.rlim_cur;
    files.rlim_cur = limit;
    setrlimit(RLIMIT_NOFILE, &files);
    *worked = cv_launch(supervisor, NULL, &launched, &err) == 0;
    files.rlim_cur = enough;
    setrlimit(RLIMIT_NOFILE, &files);
    if (*worked) {
        close(launched.socket);
        waitpid(launched.guard, NULL, 0);
    } else if (err.code == NULL || strcmp(err.code, "create_failed") != 0) {
        return "a failure without its code";
    } else if (strstr(err.message, "Too many open files") == NULL) {
        return "a failure whose message does not tell why";
    }
    return nothing_is_left(before);
}

static const char *launch_under_every_limit(void *context)
{
    bool worked = false;
    (void)context;
    for (rlim_t limit = 0; !worked; limit++) {
        const char *wrong = launch_below(limit, &worked);
        if (wrong == NULL && worked && limit < FIRST_FD)
            wrong = "it worked without descriptors";
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

static void descriptors_run_out_at_every_step(void **state)
{
    (void)state;
    scratch_apart(launch_under_every_limit, NULL);
}

/* With all below the limit taken at first, one more is free in each round. */
static const char *launch_with_few_free(void *context)
{
    enum { LIMIT = 64 };
    bool worked = false;
    (void)context;
    for (int fd = 0; fd < LIMIT; fd++) {
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDONLY | O_CLOEXEC) < 0)
            return "no descriptor";
    }
    for (int spare = 0; !worked; spare++) {
        const char *wrong = launch_below(LIMIT, &worked);
        if (wrong == NULL && worked && spare < 4) /* both ends, a copy of one, the pidfd */
            wrong = "it worked without descriptors";
        if (wrong != NULL)
            return wrong;
        close(LIMIT - 1 - spare);
    }
    return NULL;
}

static void few_descriptors_are_free(void **state)
{
    (void)state;
    scratch_apart(launch_with_few_free, NULL);
}

/* ---- signals ------------------------------------------------------------------------------ */

static const char *launch_with_sigchld_ignored(void *context)
{
    (void)context;
    signal(SIGCHLD, SIG_IGN);
    const char *wrong = launch_works(NULL);
    if (wrong == NULL && signal(SIGCHLD, SIG_DFL) != SIG_IGN)
        wrong = "the host's disposition was changed";
    return wrong;
}

static void child_signal_is_ignored(void **state)
{
    (void)state;
    scratch_apart(launch_with_sigchld_ignored, NULL);
}

static const char *launch_with_all_blocked(void *context)
{
    sigset_t all, now;
    (void)context;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    const char *wrong = launch_works(NULL);
    sigprocmask(SIG_SETMASK, NULL, &now);
    if (wrong == NULL && sigismember(&now, SIGTERM) != 1)
        wrong = "the host's mask was changed";
    return wrong;
}

static void signals_are_blocked(void **state)
{
    (void)state;
    scratch_apart(launch_with_all_blocked, NULL);
}

static const char *launch_with_all_ignored(void *context)
{
    (void)context;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    return launch_works(NULL);
}

static void signals_are_ignored(void **state)
{
    (void)state;
    scratch_apart(launch_with_all_ignored, NULL);
}

/* ---- the rest ----------------------------------------------------------------------------- */

static const char *launch_from_a_deleted_folder(void *context)
{
    (void)context;
    char folder[] = "/tmp/chamvi-spec-XXXXXX";
    if (mkdtemp(folder) == NULL || chdir(folder) != 0 || rmdir(folder) != 0)
        return "no folder";
    return launch_works(NULL);
}

static void working_directory_is_gone(void **state)
{
    (void)state;
    scratch_apart(launch_from_a_deleted_folder, NULL);
}

static void undone_launch_leaves_nothing(void **state)
{
    struct cv_launched launched;
    struct cv_err err;
    (void)state;
    int before = scratch_descriptors();
    assert_int_equal(cv_launch(supervisor, NULL, &launched, &err), 0);
    close(launched.socket);
    cv_launch_undo(launched.guard);
    assert_null(nothing_is_left(before));
    cv_launch_undo(launched.guard); /* where the host has reaped it before */
}

int main(void)
{
    supervisor = getenv("CHAMVI_SUPERVISOR");
    if (supervisor == NULL) {
        fputs("CHAMVI_SUPERVISOR is not set\n", stderr);
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launch_in_a_plain_host),
        cmocka_unit_test(missing_program),
        cmocka_unit_test(program_that_cannot_be_executed),
        cmocka_unit_test(standard_streams_are_closed),
        cmocka_unit_test(descriptors_3_and_4_are_the_hosts),
        cmocka_unit_test(low_descriptors_are_taken),
        cmocka_unit_test(descriptors_run_out_at_every_step),
        cmocka_unit_test(few_descriptors_are_free),
        cmocka_unit_test(child_signal_is_ignored),
        cmocka_unit_test(signals_are_blocked),
        cmocka_unit_test(signals_are_ignored),
        cmocka_unit_test(working_directory_is_gone),
        cmocka_unit_test(undone_launch_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
