/* The supervisor, black box: every command starts in the same state, whatever the host's is. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "support/harness.h"

#define LEAKED_FD 77
#define SOFT_NOFILE 64
#define DEFAULT_TIMERSLACK_NS "50000\n"
#define NOBODY 65534

/* What a careless host hands down: everything that fork and exec inherit. */
static void bad_state(struct sup *sup)
{
    (void)sup;
    sigset_t all;
    sigfillset(&all);
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    sigprocmask(SIG_SETMASK, &all, NULL);
    umask(0);
    prctl(PR_SET_TIMERSLACK, 50000000ul);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = SOFT_NOFILE;
    setrlimit(RLIMIT_NOFILE, &limit);
    if (dup2(STDERR_FILENO, SOFT_NOFILE - 1) < 0 || dup2(STDERR_FILENO, 7) < 0)
        _exit(96);
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    if (chdir("/proc") != 0)
        _exit(96);
}

static const char *output_of(struct sup *sup, const char *const *argv)
{
    uint32_t id = sup_argv(sup, argv);
    sup_expect_exit(sup, id, 0);
    return sup_out(sup, id);
}

static void expect_line(const char *text, const char *label, const char *value)
{
    const char *line = strstr(text, label);
    if (line == NULL)
        sup_fail("no line %s", label);
    line += strlen(label);
    line += strspn(line, " \t");
    if (strncmp(line, value, strlen(value)) != 0 || line[strlen(value)] != '\n')
        sup_fail("%s is %.20s, not %s", label, line, value);
}

static void expect_clean_state(struct sup *sup)
{
    const char *status = output_of(sup, SUP_LIST("cat", "/proc/self/status"));
    expect_line(status, "SigBlk:", "0000000000000000");
    expect_line(status, "SigIgn:", "0000000000000000");
    expect_line(status, "SigCgt:", "0000000000000000");
    expect_line(status, "SigPnd:", "0000000000000000");
    expect_line(status, "ShdPnd:", "0000000000000000");
    expect_line(status, "Umask:", "0022");
    assert_string_equal(output_of(sup, SUP_LIST("cat", "/proc/self/timerslack_ns")),
                        DEFAULT_TIMERSLACK_NS);
    /* 3 is what ls itself opened. */
    assert_string_equal(output_of(sup, SUP_LIST("ls", "/proc/self/fd")), "0\n1\n2\n3\n");
    assert_string_equal(output_of(sup, SUP_LIST("readlink", "/proc/self/fd/0")), "/dev/null\n");
    const char *out = output_of(sup, SUP_LIST("readlink", "/proc/self/fd/1"));
    assert_int_equal(strncmp(out, "pipe:", 5), 0); /* a socket can't be opened by its name */

    uint32_t id = sup_argv(sup, SUP_LIST("cat", "/proc/self/stat"));
    sup_expect_exit(sup, id, 0);
    int pid, parent, group, session, tty;
    assert_int_equal(
        sscanf(sup_out(sup, id), "%d (cat) R %d %d %d %d", &pid, &parent, &group, &session, &tty),
        5);
    assert_int_equal(parent, sup->supervisor);
    assert_int_equal(group, pid);
    assert_int_not_equal(session, getsid(0));
    assert_int_equal(tty, 0);
}

static void test_from_a_good_host(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    expect_clean_state(sup);
    sup_end(sup);
}

static void test_from_a_bad_host(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.prepare = bad_state});
    expect_clean_state(sup);

    /* The pipes of a command are its own, though the supervisor began without 0, 1 and 2. */
    uint32_t id = sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("sh", "-c", "cat; echo e >&2"),
                                                   .flags = CV_START_STDIN});
    sup_stdin(sup, id, "input", 5, true);
    sup_expect_exit(sup, id, 0);
    assert_string_equal(sup_out(sup, id), "input");
    assert_string_equal(sup_err(sup, id), "e\n");

    id = sup_sh(sup, "yes | head -n 1 >/dev/null; kill -TERM $$; sleep 5");
    struct sup_run *run = sup_wait(sup, id);
    assert_int_equal(run->end.how, CV_ENDED_SIGNALED);
    assert_int_equal(run->end.value, SIGTERM);
    assert_string_equal(sup_err(sup, id), "");
    sup_end(sup);
}

