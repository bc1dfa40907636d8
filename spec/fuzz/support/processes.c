#include "support/processes.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "require.h"
#include "supervisor/spawn.h"

#define FIRST_PID 100000
#define NO_GROUP 1

static struct process table[PROCESSES_MAX];
static int count;
static int list = -1;
static enum process_start next_start;
static int64_t now_ns;

/* ---- the clock ---------------------------------------------------------------------------- */

void clock_advance(int64_t ms)
{
    now_ns += ms * 1000000;
}

int64_t cv_clock_ns(void)
{
    return now_ns;
}

int64_t cv_clock_ms(void)
{
    return now_ns / 1000000;
}

/* ---- the table ---------------------------------------------------------------------------- */

/* As /proc/self/task/<tid>/children has it: proc(5). */
static void write_list(void)
{
    char text[16 * PROCESSES_MAX];
    int length = 0;
    for (int i = 0; i < count; i++) {
        if (!table[i].reaped && table[i].parent < 0)
            length +=
                snprintf(text + length, sizeof text - (size_t)length, "%ld ", (long)table[i].pid);
    }
    REQUIRE(ftruncate(list, 0) == 0 && pwrite(list, text, (size_t)length, 0) == length);
}

void processes_begin(void)
{
    if (list < 0)
        list = memfd_create("children", MFD_CLOEXEC);
    count = 0;
    next_start = START_GOOD;
    now_ns = INT64_C(1000000000000);
    write_list();
}

void processes_end(void)
{
    for (int i = 0; i < count; i++) {
        for (int pipe = PROCESS_STDIN; pipe <= PROCESS_STDERR; pipe++)
            cv_fd_close(&table[i].pipes[pipe]);
        table[i].alive = table[i].reaped = false;
        table[i].parent = -1;
    }
}

void processes_next_start(enum process_start how)
{
    next_start = how;
}

int processes_list(void)
{
    return list;
}

int processes_count(void)
{
    return count;
}

struct process *process_at(int place)
{
    return &table[place];
}

bool processes_zombie(void)
{
    for (int i = 0; i < count; i++) {
        if (!table[i].alive && !table[i].reaped && table[i].parent < 0)
            return true;
    }
    return false;
}

int processes_alive(void)
{
    int alive = 0;
    for (int i = 0; i < count; i++)
        alive += table[i].alive;
    return alive;
}

void processes_settle(void)
{
    for (int i = 0; i < count; i++) {
        if (table[i].group == NO_GROUP)
            table[i].group = table[i].pid;
    }
}

static struct process *add(int parent, pid_t group)
{
    REQUIRE(count < PROCESSES_MAX);
    struct process *process = &table[count];
    *process = (struct process){.pid = FIRST_PID + count,
                                .group = group == 0 ? FIRST_PID + count : group,
                                .parent = parent,
                                .alive = true,
                                .pipes = {-1, -1, -1},
                                .step = CV_SPAWN_STEP_NONE};
    count++;
    return process;
}

/* ---- what processes do -------------------------------------------------------------------- */

uint8_t process_byte(uint64_t nth)
{
    return (uint8_t)('a' + nth % 23);
}

void process_print(struct process *process, enum process_pipe pipe, size_t length)
{
    uint8_t bytes[PROCESS_PRINT_MAX];
    uint64_t *printed = &process->printed[pipe - PROCESS_STDOUT];
    if (!process->alive || process->pipes[pipe] < 0)
        return;
    if (length > sizeof bytes)
        length = sizeof bytes;
    for (size_t i = 0; i < length; i++)
        bytes[i] = process_byte(*printed + i);
    ssize_t written = write(process->pipes[pipe], bytes, length);
    if (written > 0)
        *printed += (uint64_t)written;
}

void process_take(struct process *process, size_t length, bool check)
{
    uint8_t bytes[PROCESS_PRINT_MAX];
    if (!process->alive || process->pipes[PROCESS_STDIN] < 0)
        return;
    if (length > sizeof bytes)
        length = sizeof bytes;
    ssize_t got = read(process->pipes[PROCESS_STDIN], bytes, length);
    for (ssize_t i = 0; i < got; i++, process->taken++)
        REQUIRE(!check || process->shared || bytes[i] == process_byte(process->taken));
}

void process_close(struct process *process, enum process_pipe pipe)
{
    cv_fd_close(&process->pipes[pipe]);
}

void process_fork(int place, bool own_group)
{
    if (!table[place].alive || count == PROCESSES_MAX)
        return;
    struct process *child = add(place, own_group ? 0 : table[place].group);
    child->shared = table[place].shared = true;
    for (int pipe = PROCESS_STDIN; pipe <= PROCESS_STDERR; pipe++) {
        int fd = table[place].pipes[pipe];
        child->pipes[pipe] = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    }
}

void process_exit(struct process *process, int how, int value)
{
    if (!process->alive)
        return;
    process->alive = false;
    process->how = how;
    process->value = value;
    for (int pipe = PROCESS_STDIN; pipe <= PROCESS_STDERR; pipe++)
        cv_fd_close(&process->pipes[pipe]);
    /* Its children are the subreaper's from now on; itself, if that was its parent, is a zombie. */
    for (int i = 0; i < count; i++) {
        if (table[i].parent == process - table)
            table[i].parent = -1;
    }
    if (process->parent >= 0)
        process->reaped = true;
    write_list();
}

