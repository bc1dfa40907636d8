/* The supervisor, black box: time limits, aborts, background jobs that hold the output. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/harness.h"

#define GRACE_MS 5000 /* between SIGTERM and SIGKILL */
#define HOLD_MS 2000  /* how long a background job may delay the answer */
/* Where only a quick machine tells right from wrong, one round of so many must be quick. */
#define ROUNDS 10

static uint32_t limited(struct sup *sup, uint32_t timeout_ms, const char *script)
{
    return sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("/bin/sh", "-c", script),
                                            .timeout_ms = timeout_ms});
}

static void expect_timed_out(struct sup *sup, uint32_t id, uint32_t how, uint32_t value,
                             int64_t least_ms)
{
    struct sup_run *run = sup_wait(sup, id);
    if (run->end.how != how || run->end.value != value ||
        (run->end.flags & CV_ENDED_TIMED_OUT) == 0)
        sup_fail("id %u: how %u, value %u, flags 0x%x", id, run->end.how, run->end.value,
                 run->end.flags);
    assert_in_range(run->end.duration_us / 1000, least_ms, run->done_ms - run->start_ms + 1);
}

static void test_limit_sends_term(void **state)
{
    (void)state;
    uint32_t catches_ms = 300, stops_ms = 300;
    struct sup *sup = sup_start(NULL);
    uint32_t by_term = limited(sup, 300, "exec sleep 1000");
    uint32_t in_time = limited(sup, SUP_NO_LIMIT_MS, "sleep 0.5; exit 3");
    uint32_t catching = sup_limited(sup,
                                    "trap 'echo caught; exit 7' TERM; echo before; "
                                    "while :; do sleep 0.05; done",
                                    7, &catches_ms);
    uint32_t stopped = sup_limited(sup, "echo; kill -STOP $$", 1, &stops_ms);
    expect_timed_out(sup, by_term, CV_ENDED_SIGNALED, SIGTERM, 300);
    expect_timed_out(sup, catching, CV_ENDED_EXITED, 7, catches_ms);
    assert_string_equal(sup_out(sup, catching), "before\ncaught\n");
    expect_timed_out(sup, stopped, CV_ENDED_SIGNALED, SIGTERM, stops_ms);
    sup_expect_exit(sup, in_time, 3);
    sup_end(sup);
}

/* One test for all that lasts the grace time, since they run side by side. */
static void test_limit_kills_after_the_grace_time(void **state)
{
    (void)state;
    uint32_t stubborn_ms = 300, family_ms = 300;
    struct sup *sup = sup_start(NULL);
    uint32_t stubborn =
        sup_limited(sup, "trap '' TERM; echo kept; while :; do sleep 1; done", 5, &stubborn_ms);
    /* Its children ignore the signal as well: the whole group must go. */
    uint32_t family = sup_limited(
        sup, "trap '' TERM; sleep 1000 & sleep 1000 & echo both; wait; wait", 5, &family_ms);
    expect_timed_out(sup, stubborn, CV_ENDED_SIGNALED, SIGKILL, stubborn_ms + GRACE_MS);
    assert_string_equal(sup_out(sup, stubborn), "kept\n");
    expect_timed_out(sup, family, CV_ENDED_SIGNALED, SIGKILL, family_ms + GRACE_MS);
    sup_wait_commands(sup, 0);
    sup_end(sup);
}

/* The leader goes by SIGTERM at once; what it left in its group does not outlive it. */
static void test_limit_kills_what_the_leader_left_in_its_group(void **state)
{
    (void)state;
    uint32_t limit_ms = 500;
    struct sup *sup = sup_start(NULL);
    uint32_t id = sup_limited(sup,
                              "sh -c 'trap \"\" TERM; echo; while :; do sleep 1; done' & "
                              "sh -c 'trap \"\" TERM; echo; sleep 1000; :' & wait",
                              2, &limit_ms);
    expect_timed_out(sup, id, CV_ENDED_SIGNALED, SIGTERM, limit_ms);
    assert_int_equal(sup_of(sup, id)->end.flags, CV_ENDED_TIMED_OUT);
    sup_wait_commands(sup, 0);
    sup_end(sup);
}

/* It lives until the workspace ends, as any daemon does. */
static void test_limit_spares_what_left_the_group(void **state)
{
    (void)state;
    uint32_t limit_ms = 400;
    struct sup *sup = sup_start(NULL);
    uint32_t id =
        sup_limited(sup, "setsid sh -c 'echo; exec sleep 1000 >/dev/null 2>&1' & exec sleep 1000",
                    1, &limit_ms);
    expect_timed_out(sup, id, CV_ENDED_SIGNALED, SIGTERM, limit_ms);
    sup_pump_for(sup, 300);
    sup_wait_running(sup, "sleep");
    sup_end(sup);
}

