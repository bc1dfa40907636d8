#include "support/acts.h"

#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* Longer than any test waits for the end of an act. */
#define LIFETIME_MS 120000
/* A chain slows down then: where nobody reaps, its zombies would use up all process ids. */
#define FULL_SPEED_FORKS 12000

static struct heartbeat *map(const char *path, int flags)
{
    int fd = open(path, flags | O_RDWR | O_CLOEXEC, 0666);
    if (fd < 0 || ((flags & O_CREAT) != 0 && ftruncate(fd, sizeof(struct heartbeat)) != 0))
        abort();
    void *mapped = mmap(NULL, sizeof(struct heartbeat), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped == MAP_FAILED)
        abort();
    close(fd);
    return mapped;
}

struct heartbeat *heartbeat_create(const char *path)
{
    struct heartbeat *heartbeat = map(path, O_CREAT | O_EXCL);
    chmod(path, 0666); /* for acts of another user, whatever the umask */
    heartbeat->deadline_ms = cv_clock_ms() + LIFETIME_MS;
    return heartbeat;
}

struct heartbeat *heartbeat_open(const char *path)
{
    return map(path, 0);
}

void heartbeat_destroy(struct heartbeat *heartbeat, const char *path)
{
    atomic_store(&heartbeat->stop, 1);
    munmap(heartbeat, sizeof *heartbeat);
    unlink(path);
}

static void pause_ms(long ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

/* Beats once; ends the process when the test says so. */
static void beat(struct heartbeat *heartbeat)
{
    if (atomic_load(&heartbeat->stop) != 0 || cv_clock_ms() > heartbeat->deadline_ms)
        _exit(0);
    atomic_fetch_add(&heartbeat->count, 1);
}

static void beat_for_ever(struct heartbeat *heartbeat)
{
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_IGN);
    for (;;) {
        beat(heartbeat);
        pause_ms(1);
    }
}

static pid_t fork_counted(struct heartbeat *heartbeat)
{
    pid_t pid = fork();
    if (pid > 0)
        atomic_fetch_add(&heartbeat->forks, 1);
    return pid;
}

/* A process of its own session, whose parent has gone, and that holds none of our streams. */
static void daemonize(struct heartbeat *heartbeat)
{
    pid_t middle = fork_counted(heartbeat);
    if (middle != 0) {
        if (middle > 0)
            waitpid(middle, NULL, 0);
        return;
    }
    setsid();
    for (int fd = 0; fd < 3; fd++)
        close(fd);
    if (fork_counted(heartbeat) != 0)
        _exit(0);
    beat_for_ever(heartbeat);
}

/* A child that beats in the group `group` (0: one of its own) and holds none of our streams. */
static pid_t fork_into(struct heartbeat *heartbeat, pid_t group)
{
    int held[2];
    char byte;
    if (pipe(held) != 0)
        return -1;
    pid_t pid = fork_counted(heartbeat);
    if (pid == 0) {
        for (int fd = 0; fd < 3; fd++)
            close(fd);
        close(held[1]); /* only now does the parent go on */
        beat_for_ever(heartbeat);
    }
    if (pid > 0)
        setpgid(pid, group);
    close(held[1]);
    (void)!read(held[0], &byte, 1);
    close(held[0]);
    return pid;
}

/* Moves to the group of one child and leaves another in its own. */
static void regroup(struct heartbeat *heartbeat)
{
    pid_t other = fork_into(heartbeat, 0);
    if (other < 0 || fork_into(heartbeat, getpgrp()) < 0 || setpgid(0, other) != 0)
        _exit(1);
    (void)!write(STDOUT_FILENO, "moved", 5);
    for (;;) {
        beat(heartbeat);
        pause_ms(1);
    }
}

static void storm(struct heartbeat *heartbeat, const char *how)
{
    bool hop = strcmp(how, "hop") == 0;
    if (strcmp(how, "reap") == 0)
        prctl(PR_SET_CHILD_SUBREAPER, 1ul);
    for (;;) {
        beat(heartbeat);
        daemonize(heartbeat);
        pause_ms(5);
        if (hop && fork_counted(heartbeat) > 0)
            _exit(0);
    }
}

static void chain(struct heartbeat *heartbeat)
{
    for (;;) {
        beat(heartbeat);
        if (fork_counted(heartbeat) > 0)
            _exit(0);
        if (atomic_load(&heartbeat->forks) > FULL_SPEED_FORKS)
            pause_ms(10);
    }
}

