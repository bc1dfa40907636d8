/*
 * The host against supervisors that misbehave while commands run and when they shall remove: every
 * operation ends exactly once, with a clear code and in bounded time, and nothing is left.
 */
#include <signal.h>

#include "process/limits.h"
#include "support/fake.h"

/* ---- while commands run ------------------------------------------------------------------- */

static void closes_while_both_run(void)
{
    fake_start_both();
}

static void sends_garbage(void)
{
    fake_start_both();
    fake_send(fake_zeros, sizeof fake_zeros); /* frames of type 0 */
    fake_wait();
}

static void is_ready_twice(void)
{
    fake_start_both();
    fake_say_u32(CV_FRAME_READY, 0, CV_FRAME_VERSION);
    fake_wait();
}

static void prints_for_an_unknown_id(void)
{
    fake_start_both();
    fake_say(CV_FRAME_STDOUT, 4711, "x", 1);
    fake_wait();
}

static void prints_for_no_id(void)
{
    fake_start_both();
    fake_say(CV_FRAME_STDERR, 0, "x", 1);
    fake_wait();
}

static void prints_with_more_to_come(void)
{
    fake_start_both();
    fake_say_flagged(CV_FRAME_STDOUT, CV_FRAME_MORE, fake_first, "x", 1);
    fake_wait();
}

static void fails_for_an_unknown_id(void)
{
    fake_start_both();
    fake_failure(4711, CV_FAILURE_START, "starting nothing");
    fake_wait();
}

static void has_removed_without_being_told(void)
{
    fake_start_both();
    fake_say_u32(CV_FRAME_REMOVED, 0, 0);
    fake_wait();
}

static void stops_inside_output(void)
{
    uint8_t header[CV_FRAME_HEADER_SIZE];
    fake_start_both();
    cv_frame_header(header, CV_FRAME_STDOUT, 0, fake_first, CV_FRAME_PAYLOAD_MAX);
    fake_send(header, sizeof header);
    fake_send(fake_zeros, 1000);
}

static void ends_a_command_twice(void)
{
    fake_start_both();
    fake_ended(fake_first, 0);
    fake_ended(fake_first, 0);
    fake_wait();
}

static void prints_behind_the_end(void)
{
    fake_start_both();
    fake_ended(fake_first, 0);
    fake_say(CV_FRAME_STDOUT, fake_first, "x", 1);
    fake_wait();
}

static void grants_stdin_behind_the_end(void)
{
    fake_start_both();
    fake_ended(fake_first, 0);
    fake_say_u32(CV_FRAME_STDIN_CREDIT, fake_first, 1);
    fake_wait();
}

static void ends_badly(const struct cv_ended *ended, size_t length)
{
    uint8_t payload[CV_ENDED_SIZE + 1] = {0};
    fake_start_both();
    cv_ended_encode(payload, ended);
    fake_say(CV_FRAME_ENDED, fake_first, payload, length);
    fake_wait();
}

static void ends_in_too_few_bytes(void)
{
    ends_badly(&(struct cv_ended){0}, CV_ENDED_SIZE - 1);
}

static void ends_in_too_many_bytes(void)
{
    ends_badly(&(struct cv_ended){0}, CV_ENDED_SIZE + 1);
}

static void ends_in_no_bytes(void)
{
    ends_badly(&(struct cv_ended){0}, 0);
}

static void ends_in_an_unknown_way(void)
{
    ends_badly(&(struct cv_ended){.how = 2}, CV_ENDED_SIZE);
}

static void exits_with_256(void)
{
    ends_badly(&(struct cv_ended){.how = CV_ENDED_EXITED, .value = 256}, CV_ENDED_SIZE);
}

static void dies_of_signal_0(void)
{
    ends_badly(&(struct cv_ended){.how = CV_ENDED_SIGNALED, .value = 0}, CV_ENDED_SIZE);
}

static void dies_of_signal_128(void)
{
    ends_badly(&(struct cv_ended){.how = CV_ENDED_SIGNALED, .value = 128}, CV_ENDED_SIZE);
}

static void ends_with_an_unknown_flag(void)
{
    ends_badly(&(struct cv_ended){.flags = 4}, CV_ENDED_SIZE);
}