static void test_many_limits_at_once(void **state)
{
    (void)state;
    enum { COUNT = 60 };
    struct sup *sup = sup_start(NULL);
    uint32_t ids[COUNT];
    for (uint32_t i = 0; i < COUNT; i++)
        ids[i] = limited(sup, 300 + i * 7919 % 700, "exec sleep 1000");
    for (uint32_t i = 0; i < COUNT; i++)
        expect_timed_out(sup, ids[i], CV_ENDED_SIGNALED, SIGTERM, 300 + i * 7919 % 700);
    sup_wait_commands(sup, 0);
    sup_end(sup);
}

/* At once, so by no SIGTERM: what would catch it never hears of it. */
static void test_abort_kills_the_group(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t other = sup_sh(sup, "until [ -e go ]; do sleep 0.05; done; exit 9");
    uint32_t id = sup_sh(sup, "trap 'echo >caught' TERM; sh -c 'sleep 1000; :' & "
                              "echo first; sleep 1000; :");
    sup_wait_out(sup, id, 6);
    sup_abort(sup, id);
    struct sup_run *run = sup_wait(sup, id);
    assert_int_equal(run->end.how, CV_ENDED_SIGNALED);
    assert_int_equal(run->end.value, SIGKILL);
    assert_int_equal(run->end.flags & CV_ENDED_TIMED_OUT, 0);
    assert_string_equal(sup_out(sup, id), "first\n");
    sup_write_file(sup->base, "go", "", 0, 0644);
    sup_expect_exit(sup, other, 9);
    sup_wait_commands(sup, 0);
    assert_int_not_equal(access(sup_path(sup->base, "caught"), F_OK), 0);
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
        sup_wait(sup, id);
        sup_abort(sup, id);
        uint32_t quick = sup_argv(sup, SUP_LIST("true"));
        sup_pump_for(sup, i % 4);
        sup_abort(sup, quick);
        sup_wait(sup, quick);
    }
    sup_wait_commands(sup, 0);
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
    struct sup_run *run;
    uint32_t id, limit_ms = 350;
    do {
        limit_ms *= 2;
        id = limited(sup, limit_ms, script);
        run = sup_wait(sup, id);
    } while (run->end.duration_us / 1000 >= limit_ms && limit_ms < SUP_PATIENCE_MS);
    assert_int_equal(run->end.how, CV_ENDED_EXITED);
    assert_int_equal(run->end.value, 3);
    assert_int_equal(run->end.flags, CV_ENDED_STREAMS_HELD);
    assert_memory_equal(sup_out(sup, id), "first\n", 6);
    /* The time for which it was held is no part of its duration. */
    assert_in_range(run->end.duration_us / 1000, 0, run->done_ms - run->start_ms - HOLD_MS + 2);
    for (int i = 0; i < 10; i++) {
        sup_wait_heartbeat(sup);
        sup_pump_for(sup, 100);
    }
    assert_true(sup_commands(sup) > 0);
    sup_end(sup);
}

/*
 * What is left of the output comes, and the answer with it. One round of some has a job that lets
 * go within the time that it is given, however busy the machine is.
 */
static void test_background_job_that_lets_go_in_time(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    for (int round = 1;; round++) {
        uint32_t id = sup_sh(sup, "echo first; (sleep 0.4; echo second) & exit 3");
        struct sup_run *run = sup_wait(sup, id);
        assert_int_equal(run->end.how, CV_ENDED_EXITED);
        assert_int_equal(run->end.value, 3);
        if (run->end.flags == CV_ENDED_STREAMS_HELD && round < ROUNDS) {
            assert_true(run->done_ms - run->start_ms >= HOLD_MS - 1);
            continue;
        }
        assert_int_equal(run->end.flags, 0);
        assert_string_equal(sup_out(sup, id), "first\nsecond\n");
        assert_true(run->done_ms - run->start_ms >= 390);
        break;
    }
    sup_end(sup);
}

/* One that lets go of both streams delays nothing. */
static void test_background_job_with_other_streams(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    struct sup_run *run;
    int round = 0;
    do { /* a delay that is the product's would be there in each round */
        uint32_t id = sup_sh(sup, "(exec >/dev/null 2>&1; echo >gone; exec sleep 1000) & "
                                  "until [ -e gone ]; do sleep 0.01; done; rm gone; echo first");
        run = sup_expect_exit(sup, id, 0);
        assert_string_equal(sup_out(sup, id), "first\n");
        round++;
    } while (run->done_ms - run->start_ms >= HOLD_MS && round < ROUNDS);
    assert_true(run->done_ms - run->start_ms < HOLD_MS);
    sup_wait_commands(sup, round);
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
    struct sup_run *run = sup_wait(sup, id);
    assert_int_equal(run->end.value, 3);
    assert_int_equal(run->end.flags, CV_ENDED_STREAMS_HELD);
    assert_true(run->done_ms - run->start_ms >= HOLD_MS - 1);
    run = sup_wait(sup, stderr_only);
    assert_int_equal(run->end.flags, CV_ENDED_STREAMS_HELD);
    for (int i = 0; i < 5; i++)
        sup_expect_serving(sup);
    sup_end(sup);
}

