#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/beneath.h"
#include "support/beneath_layout.h"
#include "support/beneath_place.h"
#include "support/scratch.h"

/* NULL, or what differs from the table. */
static const char *compare_with_table(void *context)
{
    static char wrong[512];
    (void)context;
    for (size_t way = 0; way < OPENERS; way++) {
        for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
            errno = 0;
            int fd = openers[way].open(&place.root, table[i].path, O_RDONLY, 0);
            int errnum = fd < 0 ? errno : 0;
            const char *content = fd < 0 ? NULL : content_of(fd);
            bool same = errnum == table[i].errnum &&
                        (content == NULL) == (table[i].content == NULL) &&
                        (content == NULL || strcmp(content, table[i].content) == 0);
            if (same)
                continue;
            snprintf(wrong, sizeof wrong, "%s(\"%s\"): %s, expected %s", openers[way].name,
                     table[i].path, content == NULL ? strerror(errnum) : content,
                     table[i].content == NULL ? strerror(table[i].errnum) : table[i].content);
            return wrong;
        }
    }
    return NULL;
}

static const char *compare_without_openat2(void *context)
{
    scratch_lose_call(SYS_openat2, *(int *)context);
    return compare_with_table(NULL);
}

static void layouts(void **state)
{
    (void)state;
    make_layout();
    const char *wrong = compare_with_table(NULL);
    if (wrong != NULL)
        fail_msg("%s", wrong);
}

/* An old kernel, an old seccomp filter, renames elsewhere that never stop. */
static void layouts_without_openat2(void **state)
{
    (void)state;
    make_layout();
    int errnums[] = {ENOSYS, EPERM, EAGAIN};
    for (size_t i = 0; i < sizeof errnums / sizeof *errnums; i++)
        scratch_apart(compare_without_openat2, &errnums[i]);
}

static void expect_open(opener *open, const char *path, int flags, const char *content)
{
    int fd = open(&place.root, path, flags, 0);
    if (fd < 0)
        fail_msg("\"%s\" with %o: %s", path, (unsigned)flags, strerror(errno));
    assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    assert_string_equal(content_of(fd), content);
}

static void expect_refused(opener *open, const char *path, int flags, int errnum)
{
    errno = 0;
    int fd = open(&place.root, path, flags, 0644);
    if (fd >= 0)
        fail_msg("\"%s\" with %o was opened", path, (unsigned)flags);
    if (errno != errnum)
        fail_msg("\"%s\" with %o: %s, expected %s", path, (unsigned)flags, strerror(errno),
                 strerror(errnum));
}

/* An absolute path is inside exactly as an absolute link is. */
static void absolute_paths(void **state)
{
    (void)state;
    make_layout();
    char path[2 * PATH_MAX];
    for (size_t i = 0; i < OPENERS; i++) {
        snprintf(path, sizeof path, "%s/dir/f", place.root_path);
        expect_open(openers[i].open, path, O_RDONLY, "dir");
        expect_open(openers[i].open, "/workspace/f", O_RDONLY, "root");
        snprintf(path, sizeof path, "%s/outside/f", place.path);
        expect_refused(openers[i].open, path, O_RDONLY, EXDEV);
        expect_refused(openers[i].open, "/", O_RDONLY, EXDEV);
    }
}

/* A root without an alias, and one that names the whole file system. */
static void other_roots(void **state)
{
    (void)state;
    make_layout();
    struct cv_root plain = place.root;
    plain.alias = NULL;
    struct cv_root slash = {.fd = scratch_open("/"), .path = "/", .alias = NULL};
    for (size_t i = 0; i < OPENERS; i++) {
        errno = 0;
        assert_int_equal(openers[i].open(&plain, "alias_root", O_RDONLY, 0), -1);
        assert_int_equal(errno, EXDEV);
        int fd = openers[i].open(&plain, "abs_file", O_RDONLY, 0);
        assert_true(fd >= 0);
        assert_string_equal(content_of(fd), "dir");
        char path[2 * PATH_MAX];
        snprintf(path, sizeof path, "%s/abs_file", place.root_path + 1);
        fd = openers[i].open(&slash, path, O_RDONLY, 0);
        assert_true(fd >= 0);
        assert_string_equal(content_of(fd), "dir");
        assert_int_equal(openers[i].open(&slash, "..", O_RDONLY, 0), -1);
        assert_int_equal(errno, EXDEV);
    }
    close(slash.fd);
}

