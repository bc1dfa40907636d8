/* The host's side with a real supervisor: how workspaces end, in order and out of order. */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "support/drive.h"

/* ---- removals ----------------------------------------------------------------------------- */

static void removal_ends_the_commands_under_way(void **state)
{
    uint32_t ids[10];
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    for (int i = 0; i < 10; i++)
        ids[i] = drive_start_staying(drive, workspace);
    uint32_t id = drive_removal(drive, workspace);
    for (int i = 0; i < 10; i++)
        drive_expect_cut_now(drive, ids[i], "disposed");
    drive_expect(drive, id, NULL);
    assert_int_equal(drive_commands(drive), 0);
    assert_false(drive_folders_left(drive, 1));
    drive_end(drive);
}

static void second_removal_is_refused(void **state)
{
    struct cv_err err;
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint32_t first = drive_removal(drive, workspace);
    assert_int_equal(cv_host_remove(&drive->host, workspace, &err), 0);
    assert_string_equal(err.code, "disposed");
    drive_expect(drive, first, NULL);
    assert_int_equal(cv_host_remove(&drive->host, workspace, &err), 0);
    assert_string_equal(err.code, "disposed");
    drive_end(drive);
}

static void removal_cannot_be_aborted(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t id = drive_removal(drive, drive_ready(drive));
    cv_host_abort(&drive->host, id, "aborted", "by the test");
    drive_expect(drive, id, NULL);
    assert_false(drive_folders_left(drive, 1));
    drive_end(drive);
}

static void removal_of_a_workspace_that_is_not_ready_ends_its_launch(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t launch = drive_launch(drive);
    uint32_t id = drive_removal(drive, launch);
    drive_expect_now(drive, launch, "disposed");
    drive_expect(drive, id, NULL);
    assert_false(drive_folders_left(drive, 1));
    drive_end(drive);
}

static void only_the_names_of_the_workspace_are_removed(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t first = drive_ready(drive);
    uint32_t second = drive_ready(drive);
    drive_expect(drive, drive_sh(drive, first, "mkdir -p a/b/c; echo >a/b/c/file"), NULL);
    drive_remove(drive, first, NULL);
    assert_false(drive_folders_left(drive, 1));
    assert_true(drive_folders_left(drive, 2));
    drive_expect(drive, drive_sh(drive, second, "exit 0"), NULL);
    drive_remove(drive, second, NULL);
    drive_end(drive);
}

/* ---- aborted launches --------------------------------------------------------------------- */

static void aborted_launch_leaves_nothing(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    for (unsigned round = 1; round <= 20; round++) {
        uint32_t launch = drive_launch(drive);
        sup_sleep(round % 5); /* the supervisor gets further, the host does not hear of it */
        cv_host_abort(&drive->host, launch, "aborted", "by the test");
        drive_expect_now(drive, launch, "aborted");
        drive_wait_lost(drive, launch);
        assert_false(drive_folders_left(drive, round));
    }
    drive_end(drive);
}

static void removal_waits_for_the_end_of_an_aborted_launch(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t launch = drive_launch(drive);
    cv_host_abort(&drive->host, launch, "aborted", "by the test");
    drive_expect(drive, drive_removal(drive, launch), NULL);
    drive_expect_now(drive, launch, "aborted");
    assert_false(drive_folders_left(drive, 1));
    drive_end(drive);
}

/* ---- closes ------------------------------------------------------------------------------- */

static void close_without_removal_removes_soon_after(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    for (int i = 0; i < 3; i++)
        drive_start_staying(drive, drive_ready(drive));
    int64_t start = cv_clock_ms();
    cv_host_close(&drive->host);
    assert_true(cv_clock_ms() - start < SUP_PATIENCE_MS); /* it waits for nothing */
    cv_host_close(&drive->host);
    drive_close_and_reap(drive);
    for (unsigned launch = 1; launch <= 3; launch++)
        assert_false(drive_folders_left(drive, launch));
    drive_end(drive);
}

