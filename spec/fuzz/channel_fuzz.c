/*
 * Fuzzes the host's end of a supervisor's stream: what a supervisor sends, in which pieces, what
 * the host does in between, and which allocation fails. The input is the number of that, two bytes,
 * and a list of actions, see `act`.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "process/channel.h"
#include "process/host.h"
#include "process/limits.h"
#include "proto/supervise/wire.h"
#include "require.h"
#include "support/input.h"
#include "support/mutate.h"
#include "torture.h"

#define OPS_MAX 24
/* What may be queued for the socket: a few commands, stdin up to its mark, credits. */
#define QUEUE_MAX ((size_t)512 * 1024)
#define INPUT_LENGTH 150000

static const uint8_t types[] = {
#define X(name, value, side) value,
    CV_FRAME_TYPES(X)
#undef X
};

static struct cv_host host;
static struct cv_frame_reader received; /* what the host has sent */
static int peer;                        /* the supervisor's end, -1: closed */
static uint32_t workspace;
static uint32_t started; /* the last id that was given out */
static bool begun[OPS_MAX + 1];
static bool ended[OPS_MAX + 1];
static bool hold; /* chunks are not taken */

/* ---- the host ------------------------------------------------------------------------------ */

static struct cv_channel *channel(void)
{
    struct cv_idnode *node = cv_idmap_find(&host.workspaces, workspace);
    return node == NULL ? NULL : cv_list_entry(node, struct cv_channel, by_handle);
}

static void check_bounds(void)
{
    const struct cv_channel *alive = channel();
    if (alive == NULL)
        return;
    REQUIRE(alive->unreturned <= CV_OUTPUT_CREDIT);
    REQUIRE(alive->to_return <= alive->unreturned);
    REQUIRE(cv_buf_length(&alive->out) <= QUEUE_MAX);
    REQUIRE(alive->flights.count <= OPS_MAX);
    REQUIRE(alive->requests <= CV_FILES_UNDER_WAY);
}

static void started_op(uint32_t id)
{
    if (id == 0)
        return;
    REQUIRE(id <= OPS_MAX && !begun[id]);
    begun[id] = true;
    started = id;
}

static void take_completions(void)
{
    struct cv_op *op;
    while ((op = cv_host_next(&host)) != NULL) {
        uint32_t id = op->by_id.id;
        REQUIRE(id <= started && begun[id] && !ended[id]);
        if (cv_op_chunk(op) != NULL) {
            if (hold)
                return;
            cv_host_take_chunk(&host, op);
            continue;
        }
        REQUIRE(op->done);
        REQUIRE(op->err.code == NULL || op->err.message[0] != '\0');
        ended[id] = true;
        cv_host_take(&host, op);
    }
}

static void step(void)
{
    struct cv_err err;
    REQUIRE(cv_reactor_step(&host.reactor, 0, &err) == 0);
    check_bounds();
}

/* The time until the host's next look at its supervisor passes. */
static void pass_time(void)
{
    struct cv_channel *alive = channel();
    if (alive == NULL || !cv_timer_armed(&alive->health.timer))
        return;
    cv_alarm_clear(&host.reactor, &alive->health);
    alive->health.strike(&alive->health);
}

