/*
 * Files that are read and written while others change the same files, folders and links.
 *
 * CHAMVI_FILE_WRITES is the number of writes of each test here (default 6,000): with 100,000 the
 * program takes about a minute.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "support/place.h"

#define WRITES 6000
#define SWAPS_MAX 4

static unsigned writes(void)
{
    const char *wanted = getenv("CHAMVI_FILE_WRITES");
    return wanted == NULL ? WRITES : (unsigned)strtoul(wanted, NULL, 10);
}

/* ---- readers ------------------------------------------------------------------------------ */

#define PIECE 30000

/* In a process of its own; its exit code tells. */
static bool write_two_files_in_turns(void)
{
    static char a[PIECE], b[2 * PIECE];
    memset(a, 'a', sizeof a);
    memset(b, 'b', sizeof b);
    for (unsigned i = 0; i < writes() / 6; i++) {
        if (cv_file_write(&place.root, "f", a, sizeof a) != 0 ||
            cv_file_write(&place.root, "f", b, sizeof b) != 0)
            return false;
    }
    return true;
}

static void a_reader_sees_whole_files(void **state)
{
    (void)state;
    unsigned seen[2] = {0};
    int status;
    char first[PIECE];
    memset(first, 'a', sizeof first);
    assert_int_equal(cv_file_write(&place.root, "f", first, sizeof first), 0);
    pid_t writer = fork();
    assert_true(writer >= 0);
    if (writer == 0)
        _exit(write_two_files_in_turns() ? 0 : 1);
    while (waitpid(writer, &status, WNOHANG) == 0) {
        struct cv_buf content;
        assert_int_equal(cv_file_read(&place.root, "f", PLACE_MAX, &content), 0);
        const uint8_t *bytes = cv_buf_data(&content);
        size_t length = cv_buf_length(&content);
        bool second = length == (size_t)2 * PIECE;
        assert_true(second || length == PIECE);
        for (size_t i = 0; i < length; i++) {
            if (bytes[i] != (second ? 'b' : 'a'))
                fail_msg("byte %zu of %zu is %c", i, length, bytes[i]);
        }
        seen[second]++;
        cv_buf_free(&content);
    }
    assert_int_equal(status, 0);
    print_message("%u of one, %u of the other\n", seen[0], seen[1]);
}

/* ---- writers ------------------------------------------------------------------------------ */

/* Two names below the place that change their places all the time. */
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

static void expect_outside_as_it_was(void)
{
    unsigned temporary = 0;
    int outside = openat(place.fd, "outside", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(place_count(outside, &temporary), 3);
    assert_int_equal(place_count(place.fd, &temporary) > 0, 1);
    assert_int_equal(temporary, 0);
    close(outside);
    char content[8] = "";
    static const char *const names[] = {"outside/f", "outside/b/f"};
    for (size_t i = 0; i < 2; i++) {
        int fd = openat(place.fd, names[i], O_RDONLY | O_CLOEXEC);
        assert_int_equal(read(fd, content, sizeof content), 7);
        assert_memory_equal(content, "outside", 7);
        close(fd);
    }
}

static void make_disturbed(void)
{
    int root = place.root.fd;
    scratch_folder(root, "a", 0755);
    scratch_folder(root, "a/b", 0755);
    scratch_file(root, "a/f", "inside");
    scratch_file(root, "a/b/f", "inside");
    scratch_folder(root, "c", 0755);
    scratch_folder(root, "c/b", 0755);
    scratch_file(root, "c/f", "inside");
    scratch_file(place.fd, "outside/f", "outside");
    scratch_folder(place.fd, "outside/b", 0755);
    scratch_file(place.fd, "outside/b/f", "outside");
    scratch_link(root, "link", "../outside");
    place_link("absolute", "/a");
    place_link("absolute_file", "/a/f");
    scratch_link(root, "c/file_link", "../../outside/f");
    scratch_link(root, "c/folder_link", "../../outside/b");
}

static const char *const paths[] = {"a/f",
                                    "a/b/f",
                                    "a/b/../new",
                                    "a/made/on/the/way",
                                    "absolute/f",
                                    "absolute_file",
                                    "absolute/b/new",
                                    "c/f",
                                    "c/b/f",
                                    "c/b/made/new",
                                    "c/f",
                                    NULL};

/* Writes to the paths in turns while the names are swapped. */
static void write_while_swapping(const struct swap *swaps)
{
    pid_t pids[SWAPS_MAX];
    size_t count = 0;
    unsigned written = 0, refused = 0;
    int unexpected = 0;
    make_disturbed();
    for (; swaps[count].a != NULL; count++)
        pids[count] = scratch_disturb(swap_once, (void *)&swaps[count]);
    const char *const *path = paths;
    for (unsigned i = 0; i < writes() && unexpected == 0; i++) {
        path = *path == NULL ? paths : path;
        if (cv_file_write(&place.root, *path++, "written", 7) == 0)
            written++;
        else if (errno == EXDEV || errno == ENOENT || errno == ELOOP || errno == ENOTDIR)
            refused++;
        else
            unexpected = errno;
    }
    for (size_t i = 0; i < count; i++)
        scratch_calm(pids[i]);
    print_message("%u written, %u refused\n", written, refused);
    if (unexpected != 0)
        fail_msg("%s: %s", path[-1], strerror(unexpected));
    expect_outside_as_it_was();
    /* The names may have stood all the time where nothing can be written; this one never does. */
    assert_int_equal(cv_file_write(&place.root, "plain", "written", 7), 0);
}

static void a_folder_swapped_for_a_link(void **state)
{
    (void)state;
    static const struct swap swaps[] = {{"root/a", "root/link", RENAME_EXCHANGE}, {0}};
    write_while_swapping(swaps);
}

static void a_file_swapped_for_a_link(void **state)
{
    (void)state;
    static const struct swap swaps[] = {{"root/c/f", "root/c/file_link", RENAME_EXCHANGE}, {0}};
    write_while_swapping(swaps);
}

static void all_of_it_swapped(void **state)
{
    (void)state;
    static const struct swap swaps[] = {{"root/a", "root/link", RENAME_EXCHANGE},
                                        {"root/c/b", "root/c/folder_link", RENAME_EXCHANGE},
                                        {"root/c/f", "root/c/file_link", RENAME_EXCHANGE},
                                        {0}};
    write_while_swapping(swaps);
}

static void a_folder_that_comes_and_goes(void **state)
{
    (void)state;
    static const struct swap swaps[] = {{"root/a/b", "root/moved", 0}, {0}};
    write_while_swapping(swaps);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PLACE_TEST(a_reader_sees_whole_files),    PLACE_TEST(a_folder_swapped_for_a_link),
        PLACE_TEST(a_file_swapped_for_a_link),    PLACE_TEST(all_of_it_swapped),
        PLACE_TEST(a_folder_that_comes_and_goes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
