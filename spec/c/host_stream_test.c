/* The host's side with a real supervisor: standard input and streamed output under credit. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "process/limits.h"
#include "support/drive.h"

/* ---- stdin -------------------------------------------------------------------------------- */

#define INPUT_LENGTH ((size_t)3 * 1024 * 1024 + 17)

static uint8_t *pattern(size_t length)
{
    uint8_t *bytes = malloc(length);
    assert_non_null(bytes);
    for (size_t i = 0; i < length; i++)
        bytes[i] = act_print_byte(i);
    return bytes;
}

static uint32_t feed(struct drive *drive, uint32_t workspace, const char *script,
                     const uint8_t *bytes, size_t length)
{
    return drive_exec(drive, workspace,
                      &(struct drive_exec){.argv = SUP_LIST("/bin/sh", "-c", script),
                                           .stdin_bytes = bytes,
                                           .stdin_length = length,
                                           .stream_all = true});
}

static void stdin_arrives_whole(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint8_t *bytes = pattern(INPUT_LENGTH);
    uint32_t all = feed(drive, workspace, "cat", bytes, INPUT_LENGTH);
    uint32_t none = feed(drive, workspace, "cat", bytes, 0);
    uint32_t window = feed(drive, workspace, "cat", bytes, CV_STDIN_CREDIT);
    uint32_t more = feed(drive, workspace, "cat", bytes, CV_STDIN_CREDIT + 1);
    free(bytes); /* the host has copied them */
    struct drive_op *op = drive_expect(drive, all, NULL);
    assert_int_equal(op->chunk_bytes[CV_STDOUT], INPUT_LENGTH);
    assert_true(op->chunk_hash[CV_STDOUT] == act_print_hash(INPUT_LENGTH));
    op = drive_expect(drive, none, NULL);
    assert_int_equal(op->chunk_bytes[CV_STDOUT], 0);
    op = drive_expect(drive, window, NULL);
    assert_true(op->chunk_hash[CV_STDOUT] == act_print_hash(CV_STDIN_CREDIT));
    op = drive_expect(drive, more, NULL);
    assert_true(op->chunk_hash[CV_STDOUT] == act_print_hash(CV_STDIN_CREDIT + 1));
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void stdin_that_nobody_reads_holds_nobody_up(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint8_t *bytes = pattern(INPUT_LENGTH);
    uint32_t asleep = feed(drive, workspace, "sleep 1000", bytes, INPUT_LENGTH);
    uint32_t closed = feed(drive, workspace, "exec <&-; sleep 1000", bytes, INPUT_LENGTH);
    uint32_t left = feed(drive, workspace, "head -c 10", bytes, INPUT_LENGTH);
    uint32_t many[20];
    for (int i = 0; i < 20; i++)
        many[i] = feed(drive, workspace, "cat", bytes, 100000);
    free(bytes);
    struct drive_op *op = drive_expect(drive, left, NULL);
    assert_int_equal(op->chunk_bytes[CV_STDOUT], 10);
    for (int i = 0; i < 20; i++) {
        op = drive_expect(drive, many[i], NULL);
        assert_true(op->chunk_hash[CV_STDOUT] == act_print_hash(100000));
    }
    cv_host_abort(&drive->host, asleep, "aborted", "enough");
    drive_expect_now(drive, asleep, "aborted");
    assert_false(drive_of(drive, closed)->ended);
    drive_remove(drive, workspace, NULL);
    drive_expect_now(drive, closed, "disposed");
    drive_end(drive);
}

/* ---- streamed output ---------------------------------------------------------------------- */

#define PRINTED "2000003"
#define PRINTED_LENGTH 2000003

static uint32_t print(struct drive *drive, uint32_t workspace)
{
    return drive_exec(
        drive, workspace,
        &(struct drive_exec){.argv = SUP_LIST(sup_self(), "act", "print", PRINTED, "0", "both"),
                             .stream_all = true});
}

static void expect_printed(struct drive *drive, uint32_t id)
{
    struct drive_op *op = drive_expect(drive, id, NULL);
    for (int i = CV_STDOUT; i <= CV_STDERR; i++) {
        assert_int_equal(op->chunk_bytes[i], PRINTED_LENGTH);
        assert_true(op->chunk_hash[i] == act_print_hash(PRINTED_LENGTH));
        assert_true(op->truncated[i]); /* what is kept is capped all the same */
    }
    assert_int_equal(op->end.stdout_bytes, PRINTED_LENGTH);
    assert_int_equal(op->end.stderr_bytes, PRINTED_LENGTH);
}

static void streamed_output_comes_whole(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint32_t first = print(drive, workspace);
    uint32_t second = print(drive, workspace);
    expect_printed(drive, first);
    expect_printed(drive, second);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

/* A command that is loud until its reader stops taking. */
struct loud {
    char path[PATH_MAX + 16];
    struct heartbeat *heartbeat;
};

static uint32_t start_loud(struct drive *drive, uint32_t workspace, struct loud *loud)
{
    snprintf(loud->path, sizeof loud->path, "%s/heartbeat", drive->temp);
    loud->heartbeat = heartbeat_create(loud->path);
    drive->hold = true;
    return drive_exec(
        drive, workspace,
        &(struct drive_exec){.argv = SUP_LIST(sup_self(), "act", "loud", loud->path, "65536"),
                             .stream_all = true});
}

static size_t chunk_bytes(const struct cv_op *op)
{
    size_t bytes = 0;
    for (const struct cv_list *link = op->chunks.next; link != &op->chunks; link = link->next)
        bytes += cv_list_entry(link, struct cv_chunk, link)->length;
    return bytes;
}

/* Steps until the credit is used up, but for less than a pipe gives at once, and nothing beats. */
static void await_stall(struct drive *drive, const struct loud *loud)
{
    const int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
    const struct cv_op *op;
    unsigned long before;
    do {
        before = atomic_load(&loud->heartbeat->count);
        drive_for(drive, 300);
        if (cv_clock_ms() > until)
            sup_fail("the command is not stalled");
        op = cv_host_next(&drive->host);
    } while (op == NULL || chunk_bytes(op) <= CV_OUTPUT_CREDIT - PIPE_BUF ||
             atomic_load(&loud->heartbeat->count) != before);
}

static void reader_that_takes_nothing_stalls_the_command(void **state)
{
    (void)state;
    struct loud loud;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    uint32_t id = start_loud(drive, workspace, &loud);
    await_stall(drive, &loud);
    struct cv_op *op = cv_host_next(&drive->host);
    assert_non_null(op);
    assert_int_equal(op->by_id.id, id);
    assert_in_range(chunk_bytes(op), 1, CV_OUTPUT_CREDIT);
    drive_for(drive, 500);
    assert_in_range(chunk_bytes(op), 1, CV_OUTPUT_CREDIT);
    assert_false(op->done);
    /* Taking makes it go on. */
    unsigned long stalled = atomic_load(&loud.heartbeat->count);
    drive->hold = false;
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
         atomic_load(&loud.heartbeat->count) < stalled + 10;) {
        assert_true(cv_clock_ms() < until);
        drive_step(drive, 10);
    }
    heartbeat_destroy(loud.heartbeat, loud.path);
    struct drive_op *ended = drive_expect(drive, id, NULL);
    assert_true(ended->chunk_bytes[CV_STDOUT] > CV_OUTPUT_CREDIT);
    assert_int_equal(ended->chunk_bytes[CV_STDOUT], ended->end.stdout_bytes);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void stalled_command_can_be_aborted_and_its_credit_comes_back(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    for (int round = 0; round < 3; round++) {
        struct loud loud;
        uint32_t id = start_loud(drive, workspace, &loud);
        await_stall(drive, &loud);
        cv_host_abort(&drive->host, id, "aborted", "enough");
        drive_expect_now(drive, id, "aborted");
        drive_wait_commands(drive, 0);
        heartbeat_destroy(loud.heartbeat, loud.path);
    }
    drive->hold = false;
    expect_printed(drive, print(drive, workspace));
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DRIVE_TEST(stdin_arrives_whole),
        DRIVE_TEST(stdin_that_nobody_reads_holds_nobody_up),
        DRIVE_TEST(streamed_output_comes_whole),
        DRIVE_TEST(reader_that_takes_nothing_stalls_the_command),
        DRIVE_TEST(stalled_command_can_be_aborted_and_its_credit_comes_back),
    };
    return SUP_MAIN(argc, argv, tests);
}
