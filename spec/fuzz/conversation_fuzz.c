/*
 * Whole conversations of an honest host (src/process) and an honest supervisor (src/supervisor),
 * both in this process: the host starts commands, reads and writes files, aborts and removes; the
 * commands do what they like; time passes; allocations fail. The input is a head, see
 * LLVMFuzzerTestOneInput, and a list of actions, see `act`.
 *
 * What must hold: every operation ends exactly once; nobody takes the other for lost or hostile;
 * and what the host is told of a command or a file is what it did or what was in it.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process/channel.h"
#include "process/host.h"
#include "process/limits.h"
#include "proto/supervise/message.h"
#include "require.h"
#include "support/box.h"
#include "support/input.h"
#include "support/mutate.h"
#include "support/processes.h"
#include "support/session_run.h"
#include "torture.h"

#define OPS_MAX 24
#define INPUT_LENGTH 150000

/* What is known of an operation, by its id. */
struct known {
    bool started;
    bool ended;
    bool aborted;
    enum cv_op_kind kind;
    unsigned tag; /* of an exec's process */
    size_t cap;
    bool stream_all;
    uint64_t chunk_bytes;
};

static struct cv_host host;
static struct known known[OPS_MAX + 1];
static uint32_t workspace;
static uint32_t last_id;
static unsigned last_tag;
static uint32_t removal;
static bool failing; /* an allocation fails: then ends must be clean, and may be bad */
static bool hold;    /* chunks are not taken */
static int patience; /* steps behind the script, for what takes time */
static bool gone;    /* the workspace's folder was moved away */

static struct cv_channel *channel(void)
{
    struct cv_idnode *node = cv_idmap_find(&host.workspaces, workspace);
    return node == NULL ? NULL : cv_list_entry(node, struct cv_channel, by_handle);
}

static void step_host(void)
{
    struct cv_err err;
    REQUIRE(cv_reactor_step(&host.reactor, 0, &err) == 0);
}

/* ---- what operations bring ------------------------------------------------------------------ */

static const struct process *process_of(const struct known *exec)
{
    for (int i = 0; i < processes_count(); i++) {
        if (process_at(i)->tag == exec->tag)
            return process_at(i);
    }
    return NULL;
}

/* The text that is kept is that of a collector which gets all that the command has printed. */
static void check_text(struct cv_op *op, enum cv_stream_name stream, uint64_t printed, size_t cap)
{
    struct cv_collector expected;
    uint8_t bytes[1024];
    const char *texts[2];
    size_t lengths[2];
    torture_hold(true);
    cv_collector_init(&expected, cap);
    for (uint64_t i = 0; i < printed; i += sizeof bytes) {
        size_t part = printed - i < sizeof bytes ? (size_t)(printed - i) : sizeof bytes;
        for (size_t j = 0; j < part; j++)
            bytes[j] = process_byte(i + j);
        REQUIRE(cv_collector_write(&expected, bytes, part) == 0);
    }
    REQUIRE(cv_collector_text(&expected, &texts[0], &lengths[0]) == 0);
    REQUIRE(cv_collector_text(&op->output[stream], &texts[1], &lengths[1]) == 0);
    REQUIRE(lengths[0] == lengths[1] && memcmp(texts[0], texts[1], lengths[0]) == 0);
    REQUIRE(cv_op_truncated(op, stream) == cv_collector_incomplete(&expected));
    cv_collector_free(&expected);
    torture_hold(false);
}

static void check_exec(struct cv_op *op, const struct known *exec)
{
    const struct process *process = process_of(exec);
    REQUIRE(process != NULL && !process->alive && process->reaped && process->errnum == 0);
    REQUIRE(op->ended.how == (process->how == CLD_EXITED ? CV_ENDED_EXITED : CV_ENDED_SIGNALED));
    REQUIRE(op->ended.value == (uint32_t)process->value);
    if (process->shared)
        return;
    REQUIRE(op->ended.stdout_bytes == process->printed[CV_STDOUT]);
    REQUIRE(op->ended.stderr_bytes == process->printed[CV_STDERR]);
    REQUIRE((op->ended.flags & CV_ENDED_STREAMS_HELD) == 0);
    check_text(op, CV_STDOUT, process->printed[CV_STDOUT], exec->cap);
    check_text(op, CV_STDERR, process->printed[CV_STDERR], exec->cap);
    REQUIRE(!exec->stream_all ||
            exec->chunk_bytes == process->printed[CV_STDOUT] + process->printed[CV_STDERR]);
}

