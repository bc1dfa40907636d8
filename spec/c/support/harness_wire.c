#include "support/harness.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>

#define PLAIN_PATH "PATH=/usr/local/bin:/usr/bin:/bin"

/* Sending */

void sup_send_raw(struct sup *sup, const void *bytes, size_t length)
{
    if (cv_buf_append(&sup->unsent, bytes, length) != 0)
        sup_fail("no memory for what is to be sent");
}

void sup_send(struct sup *sup, uint8_t type, uint32_t id, const void *bytes, size_t length)
{
    if (cv_frame_append(&sup->unsent, type, id, bytes, length) != 0)
        sup_fail("can't send a message of %zu bytes", length);
}

void sup_send_u32(struct sup *sup, uint8_t type, uint32_t id, uint32_t value)
{
    uint8_t bytes[4] = {(uint8_t)value, (uint8_t)(value >> 8), (uint8_t)(value >> 16),
                        (uint8_t)(value >> 24)};
    sup_send(sup, type, id, bytes, sizeof bytes);
}

void sup_credit(struct sup *sup, uint32_t bytes)
{
    sup->window += bytes;
    sup_send_u32(sup, CV_FRAME_CREDIT, 0, bytes);
}

static void put_list(struct cv_buf *bytes, uint32_t *count, const char *const *list)
{
    for (; list != NULL && *list != NULL; list++, ++*count)
        assert_int_equal(cv_buf_append(bytes, *list, strlen(*list) + 1), 0);
}

static struct cv_strings as_strings(const struct cv_buf *bytes, uint32_t count)
{
    return (struct cv_strings){.bytes = count == 0 ? NULL : (const char *)cv_buf_data(bytes),
                               .length = cv_buf_length(bytes),
                               .count = count};
}

void sup_hello(struct sup *sup, const struct sup_options *options)
{
    static const struct sup_options defaults;
    if (options == NULL)
        options = &defaults;
    struct cv_buf names, env, payload;
    uint32_t name_count = 0, env_count = 0;
    cv_buf_init(&names, CV_MESSAGE_MAX);
    cv_buf_init(&env, CV_MESSAGE_MAX);
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    put_list(&names, &name_count, options->names);
    put_list(&env, &env_count, SUP_LIST(sup->tag));
    put_list(&env, &env_count, options->env != NULL ? options->env : SUP_LIST(PLAIN_PATH));
    struct cv_hello hello = {
        .version = CV_FRAME_VERSION,
        .flags = options->flags,
        .credit = options->credit == 0 ? SUP_CREDIT : options->credit,
        .stdin_credit = options->stdin_credit == 0 ? SUP_STDIN_CREDIT : options->stdin_credit,
        .ping_ms = options->ping_ms,
        .lease_ms = options->lease_ms,
        .base = sup->base,
        .names = as_strings(&names, name_count),
        .env = as_strings(&env, env_count),
    };
    assert_int_equal(cv_hello_encode(&payload, &hello), 0);
    sup->window = hello.credit;
    sup->first_stdin_credit = hello.stdin_credit;
    sup_send(sup, CV_FRAME_HELLO, 0, cv_buf_data(&payload), cv_buf_length(&payload));
    cv_buf_free(&names);
    cv_buf_free(&env);
    cv_buf_free(&payload);
}

struct sup_run *sup_of(struct sup *sup, uint32_t id)
{
    if (id == 0 || id >= SUP_REMOVE_ID)
        sup_fail("id %u is out of range", id);
    return &sup->runs[id];
}

static uint64_t effective_cap(uint32_t flags, int64_t cap)
{
    if ((flags & CV_START_STREAM_ALL) != 0)
        return UINT64_MAX;
    return cap == 0 ? SUP_CAP : cap < 0 ? 0 : (uint64_t)cap;
}

