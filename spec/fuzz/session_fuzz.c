/*
 * Fuzzes a supervisor by a host that may send anything: hostile frames, well-formed ones in any
 * order, commands that do whatever they like meanwhile, time that passes, allocations that fail.
 * The input is a head, see LLVMFuzzerTestOneInput, and a list of actions, see `act`.
 *
 * What must hold: the supervisor sends nothing but frames of a supervisor, no more output than it
 * has credit for, at most one last frame per request, and in the end nothing is alive, open or
 * leaked.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fd.h"
#include "proto/supervise/frame.h"
#include "proto/supervise/message.h"
#include "proto/supervise/wire.h"
#include "require.h"
#include "support/box.h"
#include "support/input.h"
#include "support/mutate.h"
#include "support/processes.h"
#include "support/session_run.h"
#include "torture.h"

/* Bytes on their way to the supervisor; what does not fit is not sent. */
#define QUEUE_MAX ((size_t)8 * 1024 * 1024)
/* Ids that the requests of one input may have; others are taken for 0. */
#define IDS 32

static const uint8_t types[] = {
#define X(name, value, side) value,
    CV_FRAME_TYPES(X)
#undef X
};

static int host = -1; /* the host's end of the stream, -1: closed */
static struct cv_buf queue;
static struct cv_frame_reader sent; /* what has gone to the supervisor */
static struct cv_assembler sent_messages;
static struct cv_frame_reader received;
static struct cv_assembler received_messages;
static bool lazy;     /* the host reads only now and then */
static bool nonsense; /* it was sent what is no frame */
static unsigned asked[IDS];
static unsigned answered[IDS];
static uint64_t credit;

/* ---- the host ------------------------------------------------------------------------------ */

static void note_sent(const struct cv_frame *message)
{
    struct cv_hello hello;
    uint32_t more;
    switch (message->type) {
    case CV_FRAME_HELLO:
        if (cv_hello_decode(message->payload, message->length, &hello))
            credit += hello.credit;
        break;
    case CV_FRAME_CREDIT:
        if (cv_u32_decode(message->payload, message->length, &more))
            credit += more;
        break;
    case CV_FRAME_START:
    case CV_FRAME_READ_FILE:
    case CV_FRAME_WRITE_FILE:
        asked[message->id % IDS]++;
        break;
    default:
        break;
    }
}

/* Sends what the socket takes, and reads it as the supervisor does. */
static void flush_queue(void)
{
    while (host >= 0 && cv_buf_length(&queue) > 0) {
        struct cv_frame frame;
        int next;
        ssize_t gone =
            send(host, cv_buf_data(&queue), cv_buf_length(&queue), MSG_NOSIGNAL | MSG_DONTWAIT);
        if (gone <= 0)
            return;
        cv_frame_reader_push(&sent, cv_buf_data(&queue), (size_t)gone);
        while (!nonsense && (next = cv_frame_reader_next(&sent, &frame)) != 0) {
            int whole = next < 0 ? -1 : cv_assembler_add(&sent_messages, &frame);
            nonsense = whole < 0;
            if (whole > 0)
                note_sent(&frame);
        }
        cv_buf_consume(&queue, (size_t)gone);
    }
}

static void note_answer(const struct cv_frame *message)
{
    struct cv_ended ended;
    struct cv_failure failure;
    uint32_t value;
    switch (message->type) {
    case CV_FRAME_STDOUT:
    case CV_FRAME_STDERR:
        REQUIRE(asked[message->id % IDS] > 0);
        break;
    case CV_FRAME_ENDED:
        REQUIRE(cv_ended_decode(message->payload, message->length, &ended));
        answered[message->id % IDS]++;
        break;
    case CV_FRAME_ERROR:
        REQUIRE(cv_failure_decode(message->payload, message->length, &failure));
        if (asked[message->id % IDS] > answered[message->id % IDS])
            answered[message->id % IDS]++;
        break;
    case CV_FRAME_WRITTEN:
    case CV_FRAME_FILE:
        answered[message->id % IDS]++;
        break;
    case CV_FRAME_STDIN_CREDIT:
    case CV_FRAME_READY:
    case CV_FRAME_REMOVED:
        REQUIRE(cv_u32_decode(message->payload, message->length, &value));
        break;
    default:
        REQUIRE(message->length == 0);
        break;
    }
    REQUIRE(answered[message->id % IDS] <= asked[message->id % IDS]);
}

