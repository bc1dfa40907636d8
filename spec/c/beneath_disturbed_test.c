/* Opening beneath a root while somebody changes the path. */
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
#include "support/beneath_place.h"
#include "support/scratch.h"

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

#define TEST(function) cmocka_unit_test_setup_teardown(function, setup, disturbed_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(folder_swapped_for_a_link),
        TEST(file_swapped_for_a_link),
        TEST(folder_moved_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
