/*
 * The supervisor, black box: one that waits inside the kernel while it removes a workspace is not
 * taken for stuck. Here someone reads the base folder and is stopped in the middle of it, by a page
 * that comes late, which holds the folder's lock: rmdir(2) in it then waits uninterruptibly.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "support/harness.h"

/* Longer than a silent supervisor is given. */
#define HELD_MS 2500

static const struct sup_options create = {.flags = CV_HELLO_CREATE,
                                          .names = SUP_LIST("root", "tmp", "state")};

struct holder {
    int folder;
    int faults; /* userfaultfd */
    void *page;
    size_t size;
    pthread_t thread;
    long got;
};

static void *list_folder(void *context)
{
    struct holder *holder = context;
    holder->got = syscall(SYS_getdents64, holder->folder, holder->page, holder->size);
    return NULL;
}

/* False where the system has no faults for us to handle. */
static bool open_faults(struct holder *holder)
{
    struct uffdio_api api = {.api = UFFD_API};
    holder->faults = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
    if (holder->faults < 0)
        return false;
    holder->size = (size_t)sysconf(_SC_PAGESIZE);
    holder->page =
        mmap(NULL, holder->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct uffdio_register range = {
        .range = {.start = (uintptr_t)holder->page, .len = holder->size},
        .mode = UFFDIO_REGISTER_MODE_MISSING};
    return holder->page != MAP_FAILED && ioctl(holder->faults, UFFDIO_API, &api) == 0 &&
           ioctl(holder->faults, UFFDIO_REGISTER, &range) == 0;
}

static void need(bool there, const char *what)
{
    if (!there) {
        print_message("no %s here\n", what);
        skip();
    }
}

static void hold(struct holder *holder, const char *folder)
{
    struct uffd_msg message;
    holder->folder = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(holder->folder >= 0);
    assert_int_equal(pthread_create(&holder->thread, NULL, list_folder, holder), 0);
    assert_int_equal(read(holder->faults, &message, sizeof message), sizeof message);
    assert_int_equal(message.event, UFFD_EVENT_PAGEFAULT);
}

static void release(struct holder *holder)
{
    struct uffdio_zeropage page = {
        .range = {.start = (uintptr_t)holder->page, .len = holder->size}};
    assert_int_equal(ioctl(holder->faults, UFFDIO_ZEROPAGE, &page), 0);
    assert_int_equal(pthread_join(holder->thread, NULL), 0);
    assert_true(holder->got > 0);
    close(holder->folder);
    close(holder->faults);
    munmap(holder->page, holder->size);
}

/* Has a removal of the supervisor's take longer than a silent one is given. */
static void expect_patience(struct sup *sup, struct holder *holder)
{
    hold(holder, sup->base);
    sup_send(sup, CV_FRAME_REMOVE, SUP_REMOVE_ID, NULL, 0);
    sup_pump(sup, 10);          /* sends it */
    shutdown(sup->fd, SHUT_WR); /* what makes the guard impatient */
    sup_pump_for(sup, HELD_MS);
    bool over = sup->eof || sup->removed;
    release(holder); /* first: whoever cleans up after a failure needs the folder */
    assert_false(over);
    sup_wait_eof(sup);
    sup_expect_guard_exit(sup);
    assert_true(sup->removed);
    assert_int_equal(sup->survivors, 0);
}

static void test_blocked_removal_is_waited_for(void **state)
{
    (void)state;
    struct holder holder = {0};
    need(open_faults(&holder), "userfaultfd");
    expect_patience(sup_start(&create), &holder);
}

/* As where /proc is mounted with hidepid: nobody but root sees a process that is not dumpable. */
static void test_hidden_one_is_waited_for(void **state)
{
    (void)state;
    struct holder holder = {0};
    need(open_faults(&holder), "userfaultfd");
    need(unshare(CLONE_NEWNS) == 0 && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0,
         "mounts of its own");
    struct sup *sup = sup_start(&create);
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)sup->supervisor);
    assert_int_equal(mount("/dev/null", path, NULL, MS_BIND, NULL), 0);
    expect_patience(sup, &holder);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SUP_TEST(test_blocked_removal_is_waited_for),
        SUP_TEST(test_hidden_one_is_waited_for),
    };
    return SUP_MAIN(argc, argv, tests);
}