static void listen_to_supervisor(void)
{
    static uint8_t bytes[65536];
    ssize_t got;
    torture_hold(true);
    while (host >= 0 && (got = recv(host, bytes, sizeof bytes, MSG_DONTWAIT)) > 0) {
        struct cv_frame frame;
        int next;
        cv_frame_reader_push(&received, bytes, (size_t)got);
        while ((next = cv_frame_reader_next(&received, &frame)) != 0) {
            REQUIRE(next > 0);
            if (frame.type == CV_FRAME_STDOUT || frame.type == CV_FRAME_STDERR ||
                frame.type == CV_FRAME_FILE) {
                REQUIRE(frame.length <= credit);
                credit -= frame.length;
            }
            int whole = cv_assembler_add(&received_messages, &frame);
            REQUIRE(whole >= 0);
            if (whole > 0)
                note_answer(&frame);
        }
    }
    torture_hold(false);
}

static void drain(void *context)
{
    (void)context;
    if (!lazy)
        listen_to_supervisor();
}

static void say(uint8_t type, uint32_t id, const void *payload, size_t length)
{
    if (cv_buf_length(&queue) < QUEUE_MAX / 2)
        cv_frame_append(&queue, type, id, payload, length);
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Strings, each with its NUL, from the input: at most `most` of them. */
static void put_strings(struct input *input, struct cv_buf *out, unsigned most,
                        struct cv_strings *list)
{
    list->count = next_byte(input) % (most + 1);
    for (uint32_t i = 0; i < list->count; i++) {
        size_t length = next_byte(input) % 16;
        const uint8_t *bytes = next_bytes(input, &length);
        length = strnlen((const char *)bytes, length);
        cv_buf_append(out, bytes, length);
        cv_buf_append(out, "", 1);
        list->length += length + 1;
    }
    list->bytes = list->count == 0 ? NULL : (const char *)cv_buf_data(out);
}

static void say_hello(struct input *input)
{
    static const char *const bases[] = {"/base", "/base/new/deep", "/none", "/", "/base/file"};
    static const char *const names[] = {"root\0temp\0record", "file\0root", "root"};
    struct cv_buf payload;
    uint8_t how = next_byte(input);
    const uint8_t which = next_byte(input);
    struct cv_hello hello = {.version = (how & 0x80) != 0 ? 9 : CV_FRAME_VERSION,
                             .flags = how & CV_HELLO_FLAGS,
                             .credit = (how & 0x10) != 0 ? 10 : 65536,
                             .stdin_credit = (how & 0x20) != 0 ? 1 : 65536,
                             .ping_ms = (how & 0x40) != 0 ? 4000 : 0,
                             .lease_ms = (which & 0x80) != 0 ? 10000 : 0,
                             .base = bases[which % 5]};
    hello.names.bytes = names[which / 5 % 3];
    hello.names.count = (uint32_t[]){3, 2, 1}[which / 5 % 3];
    hello.names.length = (size_t[]){17, 10, 5}[which / 5 % 3];
    if ((which & 0x40) != 0)
        hello.names = (struct cv_strings){0};
    hello.env = (struct cv_strings){.bytes = "PATH=/bin\0X=", .count = 2, .length = 13};
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    cv_hello_encode(&payload, &hello);
    say(CV_FRAME_HELLO, 0, cv_buf_data(&payload), cv_buf_length(&payload));
    cv_buf_free(&payload);
}

static void say_start(struct input *input)
{
    static const uint32_t caps[] = {0, 10, 100000, UINT32_MAX};
    static const char *const folders[] = {"", "dir", "../..", "none"};
    struct cv_buf payload;
    struct cv_buf argv;
    uint32_t id = next_byte(input) % IDS;
    uint8_t how = next_byte(input);
    struct cv_start start = {.flags = how & CV_START_FLAGS,
                             .timeout_ms = (how & 0x04) != 0 ? 1000 : 100000,
                             .stdout_cap = caps[how >> 3 & 3],
                             .stderr_cap = caps[how >> 5 & 3],
                             .cwd = folders[next_byte(input) % 4]};
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    cv_buf_init(&argv, CV_MESSAGE_MAX);
    put_strings(input, &argv, 4, &start.argv);
    cv_start_encode(&payload, &start);
    say(CV_FRAME_START, id, cv_buf_data(&payload), cv_buf_length(&payload));
    cv_buf_free(&payload);
    cv_buf_free(&argv);
}

static const char *const paths[] = {"f",    "dir/f",        "new/deep/f",     "dir", "../../f",
                                    "f/./", "/workspace/f", "dir/../../root", "."};

static void say_file(struct input *input)
{
    static const uint8_t zeros[CV_FILE_MAX];
    static const size_t lengths[] = {0, 5, 40000, CV_FILE_MAX};
    struct cv_buf payload;
    uint32_t id = next_byte(input) % IDS;
    uint8_t how = next_byte(input);
    const char *path = paths[(how >> 3) % (sizeof paths / sizeof *paths)];
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    if ((how & 1) != 0) {
        const struct cv_read_file read = {.max = (uint32_t)lengths[how >> 1 & 3], .path = path};
        cv_read_file_encode(&payload, &read);
        say(CV_FRAME_READ_FILE, id, cv_buf_data(&payload), cv_buf_length(&payload));
    } else {
        const struct cv_write_file write = {
            .path = path, .bytes = zeros, .length = lengths[how >> 1 & 3]};
        cv_write_file_encode(&payload, &write);
        say(CV_FRAME_WRITE_FILE, id, cv_buf_data(&payload), cv_buf_length(&payload));
    }
    cv_buf_free(&payload);
}

/* A frame of any type whose payload and flags are the input's. */
static void say_any(struct input *input)
{
    static uint8_t frame[CV_FRAME_MAX];
    uint8_t type = types[next_byte(input) % sizeof types];
    uint8_t id = next_byte(input);
    uint8_t size = next_byte(input);
    size_t length = size;
    const uint8_t *payload = NULL;
    if (size == 255)
        length = CV_FRAME_PAYLOAD_MAX; /* of zeros */
    else
        payload = next_bytes(input, &length);
    memset(frame, 0, sizeof frame);
    cv_frame_header(frame, type, (id & 0x80) != 0 ? CV_FRAME_MORE : 0, id % IDS, (uint32_t)length);
    if (payload != NULL && length > 0)
        memcpy(frame + CV_FRAME_HEADER_SIZE, payload, length);
    if (cv_buf_length(&queue) < QUEUE_MAX / 2)
        cv_buf_append(&queue, frame, CV_FRAME_HEADER_SIZE + length);
}

static void say_simple(struct input *input)
{
    static const uint8_t simple[] = {CV_FRAME_STDIN_END, CV_FRAME_ABORT, CV_FRAME_REMOVE,
                                     CV_FRAME_CLOSE, CV_FRAME_PONG};
    uint8_t type = simple[next_byte(input) % sizeof simple];
    say(type, next_byte(input) % IDS, NULL, 0);
}

static void say_credit(struct input *input)
{
    uint8_t payload[CV_U32_SIZE];
    cv_wire_put_u32(payload, UINT32_C(1) << next_byte(input) % 32);
    say(CV_FRAME_CREDIT, 0, payload, sizeof payload);
}

static void say_stdin(struct input *input)
{
    static const uint8_t zeros[CV_FRAME_PAYLOAD_MAX];
    uint32_t id = next_byte(input) % IDS;
    say(CV_FRAME_STDIN, id, zeros, (size_t)next_byte(input) * 128);
}

/* ---- commands and time ---------------------------------------------------------------------- */

static void pass_time(struct input *input)
{
    static const int64_t times[] = {1, 250, 1000, 2000, 5000, 10000, 100000};
    clock_advance(times[next_byte(input) % 7]);
}

/* A command may do this to its own workspace. */
static void change_folder(struct input *input)
{
    switch (next_byte(input) % 3) {
    case 0:
        (void)!rename("/base/root", "/base/moved");
        break;
    case 1:
        (void)!symlink("../../outside", "/base/root/link");
        break;
    case 2:
        (void)!chmod("/base/root/f", 0);
        break;
    }
}

static void close_host(void)
{
    cv_fd_close(&host);
}

/* ---- actions ------------------------------------------------------------------------------- */

static void act(struct input *input)
{
    size_t length;
    const uint8_t *bytes;
    switch (next_byte(input) % 18) {
    case 0:
    case 1:
        say_any(input);
        break;
    case 2:
        say_hello(input);
        break;
    case 3:
    case 4:
        say_start(input);
        break;
    case 5:
        say_file(input);
        break;
    case 6:
        say_simple(input);
        break;
    case 7:
        say_credit(input);
        break;
    case 8:
        say_stdin(input);
        break;
    case 9: /* bytes that may be anything */
        length = next_byte(input) % 32;
        bytes = next_bytes(input, &length);
        cv_buf_append(&queue, bytes, length);
        break;
    case 10:
    case 11:
    case 12:
        processes_act(input, false);
        break;
    case 13:
        processes_next_start(next_byte(input) % START_COUNT);
        break;
    case 14:
        pass_time(input);
        break;
    case 15:
        listen_to_supervisor();
        break;
    case 16:
        change_folder(input);
        break;
    case 17:
        length = next_byte(input);
        if (length % 4 == 0)
            close_host();
        else if (length % 4 == 1)
            session_host_dies();
        else
            processes_settle();
        break;
    }
}

static bool step(void *context)
{
    struct input *input = context;
    torture_hold(true);
    if (input->left > 0)
        act(input);
    flush_queue();
    bool goes_on = input->left > 0 || cv_buf_length(&queue) > 0;
    torture_hold(false);
    drain(NULL);
    if (!goes_on && host >= 0)
        shutdown(host, SHUT_WR);
    return goes_on && host >= 0;
}

static void make_base(void)
{
    box_enter();
    REQUIRE(mkdir("/base", 0755) == 0 && mkdir("/base/root", 0755) == 0 &&
            mkdir("/base/root/dir", 0755) == 0 && mkdir("/outside", 0755) == 0);
    close(open("/base/file", O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    box_leave();
}

/* The lowest free descriptor: the same before and after, or one was left open. */
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
    static const uint8_t lengths[18] = {5, 5, 3, 9, 9, 3, 3, 2, 3, 9, 4, 4, 4, 2, 2, 1, 2, 2};
    return mutate_actions(data, size, max, seed, 3, lengths, 18);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    int pair[2];
    struct input input = {bytes, size};
    static const int record_errnos[] = {0, 0, 0, EAGAIN, ENOLCK};
    uint8_t how = next_byte(&input);
    int record_errno = record_errnos[(how & 0x7f) % 5];
    unsigned long failing = next_byte(&input);
    failing |= (unsigned long)next_byte(&input) << 8;
    const struct session_script script = {.step = step, .drain = drain, .context = &input};
    int first_free = free_descriptor();
    make_base();
    memset(asked, 0, sizeof asked);
    memset(answered, 0, sizeof answered);
    credit = 0;
    lazy = (how & 0x80) != 0;
    nonsense = false;
    cv_buf_init(&queue, QUEUE_MAX);
    cv_frame_reader_init(&sent, 'h');
    cv_frame_reader_init(&received, 's');
    cv_assembler_init(&sent_messages, CV_MESSAGE_MAX);
    cv_assembler_init(&received_messages, CV_MESSAGE_MAX);
    processes_begin();
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) == 0);
    host = pair[1];
    torture_fail(failing);
    session_run(pair[0], record_errno, &script);
    torture_fail(0);
    listen_to_supervisor();
    close_host();
    cv_buf_free(&queue);
    cv_frame_reader_free(&sent);
    cv_frame_reader_free(&received);
    cv_assembler_free(&sent_messages);
    cv_assembler_free(&received_messages);
    box_clear();
    REQUIRE(free_descriptor() == first_free);
    return 0;
}