uint32_t sup_exec(struct sup *sup, const struct sup_exec *exec)
{
    uint32_t id = ++sup->last_id;
    struct sup_run *run = sup_of(sup, id);
    struct cv_buf argv, payload;
    uint32_t argc = 0;
    cv_buf_init(&argv, CV_MESSAGE_MAX);
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    put_list(&argv, &argc, exec->argv);
    run->out_cap = effective_cap(exec->flags, exec->stdout_cap);
    run->err_cap = effective_cap(exec->flags, exec->stderr_cap);
    struct cv_start start = {
        .flags = exec->flags,
        .timeout_ms = exec->timeout_ms == 0 ? SUP_NO_LIMIT_MS : exec->timeout_ms,
        .stdout_cap = (uint32_t)run->out_cap,
        .stderr_cap = (uint32_t)run->err_cap,
        .cwd = exec->cwd == NULL ? "" : exec->cwd,
        .argv = as_strings(&argv, argc),
    };
    assert_int_equal(cv_start_encode(&payload, &start), 0);
    sup_send(sup, CV_FRAME_START, id, cv_buf_data(&payload), cv_buf_length(&payload));
    run->started = true;
    run->has_stdin = (exec->flags & CV_START_STDIN) != 0;
    run->stdin_credit = run->stdin_granted = run->has_stdin ? sup->first_stdin_credit : 0;
    run->start_ms = cv_clock_ms();
    run->out.hash = run->err.hash = ACT_HASH_START;
    cv_buf_init(&run->out.kept, SUP_KEEP);
    cv_buf_init(&run->err.kept, SUP_KEEP);
    cv_buf_free(&argv);
    cv_buf_free(&payload);
    sup_pump(sup, 0);
    return id;
}

uint32_t sup_argv(struct sup *sup, const char *const *argv)
{
    return sup_exec(sup, &(struct sup_exec){.argv = argv});
}

uint32_t sup_sh(struct sup *sup, const char *script)
{
    return sup_argv(sup, SUP_LIST("/bin/sh", "-c", script));
}

uint32_t sup_act(struct sup *sup, const char *const *arguments)
{
    const char *argv[12] = {sup_self(), "act"};
    for (int i = 0; arguments[i] != NULL; i++) {
        assert_true(i < 9);
        bool path = strcmp(arguments[i], "@") == 0;
        argv[i + 2] = path ? sup->heartbeat_path : arguments[i];
        sup->heartbeat_used = sup->heartbeat_used || path;
    }
    return sup_argv(sup, argv);
}

static uint32_t request(struct sup *sup, uint8_t type, uint8_t answer, struct cv_buf *payload)
{
    uint32_t id = ++sup->last_id;
    struct sup_run *run = sup_of(sup, id);
    run->started = true;
    run->answer = answer;
    run->start_ms = cv_clock_ms();
    run->out.hash = ACT_HASH_START;
    cv_buf_init(&run->out.kept, SUP_KEEP);
    sup_send(sup, type, id, cv_buf_data(payload), cv_buf_length(payload));
    cv_buf_free(payload);
    return id;
}

uint32_t sup_ask_read(struct sup *sup, const char *path, uint32_t max)
{
    struct cv_buf payload;
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    assert_int_equal(
        cv_read_file_encode(&payload, &(struct cv_read_file){.path = path, .max = max}), 0);
    return request(sup, CV_FRAME_READ_FILE, CV_FRAME_FILE, &payload);
}

uint32_t sup_ask_write(struct sup *sup, const char *path, const void *bytes, size_t length)
{
    const struct cv_write_file write = {.path = path, .bytes = bytes, .length = length};
    struct cv_buf payload;
    cv_buf_init(&payload, CV_MESSAGE_MAX);
    assert_int_equal(cv_write_file_encode(&payload, &write), 0);
    return request(sup, CV_FRAME_WRITE_FILE, CV_FRAME_WRITTEN, &payload);
}

void sup_abort(struct sup *sup, uint32_t id)
{
    sup_of(sup, id)->aborted = true;
    sup_send(sup, CV_FRAME_ABORT, id, NULL, 0);
}

void sup_stdin(struct sup *sup, uint32_t id, const void *bytes, size_t length, bool end)
{
    struct sup_run *run = sup_of(sup, id);
    assert_true(run->stdin_left == 0 && !run->stdin_end);
    run->stdin_bytes = bytes;
    run->stdin_left = length;
    run->stdin_end = end;
}

