/* The supervisor, black box: time limits, aborts, background jobs that hold the output. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/harness.h"

#define GRACE_MS 5000 /* between SIGTERM and SIGKILL */
#define HOLD_MS 2000  /* how long a background job may delay the answer */
#define END_MS 2000   /* how long a killed command is waited for */

static uint32_t limited(struct sup *sup, uint32_t timeout_ms, const char *script)
{
    return sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("/bin/sh", "-c", script),
                                            .timeout_ms = timeout_ms});
}

static void expect_timed_out(struct sup *sup, uint32_t id, uint32_t how, uint32_t value,
                             int64_t least_ms, int64_t most_ms)
{
    struct sup_run *run = sup_wait(sup, id, most_ms + 1000);
    if (run->end.how != how || run->end.value != value ||
        (run->end.flags & CV_ENDED_TIMED_OUT) == 0)
        sup_fail("id %u: how %u, value %u, flags 0x%x", id, run->end.how, run->end.value,
                 run->end.flags);
    assert_in_range(run->end.duration_us / 1000, least_ms, sup_bound(most_ms));
    assert_in_range(run->done_ms - run->start_ms, least_ms, sup_bound(most_ms));
}

static void test_limit_sends_term(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t by_term = limited(sup, 300, "exec sleep 100");
    uint32_t catching = limited(sup, 300,
                                "trap 'echo caught; exit 7' TERM; echo before; "
                                "while :; do sleep 0.05; done");
    uint32_t stopped = limited(sup, 300, "kill -STOP $$");
    uint32_t in_time = limited(sup, 2000, "sleep 0.5; exit 3");
    expect_timed_out(sup, by_term, CV_ENDED_SIGNALED, SIGTERM, 295, 1500);
    expect_timed_out(sup, catching, CV_ENDED_EXITED, 7, 295, 1500);
    assert_string_equal(sup_out(sup, catching), "before\ncaught\n");
    expect_timed_out(sup, stopped, CV_ENDED_SIGNALED, SIGTERM, 295, 1500);
    sup_expect_exit(sup, in_time, 3, 3000);
    sup_end(sup);
}

/* One test for all that lasts the grace time, since they run side by side. */
static void test_limit_kills_after_the_grace_time(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t stubborn = limited(sup, 300, "trap '' TERM; echo kept; while :; do sleep 1; done");
    /* Its children ignore the signal as well: the whole group must go. */
    uint32_t family = limited(sup, 300, "trap '' TERM; sleep 1000 & sleep 1000 & wait; wait");
    sup_wait_commands(sup, 5, 3000);
    sup_pump_for(sup, 2000);
    assert_false(sup_of(sup, stubborn)->ended);
    assert_false(sup_of(sup, family)->ended);
    expect_timed_out(sup, stubborn, CV_ENDED_SIGNALED, SIGKILL, 300 + GRACE_MS - 50,
                     300 + GRACE_MS + 1000);
    assert_string_equal(sup_out(sup, stubborn), "kept\n");
    expect_timed_out(sup, family, CV_ENDED_SIGNALED, SIGKILL, 300 + GRACE_MS - 50,
                     300 + GRACE_MS + 1000);
    sup_wait_commands(sup, 0, 500);
    sup_end(sup);
}

/* The leader goes by SIGTERM at once; what it left in its group does not outlive it. */
static void test_limit_kills_what_the_leader_left_in_its_group(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = limited(sup, 500,
                          "sh -c 'trap \"\" TERM; while :; do sleep 1; done' & "
                          "sh -c 'trap \"\" TERM; echo ready; sleep 1000; :' & wait");
    sup_wait_out(sup, id, 6, 3000);
    expect_timed_out(sup, id, CV_ENDED_SIGNALED, SIGTERM, 495, 1700);
    assert_int_equal(sup_of(sup, id)->end.flags, CV_ENDED_TIMED_OUT);
    sup_wait_commands(sup, 0, 500);
    sup_end(sup);
}

/* It lives until the workspace ends, as any daemon does. */
static void test_limit_spares_what_left_the_group(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = limited(sup, 400, "setsid sleep 1000 >/dev/null 2>&1 & sleep 1000");
    expect_timed_out(sup, id, CV_ENDED_SIGNALED, SIGTERM, 395, 1700);
    sup_pump_for(sup, 300);
    assert_int_equal(sup_commands(sup), 1);
    sup_end(sup);
}