/* Files hold one letter, over and over. */
static void check_content(const struct cv_op *op)
{
    const uint8_t *bytes = cv_buf_data(&op->content);
    for (size_t i = 0; i < cv_buf_length(&op->content); i++)
        REQUIRE(bytes[i] >= 'A' && bytes[i] <= 'D' && bytes[i] == bytes[0]);
}

static void check_failure(const struct cv_op *op, const struct known *was)
{
    const char *code = op->err.code;
    REQUIRE(op->err.message[0] != '\0');
    if (failing)
        return;
    REQUIRE(strcmp(code, "transport_lost") != 0 && strcmp(code, "kill_failed") != 0);
    REQUIRE(was->kind != CV_OP_LAUNCH || was->aborted || removal != 0);
    REQUIRE((strcmp(code, "aborted") == 0) == was->aborted);
    REQUIRE(strcmp(code, "gone") != 0 || gone);
    REQUIRE(strcmp(code, "disposed") != 0 || removal != 0);
}

static void take_end(struct cv_op *op)
{
    uint32_t id = op->by_id.id;
    REQUIRE(id <= OPS_MAX && known[id].started && !known[id].ended && op->done);
    known[id].ended = true;
    if (op->err.code != NULL)
        check_failure(op, &known[id]);
    else if (op->kind == CV_OP_EXEC && !failing)
        check_exec(op, &known[id]);
    else if (op->kind == CV_OP_READ_FILE)
        check_content(op);
    cv_host_take(&host, op);
}

static void take_completions(void)
{
    struct cv_op *op;
    while ((op = cv_host_next(&host)) != NULL) {
        const struct cv_chunk *chunk = cv_op_chunk(op);
        if (chunk == NULL) {
            take_end(op);
            continue;
        }
        if (hold)
            return;
        known[op->by_id.id].chunk_bytes += chunk->length;
        cv_host_take_chunk(&host, op);
    }
}

/* ---- what the host does --------------------------------------------------------------------- */

static struct known *begun(uint32_t id, enum cv_op_kind kind, const struct cv_err *err)
{
    static struct known none;
    if (id == 0) {
        REQUIRE(err->code != NULL && err->message[0] != '\0');
        return &none;
    }
    REQUIRE(id <= OPS_MAX && !known[id].started);
    known[id] = (struct known){.started = true, .kind = kind};
    last_id = id;
    return &known[id];
}

static void start_exec(struct input *input)
{
    static uint8_t bytes[INPUT_LENGTH];
    static const size_t lengths[] = {0, 5, 20000, INPUT_LENGTH};
    static const char *const folders[] = {"", "", "none", "../.."};
    char argv[32];
    struct cv_err err;
    uint8_t how = next_byte(input);
    unsigned tag = ++last_tag;
    if (host.last_id >= OPS_MAX - 2) /* for the removal, also a failed one */
        return;
    for (size_t i = 0; bytes[0] == 0 && i < sizeof bytes; i++)
        bytes[sizeof bytes - 1 - i] = process_byte(sizeof bytes - 1 - i);
    int length = snprintf(argv, sizeof argv, "a%c%u", '\0', tag) + 1;
    const struct cv_exec_request request = {
        .cwd = folders[how >> 6],
        .argv = {.bytes = argv, .length = (size_t)length, .count = 2},
        .timeout_ms = (how & 0x20) != 0 ? 1000 : 1000000,
        .cap = (how & 0x08) != 0 ? 10 : 100000,
        .stdin_bytes = bytes,
        .stdin_length = lengths[how & 3],
        .stream_all = (how & 0x04) != 0,
    };
    struct known *exec = begun(cv_host_exec(&host, workspace, &request, &err), CV_OP_EXEC, &err);
    exec->tag = tag;
    exec->cap = request.cap;
    exec->stream_all = request.stream_all;
}

