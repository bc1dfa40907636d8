/* The supervisor, black box: whole files read and written, and a host that asks for too much. */
#include <errno.h>
#include <grp.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/harness.h"
#include "support/scratch.h"

#define NOBODY 65534

/* `size` bytes that differ from place to place; lives until the next call. */
static const uint8_t *content(size_t size)
{
    static uint8_t bytes[CV_FILE_MAX + 1];
    for (size_t i = 0; i < size; i++)
        bytes[i] = (uint8_t)(i * 7 + i / 251);
    return bytes;
}

static void expect_written(struct sup *sup, const char *path, const void *bytes, size_t length)
{
    sup_wait(sup, sup_ask_write(sup, path, bytes, length));
}

/* The content of the file is `size` bytes of content(). */
static void expect_content(struct sup *sup, uint32_t id, size_t size)
{
    const struct sup_run *run = sup_wait(sup, id);
    assert_int_equal(run->out.bytes, size);
    if (size > 0)
        assert_memory_equal(cv_buf_data(&run->out.kept), content(size), size);
}

static void expect_read_failure(struct sup *sup, const char *path, uint32_t failure)
{
    sup_wait_failure(sup, sup_ask_read(sup, path, CV_FILE_MAX), failure);
}

static void expect_write_failure(struct sup *sup, const char *path, uint32_t failure)
{
    sup_wait_failure(sup, sup_ask_write(sup, path, "new", 3), failure);
}

static void sh(struct sup *sup, const char *script)
{
    sup_expect_exit(sup, sup_sh(sup, script), 0);
}

static mode_t mode_of(struct sup *sup, const char *name)
{
    struct stat info;
    assert_int_equal(lstat(sup_path(sup->base, name), &info), 0);
    return info.st_mode;
}

static void test_any_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {0,
                                   1,
                                   CV_FRAME_PAYLOAD_MAX - 1,
                                   CV_FRAME_PAYLOAD_MAX,
                                   CV_FRAME_PAYLOAD_MAX + 1,
                                   SUP_CREDIT + 1,
                                   CV_FILE_MAX};
    struct sup *sup = sup_start(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        expect_written(sup, "a/f", content(sizes[i]), sizes[i]);
        expect_content(sup, sup_ask_read(sup, "a/f", CV_FILE_MAX), sizes[i]);
        expect_content(sup, sup_ask_read(sup, "a/f", (uint32_t)sizes[i]), sizes[i]);
        if (sizes[i] > 0)
            sup_wait_failure(sup, sup_ask_read(sup, "a/f", (uint32_t)sizes[i] - 1),
                             CV_FAILURE_FILE_TOO_LARGE);
    }
    sh(sup, "printf x >>a/f");
    expect_read_failure(sup, "a/f", CV_FAILURE_FILE_TOO_LARGE);
    sup_end(sup);
}

static void no_umask(struct sup *sup)
{
    (void)sup;
    umask(0);
}

static void full_umask(struct sup *sup)
{
    (void)sup;
    umask(077);
}

/* Whatever the host's umask is. */
static void test_modes(void **state)
{
    (void)state;
    void (*const umasks[])(struct sup *) = {no_umask, full_umask};
    for (int i = 0; i < 2; i++) {
        struct sup *sup = sup_start(&(struct sup_options){.prepare = umasks[i]});
        expect_written(sup, "a/b/f", "new", 3);
        assert_int_equal(mode_of(sup, "a"), S_IFDIR | 0755);
        assert_int_equal(mode_of(sup, "a/b"), S_IFDIR | 0755);
        assert_int_equal(mode_of(sup, "a/b/f"), S_IFREG | 0644);
        sh(sup, "chmod 750 a/b/f");
        expect_written(sup, "a/b/f", "newer", 5);
        assert_int_equal(mode_of(sup, "a/b/f"), S_IFREG | 0750);
        sup_end(sup);
    }
}

