/* The supervisor, black box: when a workspace ends nothing of it lives, however it ends. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/harness.h"

/* Words of /bin/sh: the ids of supervisor and guard, as a command finds them. */
#define KILL_SUPERVISOR(signal) "kill -" signal " $PPID; sleep 1000"
#define KILL_GUARD(signal)                                                                         \
    "read -r a b c guard rest </proc/$PPID/stat; kill -" signal " $guard; sleep 1000"

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

static void expect_dead_after_host(void (*body)(void))
{
    struct sup *sup;
    pid_t host = sup_fork_host(body, &sup);
    assert_true(sup_commands(sup) >= 10);
    sup_kill_host(host);
    sup_wait_dead(sup, 2000);
}

static void test_host_is_killed(void **state)
{
    (void)state;
    expect_dead_after_host(host_with_commands);
}

static void test_host_is_killed_while_a_fork_holds_the_socket(void **state)
{
    (void)state;
    expect_dead_after_host(host_that_forked);
}

static void test_host_is_killed_without_pidfd(void **state)
{
    (void)state;
    expect_dead_after_host(host_without_pidfd);
}

static void test_host_is_killed_without_pidfd_while_a_fork_holds_the_socket(void **state)
{
    (void)state;
    expect_dead_after_host(host_that_forked_without_pidfd);
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
    attack(sup, KILL_SUPERVISOR("KILL"));
    sup_expect_guard_exit(sup);
}

static void test_command_stops_the_supervisor(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    attack(sup, KILL_SUPERVISOR("STOP"));
    sup_expect_guard_exit(sup);
}

static void test_command_kills_the_guard(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    attack(sup, KILL_GUARD("KILL"));
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
    sup_sh(sup, KILL_GUARD("STOP"));
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
    sup_sh(sup, KILL_SUPERVISOR("KILL"));
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
    sup_sh(sup, KILL_SUPERVISOR("STOP"));
    sup_pump_for(sup, 200);
    kill(sup->guard, SIGCONT);
    sup_end(sup);
}

/* Storms */

/* Runs the act `times` times side by side and lets it rage, then closes. */
static void expect_storm_ends(const char *const *act, int times)
{
    struct sup *sup = sup_start(NULL);
    for (int i = 0; i < times; i++)
        sup_act(sup, act);
    sup_wait_heartbeat(sup);
    sup_pump_for(sup, 700);
    assert_true(atomic_load(&sup->heartbeat->forks) > 100);
    sup_send(sup, CV_FRAME_CLOSE, 0, NULL, 0);
    sup_wait_eof(sup, 1000);
    sup_expect_guard_exit(sup);
}

static void test_storm_of_daemons(void **state)
{
    (void)state;
    expect_storm_ends(SUP_LIST("storm", "@", "stay"), 1);
}

static void test_storm_of_daemons_with_a_hopping_parent(void **state)
{
    (void)state;
    expect_storm_ends(SUP_LIST("storm", "@", "hop"), 1);
}

static void test_one_fork_chain(void **state)
{
    (void)state;
    expect_storm_ends(SUP_LIST("chain", "@"), 1);
}

static void test_sixteen_fork_chains(void **state)
{
    (void)state;
    expect_storm_ends(SUP_LIST("chain", "@"), 16);
}

/* The guard alone has to end the storm. */
static void test_storm_behind_a_killed_supervisor(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_act(sup, SUP_LIST("storm", "@", "hop"));
    sup_act(sup, SUP_LIST("chain", "@"));
    sup_wait_heartbeat(sup);
    sup_pump_for(sup, 300);
    sup_sh(sup, KILL_SUPERVISOR("KILL"));
    sup_wait_eof(sup, 2000);
    sup_expect_guard_exit(sup);
}

static void test_storm_behind_a_killed_guard(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_act(sup, SUP_LIST("storm", "@", "hop"));
    sup_act(sup, SUP_LIST("chain", "@"));
    sup_wait_heartbeat(sup);
    sup_pump_for(sup, 300);
    sup_sh(sup, KILL_GUARD("KILL"));
    sup_wait_eof(sup, 2000);
}

/* Running */

static void test_orphans_are_reaped(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_sh(sup, "sleep 1000");
    for (int i = 0; i < 4; i++)
        sup_expect_exit(sup, sup_act(sup, SUP_LIST("orphans", "300")), 0, 10000);
    int64_t until = cv_clock_ms() + sup_bound(1000);
    while (proc_zombies(sup->supervisor) + proc_zombies(sup->guard) > 0) {
        if (cv_clock_ms() > until)
            sup_fail("%d zombies stay", proc_zombies(sup->supervisor));
        sup_pump_for(sup, 10);
    }
    sup_end(sup);
}

