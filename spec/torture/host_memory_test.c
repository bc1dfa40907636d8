/*
 * A host without memory for one moment, for every such moment of a whole conversation: what must
 * reach the supervisor does, and every operation ends. The test is the supervisor.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "process/channel.h"
#include "process/host.h"
#include "process/limits.h"
#include "proto/supervise/wire.h"
#include "torture.h"

#define WORKSPACE 1
#define INPUT_LENGTH 100000

static struct cv_host host;
static int peer;
static struct cv_frame_reader received;
static unsigned seen[256]; /* frames of the host by their type */
static uint64_t returned;  /* credit */
static unsigned ended;

static struct cv_channel *channel(void)
{
    struct cv_idnode *node = cv_idmap_find(&host.workspaces, WORKSPACE);
    return node == NULL ? NULL : cv_list_entry(node, struct cv_channel, by_handle);
}

static void launch(void)
{
    int pair[2];
    struct cv_err err;
    memset(seen, 0, sizeof seen);
    returned = 0;
    ended = 0;
    assert_int_equal(cv_host_open(&host, "/nonexistent", &err), 0);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
    peer = pair[1];
    cv_frame_reader_init(&received, 'h');
    struct cv_op *op = cv_op_new(CV_OP_LAUNCH, 0);
    struct cv_channel *opened = cv_channel_open(&host, pair[0], 0, &err);
    assert_true(op != NULL && opened != NULL);
    op->workspace = host.last_id = WORKSPACE;
    assert_int_equal(cv_idmap_add(&host.ops, &op->by_id, WORKSPACE), 0);
    assert_int_equal(cv_idmap_add(&host.workspaces, &opened->by_handle, WORKSPACE), 0);
    opened->launch = op;
}

static void say(uint8_t type, uint32_t id, const void *payload, uint32_t length)
{
    uint8_t header[CV_FRAME_HEADER_SIZE];
    cv_frame_header(header, type, 0, id, length);
    assert_int_equal(send(peer, header, sizeof header, MSG_NOSIGNAL), sizeof header);
    assert_int_equal(send(peer, payload, length, MSG_NOSIGNAL), length);
}

static void say_u32(uint8_t type, uint32_t id, uint32_t value)
{
    uint8_t payload[CV_U32_SIZE];
    cv_wire_put_u32(payload, value);
    say(type, id, payload, sizeof payload);
}

