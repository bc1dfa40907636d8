/* The supervisor, black box: the standard input of commands and its credit. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/harness.h"

#define LARGE (3 * 1024 * 1024)
#define PIPE_SIZE 65536

static uint8_t *large_input(void)
{
    uint8_t *bytes = malloc(LARGE);
    assert_non_null(bytes);
    for (size_t i = 0; i < LARGE; i++)
        bytes[i] = act_print_byte(i);
    return bytes;
}

static uint32_t with_stdin(struct sup *sup, const char *script, uint32_t flags)
{
    return sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("/bin/sh", "-c", script),
                                            .flags = flags | CV_START_STDIN});
}

static void test_without_stdin_a_command_reads_the_end(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = sup_sh(sup, "wc -c; readlink /proc/self/fd/0");
    sup_expect_exit(sup, id, 0);
    assert_string_equal(sup_out(sup, id), "0\n/dev/null\n");
    sup_end(sup);
}

static void test_empty_stdin(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = with_stdin(sup, "wc -c", 0);
    sup_stdin(sup, id, NULL, 0, true);
    sup_expect_exit(sup, id, 0);
    assert_string_equal(sup_out(sup, id), "0\n");
    sup_end(sup);
}

static void test_stdin_stays_open_until_its_end(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = with_stdin(sup, "exec cat", CV_START_STREAM_ALL);
    for (uint64_t i = 1; i <= 5; i++) {
        sup_stdin(sup, id, "line\n", 5, false);
        sup_wait_out(sup, id, 5 * i);
        sup_pump_for(sup, 20);
    }
    assert_false(sup_of(sup, id)->ended);
    sup_stdin(sup, id, "end", 3, true);
    sup_expect_exit(sup, id, 0);
    assert_string_equal(sup_out(sup, id), "line\nline\nline\nline\nline\nend");
    sup_end(sup);
}

static void round_trip(uint32_t stdin_credit, size_t length)
{
    uint8_t *bytes = large_input();
    struct sup *sup = sup_start(&(struct sup_options){.stdin_credit = stdin_credit});
    uint32_t id = with_stdin(sup, "exec cat", CV_START_STREAM_ALL);
    sup_stdin(sup, id, bytes, length, true);
    struct sup_run *run = sup_expect_exit(sup, id, 0);
    assert_int_equal(run->out.bytes, length);
    assert_true(run->out.hash == act_print_hash(length));
    sup_end(sup);
    free(bytes);
}

static void test_round_trip(void **state)
{
    (void)state;
    round_trip(SUP_STDIN_CREDIT, LARGE);
}

static void test_round_trip_with_a_small_credit(void **state)
{
    (void)state;
    round_trip(10, 5000);
}

static void test_round_trip_with_a_large_credit(void **state)
{
    (void)state;
    round_trip(CV_STDIN_CREDIT_MAX, LARGE);
}

static void test_command_that_does_not_read(void **state)
{
    (void)state;
    uint8_t *bytes = large_input();
    struct sup *sup = sup_start(NULL);
    sup_expect_serving(sup);
    sup_note_memory(sup);
    uint32_t deaf[5];
    for (int i = 0; i < 5; i++) {
        deaf[i] = with_stdin(sup, "exec sleep 1000", 0);
        sup_stdin(sup, deaf[i], bytes, LARGE, true);
    }
    sup_pump_for(sup, 200);
    uint32_t reading = with_stdin(sup, "exec cat", CV_START_STREAM_ALL);
    sup_stdin(sup, reading, bytes, LARGE, true);
    assert_int_equal(sup_expect_exit(sup, reading, 0)->out.bytes, LARGE);
    sup_expect_serving(sup);
    for (int i = 0; i < 5; i++) {
        struct sup_run *run = sup_of(sup, deaf[i]);
        assert_false(run->ended || run->stdin_closed);
        assert_true(run->stdin_granted <= SUP_STDIN_CREDIT + PIPE_SIZE);
    }
    sup_expect_small(sup, 2048);
    for (int i = 0; i < 5; i++) {
        sup_abort(sup, deaf[i]);
        sup_wait(sup, deaf[i]);
    }
    sup_end(sup);
    free(bytes);
}

static void test_command_that_reads_late(void **state)
{
    (void)state;
    uint8_t *bytes = large_input();
    struct sup *sup = sup_start(NULL);
    uint32_t id = with_stdin(sup, "sleep 0.5; exec cat", CV_START_STREAM_ALL);
    sup_stdin(sup, id, bytes, LARGE, true);
    struct sup_run *run = sup_expect_exit(sup, id, 0);
    assert_true(run->out.bytes == LARGE && run->out.hash == act_print_hash(LARGE));
    sup_end(sup);
    free(bytes);
}

static void test_command_that_closes_stdin(void **state)
{
    (void)state;
    uint8_t *bytes = large_input();
    struct sup *sup = sup_start(NULL);
    uint32_t at_once = with_stdin(sup, "exec <&-; sleep 1000", 0);
    uint32_t after_some = with_stdin(sup, "head -c 10 >/dev/null; exec <&-; sleep 1000", 0);
    uint32_t fed_late = with_stdin(sup, "exec <&-; echo; sleep 1000", 0);
    sup_stdin(sup, at_once, bytes, LARGE, true);
    sup_stdin(sup, after_some, bytes, LARGE, true);
    sup_wait_out(sup, fed_late, 1);
    sup_stdin(sup, fed_late, "x", 1, false);
    int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
    while (!sup_of(sup, at_once)->stdin_closed || !sup_of(sup, after_some)->stdin_closed ||
           !sup_of(sup, fed_late)->stdin_closed) {
        if (cv_clock_ms() > until)
            sup_fail("no stdin closed frame");
        sup_pump(sup, 100);
    }
    assert_false(sup_of(sup, at_once)->ended);
    /* What was under way when the host learned of it is dropped. */
    sup_send(sup, CV_FRAME_STDIN, at_once, bytes, 1000);
    sup_send(sup, CV_FRAME_STDIN_END, at_once, NULL, 0);
    sup_expect_serving(sup);
    sup_end(sup);
    free(bytes);
}

