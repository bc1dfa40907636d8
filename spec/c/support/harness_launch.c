#include "support/harness.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/linux.h"

#define LIVE_MAX 8
#define FIRST_FREE_FD 10

extern char **environ;

static struct sup *live[LIVE_MAX];
static pid_t hosts[LIVE_MAX];
static bool in_forked_host;

/* What a forked host tells the test. */
struct report {
    atomic_int ready;
    struct sup sup;
};
static struct report *report;

const char *sup_self(void)
{
    static char path[PATH_MAX];
    if (path[0] == '\0' && readlink("/proc/self/exe", path, sizeof path - 1) < 0)
        abort();
    return path;
}

void sup_fail(const char *format, ...)
{
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (in_forked_host) {
        fprintf(stderr, "forked host: %s\n", text);
        _exit(99);
    }
    fail_msg("%s", text);
    abort();
}

/* Starting */

static void remember(struct sup *sup)
{
    for (int i = 0; i < LIVE_MAX; i++) {
        if (live[i] == NULL) {
            live[i] = sup;
            return;
        }
    }
    sup_fail("more than %d supervisors in one test", LIVE_MAX);
}

static struct sup *make_sup(const struct sup_options *options)
{
    static unsigned count;
    struct sup *sup = calloc(1, sizeof *sup);
    assert_non_null(sup);
    sup->runs = calloc(SUP_RUNS_MAX, sizeof *sup->runs);
    assert_non_null(sup->runs);
    remember(sup);
    count++;
    snprintf(sup->tag, sizeof sup->tag, "CV_SPEC_TAG=%d.%u", (int)getpid(), count);
    strcpy(sup->temp, "/tmp/chamvi-spec-XXXXXX");
    if (mkdtemp(sup->temp) == NULL || chmod(sup->temp, 0755) != 0)
        sup_fail("no temporary folder: %s", strerror(errno));
    snprintf(sup->heartbeat_path, sizeof sup->heartbeat_path, "%s/heartbeat", sup->temp);
    sup->heartbeat = heartbeat_create(sup->heartbeat_path);
    snprintf(sup->base, sizeof sup->base, "%s/base", sup->temp);
    if (options->base != NULL)
        snprintf(sup->base, sizeof sup->base, "%s", options->base);
    else
        assert_int_equal(mkdir(sup->base, 0755), 0);
    cv_frame_reader_init(&sup->reader, 's');
    cv_buf_init(&sup->unsent, SIZE_MAX / 4);
    return sup;
}

/* The environment of the program itself, which no command may see. */
static char **program_environment(struct sup *sup)
{
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    char **list = calloc(count + 3, sizeof *list);
    assert_non_null(list);
    memcpy(list, environ, count * sizeof *list);
    list[count] = sup->tag;
    list[count + 1] = (char *)"CV_SPEC_LEAK=1";
    return list;
}

static pid_t start_program(struct sup *sup, const struct sup_options *options, int pidfd, int end)
{
    const char *program = getenv("CHAMVI_SUPERVISOR");
    if (program == NULL)
        sup_fail("CHAMVI_SUPERVISOR is not set");
    char *argv[] = {(char *)program, options->no_pidfd ? (char *)"no-pidfd" : NULL, NULL};
    char **environment = program_environment(sup);
    pid_t pid;
    if (options->prepare != NULL) {
        /* By descriptor: after `prepare` it may be a user to whom the checkout is closed. */
        int opened = cv_fd_move_up(open(program, O_PATH | O_CLOEXEC), 10);
        pid = fork();
        if (pid == 0) {
            if (dup2(pidfd, 3) < 0 || dup2(end, 4) < 0)
                _exit(97);
            options->prepare(sup);
            syscall(SYS_execveat, opened, "", argv, environment, AT_EMPTY_PATH);
            _exit(97);
        }
        close(opened);
    } else {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, pidfd, 3);
        posix_spawn_file_actions_adddup2(&actions, end, 4);
        errno = posix_spawn(&pid, program, &actions, NULL, argv, environment);
        if (errno != 0)
            pid = -1;
        posix_spawn_file_actions_destroy(&actions);
    }
    free(environment);
    if (pid < 0)
        sup_fail("can't start %s: %s", program, strerror(errno));
    return pid;
}

struct sup *sup_spawn(const struct sup_options *options)
{
    static const struct sup_options defaults;
    if (options == NULL)
        options = &defaults;
    struct sup *sup = make_sup(options);
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        sup_fail("socketpair: %s", strerror(errno));
    sup->fd = cv_fd_move_up(ends[0], FIRST_FREE_FD);
    int end = cv_fd_move_up(ends[1], FIRST_FREE_FD);
    int pidfd = cv_pidfd_open(getpid());
    if (pidfd < 0) /* then the program must have been told so */
        pidfd = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pidfd = cv_fd_move_up(pidfd, FIRST_FREE_FD);
    if (sup->fd < 0 || end < 0 || pidfd < 0 || fcntl(sup->fd, F_SETFL, O_NONBLOCK) != 0)
        sup_fail("descriptors: %s", strerror(errno));
    sup->hold_credit = options->hold_credit;
    sup->spawn_ms = cv_clock_ms();
    sup->guard = start_program(sup, options, pidfd, end);
    close(end);
    close(pidfd);
    return sup;
}

