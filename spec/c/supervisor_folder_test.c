/* The supervisor, black box: the folders of a workspace, made by hello and deleted by remove. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/linux.h"
#include "support/harness.h"

static const struct sup_options create = {.flags = CV_HELLO_CREATE,
                                          .names = SUP_LIST("root", "tmp", "state")};

static bool exists(struct sup *sup, const char *name)
{
    struct stat stat;
    return lstat(sup_path(sup->base, name), &stat) == 0;
}

static void expect_folder(struct sup *sup, const char *name)
{
    struct stat stat_of;
    assert_int_equal(lstat(sup_path(sup->base, name), &stat_of), 0);
    assert_int_equal(stat_of.st_mode, S_IFDIR | 0700);
    assert_int_equal(stat_of.st_uid, geteuid());
}

static void remove_and_wait(struct sup *sup)
{
    sup_send(sup, CV_FRAME_REMOVE, SUP_REMOVE_ID, NULL, 0);
    sup_wait_eof(sup);
    sup_expect_guard_exit(sup);
}

static void expect_removed(struct sup *sup)
{
    remove_and_wait(sup);
    if (sup->failed)
        sup_fail("remove failed: failure %u, errno %u", sup->failure, sup->errnum);
    assert_true(sup->removed);
    assert_int_equal(sup->survivors, 0);
}

/* Hello must be refused, with the end of the stream behind the error. */
static void expect_refused(struct sup *sup, const struct sup_options *options, int errnum)
{
    sup_hello(sup, options);
    sup_wait_eof(sup);
    sup_expect_guard_exit(sup);
    assert_false(sup->ready);
    assert_true(sup->failed);
    assert_int_equal(sup->failure, CV_FAILURE_SETUP);
    if (errnum != 0)
        assert_int_equal(sup->errnum, errnum);
}

static void no_umask(struct sup *sup)
{
    (void)sup;
    umask(0);
}

static void tight_umask(struct sup *sup)
{
    (void)sup;
    umask(0777);
}

static void test_create(void **state)
{
    (void)state;
    static void (*const umasks[])(struct sup *) = {NULL, no_umask, tight_umask};
    for (size_t i = 0; i < sizeof umasks / sizeof *umasks; i++) {
        struct sup_options options = create;
        options.prepare = umasks[i];
        struct sup *sup = sup_start(&options);
        expect_folder(sup, "root");
        expect_folder(sup, "tmp");
        expect_folder(sup, "state");
        uint32_t id = sup_argv(sup, SUP_LIST("/bin/pwd", "-P"));
        sup_expect_exit(sup, id, 0);
        char expected[256];
        snprintf(expected, sizeof expected, "%s/root\n", sup->base);
        assert_string_equal(sup_out(sup, id), expected);
        sup_end(sup);
        expect_folder(sup, "root"); /* a close without remove deletes nothing */
    }
}

static void test_create_makes_the_base(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    assert_int_equal(rmdir(sup->base), 0);
    sup_hello(sup, &create);
    sup_wait_ready(sup);
    expect_folder(sup, "root");
    sup_expect_serving(sup);
    expect_removed(sup);
}

static void test_create_refuses_what_exists(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    assert_int_equal(mkdir(sup_path(sup->base, "root"), 0755), 0);
    sup_write_file(sup_path(sup->base, "root"), "precious", "x", 1, 0644);
    expect_refused(sup, &create, EEXIST);
    assert_true(exists(sup, "root/precious"));

    sup = sup_spawn(NULL);
    assert_int_equal(symlink("/tmp", sup_path(sup->base, "root")), 0);
    expect_refused(sup, &create, EEXIST);

    sup = sup_spawn(NULL);
    sup_write_file(sup->base, "state", "x", 1, 0644);
    expect_refused(sup, &create, EEXIST);
    assert_true(exists(sup, "state"));
}

static void test_missing_folders_are_refused(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    expect_refused(sup, &(struct sup_options){.names = SUP_LIST("root")}, ENOENT);
    sup = sup_spawn(&(struct sup_options){.base = "/no/such/base"});
    expect_refused(sup, NULL, ENOENT);
    sup = sup_spawn(NULL);
    sup_write_file(sup->base, "root", "x", 1, 0644);
    expect_refused(sup, &(struct sup_options){.names = SUP_LIST("root")}, 0);
}

/* The root must be the folder itself: a link could lead anywhere. */
static void test_root_that_is_a_link_is_refused(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    assert_int_equal(symlink("/tmp", sup_path(sup->base, "root")), 0);
    expect_refused(sup, &(struct sup_options){.names = SUP_LIST("root")}, 0);
}

