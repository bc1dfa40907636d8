/*
 * The bare C loop: the least that running a command and reading its output takes on this system.
 * posix_spawnp with stdin from /dev/null and a pipe each for stdout and stderr, both read to end of
 * file by poll, then waitpid. Knows one request more, `pipe`: the command piped into
 * `cat >/dev/null`, BYTES unused.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "participant.h"

enum { BLOCK = 65536 };

extern char **environ;

/* A running command and the read ends of its pipes. */
struct command {
    pid_t pid;
    int out;
    int err;
};

static void make_pipe(int fds[2])
{
    if (pipe2(fds, O_CLOEXEC) < 0)
        bench_die("pipe2: %s", strerror(errno));
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
        bench_die("posix_spawnp %s: %s", argv[0], strerror(rc));
    return pid;
}

static void expect_success(pid_t pid, const char *name)
{
    int status;

    if (waitpid(pid, &status, 0) < 0)
        bench_die("waitpid %s: %s", name, strerror(errno));
    if (status != 0)
        bench_die("%s ended with wait status %d", name, status);
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
            bench_die("poll: %s", strerror(errno));
        for (int i = 0; i < 2; i++) {
            if (polled[i].fd < 0 || polled[i].revents == 0)
                continue;
            ssize_t n = read(polled[i].fd, block, sizeof block);
            if (n < 0)
                bench_die("read: %s", strerror(errno));
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

static struct command start(char **argv)
{
    int out[2], err[2];

    make_pipe(out);
    make_pipe(err);
    struct command command = {.pid = spawn(argv, -1, out[1], err[1]), .out = out[0], .err = err[0]};
    close(out[1]);
    close(err[1]);
    return command;
}

/* Waits for its end and returns how much it printed. */
static int64_t finish(const struct command *command, const char *name)
{
    int64_t got = drain(command->out, command->err);

    close(command->out);
    close(command->err);
    expect_success(command->pid, name);
    return got;
}

static void exec(struct bench_request *request)
{
    for (long i = 0; i < request->count; i++) {
        int64_t began = bench_now();
        struct command command = start(request->words);
        request->missing += request->bytes - finish(&command, request->words[0]);
        request->latencies[i] = bench_now() - began;
    }
    request->timed = request->count;
}

/* Read one after the other: the pipes of those that wait hold their output. */
static void together(struct bench_request *request)
{
    struct command *commands = calloc((size_t)request->count, sizeof *commands);
    int64_t began = bench_now();

    if (commands == NULL)
        bench_die("no memory");
    for (long i = 0; i < request->count; i++)
        commands[i] = start(request->words);
    for (long i = 0; i < request->count; i++)
        request->missing += request->bytes - finish(&commands[i], request->words[0]);
    request->latencies[0] = bench_now() - began;
    request->timed = 1;
    free(commands);
}

/* Runs `argv | cat >/dev/null`. */
static void pipe_once(char **argv)
{
    char *cat[] = {"cat", NULL};
    int fds[2];
    pid_t writer, reader;

    make_pipe(fds);
    writer = spawn(argv, -1, fds[1], -1);
    reader = spawn(cat, fds[0], -1, -1);
    close(fds[0]);
    close(fds[1]);
    expect_success(writer, argv[0]);
    expect_success(reader, "cat");
}

static void pipes(struct bench_request *request)
{
    for (long i = 0; i < request->count; i++) {
        int64_t began = bench_now();
        pipe_once(request->words);
        request->latencies[i] = bench_now() - began;
    }
    request->timed = request->count;
}

int main(void)
{
    static const struct bench_verb verbs[] = {
        {"exec", exec}, {"together", together}, {"pipe", pipes}, {NULL, NULL}};

    bench_serve(verbs);
    return 0;
}