void sup_wait_ready(struct sup *sup)
{
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; !sup->ready;) {
        sup_pump(sup, until - cv_clock_ms());
        if (sup->failed)
            sup_fail("hello was refused: failure %u, errno %u", sup->failure, sup->errnum);
        if (sup->eof || cv_clock_ms() > until)
            sup_fail("no answer to hello (%s)", sup->eof ? "end of file" : "too late");
    }
    struct proc_stat stat;
    if (proc_children(sup->guard, &sup->supervisor, 1) != 1 || !proc_stat(sup->supervisor, &stat))
        sup_fail("the guard has not one child");
    sup->supervisor_start = stat.start;
    if (!proc_stat(sup->guard, &stat))
        sup_fail("the guard has gone");
    sup->guard_start = stat.start;
}

struct sup *sup_start(const struct sup_options *options)
{
    struct sup *sup = sup_spawn(options);
    sup_hello(sup, options);
    sup_wait_ready(sup);
    return sup;
}

/* Forked hosts */

/* What a forked host made, as far as it can be used from outside. */
static struct sup *adopt(const struct sup *made)
{
    struct sup *sup = calloc(1, sizeof *sup);
    assert_non_null(sup);
    sup->guard = made->guard;
    sup->guard_start = made->guard_start;
    sup->guard_reaped = true; /* somebody else's child */
    sup->supervisor = made->supervisor;
    sup->supervisor_start = made->supervisor_start;
    sup->fd = -1;
    sup->eof = true;
    memcpy(sup->tag, made->tag, sizeof sup->tag);
    memcpy(sup->temp, made->temp, sizeof sup->temp);
    memcpy(sup->base, made->base, sizeof sup->base);
    memcpy(sup->heartbeat_path, made->heartbeat_path, sizeof sup->heartbeat_path);
    sup->heartbeat = heartbeat_open(sup->heartbeat_path);
    sup->heartbeat_used = made->heartbeat_used;
    remember(sup);
    return sup;
}

static void forget_host(pid_t pid)
{
    for (int i = 0; i < LIVE_MAX; i++) {
        if (hosts[i] == pid)
            hosts[i] = 0;
    }
}

pid_t sup_fork_host(void (*body)(void), struct sup **sup)
{
    if (report == NULL) {
        report =
            mmap(NULL, sizeof *report, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (report == MAP_FAILED)
            abort();
    }
    atomic_store(&report->ready, 0);
    pid_t pid = fork();
    if (pid == 0) {
        in_forked_host = true;
        body();
        _exit(98);
    }
    assert_true(pid > 0);
    for (int i = 0; i < LIVE_MAX; i++) {
        if (hosts[i] == 0) {
            hosts[i] = pid;
            break;
        }
    }
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; atomic_load(&report->ready) == 0;) {
        int status;
        if (waitpid(pid, &status, WNOHANG) == pid) {
            forget_host(pid);
            sup_fail("the forked host ended with 0x%x", (unsigned)status);
        }
        if (cv_clock_ms() > until)
            sup_fail("the forked host is late");
        sup_sleep(1);
    }
    *sup = adopt(&report->sup);
    return pid;
}

void sup_host_ready(struct sup *sup)
{
    report->sup = *sup;
    atomic_store(&report->ready, 1);
    for (;;)
        pause();
}

void sup_kill_host(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    forget_host(pid);
}

/* Setup and teardown */

static int remove_entry(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
    (void)stat;
    (void)type;
    (void)walk;
    return remove(path) != 0 && errno != ENOENT ? -1 : 0;
}

static void kill_left(struct sup *sup)
{
    struct proc_stat stat;
    if (sup->guard > 0 &&
        !sup->guard_reaped) { /* our own child: its number can't have been given away */
        kill(sup->guard, SIGKILL);
        waitpid(sup->guard, NULL, 0);
    }
    if (sup->supervisor > 0 && proc_stat(sup->supervisor, &stat) &&
        stat.start == sup->supervisor_start)
        kill(sup->supervisor, SIGKILL);
    static pid_t pids[4096];
    for (int round = 0; round < 100; round++) {
        int count = proc_tagged(sup->tag, pids, 4096);
        if (count == 0)
            break;
        for (int i = 0; i < count && i < 4096; i++)
            kill(pids[i], SIGKILL);
        sup_sleep(5);
    }
}

static void free_sup(struct sup *sup)
{
    cv_fd_close(&sup->fd);
    heartbeat_destroy(sup->heartbeat, sup->heartbeat_path);
    kill_left(sup);
    nftw(sup->temp, remove_entry, 32, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
    for (uint32_t id = 0; sup->runs != NULL && id < SUP_RUNS_MAX; id++) {
        cv_buf_free(&sup->runs[id].out.kept);
        cv_buf_free(&sup->runs[id].err.kept);
    }
    cv_frame_reader_free(&sup->reader);
    cv_buf_free(&sup->unsent);
    free(sup->runs);
    free(sup);
}

int sup_setup(void **state)
{
    (void)state;
    return 0;
}

int sup_teardown(void **state)
{
    (void)state;
    for (int i = 0; i < LIVE_MAX; i++) {
        if (hosts[i] != 0)
            sup_kill_host(hosts[i]);
    }
    for (int i = 0; i < LIVE_MAX; i++) {
        if (live[i] != NULL)
            free_sup(live[i]);
        live[i] = NULL;
    }
    return 0;
}

/* Files */

const char *sup_path(const char *folder, const char *name)
{
    static char paths[8][PATH_MAX];
    static unsigned next;
    char *path = paths[next++ % 8];
    snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return path;
}

void sup_write_file(const char *folder, const char *name, const char *content, size_t length,
                    mode_t mode)
{
    const char *path = sup_path(folder, name);
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, content, length) != (ssize_t)length || fchmod(fd, mode) != 0)
        sup_fail("can't write %s: %s", path, strerror(errno));
    close(fd);
}