static void feed_stdin(struct sup *sup)
{
    for (uint32_t id = 1; id <= sup->last_id; id++) {
        struct sup_run *run = &sup->runs[id];
        if (!run->has_stdin || run->stdin_closed || run->ended || run->failed)
            continue;
        while (run->stdin_left > 0 && run->stdin_credit > 0) {
            size_t part = run->stdin_left;
            if (part > run->stdin_credit)
                part = (size_t)run->stdin_credit;
            if (part > CV_FRAME_PAYLOAD_MAX)
                part = CV_FRAME_PAYLOAD_MAX;
            sup_send(sup, CV_FRAME_STDIN, id, run->stdin_bytes, part);
            run->stdin_bytes += part;
            run->stdin_left -= part;
            run->stdin_credit -= part;
        }
        if (run->stdin_left == 0 && run->stdin_end) {
            sup_send(sup, CV_FRAME_STDIN_END, id, NULL, 0);
            run->stdin_end = false;
        }
    }
}

static void flush(struct sup *sup)
{
    while (cv_buf_length(&sup->unsent) > 0) {
        ssize_t sent =
            send(sup->fd, cv_buf_data(&sup->unsent), cv_buf_length(&sup->unsent), MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return;
        /* Nobody reads any more: what there is to know comes from reading. */
        cv_buf_consume(&sup->unsent, sent < 0 ? cv_buf_length(&sup->unsent) : (size_t)sent);
    }
}

/* Receiving */

/* The run that a frame is about; it must be under way. */
static struct sup_run *run_under_way(struct sup *sup, const struct cv_frame *frame)
{
    struct sup_run *run = frame->id < SUP_RUNS_MAX ? &sup->runs[frame->id] : NULL;
    if (run == NULL || !run->started)
        sup_fail("frame 0x%x for id %u, which was never started", frame->type, frame->id);
    if (run->ended || run->failed)
        sup_fail("frame 0x%x for id %u behind its last frame", frame->type, frame->id);
    return run;
}

static void got_output(struct sup *sup, struct sup_stream *stream, const struct cv_frame *frame)
{
    if (frame->length > sup->window)
        sup_fail("%u bytes of output with a credit of %llu", frame->length,
                 (unsigned long long)sup->window);
    sup->window -= frame->length;
    stream->hash = act_hash(stream->hash, frame->payload, frame->length);
    stream->bytes += frame->length;
    size_t room = SUP_KEEP - cv_buf_length(&stream->kept);
    if (frame->length > 0 && room > 0)
        assert_int_equal(cv_buf_append(&stream->kept, frame->payload,
                                       frame->length < room ? frame->length : room),
                         0);
    if (!sup->hold_credit)
        sup_credit(sup, frame->length);
}

static void check_amount(uint32_t id, const struct sup_run *run, const char *name, uint64_t cap,
                         uint64_t sent, uint64_t all)
{
    uint64_t expected = all < cap ? all : cap;
    if (sent > expected || (sent < expected && !run->aborted))
        sup_fail("id %u: %llu bytes of %s came of %llu, with a cap of %llu", id,
                 (unsigned long long)sent, name, (unsigned long long)all, (unsigned long long)cap);
}

static void got_ended(struct sup_run *run, const struct cv_frame *frame)
{
    if (!cv_ended_decode(frame->payload, frame->length, &run->end))
        sup_fail("id %u: bad ended frame", frame->id);
    run->ended = true;
    run->done_ms = cv_clock_ms();
    check_amount(frame->id, run, "stdout", run->out_cap, run->out.bytes, run->end.stdout_bytes);
    check_amount(frame->id, run, "stderr", run->err_cap, run->err.bytes, run->end.stderr_bytes);
}

static void got_error(struct sup *sup, const struct cv_frame *frame)
{
    struct cv_failure failure;
    if (!cv_failure_decode(frame->payload, frame->length, &failure))
        sup_fail("bad error frame");
    if (frame->id == 0 || frame->id == SUP_REMOVE_ID) {
        sup->failed = true;
        sup->failure = failure.code;
        sup->errnum = failure.errnum;
        return;
    }
    struct sup_run *run = run_under_way(sup, frame);
    run->failed = true;
    run->failure = failure.code;
    run->errnum = failure.errnum;
    memcpy(run->text, failure.text, failure.length);
    run->done_ms = cv_clock_ms();
}

static void got_answer(struct sup *sup, const struct cv_frame *frame)
{
    struct sup_run *run = run_under_way(sup, frame);
    if (run->answer != frame->type || (frame->type == CV_FRAME_WRITTEN && frame->length != 0))
        sup_fail("id %u: bad answer, frame 0x%x", frame->id, frame->type);
    got_output(sup, &run->out, frame);
    run->ended = (frame->flags & CV_FRAME_MORE) == 0;
    run->done_ms = cv_clock_ms();
}

static void got_frame(struct sup *sup, const struct cv_frame *frame)
{
    if (frame->flags != 0 && frame->type != CV_FRAME_FILE)
        sup_fail("frame 0x%x with flags 0x%x", frame->type, frame->flags);
    /* Who has lost its host before the hello removes without being ready. */
    if (!sup->ready && frame->type != CV_FRAME_READY && frame->type != CV_FRAME_ERROR &&
        frame->type != CV_FRAME_REMOVED)
        sup_fail("frame 0x%x before ready", frame->type);
    uint32_t value = 0;
    switch (frame->type) {
    case CV_FRAME_READY:
        if (sup->ready || frame->id != 0 || !cv_u32_decode(frame->payload, frame->length, &value) ||
            value != CV_FRAME_VERSION)
            sup_fail("bad ready frame");
        sup->ready = true;
        break;
    case CV_FRAME_STDOUT:
        got_output(sup, &run_under_way(sup, frame)->out, frame);
        break;
    case CV_FRAME_STDERR:
        got_output(sup, &run_under_way(sup, frame)->err, frame);
        break;
    case CV_FRAME_STDIN_CREDIT: {
        struct sup_run *run = run_under_way(sup, frame);
        if (!run->has_stdin || !cv_u32_decode(frame->payload, frame->length, &value))
            sup_fail("bad stdin credit frame");
        run->stdin_credit += value;
        run->stdin_granted += value;
        break;
    }
    case CV_FRAME_STDIN_CLOSED: {
        struct sup_run *run = run_under_way(sup, frame);
        if (!run->has_stdin || run->stdin_closed)
            sup_fail("stdin closed, twice or without a stdin");
        run->stdin_closed = true;
        break;
    }
    case CV_FRAME_FILE:
    case CV_FRAME_WRITTEN:
        got_answer(sup, frame);
        break;
    case CV_FRAME_ENDED:
        got_ended(run_under_way(sup, frame), frame);
        break;
    case CV_FRAME_ERROR:
        got_error(sup, frame);
        break;
    case CV_FRAME_REMOVED:
        if (sup->removed || frame->id != SUP_REMOVE_ID ||
            !cv_u32_decode(frame->payload, frame->length, &sup->survivors))
            sup_fail("bad removed frame");
        sup->removed = true;
        break;
    case CV_FRAME_PING:
        sup->pings++;
        break;
    }
}

static void receive(struct sup *sup)
{
    static uint8_t chunk[256 * 1024];
    ssize_t got = recv(sup->fd, chunk, sizeof chunk, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) { /* a reset is how an end with unread bytes looks */
        sup->eof = true;
        sup->eof_ms = cv_clock_ms();
        return;
    }
    cv_frame_reader_push(&sup->reader, chunk, (size_t)got);
    struct cv_frame frame;
    int result;
    while ((result = cv_frame_reader_next(&sup->reader, &frame)) == 1)
        got_frame(sup, &frame);
    if (result < 0)
        sup_fail("the supervisor sent garbage");
}

void sup_pump(struct sup *sup, int64_t ms)
{
    if (sup->eof)
        return;
    feed_stdin(sup);
    flush(sup);
    if (sup->deaf) {
        sup_sleep(ms < 0 ? 0 : ms > 5 ? 5 : ms);
        return;
    }
    bool unsent = cv_buf_length(&sup->unsent) > 0;
    struct pollfd poller = {.fd = sup->fd, .events = (short)(POLLIN | (unsent ? POLLOUT : 0))};
    if (poll(&poller, 1, ms < 0 ? 0 : (int)ms) <= 0)
        return;
    if ((poller.revents & ~POLLOUT) != 0)
        receive(sup);
    if (!sup->eof)
        flush(sup);
}
