/* The supervisor, black box: caps, exact counts, the credit of the stream, no byte lost. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness.h"

#define PIPE_SIZE 65536
#define HOLD_MS 2000

/* The act "print" on stdout (and with `both` on stderr). */
static uint32_t print(struct sup *sup, const char *bytes, bool both, uint32_t flags,
                      int64_t stdout_cap, int64_t stderr_cap)
{
    return sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST(sup_self(), "act", "print", bytes, "0",
                                                             both ? "both" : NULL),
                                            .flags = flags,
                                            .stdout_cap = stdout_cap,
                                            .stderr_cap = stderr_cap});
}

static void expect_printed(const struct sup_stream *stream, uint64_t bytes)
{
    if (stream->bytes != bytes || stream->hash != act_print_hash(bytes))
        sup_fail("%llu bytes, or other bytes, instead of %llu", (unsigned long long)stream->bytes,
                 (unsigned long long)bytes);
}

static void test_caps_stop_the_bytes_and_not_the_counts(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = print(sup, "500000", true, 0, 1000, 70001);
    struct sup_run *run = sup_expect_exit(sup, id, 0);
    assert_int_equal(run->end.stdout_bytes, 500000);
    assert_int_equal(run->end.stderr_bytes, 500000);
    expect_printed(&run->out, 1000);
    expect_printed(&run->err, 70001);

    run = sup_expect_exit(sup, print(sup, "500000", true, 0, -1, 1), 0);
    assert_int_equal(run->end.stdout_bytes, 500000);
    expect_printed(&run->out, 0);
    expect_printed(&run->err, 1);

    run = sup_expect_exit(sup, print(sup, "1000", true, 0, 1000, 1001), 0);
    expect_printed(&run->out, 1000);
    expect_printed(&run->err, 1000);
    sup_end(sup);
}

static void test_stream_all_ignores_the_caps(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = print(sup, "3000000", true, CV_START_STREAM_ALL, 10, 10);
    struct sup_run *run = sup_expect_exit(sup, id, 0);
    assert_int_equal(run->end.stdout_bytes, 3000000);
    expect_printed(&run->out, 3000000);
    expect_printed(&run->err, 3000000);
    sup_end(sup);
}

/* The window is far smaller than a frame, a pipe and the output. */
static void test_stream_all_with_a_small_window(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.credit = 1000});
    uint32_t id = print(sup, "200000", true, CV_START_STREAM_ALL, 0, 0);
    struct sup_run *run = sup_expect_exit(sup, id, 0);
    expect_printed(&run->out, 200000);
    expect_printed(&run->err, 200000);
    sup_end(sup);
}

/* A read that is shorter than a packet would lose the rest of it. */
static void test_packets_are_whole_at_the_cap_and_at_the_end_of_credit(void **state)
{
    (void)state;
    static const int64_t caps[] = {-1, 1, 2999, 3000, 3001, 65537, 120000, 200000};
    struct sup *sup = sup_start(NULL);
    for (size_t i = 0; i < sizeof caps / sizeof *caps; i++) {
        uint32_t id = sup_exec(
            sup,
            &(struct sup_exec){.argv = SUP_LIST(sup_self(), "act", "packets", "120000", "3000"),
                               .stdout_cap = caps[i]});
        struct sup_run *run = sup_expect_exit(sup, id, 0);
        assert_int_equal(run->end.stdout_bytes, 120000);
        expect_printed(&run->out, caps[i] < 0 ? 0 : caps[i] > 120000 ? 120000 : (uint64_t)caps[i]);
    }
    sup_end(sup);

    sup = sup_start(&(struct sup_options){.credit = 5000});
    uint32_t id = sup_exec(
        sup, &(struct sup_exec){.argv = SUP_LIST(sup_self(), "act", "packets", "4096000", "4096"),
                                .flags = CV_START_STREAM_ALL});
    uint32_t other = print(sup, "100000", true, CV_START_STREAM_ALL, 0, 0);
    expect_printed(&sup_expect_exit(sup, id, 0)->out, 4096000);
    expect_printed(&sup_expect_exit(sup, other, 0)->out, 100000);
    sup_end(sup);

    /* The cap is reached with the last of the credit. */
    sup = sup_start(&(struct sup_options){.credit = 4500, .hold_credit = true});
    id = sup_exec(
        sup, &(struct sup_exec){.argv = SUP_LIST(sup_self(), "act", "packets", "120000", "3000"),
                                .stdout_cap = 4500});
    struct sup_run *run = sup_expect_exit(sup, id, 0);
    assert_int_equal(run->end.stdout_bytes, 120000);
    expect_printed(&run->out, 4500);
    sup_end(sup);
}