void processes_act(struct input *input, bool check)
{
    uint8_t which = next_byte(input);
    uint8_t how = next_byte(input);
    size_t size = (size_t)next_byte(input) * 80;
    if (count == 0)
        return;
    struct process *process = &table[which % count];
    enum process_pipe pipe = (how & 0x80) != 0 ? PROCESS_STDERR : PROCESS_STDOUT;
    switch (how % 6) {
    case 0:
        process_print(process, pipe, size);
        break;
    case 1:
        process_take(process, size, check);
        break;
    case 2:
        process_close(process, (enum process_pipe)(size % 3));
        break;
    case 3:
        process_fork(which % count, (how & 0x80) != 0);
        break;
    case 4:
        process_exit(process, CLD_EXITED, how >> 3);
        break;
    case 5:
        process_exit(process, CLD_KILLED, 1 + (how >> 3));
        break;
    }
}

/* ---- the calls of the supervisor ---------------------------------------------------------- */

static void signal_process(struct process *process, int signal)
{
    if (signal == SIGKILL || (signal == SIGTERM && !process->ignores_term))
        process_exit(process, CLD_KILLED, signal);
}

/* Only direct children that are not reaped may be meant, or groups that hold one of them. */
int kill(pid_t pid, int signal)
{
    bool found = false;
    bool known = false;
    REQUIRE(pid >= FIRST_PID || -pid >= FIRST_PID);
    for (int i = 0; i < count; i++) {
        struct process *process = &table[i];
        if (process->reaped || (pid > 0 ? process->pid != pid : process->group != -pid))
            continue;
        found = true;
        known = known || process->parent < 0 || pid < 0;
        signal_process(process, signal);
    }
    REQUIRE(known || !found);
    if (found)
        return 0;
    /* The group of a leader that has not made it yet is the only one that may be missing. */
    REQUIRE(pid < 0);
    errno = ESRCH;
    return -1;
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    bool children = false;
    REQUIRE((options & WNOHANG) != 0);
    memset(info, 0, sizeof *info);
    for (int i = 0; i < count; i++) {
        struct process *process = &table[i];
        if (process->parent >= 0 || process->reaped || (type == P_PID && process->pid != (pid_t)id))
            continue;
        children = true;
        if (process->alive)
            continue;
        info->si_pid = process->pid;
        info->si_code = process->how;
        info->si_status = process->value;
        if ((options & WNOWAIT) == 0) {
            process->reaped = true;
            write_list();
        }
        return 0;
    }
    if (children)
        return 0;
    errno = ECHILD;
    return -1;
}

/* For a command that was just killed. */
pid_t waitpid(pid_t pid, int *status, int options)
{
    siginfo_t info;
    REQUIRE(pid > 0 && status == NULL && options == 0);
    REQUIRE(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG) == 0 && info.si_pid == pid);
    return pid;
}

pid_t getpgid(pid_t pid)
{
    for (int i = 0; i < count; i++) {
        if (table[i].pid == pid && !table[i].reaped)
            return table[i].group;
    }
    errno = ESRCH;
    return -1;
}

static int take_end(int fd)
{
    int copy = fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (copy >= 0)
        fcntl(copy, F_SETFL, O_NONBLOCK);
    return copy;
}

pid_t cv_spawn(const struct cv_spawn_request *request, struct cv_spawn **spawn)
{
    if (next_start == START_REFUSED || count == PROCESSES_MAX) {
        errno = EAGAIN;
        return -1;
    }
    struct process *process = add(-1, next_start == START_LATE_GROUP ? NO_GROUP : 0);
    if (request->argv->count > 1)
        process->tag = (unsigned)strtoul(cv_strings_next(request->argv->bytes), NULL, 10);
    process->ignores_term = next_start == START_IGNORES_TERM;
    process->pipes[PROCESS_STDIN] = take_end(request->stdin_fd);
    process->pipes[PROCESS_STDOUT] = take_end(request->stdout_fd);
    process->pipes[PROCESS_STDERR] = take_end(request->stderr_fd);
    *spawn = (struct cv_spawn *)process;
    write_list();
    if (next_start == START_BAD_CWD || next_start == START_BAD_EXEC) {
        process->step = next_start == START_BAD_CWD ? CV_SPAWN_STEP_CWD : CV_SPAWN_STEP_EXEC;
        process->errnum = next_start == START_BAD_CWD ? EACCES : E2BIG;
        process_exit(process, CLD_EXITED, 127);
    }
    return process->pid;
}

enum cv_spawn_step cv_spawn_failure(const struct cv_spawn *spawn, int *errnum)
{
    const struct process *process = (const struct process *)spawn;
    REQUIRE(process->reaped);
    *errnum = process->errnum;
    return (enum cv_spawn_step)process->step;
}

void cv_spawn_release(struct cv_spawn *spawn)
{
    REQUIRE(spawn == NULL || ((struct process *)spawn)->reaped);
}
