#include "supervisor/spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include "supervisor/rawcall.h"

#define STACK_SIZE 16384
/* Most commands fit; mappings of this size are kept for the next one. */
#define COMMON_SIZE 65536
#define KEPT_MAX 4
#define SHELL "/bin/sh"
/* A file with a NUL in its first bytes is no script: what a shell looks at as well. */
#define SCRIPT_PROBE 256
#define KERNEL_SIGSET_SIZE 8
#define EXIT_NOT_FOUND 127
#define EXIT_NOT_EXECUTABLE 126

struct cv_spawn {
    size_t size;           /* of the whole mapping */
    struct cv_spawn *next; /* among the kept ones */
    const char *name;      /* argv[0] as asked for */
    char **candidates;     /* paths to try, in order, NULL-terminated */
    char **argv;           /* argv[-1] is free, for the shell of a script without a first line */
    char *const *env;
    int stdin_fd;
    int stdout_fd;
    int stderr_fd;
    int cwd;
    const struct rlimit *files;
    /* Written by the child, read by the parent after it has reaped the child. */
    volatile int step;
    volatile int errnum;
};

static struct cv_spawn *kept;
static unsigned kept_count;

/* ---- in the child: its own stack, the parent's memory, no libc ---------------------------- */

static long child_call(long number, long a, long b, long c)
{
    return cv_rawcall(number, a, b, c, 0);
}

static __attribute__((noreturn)) void child_exit(int code)
{
    for (;;)
        child_call(SYS_exit_group, code, 0, 0);
}

static void child_say(const char *text)
{
    size_t length = 0;
    while (text[length] != '\0')
        length++;
    child_call(SYS_write, 2, (long)text, (long)length);
}

static __attribute__((noreturn)) void child_refuse(const struct cv_spawn *spawn, const char *why,
                                                   int code)
{
    child_say(spawn->name);
    child_say(why);
    child_exit(code);
}

static __attribute__((noreturn)) void child_fail(struct cv_spawn *spawn, enum cv_spawn_step step,
                                                 long result)
{
    spawn->errnum = (int)-result;
    spawn->step = step;
    child_exit(EXIT_NOT_FOUND);
}

static bool child_is_script(const char *path)
{
    char probe[SCRIPT_PROBE];
    long fd = child_call(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    long got = child_call(SYS_read, fd, (long)probe, sizeof probe);
    child_call(SYS_close, fd, 0, 0);
    for (long i = 0; i < got; i++) {
        if (probe[i] == '\0')
            return false;
    }
    return got >= 0;
}

/* A text file without a "#!" line: the shell runs it, as execvp(3) and every shell do. */
static long child_exec_script(struct cv_spawn *spawn, char *path)
{
    static char shell[] = SHELL;
    if (!child_is_script(path))
        return -ENOEXEC;
    char *first = spawn->argv[0];
    spawn->argv[-1] = shell;
    spawn->argv[0] = path;
    long result = child_call(SYS_execve, (long)shell, (long)(spawn->argv - 1), (long)spawn->env);
    spawn->argv[0] = first;
    return result;
}

static __attribute__((noreturn)) void child_exec(struct cv_spawn *spawn)
{
    bool denied = false;
    bool searched = spawn->candidates[0] == NULL || spawn->candidates[0] != spawn->argv[0];
    for (char **path = spawn->candidates; *path != NULL; path++) {
        long result = child_call(SYS_execve, (long)*path, (long)spawn->argv, (long)spawn->env);
        if (result == -ENOEXEC)
            result = child_exec_script(spawn, *path);
        switch (-result) {
        case ENOENT:
            break;
        case ENOTDIR:
            if (!searched)
                child_refuse(spawn, ": not a directory in its path\n", EXIT_NOT_EXECUTABLE);
            break;
        case EACCES:
            denied = true;
            break;
        case ENOEXEC:
            child_refuse(spawn, ": not a program for this machine\n", EXIT_NOT_EXECUTABLE);
        case ELOOP:
            child_refuse(spawn, ": too many links\n", EXIT_NOT_EXECUTABLE);
        case ETXTBSY:
            child_refuse(spawn, ": open for writing\n", EXIT_NOT_EXECUTABLE);
        case E2BIG:
        case EAGAIN:
        case ENOMEM:
        case EMFILE:
        case ENFILE:
            child_fail(spawn, CV_SPAWN_STEP_EXEC, result);
        default:
            child_refuse(spawn, ": can't be executed\n", EXIT_NOT_EXECUTABLE);
        }
    }
    if (denied)
        child_refuse(spawn, ": permission denied\n", EXIT_NOT_EXECUTABLE);
    child_refuse(spawn, ": not found\n", EXIT_NOT_FOUND);
}

/*
 * Dispositions are all default and descriptors all close-on-exec already (reset.c), umask and timer
 * slack are the supervisor's own; what is left is what the command must not share with it.
 */
static int child_main(void *argument)
{
    struct cv_spawn *spawn = argument;
    child_call(SYS_setpgid, 0, 0, 0);
    if (spawn->stdin_fd >= 0)
        child_call(SYS_dup3, spawn->stdin_fd, 0, 0);
    child_call(SYS_dup3, spawn->stdout_fd, 1, 0);
    child_call(SYS_dup3, spawn->stderr_fd, 2, 0);
    long result = child_call(SYS_fchdir, spawn->cwd, 0, 0);
    if (result < 0)
        child_fail(spawn, CV_SPAWN_STEP_CWD, result);
    cv_rawcall(SYS_prlimit64, 0, RLIMIT_NOFILE, (long)spawn->files, 0);
    static const uint64_t none = 0;
    cv_rawcall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&none, 0, KERNEL_SIGSET_SIZE);
    child_exec(spawn);
}