/* Past the cap nothing is sent, and so nothing needs credit. */
static void test_output_past_the_cap_needs_no_credit(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.credit = 1000, .hold_credit = true});
    uint32_t id = print(sup, "5000000", false, 0, 1000, -1);
    struct sup_run *run = sup_expect_exit(sup, id, 0);
    expect_printed(&run->out, 1000);
    assert_int_equal(run->end.stdout_bytes, 5000000);
    sup_end(sup);
}

static void test_no_credit_stalls_only_the_printing_commands(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.credit = 1000, .hold_credit = true});
    uint32_t stalled = print(sup, "1000000", false, CV_START_STREAM_ALL, 0, 0);
    sup_wait_out(sup, stalled, 1000);
    uint32_t limited =
        sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("sleep", "1000"), .timeout_ms = 300});
    for (int i = 0; i < 5; i++)
        sup_expect_exit(sup, sup_sh(sup, "exit 5"), 5);
    assert_int_equal(sup_wait(sup, limited)->end.flags, CV_ENDED_TIMED_OUT);
    sup_pump_for(sup, 300);
    assert_int_equal(sup_of(sup, stalled)->out.bytes, 1000);
    assert_false(sup_of(sup, stalled)->ended);
    sup_wait_commands(sup, 1); /* it waits in write(2) */

    sup_credit(sup, 2000);
    sup_wait_out(sup, stalled, 3000);
    sup_pump_for(sup, 100);
    assert_int_equal(sup_of(sup, stalled)->out.bytes, 3000);
    sup_credit(sup, 2000000);
    expect_printed(&sup_expect_exit(sup, stalled, 0)->out, 1000000);
    sup_end(sup);
}

/*
 * A host that grants nothing doesn't stop the time limit of a command that prints. Where the limit
 * has struck before it had filled its pipe, it gets a longer one.
 */
static void test_time_limit_strikes_without_credit(void **state)
{
    (void)state;
    for (uint32_t limit_ms = 300;; limit_ms *= 2) {
        struct sup *sup = sup_start(&(struct sup_options){.credit = 1000, .hold_credit = true});
        uint32_t id = sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("yes"),
                                                       .flags = CV_START_STREAM_ALL,
                                                       .timeout_ms = limit_ms});
        sup_pump_for(sup, limit_ms);
        sup_wait_commands(sup, 0);
        sup_pump_for(sup, 100);
        bool early = sup_of(sup, id)->ended;
        sup_credit(sup, 10 * 1024 * 1024);
        struct sup_run *run = sup_wait(sup, id);
        assert_int_equal(run->end.flags, CV_ENDED_TIMED_OUT);
        assert_in_range(run->end.duration_us / 1000, limit_ms, run->done_ms - run->start_ms + 1);
        sup_end(sup);
        if (run->out.bytes >= PIPE_SIZE) {
            assert_false(early);
            break;
        }
        assert_true(limit_ms < SUP_PATIENCE_MS);
        sup_teardown(NULL);
    }
}

