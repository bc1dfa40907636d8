/*
 * The floor of acquiring and releasing a workspace: the same folders and record, the same
 * `git init`, and all of it deleted again, in C, with nobody who looks after what runs there. The
 * requests are `cycle` (COUNT of them, a latency each) and `cycles` (COUNT of them, BYTES at once,
 * one latency).
 *
 *     floor FOLDER         where to make them
 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "participant.h"

extern char **environ;

static const char *base;

static const char *path_of(int64_t id, const char *suffix)
{
    static char path[4096];

    snprintf(path, sizeof path, "%s/%d-%" PRId64 "%s", base, (int)getpid(), id, suffix);
    return path;
}

static void make_folder(int64_t id, const char *suffix)
{
    if (mkdir(path_of(id, suffix), 0700) != 0)
        bench_die("mkdir: %s", strerror(errno));
}

static void write_record(int64_t id)
{
    static const char text[] =
        "{\"run_id\":\"bench\",\"created_at\":1700000000000,\"expires_at\":1700001800000}";
    int fd = open(path_of(id, ".json"), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

    if (fd < 0 || write(fd, text, sizeof text - 1) < 0 || close(fd) != 0)
        bench_die("writing a record: %s", strerror(errno));
}

static void init_repository(const char *folder)
{
    char *argv[] = {"git", "init", "--quiet", "--template=", NULL};
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int status;

    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    int failed = posix_spawnp(&pid, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failed != 0)
        bench_die("posix_spawnp git: %s", strerror(failed));
    if (waitpid(pid, &status, 0) < 0 || status != 0)
        bench_die("git init failed");
}

static int remove_entry(const char *path, const struct stat *status, int type, struct FTW *place)
{
    (void)status;
    (void)type;
    (void)place;
    return remove(path);
}

static void remove_tree(const char *folder)
{
    if (nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS) != 0)
        bench_die("deleting: %s", strerror(errno));
}

static void make_and_delete(int64_t id)
{
    static const char *const folders[] = {"", ".home", ".tmp"};

    write_record(id);
    for (int i = 0; i < 3; i++)
        make_folder(id, folders[i]);
    init_repository(path_of(id, ""));
    for (int i = 0; i < 3; i++)
        remove_tree(path_of(id, folders[i]));
    if (unlink(path_of(id, ".json")) != 0)
        bench_die("unlink: %s", strerror(errno));
}

static void cycle(struct bench_request *request)
{
    for (long i = 0; i < request->count; i++) {
        int64_t began = bench_now();
        make_and_delete(i);
        request->latencies[i] = bench_now() - began;
    }
    request->timed = request->count;
}

/* A process for each of those at once. */
static void cycles(struct bench_request *request)
{
    int64_t began = bench_now();
    int status;

    for (int64_t worker = 0; worker < request->bytes; worker++) {
        pid_t pid = fork();
        if (pid < 0)
            bench_die("fork: %s", strerror(errno));
        if (pid == 0) {
            for (int64_t i = worker; i < request->count; i += request->bytes)
                make_and_delete(i);
            _exit(0);
        }
    }
    for (int64_t worker = 0; worker < request->bytes; worker++) {
        if (wait(&status) < 0 || status != 0)
            bench_die("a worker failed");
    }
    request->latencies[0] = bench_now() - began;
    request->timed = 1;
}

int main(int argc, char **argv)
{
    static const struct bench_verb verbs[] = {{"cycle", cycle}, {"cycles", cycles}, {NULL, NULL}};

    if (argc != 2)
        bench_die("usage: floor FOLDER");
    base = argv[1];
    bench_serve(verbs);
    return 0;
}