/* ---- in the parent -------------------------------------------------------------------------- */

/* Rounded up to whole pointers, so that what follows is aligned. */
static size_t aligned(size_t size)
{
    return (size + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
}

static bool has_slash(const char *name)
{
    return strchr(name, '/') != NULL;
}

static size_t count_entries(const char *path)
{
    size_t count = 1;
    for (; *path != '\0'; path++)
        count += *path == ':';
    return count;
}

static struct cv_spawn *take_mapping(size_t size)
{
    if (size <= COMMON_SIZE && kept != NULL) {
        struct cv_spawn *spawn = kept;
        kept = spawn->next;
        kept_count--;
        return spawn;
    }
    if (size < COMMON_SIZE)
        size = COMMON_SIZE;
#ifdef CV_RAWCALL_NATIVE
    const int sharing = MAP_PRIVATE;
#else
    const int sharing = MAP_SHARED;
#endif
    struct cv_spawn *spawn =
        mmap(NULL, size, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0);
    if (spawn == MAP_FAILED)
        return NULL;
    spawn->size = size;
    return spawn;
}

/* Writes every "<entry of path>/<name>" and points to each; an empty entry is the cwd. */
static void fill_candidates(struct cv_spawn *spawn, const char *path, char *strings)
{
    size_t name_size = strlen(spawn->name) + 1;
    size_t count = 0;
    while (path != NULL) {
        size_t length = strcspn(path, ":");
        spawn->candidates[count++] = strings;
        if (length == 0) {
            *strings++ = '.';
        } else {
            memcpy(strings, path, length);
            strings += length;
        }
        *strings++ = '/';
        memcpy(strings, spawn->name, name_size);
        strings += name_size;
        path = path[length] == ':' ? path + length + 1 : NULL;
    }
    spawn->candidates[count] = NULL;
}

/* One mapping: the structure, both pointer lists, argv's strings, the candidates, the stack. */
static struct cv_spawn *prepare(const struct cv_spawn_request *request)
{
    const struct cv_strings *argv = request->argv;
    const char *path = has_slash(argv->bytes) ? NULL : request->path;
    size_t entries = path == NULL ? 1 : count_entries(path);
    size_t candidates_size = (entries + 1) * sizeof(char *);
    size_t argv_size = (argv->count + 2) * sizeof(char *);
    size_t paths_size =
        path == NULL ? 0 : strlen(path) + entries * (strlen(argv->bytes) + sizeof "./");
    size_t head = aligned(sizeof(struct cv_spawn)) + candidates_size + argv_size;
    size_t size = aligned(head + argv->length + paths_size) + STACK_SIZE;
    struct cv_spawn *spawn = take_mapping((size + 4095) / 4096 * 4096);
    if (spawn == NULL)
        return NULL;
    char *base = (char *)spawn;
    spawn->candidates = (char **)(base + aligned(sizeof *spawn));
    spawn->argv = (char **)((char *)spawn->candidates + candidates_size) + 1;
    char *strings = base + head;
    memcpy(strings, argv->bytes, argv->length);
    for (uint32_t i = 0; i < argv->count; i++) {
        spawn->argv[i] = strings;
        strings += strlen(strings) + 1;
    }
    spawn->argv[argv->count] = NULL;
    spawn->name = spawn->argv[0];
    spawn->step = CV_SPAWN_STEP_NONE;
    spawn->errnum = 0;
    if (has_slash(spawn->name)) {
        spawn->candidates[0] = spawn->argv[0];
        spawn->candidates[1] = NULL;
    } else {
        fill_candidates(spawn, path, strings);
    }
    return spawn;
}

static pid_t start_child(struct cv_spawn *spawn)
{
#ifdef CV_RAWCALL_NATIVE
    return clone(child_main, (char *)spawn + spawn->size, CLONE_VM | SIGCHLD, spawn);
#else
    pid_t pid = fork();
    if (pid == 0)
        child_main(spawn);
    return pid;
#endif
}

pid_t cv_spawn(const struct cv_spawn_request *request, struct cv_spawn **spawn)
{
    struct cv_spawn *prepared = prepare(request);
    if (prepared == NULL)
        return -1;
    prepared->env = request->env;
    prepared->stdin_fd = request->stdin_fd;
    prepared->stdout_fd = request->stdout_fd;
    prepared->stderr_fd = request->stderr_fd;
    prepared->cwd = request->cwd;
    prepared->files = request->files;
    pid_t pid = start_child(prepared);
    if (pid < 0) {
        int saved = errno;
        cv_spawn_release(prepared);
        errno = saved;
        return -1;
    }
    *spawn = prepared;
    return pid;
}

enum cv_spawn_step cv_spawn_failure(const struct cv_spawn *spawn, int *errnum)
{
    *errnum = spawn->errnum;
    return (enum cv_spawn_step)spawn->step;
}

void cv_spawn_release(struct cv_spawn *spawn)
{
    if (spawn == NULL)
        return;
    if (spawn->size == COMMON_SIZE && kept_count < KEPT_MAX) {
        spawn->next = kept;
        kept = spawn;
        kept_count++;
        return;
    }
    munmap(spawn, spawn->size);
}
