/* Writing files: src/fs/file.h. */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>

#include "support/place.h"

static void makes_files_and_folders(void **state)
{
    (void)state;
    scratch_folder(place.root.fd, "closed", 0700);
    place_expect_write("f", "written");
    place_expect_write("a/b/c/f", "written");
    place_expect_write("closed/a/f", "written");
    place_expect_write("a//./b/../d/f", "written");
    place_expect_read("f", "=new");
    place_expect_read("a/b/c/f", "=new");
    place_expect_read("a/d/f", "=new");
    place_expect_mode("f", S_IFREG | 0644);
    place_expect_mode("a/b/c/f", S_IFREG | 0644);
    place_expect_mode("a", S_IFDIR | 0755);
    place_expect_mode("a/b/c", S_IFDIR | 0755);
    place_expect_mode("closed", S_IFDIR | 0700);
    place_expect_mode("closed/a", S_IFDIR | 0755);
    umask(077);
    place_expect_write("private/f", "written");
    place_expect_mode("private/f", S_IFREG | 0644);
    char path[PATH_MAX] = "";
    for (int i = 0; i < 500; i++)
        strcat(path, "deep/");
    strcat(path, "f");
    place_expect_write(path, "written");
    place_expect_read(path, "=new");
}

static void writes_all_bytes(void **state)
{
    (void)state;
    uint8_t *bytes = malloc(PLACE_MAX);
    for (size_t i = 0; i < PLACE_MAX; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 256);
    static const size_t sizes[] = {PLACE_MAX, 1, 0, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct cv_buf content;
        assert_int_equal(cv_file_write(&place.root, "f", sizes[i] == 0 ? NULL : bytes, sizes[i]),
                         0);
        assert_int_equal(cv_file_read(&place.root, "f", PLACE_MAX, &content), 0);
        assert_int_equal(cv_buf_length(&content), sizes[i]);
        if (sizes[i] > 0)
            assert_memory_equal(cv_buf_data(&content), bytes, sizes[i]);
        cv_buf_free(&content);
    }
    free(bytes);
}

static void keeps_the_mode(void **state)
{
    (void)state;
    static const struct {
        mode_t mode;
        mode_t kept;
    } modes[] = {{0644, 0644}, {0755, 0755}, {0600, 0600},  {0444, 0444},
                 {0, 0},       {0666, 0666}, {04755, 0755}, {03777, 0777}};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        scratch_file(place.root.fd, "f", "old");
        assert_int_equal(fchmodat(place.root.fd, "f", modes[i].mode, 0), 0);
        place_expect_write("f", "written");
        place_expect_mode("f", S_IFREG | modes[i].kept);
        assert_int_equal(unlinkat(place.root.fd, "f", 0), 0);
    }
}

static void keeps_the_owner(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    scratch_file(place.root.fd, "f", "old");
    assert_int_equal(fchownat(place.root.fd, "f", PLACE_NOBODY, PLACE_NOBODY - 1, 0), 0);
    assert_int_equal(fchmodat(place.root.fd, "f", 0640, 0), 0);
    place_expect_write("f", "written");
    place_expect_mode("f", S_IFREG | 0640);
    assert_int_equal(place_stat("f").st_uid, PLACE_NOBODY);
    assert_int_equal(place_stat("f").st_gid, PLACE_NOBODY - 1);
}

/* The link `path` stays, and `target` is what was written. */
static void expect_through(const char *path, const char *target)
{
    place_expect_write(path, "written");
    assert_int_equal(place_stat(path).st_mode & S_IFMT, S_IFLNK);
    assert_int_equal(place_stat(target).st_mode & S_IFMT, S_IFREG);
    place_expect_read(target, "=new");
    assert_string_equal(place_write(target, "old"), "written");
}

static void writes_through_links_that_stay_inside(void **state)
{
    (void)state;
    place_fill();
    int root = place.root.fd;
    assert_int_equal(fchmodat(root, "dir/f", 0755, 0), 0);
    expect_through("to_file", "f");
    expect_through("dir/back", "f");
    expect_through("absolute", "dir/f");
    expect_through("alias", "dir/f");
    expect_through("chain", "f");
    place_expect_mode("dir/f", S_IFREG | 0755);
    expect_through("dangling", "dir/none");
    place_expect_mode("dir/none", S_IFREG | 0644);
    place_link("far", "/new/folder/f");
    expect_through("far", "new/folder/f");
    scratch_link(root, "folder_to_be", "made/here");
    place_expect_write("folder_to_be/f", "written");
    place_expect_read("made/here/f", "=new");
    scratch_link(root, "link1", "dir/f");
    for (int i = 2; i <= 41; i++) {
        char name[16], target[16];
        snprintf(name, sizeof name, "link%d", i);
        snprintf(target, sizeof target, "link%d", i - 1);
        scratch_link(root, name, target);
    }
    expect_through("link40", "dir/f");
    place_expect_write("link41", "ELOOP");
    place_expect_write("loop", "ELOOP");
    place_expect_write("loop/f", "ELOOP");
    place_expect_write("file_slash", "EISDIR");
}