static void test_soft_limit_of_descriptors_is_the_hosts(void **state)
{
    (void)state;
    struct rlimit limit;
    char expected[64];
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    snprintf(expected, sizeof expected, "%d\n%llu\n", SOFT_NOFILE,
             (unsigned long long)limit.rlim_max);
    struct sup *sup = sup_start(&(struct sup_options){.prepare = bad_state});
    assert_string_equal(output_of(sup, SUP_LIST("sh", "-c", "ulimit -Sn; ulimit -Hn")), expected);

    /* The supervisor itself is not held by it. */
    uint32_t ids[150];
    for (int i = 0; i < 150; i++)
        ids[i] = sup_sh(sup, "sleep 1; echo done");
    for (int i = 0; i < 150; i++)
        sup_expect_exit(sup, ids[i], 0);
    sup_end(sup);
}

static int leaked[2];

static void leak_pipe(struct sup *sup)
{
    (void)sup;
    if (dup2(leaked[1], LEAKED_FD) < 0)
        _exit(96);
}

/* A descriptor that the host leaked lives neither in a command nor in guard or supervisor. */
static void test_leaked_descriptor_is_closed(void **state)
{
    (void)state;
    char byte;
    assert_int_equal(pipe2(leaked, O_CLOEXEC | O_NONBLOCK), 0);
    struct sup *sup = sup_start(&(struct sup_options){.prepare = leak_pipe});
    sup_sh(sup, "sleep 1000");
    sup_expect_serving(sup);
    close(leaked[1]);
    assert_int_equal(read(leaked[0], &byte, 1), 0);
    close(leaked[0]);
    sup_end(sup);
}

static void expect_no_terminal(void)
{
    struct sup *sup = sup_start(NULL);
    uint32_t id = sup_sh(sup, "exec 2>/dev/null; true </dev/tty && exit 3; exit 4");
    struct sup_run *run = sup_wait(sup, id);
    if (run->end.value == 3)
        sup_fail("the command has a controlling terminal");
    expect_clean_state(sup);
    sup_end(sup);
    sup_host_ready(sup);
}

static int terminal;

/* A host whose session has a terminal. */
static void host_with_terminal(void)
{
    int slave;
    if (setsid() < 0 || (slave = open(ptsname(terminal), O_RDWR | O_CLOEXEC)) < 0 ||
        ioctl(slave, TIOCSCTTY, 0) != 0)
        sup_fail("no controlling terminal: %s", strerror(errno));
    expect_no_terminal();
}

static void test_no_controlling_terminal(void **state)
{
    (void)state;
    terminal = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (terminal < 0 || grantpt(terminal) != 0 || unlockpt(terminal) != 0)
        skip();
    struct sup *sup;
    sup_fork_host(host_with_terminal, &sup);
    close(terminal);
}

static void *start_in_thread(void *result)
{
    *(struct sup **)result = sup_start(NULL);
    return NULL;
}

/* The thread that started the program may end: that is not the host's death. */
static void test_starting_thread_may_end(void **state)
{
    (void)state;
    struct sup *sup = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, start_in_thread, &sup), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_non_null(sup);
    uint32_t id = sup_sh(sup, "sleep 0.5; exit 5");
    sup_expect_exit(sup, id, 5);
    sup_end(sup);
}

/* A copy of the program that another user can reach: the build may lie in a closed folder. */
static char public_folder[] = "/tmp/chamvi-spec-XXXXXX";
static char public_program[sizeof public_folder + sizeof "/supervisor"];

static void copy_program(void)
{
    char command[4096];
    assert_non_null(mkdtemp(public_folder));
    snprintf(public_program, sizeof public_program, "%s/supervisor", public_folder);
    int length = snprintf(command, sizeof command, "chmod 755 %s && cp '%s' %s", public_folder,
                          getenv("CHAMVI_SUPERVISOR"), public_program);
    assert_true(length > 0 && (size_t)length < sizeof command);
    assert_int_equal(system(command), 0);
    assert_int_equal(setenv("CHAMVI_SUPERVISOR", public_program, 1), 0);
}