static void grants_stdin_in_five_bytes(void)
{
    fake_start_both();
    fake_say(CV_FRAME_STDIN_CREDIT, fake_first, fake_zeros, 5);
    fake_wait();
}

static void fails_in_a_text_too_long(void)
{
    uint8_t payload[8 + CV_FAILURE_TEXT_MAX + 1] = {CV_FAILURE_START};
    fake_start_both();
    fake_say(CV_FRAME_ERROR, fake_first, payload, sizeof payload);
    fake_wait();
}

/* The first command's numbers are absurd, but of the right form; then comes the end of file. */
static void counts_absurdly(void)
{
    uint8_t payload[CV_ENDED_SIZE];
    fake_start_both();
    cv_ended_encode(payload, &(struct cv_ended){.stdout_bytes = UINT64_MAX,
                                                .stderr_bytes = UINT64_MAX,
                                                .duration_us = UINT64_MAX});
    fake_say(CV_FRAME_ENDED, fake_first, payload, sizeof payload);
}

static void fails_the_stream_while_both_run(void)
{
    fake_start_both();
    fake_failure(0, CV_FAILURE_LEASE, "nothing was heard");
}

/* ---- honest in the end -------------------------------------------------------------------- */

/* More stdin may come than there are bytes in the world; it must come once, and whole. */
static void grants_stdin_without_end(void)
{
    uint64_t hash = ACT_HASH_START;
    uint64_t bytes = 0;
    fake_start_both();
    for (int i = 0; i < 5000; i++) {
        fake_say_u32(CV_FRAME_STDIN_CREDIT, fake_first, UINT32_MAX);
        fake_say_u32(CV_FRAME_STDIN_CREDIT, fake_second, UINT32_MAX); /* which has none */
    }
    while (bytes < FAKE_INPUT) {
        const struct cv_frame *frame = fake_take(CV_FRAME_STDIN);
        hash = act_hash(hash, frame->payload, frame->length);
        bytes += frame->length;
    }
    bool ended = fake_take(CV_FRAME_STDIN_END)->id == fake_first;
    fake_ended(fake_first, ended && bytes == FAKE_INPUT && hash == act_print_hash(bytes) ? 0 : 1);
    fake_ended(fake_second, 0);
    fake_answer_removal();
}

/* What was sent before may still come, and nothing more. */
static void closes_stdin_often(void)
{
    const struct cv_frame *frame;
    size_t bytes = 0;
    fake_start_both();
    for (int i = 0; i < 1000; i++) {
        fake_say(CV_FRAME_STDIN_CLOSED, fake_first, NULL, 0);
        fake_say_u32(CV_FRAME_STDIN_CREDIT, fake_first, 1000000);
        fake_say(CV_FRAME_STDIN_CLOSED, fake_second, NULL, 0);
    }
    fake_ended(fake_first, 0);
    fake_ended(fake_second, 0);
    while ((frame = fake_take(0))->type != CV_FRAME_REMOVE)
        bytes += frame->type == CV_FRAME_STDIN ? frame->length : 0;
    fake_say_u32(CV_FRAME_REMOVED, frame->id, bytes > CV_STDIN_CREDIT ? 1 : 0);
}

static void prints_nothing_very_often(void)
{
    fake_start_both();
    for (int i = 0; i < 100000; i++)
        fake_say(CV_FRAME_STDOUT, fake_first, NULL, 0);
    fake_ended(fake_first, 0);
    fake_ended(fake_second, 0);
    fake_answer_removal();
}

/* ---- instead of an answer to the removal -------------------------------------------------- */

static void closes_instead_of_removing(void)
{
    fake_end_both();
    fake_take(CV_FRAME_REMOVE);
}

static void sends_garbage_instead_of_removing(void)
{
    fake_end_both();
    fake_take(CV_FRAME_REMOVE);
    fake_send(fake_zeros, sizeof fake_zeros);
}

static void removes_in_no_bytes(void)
{
    fake_end_both();
    fake_say(CV_FRAME_REMOVED, fake_take(CV_FRAME_REMOVE)->id, NULL, 0);
    fake_wait();
}