/* The command has long exited; its bytes wait in the pipe, however long the credit takes. */
static void test_bytes_of_an_exited_command_wait_for_credit(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.credit = 100, .hold_credit = true});
    uint32_t all = print(sup, "60000", false, CV_START_STREAM_ALL, 0, 0);
    sup_wait_out(sup, all, 100);
    uint32_t capped = print(sup, "60000", true, 0, 5000, 6000);
    pid_t unreaped;
    sup_wait_commands(sup, 0);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
         proc_children(sup->supervisor, &unreaped, 1) > 0;) {
        assert_true(cv_clock_ms() < until);
        sup_pump_for(sup, 5);
    }
    const int64_t reaped = cv_clock_ms();
    sup_pump_for(sup, HOLD_MS + 700);
    assert_false(sup_of(sup, all)->ended);
    assert_false(sup_of(sup, capped)->ended);
    assert_int_equal(sup_of(sup, all)->out.bytes + sup_of(sup, capped)->out.bytes +
                         sup_of(sup, capped)->err.bytes,
                     100);
    sup->hold_credit = false;
    sup_credit(sup, 100);
    struct sup_run *run = sup_expect_exit(sup, all, 0);
    expect_printed(&run->out, 60000);
    run = sup_expect_exit(sup, capped, 0);
    expect_printed(&run->out, 5000);
    expect_printed(&run->err, 6000);
    assert_int_equal(run->end.stderr_bytes, 60000);
    /* The time for which they wait is no part of its duration. */
    assert_in_range(run->end.duration_us / 1000, 0, reaped - run->start_ms + HOLD_MS);
    sup_end(sup);
}

/* The same, with a job that holds the pipe and prints behind the command's bytes. */
static void test_bytes_before_exit_come_though_the_output_is_held(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.credit = 100, .hold_credit = true});
    char script[512];
    snprintf(script, sizeof script, "'%s' act print 30000 & wait; (sleep 0.3; yes) & exit 3",
             sup_self());
    uint32_t id = sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("/bin/sh", "-c", script),
                                                   .flags = CV_START_STREAM_ALL});
    sup_wait_out(sup, id, 100);
    sup_pump_for(sup, HOLD_MS + 700);
    assert_false(sup_of(sup, id)->ended);
    sup_credit(sup, 29900);
    sup_wait_out(sup, id, 30000);
    expect_printed(&sup_of(sup, id)->out, 30000);
    sup_credit(sup, 10 * 1024 * 1024);
    struct sup_run *run = sup_wait(sup, id);
    assert_int_equal(run->end.value, 3);
    assert_int_equal(run->end.flags, CV_ENDED_STREAMS_HELD);
    sup_end(sup);
}

/* Written just before the exit and within what a pipe holds: the exit must not overtake it. */
static void test_no_byte_is_lost_at_exit(void **state)
{
    (void)state;
    enum { COUNT = 500, AT_ONCE = 10 };
    struct sup *sup = sup_start(NULL);
    uint32_t ids[COUNT];
    for (int i = 0; i < COUNT + AT_ONCE; i++) {
        if (i < COUNT)
            ids[i] = sup_argv(sup, SUP_LIST("head", "-c", "61000", "/dev/zero"));
        if (i < AT_ONCE)
            continue;
        struct sup_run *run = sup_expect_exit(sup, ids[i - AT_ONCE], 0);
        assert_int_equal(run->end.stdout_bytes, 61000);
        assert_int_equal(run->out.bytes, 61000);
    }
    sup_end(sup);
}

static void test_three_hundred_megabytes(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_expect_serving(sup);
    sup_note_memory(sup);
    uint32_t id = sup_argv(sup, SUP_LIST("head", "-c", "300000000", "/dev/zero"));
    uint32_t both = print(sup, "20000000", true, 0, 0, 0);
    for (int i = 0; i < 3; i++)
        sup_expect_serving(sup);
    struct sup_run *run = sup_expect_exit(sup, id, 0);
    assert_int_equal(run->end.stdout_bytes, 300000000);
    run = sup_expect_exit(sup, both, 0);
    assert_int_equal(run->end.stdout_bytes, 20000000);
    assert_int_equal(run->end.stderr_bytes, 20000000);
    expect_printed(&run->out, SUP_CAP);
    expect_printed(&run->err, SUP_CAP);
    sup_expect_small(sup, 2048);
    sup_end(sup);
}