/* How long a close waits for a supervisor that takes nothing. */
#define CLOSE_LIMIT_MS 1000

/*
 * The removal stands behind more than a socket holds. False when the supervisors, for want of a
 * turn, have not taken it in the time that a close gives them.
 */
static bool close_takes_removals_along(void)
{
    static char content[CV_FILE_MAX];
    char env[400 * 1024];
    struct cv_err err;
    uint32_t large;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    memset(env, 'x', sizeof env);
    memcpy(env, "LARGE=", 6);
    env[sizeof env - 1] = '\0';
    sup_write_file(drive->base, "w2.1", "{}", 2, 0600); /* its record */
    struct cv_hello hello = {.flags = CV_HELLO_CREATE | CV_HELLO_RECORD,
                             .base = drive->base,
                             .names = {.bytes = "w2.0\0w2.1", .length = 10, .count = 2},
                             .env = {.bytes = env, .length = sizeof env, .count = 1}};
    assert_true(cv_host_launch(&drive->host, &hello, -1, &large, &err) != 0);
    for (int i = 0; i < 4; i++)
        drive_write(drive, workspace, "file", content, sizeof content);
    int64_t start = cv_clock_ms();
    cv_host_close(&drive->host);
    bool in_time = cv_clock_ms() - start < CLOSE_LIMIT_MS;
    drive_close_and_reap(drive);
    bool removed = !drive_folders_left(drive, 1) && !drive_folders_left(drive, 2);
    assert_true(removed || !in_time);
    drive_end(drive);
    return removed;
}

static void close_behind_much_that_was_sent(void **state)
{
    (void)state;
    for (int round = 0; !close_takes_removals_along(); round++)
        assert_true(round < 10);
}

static void close_in_every_state(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    drive_launch(drive); /* not ready */
    cv_host_abort(&drive->host, drive_launch(drive), "aborted", "by the test");
    uint32_t being_removed = drive_ready(drive);
    drive_start_staying(drive, being_removed);
    drive_removal(drive, being_removed);
    uint32_t lost = drive_ready(drive);
    kill(drive_guard(), SIGKILL);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; !cv_host_lost(&drive->host, lost);) {
        assert_true(cv_clock_ms() < until);
        drive_step(drive, 10);
    }
    drive_close_and_reap(drive);
    drive_wait_folders_gone(drive, 1);
    drive_wait_folders_gone(drive, 2);
    drive_wait_folders_gone(drive, 3);
    assert_true(drive_folders_left(drive, 4)); /* nobody was there to be told */
    drive_end(drive);
}

static void closed_host_refuses(void **state)
{
    struct cv_err err;
    (void)state;
    struct drive *drive = drive_open(NULL);
    drive_close_and_reap(drive);
    assert_int_equal(cv_host_timer(&drive->host, 1, &err), 0);
    assert_string_equal(err.code, "closed");
    assert_int_equal(cv_host_remove(&drive->host, 1, &err), 0);
    assert_string_equal(err.code, "closed");
    assert_null(cv_host_next(&drive->host));
    drive_end(drive);
}

static void two_hosts_in_one_process(void **state)
{
    (void)state;
    struct drive *a = drive_open(NULL);
    struct drive *b = drive_open(NULL);
    uint32_t in_a = drive_ready(a);
    uint32_t in_b = drive_ready(b);
    drive_start_staying(a, in_a);
    uint32_t stays = drive_start_staying(b, in_b);
    drive_remove(a, in_a, NULL);
    cv_host_close(&a->host);
    a->open = false;
    assert_int_equal(drive_commands(b), DRIVE_STAYS);
    drive_expect_exit(b, drive_sh(b, in_b, "echo on"), 0, "on\n", "");
    drive_remove(b, in_b, NULL);
    drive_expect_cut_now(b, stays, "disposed");
    drive_end(a);
    drive_end(b);
}

/* ---- losses ------------------------------------------------------------------------------- */

