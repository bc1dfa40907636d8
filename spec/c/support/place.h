/*
 * What the tests of src/fs/file.h share: a folder of each test's own with the folders `root` and
 * `outside` in it, and files in the root read and written as text.
 */
#ifndef CV_SPEC_PLACE_H
#define CV_SPEC_PLACE_H

#include <stdbool.h>
#include <string.h>

#include "fs/file.h"
#include "support/scratch.h"

#define PLACE_MAX ((size_t)1024 * 1024)
#define PLACE_NOBODY 65534

static struct place {
    char path[PATH_MAX];
    char root_path[PATH_MAX + 8];
    int fd;
    struct cv_root root;
    int descriptors;
    mode_t mask;
} place;

static inline int place_setup(void **state)
{
    (void)state;
    place.mask = umask(022); /* as in the supervisor */
    place.descriptors = scratch_descriptors();
    scratch_make(place.path, true);
    place.fd = scratch_open(place.path);
    scratch_folder(place.fd, "root", 0755);
    scratch_folder(place.fd, "outside", 0755);
    snprintf(place.root_path, sizeof place.root_path, "%s/root", place.path);
    place.root = (struct cv_root){
        .fd = scratch_open(place.root_path), .path = place.root_path, .alias = "/workspace"};
    return 0;
}

/* The entries of a folder and of those below it; counts what only a write under way may have. */
static inline unsigned place_count(int dir, unsigned *temporary)
{
    unsigned count = 0;
    DIR *stream = fdopendir(openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    assert_non_null(stream);
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        count++;
        *temporary += strncmp(entry->d_name, ".chamvi-", 8) == 0;
        int fd =
            openat(dirfd(stream), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0)
            count += place_count(fd, temporary);
        close(fd);
    }
    closedir(stream);
    return count;
}

static inline int place_teardown(void **state)
{
    (void)state;
    unsigned temporary = 0;
    place_count(place.fd, &temporary);
    assert_int_equal(temporary, 0);
    close(place.root.fd);
    close(place.fd);
    scratch_remove(place.path);
    assert_int_equal(scratch_descriptors(), place.descriptors);
    umask(place.mask);
    return 0;
}

/* What reading gives: "=" and the content, or the name of an errno. */
static inline const char *place_read(const char *path, size_t max)
{
    static char text[512];
    struct cv_buf content;
    errno = 0;
    if (cv_file_read(&place.root, path, max, &content) != 0) {
        if (content.bytes != NULL)
            return "a content beside the error";
        snprintf(text, sizeof text, "%s", strerrorname_np(errno));
        return text;
    }
    size_t length = cv_buf_length(&content);
    int shown = length > 200 ? 200 : (int)length;
    snprintf(text, sizeof text, "=%.*s", shown, length == 0 ? "" : (char *)cv_buf_data(&content));
    cv_buf_free(&content);
    return text;
}

static inline const char *place_write(const char *path, const char *text)
{
    errno = 0;
    return cv_file_write(&place.root, path, text, strlen(text)) == 0 ? "written"
                                                                     : strerrorname_np(errno);
}

static inline void place_expect_read(const char *path, const char *expected)
{
    const char *got = place_read(path, PLACE_MAX);
    if (strcmp(got, expected) != 0)
        fail_msg("reading \"%s\": %s, expected %s", path, got, expected);
}

static inline void place_expect_write(const char *path, const char *expected)
{
    const char *got = place_write(path, "new");
    if (strcmp(got, expected) != 0)
        fail_msg("writing \"%s\": %s, expected %s", path, got, expected);
}

static inline struct stat place_stat(const char *path)
{
    struct stat info;
    if (fstatat(place.root.fd, path, &info, AT_SYMLINK_NOFOLLOW) != 0)
        fail_msg("%s: %s", path, strerror(errno));
    return info;
}

static inline void place_expect_mode(const char *path, mode_t mode)
{
    mode_t got = place_stat(path).st_mode;
    if (got != mode)
        fail_msg("%s has mode %o, expected %o", path, got, mode);
}

/* A link to "<root's path><rest>". */
static inline void place_link(const char *name, const char *rest)
{
    char target[2 * PATH_MAX];
    snprintf(target, sizeof target, "%s%s", place.root_path, rest);
    scratch_link(place.root.fd, name, target);
}

/* Files and links of every kind. */
static inline void place_fill(void)
{
    int root = place.root.fd;
    scratch_file(place.fd, "outside/f", "outside");
    scratch_file(root, "f", "root");
    scratch_folder(root, "dir", 0755);
    scratch_file(root, "dir/f", "dir");
    scratch_link(root, "to_file", "dir/../f");
    scratch_link(root, "to_dir", "dir");
    scratch_link(root, "dir/back", "../f");
    place_link("absolute", "/dir/f");
    place_link("absolute_dir", "/dir/");
    scratch_link(root, "alias", "/workspace/dir/f");
    scratch_link(root, "chain", "absolute_dir/back");
    scratch_link(root, "out", "../outside/f");
    scratch_link(root, "out_dir", "../outside");
    place_link("absolute_out", "/../outside/f");
    scratch_link(root, "etc", "/etc/passwd");
    scratch_link(root, "zero", "/dev/zero");
    scratch_link(root, "dangling", "dir/none");
    scratch_link(root, "loop", "loop");
    scratch_link(root, "file_slash", "f/");
}

#define PLACE_TEST(function) cmocka_unit_test_setup_teardown(function, place_setup, place_teardown)

#endif