/* Reads what the host has sent. */
static void hear(void)
{
    static uint8_t bytes[65536];
    struct cv_frame frame;
    ssize_t got;
    torture_hold(true);
    while ((got = recv(peer, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        cv_frame_reader_push(&received, bytes, (size_t)got);
        while (cv_frame_reader_next(&received, &frame) == 1) {
            seen[frame.type]++;
            if (frame.type == CV_FRAME_CREDIT)
                returned += cv_wire_get_u32(frame.payload);
        }
    }
    torture_hold(false);
}

/* Steps, takes what has come, and lets the time of the next check pass. */
static void go_on(void)
{
    struct cv_err err;
    struct cv_op *op;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(cv_reactor_step(&host.reactor, 0, &err), 0);
        hear();
        while ((op = cv_host_next(&host)) != NULL) {
            if (cv_op_chunk(op) != NULL) {
                cv_host_take_chunk(&host, op);
                continue;
            }
            ended++;
            cv_host_take(&host, op);
        }
        if (channel() != NULL && cv_timer_armed(&channel()->health.timer)) {
            cv_alarm_clear(&host.reactor, &channel()->health);
            channel()->health.strike(&channel()->health);
        }
    }
    hear();
}

static void finish(void)
{
    torture_fail(0);
    close(peer);
    cv_host_close(&host);
    cv_frame_reader_free(&received);
}

/* Runs the body with every one of its allocations failing in turn. */
static void with_each_failing(void (*body)(void))
{
    unsigned long nth = 0;
    bool struck;
    do {
        launch();
        say_u32(CV_FRAME_READY, 0, CV_FRAME_VERSION);
        go_on();
        assert_int_equal(ended, 1);
        cv_buf_free(&channel()->out); /* so that every frame needs memory */
        torture_fail(++nth);
        body();
        struck = torture_struck();
        finish();
    } while (struck);
    assert_true(nth > 1);
}

/* ---- tests ---------------------------------------------------------------------------------- */

static uint32_t start(size_t input_length)
{
    static const uint8_t input[INPUT_LENGTH];
    struct cv_err err = {0};
    const struct cv_exec_request request = {.cwd = "",
                                            .argv = {.bytes = "a", .length = 2, .count = 1},
                                            .timeout_ms = 1000,
                                            .cap = 1000,
                                            .stdin_bytes = input,
                                            .stdin_length = input_length,
                                            .stream_all = true};
    uint32_t id = cv_host_exec(&host, WORKSPACE, &request, &err);
    assert_true(id != 0 || (strcmp(err.code, "start_failed") == 0 && err.message[0] != '\0'));
    return id;
}

static void abort_a_command(void)
{
    uint32_t id = start(0);
    if (id == 0)
        return;
    hear();
    cv_buf_free(&channel()->out);
    cv_host_abort(&host, id, "aborted", "by the test");
    go_on();
    assert_int_equal(seen[CV_FRAME_ABORT], 1);
    assert_int_equal(ended, 2);
}

static void an_abort_reaches_the_supervisor(void **state)
{
    (void)state;
    with_each_failing(abort_a_command);
}

static void remove_the_workspace(void)
{
    struct cv_err err = {0};
    uint32_t id = cv_host_remove(&host, WORKSPACE, &err);
    if (id == 0) {
        assert_string_equal(err.code, "start_failed");
        return;
    }
    go_on();
    assert_int_equal(seen[CV_FRAME_REMOVE], 1);
    say_u32(CV_FRAME_REMOVED, id, 0);
    shutdown(peer, SHUT_RDWR);
    go_on();
    assert_int_equal(ended, 2);
    assert_null(channel());
}

static void a_removal_reaches_the_supervisor(void **state)
{
    (void)state;
    with_each_failing(remove_the_workspace);
}

static void feed_a_command(void)
{
    uint32_t id = start(INPUT_LENGTH);
    if (id == 0)
        return;
    for (int i = 0; i < 8; i++) {
        go_on();
        cv_buf_free(&channel()->out);
        say_u32(CV_FRAME_STDIN_CREDIT, id, INPUT_LENGTH / 4);
    }
    go_on();
    assert_int_equal(seen[CV_FRAME_STDIN_END], 1);
}

static void stdin_reaches_the_command(void **state)
{
    (void)state;
    with_each_failing(feed_a_command);
}

static void print_more_than_the_credit(void)
{
    static const uint8_t output[CV_FRAME_PAYLOAD_MAX];
    uint64_t sent = 0;
    uint32_t id = start(0);
    if (id == 0)
        return;
    while (sent < 4 * CV_OUTPUT_CREDIT) {
        cv_buf_free(&channel()->out);
        /* A command whose output finds no memory is aborted; its output still counts. */
        say(CV_FRAME_STDOUT, id, output, sizeof output);
        sent += sizeof output;
        go_on();
        assert_true(sent - returned < CV_OUTPUT_CREDIT - sizeof output);
    }
}

static void credit_comes_back(void **state)
{
    (void)state;
    with_each_failing(print_more_than_the_credit);
}

static void ask_for_a_file(void)
{
    struct cv_err err = {0};
    uint32_t id = cv_host_read_file(&host, WORKSPACE, "f", 1000, &err);
    if (id == 0) {
        assert_true(err.message[0] != '\0');
        return;
    }
    go_on();
    if (seen[CV_FRAME_READ_FILE] == 1) {
        say(CV_FRAME_FILE, id, "text", 4);
        go_on();
    }
    assert_int_equal(ended, 2);
}

static void a_request_for_a_file_ends(void **state)
{
    (void)state;
    with_each_failing(ask_for_a_file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_abort_reaches_the_supervisor),
        cmocka_unit_test(a_removal_reaches_the_supervisor),
        cmocka_unit_test(stdin_reaches_the_command),
        cmocka_unit_test(credit_comes_back),
        cmocka_unit_test(a_request_for_a_file_ends),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
