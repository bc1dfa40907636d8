/*
 * The host's side with a real supervisor, in programs that fork, or are in a bad state.
 * valgrind: no, it keeps descriptors of its own past the limit of open files.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "support/drive.h"
#include "support/scratch.h"

/* ---- forks -------------------------------------------------------------------------------- */

struct inherited {
    struct drive *drive;
    uint32_t workspace;
    uint32_t running;
};

static bool refused(uint32_t id, const struct cv_err *err)
{
    return id == 0 && strcmp(err->code, "closed") == 0;
}

static const char *use_in_a_child(void *context)
{
    struct inherited *inherited = context;
    struct cv_host *host = &inherited->drive->host;
    const struct cv_exec_request request = {
        .cwd = "", .argv = {.bytes = "true", .length = 5, .count = 1}, .timeout_ms = 1000};
    struct cv_hello hello = {.base = "/tmp"};
    struct cv_err err;
    uint32_t workspace;
    if (cv_reactor_step(&host->reactor, 0, &err) == 0 || strcmp(err.code, "closed") != 0)
        return "it can be stepped";
    if (cv_host_next(host) != NULL)
        return "it hands out completions";
    if (!refused(cv_host_timer(host, 1, &err), &err))
        return "it takes timers";
    if (!refused(cv_host_launch(host, &hello, -1, &workspace, &err), &err))
        return "it launches";
    if (!refused(cv_host_exec(host, inherited->workspace, &request, &err), &err))
        return "it starts commands";
    if (!refused(cv_host_remove(host, inherited->workspace, &err), &err))
        return "it removes";
    cv_host_abort(host, inherited->running, "aborted", "by the child");
    return NULL;
}

static const char *use_and_close_in_a_child(void *context)
{
    struct inherited *inherited = context;
    const char *wrong = use_in_a_child(context);
    cv_host_close(&inherited->drive->host);
    return wrong;
}

static void fork_without_exec_does_not_disturb_the_parent(void **state)
{
    struct cv_err err;
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint32_t running = drive_start_staying(drive, workspace);
    uint32_t timer = cv_host_timer(&drive->host, 100, &err);
    struct inherited inherited = {drive, workspace, running};
    /* One waits to be taken: the child must not, since that would send its credit. */
    uint32_t waiting = cv_host_timer(&drive->host, 0, &err);
    assert_int_equal(cv_reactor_step(&drive->host.reactor, 0, &err), 0);
    scratch_apart(use_in_a_child, &inherited);
    scratch_apart(use_and_close_in_a_child, &inherited);
    drive_expect_now(drive, waiting, NULL);
    drive_expect(drive, timer, NULL);
    assert_int_equal(drive_commands(drive), DRIVE_STAYS);
    assert_false(drive_of(drive, running)->ended);
    drive_expect_exit(drive, drive_sh(drive, workspace, "echo on"), 0, "on\n", "");
    drive_remove(drive, workspace, NULL);
    drive_expect_cut_now(drive, running, "disposed");
    drive_end(drive);
}

/* A child that holds every descriptor of the host until the test lets it go. */
static pid_t fork_holder(int hold[2])
{
    assert_int_equal(pipe2(hold, O_CLOEXEC), 0);
    pid_t child = fork();
    if (child == 0) {
        char byte;
        close(hold[1]);
        _exit(read(hold[0], &byte, 1) == 0 ? 0 : 1);
    }
    assert_true(child > 0);
    return child;
}

static void let_go(pid_t holder, int hold[2])
{
    close(hold[0]);
    close(hold[1]);
    assert_int_equal(waitpid(holder, NULL, 0), holder);
}

static void fork_that_holds_the_socket_holds_no_removal_up(void **state)
{
    int hold[2];
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    drive_start_staying(drive, workspace);
    pid_t holder = fork_holder(hold);
    drive_remove(drive, workspace, NULL);
    assert_false(drive_folders_left(drive, 1));
    let_go(holder, hold);
    drive_end(drive);
}

static void fork_that_holds_the_socket_holds_no_close_up(void **state)
{
    int hold[2];
    (void)state;
    struct drive *drive = drive_open(NULL);
    drive_start_staying(drive, drive_ready(drive));
    pid_t holder = fork_holder(hold);
    cv_host_close(&drive->host);
    drive->open = false;
    drive_wait_folders_gone(drive, 1);
    let_go(holder, hold);
    drive_close_and_reap(drive);
    drive_end(drive);
}

/* ---- a host in a bad state ---------------------------------------------------------------- */

static void launches_without_descriptors_fail_and_leave_nothing(void **state)
{
    struct rlimit files;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    const rlim_t enough = files.rlim_cur;
    struct drive *drive = drive_open(NULL);
    uint32_t before = drive_ready(drive);
    const struct drive_exec exec = {.argv = SUP_LIST("true")};
    uint32_t id = 0;
    for (rlim_t limit = 3; id == 0; limit++) {
        struct cv_hello hello = {.flags = CV_HELLO_CREATE, .base = drive->base};
        struct cv_err err = {0};
        uint32_t workspace;
        files.rlim_cur = limit;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
        id = cv_host_launch(&drive->host, &hello, -1, &workspace, &err);
        uint32_t command = drive_exec(drive, before, &exec); /* needs none */
        files.rlim_cur = enough;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
        drive_expect(drive, command, NULL);
        if (id == 0) {
            assert_string_equal(err.code, "create_failed");
            assert_non_null(strstr(err.message, "Too many open files"));
        }
    }
    drive_expect(drive, id, NULL);
    drive_remove(drive, id, NULL);
    /* A removal works without any that is free. */
    files.rlim_cur = 3;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    uint32_t ended = drive_removal(drive, before);
    struct drive_op *op = drive_wait(drive, ended);
    files.rlim_cur = enough;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    assert_null(op->err.code);
    drive_end(drive);
}

static void whole_life(struct drive *drive)
{
    uint32_t workspace = drive_ready(drive);
    uint32_t stays = drive_start_staying(drive, workspace);
    drive_expect_exit(drive, drive_sh(drive, workspace, "echo on; exit 7"), 7, "on\n", "");
    drive_remove(drive, workspace, NULL);
    drive_expect_cut_now(drive, stays, "disposed");
}

static void host_that_ignores_the_child_signal(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    signal(SIGCHLD, SIG_IGN);
    whole_life(drive);
    signal(SIGCHLD, SIG_DFL);
    drive_end(drive);
}

static void reap_everything(int number)
{
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
}

static void host_that_reaps_whatever_ends(void **state)
{
    (void)state;
    struct sigaction action = {.sa_handler = reap_everything, .sa_flags = SA_RESTART};
    struct drive *drive = drive_open(NULL);
    assert_int_equal(sigaction(SIGCHLD, &action, NULL), 0);
    whole_life(drive);
    signal(SIGCHLD, SIG_DFL);
    drive_end(drive);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DRIVE_TEST(fork_without_exec_does_not_disturb_the_parent),
        DRIVE_TEST(fork_that_holds_the_socket_holds_no_removal_up),
        DRIVE_TEST(fork_that_holds_the_socket_holds_no_close_up),
        DRIVE_TEST(launches_without_descriptors_fail_and_leave_nothing),
        DRIVE_TEST(host_that_ignores_the_child_signal),
        DRIVE_TEST(host_that_reaps_whatever_ends),
    };
    return SUP_MAIN(argc, argv, tests);
}
