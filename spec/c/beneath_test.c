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

#include "base/clock.h"
#include "fs/beneath.h"
#include "fs/remove.h"
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

static int setup(void **state)
{
    (void)state;
    place.descriptors = scratch_descriptors();
    scratch_make(place.path);
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

static int teardown(void **state)
{
    (void)state;
    close(place.root.fd);
    close(place.fd);
    scratch_remove(place.path);
    assert_int_equal(scratch_descriptors(), place.descriptors);
    return 0;
}

/* A link to "<root's path><rest>". */
static void link_to_path(const char *name, const char *rest)
{
    char target[2 * PATH_MAX];
    snprintf(target, sizeof target, "%s%s", place.root_path, rest);
    scratch_link(place.root.fd, name, target);
}

static void make_layout(void)
{
    int root = place.root.fd;
    scratch_file(root, "f", "root");
    scratch_folder(root, "dir", 0755);
    scratch_file(root, "dir/f", "dir");
    scratch_folder(root, "dir/sub", 0755);
    scratch_file(root, "dir/sub/f", "sub");
    scratch_folder(root, "...", 0755);
    scratch_file(root, ".../..f", "dots");
    scratch_link(root, "to_file", "f");
    scratch_link(root, "to_dir", "dir");
    scratch_link(root, "to_dir_slash", "dir/");
    scratch_link(root, "to_here", ".");
    scratch_link(root, "through_up", "dir/sub/../f");
    scratch_link(root, "dir/back", "../f");
    scratch_link(root, "dir/sub/back", "../../dir/back");
    scratch_link(root, "dir/out", "../../outside/f");
    scratch_link(root, "dir/out_dir", "../../outside");
    scratch_link(root, "up", "..");
    scratch_link(root, "out_and_in", "../root/f");
    scratch_link(root, "etc", "/etc");
    scratch_link(root, "passwd", "/etc/passwd");
    scratch_link(root, "dangling", "nothing");
    scratch_link(root, "dangling_far", "none/thing");
    scratch_link(root, "loop", "loop");
    scratch_link(root, "loop_a", "loop_b");
    scratch_link(root, "loop_b", "./loop_a");
    scratch_link(root, "file_slash", "f/");
    link_to_path("abs_file", "/dir/f");
    link_to_path("abs_root", "");
    link_to_path("abs_root_slash", "///");
    link_to_path("abs_up", "/../outside/f");
    link_to_path("abs_in_and_up", "/dir/../f");
    link_to_path("abs_near", "x/f");
    link_to_path("dir/sub/abs", "/to_dir/f");
    scratch_link(root, "alias_dir", "/workspace/dir");
    scratch_link(root, "alias_root", "/workspace");
    scratch_link(root, "alias_up", "/workspace/..");
    scratch_link(root, "alias_near", "/workspaces/f");
    scratch_link(root, "alias_short", "/work");
    scratch_link(root, "alias_twice", "/workspace/alias_dir/f");
    scratch_link(root, "alias_dangling", "/workspace/nothing");
    scratch_link(root, "slash", "/");
    scratch_link(root, "link1", "f");
    for (int i = 2; i <= 41; i++) {
        char name[16], target[16];
        snprintf(name, sizeof name, "link%d", i);
        snprintf(target, sizeof target, "link%d", i - 1);
        scratch_link(root, name, target);
    }
}

/* What opening a path gives: the content of a file, "/" for a folder, or an errno. */
static const struct {
    const char *path;
    const char *content;
    int errnum;
} table[] = {
    {"f", "root", 0},
    {"./f", "root", 0},
    {".//.///f", "root", 0},
    {"", "/", 0},
    {".", "/", 0},
    {"./", "/", 0},
    {"dir", "/", 0},
    {"dir/", "/", 0},
    {"dir//", "/", 0},
    {"dir/.", "/", 0},
    {"dir/f", "dir", 0},
    {"dir//sub///f", "sub", 0},
    {"dir/..", "/", 0},
    {"dir/../f", "root", 0},
    {"dir/sub/../../dir/sub/../f", "dir", 0},
    {".../..f", "dots", 0},
    {"..", NULL, EXDEV},
    {"../f", NULL, EXDEV},
    {"../root/f", NULL, EXDEV},
    {"dir/../..", NULL, EXDEV},
    {"dir/sub/../../../f", NULL, EXDEV},
    {"./..", NULL, EXDEV},
    {"none", NULL, ENOENT},
    {"none/../f", NULL, ENOENT},
    {"f/", NULL, ENOTDIR},
    {"f/.", NULL, ENOTDIR},
    {"f/..", NULL, ENOTDIR},
    {"f/x", NULL, ENOTDIR},
    /* links that stay inside */
    {"to_file", "root", 0},
    {"to_file/", NULL, ENOTDIR},
    {"to_file/x", NULL, ENOTDIR},
    {"file_slash", NULL, ENOTDIR},
    {"to_dir", "/", 0},
    {"to_dir/", "/", 0},
    {"to_dir/f", "dir", 0},
    {"to_dir//./f", "dir", 0},
    {"to_dir/../f", "root", 0},
    {"to_dir_slash", "/", 0},
    {"to_dir_slash/f", "dir", 0},
    {"to_here/to_here/f", "root", 0},
    {"through_up", "dir", 0},
    {"dir/back", "root", 0},
    {"dir/sub/back", "root", 0},
    {"to_dir/sub/back", "root", 0},
    {"to_dir/sub/..", "/", 0},
    /* links that lead out */
    {"dir/out", NULL, EXDEV},
    {"dir/out_dir", NULL, EXDEV},
    {"dir/out_dir/f", NULL, EXDEV},
    {"up", NULL, EXDEV},
    {"up/f", NULL, EXDEV},
    {"out_and_in", NULL, EXDEV},
    {"etc", NULL, EXDEV},
    {"etc/passwd", NULL, EXDEV},
    {"passwd", NULL, EXDEV},
    {"slash", NULL, EXDEV},
    {"slash/f", NULL, EXDEV},
    /* absolute links under the root's own path and its alias */
    {"abs_file", "dir", 0},
    {"abs_file/", NULL, ENOTDIR},
    {"abs_root", "/", 0},
    {"abs_root/f", "root", 0},
    {"abs_root/dir/f", "dir", 0},
    {"abs_root/abs_root/./f", "root", 0},
    {"abs_root_slash", "/", 0},
    {"abs_root_slash/f", "root", 0},
    {"dir/sub/abs", "dir", 0},
    {"to_dir/sub/abs", "dir", 0},
    {"abs_in_and_up", "root", 0},
    {"abs_up", NULL, EXDEV},
    {"abs_root/..", NULL, EXDEV},
    {"abs_near", NULL, EXDEV},
    {"alias_dir", "/", 0},
    {"alias_dir/f", "dir", 0},
    {"alias_dir/../f", "root", 0},
    {"alias_dir/sub/../../alias_dir/f", "dir", 0},
    {"alias_root", "/", 0},
    {"alias_root/", "/", 0},
    {"alias_twice", "dir", 0},
    {"alias_up", NULL, EXDEV},
    {"alias_near", NULL, EXDEV},
    {"alias_short", NULL, EXDEV},
    {"alias_dangling", NULL, ENOENT},
    /* links to nothing, links in a circle, many links */
    {"dangling", NULL, ENOENT},
    {"dangling/x", NULL, ENOENT},
    {"dangling_far", NULL, ENOENT},
    {"loop", NULL, ELOOP},
    {"loop/x", NULL, ELOOP},
    {"loop_a", NULL, ELOOP},
    {"link40", "root", 0},
    {"link41", NULL, ELOOP},
    {"alias_root/link39", "root", 0},
    {"alias_root/link40", NULL, ELOOP},
};

/* What is open, as in the table; closes it. */
static const char *content_of(int fd)
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
    scratch_lose_openat2(*(int *)context);
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

/* --- Somebody changes the path at the same time ---------------------------------------------- */

#define DISTURBED_MS 200

struct swap {
    const char *a;
    const char *b;
    unsigned flags; /* of renameat2(2) */
};

static void swap_once(void *context)
{
    const struct swap *swap = context;
    (void)syscall(SYS_renameat2, place.fd, swap->a, place.fd, swap->b, swap->flags);
    if (swap->flags == 0)
        (void)syscall(SYS_renameat2, place.fd, swap->b, place.fd, swap->a, swap->flags);
}

/*
 * Opens the path again and again while the names are swapped: what is opened is inside. Two cores
 * make it likely that most of the outcomes occur, but nothing here depends on it.
 */
static void open_while_swapping(const struct swap *swap, const char *path, int flags)
{
    for (size_t i = 0; i < OPENERS; i++) {
        pid_t pid = scratch_disturb(swap_once, (void *)swap);
        unsigned opened = 0, refused = 0;
        const char *escaped = NULL;
        int64_t end = cv_clock_ms() + DISTURBED_MS;
        while (escaped == NULL && cv_clock_ms() < end) {
            int fd = openers[i].open(&place.root, path, flags, 0644);
            if (fd < 0) {
                refused++;
                if (errno != EXDEV && errno != ENOENT && errno != ELOOP && errno != ENOTDIR)
                    escaped = strerror(errno);
                continue;
            }
            opened++;
            const char *content = content_of(fd);
            if (strcmp(content, "inside") != 0 && strcmp(content, "") != 0)
                escaped = content;
        }
        scratch_calm(pid);
        print_message("%s(\"%s\"): %u opened, %u refused\n", openers[i].name, path, opened,
                      refused);
        if (escaped != NULL)
            fail_msg("%s(\"%s\"): %s", openers[i].name, path, escaped);
    }
}

static void make_disturbed(void)
{
    int root = place.root.fd;
    scratch_file(root, "f", "inside");
    scratch_folder(root, "a", 0755);
    scratch_file(root, "a/f", "inside");
    scratch_folder(root, "a/b", 0755);
    scratch_file(root, "a/b/f", "inside");
    scratch_folder(place.fd, "outside/b", 0755);
    scratch_file(place.fd, "outside/b/f", "outside");
    scratch_link(root, "link", "../outside");
    link_to_path("abs", "/a");
    scratch_link(root, "file_link", "../outside/f");
}

static void folder_swapped_for_a_link(void **state)
{
    (void)state;
    make_disturbed();
    const struct swap swap = {"root/a", "root/link", RENAME_EXCHANGE};
    open_while_swapping(&swap, "a/f", O_RDONLY);
    open_while_swapping(&swap, "a/b/f", O_RDONLY);
    open_while_swapping(&swap, "a/b/../f", O_RDONLY);
    open_while_swapping(&swap, "abs/f", O_RDONLY);
    open_while_swapping(&swap, "a/made", O_RDWR | O_CREAT);
    assert_false(scratch_exists(place.fd, "outside/made"));
}

static void file_swapped_for_a_link(void **state)
{
    (void)state;
    make_disturbed();
    const struct swap swap = {"root/a/f", "root/file_link", RENAME_EXCHANGE};
    open_while_swapping(&swap, "a/f", O_RDONLY);
    open_while_swapping(&swap, "abs/f", O_RDWR | O_CREAT);
    open_while_swapping(&swap, "a/f", O_PATH | O_RDONLY);
}

/* ".." of a folder that was moved out must not be what it is out there. */
static void folder_moved_out(void **state)
{
    (void)state;
    make_disturbed();
    const struct swap swap = {"root/a/b", "outside/moved", 0};
    open_while_swapping(&swap, "a/b/../f", O_RDONLY);
    open_while_swapping(&swap, "a/b/../../f", O_RDONLY);
    open_while_swapping(&swap, "abs/b/../f", O_RDONLY);
}

static void nothing_changed_outside(void)
{
    int fd = openat(place.fd, "outside/f", O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_string_equal(content_of(fd), "outside");
}

static int disturbed_teardown(void **state)
{
    nothing_changed_outside();
    return teardown(state);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, teardown)
#define DISTURBED(function) cmocka_unit_test_setup_teardown(function, setup, disturbed_teardown)

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
        DISTURBED(folder_swapped_for_a_link),
        DISTURBED(file_swapped_for_a_link),
        DISTURBED(folder_moved_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
