/*
 * The host against supervisors that flood it or fall silent: its memory and its patience are
 * bounded, and every operation ends exactly once.
 */
#include <string.h>
#include <unistd.h>

#include "process/channel.h"
#include "process/limits.h"
#include "support/fake.h"

/* The host may only count on the guard's end, which it forces. */
static void closes_and_lives_on(void)
{
    close(FAKE_PIDFD);
    close(FAKE_SOCKET);
    for (;;)
        pause();
}

static void has_removed_and_lives_on(void)
{
    fake_end_both();
    fake_answer_removal();
    closes_and_lives_on();
}

/* ---- what the host keeps in the meantime --------------------------------------------------- */

static const struct cv_channel *channel_of(const struct drive *drive, uint32_t workspace)
{
    struct cv_idnode *node = cv_idmap_find(&drive->host.workspaces, workspace);
    assert_non_null(node);
    return cv_list_entry(node, struct cv_channel, by_handle);
}

/* The answers to these must not pile up in the host. */
static void pings_at_full_speed(void)
{
    static uint8_t pings[1000 * CV_FRAME_HEADER_SIZE];
    for (int i = 0; i < 1000; i++)
        cv_frame_header(pings + i * CV_FRAME_HEADER_SIZE, CV_FRAME_PING, 0, 0, 0);
    fake_start_both();
    for (int i = 0; i < 300; i++)
        fake_send(pings, sizeof pings);
    fake_ended(fake_first, 0);
    fake_ended(fake_second, 0);
    fake_answer_removal();
}

