/* Reading files: src/fs/file.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/un.h>

#include "base/clock.h"
#include "support/place.h"

static const struct {
    const char *path;
    const char *read;
} reads[] = {
    {"f", "=root"},
    {"dir//./f", "=dir"},
    {"to_file", "=root"},
    {"to_dir/f", "=dir"},
    {"dir/back", "=root"},
    {"absolute", "=dir"},
    {"absolute_dir/f", "=dir"},
    {"alias", "=dir"},
    {"chain", "=root"},
    {"out", "EXDEV"},
    {"out_dir/f", "EXDEV"},
    {"absolute_out", "EXDEV"},
    {"etc", "EXDEV"},
    {"zero", "EXDEV"},
    {"../outside/f", "EXDEV"},
    {"none", "ENOENT"},
    {"none/f", "ENOENT"},
    {"dangling", "ENOENT"},
    {"f/x", "ENOTDIR"},
    {"f/", "ENOTDIR"},
    {"file_slash", "ENOTDIR"},
    {"", "EISDIR"},
    {"dir", "EISDIR"},
    {"to_dir", "EISDIR"},
    {"loop", "ELOOP"},
};

static const char *compare_reads(void *context)
{
    static char wrong[700];
    if (context != NULL)
        scratch_lose_call(SYS_openat2, *(int *)context);
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++) {
        const char *got = place_read(reads[i].path, PLACE_MAX);
        if (strcmp(got, reads[i].read) != 0) {
            snprintf(wrong, sizeof wrong, "reading \"%s\": %s, expected %s", reads[i].path, got,
                     reads[i].read);
            return wrong;
        }
    }
    return NULL;
}

static void reads_what_is_inside(void **state)
{
    (void)state;
    place_fill();
    const char *wrong = compare_reads(NULL);
    if (wrong != NULL)
        fail_msg("%s", wrong);
    int no_call = ENOSYS;
    scratch_apart(compare_reads, &no_call);
}

/* The root's path as it was given may lead through links; commands see the one without. */
static void links_by_the_real_path(void **state)
{
    (void)state;
    place_fill();
    place_expect_read("absolute", "=dir");
    place.root.path = "/nowhere/at/all";
    place_expect_read("absolute", "EXDEV");
    place_expect_write("absolute", "EXDEV");
    place.root.real = place.root_path;
    place_expect_read("absolute", "=dir");
    place_expect_write("absolute", "written");
    place_expect_read("dir/f", "=new");
}

static void make_large(const char *name, off_t size)
{
    int fd = openat(place.root.fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    assert_true(fd >= 0);
    assert_int_equal(ftruncate(fd, size), 0);
    close(fd);
}

static void reads_up_to_the_maximum(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, 4095, 4096, 65537, PLACE_MAX - 1, PLACE_MAX, PLACE_MAX + 1, 2 * PLACE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct cv_buf content;
        make_large("f", (off_t)sizes[i]);
        errno = 0;
        int done = cv_file_read(&place.root, "f", PLACE_MAX, &content);
        assert_int_equal(done, sizes[i] <= PLACE_MAX ? 0 : -1);
        if (done == 0)
            assert_int_equal(cv_buf_length(&content), sizes[i]);
        else
            assert_int_equal(errno, EFBIG);
        cv_buf_free(&content);
        assert_int_equal(unlinkat(place.root.fd, "f", 0), 0);
    }
    scratch_file(place.root.fd, "f", "four");
    assert_string_equal(place_read("f", 4), "=four");
    assert_string_equal(place_read("f", 3), "EFBIG");
    assert_string_equal(place_read("f", 0), "EFBIG");
    scratch_file(place.root.fd, "empty", "");
    assert_string_equal(place_read("empty", 0), "=");
    make_large("sparse", (off_t)1 << 40);
    assert_string_equal(place_read("sparse", PLACE_MAX), "EFBIG");
}

/* Files that say nothing of their size, as those of /proc. */
static void reads_files_without_a_size(void **state)
{
    (void)state;
    struct cv_root saved = place.root;
    place.root =
        (struct cv_root){.fd = scratch_open("/proc/self"), .path = "/proc/self", .alias = NULL};
    assert_int_equal(strncmp(place_read("status", PLACE_MAX), "=Name:", 6), 0);
    assert_string_equal(place_read("status", 10), "EFBIG");
    close(place.root.fd);
    place.root = saved;
}

