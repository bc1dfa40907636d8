/* The supervisor, black box: when a workspace ends nothing of it lives, however it ends. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/harness.h"

/* Ends by the host */

static void test_close_frame(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    sup_send(sup, CV_FRAME_CLOSE, 0, NULL, 0);
    sup_wait_eof(sup, 1000);
    sup_expect_guard_exit(sup);
}

static void test_half_close(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    shutdown(sup->fd, SHUT_WR);
    sup_wait_eof(sup, 1000);
    sup_expect_guard_exit(sup);
}

static void test_close_of_the_socket(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    close(sup->fd);
    sup->fd = -1;
    sup->eof = true;
    sup_wait_dead(sup, 1000);
    sup_expect_guard_exit(sup);
}

/* The supervisor sees a reset then, and may be in the middle of a write. */
static void test_close_with_unread_output(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    sup->deaf = true;
    for (int i = 0; i < 3; i++)
        sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("yes"), .flags = CV_START_STREAM_ALL});
    sup_pump_for(sup, 200);
    close(sup->fd);
    sup->fd = -1;
    sup->eof = true;
    sup_wait_dead(sup, 1000);
    sup_expect_guard_exit(sup);
}

static void test_close_right_behind_the_starts(void **state)
{
    (void)state;
    for (int round = 0; round < 10; round++) {
        struct sup *sup = sup_start(NULL);
        for (int i = 0; i < 20; i++)
            sup_act(sup, SUP_LIST("daemon", "@"));
        sup_pump_for(sup, round);
        sup_end(sup);
        sup_teardown(NULL);
    }
}

/* Death of the host */

/* The supervisor sees the death itself: by the end of file, or by the pidfd. */
#define SEEN_MS 700
/* The guard polls for it, and gives the supervisor time to end by itself. */
#define POLLED_MS 2000

static void host_with_commands(void)
{
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    sup_host_ready(sup);
}

static void host_without_pidfd(void)
{
    struct sup *sup = sup_start(&(struct sup_options){.no_pidfd = true});
    sup_populate(sup);
    sup_host_ready(sup);
}

/* A child that was never told of the socket, and holds it. It ends with the test program. */
static void fork_holder(void)
{
    pid_t test = getppid();
    if (fork() != 0)
        return;
    for (int i = 0; i < 1000 && kill(test, 0) == 0; i++)
        sup_sleep(10);
    _exit(0);
}

static void host_that_forked(void)
{
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    fork_holder();
    sup_host_ready(sup);
}

static void host_that_forked_without_pidfd(void)
{
    struct sup *sup = sup_start(&(struct sup_options){.no_pidfd = true});
    sup_populate(sup);
    fork_holder();
    sup_host_ready(sup);
}

static void expect_dead_after_host(void (*body)(void), int64_t ms)
{
    struct sup *sup;
    pid_t host = sup_fork_host(body, &sup);
    assert_int_equal(sup_commands(sup), SUP_POPULATION);
    sup_kill_host(host);
    sup_wait_dead(sup, ms);
}

static void test_host_is_killed(void **state)
{
    (void)state;
    expect_dead_after_host(host_with_commands, SEEN_MS);
}

static void test_host_is_killed_while_a_fork_holds_the_socket(void **state)
{
    (void)state;
    expect_dead_after_host(host_that_forked, SEEN_MS);
}

static void test_host_is_killed_without_pidfd(void **state)
{
    (void)state;
    expect_dead_after_host(host_without_pidfd, SEEN_MS);
}

static void test_host_is_killed_without_pidfd_while_a_fork_holds_the_socket(void **state)
{
    (void)state;
    expect_dead_after_host(host_that_forked_without_pidfd, POLLED_MS);
}

static int host_round;

static void host_in_the_middle(void)
{
    struct sup *sup = sup_start(NULL);
    for (int i = 0; i < 20; i++) {
        sup_act(sup, SUP_LIST("daemon", "@"));
        sup_sh(sup, "setsid sleep 1000 & sleep 1000");
    }
    sup_pump_for(sup, host_round % 7);
    sup_host_ready(sup);
}

static void test_host_is_killed_at_any_moment(void **state)
{
    (void)state;
    for (host_round = 0; host_round < 15; host_round++) {
        struct sup *sup;
        pid_t host = sup_fork_host(host_in_the_middle, &sup);
        sup_kill_host(host);
        sup_wait_dead(sup, 2000);
        sup_teardown(NULL);
    }
}

static void host_with_both_stopped(void)
{
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    kill(sup->guard, SIGSTOP);
    kill(sup->supervisor, SIGSTOP);
    sup_host_ready(sup);
}

static void test_host_is_killed_when_guard_and_supervisor_are_stopped(void **state)
{
    (void)state;
    expect_dead_after_host(host_with_both_stopped, POLLED_MS);
}

/* Before hello there is nothing to kill, and nobody to wait for. */
static void test_host_is_silent_and_goes(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    sup_pump_for(sup, 100);
    assert_false(sup->eof);
    shutdown(sup->fd, SHUT_WR);
    sup_wait_eof(sup, 1000);
    sup_expect_guard_exit(sup);
}

/* Attacks by a command */

static void attack(struct sup *sup, const char *script)
{
    sup_populate(sup);
    sup_sh(sup, script);
    sup_wait_eof(sup, 2000);
}

static void test_command_kills_the_supervisor(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    attack(sup, SUP_KILL_SUPERVISOR("KILL"));
    sup_expect_guard_exit(sup);
}

static void test_command_stops_the_supervisor(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    attack(sup, SUP_KILL_SUPERVISOR("STOP"));
    sup_expect_guard_exit(sup);
}