static void test_every_failure(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    char long_name[300];
    memset(long_name, 'n', sizeof long_name - 1);
    long_name[sizeof long_name - 1] = '\0';
    sh(sup, "mkdir dir; mkfifo fifo; echo text >f; ln -s loop loop; ln -s /dev/zero zero;"
            "ln -s .. up; ln -s nothing dangling; truncate -s 2M large");
    const struct {
        const char *path;
        uint32_t read;
        uint32_t write;
    } table[] = {
        {"none", CV_FAILURE_FILE_NOT_FOUND, 0},
        {"dangling", CV_FAILURE_FILE_NOT_FOUND, 0},
        {"", CV_FAILURE_NOT_A_FILE, CV_FAILURE_NOT_A_FILE},
        {"dir", CV_FAILURE_NOT_A_FILE, CV_FAILURE_NOT_A_FILE},
        {"fifo", CV_FAILURE_NOT_A_FILE, CV_FAILURE_NOT_A_FILE},
        {"f/x", CV_FAILURE_NOT_A_FILE, CV_FAILURE_NOT_A_FILE},
        {"large", CV_FAILURE_FILE_TOO_LARGE, 0},
        {"zero", CV_FAILURE_OUTSIDE, CV_FAILURE_OUTSIDE},
        {"up/f", CV_FAILURE_OUTSIDE, CV_FAILURE_OUTSIDE},
        {"../f", CV_FAILURE_OUTSIDE, CV_FAILURE_OUTSIDE},
        {"loop", CV_FAILURE_FILE, CV_FAILURE_FILE},
        {long_name, CV_FAILURE_FILE_PATH, CV_FAILURE_FILE_PATH},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        expect_read_failure(sup, table[i].path, table[i].read);
        if (table[i].write != 0)
            expect_write_failure(sup, table[i].path, table[i].write);
        else
            expect_written(sup, table[i].path, "new", 3);
    }
    sup_end(sup);
}

static void become_nobody(struct sup *sup)
{
    (void)sup;
    if (setgroups(0, NULL) != 0 || setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        _exit(98);
}

/* The base is root's, and a workspace without names of its own may be anybody's. */
static void test_permissions(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    struct sup *sup = sup_start(&(struct sup_options){.prepare = become_nobody});
    sup_write_file(sup->base, "secret", "old", 3, 0600);
    sup_write_file(sup->base, "f", "old", 3, 0666);
    expect_read_failure(sup, "secret", CV_FAILURE_PERMISSION);
    expect_write_failure(sup, "f", CV_FAILURE_PERMISSION);
    expect_write_failure(sup, "new", CV_FAILURE_PERMISSION);
    expect_write_failure(sup, "new/f", CV_FAILURE_PERMISSION);
    sup_end(sup);
}

static void mount_on_base(struct sup *sup, const char *options, unsigned long flags)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", "none", MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", sup->base, "tmpfs", flags, options) != 0)
        _exit(98);
}

static void small_disk(struct sup *sup)
{
    mount_on_base(sup, "size=64k", 0);
}

static void read_only_disk(struct sup *sup)
{
    mount_on_base(sup, "", MS_RDONLY);
}

static void test_disks(void **state)
{
    (void)state;
    if (!scratch_may_mount("/tmp"))
        skip();
    struct sup *sup = sup_start(&(struct sup_options){.prepare = small_disk});
    expect_written(sup, "f", "old", 3);
    sup_wait_failure(sup, sup_ask_write(sup, "f", content(100000), 100000), CV_FAILURE_NO_SPACE);
    expect_written(sup, "g", content(50000), 50000); /* nothing of it is left */
    sup_expect_exit(sup,
                    sup_sh(sup, "[ \"$(cat f; ls -A)\" = 'old"
                                "f\ng' ]"),
                    0);
    sup_end(sup);
    sup = sup_start(&(struct sup_options){.prepare = read_only_disk});
    expect_write_failure(sup, "f", CV_FAILURE_PERMISSION);
    expect_write_failure(sup, "a/f", CV_FAILURE_PERMISSION);
    sup_end(sup);
}

static void test_gone(void **state)
{
    (void)state;
    static const char *const scripts[] = {"rm -r \"$PWD\"",
                                          "mv \"$PWD\" \"$PWD.old\"; mkdir \"$PWD\""};
    for (int i = 0; i < 2; i++) {
        struct sup *sup = sup_start(
            &(struct sup_options){.flags = CV_HELLO_CREATE, .names = SUP_LIST("root", "tmp")});
        expect_written(sup, "f", "text", 4);
        sup_wait(sup, sup_sh(sup, scripts[i]));
        expect_read_failure(sup, "f", CV_FAILURE_GONE);
        expect_write_failure(sup, "f", CV_FAILURE_GONE);
        sup_end(sup);
    }
}

