/* Removing a tree while somebody changes it. */
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
#include "fs/remove.h"
#include "support/remove_place.h"
#include "support/scratch.h"

/* --- A folder is swapped for a link at the worst moment -------------------------------------- */

/* Set: when rmdir(2) finds a folder of this name filled, it makes way for a link to `outside`. */
static const char *swapped;

/* Takes the place of libc's, for the code under test too. */
int unlinkat(int dir, const char *name, int flags)
{
    int got = (int)syscall(SYS_unlinkat, dir, name, flags);
    int errnum = errno;
    if (got != 0 && errnum == ENOTEMPTY && swapped != NULL && strcmp(name, swapped) == 0) {
        char target[PATH_MAX + 16];
        snprintf(target, sizeof target, "%s/outside", place.path);
        (void)renameat(dir, name, dir, "aside");
        (void)symlinkat(target, dir, name);
    }
    errno = errnum;
    return got;
}

/* Puts a folder "a" with something in it below `depth` folders. */
static void make_swappable(int depth)
{
    scratch_folder(place.fd, "tree", 0755);
    int tree = open_folder("tree");
    int deepest = scratch_chain(tree, depth);
    scratch_folder(deepest, "a", 0755);
    scratch_file(deepest, "a/f", "x");
    close(deepest);
    close(tree);
}

static void make_swappable_at_top(void)
{
    make_swappable(0);
}

static void make_swappable_below(void)
{
    make_swappable(31); /* there folders are moved to the top */
}

static void swapped_between_two_calls(void **state)
{
    (void)state;
    swapped = "a";
    expect_removed(make_swappable_at_top, (struct job){0});
    expect_removed(make_swappable_below, (struct job){0});
    swapped = NULL;
}

/* --- Somebody is still at work --------------------------------------------------------------- */

static void keep_filling(void *context)
{
    static unsigned count;
    char path[64];
    (void)context;
    /* Folders in folders, so that every level of the removal has somebody against it. */
    snprintf(path, sizeof path, "tree/%u", count % 8);
    mkdirat(place.fd, path, 0755);
    snprintf(path, sizeof path, "tree/%u/sub", count % 8);
    mkdirat(place.fd, path, 0755);
    snprintf(path, sizeof path, "tree/%u/sub/%u", count % 8, count);
    int fd = openat(place.fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
    count++;
}

static void ends_while_others_fill(void **state)
{
    (void)state;
    scratch_folder(place.fd, "tree", 0755);
    pid_t first = scratch_disturb(keep_filling, NULL);
    pid_t second = scratch_disturb(keep_filling, NULL);
    int64_t start = cv_clock_ms();
    int refused = 0;
    /* The bound is far above what the rescans take. */
    for (int i = 0; i < 20 && cv_clock_ms() - start < 1000; i++) {
        mkdirat(place.fd, "tree", 0755);
        refused += cv_remove_tree(place.fd, "tree", NULL, NULL) != 0;
    }
    int64_t took = cv_clock_ms() - start;
    scratch_calm(first);
    scratch_calm(second);
    print_message("%d removals gave up, %d ms\n", refused, (int)took);
    assert_true(took < 60000);
    remove_rest();
    assert_false(scratch_exists(place.fd, "tree"));
}

#define PAIRS 32

/* Exchanges a folder for a link, one pair after the other. */
static void swap_pairs(void *context)
{
    char folder[32], link[32];
    (void)context;
    for (int i = 0; i < PAIRS; i++) {
        snprintf(folder, sizeof folder, "tree/a%d", i);
        snprintf(link, sizeof link, "tree/link%d", i);
        (void)syscall(SYS_renameat2, place.fd, folder, place.fd, link, RENAME_EXCHANGE);
    }
}

/* Moves a folder out of the tree and in again. */
static void move_out_and_in(void *context)
{
    (void)context;
    (void)renameat(place.fd, "tree/a/b", place.fd, "outside/moved");
    (void)renameat(place.fd, "outside/moved", place.fd, "tree/a/b");
}

static void make_try(const char *format, ...)
{
    char path[256];
    va_list args;
    va_start(args, format);
    vsnprintf(path, sizeof path, format, args);
    va_end(args);
    (void)mkdirat(place.fd, path, 0);
    (void)fchmodat(place.fd, path, 0755, 0);
    strcat(path, "/f");
    int fd = openat(place.fd, path, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
}

/* Folders that turn into links to `outside` and back; teardown looks at what lies there. */
static void folder_swapped_for_a_link(void **state)
{
    (void)state;
    pid_t pid = scratch_disturb(swap_pairs, NULL);
    int64_t end = cv_clock_ms() + 500;
    int rounds = 0;
    while (cv_clock_ms() < end) {
        mkdirat(place.fd, "tree", 0755);
        for (int i = 0; i < PAIRS; i++) {
            char name[32];
            /* under another name first: the last one may be a link already */
            make_try("tree/new");
            snprintf(name, sizeof name, "tree/a%d", i);
            (void)renameat(place.fd, "tree/new", place.fd, name);
            snprintf(name, sizeof name, "tree/link%d", i);
            (void)symlinkat("../outside", place.fd, name);
        }
        (void)cv_remove_tree(place.fd, "tree", NULL, NULL);
        rounds++;
    }
    scratch_calm(pid);
    print_message("%d rounds\n", rounds);
    remove_rest();
}

/* A folder that moves out of the tree while it is being emptied. */
static void folder_moved_out(void **state)
{
    (void)state;
    pid_t pid = scratch_disturb(move_out_and_in, NULL);
    int64_t end = cv_clock_ms() + 500;
    int rounds = 0;
    while (cv_clock_ms() < end) {
        make_try("tree");
        make_try("tree/a");
        make_try("tree/a/b");
        make_try("tree/a/b/c");
        make_try("tree/a/b/c/d");
        (void)cv_remove_tree(place.fd, "tree", NULL, NULL);
        rounds++;
    }
    scratch_calm(pid);
    print_message("%d rounds\n", rounds);
    remove_rest();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(swapped_between_two_calls),
        TEST(ends_while_others_fill),
        LARGE_TEST(folder_swapped_for_a_link),
        LARGE_TEST(folder_moved_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