static void test_remove_kills_and_deletes(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&create);
    sup_write_file(sup->base, "foreign", "x", 1, 0644);
    assert_int_equal(mkdir(sup_path(sup->temp, "outside"), 0755), 0);
    sup_write_file(sup_path(sup->temp, "outside"), "precious", "x", 1, 0644);
    char script[1024];
    snprintf(script, sizeof script,
             "mkdir -p a/b/c ../tmp/x && echo 1 >a/b/c/file && echo 2 >../tmp/x/y &&"
             " ln -s '%s/outside' link && ln -s '%s/outside' ../tmp/link && mkfifo pipe &&"
             " i=0; while [ $i -lt 400 ]; do echo $i >a/f$i; i=$((i+1)); done;"
             " d=deep; for i in $(seq 200); do mkdir $d && cd $d || exit 1; done; cd / ;"
             " exit 0",
             sup->temp, sup->temp);
    sup_expect_exit(sup, sup_sh(sup, script), 0);
    sup_expect_exit(sup, sup_sh(sup, "mkdir locked && touch locked/in && chmod 000 locked a/b"), 0);
    sup_populate(sup);
    expect_removed(sup);
    assert_false(exists(sup, "root") || exists(sup, "tmp") || exists(sup, "state"));
    assert_true(exists(sup, "foreign"));
    assert_int_equal(access(sup_path(sup->temp, "outside/precious"), F_OK), 0);
}

static void test_remove_ends_a_storm_first(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&create);
    sup_act(sup, SUP_LIST("storm", "@", "hop"));
    for (int i = 0; i < 4; i++)
        sup_act(sup, SUP_LIST("litter", "@"));
    sup_pump_for(sup, 500);
    expect_removed(sup);
    assert_false(exists(sup, "root"));
}

/* What the commands deleted, moved or replaced is no reason to fail. */
static void test_remove_with_missing_names(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&create);
    sup_expect_exit(sup, sup_sh(sup, "rmdir ../tmp && echo x >../tmp && rm -r \"$PWD\""), 0);
    expect_removed(sup);
    assert_false(exists(sup, "root") || exists(sup, "tmp") || exists(sup, "state"));
}

static void test_remove_of_a_link_spares_its_target(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&create);
    assert_int_equal(mkdir(sup_path(sup->temp, "outside"), 0755), 0);
    sup_write_file(sup_path(sup->temp, "outside"), "precious", "x", 1, 0644);
    char script[256];
    snprintf(script, sizeof script, "rm -r ../tmp && ln -s '%s/outside' ../tmp", sup->temp);
    sup_expect_exit(sup, sup_sh(sup, script), 0);
    expect_removed(sup);
    assert_false(exists(sup, "tmp"));
    assert_int_equal(access(sup_path(sup->temp, "outside/precious"), F_OK), 0);
}

static void test_remove_without_names_deletes_nothing(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_write_file(sup->base, "file", "x", 1, 0644);
    sup_populate(sup);
    expect_removed(sup);
    assert_true(exists(sup, "file"));
}

static void test_remove_only(void **state)
{
    (void)state;
    const struct sup_options options = {.flags = CV_HELLO_REMOVE_ONLY,
                                        .names = SUP_LIST("root", "state")};
    struct sup *sup = sup_spawn(NULL);
    assert_int_equal(mkdir(sup_path(sup->base, "root"), 0755), 0);
    sup_write_file(sup_path(sup->base, "root"), "file", "x", 1, 0644);
    sup_write_file(sup->base, "state", "x", 1, 0644);
    sup_hello(sup, &options);
    sup_wait_ready(sup);
    expect_removed(sup);
    assert_false(exists(sup, "root") || exists(sup, "state"));

    sup = sup_start(&options); /* neither of the names is there */
    expect_removed(sup);

    sup = sup_spawn(NULL); /* nor is the base */
    assert_int_equal(rmdir(sup->base), 0);
    sup_hello(sup, &options);
    sup_wait_ready(sup);
    expect_removed(sup);
    assert_false(exists(sup, "."));
}

/* A mount point is neither crossed nor emptied, and the answer says so. */
static void test_remove_that_fails(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&create);
    assert_int_equal(mkdir(sup_path(sup->base, "root/mount"), 0755), 0);
    const char *mount_point = sup_path(sup->base, "root/mount");
    if (mount("none", mount_point, "tmpfs", 0, "size=1m") != 0)
        skip();
    sup_write_file(mount_point, "precious", "x", 1, 0644);
    sup_populate(sup);
    remove_and_wait(sup);
    bool kept = access(sup_path(mount_point, "precious"), F_OK) == 0;
    umount2(mount_point, MNT_DETACH);
    assert_true(kept);
    assert_false(sup->removed);
    assert_true(sup->failed);
    assert_int_equal(sup->failure, CV_FAILURE_REMOVE);
    assert_false(exists(sup, "tmp") || exists(sup, "state")); /* the rest is gone all the same */
}