static void test_command_that_exits_without_reading(void **state)
{
    (void)state;
    uint8_t *bytes = large_input();
    struct sup *sup = sup_start(NULL);
    for (int i = 0; i < 20; i++) {
        uint32_t id = with_stdin(sup, "echo done; exit 5", 0);
        sup_stdin(sup, id, bytes, LARGE, true);
        sup_expect_exit(sup, id, 5);
        assert_string_equal(sup_out(sup, id), "done\n");
        /* Frames that crossed with the end. */
        sup_send(sup, CV_FRAME_STDIN, id, bytes, 100);
        sup_send(sup, CV_FRAME_STDIN_END, id, NULL, 0);
    }
    sup_expect_serving(sup);
    sup_end(sup);
    free(bytes);
}

/* A job in the background that never reads must not keep the end back. */
static void test_background_job_that_holds_stdin(void **state)
{
    (void)state;
    uint8_t *bytes = large_input();
    struct sup *sup = sup_start(NULL);
    uint32_t id = with_stdin(sup, "exec 3<&0; sleep 1000 <&3 >/dev/null 2>&1 & echo done", 0);
    sup_stdin(sup, id, bytes, LARGE, true);
    struct sup_run *run = sup_wait(sup, id);
    assert_int_equal(run->end.how, CV_ENDED_EXITED);
    assert_int_equal(run->end.value, 0);
    sup_expect_serving(sup);
    sup_end(sup);
    free(bytes);
}

static void test_many_readers_at_once(void **state)
{
    (void)state;
    enum { COUNT = 40, LENGTH = 200000 };
    uint8_t *bytes = large_input();
    struct sup *sup = sup_start(NULL);
    uint32_t ids[COUNT];
    for (int i = 0; i < COUNT; i++) {
        ids[i] = with_stdin(sup, "exec cat", CV_START_STREAM_ALL);
        sup_stdin(sup, ids[i], bytes, LENGTH, true);
    }
    for (int i = 0; i < COUNT; i++) {
        struct sup_run *run = sup_expect_exit(sup, ids[i], 0);
        assert_true(run->out.bytes == LENGTH && run->out.hash == act_print_hash(LENGTH));
    }
    sup_end(sup);
    free(bytes);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SUP_TEST(test_without_stdin_a_command_reads_the_end),
        SUP_TEST(test_empty_stdin),
        SUP_TEST(test_stdin_stays_open_until_its_end),
        SUP_TEST(test_round_trip),
        SUP_TEST(test_round_trip_with_a_small_credit),
        SUP_TEST(test_round_trip_with_a_large_credit),
        SUP_TEST(test_command_that_does_not_read),
        SUP_TEST(test_command_that_reads_late),
        SUP_TEST(test_command_that_closes_stdin),
        SUP_TEST(test_command_that_exits_without_reading),
        SUP_TEST(test_background_job_that_holds_stdin),
        SUP_TEST(test_many_readers_at_once),
    };
    return SUP_MAIN(argc, argv, tests);
}