static void request_file(struct input *input)
{
    static const char *const paths[] = {"f", "new/f", "../f", ""};
    static const size_t lengths[] = {0, 5, 40000, CV_FILE_MAX};
    static uint8_t bytes[CV_FILE_MAX];
    struct cv_err err;
    uint8_t how = next_byte(input);
    const char *path = paths[how >> 1 & 3];
    size_t length = lengths[how >> 3 & 3];
    if (host.last_id >= OPS_MAX - 2)
        return;
    if ((how & 1) != 0) {
        begun(cv_host_read_file(&host, workspace, path, (uint32_t)length, &err), CV_OP_READ_FILE,
              &err);
    } else {
        memset(bytes, 'A' + (how >> 5 & 3), length);
        begun(cv_host_write_file(&host, workspace, path, bytes, length, &err), CV_OP_WRITE_FILE,
              &err);
    }
}

static void abort_one(struct input *input)
{
    uint32_t id = next_byte(input) % (OPS_MAX + 1);
    struct cv_idnode *node = cv_idmap_find(&host.ops, id);
    const struct cv_op *op = node == NULL ? NULL : cv_list_entry(node, struct cv_op, by_id);
    if (op == NULL || op->done || op->kind == CV_OP_REMOVE)
        return;
    known[id].aborted = true;
    removal = op->kind == CV_OP_LAUNCH ? UINT32_MAX : removal; /* of its own */
    cv_host_abort(&host, id, "aborted", "by the fuzzer");
}

static void remove_workspace(void)
{
    struct cv_err err;
    uint32_t id = cv_host_remove(&host, workspace, &err);
    if (id != 0)
        removal = id;
    begun(id, CV_OP_REMOVE, &err);
}

/* ---- actions ------------------------------------------------------------------------------- */

static void act(struct input *input)
{
    static const int64_t times[] = {1, 250, 1000, 2000, 5000};
    switch (next_byte(input) % 14) {
    case 0:
    case 1:
        start_exec(input);
        break;
    case 2:
        request_file(input);
        break;
    case 3:
        abort_one(input);
        break;
    case 4:
        if (next_byte(input) % 4 == 0)
            remove_workspace();
        break;
    case 5:
        take_completions();
        break;
    case 6:
        hold = !hold;
        break;
    case 7:
    case 8:
    case 9:
    case 10:
        processes_act(input, !failing);
        break;
    case 11:
        processes_next_start(next_byte(input) % START_COUNT);
        processes_settle();
        break;
    case 12:
        clock_advance(times[next_byte(input) % 5]);
        break;
    case 13:
        if (next_byte(input) % 8 == 0 && rename("/base/root", "/base/moved") == 0)
            gone = true;
        break;
    }
}

static bool all_sent(void)
{
    return channel() == NULL || channel()->state >= CV_CHANNEL_ENDING ||
           (cv_buf_length(&channel()->out) == 0 && cv_list_empty(&channel()->waiting));
}

/* What was aborted is dead soon, whatever has failed meanwhile. */
static void check_aborts(void)
{
    if (channel() == NULL || channel()->state != CV_CHANNEL_OPEN || channel()->failure.code != NULL)
        return;
    for (uint32_t id = 1; id <= last_id; id++) {
        const struct process *process =
            known[id].kind == CV_OP_EXEC && known[id].aborted ? process_of(&known[id]) : NULL;
        REQUIRE(process == NULL || !process->alive);
    }
}