static void test_command_kills_the_guard(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    attack(sup, SUP_KILL_GUARD("KILL"));
    assert_int_equal(waitpid(sup->guard, &sup->guard_status, 0), sup->guard);
    sup->guard_reaped = true;
    assert_true(WIFSIGNALED(sup->guard_status));
}

/* The first five must do nothing; whatever the others do, nothing may survive it. */
static void test_command_sends_other_signals(void **state)
{
    (void)state;
    static const char *const signals[] = {"TERM", "HUP", "INT", "PIPE", "XFSZ", "USR1", "QUIT"};
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char script[64];
        snprintf(script, sizeof script, "kill -%s $PPID; sleep 0.05; exit 5", signals[i]);
        uint32_t id = sup_sh(sup, script);
        if (i < 5)
            sup_expect_exit(sup, id, 5, 2000);
        else
            sup_pump_for(sup, 200);
    }
    sup_end(sup);
}

static void stop_guard(struct sup *sup)
{
    struct proc_stat stat;
    sup_sh(sup, SUP_KILL_GUARD("STOP"));
    int64_t until = cv_clock_ms() + sup_bound(2000);
    while (!proc_stat(sup->guard, &stat) || stat.state != 'T') {
        if (cv_clock_ms() > until)
            sup_fail("the guard was not stopped");
        sup_pump_for(sup, 5);
    }
    sup_expect_serving(sup);
}

static void test_command_stops_the_guard(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    stop_guard(sup);
    kill(sup->guard, SIGCONT); /* as a host does on dispose */
    sup_end(sup);
}

/* A host that died can't continue it: the supervisor does. */
static void test_command_stops_the_guard_and_nobody_continues_it(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    stop_guard(sup);
    sup_end(sup);
}

static void test_command_stops_the_guard_and_kills_the_supervisor(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    stop_guard(sup);
    sup_sh(sup, SUP_KILL_SUPERVISOR("KILL"));
    sup_pump_for(sup, 200);
    kill(sup->guard, SIGCONT);
    sup_end(sup);
}

static void test_command_stops_both(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    stop_guard(sup);
    sup_sh(sup, SUP_KILL_SUPERVISOR("STOP"));
    sup_pump_for(sup, 200);
    kill(sup->guard, SIGCONT);
    sup_end(sup);
}

/* The time for which a guard is stopped while it kills is not a part of its time limit. */
static void test_guard_is_stopped_while_it_kills(void **state)
{
    (void)state;
    pid_t held;
    struct sup *sup = sup_start(NULL);
    sup_wait_out(sup, sup_sh(sup, "echo; exec sleep 1000"), 1, 2000);
    assert_int_equal(proc_children(sup->supervisor, &held, 1), 1);
    pid_t tracer = proc_hold(&held, 1);
    assert_true(tracer > 0);
    kill(sup->supervisor, SIGKILL);
    sup_pump_for(sup, 100);
    kill(sup->guard, SIGSTOP);
    sup_pump_for(sup, 2500);
    kill(sup->guard, SIGCONT);
    sup_pump_for(sup, 300);
    assert_false(sup->eof);
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
    sup_wait_eof(sup, 1000);
    sup_expect_guard_exit(sup);
}

/* What can't be reaped is told by the guard's exit status. */
static void test_guard_tells_what_it_leaves(void **state)
{
    (void)state;
    pid_t held;
    struct sup *sup = sup_start(NULL);
    sup_wait_out(sup, sup_sh(sup, "echo; exec sleep 1000"), 1, 2000);
    assert_int_equal(proc_children(sup->supervisor, &held, 1), 1);
    pid_t tracer = proc_hold(&held, 1);
    assert_true(tracer > 0);
    kill(sup->supervisor, SIGKILL);
    assert_int_equal(waitpid(sup->guard, &sup->guard_status, 0), sup->guard);
    sup->guard_reaped = true;
    assert_true(WIFEXITED(sup->guard_status));
    assert_int_equal(WEXITSTATUS(sup->guard_status), CV_GUARD_LEFT_SOME);
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SUP_TEST(test_close_frame),
        SUP_TEST(test_half_close),
        SUP_TEST(test_close_of_the_socket),
        SUP_TEST(test_close_with_unread_output),
        SUP_TEST(test_close_right_behind_the_starts),
        SUP_TEST(test_host_is_killed),
        SUP_TEST(test_host_is_killed_while_a_fork_holds_the_socket),
        SUP_TEST(test_host_is_killed_without_pidfd),
        SUP_TEST(test_host_is_killed_without_pidfd_while_a_fork_holds_the_socket),
        SUP_TEST(test_host_is_killed_at_any_moment),
        SUP_TEST(test_host_is_killed_when_guard_and_supervisor_are_stopped),
        SUP_TEST(test_host_is_silent_and_goes),
        SUP_TEST(test_command_kills_the_supervisor),
        SUP_TEST(test_command_stops_the_supervisor),
        SUP_TEST(test_command_kills_the_guard),
        SUP_TEST(test_command_sends_other_signals),
        SUP_TEST(test_command_stops_the_guard),
        SUP_TEST(test_command_stops_the_guard_and_nobody_continues_it),
        SUP_TEST(test_command_stops_the_guard_and_kills_the_supervisor),
        SUP_TEST(test_command_stops_both),
        SUP_TEST(test_guard_is_stopped_while_it_kills),
        SUP_TEST(test_guard_tells_what_it_leaves),
    };
    return SUP_MAIN(argc, argv, tests);
}