static void flags_for_the_last_component(void **state)
{
    (void)state;
    make_layout();
    for (size_t i = 0; i < OPENERS; i++) {
        opener *open = openers[i].open;
        expect_refused(open, "to_file", O_RDONLY | O_NOFOLLOW, ELOOP);
        expect_refused(open, "abs_file", O_RDONLY | O_NOFOLLOW, ELOOP);
        expect_open(open, "to_dir/f", O_RDONLY | O_NOFOLLOW, "dir");
        expect_open(open, "abs_root/f", O_RDONLY | O_NOFOLLOW, "root");
        expect_refused(open, "to_dir", O_RDONLY | O_NOFOLLOW | O_DIRECTORY, ENOTDIR);
        expect_open(open, "to_dir/", O_RDONLY | O_NOFOLLOW, "/");
        expect_open(open, "alias_dir/", O_RDONLY | O_NOFOLLOW | O_DIRECTORY, "/");
        expect_open(open, "to_dir", O_RDONLY | O_DIRECTORY, "/");
        expect_open(open, "alias_dir", O_RDONLY | O_DIRECTORY, "/");
        expect_open(open, "alias_dir", O_PATH | O_DIRECTORY, "/");
        expect_refused(open, "to_file", O_RDONLY | O_DIRECTORY, ENOTDIR);
        expect_refused(open, "f", O_PATH | O_DIRECTORY, ENOTDIR);
        expect_refused(open, "dir", O_RDWR, EISDIR);
        expect_refused(open, "alias_dir", O_WRONLY, EISDIR);
        expect_open(open, "to_dir", O_PATH, "/");
        expect_open(open, "alias_dir/..", O_PATH, "/");
        /* Beside O_PATH other flags are ignored, as open(2) does. */
        expect_open(open, "alias_dir", O_PATH | O_RDWR | O_CREAT | O_EXCL | O_TRUNC, "/");
    }
}

static void path_descriptors(void **state)
{
    (void)state;
    make_layout();
    static const struct {
        const char *path;
        int flags;
        mode_t type;
    } cases[] = {
        {"to_file", O_PATH, S_IFREG},           {"to_file", O_PATH | O_NOFOLLOW, S_IFLNK},
        {"abs_file", O_PATH, S_IFREG},          {"abs_file", O_PATH | O_NOFOLLOW, S_IFLNK},
        {"alias_dir", O_PATH, S_IFDIR},         {"alias_dir/", O_PATH | O_NOFOLLOW, S_IFDIR},
        {"loop", O_PATH | O_NOFOLLOW, S_IFLNK}, {"passwd", O_PATH | O_NOFOLLOW, S_IFLNK},
    };
    for (size_t i = 0; i < OPENERS; i++) {
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            struct stat info;
            int fd = openers[i].open(&place.root, cases[k].path, cases[k].flags, 0);
            assert_true(fd >= 0);
            assert_int_equal(fstat(fd, &info), 0);
            assert_int_equal(info.st_mode & S_IFMT, cases[k].type);
            close(fd);
        }
    }
}

/* Opens with O_CREAT and expects that the file `made` came to be; takes it away again. */
static void expect_creates(opener *open, const char *path, int flags, const char *made)
{
    assert_false(scratch_exists(place.root.fd, made));
    int fd = open(&place.root, path, O_WRONLY | O_CREAT | flags, 0100640);
    if (fd < 0)
        fail_msg("\"%s\": %s", path, strerror(errno));
    assert_int_equal(write(fd, "new", 3), 3);
    struct stat info;
    assert_int_equal(fstat(fd, &info), 0);
    assert_int_equal(info.st_mode, S_IFREG | 0640);
    close(fd);
    assert_true(scratch_exists(place.root.fd, made));
    assert_int_equal(unlinkat(place.root.fd, made, 0), 0);
}