/* ---- under the credit --------------------------------------------------------------------- */

static void test_content_comes_under_the_credit(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.credit = 100, .hold_credit = true});
    expect_written(sup, "f", content(100000), 100000);
    expect_written(sup, "g", "text", 4);
    uint32_t first = sup_ask_read(sup, "f", CV_FILE_MAX);
    uint32_t second = sup_ask_read(sup, "g", CV_FILE_MAX);
    sup_wait_out(sup, first, 100);
    sup_pump_for(sup, 100);
    assert_int_equal(sup_of(sup, first)->out.bytes, 100);
    /* what needs no credit goes on */
    sh(sup, "true");
    expect_written(sup, "h", content(CV_FILE_MAX), CV_FILE_MAX);
    sup_credit(sup, 50000);
    sup_wait_out(sup, first, 50100);
    sup_pump_for(sup, 100);
    assert_int_equal(sup_of(sup, first)->out.bytes, 50100);
    assert_int_equal(sup_of(sup, second)->out.bytes, 0);
    sup_credit(sup, 49903);
    expect_content(sup, first, 100000);
    sup_wait_out(sup, second, 3);
    assert_false(sup_of(sup, second)->ended);
    sup_credit(sup, 1);
    sup_wait(sup, second);
    assert_memory_equal(cv_buf_data(&sup_of(sup, second)->out.kept), "text", 4);
    sup_end(sup);
}

/*
 * Reads and a command that prints without end share what there is: both go on while there are
 * always some of the other.
 */
static void test_shares_with_a_loud_command(void **state)
{
    (void)state;
    enum { UNDER_WAY = 10 };
    struct sup *sup = sup_start(NULL);
    expect_written(sup, "f", content(CV_FILE_MAX), CV_FILE_MAX);
    uint32_t loud =
        sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("/bin/sh", "-c", "exec cat /dev/zero"),
                                         .flags = CV_START_STREAM_ALL});
    sup_wait_out(sup, loud, 1000000);
    uint32_t ids[UNDER_WAY];
    const uint64_t before = sup_of(sup, loud)->out.bytes;
    for (int i = 0; i < UNDER_WAY; i++)
        ids[i] = sup_ask_read(sup, "f", CV_FILE_MAX);
    int files = 0;
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
         files < UNDER_WAY || sup_of(sup, loud)->out.bytes - before <= 1024 * 1024; files++) {
        assert_true(cv_clock_ms() < until);
        expect_content(sup, ids[files % UNDER_WAY], CV_FILE_MAX);
        cv_buf_free(&sup_of(sup, ids[files % UNDER_WAY])->out.kept);
        ids[files % UNDER_WAY] = sup_ask_read(sup, "f", CV_FILE_MAX);
    }
    print_message("    %llu bytes printed beside %d MiB of files\n",
                  (unsigned long long)(sup_of(sup, loud)->out.bytes - before), files);
    sup_abort(sup, loud);
    sup_wait(sup, loud);
    sup_end(sup);
}

static void test_many_reads_make_nothing_grow(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    expect_written(sup, "f", content(CV_FILE_MAX), CV_FILE_MAX);
    sup_note_memory(sup);
    sup->deaf = true;
    uint32_t first = sup->last_id + 1;
    for (int i = 0; i < CV_FILE_READS_MAX; i++)
        sup_ask_read(sup, "f", CV_FILE_MAX);
    sup_pump_for(sup, 500);
    sup_expect_small(sup, 8 * 1024);
    sup->deaf = false;
    for (uint32_t id = first; id <= sup->last_id; id++) {
        const struct sup_run *run = sup_wait(sup, id);
        assert_int_equal(run->out.bytes, CV_FILE_MAX);
        cv_buf_free(&sup_of(sup, id)->out.kept);
    }
    sup_end(sup);
}

static void test_many_writes_make_nothing_grow(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_note_memory(sup);
    uint32_t last = 0;
    for (int i = 0; i < 100; i++)
        last = sup_ask_write(sup, "f", content(CV_FILE_MAX), CV_FILE_MAX);
    sup_wait(sup, last);
    sup_expect_small(sup, 1024);
    expect_content(sup, sup_ask_read(sup, "f", CV_FILE_MAX), CV_FILE_MAX);
    sup_end(sup);
}

