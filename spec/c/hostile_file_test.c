/*
 * The host against supervisors that misbehave about files: every request ends exactly once, with a
 * clear code and in bounded time, and nothing is left.
 */
#include <stdlib.h>
#include <string.h>

#include "process/limits.h"
#include "support/fake.h"

/* Of the requests of a test: a read of at most READ_MAX bytes, a write, a command. */
#define READ_MAX 100

static uint32_t read_id;
static uint32_t write_id;
static uint32_t command_id;

/* An honest beginning: all three were asked for. */
static void take_all(void)
{
    fake_greet();
    read_id = fake_take(CV_FRAME_READ_FILE)->id;
    write_id = fake_take(CV_FRAME_WRITE_FILE)->id;
    command_id = fake_take(CV_FRAME_START)->id;
}

/* An honest end. */
static void answer_all(void)
{
    fake_say(CV_FRAME_FILE, read_id, "text", 4);
    fake_say(CV_FRAME_WRITTEN, write_id, NULL, 0);
    fake_ended(command_id, 0);
    fake_answer_removal();
}

static void is_honest(void)
{
    take_all();
    answer_all();
}

/* ---- what ends the stream ----------------------------------------------------------------- */

#define SAYS(name, ...)                                                                            \
    static void name(void)                                                                         \
    {                                                                                              \
        take_all();                                                                                \
        __VA_ARGS__;                                                                               \
        fake_wait();                                                                               \
    }

SAYS(writes_what_was_to_be_read, fake_say(CV_FRAME_WRITTEN, read_id, NULL, 0))
SAYS(reads_what_was_to_be_written, fake_say(CV_FRAME_FILE, write_id, "text", 4))
SAYS(sends_a_file_for_a_command, fake_say(CV_FRAME_FILE, command_id, "text", 4))
SAYS(sends_written_for_a_command, fake_say(CV_FRAME_WRITTEN, command_id, NULL, 0))
SAYS(sends_a_file_for_an_unknown_id, fake_say(CV_FRAME_FILE, 4711, "text", 4))
SAYS(sends_a_file_for_no_id, fake_say(CV_FRAME_FILE, 0, "text", 4))
SAYS(says_something_in_written, fake_say(CV_FRAME_WRITTEN, write_id, "x", 1))
SAYS(says_more_of_written, fake_say_flagged(CV_FRAME_WRITTEN, CV_FRAME_MORE, write_id, NULL, 0))
SAYS(prints_for_a_read, fake_say(CV_FRAME_STDOUT, read_id, "text", 4))
SAYS(grants_stdin_for_a_write, fake_say_u32(CV_FRAME_STDIN_CREDIT, write_id, 5))
SAYS(ends_a_read, fake_ended(read_id, 0))
SAYS(sends_more_than_was_asked, fake_say(CV_FRAME_FILE, read_id, fake_zeros, READ_MAX + 1))
SAYS(sends_more_in_two_parts,
     fake_say_flagged(CV_FRAME_FILE, CV_FRAME_MORE, read_id, fake_zeros, READ_MAX);
     fake_say(CV_FRAME_FILE, read_id, fake_zeros, 1))
SAYS(fails_in_no_way, fake_say(CV_FRAME_ERROR, read_id, NULL, 0))

static void answers_what_was_not_asked(void)
{
    fake_greet();
    for (int i = 1; i < CV_FILES_UNDER_WAY; i++)
        fake_take(CV_FRAME_READ_FILE);
    fake_say(CV_FRAME_FILE, fake_take(CV_FRAME_READ_FILE)->id + 1, "text", 4);
    fake_wait();
}

static void closes_inside_a_file(void)
{
    take_all();
    fake_say_flagged(CV_FRAME_FILE, CV_FRAME_MORE, read_id, "te", 2);
}

/* ---- what is within its rights ------------------------------------------------------------ */

static void sends_nothing_very_often(void)
{
    take_all();
    for (int i = 0; i < 100000; i++)
        fake_say_flagged(CV_FRAME_FILE, CV_FRAME_MORE, read_id, NULL, 0);
    answer_all();
}

static void sends_one_byte_at_a_time(void)
{
    take_all();
    for (int i = 0; i < READ_MAX - 4; i++)
        fake_say_flagged(CV_FRAME_FILE, CV_FRAME_MORE, read_id, "x", 1);
    answer_all();
}

static void splits_a_character(void)
{
    take_all();
    fake_say_flagged(CV_FRAME_FILE, CV_FRAME_MORE, read_id, "\xe2\x82", 2);
    fake_say_flagged(CV_FRAME_FILE, CV_FRAME_MORE, read_id, "\xac", 1);
    answer_all();
}