static void pings_make_no_queue_grow(void **state)
{
    uint32_t ids[2];
    (void)state;
    struct drive *drive = drive_open(fake_program("pings_at_full_speed"));
    uint32_t workspace = fake_ready(drive);
    fake_run_both(drive, workspace, ids);
    while (!drive_of(drive, ids[1])->ended) {
        drive_step(drive, 1000);
        assert_true(cv_buf_length(&channel_of(drive, workspace)->out) <= (size_t)256 * 1024);
    }
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void prints_over_the_credit(void)
{
    fake_start_both();
    for (;;)
        fake_say(CV_FRAME_STDOUT, fake_first, fake_zeros, sizeof fake_zeros);
}

static void output_over_the_credit_is_not_kept(void **state)
{
    uint32_t ids[2];
    (void)state;
    struct drive *drive = drive_open(fake_program("prints_over_the_credit"));
    uint32_t workspace = fake_ready(drive);
    drive->hold = true;
    fake_run_both(drive, workspace, ids);
    for (int64_t until = cv_clock_ms() + DRIVE_SEEN_MS; !cv_host_lost(&drive->host, workspace);) {
        assert_true(cv_clock_ms() < until);
        drive_step(drive, 10);
    }
    drive->hold = false;
    struct drive_op *op = drive_expect(drive, ids[0], FAKE_LOST);
    assert_int_equal(op->chunk_bytes[CV_STDOUT], CV_OUTPUT_CREDIT);
    drive_expect(drive, ids[1], FAKE_LOST);
    drive_remove(drive, workspace, FAKE_LOST);
    drive_end(drive);
}

/* A reader that takes everything gives the credit back; in a removal there is none to give. */
static void flood_ends_with_the_removal(void **state)
{
    uint32_t ids[2];
    (void)state;
    struct drive *drive = drive_open(fake_program("prints_over_the_credit"));
    uint32_t workspace = fake_ready(drive);
    fake_run_both(drive, workspace, ids);
    drive_for(drive, 100);
    assert_false(drive_of(drive, ids[0])->ended);
    cv_host_abort(&drive->host, ids[0], "aborted", "by the test");
    drive_expect(drive, ids[0], "aborted");
    uint32_t removal = drive_removal(drive, workspace);
    drive_expect(drive, ids[1], "disposed");
    drive_expect(drive, removal, FAKE_LOST);
    drive_end(drive);
}

/* ---- silence ------------------------------------------------------------------------------- */

/* These take as long as the host's patience, so all wait at the same time. */
#define PATIENCE_MS 120000

static void says_nothing_to_the_hello(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_wait();
}

static void fails_and_says_no_more(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_failure(0, CV_FAILURE_SETUP, "making nothing at all");
    fake_wait();
}

static void says_nothing_of_both(void)
{
    fake_start_both();
    fake_wait();
}

static void says_nothing_to_the_removal(void)
{
    fake_end_both();
    fake_wait();
}

static void reads_no_more(void)
{
    fake_greet();
    for (;;)
        pause();
}

static uint32_t begin_launch(struct drive *drive)
{
    return drive_launch(drive);
}

static uint32_t begin_commands(struct drive *drive)
{
    uint32_t ids[2];
    fake_run_both(drive, fake_ready(drive), ids);
    return ids[1];
}

static uint32_t begin_removal(struct drive *drive)
{
    uint32_t ids[2];
    uint32_t workspace = fake_ready(drive);
    fake_run_both(drive, workspace, ids);
    drive_expect(drive, ids[1], NULL);
    return drive_removal(drive, workspace);
}

/* Starts commands until the host refuses, which it must do before its memory ends. */
static uint32_t begin_behind_a_full_queue(struct drive *drive)
{
    static char argument[1024 * 1024];
    const struct cv_exec_request request = {
        .cwd = "",
        .argv = {.bytes = argument, .length = sizeof argument, .count = 1},
        .timeout_ms = 1000,
    };
    struct cv_err err = {0};
    uint32_t workspace = fake_ready(drive);
    uint32_t ids[100];
    int count = 0;
    memset(argument, 'x', sizeof argument - 1);
    while (count < 100 && (ids[count] = cv_host_exec(&drive->host, workspace, &request, &err)) != 0)
        count++;
    assert_in_range(count, 1, 99);
    assert_string_equal(err.code, "start_failed");
    assert_true(cv_buf_length(&channel_of(drive, workspace)->out) <= (size_t)64 * 1024 * 1024);
    uint32_t removal = drive_removal(drive, workspace);
    for (int i = 0; i < count; i++)
        drive_expect_now(drive, ids[i], "disposed");
    return removal;
}

struct silence {
    const char *name;
    uint32_t (*begin)(struct drive *drive); /* the id of the operation that is never answered */
    const char *code;                       /* of that operation */
};

static const struct silence silences[] = {
    {"says_nothing_to_the_hello", begin_launch, FAKE_LOST},
    {"fails_and_says_no_more", begin_launch, "create_failed"},
    {"closes_and_lives_on", begin_launch, FAKE_LOST},
    {"says_nothing_of_both", begin_commands, FAKE_LOST},
    {"says_nothing_to_the_removal", begin_removal, FAKE_LOST},
    {"has_removed_and_lives_on", begin_removal, NULL},
    {"reads_no_more", begin_behind_a_full_queue, "kill_failed"}, /* its guard lives on */
};
enum { SILENCES = sizeof silences / sizeof *silences };

static void silence_is_a_loss_in_time(void **state)
{
    struct drive *drives[SILENCES];
    uint32_t ids[SILENCES];
    (void)state;
    for (int i = 0; i < SILENCES; i++) {
        drives[i] = drive_open(fake_program(silences[i].name));
        ids[i] = silences[i].begin(drives[i]);
    }
    const int64_t until = cv_clock_ms() + PATIENCE_MS;
    for (int left = SILENCES; left > 0 && cv_clock_ms() < until;) {
        left = 0;
        for (int i = 0; i < SILENCES; i++) {
            drive_step(drives[i], 1);
            left += !drive_of(drives[i], ids[i])->ended;
        }
    }
    for (int i = 0; i < SILENCES; i++) {
        drive_expect_now(drives[i], ids[i], silences[i].code);
        if (silences[i].begin == begin_commands)
            drive_remove(drives[i], 1, FAKE_LOST);
    }
    for (int i = 0; i < SILENCES; i++)
        drive_end(drives[i]);
}

#define FAKE(run)                                                                                  \
    {                                                                                              \
#run, run, NULL, NULL, NULL, NULL                                                          \
    }

static const struct fake fakes[] = {
    FAKE(pings_at_full_speed),
    FAKE(prints_over_the_credit),
    FAKE(says_nothing_to_the_hello),
    FAKE(fails_and_says_no_more),
    FAKE(closes_and_lives_on),
    FAKE(says_nothing_of_both),
    FAKE(says_nothing_to_the_removal),
    FAKE(has_removed_and_lives_on),
    FAKE(reads_no_more),
};

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DRIVE_TEST(pings_make_no_queue_grow),
        DRIVE_TEST(output_over_the_credit_is_not_kept),
        DRIVE_TEST(flood_ends_with_the_removal),
        DRIVE_TEST(silence_is_a_loss_in_time),
    };
    fake_behave(argc, argv, fakes, sizeof fakes / sizeof *fakes);
    return cmocka_run_group_tests(tests, NULL, fake_clean);
}