/* Whatever the host sends must be frames of a host. */
static void drain(void)
{
    static uint8_t bytes[65536];
    ssize_t got;
    torture_hold(true);
    while (peer >= 0 && (got = recv(peer, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        struct cv_frame frame;
        int next;
        cv_frame_reader_push(&received, bytes, (size_t)got);
        while ((next = cv_frame_reader_next(&received, &frame)) == 1)
            continue;
        REQUIRE(next == 0);
    }
    torture_hold(false);
}

static void start_exec(uint8_t how)
{
    static const uint8_t bytes[INPUT_LENGTH];
    struct cv_err err;
    const struct cv_exec_request request = {
        .cwd = "",
        .argv = {.bytes = "a\0b", .length = 4, .count = 2},
        .timeout_ms = 1000,
        .cap = how & 0x08 ? 10 : 100000,
        .stdin_bytes = bytes,
        .stdin_length = how & 0x01   ? INPUT_LENGTH
                        : how & 0x02 ? 5
                                     : 0,
        .stream_all = (how & 0x04) != 0,
    };
    if (host.last_id < OPS_MAX - 2) /* for the removal, also a failed one */
        started_op(cv_host_exec(&host, workspace, &request, &err));
}

static void request_file(uint8_t how)
{
    static const uint8_t bytes[INPUT_LENGTH];
    struct cv_err err;
    if (host.last_id >= OPS_MAX - 2)
        return;
    if (how & 0x01)
        started_op(cv_host_read_file(&host, workspace, "f", how & 0x02 ? 10 : CV_FILE_MAX, &err));
    else
        started_op(
            cv_host_write_file(&host, workspace, "f", bytes, how & 0x02 ? 5 : INPUT_LENGTH, &err));
}

static void remove_workspace(void)
{
    struct cv_err err;
    started_op(cv_host_remove(&host, workspace, &err));
}

/* ---- the supervisor ------------------------------------------------------------------------ */

static void supervisor_sends(const uint8_t *bytes, size_t length)
{
    if (peer >= 0 && length > 0)
        (void)!send(peer, bytes, length, MSG_NOSIGNAL | MSG_DONTWAIT);
    step();
}

/* A frame whose fields are the input's, so that its form is right more often than by chance. */
static void supervisor_says(struct input *input)
{
    static uint8_t frame[CV_FRAME_MAX];
    uint8_t type = types[next_byte(input) % sizeof types];
    uint8_t id = next_byte(input);
    uint8_t size = next_byte(input);
    size_t length = size;
    const uint8_t *payload = NULL;
    if (size == 255)
        length = CV_FRAME_PAYLOAD_MAX; /* of zeros, to use up credit quickly */
    else
        payload = next_bytes(input, &length);
    memset(frame, 0, sizeof frame);
    cv_frame_header(frame, type, id & 0x80 ? CV_FRAME_MORE : 0, id & 0x7f, (uint32_t)length);
    if (payload != NULL && length > 0)
        memcpy(frame + CV_FRAME_HEADER_SIZE, payload, length);
    supervisor_sends(frame, CV_FRAME_HEADER_SIZE + length);
}

static void supervisor_is_ready(void)
{
    uint8_t frame[CV_FRAME_HEADER_SIZE + CV_READY_SIZE];
    cv_frame_header(frame, CV_FRAME_READY, 0, 0, CV_READY_SIZE);
    cv_wire_put_u32(frame + CV_FRAME_HEADER_SIZE, CV_FRAME_VERSION);
    supervisor_sends(frame, sizeof frame);
}

static void supervisor_closes(void)
{
    if (peer >= 0)
        close(peer);
    peer = -1;
}

/* ---- actions ------------------------------------------------------------------------------- */

static void act(struct input *input)
{
    size_t length;
    const uint8_t *bytes;
    switch (next_byte(input) % 14) {
    case 0:
    case 1:
    case 2:
        supervisor_says(input);
        break;
    case 3: /* bytes that may be anything */
        length = next_byte(input);
        bytes = next_bytes(input, &length);
        supervisor_sends(bytes, length);
        break;
    case 4:
        supervisor_is_ready();
        break;
    case 5:
        start_exec(next_byte(input));
        break;
    case 6:
        cv_host_abort(&host, next_byte(input) % (OPS_MAX + 1), "aborted", "by the fuzzer");
        break;
    case 7:
        remove_workspace();
        break;
    case 8:
        take_completions();
        break;
    case 9:
        hold = !hold;
        break;
    case 10:
        drain();
        break;
    case 11:
        supervisor_closes();
        break;
    case 12:
        pass_time();
        break;
    case 13:
        request_file(next_byte(input));
        break;
    }
    check_bounds();
}

/* A launch as cv_host_launch makes it, over a socket instead of a process. */
static void launch(void)
{
    int pair[2];
    struct cv_err err;
    REQUIRE(cv_host_open(&host, "/nonexistent", &err) == 0);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    peer = pair[1];
    struct cv_op *op = cv_op_new(CV_OP_LAUNCH, 0);
    struct cv_channel *opened = cv_channel_open(&host, pair[0], 0, &err);
    REQUIRE(op != NULL && opened != NULL);
    workspace = op->workspace = host.last_id = 1;
    REQUIRE(cv_idmap_add(&host.ops, &op->by_id, workspace) == 0);
    REQUIRE(cv_idmap_add(&host.workspaces, &opened->by_handle, workspace) == 0);
    opened->launch = op;
    cv_channel_flush(opened);
    started_op(workspace);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    static const uint8_t lengths[14] = {8, 40, 8, 20, 1, 2, 2, 1, 1, 1, 1, 1, 1, 2};
    return mutate_actions(data, size, max, seed, 2, lengths, 14);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input input = {bytes, size};
    unsigned long failing = next_byte(&input);
    failing |= (unsigned long)next_byte(&input) << 8;
    memset(begun, 0, sizeof begun);
    memset(ended, 0, sizeof ended);
    torture_fail(0);
    hold = false;
    started = 0;
    cv_frame_reader_init(&received, 'h');
    launch();
    torture_fail(failing);
    while (input.left > 0)
        act(&input);
    torture_fail(0);
    /* With the end of the stream and a removal, everything that was begun must have ended. */
    if (size % 4 != 0) {
        hold = false;
        remove_workspace();
        supervisor_closes();
        /* At most what the socket holds is still to be read. */
        for (int i = 0; i < 100 && channel() != NULL; i++)
            step();
        take_completions();
        REQUIRE(channel() == NULL);
        for (uint32_t id = 1; id <= started; id++)
            REQUIRE(ended[id] || !begun[id]);
        REQUIRE(host.ops.count == 0);
    }
    supervisor_closes();
    cv_host_close(&host);
    cv_frame_reader_free(&received);
    return 0;
}
