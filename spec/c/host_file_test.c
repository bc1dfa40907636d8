/* The host's side of whole files: many at once, aborted ones, and the ends of their workspace. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "process/channel.h"
#include "process/limits.h"
#include "support/drive.h"

#define MS 10000
#define MANY 300
/* What may be queued for the socket at once: stdin up to its mark, and a file on top. */
#define QUEUE_MAX ((size_t)2 * CV_FILE_MAX)

static const struct cv_channel *channel_of(struct drive *drive, uint32_t workspace)
{
    struct cv_idnode *node = cv_idmap_find(&drive->host.workspaces, workspace);
    assert_non_null(node);
    return cv_list_entry(node, struct cv_channel, by_handle);
}

/* Nothing of all requests is left in the host. */
static void expect_no_requests(struct drive *drive, uint32_t workspace)
{
    const struct cv_channel *channel = channel_of(drive, workspace);
    assert_int_equal(channel->requests, 0);
    assert_int_equal(channel->flights.count, 0);
    assert_true(cv_list_empty(&channel->waiting));
    assert_int_equal(drive->host.ops.count, 0);
    assert_true(channel->out.size <= CV_FILE_MAX / 4);
}

/* `length` bytes of ASCII, other ones for each `seed`; they live until the next call. */
static const char *text(unsigned seed, size_t length)
{
    static char bytes[CV_FILE_MAX + 2];
    for (size_t i = 0; i < length; i++)
        bytes[i] = (char)('a' + (seed + i / 7) % 26);
    bytes[length] = '\0';
    return bytes;
}

static void write_now(struct drive *drive, uint32_t workspace, const char *path, const void *bytes,
                      size_t length)
{
    drive_expect(drive, drive_write(drive, workspace, path, bytes, length), NULL);
}

static void expect_text(struct drive *drive, uint32_t id, unsigned seed, size_t length)
{
    const struct drive_op *op = drive_expect(drive, id, NULL);
    assert_int_equal(cv_buf_length(&op->text[CV_STDOUT]), length + 1);
    assert_memory_equal(cv_buf_data(&op->text[CV_STDOUT]), text(seed, length), length);
}

static bool is_there(struct drive *drive, const char *path)
{
    struct stat info;
    return lstat(sup_path(drive_folder(drive, 1, 0), path), &info) == 0;
}