/* Orphans are adopted by the supervisor, not by the guard or by the system's init. */
static void test_orphans_are_adopted(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_expect_exit(sup, sup_act(sup, SUP_LIST("daemon", "@")), 0, 3000);
    pid_t daemon = 0, children[8];
    assert_int_equal(proc_children(sup->supervisor, &daemon, 1), 1);
    assert_true(proc_alive(daemon));
    assert_int_equal(proc_children(sup->guard, children, 8), 1);
    sup_end(sup);
}

/* What an attacker shares with the test. */
struct attacker {
    atomic_int stop;
    atomic_int stopped;   /* children that were stopped */
    atomic_int too_early; /* of them, before they ran the program of their command */
};

#define PIDS_MAX (4 * 1024 * 1024) /* of Linux: PID_MAX_LIMIT */

/* Stops every child of the supervisor that is not there yet, as soon as it is. */
static void stop_children(pid_t supervisor, struct attacker *attacker)
{
    static bool seen[PIDS_MAX];
    char list[64], link[64], program[4096], own[4096];
    snprintf(list, sizeof list, "/proc/%d/task/%d/children", (int)supervisor, (int)supervisor);
    snprintf(link, sizeof link, "/proc/%d/exe", (int)supervisor);
    ssize_t own_length = readlink(link, own, sizeof own);
    for (bool first = true; atomic_load(&attacker->stop) == 0; first = false) {
        FILE *file = fopen(list, "re");
        if (file == NULL)
            _exit(1);
        for (int pid; fscanf(file, "%d", &pid) == 1;) {
            if (seen[pid])
                continue;
            seen[pid] = true;
            if (first)
                continue;
            kill(pid, SIGSTOP);
            atomic_fetch_add(&attacker->stopped, 1);
            snprintf(link, sizeof link, "/proc/%d/exe", pid);
            ssize_t length = readlink(link, program, sizeof program);
            if (length > 0 && length == own_length && memcmp(program, own, (size_t)length) == 0)
                atomic_fetch_add(&attacker->too_early, 1);
        }
        fclose(file);
    }
    _exit(0);
}

/* A child that is stopped before its exec is that command's trouble and nobody else's. */
static void test_stopped_child_stops_nobody_else(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    if (access("/proc/thread-self/children", R_OK) != 0)
        skip();
    struct attacker *attacker =
        mmap(NULL, sizeof *attacker, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(attacker != MAP_FAILED);
    uint32_t limited =
        sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("sleep", "100"), .timeout_ms = 1500});
    sup_wait_commands(sup, 1, 2000);
    pid_t pid = fork();
    if (pid == 0)
        stop_children(sup->supervisor, attacker);
    for (int i = 0; i < 400 && atomic_load(&attacker->too_early) < 5; i++) {
        sup_argv(sup, SUP_LIST("true"));
        sup_pump_for(sup, 2);
    }
    atomic_store(&attacker->stop, 1);
    waitpid(pid, NULL, 0);
    print_message("%d children stopped, %d of them before their exec\n",
                  atomic_load(&attacker->stopped), atomic_load(&attacker->too_early));
    assert_true(atomic_load(&attacker->stopped) > 0);
    munmap(attacker, sizeof *attacker);
    for (int i = 0; i < 3; i++)
        sup_expect_serving(sup);
    assert_int_equal(sup_wait(sup, limited, 3000)->end.flags, CV_ENDED_TIMED_OUT);
    sup_end(sup);
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
        SUP_TEST(test_host_is_silent_and_goes),
        SUP_TEST(test_command_kills_the_supervisor),
        SUP_TEST(test_command_stops_the_supervisor),
        SUP_TEST(test_command_kills_the_guard),
        SUP_TEST(test_command_sends_other_signals),
        SUP_TEST(test_command_stops_the_guard),
        SUP_TEST(test_command_stops_the_guard_and_nobody_continues_it),
        SUP_TEST(test_command_stops_the_guard_and_kills_the_supervisor),
        SUP_TEST(test_command_stops_both),
        SUP_TEST(test_storm_of_daemons),
        SUP_TEST(test_storm_of_daemons_with_a_hopping_parent),
        SUP_TEST(test_one_fork_chain),
        SUP_TEST(test_sixteen_fork_chains),
        SUP_TEST(test_storm_behind_a_killed_supervisor),
        SUP_TEST(test_storm_behind_a_killed_guard),
        SUP_TEST(test_orphans_are_reaped),
        SUP_TEST(test_orphans_are_adopted),
        SUP_TEST(test_stopped_child_stops_nobody_else),
    };
    return SUP_MAIN(argc, argv, tests);
}