static void leaves_survivors(void)
{
    fake_end_both();
    fake_say_u32(CV_FRAME_REMOVED, fake_take(CV_FRAME_REMOVE)->id, 3);
}

static void cannot_remove(void)
{
    fake_end_both();
    fake_failure(fake_take(CV_FRAME_REMOVE)->id, CV_FAILURE_REMOVE, "deleting the folders");
}

static void ends_a_command_again_in_the_removal(void)
{
    fake_end_both();
    uint32_t id = fake_take(CV_FRAME_REMOVE)->id;
    fake_ended(fake_first, 0);
    fake_say_u32(CV_FRAME_REMOVED, id, 0);
}

/* What a command does to its guard: the host wakes it. */
static void stops_itself_in_the_removal(void)
{
    fake_end_both();
    uint32_t id = fake_take(CV_FRAME_REMOVE)->id;
    raise(SIGSTOP);
    fake_say_u32(CV_FRAME_REMOVED, id, 0);
}

/* ---- the cases ---------------------------------------------------------------------------- */

static const struct fake fakes[] = {
    FAKE_WHILE_BOTH_RUN(closes_while_both_run),
    FAKE_WHILE_BOTH_RUN(sends_garbage),
    FAKE_WHILE_BOTH_RUN(is_ready_twice),
    FAKE_WHILE_BOTH_RUN(prints_for_an_unknown_id),
    FAKE_WHILE_BOTH_RUN(prints_for_no_id),
    FAKE_WHILE_BOTH_RUN(prints_with_more_to_come),
    FAKE_WHILE_BOTH_RUN(fails_for_an_unknown_id),
    FAKE_WHILE_BOTH_RUN(has_removed_without_being_told),
    FAKE_WHILE_BOTH_RUN(stops_inside_output),
    FAKE_WHILE_BOTH_RUN(ends_in_too_few_bytes),
    FAKE_WHILE_BOTH_RUN(ends_in_too_many_bytes),
    FAKE_WHILE_BOTH_RUN(ends_in_no_bytes),
    FAKE_WHILE_BOTH_RUN(ends_in_an_unknown_way),
    FAKE_WHILE_BOTH_RUN(exits_with_256),
    FAKE_WHILE_BOTH_RUN(dies_of_signal_0),
    FAKE_WHILE_BOTH_RUN(dies_of_signal_128),
    FAKE_WHILE_BOTH_RUN(ends_with_an_unknown_flag),
    FAKE_WHILE_BOTH_RUN(grants_stdin_in_five_bytes),
    FAKE_WHILE_BOTH_RUN(fails_in_a_text_too_long),
    FAKE_WHILE_BOTH_RUN(fails_the_stream_while_both_run),
    FAKE_WHILE_ONE_RUNS(ends_a_command_twice),
    FAKE_WHILE_ONE_RUNS(prints_behind_the_end),
    FAKE_WHILE_ONE_RUNS(grants_stdin_behind_the_end),
    FAKE_WHILE_ONE_RUNS(counts_absurdly),
    FAKE_HONEST_IN_THE_END(grants_stdin_without_end),
    FAKE_HONEST_IN_THE_END(closes_stdin_often),
    FAKE_HONEST_IN_THE_END(prints_nothing_very_often),
    FAKE_IN_THE_REMOVAL(closes_instead_of_removing, FAKE_LOST),
    FAKE_IN_THE_REMOVAL(sends_garbage_instead_of_removing, FAKE_LOST),
    FAKE_IN_THE_REMOVAL(removes_in_no_bytes, FAKE_LOST),
    FAKE_IN_THE_REMOVAL(ends_a_command_again_in_the_removal, FAKE_LOST),
    FAKE_IN_THE_REMOVAL(leaves_survivors, "kill_failed"),
    FAKE_IN_THE_REMOVAL(cannot_remove, "remove_failed"),
    FAKE_IN_THE_REMOVAL(stops_itself_in_the_removal, NULL),
};
enum { FAKES = sizeof fakes / sizeof *fakes };

int main(int argc, char **argv)
{
    fake_behave(argc, argv, fakes, FAKES);
    return fake_run_tests(fakes, FAKES);
}
