/*
 * The bare C loop: the least that running a command and reading its output takes on this system.
 * posix_spawnp with stdin from /dev/null and a pipe each for stdout and stderr, both read to end of
 * file by poll, then waitpid. Speaks the protocol of bench/support/participant.lua and one request
 * more, `pipe COUNT BYTES WORD...`: the command piped into `cat >/dev/null`, BYTES unused.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_WORDS = 64, MAX_COUNT = 100000, BLOCK = 65536 };

extern char **environ;

static int64_t now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Answers the request with an error and ends: nothing after a failure would be comparable. */
static void die(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    printf("error ");
    vprintf(format, args);
    printf("\n");
    va_end(args);
    exit(1);
}

static void make_pipe(int fds[2])
{
    if (pipe2(fds, O_CLOEXEC) < 0)
        die("pipe2: %s", strerror(errno));
}

/* Starts argv; a descriptor of -1 means /dev/null for stdin and stdout, inherited for stderr. */
static pid_t spawn(char **argv, int in, int out, int err)
{
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int rc;

    posix_spawn_file_actions_init(&actions);
    if (in < 0)
        posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    else
        posix_spawn_file_actions_adddup2(&actions, in, 0);
    if (out < 0)
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    else
        posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (err >= 0)
        posix_spawn_file_actions_adddup2(&actions, err, 2);
    rc = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc != 0)
        die("posix_spawnp %s: %s", argv[0], strerror(rc));
    return pid;
}

static void expect_success(pid_t pid, const char *name)
{
    int status;

    if (waitpid(pid, &status, 0) < 0)
        die("waitpid %s: %s", name, strerror(errno));
    if (status != 0)
        die("%s ended with wait status %d", name, status);
}

/* Reads both descriptors to end of file and returns the bytes of the first. */
static int64_t drain(int out, int err)
{
    static char block[BLOCK];
    struct pollfd polled[2] = {{.fd = out, .events = POLLIN}, {.fd = err, .events = POLLIN}};
    int64_t total = 0;
    int open = 2;

    while (open > 0) {
        if (poll(polled, 2, -1) < 0)
            die("poll: %s", strerror(errno));
        for (int i = 0; i < 2; i++) {
            if (polled[i].fd < 0 || polled[i].revents == 0)
                continue;
            ssize_t n = read(polled[i].fd, block, sizeof block);
            if (n < 0)
                die("read: %s", strerror(errno));
            if (n == 0) {
                polled[i].fd = -1;
                open--;
            } else if (i == 0) {
                total += n;
            }
        }
    }
    return total;
}

/* Runs argv once and returns how many of the expected bytes are missing. */
static int64_t run_once(char **argv, int64_t bytes)
{
    int out[2], err[2];
    int64_t got;
    pid_t pid;

    make_pipe(out);
    make_pipe(err);
    pid = spawn(argv, -1, out[1], err[1]);
    close(out[1]);
    close(err[1]);
    got = drain(out[0], err[0]);
    close(out[0]);
    close(err[0]);
    expect_success(pid, argv[0]);
    return bytes - got;
}

/* Runs `argv | cat >/dev/null`. */
static int64_t pipe_once(char **argv, int64_t bytes)
{
    char *cat[] = {"cat", NULL};
    int fds[2];
    pid_t writer, reader;

    (void)bytes;
    make_pipe(fds);
    writer = spawn(argv, -1, fds[1], -1);
    reader = spawn(cat, fds[0], -1, -1);
    close(fds[0]);
    close(fds[1]);
    expect_success(writer, argv[0]);
    expect_success(reader, "cat");
    return 0;
}

static void serve(char *line)
{
    static int64_t latencies[MAX_COUNT];
    int64_t (*once)(char **, int64_t) = run_once;
    char *argv[MAX_WORDS + 1];
    int64_t bytes, missing = 0;
    long count;
    int words = 0;
    char *verb = strtok(line, " \n");
    char *number = strtok(NULL, " \n");
    char *size = strtok(NULL, " \n");

    while (words < MAX_WORDS && (argv[words] = strtok(NULL, " \n")) != NULL)
        words++;
    argv[words] = NULL;
    if (words == 0)
        die("bad request");
    if (strcmp(verb, "pipe") == 0)
        once = pipe_once;
    count = strtol(number, NULL, 10);
    bytes = strtoll(size, NULL, 10);
    if (count < 1 || count > MAX_COUNT)
        die("bad count");
    for (long i = 0; i < count; i++) {
        int64_t start = now_ns();
        missing += once(argv, bytes);
        latencies[i] = now_ns() - start;
    }
    printf("%" PRId64, missing);
    for (long i = 0; i < count; i++)
        printf(" %" PRId64, latencies[i]);
    printf("\n");
    fflush(stdout);
}

int main(void)
{
    static char line[65536];

    while (fgets(line, sizeof line, stdin) != NULL)
        serve(line);
    return 0;
}