/* Loud commands share the window with everybody else. */
static void test_loud_commands_starve_nobody(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t loud[4];
    for (int i = 0; i < 4; i++)
        loud[i] = sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("yes"),
                                                   .flags = i % 2 == 0 ? CV_START_STREAM_ALL : 0});
    sup_wait_out(sup, loud[0], 1000000);
    for (int i = 0; i < 30; i++)
        sup_expect_serving(sup);
    uint64_t now = sup_of(sup, loud[0])->out.bytes;
    sup_wait_out(sup, loud[0], now + 1000000);
    now = sup_of(sup, loud[2])->out.bytes;
    sup_wait_out(sup, loud[2], now + 1000000);
    for (int i = 0; i < 4; i++) {
        sup_abort(sup, loud[i]);
        sup_wait(sup, loud[i]);
    }
    sup_end(sup);
}

/* A command that has begun before its time limit, of a host that hears nothing of it. */
static uint32_t start_limited(struct sup *sup)
{
    for (uint32_t limit_ms = 500; limit_ms < SUP_PATIENCE_MS; limit_ms *= 3) {
        uint32_t id = sup_exec(
            sup, &(struct sup_exec){.argv = SUP_LIST("sh", "-c", "echo >began; exec sleep 1000"),
                                    .timeout_ms = limit_ms});
        for (int64_t until = cv_clock_ms() + 2 * limit_ms; cv_clock_ms() < until;) {
            if (access(sup_path(sup->base, "began"), F_OK) == 0)
                return id;
            sup_pump_for(sup, 5);
        }
    }
    sup_fail("no command has begun");
}

/* Nothing piles up in the supervisor for a host that neither reads nor grants. */
static void test_deaf_host(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.ping_ms = 10});
    sup_expect_serving(sup);
    sup_note_memory(sup);
    sup->deaf = true;
    for (int i = 0; i < 20; i++) {
        sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("yes"), .flags = CV_START_STREAM_ALL});
        sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("yes"), .stdout_cap = 1 << 30});
    }
    sup_wait_commands(sup, 40);
    uint32_t limited = start_limited(sup);
    sup_wait_commands(sup, 40); /* timers run though nothing can be sent */
    sup_pump_for(sup, 500);
    sup_expect_small(sup, 3072);
    /* Once the host listens again, all goes on. */
    sup->deaf = false;
    assert_int_equal(sup_wait(sup, limited)->end.flags, CV_ENDED_TIMED_OUT);
    sup_expect_serving(sup);
    sup_end(sup);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SUP_TEST(test_caps_stop_the_bytes_and_not_the_counts),
        SUP_TEST(test_stream_all_ignores_the_caps),
        SUP_TEST(test_stream_all_with_a_small_window),
        SUP_TEST(test_packets_are_whole_at_the_cap_and_at_the_end_of_credit),
        SUP_TEST(test_output_past_the_cap_needs_no_credit),
        SUP_TEST(test_no_credit_stalls_only_the_printing_commands),
        SUP_TEST(test_time_limit_strikes_without_credit),
        SUP_TEST(test_bytes_of_an_exited_command_wait_for_credit),
        SUP_TEST(test_bytes_before_exit_come_though_the_output_is_held),
        SUP_TEST(test_no_byte_is_lost_at_exit),
        SUP_TEST(test_three_hundred_megabytes),
        SUP_TEST(test_loud_commands_starve_nobody),
        SUP_TEST(test_deaf_host),
    };
    return SUP_MAIN(argc, argv, tests);
}
