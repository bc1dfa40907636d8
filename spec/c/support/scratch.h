/* Folders and files for the tests of src/fs. Every function fails the running test on an error. */
#ifndef CV_SPEC_SCRATCH_H
#define CV_SPEC_SCRATCH_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include <linux/filter.h>
#include <linux/seccomp.h>

#include "base/linux.h"
#include "fs/remove.h"

/*
 * A fresh folder, world-accessible so that a test may become another user; its absolute path.
 * `in_memory` asks for a file system that is quick with very many entries.
 */
static inline void scratch_make(char path[PATH_MAX], bool in_memory)
{
    const char *temp = getenv("TMPDIR");
    if (temp == NULL)
        temp = in_memory && access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, PATH_MAX, "%s/chamvi-fs-XXXXXX", temp);
    if (mkdtemp(path) == NULL || chmod(path, 0777) != 0)
        fail_msg("%s: %s", path, strerror(errno));
}

static inline int scratch_open(const char *path)
{
    int fd = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s: %s", path, strerror(errno));
    return fd;
}

/* Removes the folder that scratch_make made. */
static inline void scratch_remove(char path[PATH_MAX])
{
    char *name = strrchr(path, '/');
    *name = '\0';
    int parent = scratch_open(path);
    *name = '/';
    if (cv_remove_tree(parent, name + 1, NULL, NULL) != 0)
        fail_msg("%s: %s", path, strerror(errno));
    close(parent);
}

static inline void scratch_folder(int dir, const char *path, mode_t mode)
{
    if (mkdirat(dir, path, 0777) != 0 || fchmodat(dir, path, mode, 0) != 0)
        fail_msg("%s: %s", path, strerror(errno));
}

static inline void scratch_file(int dir, const char *path, const char *content)
{
    int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, content, strlen(content)) != (ssize_t)strlen(content))
        fail_msg("%s: %s", path, strerror(errno));
    close(fd);
}

static inline void scratch_link(int dir, const char *path, const char *target)
{
    if (symlinkat(target, dir, path) != 0)
        fail_msg("%s -> %s: %s", path, target, strerror(errno));
}

/* A chain of `depth` folders "d" in `dir`; the descriptor of the last, opened with O_PATH. */
static inline int scratch_chain(int dir, int depth)
{
    int at = openat(dir, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < depth; i++) {
        scratch_folder(at, "d", 0755);
        int below = openat(at, "d", O_PATH | O_DIRECTORY | O_CLOEXEC);
        close(at);
        at = below;
    }
    assert_true(at >= 0);
    return at;
}

static inline int scratch_exists(int dir, const char *path)
{
    struct stat info;
    return fstatat(dir, path, &info, AT_SYMLINK_NOFOLLOW) == 0;
}

/* The number of descriptors that this process has open. */
static inline int scratch_descriptors(void)
{
    int count = 0;
    DIR *stream = opendir("/proc/self/fd");
    assert_non_null(stream);
    while (readdir(stream) != NULL)
        count++;
    closedir(stream);
    return count;
}

/* Runs `body` for ever in a process that dies with this one. */
static inline pid_t scratch_disturb(void (*body)(void *context), void *context)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        for (;;)
            body(context);
    }
    return pid;
}

static inline void scratch_calm(pid_t pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/*
 * From here on the system call fails with `errnum` in this process, one of its own, and in what it
 * runs: an old kernel, an old filter.
 */
static inline void scratch_lose_call(unsigned number, int errnum)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)errnum),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("seccomp");
        _exit(3);
    }
}

/*
 * Runs `body`, which returns NULL or what went wrong, in a process of its own: what it does to its
 * identity and its mounts ends with it. It must not use cmocka's assertions, nor most of what is
 * above.
 */
static inline void scratch_apart(const char *(*body)(void *context), void *context)
{
    int ends[2];
    char message[512] = "";
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        const char *wrong = body(context);
        if (wrong != NULL && write(ends[1], wrong, strlen(wrong)) < 0)
            _exit(2);
        _exit(wrong != NULL);
    }
    close(ends[1]);
    ssize_t length = read(ends[0], message, sizeof message - 1);
    close(ends[0]);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (status != 0)
        fail_msg("%.*s (status %d)", length < 0 ? 0 : (int)length, message, status);
}

static inline const char *scratch_mount(void *folder)
{
    bool mounted = unshare(CLONE_NEWNS) == 0 &&
                   mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) == 0 &&
                   mount("tmpfs", folder, "tmpfs", 0, "size=64k") == 0;
    return mounted ? NULL : "no mount";
}

/* Whether a process of its own may mount something on the folder. */
static inline bool scratch_may_mount(const char *folder)
{
    pid_t pid = fork();
    int status;
    if (pid == 0)
        _exit(scratch_mount((void *)folder) != NULL);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

#endif
