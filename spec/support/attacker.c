/*
 * What commands of the specs do to other processes of their user, where a shell could not:
 *
 *   attacker reach PID        tries every way to look or write into the process; prints a line for
 *                             each that is not refused
 *   attacker starve PID WHAT  takes something from it: a limit (nofile, as, data, nproc, cpu,
 *                             fsize), or its turns (turns)
 *   attacker trace PID        holds it by ptrace(2), and stays
 *   attacker trace_all PID    the same for every process that PID starts
 *   attacker write PID FD TEXT  writes the text to a copy of its descriptor
 *   attacker stop PID...      stops the processes again and again, and stays
 *
 * Exit code 0: done, 1: could not be done, 2: wrong arguments. What stays ends after two minutes in
 * any case.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FDS_MAX 16 /* more than guard and supervisor have while nothing runs */
#define STAY_SECONDS 120

/* The same numbers on every architecture since Linux 5.3 and 5.6. */
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif

/* ---- reach -------------------------------------------------------------------------------- */

/* Takes the result of a system call: a kernel without it refuses as well. */
static void tell(const char *what, long result)
{
    if (result >= 0)
        printf("%s: done\n", what);
    else if (errno != EPERM && errno != EACCES && errno != ENOSYS)
        printf("%s: %s\n", what, strerror(errno));
}

/* Some files refuse to be opened, some only to be used. */
static void reach_file(const char *path, bool writing)
{
    char byte = '0';
    int fd = open(path, (writing ? O_WRONLY : O_RDONLY) | O_CLOEXEC);
    long result = fd < 0 ? -1 : writing ? write(fd, &byte, 1) : read(fd, &byte, 1);
    if (fd >= 0 || errno != ENOENT) /* an older kernel has not all of them */
        tell(path, result);
}

static void reach_files(pid_t pid)
{
    static const char *const readable[] = {
        "mem",     "environ", "auxv", "maps",    "smaps", "pagemap", "fd", "map_files",
        "cwd/etc", "root",    "exe",  "syscall", "stack", "ns/mnt",  "io", "personality",
    };
    static const char *const writable[] = {
        "mem",       "clear_refs",   "oom_score_adj", "oom_adj",         "timerslack_ns",
        "autogroup", "comm",         "sched",         "coredump_filter", "setgroups",
        "uid_map",   "attr/current", "make-it-fail",
    };
    char path[64];
    for (size_t i = 0; i < sizeof readable / sizeof *readable; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, readable[i]);
        reach_file(path, false);
    }
    for (size_t i = 0; i < sizeof writable / sizeof *writable; i++) {
        snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, writable[i]);
        reach_file(path, true);
    }
    for (int fd = 0; fd < FDS_MAX; fd++) {
        snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        tell(path, open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC));
        tell(path, open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC));
        tell(path, readlink(path, (char[8]){0}, 8));
    }
}

static void reach_memory(pid_t pid)
{
    static char own[64];
    const struct iovec local = {own, sizeof own};
    const struct iovec remote = {(void *)own, sizeof own};
    tell("process_vm_readv", process_vm_readv(pid, &local, 1, &remote, 1, 0));
    tell("process_vm_writev", process_vm_writev(pid, &local, 1, &remote, 1, 0));
    tell("move_pages", syscall(SYS_move_pages, pid, 0UL, NULL, NULL, NULL, 0));
    void *head;
    size_t length;
    tell("get_robust_list", syscall(SYS_get_robust_list, pid, &head, &length));
}

static void reach_descriptors(pid_t pid)
{
    char what[32];
    for (int type = 0; type <= 6; type++) {
        snprintf(what, sizeof what, "kcmp %d", type);
        tell(what, syscall(SYS_kcmp, getpid(), pid, type, 0UL, 4UL));
    }
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        if (errno != ENOSYS)
            tell("pidfd_open", pidfd);
        return;
    }
    for (int fd = 0; fd < FDS_MAX; fd++) {
        snprintf(what, sizeof what, "pidfd_getfd %d", fd);
        tell(what, syscall(SYS_pidfd_getfd, pidfd, fd, 0));
    }
    const struct iovec all = {NULL, 4096};
    tell("process_madvise", syscall(SYS_process_madvise, pidfd, &all, 1UL, 20 /* MADV_COLD */, 0));
}

