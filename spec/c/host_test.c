/*
 * The host's side with a real supervisor: timers, launches, commands and their aborts.
 * valgrind: no, its posix_spawn does not tell that a program is missing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/drive.h"

/* ---- timers ------------------------------------------------------------------------------- */

static uint32_t timer(struct drive *drive, int64_t delay_ms)
{
    struct cv_err err;
    uint32_t id = cv_host_timer(&drive->host, delay_ms, &err);
    assert_int_not_equal(id, 0);
    return id;
}

static void timers_end_in_order_and_never_early(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    int64_t start = cv_clock_ms();
    uint32_t later = timer(drive, 40);
    uint32_t sooner = timer(drive, 10);
    uint32_t now = timer(drive, 0);
    drive_expect(drive, later, NULL);
    assert_true(drive_of(drive, now)->ended);
    assert_true(drive_of(drive, sooner)->end_ms - start >= 10);
    assert_true(drive_of(drive, later)->end_ms - start >= 40);
    drive_end(drive);
}

static void aborted_timer_ends_at_once_and_only_once(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t id = timer(drive, 20);
    cv_host_abort(&drive->host, id, "aborted", "by the test");
    cv_host_abort(&drive->host, id, "closed", "again");
    struct drive_op *op = drive_expect_now(drive, id, "aborted");
    assert_string_equal(op->err.message, "by the test");
    drive_for(drive, 40);
    cv_host_abort(&drive->host, id, "aborted", "after its end");
    cv_host_abort(&drive->host, 12345, "aborted", "no such id");
    drive_end(drive);
}

/* ---- launches ----------------------------------------------------------------------------- */

static void launch_makes_and_removal_deletes(void **state)
{
    (void)state;
    struct stat folder;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    for (unsigned i = 0; i < DRIVE_NAMES; i++) {
        assert_int_equal(stat(drive_folder(drive, 1, i), &folder), 0);
        assert_int_equal(folder.st_mode, S_IFDIR | 0700);
    }
    assert_false(cv_host_lost(&drive->host, workspace));
    drive_remove(drive, workspace, NULL);
    assert_false(drive_folders_left(drive, 1));
    assert_true(cv_host_lost(&drive->host, workspace));
    drive_end(drive);
}

static void launch_over_an_existing_folder_fails(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t first = drive_ready(drive);
    drive->launches = 0; /* the same names once more */
    uint32_t second = drive_launch(drive);
    struct drive_op *op = drive_expect(drive, second, "create_failed");
    assert_non_null(strstr(op->err.message, "File exists"));
    assert_true(cv_host_lost(&drive->host, second));
    drive_expect(drive, drive_sh(drive, first, "exit 0"), NULL);
    drive_remove(drive, first, NULL);
    drive_end(drive);
}

static void launch_without_the_program_fails(void **state)
{
    (void)state;
    struct cv_hello hello = {.base = "/tmp"};
    struct cv_err err;
    uint32_t workspace;
    struct drive *drive = drive_open("/no/such/program");
    assert_int_equal(cv_host_launch(&drive->host, &hello, -1, &workspace, &err), 0);
    assert_string_equal(err.code, "create_failed");
    assert_non_null(strstr(err.message, "/no/such/program"));
    drive_end(drive);
}

static void environment_over_the_limit_starts_nothing(void **state)
{
    (void)state;
    struct cv_err err;
    uint32_t workspace;
    struct drive *drive = drive_open(NULL);
    char *entry = malloc(CV_MESSAGE_MAX);
    assert_non_null(entry);
    memset(entry, 'x', CV_MESSAGE_MAX);
    memcpy(entry, "A=", 2);
    entry[CV_MESSAGE_MAX - 1] = '\0';
    struct cv_hello hello = {
        .base = "/tmp",
        .env = {.bytes = entry, .length = CV_MESSAGE_MAX, .count = 1},
    };
    assert_int_equal(cv_host_launch(&drive->host, &hello, -1, &workspace, &err), 0);
    assert_string_equal(err.code, "create_failed");
    assert_non_null(strstr(err.message, "environment"));
    free(entry);
    drive_end(drive);
}