/* A name more of the old file keeps the old content. */
static void replaces_instead_of_overwriting(void **state)
{
    (void)state;
    scratch_file(place.root.fd, "f", "old");
    assert_int_equal(linkat(place.root.fd, "f", place.root.fd, "other", 0), 0);
    place_expect_write("f", "written");
    place_expect_read("f", "=new");
    place_expect_read("other", "=old");
}

static void never_writes_outside(void **state)
{
    (void)state;
    place_fill();
    int root = place.root.fd;
    scratch_link(root, "out_new", "../outside/new");
    scratch_link(root, "up", "..");
    scratch_link(root, "etc_new", "/etc/chamvi-new");
    scratch_link(root, "alias_up", "/workspace/../outside/new");
    scratch_link(root, "near", "/workspaces/new");
    static const char *const paths[] = {
        "out",     "out_dir/f",        "out_dir/new/f", "absolute_out",  "etc",
        "out_new", "up/new",           "up/outside/f",  "../outside/f",  "../new",
        "etc_new", "alias_up",         "near",          "dir/../../new", "new/../../../f",
        "zero",    "to_dir/../../new",
    };
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        place_expect_write(paths[i], "EXDEV");
    unsigned temporary = 0;
    int outside = openat(place.fd, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(place_count(outside, &temporary), 1);
    assert_false(scratch_exists(place.fd, "new"));
    assert_false(scratch_exists(AT_FDCWD, "/etc/chamvi-new"));
    close(outside);
    place.root.fd = scratch_open(place.path);
    assert_string_equal(place_read("outside/f", PLACE_MAX), "=outside");
    close(place.root.fd);
    place.root.fd = root;
}

static void paths_of_no_file(void **state)
{
    (void)state;
    place_fill();
    static const struct {
        const char *path;
        const char *expected;
    } table[] = {
        {"", "EISDIR"},     {".", "EISDIR"},      {"dir", "EISDIR"},        {"dir/", "EISDIR"},
        {"new/", "EISDIR"}, {"f/", "EISDIR"},     {"dir/.", "EISDIR"},      {"dir/..", "EISDIR"},
        {"f/x", "ENOTDIR"}, {"f/x/y", "ENOTDIR"}, {"to_file/x", "ENOTDIR"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        place_expect_write(table[i].path, table[i].expected);
    char name[2 * PATH_MAX];
    memset(name, 'n', sizeof name);
    name[NAME_MAX] = '\0';
    place_expect_write(name, "written");
    place_expect_read(name, "=new");
    name[NAME_MAX] = 'n';
    name[NAME_MAX + 1] = '\0';
    place_expect_write(name, "ENAMETOOLONG");
    place_expect_read(name, "ENAMETOOLONG");
    name[NAME_MAX + 1] = '/';
    name[NAME_MAX + 2] = '\0';
    strcat(name, "f");
    place_expect_write(name, "ENAMETOOLONG");
    for (size_t i = 1; i < PATH_MAX; i += 2)
        memcpy(name + i - 1, "d/", 2);
    memcpy(name + PATH_MAX, "f", 2);
    place_expect_write(name, "ENAMETOOLONG");
    place_expect_read(name, "ENAMETOOLONG");
}

/* What a failed write leaves: the old file, nothing new, no temporary file (see place_teardown). */
static const char *expect_old(const char *path, const char *expected)
{
    static char wrong[700];
    const char *got = place_write(path, "new content that is longer");
    if (strcmp(got, expected) != 0) {
        snprintf(wrong, sizeof wrong, "writing \"%s\": %s, expected %s", path, got, expected);
        return wrong;
    }
    return NULL;
}

static const char *write_with_a_file_limit(void *context)
{
    (void)context;
    struct rlimit limit = {.rlim_cur = 10, .rlim_max = 10};
    signal(SIGXFSZ, SIG_IGN);
    if (setrlimit(RLIMIT_FSIZE, &limit) != 0)
        return "no limit of the file size";
    const char *wrong = expect_old("f", "EFBIG");
    return wrong != NULL ? wrong : expect_old("new", "EFBIG");
}

static void a_failed_write_leaves_the_old_file(void **state)
{
    (void)state;
    scratch_file(place.root.fd, "f", "old");
    scratch_apart(write_with_a_file_limit, NULL);
    place_expect_read("f", "=old");
    place_expect_read("new", "ENOENT");
}

/* 64 KiB of disk. */
static const char *write_on_a_full_disk(void *context)
{
    static char wrong[700];
    static uint8_t bytes[100 * 1024];
    (void)context;
    if (scratch_mount(place.root_path) != NULL)
        return "no mount";
    place.root.fd = open(place.root_path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (strcmp(place_write("f", "old"), "written") != 0)
        return "can't write the first file";
    for (int i = 0; i < 3; i++) {
        const char *path = i == 0 ? "f" : i == 1 ? "new" : "a/b/new";
        errno = 0;
        if (cv_file_write(&place.root, path, bytes, sizeof bytes) == 0 || errno != ENOSPC) {
            snprintf(wrong, sizeof wrong, "%s: %s", path, strerror(errno));
            return wrong;
        }
    }
    if (strcmp(place_read("f", PLACE_MAX), "=old") != 0 ||
        strcmp(place_read("new", PLACE_MAX), "ENOENT") != 0)
        return "not as before";
    if (cv_file_write(&place.root, "f", bytes, 50 * 1024) != 0)
        return "something of the failed writes fills the disk";
    return NULL;
}

static void a_full_disk(void **state)
{
    (void)state;
    if (!scratch_may_mount(place.root_path))
        skip();
    scratch_apart(write_on_a_full_disk, NULL);
}

static const char *use_as_nobody(void *context)
{
    static char wrong[700];
    (void)context;
    static const struct {
        const char *path;
        const char *read;
        const char *write;
    } table[] = {
        {"secret", "EACCES", "EACCES"},       {"closed/f", "EACCES", "EACCES"},
        {"closed/a/f", "EACCES", "EACCES"},   {"readable", "=old", "EACCES"},
        {"new", "ENOENT", "EACCES"},          {"new/f", "ENOENT", "EACCES"},
        {"open/new", "ENOENT", "written"},    {"open/read_only", "=old", "written"},
        {"open/secret", "EACCES", "written"},
    };
    if (setgroups(0, NULL) != 0 || setgid(PLACE_NOBODY) != 0 || setuid(PLACE_NOBODY) != 0)
        return "can't become another user";
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const char *got = place_read(table[i].path, PLACE_MAX);
        if (strcmp(got, table[i].read) != 0) {
            snprintf(wrong, sizeof wrong, "reading %s: %s", table[i].path, got);
            return wrong;
        }
        got = place_write(table[i].path, "new");
        if (strcmp(got, table[i].write) != 0) {
            snprintf(wrong, sizeof wrong, "writing %s: %s", table[i].path, got);
            return wrong;
        }
    }
    return NULL;
}

static void permissions(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    int root = place.root.fd;
    static const struct {
        const char *path;
        mode_t mode;
    } files[] = {{"secret", 0600},
                 {"readable", 0644},
                 {"closed/f", 0644},
                 {"open/secret", 0600},
                 {"open/read_only", 0444}};
    scratch_folder(root, "closed", 0700);
    scratch_folder(root, "open", 0777);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        scratch_file(root, files[i].path, "old");
        assert_int_equal(fchmodat(root, files[i].path, files[i].mode, 0), 0);
    }
    scratch_apart(use_as_nobody, NULL);
    place_expect_read("secret", "=old");
    place_expect_read("open/read_only", "=new");
    place_expect_mode("open/read_only", S_IFREG | 0444);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(makes_files_and_folders),
        PLACE_TEST(writes_all_bytes),
        PLACE_TEST(keeps_the_mode),
        PLACE_TEST(keeps_the_owner),
        PLACE_TEST(writes_through_links_that_stay_inside),
        PLACE_TEST(replaces_instead_of_overwriting),
        PLACE_TEST(never_writes_outside),
        PLACE_TEST(paths_of_no_file),
        PLACE_TEST(a_failed_write_leaves_the_old_file),
        PLACE_TEST(a_full_disk),
        PLACE_TEST(permissions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