static void sends_no_text(void)
{
    take_all();
    fake_say_flagged(CV_FRAME_FILE, CV_FRAME_MORE, read_id, "\xe2\x82", 2);
    answer_all();
}

static void fails_both(void)
{
    take_all();
    fake_failure(read_id, CV_FAILURE_NO_SPACE, "reading");
    fake_failure(write_id, CV_FAILURE_CWD, "what belongs to\ncommands");
    fake_ended(command_id, 0);
    fake_answer_removal();
}

/* The read has long ended for its reader; all of its answer is thrown away, however long. */
static void sends_without_end(void)
{
    take_all();
    for (int i = 0; i < 1000; i++)
        fake_say_flagged(CV_FRAME_FILE, CV_FRAME_MORE, read_id, fake_zeros, 30000);
    answer_all();
}

/* ---- the cases ---------------------------------------------------------------------------- */

/* first: the code of the read; second: of the write. A command that fails does so with FAKE_LOST.
 */
#define LOST(run)                                                                                  \
    {                                                                                              \
#run, run, NULL, FAKE_LOST, FAKE_LOST, FAKE_LOST                                           \
    }
#define HONEST(run, read, write)                                                                   \
    {                                                                                              \
#run, run, NULL, read, write, NULL                                                         \
    }

static const struct fake fakes[] = {
    LOST(writes_what_was_to_be_read),
    LOST(reads_what_was_to_be_written),
    LOST(sends_a_file_for_a_command),
    LOST(sends_written_for_a_command),
    LOST(sends_a_file_for_an_unknown_id),
    LOST(sends_a_file_for_no_id),
    LOST(says_something_in_written),
    LOST(says_more_of_written),
    LOST(prints_for_a_read),
    LOST(grants_stdin_for_a_write),
    LOST(ends_a_read),
    LOST(sends_more_than_was_asked),
    LOST(sends_more_in_two_parts),
    LOST(fails_in_no_way),
    LOST(closes_inside_a_file),
    LOST(answers_what_was_not_asked),
    HONEST(is_honest, NULL, NULL),
    HONEST(sends_nothing_very_often, NULL, NULL),
    HONEST(sends_one_byte_at_a_time, NULL, NULL),
    HONEST(splits_a_character, NULL, NULL),
    HONEST(sends_no_text, "not_utf8", NULL),
    HONEST(fails_both, "no_space", "cwd_not_found"),
    HONEST(sends_without_end, "aborted", NULL),
};
enum { FAKES = sizeof fakes / sizeof *fakes };

static uint32_t read_some(struct drive *drive, uint32_t workspace)
{
    struct cv_err err;
    uint32_t id = cv_host_read_file(&drive->host, workspace, "f", READ_MAX, &err);
    assert_int_not_equal(id, 0);
    return id;
}

static void misbehave(void **state)
{
    const struct fake *fake = *state;
    bool many = fake->run == answers_what_was_not_asked;
    struct drive *drive = drive_open(fake_program(fake->name));
    uint32_t workspace = fake_ready(drive);
    uint32_t reading = read_some(drive, workspace);
    for (int i = 0; many && i < CV_FILES_UNDER_WAY; i++)
        read_some(drive, workspace);
    uint32_t writing = drive_write(drive, workspace, "f", "text", 4);
    uint32_t command = drive_sh(drive, workspace, "exit 0");
    drive_expect(drive, reading, fake->first);
    drive_expect(drive, writing, fake->second);
    drive_expect(drive, command, fake->removal);
    drive_remove(drive, workspace, fake->removal);
    drive_end(drive);
}

static void an_aborted_read_keeps_nothing(void **state)
{
    (void)state;
    struct drive *drive = drive_open(fake_program("sends_without_end"));
    uint32_t workspace = fake_ready(drive);
    uint32_t reading = read_some(drive, workspace);
    cv_host_abort(&drive->host, reading, "aborted", "by the test");
    drive_expect_now(drive, reading, "aborted");
    uint32_t writing = drive_write(drive, workspace, "f", "text", 4);
    drive_expect_exit(drive, drive_sh(drive, workspace, "exit 0"), 0, "", "");
    drive_expect(drive, writing, NULL);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

int main(int argc, char **argv)
{
    struct CMUnitTest tests[FAKES];
    fake_behave(argc, argv, fakes, FAKES);
    for (size_t i = 0; i < FAKES; i++) {
        CMUnitTestFunction test =
            fakes[i].run == sends_without_end ? an_aborted_read_keeps_nothing : misbehave;
        tests[i] = (struct CMUnitTest){fakes[i].name, test, drive_setup, drive_teardown,
                                       (void *)&fakes[i]};
    }
    return cmocka_run_group_tests(tests, NULL, fake_clean);
}