static void reach_trace(pid_t pid)
{
    tell("PTRACE_SEIZE", ptrace(PTRACE_SEIZE, pid, NULL, NULL));
    tell("PTRACE_ATTACH", ptrace(PTRACE_ATTACH, pid, NULL, NULL));
    struct perf_event_attr attributes = {
        .type = PERF_TYPE_SOFTWARE, .size = sizeof attributes, .config = PERF_COUNT_SW_CPU_CLOCK};
    int event = (int)syscall(SYS_perf_event_open, &attributes, pid, -1, -1, 0UL);
    if (event >= 0 || errno != ENOENT) /* a machine without a clock for it */
        tell("perf_event_open", event);
}

static int reach(pid_t pid)
{
    if (kill(pid, 0) != 0)
        return 1; /* nothing there: all would be refused */
    reach_files(pid);
    reach_memory(pid);
    reach_descriptors(pid);
    reach_trace(pid);
    return 0;
}

/* ---- the others --------------------------------------------------------------------------- */

static int take_turns(pid_t pid)
{
    cpu_set_t first;
    CPU_ZERO(&first);
    CPU_SET(0, &first);
    const struct sched_param none = {0};
    return setpriority(PRIO_PROCESS, (id_t)pid, 19) == 0 &&
                   sched_setaffinity(pid, sizeof first, &first) == 0 &&
                   sched_setscheduler(pid, SCHED_IDLE, &none) == 0
               ? 0
               : 1;
}

static int starve(pid_t pid, const char *what)
{
    static const struct {
        const char *name;
        enum __rlimit_resource resource;
        rlim_t left;
    } limits[] = {{"nofile", RLIMIT_NOFILE, 3}, {"as", RLIMIT_AS, 0},   {"data", RLIMIT_DATA, 0},
                  {"nproc", RLIMIT_NPROC, 0},   {"cpu", RLIMIT_CPU, 0}, {"fsize", RLIMIT_FSIZE, 0},
                  {"stack", RLIMIT_STACK, 0}};
    if (strcmp(what, "turns") == 0)
        return take_turns(pid);
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        const struct rlimit limit = {limits[i].left, limits[i].left};
        if (strcmp(what, limits[i].name) == 0)
            return prlimit(pid, limits[i].resource, &limit, NULL) == 0 ? 0 : 1;
    }
    return 2;
}

static void stay(void)
{
    for (;;)
        pause();
}

static bool hold(pid_t pid)
{
    return ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0 &&
           ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) == 0;
}

static int trace(pid_t pid)
{
    if (!hold(pid)) {
        perror("ptrace");
        return 1;
    }
    puts("held");
    fflush(stdout);
    stay();
    return 0;
}

/* Never looks at a child twice, nor at itself. */
static int trace_all(pid_t parent)
{
    static bool seen[4 * 1024 * 1024]; /* PID_MAX_LIMIT of Linux */
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", (int)parent, (int)parent);
    seen[getpid()] = true;
    for (;;) {
        FILE *file = fopen(path, "re");
        if (file == NULL)
            return 1;
        for (int pid; fscanf(file, "%d", &pid) == 1;) {
            if (!seen[pid] && ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0) {
                seen[pid] = true;
                puts("held");
                fflush(stdout);
            }
        }
        fclose(file);
    }
}

static int write_to(pid_t pid, int fd, const char *text)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int copy = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
    if (copy < 0 || write(copy, text, strlen(text)) != (ssize_t)strlen(text)) {
        perror("writing");
        return 1;
    }
    return 0;
}

static void stop(int count, char **pids)
{
    for (;;) {
        for (int i = 0; i < count; i++)
            kill((pid_t)atoi(pids[i]), SIGSTOP);
        usleep(1000);
    }
}

int main(int argc, char **argv)
{
    alarm(STAY_SECONDS);
    const char *what = argc > 2 ? argv[1] : "";
    pid_t pid = argc > 2 ? (pid_t)atoi(argv[2]) : 0;
    if (pid <= 0)
        return 2;
    if (strcmp(what, "reach") == 0)
        return reach(pid);
    if (strcmp(what, "starve") == 0 && argc == 4)
        return starve(pid, argv[3]);
    if (strcmp(what, "trace") == 0)
        return trace(pid);
    if (strcmp(what, "trace_all") == 0)
        return trace_all(pid);
    if (strcmp(what, "write") == 0 && argc == 5)
        return write_to(pid, atoi(argv[3]), argv[4]);
    if (strcmp(what, "stop") == 0)
        stop(argc - 2, argv + 2);
    return 2;
}