static void creates_files(void **state)
{
    (void)state;
    make_layout();
    scratch_link(place.root.fd, "new_link", "dir/made");
    scratch_link(place.root.fd, "new_slash", "dir/made/");
    scratch_link(place.root.fd, "new_alias", "/workspace/dir/sub/made");
    scratch_link(place.root.fd, "new_twice", "new_alias");
    scratch_link(place.root.fd, "new_out", "../outside/made");
    scratch_link(place.root.fd, "new_abs_out", "/workspace/../outside/made");
    scratch_link(place.root.fd, "new_etc", "/etc/chamvi-made");
    mode_t mask = umask(022);
    for (size_t i = 0; i < OPENERS; i++) {
        opener *open = openers[i].open;
        expect_creates(open, "made", 0, "made");
        expect_creates(open, "made", O_EXCL | O_NOFOLLOW, "made");
        expect_creates(open, "dir/sub/../made", 0, "dir/made");
        expect_creates(open, "to_dir/made", O_EXCL, "dir/made");
        expect_creates(open, "abs_root/dir/made", O_EXCL, "dir/made");
        expect_creates(open, "new_link", 0, "dir/made");
        expect_creates(open, "new_alias", 0, "dir/sub/made");
        expect_creates(open, "new_twice", 0, "dir/sub/made");
        expect_refused(open, "new_link", O_WRONLY | O_CREAT | O_EXCL, EEXIST);
        expect_refused(open, "new_alias", O_WRONLY | O_CREAT | O_EXCL, EEXIST);
        expect_refused(open, "new_link", O_WRONLY | O_CREAT | O_NOFOLLOW, ELOOP);
        expect_refused(open, "new_out", O_WRONLY | O_CREAT, EXDEV);
        expect_refused(open, "new_abs_out", O_WRONLY | O_CREAT, EXDEV);
        expect_refused(open, "new_etc", O_WRONLY | O_CREAT, EXDEV);
        expect_refused(open, "dangling_far", O_WRONLY | O_CREAT, ENOENT);
        expect_refused(open, "loop", O_WRONLY | O_CREAT, ELOOP);
        expect_refused(open, "new_slash", O_WRONLY | O_CREAT, EISDIR);
        expect_refused(open, "made/", O_WRONLY | O_CREAT, EISDIR);
        expect_refused(open, "dir", O_WRONLY | O_CREAT, EISDIR);
        expect_refused(open, "dir/", O_WRONLY | O_CREAT, EISDIR);
        expect_refused(open, "dir/.", O_WRONLY | O_CREAT, EISDIR);
        expect_refused(open, "", O_WRONLY | O_CREAT, EISDIR);
        expect_refused(open, "alias_root", O_WRONLY | O_CREAT, EISDIR);
        expect_refused(open, "f", O_WRONLY | O_CREAT | O_EXCL, EEXIST);
        expect_refused(open, "../made", O_WRONLY | O_CREAT, EXDEV);
        expect_open(open, "f", O_RDWR | O_CREAT, "root");
        expect_open(open, "abs_file", O_RDWR | O_CREAT, "dir");
        assert_false(scratch_exists(place.fd, "outside/made"));
        assert_false(scratch_exists(place.fd, "made"));
        assert_false(scratch_exists(AT_FDCWD, "/etc/chamvi-made"));
    }
    umask(mask);
}

static void temporary_files(void **state)
{
    (void)state;
    make_layout();
    int fd = openat(place.root.fd, "dir", O_RDWR | O_TMPFILE, 0600);
    if (fd < 0) {
        print_message("this file system has no O_TMPFILE: not tested\n");
        return;
    }
    close(fd);
    for (size_t i = 0; i < OPENERS; i++) {
        static const char *const paths[] = {"dir", "dir/", "to_dir", "alias_dir", "abs_root", ""};
        for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
            struct stat info;
            fd = openers[i].open(&place.root, paths[k], O_RDWR | O_TMPFILE, 0600);
            if (fd < 0)
                fail_msg("\"%s\": %s", paths[k], strerror(errno));
            assert_int_equal(fstat(fd, &info), 0);
            assert_int_equal(info.st_mode, S_IFREG | 0600);
            close(fd);
        }
        expect_refused(openers[i].open, "etc", O_RDWR | O_TMPFILE, EXDEV);
    }
}

static void magic_links_are_refused(void **state)
{
    (void)state;
    struct cv_root root = {.fd = scratch_open("/proc/self"), .path = "/proc/self", .alias = NULL};
    static const char *const paths[] = {"cwd",      "cwd/", "cwd/x", "exe",
                                        "root/etc", "fd/0", "ns/mnt"};
    for (size_t i = 0; i < OPENERS; i++) {
        for (size_t k = 0; k < sizeof paths / sizeof *paths; k++) {
            errno = 0;
            int fd = openers[i].open(&root, paths[k], O_RDONLY | O_NONBLOCK, 0);
            if (fd >= 0 || errno != ELOOP)
                fail_msg("%s(\"%s\"): %s", openers[i].name, paths[k],
                         fd < 0 ? strerror(errno) : "opened");
        }
        int fd = openers[i].open(&root, "status", O_RDONLY, 0);
        assert_true(fd >= 0);
        close(fd);
    }
    close(root.fd);
}

