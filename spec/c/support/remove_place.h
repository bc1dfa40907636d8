/* Where the tests of src/fs/remove.c take place, and a removal in a process of its own. */
#ifndef CV_SPEC_REMOVE_PLACE_H
#define CV_SPEC_REMOVE_PLACE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/remove.h"
#include "support/scratch.h"

#define NOBODY 65534

/* Each test has a folder of its own; the tree to remove is `tree` in it, `outside` stays. */
struct place {
    char path[PATH_MAX];
    int fd;
    int descriptors;
};

static struct place place;

static inline void make_place(bool in_memory)
{
    place.descriptors = scratch_descriptors();
    scratch_make(place.path, in_memory);
    place.fd = scratch_open(place.path);
    scratch_folder(place.fd, "outside", 0777);
    scratch_folder(place.fd, "outside/sub", 0777);
    scratch_file(place.fd, "outside/f", "outside");
    scratch_file(place.fd, "outside/sub/f", "outside");
    scratch_file(place.fd, "f", "outside");
}

static inline int setup(void **state)
{
    (void)state;
    make_place(false);
    return 0;
}

static inline int setup_in_memory(void **state)
{
    (void)state;
    make_place(true);
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    struct stat info;
    assert_true(scratch_exists(place.fd, "f"));
    assert_true(scratch_exists(place.fd, "outside/f"));
    assert_true(scratch_exists(place.fd, "outside/sub/f"));
    assert_int_equal(fstatat(place.fd, "outside", &info, 0), 0);
    assert_int_equal(info.st_mode & 07777, 0777);
    close(place.fd);
    scratch_remove(place.path);
    assert_int_equal(scratch_descriptors(), place.descriptors);
    return 0;
}

static inline int open_folder(const char *path)
{
    int fd = openat(place.fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* --- One removal, in a process of its own ---------------------------------------------------- */

struct job {
    const char *name;
    int errnum;        /* what the removal must say; 0: that all is gone */
    uid_t user;        /* 0: as whoever runs the test */
    bool no_openat2;   /* as on an old kernel */
    rlim_t files;      /* limit of open files; 0: as it is */
    const char *mount; /* bind-mounts `outside` there first */
};

static inline const char *prepare(const struct job *job)
{
    static char path[PATH_MAX + 64], source[PATH_MAX + 64];
    if (job->mount != NULL) {
        snprintf(path, sizeof path, "%s/%s", place.path, job->mount);
        snprintf(source, sizeof source, "%s/outside", place.path);
        if (unshare(CLONE_NEWNS) != 0 ||
            mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount(source, path, "none", MS_BIND, NULL) != 0)
            return "mount failed";
    }
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        return "getrlimit failed";
    if (job->files != 0)
        files.rlim_cur = job->files;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        return "setrlimit failed";
    if (job->user != 0 && geteuid() == 0 && (setgid(job->user) != 0 || setuid(job->user) != 0))
        return "setuid failed";
    if (job->no_openat2)
        scratch_lose_call(SYS_openat2, ENOSYS);
    return NULL;
}

static inline const char *run_job(void *context)
{
    static char wrong[256];
    const struct job *job = context;
    const char *failed = prepare(job);
    if (failed != NULL)
        return failed;
    errno = 0;
    int got = cv_remove_tree(place.fd, job->name, NULL, NULL);
    int errnum = errno;
    if ((got == 0 && job->errnum == 0) || (got == -1 && job->errnum == errnum))
        return NULL;
    snprintf(wrong, sizeof wrong, "%s%s: %s, expected %s", job->name,
             job->no_openat2 ? " without openat2" : "", got == 0 ? "removed" : strerror(errnum),
             job->errnum == 0 ? "removed" : strerror(job->errnum));
    return wrong;
}

/* Makes the tree and removes it, with openat2 and without. */
static inline void expect_removed(void (*make)(void), struct job job)
{
    for (int i = 0; i < 2; i++) {
        job.name = "tree";
        job.no_openat2 = i == 1;
        make();
        scratch_apart(run_job, &job);
        assert_false(scratch_exists(place.fd, "tree"));
    }
}

/* Takes away what a job had to leave. */
static inline void remove_rest(void)
{
    assert_int_equal(cv_remove_tree(place.fd, "tree", NULL, NULL), 0);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
#define LARGE_TEST(function) cmocka_unit_test_setup_teardown(function, setup_in_memory, teardown)

#endif
