#include "supervisor/children.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/linux.h"

#define LIST_CHUNK 4096
#define RECHECK_NS 2000000
/* What one pass counts as at most: one that took longer was stopped meanwhile, or had no turn. */
#define PASS_MAX_MS 10

typedef void child_visitor(pid_t child, void *context);

static pid_t parent_of(int proc, const char *pid);

bool cv_children_open(struct cv_children *children)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%ld/children", (long)syscall(SYS_gettid));
    children->list = open(path, O_RDONLY | O_CLOEXEC);
    if (children->list >= 0)
        return true;
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    bool usable = proc >= 0 && parent_of(proc, "self") == getppid();
    cv_fd_close(&proc);
    return usable;
}

/* The list is decimal ids, each followed by a space: proc(5). A number may span two reads. */
static unsigned visit_list(int list, child_visitor *visit, void *context)
{
    char chunk[LIST_CHUNK];
    off_t at = 0;
    long pid = 0;
    unsigned count = 0;
    ssize_t got;
    while ((got = pread(list, chunk, sizeof chunk, at)) > 0) {
        at += got;
        for (ssize_t i = 0; i < got; i++) {
            if (chunk[i] >= '0' && chunk[i] <= '9') {
                pid = pid * 10 + (chunk[i] - '0');
            } else if (pid > 0) {
                visit((pid_t)pid, context);
                count++;
                pid = 0;
            }
        }
    }
    return count;
}

/* What proc(5) says of a process in its file of that path; false where there is none. */
static bool read_stat(int folder, const char *path, char *state, pid_t *parent)
{
    char line[512];
    int fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, line, sizeof line - 1);
    close(fd);
    if (got <= 0)
        return false;
    line[got] = '\0';
    /* "pid (name) state ppid": the name may hold anything, so the last parenthesis counts. */
    const char *name_end = strrchr(line, ')');
    return name_end != NULL && sscanf(name_end + 1, " %c %d", state, parent) == 2;
}

static pid_t parent_of(int proc, const char *pid)
{
    char path[NAME_MAX + sizeof "/stat"];
    char state;
    pid_t parent;
    snprintf(path, sizeof path, "%s/stat", pid);
    return read_stat(proc, path, &state, &parent) ? parent : -1;
}

bool cv_process_blocked(pid_t pid)
{
    char path[64];
    char state;
    pid_t parent;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    return !read_stat(AT_FDCWD, path, &state, &parent) || state == 'D';
}

/* The same from /proc/<pid>/stat, for kernels built without CONFIG_PROC_CHILDREN. */
static unsigned visit_proc(child_visitor *visit, void *context)
{
    DIR *proc = opendir("/proc");
    if (proc == NULL)
        return 0;
    unsigned count = 0;
    const struct dirent *entry;
    while ((entry = readdir(proc)) != NULL) {
        if (entry->d_name[0] < '1' || entry->d_name[0] > '9')
            continue;
        if (parent_of(dirfd(proc), entry->d_name) != getpid())
            continue;
        visit((pid_t)atol(entry->d_name), context);
        count++;
    }
    closedir(proc);
    return count;
}

static unsigned visit_children(struct cv_children *children, child_visitor *visit, void *context)
{
    if (children->list >= 0)
        return visit_list(children->list, visit, context);
    return visit_proc(visit, context);
}

static void kill_child(pid_t child, void *context)
{
    (void)context;
    kill(child, SIGKILL);
}

static void count_child(pid_t child, void *context)
{
    (void)child;
    (void)context;
}

/* Reaps what has ended; true when no child is left at all. */
static bool reap_ended(void)
{
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | __WALL) != 0 && errno != EINTR)
            return errno ==
                   ECHILD; /* anything else says nothing: the caller's time limit decides */
        if (info.si_pid == 0)
            return false;
    }
}

unsigned cv_children_kill_all(struct cv_children *children, int limit_ms, cv_beat *beat)
{
    int64_t before = cv_clock_ms();
    int64_t spent = 0;
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    for (;;) {
        atomic_fetch_add(beat, 1);
        visit_children(children, kill_child, NULL);
        if (reap_ended())
            return 0;
        /* The time that commands take from it by stopping it must not save them. */
        int64_t now = cv_clock_ms();
        spent += now - before < PASS_MAX_MS ? now - before : PASS_MAX_MS;
        before = now;
        if (spent >= limit_ms) {
            unsigned left = visit_children(children, count_child, NULL);
            return left > 0 ? left : 1;
        }
        const struct timespec recheck = {.tv_nsec = RECHECK_NS};
        sigtimedwait(&child_signal, NULL, &recheck);
    }
}

struct group_search {
    pid_t group;
    bool found;
};

static void find_member(pid_t child, void *context)
{
    struct group_search *search = context;
    if (!search->found && getpgid(child) == search->group)
        search->found = true;
}

void cv_children_kill_group(struct cv_children *children, pid_t group)
{
    struct group_search search = {.group = group};
    visit_children(children, find_member, &search);
    if (search.found)
        kill(-group, SIGKILL);
}