static void test_any_size(void **state)
{
    (void)state;
    static const size_t sizes[] = {
        0, 1, CV_FRAME_PAYLOAD_MAX, 200000, CV_OUTPUT_CREDIT + 1, CV_FILE_MAX};
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        write_now(drive, workspace, "a/f", text(i, sizes[i]), sizes[i]);
        expect_text(drive, drive_read(drive, workspace, "a/f"), i, sizes[i]);
    }
    expect_no_requests(drive, workspace);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void test_failures(void **state)
{
    (void)state;
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    drive_expect(drive, drive_read(drive, workspace, "none"), "file_not_found");
    drive_expect(drive, drive_read(drive, workspace, ""), "not_a_file");
    drive_expect(drive, drive_write(drive, workspace, "", "x", 1), "not_a_file");
    drive_expect(drive, drive_read(drive, workspace, "../f"), "outside_workspace");
    write_now(drive, workspace, "bad", "text \xe2\x82", 7);
    drive_expect(drive, drive_read(drive, workspace, "bad"), "not_utf8");
    write_now(drive, workspace, "good", "text \xe2\x82\xac", 8);
    drive_expect(drive, drive_read(drive, workspace, "good"), NULL);
    expect_no_requests(drive, workspace);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void expect_refused(struct drive *drive, uint32_t workspace, const char *path, size_t length,
                           const char *code)
{
    struct cv_err err = {.code = "none"};
    assert_int_equal(
        cv_host_write_file(&drive->host, workspace, path, text(0, length), length, &err), 0);
    assert_string_equal(err.code, code);
    if (length > 0)
        return;
    err.code = "none";
    assert_int_equal(cv_host_read_file(&drive->host, workspace, path, 1, &err), 0);
    assert_string_equal(err.code, code);
}

/* What would break the protocol never leaves the host. */
static void test_refusals(void **state)
{
    (void)state;
    char path[CV_FILE_PATH_MAX + 2];
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    expect_refused(drive, workspace, path, 0, "invalid_path");
    expect_refused(drive, workspace, "/f", 0, "invalid_path");
    expect_refused(drive, workspace, "f", CV_FILE_MAX + 1, "file_too_large");
    expect_refused(drive, workspace + 1, "f", 0, "gone");
    path[CV_FILE_PATH_MAX] = '\0';
    drive_expect(drive, drive_read(drive, workspace, path), "invalid_path");
    drive_remove(drive, workspace, NULL);
    expect_refused(drive, workspace, "f", 0, "gone");
    drive_end(drive);
}

static void path_of(char path[24], unsigned i)
{
    sprintf(path, "f%u", i);
}

/* Many large files in both directions: the queue to the supervisor stays short. */
static void test_many_at_once(void **state)
{
    (void)state;
    uint32_t writes[MANY];
    uint32_t reads[MANY];
    char path[24];
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    const struct cv_channel *channel = channel_of(drive, workspace);
    for (unsigned i = 0; i < MANY; i++) {
        path_of(path, i % 20);
        writes[i] =
            drive_write(drive, workspace, path, text(i % 20, CV_FILE_MAX / 2), CV_FILE_MAX / 2);
        assert_true(channel->requests <= CV_FILES_UNDER_WAY);
        assert_true(cv_buf_length(&channel->out) <= QUEUE_MAX);
    }
    uint32_t command = drive_sh(drive, workspace, "echo done");
    for (unsigned i = 0; i < MANY; i++)
        drive_expect(drive, writes[i], NULL);
    drive_expect_exit(drive, command, 0, "done\n", "");
    for (unsigned i = 0; i < MANY; i++) {
        path_of(path, i % 20);
        reads[i] = drive_read(drive, workspace, path);
        assert_true(channel->requests <= CV_FILES_UNDER_WAY);
    }
    for (unsigned i = 0; i < MANY; i++) {
        expect_text(drive, reads[i], i % 20, CV_FILE_MAX / 2);
        cv_buf_free(&drive_of(drive, reads[i])->text[CV_STDOUT]);
    }
    expect_no_requests(drive, workspace);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

/* What was not sent yet never is; the answers to the others come to nobody. */
static void test_aborts(void **state)
{
    (void)state;
    uint32_t ids[3 * CV_FILES_UNDER_WAY];
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    write_now(drive, workspace, "f", text(1, CV_FILE_MAX), CV_FILE_MAX);
    for (unsigned i = 0; i < 3 * CV_FILES_UNDER_WAY; i++)
        ids[i] = i < 2 * CV_FILES_UNDER_WAY ? drive_read(drive, workspace, "f")
                                            : drive_write(drive, workspace, "never", "x", 1);
    for (unsigned i = 0; i < 3 * CV_FILES_UNDER_WAY; i++) {
        if (i % 4 != 1 || i >= 2 * CV_FILES_UNDER_WAY)
            cv_host_abort(&drive->host, ids[i], "aborted", "by the test");
        if (i % 4 == 2)
            drive_expect_now(drive, ids[i], "aborted"); /* at once, and its answer comes later */
    }
    for (unsigned i = 0; i < 3 * CV_FILES_UNDER_WAY; i++) {
        if (i % 4 != 1 || i >= 2 * CV_FILES_UNDER_WAY)
            drive_expect(drive, ids[i], "aborted");
        else
            expect_text(drive, ids[i], 1, CV_FILE_MAX);
    }
    write_now(drive, workspace, "last", "x", 1);
    assert_true(is_there(drive, "last"));
    assert_false(is_there(drive, "never"));
    expect_no_requests(drive, workspace);
    drive_remove(drive, workspace, NULL);
    drive_end(drive);
}

static void start_many(struct drive *drive, uint32_t workspace, uint32_t ids[MANY])
{
    write_now(drive, workspace, "f", text(1, CV_FILE_MAX), CV_FILE_MAX);
    for (unsigned i = 0; i < MANY; i++)
        ids[i] = i % 2 == 0 ? drive_read(drive, workspace, "f")
                            : drive_write(drive, workspace, "f", text(1, 100000), 100000);
}

/* Some may have been answered before. */
static void expect_cut(struct drive *drive, const uint32_t ids[MANY], const char *code)
{
    unsigned cut = 0;
    for (unsigned i = 0; i < MANY; i++) {
        const struct drive_op *op = drive_wait(drive, ids[i]);
        if (op->err.code == NULL)
            continue;
        assert_string_equal(op->err.code, code);
        cut++;
    }
    assert_true(cut > 0);
}

static void test_disposed_with_the_workspace(void **state)
{
    (void)state;
    uint32_t ids[MANY];
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    start_many(drive, workspace, ids);
    drive_step(drive, 10);
    uint32_t removal = drive_removal(drive, workspace);
    expect_cut(drive, ids, "disposed");
    drive_expect(drive, removal, NULL);
    drive_end(drive);
}

static void test_lost_with_the_supervisor(void **state)
{
    (void)state;
    uint32_t ids[MANY];
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    start_many(drive, workspace, ids);
    kill(drive_supervisor(), SIGKILL);
    expect_cut(drive, ids, "transport_lost");
    drive_wait_lost(drive, workspace);
    expect_refused(drive, workspace, "f", 0, "gone");
    drive_remove(drive, workspace, "transport_lost");
    drive_end(drive);
}

static void test_closed_with_the_host(void **state)
{
    (void)state;
    uint32_t ids[MANY];
    struct drive *drive = drive_open(NULL);
    uint32_t workspace = drive_ready(drive);
    start_many(drive, workspace, ids);
    drive_step(drive, 10);
    drive_close_and_reap(drive);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        DRIVE_TEST(test_any_size),
        DRIVE_TEST(test_failures),
        DRIVE_TEST(test_refusals),
        DRIVE_TEST(test_many_at_once),
        DRIVE_TEST(test_aborts),
        DRIVE_TEST(test_disposed_with_the_workspace),
        DRIVE_TEST(test_lost_with_the_supervisor),
        DRIVE_TEST(test_closed_with_the_host),
    };
    return SUP_MAIN(argc, argv, tests);
}