/* The host closes its side right behind the frame: a state that ends doesn't wait. */
static void test_remove_by_a_host_that_does_not_wait(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&create);
    sup_expect_exit(sup, sup_sh(sup, "mkdir -p a/b; for i in $(seq 300); do echo >a/b/$i; done"),
                    0);
    sup_populate(sup);
    sup_send(sup, CV_FRAME_REMOVE, SUP_REMOVE_ID, NULL, 0);
    sup_pump(sup, 0);
    shutdown(sup->fd, SHUT_WR);
    close(sup->fd);
    sup->fd = -1;
    sup->eof = true;
    sup_wait_dead(sup);
    sup_expect_guard_exit(sup);
    assert_false(exists(sup, "root") || exists(sup, "tmp") || exists(sup, "state"));
}

/*
 * In the place of the host, one that has ended before the program runs, and whose last words lie in
 * the socket by then.
 */
static void dead_host(struct sup *sup)
{
    struct pollfd words = {.fd = 4, .events = POLLIN};
    (void)sup;
    pid_t host = fork();
    if (host == 0)
        _exit(0);
    int pidfd = cv_pidfd_open(host);
    struct pollfd death = {.fd = pidfd, .events = POLLIN};
    if (dup2(pidfd, 3) != 3 || poll(&death, 1, -1) != 1 || poll(&words, 1, -1) != 1)
        _exit(97);
}

/* Runs to its end a supervisor whose host said hello, and perhaps remove, and was gone before. */
static struct sup *run_orphan(struct sup_options options, const char *record, bool remove)
{
    options.prepare = dead_host;
    struct sup *sup = sup_spawn(&options);
    if (record != NULL)
        sup_write_file(sup->base, record, "{}", 2, 0600);
    if ((options.flags & CV_HELLO_CREATE) == 0)
        assert_int_equal(mkdir(sup_path(sup->base, "root"), 0755), 0);
    sup_hello(sup, &options);
    if (remove)
        sup_send(sup, CV_FRAME_REMOVE, SUP_REMOVE_ID, NULL, 0);
    sup_wait_eof(sup);
    sup_expect_guard_exit(sup);
    assert_false(sup->ready);
    assert_int_equal(sup->removed, remove);
    return sup;
}

/* The host wrote the record, then the hello, and a removal in its own end: nothing stays. */
static void test_host_is_gone_before_its_hello_is_read(void **state)
{
    (void)state;
    struct sup_options options = create;
    options.flags |= CV_HELLO_RECORD;
    struct sup *sup = run_orphan(options, "state", true);
    assert_false(exists(sup, "root") || exists(sup, "tmp") || exists(sup, "state"));

    /* What has the name of a folder that was never made is another's. */
    options.names = SUP_LIST("foreign", "state");
    options.base = sup->base;
    assert_int_equal(mkdir(sup_path(sup->base, "foreign"), 0755), 0);
    sup = run_orphan(options, "state", true);
    assert_true(exists(sup, "foreign"));
    assert_false(exists(sup, "state"));

    options.flags = CV_HELLO_CREATE;
    sup = run_orphan(options, "state", true);
    assert_true(exists(sup, "foreign") && exists(sup, "state"));
}

static void test_host_is_gone_and_its_workspace_was_there(void **state)
{
    (void)state;
    static const uint32_t flags[] = {0, CV_HELLO_RECORD, CV_HELLO_REMOVE_ONLY,
                                     CV_HELLO_REMOVE_ONLY | CV_HELLO_RECORD};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        const struct sup_options options = {.flags = flags[i], .names = SUP_LIST("root", "state")};
        struct sup *sup = run_orphan(options, "state", true);
        assert_false(exists(sup, "root") || exists(sup, "state"));
    }
}

/* A host that was killed: its workspace is left to a collection. */
static void test_host_is_gone_and_wanted_no_removal(void **state)
{
    (void)state;
    struct sup_options options = create;
    options.flags |= CV_HELLO_RECORD;
    struct sup *sup = run_orphan(options, "state", false);
    assert_true(exists(sup, "state"));
    assert_false(exists(sup, "root") || exists(sup, "tmp"));

    options.flags = 0;
    sup = run_orphan(options, "state", false);
    assert_true(exists(sup, "root") && exists(sup, "state"));
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SUP_TEST(test_create),
        SUP_TEST(test_create_makes_the_base),
        SUP_TEST(test_create_refuses_what_exists),
        SUP_TEST(test_missing_folders_are_refused),
        SUP_TEST(test_root_that_is_a_link_is_refused),
        SUP_TEST(test_remove_kills_and_deletes),
        SUP_TEST(test_remove_ends_a_storm_first),
        SUP_TEST(test_remove_with_missing_names),
        SUP_TEST(test_remove_of_a_link_spares_its_target),
        SUP_TEST(test_remove_without_names_deletes_nothing),
        SUP_TEST(test_remove_only),
        SUP_TEST(test_remove_that_fails),
        SUP_TEST(test_remove_by_a_host_that_does_not_wait),
        SUP_TEST(test_host_is_gone_before_its_hello_is_read),
        SUP_TEST(test_host_is_gone_and_its_workspace_was_there),
        SUP_TEST(test_host_is_gone_and_wanted_no_removal),
    };
    return SUP_MAIN(argc, argv, tests);
}