/* A host that sends slowly, or a supervisor that reads slowly, is no reason to be taken for lost.
 */
static void test_pings_while_a_request_comes(void **state)
{
    static const uint8_t part[1000];
    uint8_t header[CV_FRAME_HEADER_SIZE];
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.ping_ms = 50});
    sup_pump_for(sup, 200);
    assert_int_equal(sup->pings, 0);
    cv_frame_header(header, CV_FRAME_WRITE_FILE, CV_FRAME_MORE, 7, sizeof part);
    sup_send_raw(sup, header, 5); /* a part of a frame */
    sup_wait_pings(sup, 2);
    sup_send_raw(sup, header + 5, sizeof header - 5);
    sup_send_raw(sup, part, sizeof part); /* a part of a message */
    sup_wait_pings(sup, sup->pings + 3);  /* one may have been on its way */
    sup_end(sup);
}

static void test_pings_while_a_read_waits(void **state)
{
    (void)state;
    struct sup *sup =
        sup_start(&(struct sup_options){.credit = 1, .hold_credit = true, .ping_ms = 50});
    expect_written(sup, "f", "text", 4);
    sup_pump_for(sup, 200);
    assert_int_equal(sup->pings, 0);
    int64_t start_ms = cv_clock_ms();
    uint32_t id = sup_ask_read(sup, "f", 4);
    sup_wait_pings(sup, 4);
    assert_in_range(sup->pings, 4, (cv_clock_ms() - start_ms) / 50 + 1);
    sup_credit(sup, 3);
    sup_wait(sup, id);
    sup_end(sup);
}

/* ---- a host that breaks the rules --------------------------------------------------------- */

static void expect_end(struct sup *sup, const char *what)
{
    print_message("    %s\n", what);
    sup_wait_eof(sup);
    if (!sup->failed || sup->failure != CV_FAILURE_PROTOCOL)
        sup_fail("no protocol error, but %u", sup->failure);
    sup_expect_guard_exit(sup);
    sup_teardown(NULL);
}

static void test_broken_requests_end_the_stream(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint8_t type;
        uint32_t id;
        const char *payload;
        size_t length;
    } table[] = {
        {"a read without a payload", CV_FRAME_READ_FILE, 1, "", 0},
        {"a read without an end of its path", CV_FRAME_READ_FILE, 1, "\1\0\0\0f", 5},
        {"a read with something behind its path", CV_FRAME_READ_FILE, 1, "\1\0\0\0f\0x", 7},
        {"a read of more than the largest file", CV_FRAME_READ_FILE, 1, "\1\0\x10\0f", 6},
        {"a read of an absolute path", CV_FRAME_READ_FILE, 1, "\1\0\0\0/f", 7},
        {"a read under no id", CV_FRAME_READ_FILE, 0, "\1\0\0\0f", 6},
        {"a write without a payload", CV_FRAME_WRITE_FILE, 1, "", 0},
        {"a write without an end of its path", CV_FRAME_WRITE_FILE, 1, "f", 1},
        {"a write of an absolute path", CV_FRAME_WRITE_FILE, 1, "/f\0x", 4},
        {"a write under no id", CV_FRAME_WRITE_FILE, 0, "f\0x", 3},
        {"an answer", CV_FRAME_FILE, 1, "x", 1},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct sup *sup = sup_start(NULL);
        sup_act(sup, SUP_LIST("daemon", "@"));
        sup_send(sup, table[i].type, table[i].id, table[i].payload, table[i].length);
        expect_end(sup, table[i].what);
    }
}

static void test_too_much_ends_the_stream(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.credit = 1, .hold_credit = true});
    expect_written(sup, "f", "text", 4);
    uint32_t first = sup_ask_read(sup, "f", 4);
    for (int i = 1; i < CV_FILE_READS_MAX; i++)
        sup_ask_read(sup, "f", 4);
    sup_wait_out(sup, first, 1);
    sup_ask_read(sup, "f", 4); /* the first is being answered, and waits no more */
    sup_pump_for(sup, 100);
    assert_false(sup->failed);
    sup_ask_read(sup, "f", 4);
    expect_end(sup, "one read too many");

    sup = sup_start(NULL);
    sup_ask_write(sup, "f", content(CV_FILE_MAX + 1), CV_FILE_MAX + 1);
    expect_end(sup, "a write of more than the largest file");

    sup = sup_start(NULL);
    char path[CV_FILE_PATH_MAX + 2];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    sup_ask_read(sup, path, 1);
    expect_end(sup, "a path that is too long");
}