static void commands_need_a_ready_workspace(void **state)
{
    (void)state;
    struct cv_err err;
    const struct cv_exec_request request = {
        .cwd = "", .argv = {.bytes = "true", .length = 5, .count = 1}, .timeout_ms = 1000};
    struct drive *drive = drive_open(NULL);
    assert_int_equal(cv_host_exec(&drive->host, 4711, &request, &err), 0);
    assert_string_equal(err.code, "gone");
    uint32_t workspace = drive_launch(drive);
    assert_int_equal(cv_host_exec(&drive->host, workspace, &request, &err), 0);
    assert_string_equal(err.code, "gone");
    drive_expect(drive, workspace, NULL);
    drive_remove(drive, workspace, NULL);
    assert_int_equal(cv_host_exec(&drive->host, workspace, &request, &err), 0);
    assert_string_equal(err.code, "gone");
    drive_end(drive);
}

/* ---- commands ----------------------------------------------------------------------------- */

static void commands_end_in_every_way(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint32_t said = drive_sh(drive, workspace, "echo out; echo err >&2; exit 3");
    uint32_t killed = drive_sh(drive, workspace, "kill -9 $$");
    uint32_t timed_out = drive_exec(
        drive, workspace, &(struct drive_exec){.argv = SUP_LIST("sleep", "60"), .timeout_ms = 50});
    uint32_t nowhere = drive_exec(
        drive, workspace, &(struct drive_exec){.argv = SUP_LIST("true"), .cwd = "no/such/folder"});
    uint32_t outside = drive_exec(
        drive, workspace, &(struct drive_exec){.argv = SUP_LIST("true"), .cwd = "../../.."});
    uint32_t unknown =
        drive_exec(drive, workspace, &(struct drive_exec){.argv = SUP_LIST("no-such-program")});
    drive_expect_exit(drive, said, 3, "out\n", "err\n");
    struct drive_op *op = drive_expect(drive, killed, NULL);
    assert_int_equal(op->end.how, CV_ENDED_SIGNALED);
    assert_int_equal(op->end.value, 9);
    op = drive_expect(drive, timed_out, NULL);
    assert_true((op->end.flags & CV_ENDED_TIMED_OUT) != 0);
    drive_expect(drive, nowhere, "cwd_not_found");
    drive_expect(drive, outside, "outside_workspace");
    op = drive_expect(drive, unknown, NULL);
    assert_int_equal(op->end.value, 127);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void output_past_the_cap_is_cut_and_counted(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint32_t id = drive_exec(
        drive, workspace,
        &(struct drive_exec){.argv = SUP_LIST("sh", "-c", "yes | head -c 1000000"), .cap = 101});
    struct drive_op *op = drive_expect(drive, id, NULL);
    assert_int_equal(op->end.stdout_bytes, 1000000);
    assert_int_equal(strlen((const char *)cv_buf_data(&op->text[CV_STDOUT])), 101);
    assert_true(op->truncated[CV_STDOUT]);
    assert_false(op->truncated[CV_STDERR]);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void arguments_over_the_limit_are_refused_and_others_go_on(void **state)
{
    (void)state;
    struct cv_err err;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    char *bytes = malloc(CV_MESSAGE_MAX);
    assert_non_null(bytes);
    memset(bytes, 'x', CV_MESSAGE_MAX);
    bytes[CV_MESSAGE_MAX - 1] = '\0';
    const struct cv_exec_request request = {
        .cwd = "",
        .argv = {.bytes = bytes, .length = CV_MESSAGE_MAX, .count = 1},
        .timeout_ms = 1000,
    };
    assert_int_equal(cv_host_exec(&drive->host, workspace, &request, &err), 0);
    assert_string_equal(err.code, "invalid_argv");
    free(bytes);
    drive_expect_exit(drive, drive_sh(drive, workspace, "echo on"), 0, "on\n", "");
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void many_commands_at_once(void **state)
{
    enum { WORKSPACES = 4, EACH = 60 };
    uint32_t workspaces[WORKSPACES];
    uint32_t ids[WORKSPACES * EACH];
    (void)state;
    struct drive *drive = drive_open(NULL);
    for (int i = 0; i < WORKSPACES; i++)
        workspaces[i] = drive_launch(drive);
    for (int i = 0; i < WORKSPACES; i++)
        drive_expect(drive, workspaces[i], NULL);
    for (int i = 0; i < WORKSPACES * EACH; i++) {
        char script[96];
        snprintf(script, sizeof script, "echo %d; echo err%d >&2; sleep 0.%d; exit %d", i, i, i % 4,
                 i % 200);
        ids[i] = drive_sh(drive, workspaces[i % WORKSPACES], script);
    }
    for (int i = 0; i < WORKSPACES * EACH; i++) {
        char out[16], err[16];
        snprintf(out, sizeof out, "%d\n", i);
        snprintf(err, sizeof err, "err%d\n", i);
        drive_expect_exit(drive, ids[i], (uint32_t)(i % 200), out, err);
    }
    for (int i = 0; i < WORKSPACES; i++)
        drive_remove(drive, workspaces[i], NULL);
    drive_end(drive);
}

/* ---- aborts ------------------------------------------------------------------------------- */

static void aborted_command_ends_at_once_with_what_it_printed(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint32_t id = drive_exec(
        drive, workspace,
        &(struct drive_exec){.argv = SUP_LIST("sh", "-c", "echo began; sleep 1000 & sleep 1000"),
                             .stream_all = true});
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; drive_of(drive, id)->chunks == 0;) {
        assert_true(cv_clock_ms() < until);
        drive_step(drive, 100);
    }
    cv_host_abort(&drive->host, id, "aborted", "by the test");
    struct drive_op *op = drive_expect_now(drive, id, "aborted");
    assert_string_equal((const char *)cv_buf_data(&op->text[CV_STDOUT]), "began\n");
    drive_wait_commands(drive, 0);
    /* Its last frame has come under an id that is over. */
    drive_expect_exit(drive, drive_sh(drive, workspace, "echo on"), 0, "on\n", "");
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void abort_may_cross_the_end(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    for (int round = 0; round < 100; round++) {
        uint32_t id = drive_sh(drive, workspace, "exit 0");
        for (int i = 0; i < round % 10; i++)
            drive_step(drive, 1);
        cv_host_abort(&drive->host, id, "aborted", "by the test");
        struct drive_op *op = drive_wait_now(drive, id);
        assert_true(op->err.code == NULL || strcmp(op->err.code, "aborted") == 0);
    }
    drive_expect_exit(drive, drive_sh(drive, workspace, "echo on"), 0, "on\n", "");
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DRIVE_TEST(timers_end_in_order_and_never_early),
        DRIVE_TEST(aborted_timer_ends_at_once_and_only_once),
        DRIVE_TEST(launch_makes_and_removal_deletes),
        DRIVE_TEST(launch_over_an_existing_folder_fails),
        DRIVE_TEST(launch_without_the_program_fails),
        DRIVE_TEST(environment_over_the_limit_starts_nothing),
        DRIVE_TEST(commands_need_a_ready_workspace),
        DRIVE_TEST(commands_end_in_every_way),
        DRIVE_TEST(output_past_the_cap_is_cut_and_counted),
        DRIVE_TEST(arguments_over_the_limit_are_refused_and_others_go_on),
        DRIVE_TEST(many_commands_at_once),
        DRIVE_TEST(aborted_command_ends_at_once_with_what_it_printed),
        DRIVE_TEST(abort_may_cross_the_end),
    };
    return SUP_MAIN(argc, argv, tests);
}