static bool step(void *context)
{
    struct input *input = context;
    if (input->left > 0)
        act(input);
    else if (all_sent() && patience > 0)
        clock_advance(--patience > 0 ? 5001 : 0);
    else if (patience == 0 && channel() != NULL && channel()->removal == NULL &&
             !channel()->unwanted)
        remove_workspace();
    step_host();
    if (input->left == 0 && patience == 1)
        check_aborts();
    if (input->left == 0) {
        hold = false;
        take_completions();
    }
    return true;
}

static void drain(void *context)
{
    (void)context;
    step_host();
}

/* A launch as cv_host_launch makes it, over a socket instead of a process. False without memory. */
static bool launch(int socket)
{
    struct cv_err err;
    struct cv_buf payload;
    const struct cv_hello hello = {
        .version = CV_FRAME_VERSION,
        .flags = CV_HELLO_CREATE,
        .credit = CV_OUTPUT_CREDIT,
        .stdin_credit = CV_STDIN_CREDIT,
        .ping_ms = CV_PING_MS,
        .base = "/base",
        .names = {.bytes = "root\0temp", .length = sizeof "root\0temp", .count = 2},
    };
    struct cv_op *op = cv_op_new(CV_OP_LAUNCH, 0);
    struct cv_channel *opened = cv_channel_open(&host, socket, 0, &err);
    REQUIRE(op != NULL && opened != NULL);
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    op->workspace = workspace = host.last_id = 1;
    REQUIRE(cv_idmap_add(&host.ops, &op->by_id, workspace) == 0);
    REQUIRE(cv_idmap_add(&host.workspaces, &opened->by_handle, workspace) == 0);
    REQUIRE(cv_hello_encode(&payload, &hello) == 0);
    REQUIRE(cv_channel_queue(opened, CV_FRAME_HELLO, 0, cv_buf_data(&payload),
                             cv_buf_length(&payload)) == 0);
    cv_buf_free(&payload);
    opened->launch = op;
    cv_channel_flush(opened);
    begun(workspace, CV_OP_LAUNCH, &err);
    return true;
}

static void end_conversation(void)
{
    hold = false;
    /* At most what the socket holds is still to be read. */
    for (int i = 0; i < 100 && channel() != NULL; i++) {
        if (channel()->removal == NULL && !channel()->unwanted)
            remove_workspace();
        step_host();
        clock_advance(100);
        take_completions();
    }
    take_completions();
    REQUIRE(channel() == NULL);
    for (uint32_t id = 1; id <= last_id; id++)
        REQUIRE(!known[id].started || known[id].ended);
    REQUIRE(host.ops.count == 0);
}

static void check_removed(void)
{
    struct stat info;
    box_enter();
    bool left = lstat("/base/root", &info) == 0 || lstat("/base/temp", &info) == 0;
    box_leave();
    REQUIRE(!left || failing);
}

static int free_descriptor(void)
{
    int fd = dup(0);
    close(fd);
    return fd;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    session_prepare();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    static const uint8_t lengths[14] = {2, 2, 2, 2, 2, 1, 1, 4, 4, 4, 4, 2, 2, 2};
    return mutate_actions(data, size, max, seed, 2, lengths, 14);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    int pair[2];
    struct cv_err err;
    struct input input = {bytes, size};
    unsigned long nth = next_byte(&input);
    nth |= (unsigned long)next_byte(&input) << 8;
    const struct session_script script = {.step = step, .drain = drain, .context = &input};
    int first_free = free_descriptor();
    memset(known, 0, sizeof known);
    last_id = last_tag = 0;
    removal = 0;
    hold = gone = false;
    patience = 6;
    failing = nth != 0;
    box_enter();
    REQUIRE(mkdir("/base", 0755) == 0);
    box_leave();
    processes_begin();
    torture_fail(0);
    REQUIRE(cv_host_open(&host, "/nonexistent", &err) == 0);
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    launch(pair[0]);
    torture_fail(nth);
    session_run(pair[1], 0, &script);
    end_conversation();
    torture_fail(0);
    check_removed();
    cv_host_close(&host);
    box_clear();
    REQUIRE(free_descriptor() == first_free);
    return 0;
}
