#include "support/proc.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <unistd.h>

/* The environment of one process; larger ones are cut, which is fine for a tag in front. */
#define ENVIRON_MAX 65536

/* Reads a file of /proc whole, up to `size` bytes; -1 when it can't be read. */
static ssize_t read_proc(pid_t pid, const char *name, char *to, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    size_t length = 0;
    ssize_t got = 0;
    while (length < size && (got = read(fd, to + length, size - length)) > 0)
        length += (size_t)got;
    close(fd);
    return got < 0 ? -1 : (ssize_t)length;
}

/* Calls `each` with every process id until it returns false. */
static void each_process(bool (*each)(pid_t pid, void *context), void *context)
{
    DIR *dir = opendir("/proc");
    if (dir == NULL)
        abort();
    bool go_on = true;
    for (struct dirent *entry; go_on && (entry = readdir(dir)) != NULL;) {
        if (isdigit((unsigned char)entry->d_name[0]))
            go_on = each((pid_t)atoi(entry->d_name), context);
    }
    closedir(dir);
}

bool proc_stat(pid_t pid, struct proc_stat *stat)
{
    char text[1024];
    ssize_t length = read_proc(pid, "stat", text, sizeof text - 1);
    if (length <= 0)
        return false;
    text[length] = '\0';
    const char *behind_name = strrchr(text, ')');
    int parent, group, session;
    unsigned long long start;
    if (behind_name == NULL ||
        sscanf(behind_name + 1,
               " %c %d %d %d %d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
               &stat->state, &parent, &group, &session, &stat->tty, &start) != 6)
        return false;
    stat->parent = parent;
    stat->group = group;
    stat->session = session;
    stat->start = start;
    return true;
}

bool proc_alive(pid_t pid)
{
    struct proc_stat stat;
    return proc_stat(pid, &stat) && stat.state != 'Z' && stat.state != 'X';
}

struct search {
    const char *tag;
    const char *name; /* NULL: any */
    pid_t parent;
    pid_t *pids;
    int max;
    int found;
};

static void found(struct search *search, pid_t pid)
{
    if (search->found < search->max)
        search->pids[search->found] = pid;
    search->found++;
}

/* While a process is in its execve(2) it has the new name, but no environment yet. */
static bool is_named(pid_t pid, const char *name)
{
    char text[64];
    ssize_t length = read_proc(pid, "comm", text, sizeof text - 1);
    if (length <= 0)
        return false;
    text[length - 1] = '\0'; /* the end of the line */
    return strcmp(text, name) == 0;
}

static bool match_tag(pid_t pid, void *context)
{
    struct search *search = context;
    static char text[ENVIRON_MAX + 1];
    if (search->name != NULL && !is_named(pid, search->name))
        return true;
    ssize_t length = read_proc(pid, "environ", text, ENVIRON_MAX);
    if (length <= 0)
        return true;
    text[length] = '\0';
    for (const char *entry = text; entry < text + length; entry += strlen(entry) + 1) {
        if (strcmp(entry, search->tag) == 0) {
            if (proc_alive(pid))
                found(search, pid);
            break;
        }
    }
    return true;
}

int proc_tagged(const char *tag, pid_t *pids, int max)
{
    struct search search = {.tag = tag, .pids = pids, .max = max};
    each_process(match_tag, &search);
    return search.found;
}

int proc_running(const char *tag, const char *name)
{
    struct search search = {.tag = tag, .name = name};
    each_process(match_tag, &search);
    return search.found;
}

static bool match_parent(pid_t pid, void *context)
{
    struct search *search = context;
    struct proc_stat stat;
    if (proc_stat(pid, &stat) && stat.parent == search->parent)
        found(search, pid);
    return true;
}

int proc_children(pid_t parent, pid_t *pids, int max)
{
    struct search search = {.parent = parent, .pids = pids, .max = max};
    each_process(match_parent, &search);
    return search.found;
}

int proc_zombies(pid_t parent)
{
    pid_t pids[512];
    int count = proc_children(parent, pids, 512);
    int zombies = 0;
    for (int i = 0; i < count && i < 512; i++) {
        struct proc_stat stat;
        if (proc_stat(pids[i], &stat) && stat.state == 'Z')
            zombies++;
    }
    return zombies;
}

long proc_status_kib(pid_t pid, const char *label)
{
    char text[4096];
    ssize_t length = read_proc(pid, "status", text, sizeof text - 1);
    if (length <= 0)
        return -1;
    text[length] = '\0';
    const char *line = strstr(text, label);
    return line == NULL ? -1 : strtol(line + strlen(label), NULL, 10);
}

pid_t proc_hold(const pid_t *pids, int count)
{
    int ends[2];
    char held;
    if (pipe(ends) != 0)
        return -1;
    pid_t tracer = fork();
    if (tracer == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (int i = 0; i < count; i++) {
            if (ptrace(PTRACE_SEIZE, pids[i], NULL, NULL) != 0)
                _exit(1);
        }
        if (write(ends[1], "", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(ends[1]);
    bool holds = tracer > 0 && read(ends[0], &held, 1) == 1;
    close(ends[0]);
    return holds ? tracer : -1;
}