static void remove_copy(const char *original)
{
    assert_int_equal(setenv("CHAMVI_SUPERVISOR", original, 1), 0);
    assert_int_equal(unlink(public_program), 0);
    assert_int_equal(rmdir(public_folder), 0);
}

static void drop_user(struct sup *sup)
{
    (void)sup;
    if (setgroups(0, NULL) != 0 || setresgid(NOBODY, NOBODY, NOBODY) != 0 ||
        setresuid(NOBODY, NOBODY, NOBODY) != 0)
        _exit(96);
}

/* A command of the same user must not reach into the supervisor: it could forge frames. */
static void test_supervisor_is_closed_to_its_commands(void **state)
{
    (void)state;
    bool root = geteuid() == 0;
    char original[4096];
    snprintf(original, sizeof original, "%s", getenv("CHAMVI_SUPERVISOR"));
    if (root)
        copy_program();
    struct sup *sup = sup_start(&(struct sup_options){.prepare = root ? drop_user : NULL});
    static const char *const attacks[] = {
        "exec 2>/dev/null; true </proc/$PPID/mem && exit 3; exit 4",
        "exec 2>/dev/null; cat /proc/$PPID/environ && exit 3; exit 4",
        "exec 2>/dev/null; ls /proc/$PPID/fd/ && exit 3; exit 4",
        "exec 2>/dev/null; read -r a b c guard rest </proc/$PPID/stat; ls /proc/$guard/fd/ && exit "
        "3; "
        "test -d /proc/$guard && exit 4; exit 5",
    };
    for (size_t i = 0; i < sizeof attacks / sizeof *attacks; i++) {
        uint32_t id = sup_sh(sup, attacks[i]);
        if (sup_wait(sup, id)->end.value != 4)
            sup_fail("attack %zu: exit code %u, %s", i, sup_of(sup, id)->end.value,
                     sup_out(sup, id));
    }
    sup_expect_serving(sup);
    sup_end(sup);
    if (root)
        remove_copy(original);
}

static struct {
    int fd;
    bool closed; /* else it is a pipe, which says nothing and does not end */
    int pipe[2];
} wrong;

static void spoil_fd(struct sup *sup)
{
    (void)sup;
    if (wrong.closed)
        close(wrong.fd);
    else
        dup2(wrong.pipe[0], wrong.fd);
}

/* A host that ran out of descriptors may start it with the wrong ones. */
static void test_wrong_descriptors_end_it(void **state)
{
    (void)state;
    assert_int_equal(pipe2(wrong.pipe, O_CLOEXEC), 0);
    for (int i = 0; i < 2; i++) /* out of the way of the numbers under test */
        wrong.pipe[i] = cv_fd_move_up(wrong.pipe[i], LEAKED_FD);
    for (int i = 0; i < 4; i++) {
        wrong.fd = 3 + i % 2;
        wrong.closed = i >= 2;
        struct sup *sup = sup_spawn(&(struct sup_options){.prepare = spoil_fd});
        sup_hello(sup, NULL);
        int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
        while (waitpid(sup->guard, &sup->guard_status, WNOHANG) == 0) {
            if (cv_clock_ms() > until)
                sup_fail("it goes on with a wrong descriptor %d", wrong.fd);
            sup_sleep(5);
        }
        sup->guard_reaped = true;
        sup_wait_eof(sup);
        assert_false(sup->ready);
    }
    close(wrong.pipe[0]);
    close(wrong.pipe[1]);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SUP_TEST(test_from_a_good_host),
        SUP_TEST(test_from_a_bad_host),
        SUP_TEST(test_soft_limit_of_descriptors_is_the_hosts),
        SUP_TEST(test_leaked_descriptor_is_closed),
        SUP_TEST(test_no_controlling_terminal),
        SUP_TEST(test_starting_thread_may_end),
        SUP_TEST(test_supervisor_is_closed_to_its_commands),
        SUP_TEST(test_wrong_descriptors_end_it),
    };
    return SUP_MAIN(argc, argv, tests);
}
