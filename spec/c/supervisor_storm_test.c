/* The supervisor, black box: storms of processes, orphans, and children that are stopped. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/harness.h"
#include "support/scratch.h"

/* Runs the act `times` times side by side and lets it rage, then closes. */
static void expect_storm_ends(const char *const *act, int times)
{
    struct sup *sup = sup_start(NULL);
    for (int i = 0; i < times; i++)
        sup_act(sup, act);
    sup_wait_heartbeat(sup);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
         atomic_load(&sup->heartbeat->forks) <= 60;) {
        assert_true(cv_clock_ms() < until);
        sup_pump_for(sup, 100);
    }
    sup_send(sup, CV_FRAME_CLOSE, 0, NULL, 0);
    sup_wait_eof(sup);
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

/* A command may adopt the orphans itself, at any depth. */
static void test_storm_of_daemons_with_a_subreaper(void **state)
{
    (void)state;
    expect_storm_ends(SUP_LIST("storm", "@", "reap"), 2);
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
    sup_sh(sup, SUP_KILL_SUPERVISOR("KILL"));
    sup_wait_eof(sup);
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
    sup_sh(sup, SUP_KILL_GUARD("KILL"));
    sup_wait_eof(sup);
}

/* Running */

static void test_orphans_are_reaped(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_sh(sup, "sleep 1000");
    for (int i = 0; i < 4; i++)
        sup_expect_exit(sup, sup_act(sup, SUP_LIST("orphans", "300")), 0);
    int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
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
    sup_expect_exit(sup, sup_act(sup, SUP_LIST("daemon", "@")), 0);
    pid_t daemon = 0, children[8];
    assert_int_equal(proc_children(sup->supervisor, &daemon, 1), 1);
    assert_true(proc_alive(daemon));
    assert_int_equal(proc_children(sup->guard, children, 8), 1);
    sup_end(sup);
}

/* What an attacker shares with the test. */
struct attacker {
    atomic_int stop;
    atomic_int looks;     /* rounds of its look for children */
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
        atomic_fetch_add(&attacker->looks, 1);
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
    uint32_t limit_ms = 1500;
    uint32_t limited = sup_limited(sup, "echo; exec sleep 1000", 1, &limit_ms);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        stop_children(sup->supervisor, attacker);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; atomic_load(&attacker->looks) == 0;) {
        assert_true(cv_clock_ms() < until);
        sup_pump_for(sup, 2);
    }
    /* Where it is slow it gets more time for at least one. */
    for (int i = 0; i < 1000; i++) {
        if (i < 400 ? atomic_load(&attacker->too_early) >= 5 : atomic_load(&attacker->stopped) > 0)
            break;
        sup_argv(sup, SUP_LIST("true"));
        sup_pump_for(sup, i < 400 ? 2 : 50);
    }
    atomic_store(&attacker->stop, 1);
    waitpid(pid, NULL, 0);
    print_message("%d children stopped, %d of them before their exec\n",
                  atomic_load(&attacker->stopped), atomic_load(&attacker->too_early));
    assert_true(atomic_load(&attacker->stopped) > 0);
    munmap(attacker, sizeof *attacker);
    for (int i = 0; i < 3; i++)
        sup_expect_serving(sup);
    assert_int_equal(sup_wait(sup, limited)->end.flags, CV_ENDED_TIMED_OUT);
    sup_end(sup);
}

static void lose_waitid(struct sup *sup)
{
    (void)sup;
    scratch_lose_call(SYS_waitid, ENOSYS);
}

/*
 * Nothing can be reaped then; the end still comes within the limits of both kill loops, and the
 * guard says that it can't tell.
 */
static void test_end_without_waitid(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.prepare = lose_waitid});
    sup_sh(sup, "exec sleep 100");
    sup_wait_commands(sup, 1);
    sup_send(sup, CV_FRAME_CLOSE, 0, NULL, 0);
    sup_wait_eof(sup);
    assert_int_equal(waitpid(sup->guard, &sup->guard_status, 0), sup->guard);
    sup->guard_reaped = true;
    assert_true(WIFEXITED(sup->guard_status));
    assert_int_equal(WEXITSTATUS(sup->guard_status), CV_GUARD_LEFT_SOME);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SUP_TEST(test_storm_of_daemons),
        SUP_TEST(test_storm_of_daemons_with_a_hopping_parent),
        SUP_TEST(test_storm_of_daemons_with_a_subreaper),
        SUP_TEST(test_one_fork_chain),
        SUP_TEST(test_sixteen_fork_chains),
        SUP_TEST(test_storm_behind_a_killed_supervisor),
        SUP_TEST(test_storm_behind_a_killed_guard),
        SUP_TEST(test_orphans_are_reaped),
        SUP_TEST(test_orphans_are_adopted),
        SUP_TEST(test_stopped_child_stops_nobody_else),
        SUP_TEST(test_end_without_waitid),
    };
    return SUP_MAIN(argc, argv, tests);
}
