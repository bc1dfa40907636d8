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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fs/remove.h"
#include "support/remove_place.h"
#include "support/scratch.h"

static void expect_entries(const char *path, int count)
{
    int fd = openat(place.fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(fd >= 0);
    DIR *stream = fdopendir(fd);
    for (count += 2; readdir(stream) != NULL; count--)
        continue;
    closedir(stream);
    assert_int_equal(count, 0);
}

/* --- Kinds of entries ------------------------------------------------------------------------ */

static void names_must_be_single(void **state)
{
    (void)state;
    static const char *const names[] = {"", ".", "..", "/", "outside/f", "./outside", "outside/"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        errno = 0;
        assert_int_equal(cv_remove_tree(place.fd, names[i], NULL, NULL), -1);
        assert_int_equal(errno, EINVAL);
    }
    char name[NAME_MAX + 2] = "";
    memset(name, 'x', NAME_MAX + 1);
    assert_int_equal(cv_remove_tree(place.fd, name, NULL, NULL), -1);
    assert_int_equal(errno, ENAMETOOLONG);
    assert_int_equal(cv_remove_tree(-1, "tree", NULL, NULL), -1);
    assert_int_equal(errno, EBADF);
}

static void missing_entry_is_fine(void **state)
{
    (void)state;
    assert_int_equal(cv_remove_tree(place.fd, "tree", NULL, NULL), 0);
}

static void make_file(void)
{
    scratch_file(place.fd, "tree", "x");
}

static void make_link_to_file(void)
{
    scratch_link(place.fd, "tree", "outside/f");
}

static void make_link_to_folder(void)
{
    scratch_link(place.fd, "tree", "outside");
}

static void make_dangling_link(void)
{
    scratch_link(place.fd, "tree", "nothing/there");
}

static void make_fifo(void)
{
    assert_int_equal(mkfifoat(place.fd, "tree", 0), 0);
}

static void make_empty_folder(void)
{
    scratch_folder(place.fd, "tree", 0);
}

static void single_entries(void **state)
{
    (void)state;
    expect_removed(make_file, (struct job){0});
    expect_removed(make_link_to_file, (struct job){0});
    expect_removed(make_link_to_folder, (struct job){0});
    expect_removed(make_dangling_link, (struct job){0});
    expect_removed(make_fifo, (struct job){0});
    expect_removed(make_empty_folder, (struct job){0});
}

/* --- Trees ----------------------------------------------------------------------------------- */

static void make_links(void)
{
    char path[PATH_MAX + 16];
    scratch_folder(place.fd, "tree", 0755);
    scratch_folder(place.fd, "tree/dir", 0755);
    scratch_link(place.fd, "tree/file", "../outside/f");
    scratch_link(place.fd, "tree/dir/folder", "../../outside");
    scratch_link(place.fd, "tree/dir/up", "../..");
    scratch_link(place.fd, "tree/self", ".");
    scratch_link(place.fd, "tree/root", "/");
    snprintf(path, sizeof path, "%s/outside", place.path);
    scratch_link(place.fd, "tree/absolute", path);
    assert_int_equal(linkat(place.fd, "outside/f", place.fd, "tree/hard", 0), 0);
}

static void links_are_not_followed(void **state)
{
    (void)state;
    expect_removed(make_links, (struct job){0});
}

static void make_odd_names(void)
{
    scratch_folder(place.fd, "tree", 0755);
    int tree = open_folder("tree");
    static const char *const names[] = {"...", "-rf", "..\n", " ", "*", ".removed-0", ".removed-1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        scratch_folder(tree, names[i], 0755);
        int folder = openat(tree, names[i], O_PATH | O_DIRECTORY | O_CLOEXEC);
        scratch_file(folder, names[i], "x");
        close(folder);
    }
    for (int byte = 1; byte < 256; byte++) {
        char name[] = {(char)byte, 'x', '\0'};
        if (byte == '/')
            continue;
        if (byte % 2 == 0)
            scratch_file(tree, name, "x");
        else
            scratch_folder(tree, name, 0755);
    }
    char longest[NAME_MAX + 1] = "";
    memset(longest, 0xff, NAME_MAX);
    scratch_folder(tree, longest, 0755);
    int folder = openat(tree, longest, O_PATH | O_DIRECTORY | O_CLOEXEC);
    scratch_folder(folder, longest, 0755);
    close(folder);
    close(tree);
}

static void names_of_any_bytes(void **state)
{
    (void)state;
    expect_removed(make_odd_names, (struct job){0});
}

static void count_call(void *context)
{
    ++*(int *)context;
}

static void progress_is_called(void **state)
{
    (void)state;
    scratch_folder(place.fd, "tree", 0755);
    int calls = 0;
    for (int i = 0; i < 4; i++) {
        char name[32];
        snprintf(name, sizeof name, "tree/%d", i);
        scratch_folder(place.fd, name, 0755);
        int folder = open_folder(name);
        for (int k = 0; k < 1000; k++) {
            snprintf(name, sizeof name, "file-%d", k);
            scratch_file(folder, name, "");
        }
        close(folder);
    }
    assert_int_equal(cv_remove_tree(place.fd, "tree", count_call, &calls), 0);
    assert_in_range(calls, 4000 / 256, 4000);
    assert_false(scratch_exists(place.fd, "tree"));
}

static void add_entries(void *context)
{
    int *calls = context;
    if (++*calls > 3)
        return;
    for (int i = 0; i < 20; i++) {
        char name[64];
        snprintf(name, sizeof name, "tree/added-%d-%d", *calls, i);
        scratch_folder(place.fd, name, 0755);
        strcat(name, "/f");
        scratch_file(place.fd, name, "x");
    }
}

/* What the stream of a folder has passed already is found by another scan. */
static void entries_added_meanwhile(void **state)
{
    (void)state;
    scratch_folder(place.fd, "tree", 0755);
    scratch_folder(place.fd, "tree/sub", 0755);
    for (int i = 0; i < 800; i++) {
        char name[32];
        snprintf(name, sizeof name, "tree/sub/%d", i);
        scratch_file(place.fd, name, "");
    }
    int calls = 0;
    assert_int_equal(cv_remove_tree(place.fd, "tree", add_entries, &calls), 0);
    assert_true(calls >= 3);
    assert_false(scratch_exists(place.fd, "tree"));
}

static void make_deep_chain(void)
{
    scratch_folder(place.fd, "tree", 0755);
    int tree = open_folder("tree");
    int deepest = scratch_chain(tree, 20000);
    scratch_file(deepest, "f", "x");
    scratch_link(deepest, "up", "..");
    close(deepest);
    close(tree);
}

/* Trees that branch below the depth at which folders are moved to the top. */
static void make_deep_branches(void)
{
    scratch_folder(place.fd, "tree", 0755);
    scratch_folder(place.fd, "tree/.removed-1", 0755);
    scratch_file(place.fd, "tree/.removed-1/f", "in the way");
    scratch_file(place.fd, "tree/.removed-2", "in the way");
    scratch_link(place.fd, "tree/.removed-3", "../outside");
    int at = open_folder("tree");
    for (int round = 0; round < 4; round++) {
        for (int i = 0; i < 12; i++) {
            char name[32];
            snprintf(name, sizeof name, "branch%d", i);
            scratch_folder(at, name, 0755);
            int branch = openat(at, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
            int deepest = scratch_chain(branch, 25 + i);
            scratch_file(deepest, "f", "x");
            close(deepest);
            close(branch);
        }
        int below = scratch_chain(at, 30);
        close(at);
        at = below;
    }
    close(at);
}

static void deep_trees_with_few_descriptors(void **state)
{
    (void)state;
    struct job job = {.files = (rlim_t)place.descriptors + 48};
    expect_removed(make_deep_chain, job);
    expect_removed(make_deep_branches, job);
}

/* --- Permissions ----------------------------------------------------------------------------- */

/* Gives everything below an open folder to NOBODY, and the folder itself. */
static void give_away(int dir, const char *name)
{
    assert_int_equal(fchownat(dir, name, NOBODY, NOBODY, AT_SYMLINK_NOFOLLOW), 0);
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return;
    DIR *stream = fdopendir(fd);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            give_away(fd, entry->d_name);
    }
    closedir(stream);
}

static void make_without_permissions(void)
{
    scratch_folder(place.fd, "tree", 0755);
    int tree = open_folder("tree");
    for (int mode = 0; mode < 8; mode++) {
        char name[32];
        snprintf(name, sizeof name, "%d", mode);
        scratch_folder(tree, name, 0755);
        int folder = openat(tree, name, O_PATH | O_DIRECTORY | O_CLOEXEC);
        scratch_file(folder, "f", "x");
        scratch_folder(folder, "empty", 0);
        scratch_folder(folder, "filled", 0755);
        scratch_file(folder, "filled/f", "x");
        scratch_link(folder, "link", "../../outside");
        assert_int_equal(fchmodat(folder, "filled", 0, 0), 0);
        close(folder);
        assert_int_equal(fchmodat(tree, name, (mode_t)mode << 6, 0), 0);
    }
    /* the deepest are moved to the top, which takes permissions, too */
    int deepest = scratch_chain(tree, 40);
    scratch_file(deepest, "f", "x");
    assert_int_equal(fchmodat(deepest, ".", 0, 0), 0);
    close(deepest);
    static const char up[] = "d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d/d";
    assert_int_equal(fchmodat(tree, up, 0, 0), 0);
    assert_int_equal(fchmodat(tree, "d/d", 0, 0), 0);
    assert_int_equal(fchmodat(tree, ".", 0, 0), 0);
    close(tree);
    if (geteuid() == 0)
        give_away(place.fd, "tree");
}

static void folders_without_permissions(void **state)
{
    (void)state;
    expect_removed(make_without_permissions, (struct job){.user = NOBODY});
}

static bool have_openat2(void)
{
    const struct cv_open_how how = {.flags = O_PATH | O_CLOEXEC};
    int fd = cv_openat2(place.fd, ".", &how);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* What belongs to somebody else stays, everything that can go goes. */
static void goes_on_past_failures(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("not root: folders of another user are not tested\n");
        return;
    }
    for (int i = 0; i < 2; i++) {
        scratch_folder(place.fd, "tree", 0755);
        scratch_folder(place.fd, "tree/a", 0755);
        scratch_folder(place.fd, "tree/m", 0755);
        scratch_folder(place.fd, "tree/z", 0755);
        scratch_file(place.fd, "tree/a/f", "x");
        scratch_file(place.fd, "tree/z/f", "x");
        scratch_file(place.fd, "tree/m/gone", "x");
        scratch_folder(place.fd, "tree/m/roots", 0755);
        scratch_file(place.fd, "tree/m/roots/stays", "x");
        scratch_folder(place.fd, "tree/m/roots/mine", 0755);
        scratch_file(place.fd, "tree/m/roots/mine/f", "x");
        scratch_folder(place.fd, "tree/m/roots_closed", 0700);
        scratch_file(place.fd, "tree/m/roots_closed/stays", "x");
        scratch_folder(place.fd, "tree/m/roots_empty", 0700);
        int tree = open_folder("tree");
        close(scratch_chain(tree, 300));
        close(tree);
        /* names that folders from below would get at the top, and can't */
        scratch_folder(place.fd, "tree/.removed-0", 0755);
        scratch_file(place.fd, "tree/.removed-0/stays", "x");
        scratch_folder(place.fd, "tree/.removed-2", 0755);
        scratch_file(place.fd, "tree/.removed-2/stays", "x");
        give_away(place.fd, "tree");
        assert_int_equal(fchownat(place.fd, "tree/.removed-0", 0, 0, 0), 0);
        assert_int_equal(fchownat(place.fd, "tree/.removed-2", 0, 0, 0), 0);
        assert_int_equal(fchownat(place.fd, "tree/m/roots", 0, 0, 0), 0);
        assert_int_equal(fchownat(place.fd, "tree/m/roots_closed", 0, 0, 0), 0);
        assert_int_equal(fchownat(place.fd, "tree/m/roots_empty", 0, 0, 0), 0);
        struct job job = {.name = "tree", .user = NOBODY, .no_openat2 = i == 1, .errnum = EACCES};
        scratch_apart(run_job, &job);
        assert_true(scratch_exists(place.fd, "tree/m/roots/stays"));
        assert_true(scratch_exists(place.fd, "tree/m/roots/mine"));
        assert_true(scratch_exists(place.fd, "tree/m/roots_closed/stays"));
        expect_entries("tree", 3); /* m and the two in the way */
        expect_entries("tree/m", 2);
        /* Only openat2 can tell that this is no mount point: rmdir(2) answers EACCES. */
        bool told = i == 0 && have_openat2();
        assert_int_equal(scratch_exists(place.fd, "tree/m/roots/mine/f"), !told);
        remove_rest();
    }
}

/* The folder that the tree lies in may be closed to us; the content still goes. */
static void empties_what_must_stay(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        print_message("not root: folders of another user are not tested\n");
        return;
    }
    scratch_folder(place.fd, "tree", 0755);
    scratch_folder(place.fd, "tree/sub", 0755);
    scratch_file(place.fd, "tree/sub/f", "x");
    give_away(place.fd, "tree");
    assert_int_equal(fchmodat(AT_FDCWD, place.path, 0755, 0), 0);
    struct job job = {.name = "tree", .user = NOBODY, .errnum = EACCES};
    scratch_apart(run_job, &job);
    assert_true(scratch_exists(place.fd, "tree"));
    assert_int_equal(scratch_exists(place.fd, "tree/sub"), !have_openat2());
    remove_rest();
}

