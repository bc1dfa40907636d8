/* Where the tests of src/fs/beneath.c take place, and the two ways to open that they try. */
#ifndef CV_SPEC_BENEATH_PLACE_H
#define CV_SPEC_BENEATH_PLACE_H

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/beneath.h"
#include "support/scratch.h"

typedef int opener(const struct cv_root *root, const char *path, int flags, mode_t mode);

static const struct {
    const char *name;
    opener *open;
} openers[] = {{"cv_open_beneath", cv_open_beneath},
               {"cv_open_beneath_walk", cv_open_beneath_walk}};

#define OPENERS (sizeof openers / sizeof *openers)

/* Each test has a folder of its own with the folders `root` and `outside` in it. */
struct place {
    char path[PATH_MAX];
    char root_path[PATH_MAX + 8];
    int fd;
    struct cv_root root;
    int descriptors;
};

static struct place place;

static inline int setup(void **state)
{
    (void)state;
    place.descriptors = scratch_descriptors();
    scratch_make(place.path, true);
    place.fd = scratch_open(place.path);
    scratch_folder(place.fd, "root", 0755);
    scratch_folder(place.fd, "outside", 0755);
    scratch_file(place.fd, "f", "outside");
    scratch_file(place.fd, "outside/f", "outside");
    snprintf(place.root_path, sizeof place.root_path, "%s/root", place.path);
    place.root = (struct cv_root){
        .fd = scratch_open(place.root_path), .path = place.root_path, .alias = "/workspace"};
    return 0;
}

static inline int teardown(void **state)
{
    (void)state;
    close(place.root.fd);
    close(place.fd);
    scratch_remove(place.path);
    assert_int_equal(scratch_descriptors(), place.descriptors);
    return 0;
}

/* A link to "<root's path><rest>". */
static inline void link_to_path(const char *name, const char *rest)
{
    char target[2 * PATH_MAX];
    snprintf(target, sizeof target, "%s%s", place.root_path, rest);
    scratch_link(place.root.fd, name, target);
}

/* What is open, as the tests write it: the content of a file, "/" for a folder; closes it. */
static inline const char *content_of(int fd)
{
    static char content[64];
    struct stat info;
    snprintf(content, sizeof content, "?");
    if (fstat(fd, &info) == 0 && S_ISDIR(info.st_mode)) {
        snprintf(content, sizeof content, "/");
    } else if (S_ISREG(info.st_mode)) {
        /* through /proc, since it may be open with O_PATH */
        char path[64];
        snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        int file = open(path, O_RDONLY | O_CLOEXEC);
        ssize_t length = read(file, content, sizeof content - 1);
        content[length < 0 ? 0 : length] = '\0';
        close(file);
    }
    close(fd);
    return content;
}

#endif