static int loud(struct heartbeat *heartbeat, size_t bytes)
{
    char *block = calloc(1, bytes);
    if (block == NULL)
        return 1;
    for (;;) {
        for (size_t done = 0; done < bytes;) {
            ssize_t wrote = write(STDOUT_FILENO, block + done, bytes - done);
            if (wrote < 0)
                return 1;
            done += (size_t)wrote;
        }
        beat(heartbeat);
        pause_ms(10);
    }
}

static int litter(struct heartbeat *heartbeat)
{
    for (unsigned i = 0;; i++) {
        char name[64];
        snprintf(name, sizeof name, "litter-%d-%u", (int)getpid(), i);
        if (mkdir(name, 0700) != 0)
            return 1;
        strcat(name, "/file");
        int fd = open(name, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            return 1;
        close(fd);
        beat(heartbeat);
    }
}

uint8_t act_print_byte(uint64_t offset)
{
    return (uint8_t)((uint32_t)offset * 2654435761u >> 24);
}

uint64_t act_hash(uint64_t hash, const uint8_t *bytes, size_t length)
{
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3u;
    return hash;
}

uint64_t act_print_hash(uint64_t length)
{
    uint64_t hash = ACT_HASH_START;
    for (uint64_t i = 0; i < length; i++) {
        uint8_t byte = act_print_byte(i);
        hash = act_hash(hash, &byte, 1);
    }
    return hash;
}

static int print(uint64_t bytes, int code, int last_fd)
{
    static uint8_t block[65536];
    for (uint64_t done = 0; done < bytes;) {
        size_t part = bytes - done < sizeof block ? (size_t)(bytes - done) : sizeof block;
        for (size_t i = 0; i < part; i++)
            block[i] = act_print_byte(done + i);
        for (int fd = STDOUT_FILENO; fd <= last_fd; fd++) {
            for (size_t at = 0; at < part;) {
                ssize_t wrote = write(fd, block + at, part - at);
                if (wrote < 0)
                    return 99;
                at += (size_t)wrote;
            }
        }
        done += part;
    }
    return code;
}

/* Each write is a packet of its own: pipe(2). */
static int packets(uint64_t bytes, size_t size)
{
    uint8_t packet[4096];
    if (size > sizeof packet || fcntl(STDOUT_FILENO, F_SETFL, O_WRONLY | O_DIRECT) != 0)
        return 99;
    for (uint64_t done = 0; done < bytes; done += size) {
        for (size_t i = 0; i < size; i++)
            packet[i] = act_print_byte(done + i);
        if (write(STDOUT_FILENO, packet, size) != (ssize_t)size)
            return 99;
    }
    return 0;
}

static int orphans(int count)
{
    for (int i = 0; i < count; i++) {
        pid_t middle = fork();
        if (middle == 0) {
            setsid();
            fork();
            _exit(0);
        }
        if (middle > 0)
            waitpid(middle, NULL, 0);
    }
    return 0;
}

int act_main(int argc, char **argv)
{
    if (argc < 2)
        return 98;
    const char *act = argv[0];
    if (strcmp(act, "print") == 0)
        return print(strtoull(argv[1], NULL, 10), argc > 2 ? atoi(argv[2]) : 0,
                     argc > 3 ? STDERR_FILENO : STDOUT_FILENO);
    if (strcmp(act, "packets") == 0 && argc > 2)
        return packets(strtoull(argv[1], NULL, 10), strtoul(argv[2], NULL, 10));
    if (strcmp(act, "orphans") == 0)
        return orphans(atoi(argv[1]));
    struct heartbeat *heartbeat = map(argv[1], 0);
    if (strcmp(act, "beat") == 0)
        beat_for_ever(heartbeat);
    else if (strcmp(act, "daemon") == 0)
        daemonize(heartbeat);
    else if (strcmp(act, "regroup") == 0)
        regroup(heartbeat);
    else if (strcmp(act, "storm") == 0)
        storm(heartbeat, argc > 2 ? argv[2] : "stay");
    else if (strcmp(act, "chain") == 0)
        chain(heartbeat);
    else if (strcmp(act, "loud") == 0)
        return loud(heartbeat, argc > 2 ? strtoul(argv[2], NULL, 10) : 1);
    else if (strcmp(act, "litter") == 0)
        return litter(heartbeat);
    else
        return 98;
    return 0;
}
