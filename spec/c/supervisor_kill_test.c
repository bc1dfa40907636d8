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
    sup_wait_eof(sup);
    sup_expect_guard_exit(sup);
}

/*
 * The guard sees these ends too, and kills after GUARD_WAITS_MS. That the supervisor sees them
 * shows by an end that comes sooner: of some rounds one must, however busy the machine is.
 */
#define GUARD_WAITS_MS 1000
#define ROUNDS 10

/* `round` returns how long the end took. */
static void expect_own_end(int64_t (*round)(void))
{
    for (int i = 0; i < ROUNDS; i++) {
        int64_t took = round();
        sup_teardown(NULL);
        if (took < GUARD_WAITS_MS)
            return;
    }
    sup_fail("in each of %d rounds the end took as long as the guard waits", ROUNDS);
}

static int64_t half_close(void)
{
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    int64_t start = cv_clock_ms();
    shutdown(sup->fd, SHUT_WR);
    sup_wait_eof(sup);
    int64_t took = sup->eof_ms - start;
    sup_expect_guard_exit(sup);
    return took;
}

static void test_half_close(void **state)
{
    (void)state;
    expect_own_end(half_close);
}

static int64_t close_and_wait(struct sup *sup)
{
    int64_t start = cv_clock_ms();
    close(sup->fd);
    sup->fd = -1;
    sup->eof = true;
    sup_wait_dead(sup);
    int64_t took = cv_clock_ms() - start;
    sup_expect_guard_exit(sup);
    return took;
}

static int64_t close_the_socket(void)
{
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    return close_and_wait(sup);
}

static void test_close_of_the_socket(void **state)
{
    (void)state;
    expect_own_end(close_the_socket);
}

/* The supervisor sees a reset then, and may be in the middle of a write. */
static int64_t close_with_unread_output(void)
{
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    sup->deaf = true;
    for (int i = 0; i < 3; i++)
        sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("yes"), .flags = CV_START_STREAM_ALL});
    sup_pump_for(sup, 200);
    return close_and_wait(sup);
}

static void test_close_with_unread_output(void **state)
{
    (void)state;
    expect_own_end(close_with_unread_output);
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

/*
 * A child that was never told of the socket, and holds it for longer than any end is waited for. It
 * ends with the test program.
 */
static void fork_holder(void)
{
    pid_t test = getppid();
    if (fork() != 0)
        return;
    for (int i = 0; i < 6000 && proc_alive(test); i++)
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

static int64_t kill_the_host(void (*body)(void))
{
    struct sup *sup;
    pid_t host = sup_fork_host(body, &sup);
    sup_wait_commands(sup, SUP_POPULATION);
    int64_t start = cv_clock_ms();
    sup_kill_host(host);
    sup_wait_dead(sup);
    return cv_clock_ms() - start;
}

static int64_t kill_host(void)
{
    return kill_the_host(host_with_commands);
}

static void test_host_is_killed(void **state)
{
    (void)state;
    expect_own_end(kill_host);
}

static int64_t kill_host_that_forked(void)
{
    return kill_the_host(host_that_forked);
}

static void test_host_is_killed_while_a_fork_holds_the_socket(void **state)
{
    (void)state;
    expect_own_end(kill_host_that_forked);
}

static int64_t kill_host_without_pidfd(void)
{
    return kill_the_host(host_without_pidfd);
}

static void test_host_is_killed_without_pidfd(void **state)
{
    (void)state;
    expect_own_end(kill_host_without_pidfd);
}

/* Only the guard sees it, which asks for its parent now and then. */
static void test_host_is_killed_without_pidfd_while_a_fork_holds_the_socket(void **state)
{
    (void)state;
    kill_the_host(host_that_forked_without_pidfd);
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
        sup_wait_dead(sup);
        sup_teardown(NULL);
    }
}

static void host_with_both_stopped(void)
{
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    sup_stop(sup->guard);
    sup_stop(sup->supervisor);
    sup_host_ready(sup);
}

static void test_host_is_killed_when_guard_and_supervisor_are_stopped(void **state)
{
    (void)state;
    kill_the_host(host_with_both_stopped);
}

/* Before hello there is nothing to kill, and nobody to wait for. */
static void test_host_is_silent_and_goes(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    sup_pump_for(sup, 100);
    assert_false(sup->eof);
    shutdown(sup->fd, SHUT_WR);
    sup_wait_eof(sup);
    sup_expect_guard_exit(sup);
}

/* Attacks by a command */

static void attack(struct sup *sup, const char *script)
{
    sup_populate(sup);
    sup_sh(sup, script);
    sup_wait_eof(sup);
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
            sup_expect_exit(sup, id, 5);
        else
            sup_pump_for(sup, 200);
    }
    sup_end(sup);
}

static void stop_guard(struct sup *sup)
{
    struct proc_stat stat;
    sup_sh(sup, SUP_KILL_GUARD("STOP"));
    int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
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

/* The one command of a supervisor, held by ptrace so that nobody can reap it; the tracer. */
static pid_t hold_the_command(struct sup *sup)
{
    pid_t held;
    sup_wait_out(sup, sup_sh(sup, "echo; exec sleep 1000"), 1);
    assert_int_equal(proc_children(sup->supervisor, &held, 1), 1);
    pid_t tracer = proc_hold(&held, 1);
    assert_true(tracer > 0);
    return tracer;
}

static void let_go(pid_t tracer)
{
    kill(tracer, SIGKILL);
    waitpid(tracer, NULL, 0);
}

/* What the guard has for its kill loop, of its own time. */
#define GUARD_KILLS_MS 2000

/* False when the guard was given so much time of its own that its end would say nothing. */
static bool guard_outlives_a_stop(void)
{
    struct sup *sup = sup_start(NULL);
    pid_t tracer = hold_the_command(sup);
    int64_t start = cv_clock_ms();
    kill(sup->supervisor, SIGKILL);
    sup_pump_for(sup, 100);
    sup_stop(sup->guard);
    int64_t stopped = cv_clock_ms();
    sup_pump_for(sup, GUARD_KILLS_MS + 500);
    int64_t resumed = cv_clock_ms();
    kill(sup->guard, SIGCONT);
    sup_pump_for(sup, 300);
    int64_t own = stopped - start + cv_clock_ms() - resumed;
    bool over = sup->eof;
    let_go(tracer);
    if (over && own >= GUARD_KILLS_MS)
        return false;
    assert_false(over);
    sup_wait_eof(sup);
    sup_expect_guard_exit(sup);
    return true;
}

/* The time for which a guard is stopped while it kills is not a part of its time limit. */
static void test_guard_is_stopped_while_it_kills(void **state)
{
    (void)state;
    for (int i = 0; !guard_outlives_a_stop(); i++) {
        assert_true(i < ROUNDS);
        sup_teardown(NULL);
    }
}

/* What can't be reaped is told by the guard's exit status. */
static void test_guard_tells_what_it_leaves(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    pid_t tracer = hold_the_command(sup);
    kill(sup->supervisor, SIGKILL);
    assert_int_equal(waitpid(sup->guard, &sup->guard_status, 0), sup->guard);
    sup->guard_reaped = true;
    assert_true(WIFEXITED(sup->guard_status));
    assert_int_equal(WEXITSTATUS(sup->guard_status), CV_GUARD_LEFT_SOME);
    let_go(tracer);
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