static void test_abort_while_the_output_is_held(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    struct proc_stat stat;
    uint32_t id = sup_sh(sup, "sleep 1000 & printf '%8d' $$; exit 3");
    sup_wait_out(sup, id, 8);
    const pid_t leader = atoi(sup_out(sup, id));
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
         proc_stat(leader, &stat) && stat.parent == sup->supervisor;) {
        assert_true(cv_clock_ms() < until);
        sup_pump_for(sup, 5);
    }
    sup_abort(sup, id);
    struct sup_run *run = sup_wait(sup, id);
    assert_int_equal(run->end.how, CV_ENDED_EXITED);
    assert_int_equal(run->end.value, 3);
    sup_end(sup);
}

/* The signals reach the command also when it has left its group, which others are still in. */
static void test_command_in_another_group(void **state)
{
    (void)state;
    enum { FIRST_MS = 500 };
    uint32_t limit_ms = FIRST_MS;
    struct sup *sup = sup_start(NULL);
    uint32_t aborted = sup_act(sup, SUP_LIST("regroup", "@"));
    sup_wait_out(sup, aborted, 5);
    sup_wait_commands(sup, 3);
    sup_abort(sup, aborted);
    struct sup_run *run = sup_wait(sup, aborted);
    assert_int_equal(run->end.how, CV_ENDED_SIGNALED);
    assert_int_equal(run->end.value, SIGKILL);
    sup_wait_commands(sup, 1); /* the other group, which lives until the end */
    uint32_t limit = sup_limited_argv(
        sup, SUP_LIST(sup_self(), "act", "regroup", sup->heartbeat_path), 5, &limit_ms);
    run = sup_wait(sup, limit);
    assert_int_equal(run->end.how, CV_ENDED_SIGNALED);
    assert_int_equal(run->end.value, SIGTERM);
    assert_int_equal(run->end.flags, CV_ENDED_TIMED_OUT);
    assert_true(sup_commands(sup) >= 2);
    if (limit_ms == FIRST_MS) /* else there are some of a command that was too slow */
        sup_wait_commands(sup, 2);
    sup_end(sup);
}

/* Three commands of which a tracer holds each before its time limit; its pid, or 0: too late. */
static pid_t start_held(struct sup *sup, uint32_t limit_ms, uint32_t ids[3])
{
    pid_t pids[3];
    ids[0] = limited(sup, limit_ms, "echo before; exec sleep 1000");
    ids[1] = limited(sup, limit_ms, "echo; until [ -e go ]; do sleep 0.05; done; exit 3");
    ids[2] = sup_sh(sup, "echo; exec sleep 1000");
    for (int i = 0; i < 3; i++) {
        for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
             sup_of(sup, ids[i])->out.bytes == 0 && !sup_of(sup, ids[i])->ended;) {
            assert_true(cv_clock_ms() < until);
            sup_pump_for(sup, 5);
        }
    }
    pid_t tracer = proc_children(sup->supervisor, pids, 3) == 3 ? proc_hold(pids, 3) : 0;
    sup_write_file(sup->base, "go", "", 0, 0644);
    if (tracer > 0 && cv_clock_ms() - sup_of(sup, ids[0])->start_ms >= limit_ms) {
        kill(tracer, SIGKILL);
        waitpid(tracer, NULL, 0);
        return 0;
    }
    return tracer > 0 ? tracer : 0;
}

static void test_answers_do_not_wait_for_a_tracer(void **state)
{
    (void)state;
    uint32_t ids[3];
    uint32_t limit_ms = 700;
    struct sup *sup = sup_start(NULL);
    pid_t tracer;
    while ((tracer = start_held(sup, limit_ms, ids)) == 0) {
        assert_true(limit_ms < SUP_PATIENCE_MS);
        limit_ms *= 2;
        sup_teardown(NULL);
        sup = sup_start(NULL);
    }
    sup_abort(sup, ids[2]);
    struct sup_run *run = sup_wait(sup, ids[2]);
    assert_int_equal(run->end.how, CV_ENDED_EXITED); /* nobody has seen of what it died */
    expect_timed_out(sup, ids[0], CV_ENDED_EXITED, 124, limit_ms + GRACE_MS);
    assert_string_equal(sup_out(sup, ids[0]), "before\n");
    expect_timed_out(sup, ids[1], CV_ENDED_EXITED, 124, limit_ms + GRACE_MS);
    sup_expect_serving(sup);
    assert_int_equal(proc_zombies(sup->supervisor), 3);
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; proc_zombies(sup->supervisor) > 0;) {
        assert_true(cv_clock_ms() < until);
        sup_pump_for(sup, 10);
    }
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