/* --- Mount points ---------------------------------------------------------------------------- */

static const char *try_mount(void *context)
{
    (void)context;
    const struct job job = {.mount = "tree"};
    return prepare(&job) == NULL ? NULL : "no";
}

static bool can_mount(void)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(try_mount(NULL) != NULL);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return status == 0;
}

static void expect_mount_kept(const char *at)
{
    for (int i = 0; i < 2; i++) {
        scratch_folder(place.fd, "tree", 0755);
        scratch_folder(place.fd, "tree/a", 0755);
        scratch_file(place.fd, "tree/a/f", "x");
        scratch_folder(place.fd, "tree/m", 0755);
        int tree = open_folder("tree");
        close(scratch_chain(tree, 40));
        close(tree);
        struct job job = {.name = "tree", .mount = at, .no_openat2 = i == 1, .errnum = EBUSY};
        scratch_apart(run_job, &job);
        assert_true(scratch_exists(place.fd, "outside/f"));
        assert_true(scratch_exists(place.fd, "outside/sub/f"));
        assert_true(scratch_exists(place.fd, "tree"));
        assert_int_equal(scratch_exists(place.fd, "tree/a"), strcmp(at, "tree") == 0);
        remove_rest();
    }
}

/* Bind mounts of the same file system: no number of a device tells them. */
static void mount_points_are_not_crossed(void **state)
{
    (void)state;
    scratch_folder(place.fd, "tree", 0755);
    bool can = can_mount();
    remove_rest();
    if (!can) {
        print_message("this user or container can't mount: mount points are not tested\n");
        return;
    }
    expect_mount_kept("tree");
    expect_mount_kept("tree/m");
    /* where a folder would be moved to the top, and on both sides of it */
    char path[PATH_MAX] = "tree";
    for (int depth = 1; depth <= 34; depth++) {
        strcat(path, "/d");
        if (depth >= 29)
            expect_mount_kept(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(names_must_be_single),
        TEST(missing_entry_is_fine),
        TEST(single_entries),
        TEST(links_are_not_followed),
        TEST(names_of_any_bytes),
        LARGE_TEST(progress_is_called),
        TEST(entries_added_meanwhile),
        LARGE_TEST(deep_trees_with_few_descriptors),
        TEST(folders_without_permissions),
        TEST(goes_on_past_failures),
        TEST(empties_what_must_stay),
        TEST(mount_points_are_not_crossed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