/* What is left of a lost workspace can be removed by a new supervisor. */
static void expect_lost(struct drive *drive, uint32_t workspace)
{
    const struct cv_exec_request request = {
        .cwd = "", .argv = {.bytes = "true", .length = 5, .count = 1}, .timeout_ms = 1000};
    struct cv_err err;
    drive_wait_lost(drive, workspace);
    assert_int_equal(cv_host_exec(&drive->host, workspace, &request, &err), 0);
    assert_string_equal(err.code, "gone");
    assert_int_equal(drive_commands(drive), 0);
    assert_true(drive_folders_left(drive, 1));
    drive_remove(drive, workspace, "transport_lost");
    assert_true(drive_folders_left(drive, 1));
    uint32_t again = drive_launch_removal(drive, 1);
    drive_expect(drive, again, NULL);
    drive_remove(drive, again, NULL);
    assert_false(drive_folders_left(drive, 1));
    drive_end(drive);
}

static void signal_the(pid_t (*which)(void), int number, const char *code)
{
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint32_t id = drive_start_staying(drive, workspace);
    kill(which(), number);
    drive_expect_cut(drive, id, code);
    expect_lost(drive, workspace);
}

static void guard_is_killed(void **state)
{
    (void)state;
    signal_the(drive_guard, SIGKILL, "transport_lost");
}

static void supervisor_is_killed(void **state)
{
    (void)state;
    signal_the(drive_supervisor, SIGKILL, "transport_lost");
}

static void supervisor_is_stopped(void **state)
{
    (void)state;
    signal_the(drive_supervisor, SIGSTOP, "transport_lost");
}

static void guard_is_killed_while_nothing_runs(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    kill(drive_guard(), SIGKILL);
    expect_lost(drive, workspace);
}

static void supervisor_is_killed_during_the_removal(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    pid_t supervisor = drive_supervisor();
    kill(supervisor, SIGSTOP);
    kill(supervisor, SIGKILL);
    drive_remove(drive, workspace, "transport_lost");
    uint32_t again = drive_launch_removal(drive, 1);
    drive_expect(drive, again, NULL);
    drive_remove(drive, again, NULL);
    drive_end(drive);
}

static void stopped_guard_is_woken_by_the_removal(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    drive_start_staying(drive, workspace);
    sup_stop(drive_guard());
    drive_remove(drive, workspace, NULL);
    assert_false(drive_folders_left(drive, 1));
    drive_end(drive);
}

static void removal_of_what_is_not_there_succeeds(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_launch_removal(drive, 77);
    drive_expect(drive, workspace, NULL);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DRIVE_TEST(removal_ends_the_commands_under_way),
        DRIVE_TEST(second_removal_is_refused),
        DRIVE_TEST(removal_cannot_be_aborted),
        DRIVE_TEST(removal_of_a_workspace_that_is_not_ready_ends_its_launch),
        DRIVE_TEST(only_the_names_of_the_workspace_are_removed),
        DRIVE_TEST(aborted_launch_leaves_nothing),
        DRIVE_TEST(removal_waits_for_the_end_of_an_aborted_launch),
        DRIVE_TEST(close_without_removal_removes_soon_after),
        DRIVE_TEST(close_behind_much_that_was_sent),
        DRIVE_TEST(close_in_every_state),
        DRIVE_TEST(closed_host_refuses),
        DRIVE_TEST(two_hosts_in_one_process),
        DRIVE_TEST(guard_is_killed),
        DRIVE_TEST(supervisor_is_killed),
        DRIVE_TEST(supervisor_is_stopped),
        DRIVE_TEST(guard_is_killed_while_nothing_runs),
        DRIVE_TEST(supervisor_is_killed_during_the_removal),
        DRIVE_TEST(stopped_guard_is_woken_by_the_removal),
        DRIVE_TEST(removal_of_what_is_not_there_succeeds),
    };
    return SUP_MAIN(argc, argv, tests);
}