/* Lets the file grow to 1 MiB, and begins anew. */
static void change_size(void *context)
{
    static const char bytes[1000];
    int fd = *(int *)context;
    if (write(fd, bytes, sizeof bytes) < 0 ||
        (lseek(fd, 0, SEEK_CUR) > (off_t)PLACE_MAX &&
         (ftruncate(fd, 0) != 0 || lseek(fd, 0, SEEK_SET) != 0)))
        _exit(1);
}

/* A file that changes its size all the time: never more than allowed, never a wait. */
static void reads_a_file_that_changes(void **state)
{
    (void)state;
    int fd = openat(place.root.fd, "f", O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    pid_t writer = scratch_disturb(change_size, &fd);
    unsigned whole = 0, large = 0;
    for (int64_t end = cv_clock_ms() + 150; cv_clock_ms() < end;) {
        struct cv_buf content;
        if (cv_file_read(&place.root, "f", 20000, &content) == 0) {
            assert_true(cv_buf_length(&content) <= 20000);
            whole++;
        } else {
            assert_int_equal(errno, EFBIG);
            large++;
        }
        cv_buf_free(&content);
    }
    scratch_calm(writer);
    print_message("%u read whole, %u too large\n", whole, large);
    close(fd);
}

static void make_socket(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s",
                         place.root.fd, name) > 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    close(fd);
}

/* Less than a lease makes others wait, and a pipe lets them wait for ever. */
#define WAITS_MS 30000

/* Neither read nor replaced, and nobody is waited for. */
static void only_regular_files(void **state)
{
    (void)state;
    int root = place.root.fd;
    assert_int_equal(mkfifoat(root, "fifo", 0644), 0);
    make_socket("socket");
    scratch_folder(root, "dir", 0755);
    scratch_link(root, "to_fifo", "fifo");
    scratch_link(root, "to_dir", "dir");
    static const struct {
        const char *path;
        const char *expected;
        mode_t type;
    } table[] = {
        {"fifo", "ENXIO", S_IFIFO},      {"to_fifo", "ENXIO", S_IFLNK},
        {"socket", "ENXIO", S_IFSOCK},   {"dir", "EISDIR", S_IFDIR},
        {"to_dir", "EISDIR", S_IFLNK},   {"device", "ENXIO", S_IFCHR},
        {"no_driver", "ENXIO", S_IFCHR},
    };
    bool devices = mknodat(root, "device", S_IFCHR | 0666, makedev(1, 5)) == 0 &&
                   mknodat(root, "no_driver", S_IFCHR | 0666, makedev(60, 77)) == 0;
    size_t count = sizeof table / sizeof *table - (devices ? 0 : 2);
    int64_t start = cv_clock_ms();
    for (size_t i = 0; i < count; i++) {
        place_expect_read(table[i].path, table[i].expected);
        place_expect_write(table[i].path, table[i].expected);
        assert_int_equal(place_stat(table[i].path).st_mode & S_IFMT, table[i].type);
    }
    /* the same with somebody at the other end */
    int other = openat(root, "fifo", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    assert_int_equal(write(other, "text", 4), 4);
    place_expect_read("fifo", "ENXIO");
    place_expect_write("fifo", "ENXIO");
    close(other);
    assert_true(cv_clock_ms() - start < WAITS_MS);
}

/* Who holds a lease on a file (fcntl(2)) makes others wait for it up to 45 s. */
static void a_lease_makes_nobody_wait(void **state)
{
    (void)state;
    scratch_file(place.root.fd, "f", "leased");
    int fd = openat(place.root.fd, "f", O_RDWR | O_CLOEXEC);
    signal(SIGIO, SIG_IGN);
    if (fcntl(fd, F_SETLEASE, F_WRLCK) != 0) {
        print_message("this file system has no leases: not tested\n");
    } else {
        int64_t start = cv_clock_ms();
        place_expect_read("f", "EAGAIN");
        place_expect_write("f", "written");
        assert_true(cv_clock_ms() - start < WAITS_MS);
        place_expect_read("f", "=new");
    }
    close(fd);
    signal(SIGIO, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(reads_what_is_inside),      PLACE_TEST(links_by_the_real_path),
        PLACE_TEST(reads_up_to_the_maximum),   PLACE_TEST(reads_files_without_a_size),
        PLACE_TEST(reads_a_file_that_changes), PLACE_TEST(only_regular_files),
        PLACE_TEST(a_lease_makes_nobody_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