static void test_many_limits_at_once(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    struct sup *sup = sup_start(NULL);
    uint32_t ids[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        ids[i] = limited(sup, 300 + i * 7919 % 700, "exec sleep 100");
    for (uint32_t i = 0; i < COUNT; i++)
        expect_timed_out(sup, ids[i], CV_ENDED_SIGNALED, SIGTERM, 300 + i * 7919 % 700,
                         300 + i * 7919 % 700 + 2500);
    sup_wait_commands(sup, 0, 500);
    sup_end(sup);
}

static void test_abort_kills_the_group(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t other = sup_sh(sup, "sleep 1; exit 9");
    uint32_t id = sup_sh(sup, "trap '' TERM; echo first; sh -c 'sleep 1000; :' & "
                              "sleep 1000; :");
    sup_wait_out(sup, id, 6, 3000);
    sup_wait_commands(sup, 6, 3000);
    sup_abort(sup, id);
    int64_t start = cv_clock_ms();
    struct sup_run *run = sup_wait(sup, id, 1000);
    assert_true(run->done_ms - start < sup_bound(500));
    assert_int_equal(run->end.how, CV_ENDED_SIGNALED);
    assert_int_equal(run->end.value, SIGKILL);
    assert_int_equal(run->end.flags & CV_ENDED_TIMED_OUT, 0);
    assert_string_equal(sup_out(sup, id), "first\n");
    sup_wait_commands(sup, 2, 500);
    sup_expect_exit(sup, other, 9, 3000);
    sup_end(sup);
}

/* An abort may cross with the end, come twice, or come with the start. */
static void test_abort_at_any_moment(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    for (int i = 0; i < 40; i++) {
        uint32_t id = sup_sh(sup, "sleep 1000");
        sup_pump_for(sup, i % 4);
        sup_abort(sup, id);
        sup_abort(sup, id);
        sup_wait(sup, id, 2000);
        sup_abort(sup, id);
        uint32_t quick = sup_argv(sup, SUP_LIST("true"));
        sup_pump_for(sup, i % 4);
        sup_abort(sup, quick);
        sup_wait(sup, quick, 2000);
    }
    sup_wait_commands(sup, 0, 500);
    sup_expect_serving(sup);
    sup_end(sup);
}

/* The job prints more than any pipe holds and must go on doing so. */
static void test_background_job_that_holds_the_output(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    char script[512];
    snprintf(script, sizeof script, "echo first; '%s' act loud '%s' 16384 & exit 3", sup_self(),
             sup->heartbeat_path);
    /* Its time limit passes while only the job is left: the command itself was in time. */
    uint32_t id = limited(sup, 700, script);
    struct sup_run *run = sup_wait(sup, id, HOLD_MS + 2000);
    assert_int_equal(run->end.how, CV_ENDED_EXITED);
    assert_int_equal(run->end.value, 3);
    assert_int_equal(run->end.flags, CV_ENDED_STREAMS_HELD);
    assert_in_range(run->done_ms - run->start_ms, HOLD_MS - 100, sup_bound(HOLD_MS + 700));
    assert_true(run->end.duration_us < (uint64_t)sup_bound(500) * 1000);
    assert_memory_equal(sup_out(sup, id), "first\n", 6);
    for (int i = 0; i < 10; i++) {
        sup_wait_heartbeat(sup);
        sup_pump_for(sup, 100);
    }
    assert_int_equal(sup_commands(sup), 1);
    sup_end(sup);
}

static void test_background_job_that_lets_go_in_time(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = sup_sh(sup, "echo first; (sleep 0.4; echo second) & exit 3");
    struct sup_run *run = sup_expect_exit(sup, id, 3, 3000);
    assert_string_equal(sup_out(sup, id), "first\nsecond\n");
    assert_in_range(run->done_ms - run->start_ms, 390, sup_bound(1500));
    sup_end(sup);
}

/* One that lets go of both streams delays nothing. */
static void test_background_job_with_other_streams(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = sup_sh(sup, "sleep 1000 >/dev/null 2>&1 & echo first");
    struct sup_run *run = sup_expect_exit(sup, id, 0, 1500);
    assert_true(run->done_ms - run->start_ms < sup_bound(1000));
    assert_int_equal(sup_commands(sup), 1);
    sup_end(sup);
}

/* Four endless writers must not keep the answer back, nor stop anybody else. */
static void test_endless_writers_that_hold_the_output(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = sup_sh(sup, "for i in 1 2 3 4; do yes & done; exit 3");
    uint32_t stderr_only = sup_sh(sup, "yes >&2 & exit 4");
    for (int i = 0; i < 5; i++)
        sup_expect_serving(sup);
    struct sup_run *run = sup_wait(sup, id, HOLD_MS + 2000);
    assert_int_equal(run->end.value, 3);
    assert_int_equal(run->end.flags, CV_ENDED_STREAMS_HELD);
    assert_in_range(run->done_ms - run->start_ms, HOLD_MS - 100, sup_bound(HOLD_MS + 1000));
    run = sup_wait(sup, stderr_only, HOLD_MS + 2000);
    assert_int_equal(run->end.flags, CV_ENDED_STREAMS_HELD);
    for (int i = 0; i < 5; i++)
        sup_expect_serving(sup);
    sup_end(sup);
}

static void test_abort_while_the_output_is_held(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = sup_sh(sup, "sleep 1000 & exit 3");
    sup_wait_commands(sup, 1, 2000);
    sup_pump_for(sup, 100);
    sup_abort(sup, id);
    struct sup_run *run = sup_wait(sup, id, HOLD_MS + 1000);
    assert_int_equal(run->end.how, CV_ENDED_EXITED);
    assert_int_equal(run->end.value, 3);
    sup_end(sup);
}

/* The signals reach the command also when it has left its group, which others are still in. */
static void test_command_in_another_group(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t limit = sup_exec(
        sup, &(struct sup_exec){.argv = SUP_LIST(sup_self(), "act", "regroup", sup->heartbeat_path),
                                .timeout_ms = 2000});
    uint32_t aborted = sup_act(sup, SUP_LIST("regroup", "@"));
    sup_wait_out(sup, limit, 5, 5000);
    sup_wait_out(sup, aborted, 5, 5000);
    sup_wait_commands(sup, 6, 5000);
    sup_abort(sup, aborted);
    struct sup_run *run = sup_wait(sup, aborted, 10000);
    assert_int_equal(run->end.how, CV_ENDED_SIGNALED);
    assert_int_equal(run->end.value, SIGKILL);
    run = sup_wait(sup, limit, 20000);
    assert_int_equal(run->end.how, CV_ENDED_SIGNALED);
    assert_int_equal(run->end.value, SIGTERM);
    assert_int_equal(run->end.flags, CV_ENDED_TIMED_OUT);
    sup_wait_commands(sup, 2, 5000); /* the other groups, which live until the end */
    sup_end(sup);
}

static void test_answers_do_not_wait_for_a_tracer(void **state)
{
    (void)state;
    enum { COUNT = 3 };
    pid_t pids[COUNT];
    struct sup *sup = sup_start(NULL);
    uint32_t limit = limited(sup, 700, "echo before; exec sleep 1000");
    uint32_t exits = limited(sup, 700, "echo; sleep 0.3; exit 3");
    uint32_t aborted = sup_sh(sup, "echo; exec sleep 1000");
    sup_wait_out(sup, limit, 7, 2000);
    sup_wait_out(sup, exits, 1, 2000);
    sup_wait_out(sup, aborted, 1, 2000);
    assert_int_equal(proc_children(sup->supervisor, pids, COUNT), COUNT);
    pid_t tracer = proc_hold(pids, COUNT);
    sup_abort(sup, aborted);
    struct sup_run *run = sup_wait(sup, aborted, END_MS + 1000);
    assert_int_equal(run->end.how, CV_ENDED_EXITED); /* nobody has seen of what it died */
    const int64_t most_ms = 700 + GRACE_MS + END_MS + 1000;
    expect_timed_out(sup, limit, CV_ENDED_EXITED, 124, 700 + GRACE_MS, most_ms);
    assert_string_equal(sup_out(sup, limit), "before\n");
    expect_timed_out(sup, exits, CV_ENDED_EXITED, 124, 700 + GRACE_MS, most_ms);
    sup_expect_serving(sup);
    assert_int_equal(proc_zombies(sup->supervisor), COUNT);
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    for (int i = 0; i < 100 && proc_zombies(sup->supervisor) > 0; i++)
        sup_pump_for(sup, 10);
    assert_int_equal(proc_zombies(sup->supervisor), 0);
    sup_expect_serving(sup);
    sup_end(sup);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SUP_TEST(test_limit_sends_term),
        SUP_TEST(test_limit_kills_after_the_grace_time),
        SUP_TEST(test_limit_kills_what_the_leader_left_in_its_group),
        SUP_TEST(test_limit_spares_what_left_the_group),
        SUP_TEST(test_many_limits_at_once),
        SUP_TEST(test_abort_kills_the_group),
        SUP_TEST(test_abort_at_any_moment),
        SUP_TEST(test_background_job_that_holds_the_output),
        SUP_TEST(test_background_job_that_lets_go_in_time),
        SUP_TEST(test_background_job_with_other_streams),
        SUP_TEST(test_endless_writers_that_hold_the_output),
        SUP_TEST(test_abort_while_the_output_is_held),
        SUP_TEST(test_command_in_another_group),
        SUP_TEST(test_answers_do_not_wait_for_a_tracer),
    };
    return SUP_MAIN(argc, argv, tests);
}