/* `count` times `part`, then `last`. */
static void repeat(char *path, const char *part, int count, const char *last)
{
    path[0] = '\0';
    for (int i = 0; i < count; i++)
        strcat(path, part);
    strcat(path, last);
}

static void long_paths(void **state)
{
    (void)state;
    static char path[3 * PATH_MAX];
    int deepest = scratch_chain(place.root.fd, 2600);
    scratch_file(deepest, "f", "deepest");
    close(deepest);
    scratch_file(place.root.fd, "f", "root");
    scratch_file(place.root.fd, "d/f", "first");
    for (size_t i = 0; i < OPENERS; i++) {
        opener *open = openers[i].open;
        repeat(path, "d/", 600, "");
        size_t down = strlen(path);
        repeat(path + down, "../", 600, "f");
        expect_open(open, path, O_RDONLY, "root");
        repeat(path + down, "../", 599, "f");
        expect_open(open, path, O_RDONLY, "first");
        repeat(path + down, "../", 601, "f");
        expect_refused(open, path, O_RDONLY, EXDEV);
        /* up and down where the walk has closed what it passed first */
        repeat(path, "d/", 300, "");
        down = strlen(path);
        repeat(path + down, "../../d/", 250, "f");
        expect_refused(open, path, O_RDONLY, ENOENT);
        repeat(path + strlen(path) - 1, "../", 49, "f");
        expect_open(open, path, O_RDONLY, "first");
        repeat(path, "./", PATH_MAX / 2 - 1, "f");
        assert_int_equal(strlen(path), PATH_MAX - 1);
        expect_open(open, path, O_RDONLY, "root");
        strcat(path, "x");
        expect_refused(open, path, O_RDONLY, ENAMETOOLONG);
        repeat(path, "d", NAME_MAX + 1, "");
        expect_refused(open, path, O_RDONLY, ENAMETOOLONG);
        strcat(path, "/f");
        expect_refused(open, path, O_RDONLY, ENAMETOOLONG);
        repeat(path, "d", NAME_MAX, "");
        expect_refused(open, path, O_RDONLY, ENOENT);
    }
}

/* Links with long targets: the walk stays within its memory whatever they add up to. */
static void long_links(void **state)
{
    (void)state;
    static char target[PATH_MAX];
    close(scratch_chain(place.root.fd, 2600));
    scratch_file(place.root.fd, "f", "root");
    repeat(target, "./", PATH_MAX / 2 - 4, "self");
    scratch_link(place.root.fd, "self", target);
    repeat(target, "./", PATH_MAX / 2 - 4, "f");
    scratch_link(place.root.fd, "long", target);
    repeat(target, "d/", 1299, "d");
    scratch_link(place.root.fd, "d/deep", target);
    scratch_link(place.root.fd, "more", target);
    /* each leaves a long rest to be walked behind the next */
    repeat(target, "././", PATH_MAX / 4 - 2, ".");
    for (int i = 0; i < 3; i++) {
        char name[] = {(char)('1' + i), '\0'};
        target[0] = (char)('2' + i);
        scratch_link(place.root.fd, name, target);
    }
    scratch_link(place.root.fd, "4", ".");
    expect_open(cv_open_beneath_walk, "long", O_RDONLY, "root");
    expect_refused(cv_open_beneath_walk, "self", O_RDONLY, ELOOP);
    expect_open(cv_open_beneath_walk, "3", O_RDONLY, "/");
    expect_open(cv_open_beneath_walk, "2", O_RDONLY, "/");
    expect_refused(cv_open_beneath_walk, "1", O_RDONLY, ENAMETOOLONG);
    expect_open(cv_open_beneath_walk, "more", O_RDONLY, "/");
    repeat(target, "d/", 1299, "d/d");
    expect_open(cv_open_beneath_walk, target, O_RDONLY, "/");
    repeat(target, "d/", 1000, "");
    static char path[PATH_MAX + 8];
    snprintf(path, sizeof path, "more/%s", target);
    expect_refused(cv_open_beneath_walk, path, O_RDONLY, ENAMETOOLONG);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(layouts),
        TEST(layouts_without_openat2),
        TEST(absolute_paths),
        TEST(other_roots),
        TEST(flags_for_the_last_component),
        TEST(path_descriptors),
        TEST(creates_files),
        TEST(temporary_files),
        TEST(magic_links_are_refused),
        TEST(long_paths),
        TEST(long_links),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