static void test_requests_at_the_wrong_time(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    sup_send(sup, CV_FRAME_READ_FILE, 1, "\1\0\0\0f", 6);
    expect_end(sup, "a read instead of the hello");
    for (int i = 0; i < 2; i++) {
        sup = sup_start(
            &(struct sup_options){.flags = CV_HELLO_REMOVE_ONLY, .names = SUP_LIST("root")});
        if (i == 0)
            sup_ask_read(sup, "f", 1);
        else
            sup_ask_write(sup, "f", "x", 1);
        expect_end(sup, "a request where nothing but a removal may follow");
    }
}

/* A write that stays unfinished does nothing; other frames pass between its parts. */
static void test_parts_of_a_write(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    struct cv_buf payload, frames;
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    cv_buf_init(&frames, 2 * CV_MESSAGE_MAX);
    const struct cv_write_file write = {.path = "f", .bytes = content(100000), .length = 100000};
    assert_int_equal(cv_write_file_encode(&payload, &write), 0);
    assert_int_equal(cv_frame_append(&frames, CV_FRAME_WRITE_FILE, 4000, cv_buf_data(&payload),
                                     cv_buf_length(&payload)),
                     0);
    sup_send_raw(sup, cv_buf_data(&frames), CV_FRAME_MAX + 10000);
    sup_pump_for(sup, 100);
    cv_buf_consume(&frames, CV_FRAME_MAX + 10000);
    struct stat info;
    assert_int_equal(lstat(sup_path(sup->base, "f"), &info), -1);
    sup_of(sup, 4000)->started = true;
    sup_of(sup, 4000)->answer = CV_FRAME_WRITTEN;
    sup_send_raw(sup, cv_buf_data(&frames), cv_buf_length(&frames));
    sup_wait(sup, 4000);
    expect_content(sup, sup_ask_read(sup, "f", CV_FILE_MAX), 100000);
    /* the end comes in the middle */
    assert_int_equal(cv_frame_append(&frames, CV_FRAME_WRITE_FILE, 1, cv_buf_data(&payload),
                                     cv_buf_length(&payload)),
                     0);
    sup_send_raw(sup, cv_buf_data(&frames) + cv_buf_length(&frames) / 2, CV_FRAME_MAX);
    cv_buf_free(&payload);
    cv_buf_free(&frames);
    sup_end(sup);
}

static void test_the_end_comes_before_the_answers(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.credit = 1, .hold_credit = true});
    expect_written(sup, "f", content(CV_FILE_MAX), CV_FILE_MAX);
    for (int i = 0; i < 100; i++)
        sup_ask_read(sup, "f", CV_FILE_MAX);
    sup_act(sup, SUP_LIST("daemon", "@"));
    sup_pump_for(sup, 100);
    sup_end(sup);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        SUP_TEST(test_any_size),
        SUP_TEST(test_modes),
        SUP_TEST(test_every_failure),
        SUP_TEST(test_permissions),
        SUP_TEST(test_disks),
        SUP_TEST(test_gone),
        SUP_TEST(test_content_comes_under_the_credit),
        SUP_TEST(test_shares_with_a_loud_command),
        SUP_TEST(test_many_reads_make_nothing_grow),
        SUP_TEST(test_many_writes_make_nothing_grow),
        SUP_TEST(test_pings_while_a_request_comes),
        SUP_TEST(test_pings_while_a_read_waits),
        SUP_TEST(test_broken_requests_end_the_stream),
        SUP_TEST(test_too_much_ends_the_stream),
        SUP_TEST(test_requests_at_the_wrong_time),
        SUP_TEST(test_parts_of_a_write),
        SUP_TEST(test_the_end_comes_before_the_answers),
    };
    return SUP_MAIN(argc, argv, tests);
}
