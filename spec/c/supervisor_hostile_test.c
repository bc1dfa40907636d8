/* The supervisor, black box: garbage on the stream, and a host that falls silent. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "support/harness.h"

/* A frame by hand, so that nothing of it need be right. */
static void send_frame(struct sup *sup, uint32_t length, uint8_t type, uint8_t flags, uint32_t id,
                       const void *payload, size_t sent)
{
    uint8_t header[CV_FRAME_HEADER_SIZE];
    cv_frame_header(header, type, flags, id, length);
    sup_send_raw(sup, header, sizeof header);
    sup_send_raw(sup, payload, sent);
}

/* A whole frame with a payload that was put together from words and bytes. */
struct payload {
    uint8_t bytes[256];
    size_t length;
};

static void put_u32(struct payload *payload, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        payload->bytes[payload->length++] = (uint8_t)(value >> (8 * i));
}

static void put_string(struct payload *payload, const char *string)
{
    strcpy((char *)payload->bytes + payload->length, string);
    payload->length += strlen(string) + 1;
}

static void send_payload(struct sup *sup, uint8_t type, uint32_t id, const struct payload *payload)
{
    send_frame(sup, (uint32_t)payload->length, type, 0, id, payload->bytes, payload->length);
}

/* The stream must end, by itself and with everything dead. */
static void expect_end(struct sup *sup, const char *what)
{
    print_message("    %s\n", what);
    sup_wait_eof(sup);
    sup_expect_guard_exit(sup);
    sup_teardown(NULL);
}

/* Hello */

static struct payload hello_payload(struct sup *sup, uint32_t version, uint32_t flags,
                                    uint32_t credit, uint32_t stdin_credit)
{
    struct payload payload = {.length = 0};
    const uint32_t head[] = {version, flags, credit, stdin_credit, 0, 0, 0, 1};
    for (size_t i = 0; i < sizeof head / sizeof *head; i++)
        put_u32(&payload, head[i]);
    put_string(&payload, sup->base);
    put_string(&payload, sup->tag);
    return payload;
}

static void test_wrong_version(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    struct payload payload = hello_payload(sup, CV_FRAME_VERSION + 1, 0, 1000, 1000);
    send_payload(sup, CV_FRAME_HELLO, 0, &payload);
    sup_wait_eof(sup);
    assert_true(sup->failed);
    assert_int_equal(sup->failure, CV_FAILURE_VERSION);
    assert_false(sup->ready);
    sup_expect_guard_exit(sup);
}

static void test_bad_hello(void **state)
{
    (void)state;
    static const char *const names[] = {"..", "a/b", ".", ""};
    struct sup *sup;
    struct payload payload;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        sup = sup_spawn(NULL);
        payload = (struct payload){.length = 0};
        const uint32_t head[] = {CV_FRAME_VERSION, 0, 1000, 1000, 0, 0, 1, 0};
        for (size_t k = 0; k < sizeof head / sizeof *head; k++)
            put_u32(&payload, head[k]);
        put_string(&payload, sup->base);
        put_string(&payload, names[i]);
        send_payload(sup, CV_FRAME_HELLO, 0, &payload);
        expect_end(sup, "a name that is no entry of the base");
    }
    for (size_t length = 0; length < 40; length += 3) {
        sup = sup_spawn(NULL);
        payload = hello_payload(sup, CV_FRAME_VERSION, 0, 1000, 1000);
        payload.length = length;
        send_payload(sup, CV_FRAME_HELLO, 0, &payload);
        expect_end(sup, "hello that is too short");
    }
    sup = sup_spawn(NULL);
    payload = hello_payload(sup, CV_FRAME_VERSION, 0x80, 1000, 1000);
    send_payload(sup, CV_FRAME_HELLO, 0, &payload);
    expect_end(sup, "hello with an unknown flag");
    sup = sup_spawn(NULL);
    payload = hello_payload(sup, CV_FRAME_VERSION, 0, 0, 1000);
    send_payload(sup, CV_FRAME_HELLO, 0, &payload);
    expect_end(sup, "hello without credit");
    sup = sup_spawn(NULL);
    payload = hello_payload(sup, CV_FRAME_VERSION, 0, 1000, CV_STDIN_CREDIT_MAX + 1);
    send_payload(sup, CV_FRAME_HELLO, 0, &payload);
    expect_end(sup, "hello with a stdin credit over the maximum");
    sup = sup_spawn(NULL);
    payload = hello_payload(sup, CV_FRAME_VERSION, 0, 1000, 1000);
    put_string(&payload, "more");
    send_payload(sup, CV_FRAME_HELLO, 0, &payload);
    expect_end(sup, "hello with bytes behind its end");
}

static void test_frames_before_hello(void **state)
{
    (void)state;
    static const uint8_t types[] = {CV_FRAME_START,
                                    CV_FRAME_STDIN,
                                    CV_FRAME_STDIN_END,
                                    CV_FRAME_ABORT,
                                    CV_FRAME_CREDIT,
                                    CV_FRAME_REMOVE,
                                    CV_FRAME_CLOSE,
                                    CV_FRAME_PONG,
                                    CV_FRAME_READY,
                                    CV_FRAME_STDOUT,
                                    0,
                                    0xff};
    for (size_t i = 0; i < sizeof types; i++) {
        struct sup *sup = sup_spawn(NULL);
        send_frame(sup, 4, types[i], 0, 0, "\1\0\0\0", 4);
        char what[64];
        snprintf(what, sizeof what, "frame 0x%x before hello", types[i]);
        expect_end(sup, what);
    }
}

static void test_no_frames_at_all(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    static const char request[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
    sup_send_raw(sup, request, sizeof request - 1);
    expect_end(sup, "another protocol");
    sup = sup_spawn(NULL);
    sup_send_raw(sup, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 12);
    expect_end(sup, "ones");
    sup = sup_spawn(NULL);
    sup_send_raw(sup, "\0\0\0\0\0\0\0\0\0\0\0\0", 12);
    expect_end(sup, "zeros");
}

/* A hello that comes one byte at a time is a hello. */
static void test_hello_in_pieces(void **state)
{
    (void)state;
    struct sup *sup = sup_spawn(NULL);
    struct payload payload = hello_payload(sup, CV_FRAME_VERSION, 0, 1000, 1000);
    uint8_t header[CV_FRAME_HEADER_SIZE];
    cv_frame_header(header, CV_FRAME_HELLO, 0, 0, (uint32_t)payload.length);
    for (size_t i = 0; i < sizeof header + payload.length; i++) {
        sup_send_raw(sup, i < sizeof header ? &header[i] : &payload.bytes[i - sizeof header], 1);
        sup_pump(sup, 0);
        sup_sleep(1);
    }
    sup->window = 1000;
    sup_wait_ready(sup);
    sup_end(sup);
}

/* Behind ready */

static struct sup *populated(void)
{
    struct sup *sup = sup_start(NULL);
    sup_populate(sup);
    return sup;
}

static void test_bad_headers(void **state)
{
    (void)state;
    struct sup *sup = populated();
    send_frame(sup, 0, 0x55, 0, 1, NULL, 0);
    expect_end(sup, "an unknown type");
    sup = populated();
    send_frame(sup, 4, CV_FRAME_READY, 0, 0, "\1\0\0\0", 4);
    expect_end(sup, "a frame of the other side");
    sup = populated();
    send_frame(sup, CV_FRAME_PAYLOAD_MAX + 1, CV_FRAME_START, 0, 1, NULL, 0);
    expect_end(sup, "a length over the maximum");
    sup = populated();
    send_frame(sup, UINT32_MAX, CV_FRAME_START, 0, 1, NULL, 0);
    expect_end(sup, "the largest length");
    sup = populated();
    send_frame(sup, 0, CV_FRAME_PONG, 0x02, 0, NULL, 0);
    expect_end(sup, "an unknown flag");
    sup = populated();
    sup_send_raw(sup, "\0\0\0\0\x09\0\1\0\0\0\0\0", 12);
    expect_end(sup, "a reserved field that is not zero");
    sup = populated();
    sup_hello(sup, NULL);
    expect_end(sup, "a second hello");
    sup = populated();
    send_frame(sup, 3, CV_FRAME_CREDIT, 0, 0, "\1\0\0", 3);
    expect_end(sup, "a credit of three bytes");
}

static void test_bad_starts(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        uint32_t flags, timeout_ms, argc;
        const char *cwd, *argv0, *argv1;
        size_t cut;
    } cases[] = {
        {"an unknown flag of start", 0x80, 1000, 1, "", "true", NULL, 0},
        {"no time limit", 0, 0, 1, "", "true", NULL, 0},
        {"no program", 0, 1000, 0, "", NULL, NULL, 0},
        {"a program without a name", 0, 1000, 1, "", "", NULL, 0},
        {"an absolute cwd", 0, 1000, 1, "/tmp", "true", NULL, 0},
        {"fewer arguments than said", 0, 1000, 2, "", "true", NULL, 0},
        {"more arguments than said", 0, 1000, 1, "", "true", "true", 0},
        {"a huge count of arguments", 0, 1000, UINT32_MAX, "", "true", NULL, 0},
        {"an unfinished string", 0, 1000, 1, "", "true", NULL, 1},
        {"half a head", 0, 1000, 1, "", "true", NULL, 14},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct sup *sup = populated();
        struct payload payload = {.length = 0};
        const uint32_t head[] = {cases[i].flags, cases[i].timeout_ms, 1000, 1000, cases[i].argc};
        for (size_t k = 0; k < sizeof head / sizeof *head; k++)
            put_u32(&payload, head[k]);
        put_string(&payload, cases[i].cwd);
        if (cases[i].argv0 != NULL)
            put_string(&payload, cases[i].argv0);
        if (cases[i].argv1 != NULL)
            put_string(&payload, cases[i].argv1);
        payload.length -= cases[i].cut;
        send_payload(sup, CV_FRAME_START, 100, &payload);
        expect_end(sup, cases[i].what);
    }
    struct sup *sup = populated();
    send_frame(sup, 0, CV_FRAME_START, 0, 100, NULL, 0);
    expect_end(sup, "an empty start");
}

static void test_bad_ids_and_messages(void **state)
{
    (void)state;
    struct payload start = {.length = 0};
    const uint32_t head[] = {0, 60000, 1000, 1000, 2};
    for (size_t k = 0; k < sizeof head / sizeof *head; k++)
        put_u32(&start, head[k]);
    put_string(&start, "");
    put_string(&start, "sleep");
    put_string(&start, "1000");

    struct sup *sup = populated();
    uint32_t id = sup_sh(sup, "sleep 1000");
    send_payload(sup, CV_FRAME_START, id, &start);
    expect_end(sup, "an id that is in use");
    sup = populated();
    send_payload(sup, CV_FRAME_START, 0, &start);
    expect_end(sup, "a command with id 0");
    sup = populated();
    send_frame(sup, 10, CV_FRAME_START, CV_FRAME_MORE, 100, start.bytes, 10);
    send_frame(sup, 10, CV_FRAME_START, CV_FRAME_MORE, 101, start.bytes, 10);
    expect_end(sup, "two unfinished messages");
    sup = populated();
    static const uint8_t zeros[CV_FRAME_PAYLOAD_MAX];
    for (size_t sent = 0; sent <= CV_MESSAGE_MAX; sent += sizeof zeros)
        send_frame(sup, sizeof zeros, CV_FRAME_START, CV_FRAME_MORE, 100, zeros, sizeof zeros);
    expect_end(sup, "a message over the maximum");
    sup = populated();
    static uint8_t flood[8 * 1024 * 1024];
    id = sup_exec(sup,
                  &(struct sup_exec){.argv = SUP_LIST("sleep", "1000"), .flags = CV_START_STDIN});
    sup_send(sup, CV_FRAME_STDIN, id, flood, CV_MESSAGE_MAX);
    for (int i = 0; i < 100; i++)
        send_frame(sup, sizeof zeros, CV_FRAME_STDIN, 0, id, zeros, sizeof zeros);
    expect_end(sup, "stdin past its credit");
}

/* Frames that can cross with an end, or that a careless host may send, do no harm. */
static void test_harmless_frames(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t sleeping = sup_sh(sup, "sleep 1; exit 6");
    sup_send(sup, CV_FRAME_ABORT, 3000, NULL, 0);
    sup_send(sup, CV_FRAME_STDIN, 3000, "x", 1);
    sup_send(sup, CV_FRAME_STDIN_END, 3000, NULL, 0);
    sup_send(sup, CV_FRAME_PONG, 0, NULL, 0);
    sup_expect_serving(sup);
    sup_expect_exit(sup, sleeping, 6);
    sup_end(sup);
}

/* Other frames may pass between the parts of a long start. */
static void test_frames_between_the_parts_of_a_message(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t sleeping = sup_sh(sup, "sleep 1000");
    static char argument[60001];
    memset(argument, 'a', sizeof argument - 1);
    struct cv_buf argv, payload, frames;
    cv_buf_init(&argv, SIZE_MAX / 4);
    cv_buf_init(&payload, SIZE_MAX / 4);
    cv_buf_init(&frames, SIZE_MAX / 4);
    uint32_t id = ++sup->last_id;
    struct sup_run *run = sup_of(sup, id);
    run->started = true;
    run->out.hash = run->err.hash = ACT_HASH_START;
    run->out_cap = run->err_cap = 1000;
    cv_buf_init(&run->out.kept, SUP_KEEP);
    cv_buf_init(&run->err.kept, SUP_KEEP);
    static const char *const words[] = {"/bin/sh", "-c", "echo ${#1}", "sh", argument};
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(cv_buf_append(&argv, words[i], strlen(words[i]) + 1), 0);
    const struct cv_start start = {
        .timeout_ms = SUP_NO_LIMIT_MS,
        .stdout_cap = 1000,
        .stderr_cap = 1000,
        .cwd = "",
        .argv = {(const char *)cv_buf_data(&argv), cv_buf_length(&argv), 5}};
    assert_int_equal(cv_start_encode(&payload, &start), 0);
    assert_int_equal(cv_frame_append(&frames, CV_FRAME_START, id, cv_buf_data(&payload),
                                     cv_buf_length(&payload)),
                     0);
    sup_send_raw(sup, cv_buf_data(&frames), CV_FRAME_MAX);
    sup_send(sup, CV_FRAME_PONG, 0, NULL, 0);
    sup_abort(sup, sleeping);
    sup_wait(sup, sleeping);
    sup_send_raw(sup, cv_buf_data(&frames) + CV_FRAME_MAX, cv_buf_length(&frames) - CV_FRAME_MAX);
    sup_expect_exit(sup, id, 0);
    assert_string_equal(sup_out(sup, id), "60000\n");
    cv_buf_free(&argv);
    cv_buf_free(&payload);
    cv_buf_free(&frames);
    sup_end(sup);
}

static void test_half_a_frame_and_close(void **state)
{
    (void)state;
    static const size_t lengths[] = {1, 11, 12, 13, 40};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct sup *sup = populated();
        uint8_t bytes[64] = {100, 0, 0, 0, CV_FRAME_START, 0, 0, 0, 100};
        sup_send_raw(sup, bytes, lengths[i]);
        sup_pump_for(sup, 20);
        assert_false(sup->eof);
        shutdown(sup->fd, SHUT_WR);
        expect_end(sup, "half a frame");
    }
}

/* Whatever comes, a close ends it. */
static void test_random_bytes(void **state)
{
    (void)state;
    uint32_t random = 12345;
    for (int round = 0; round < 40; round++) {
        struct sup *sup = sup_start(NULL);
        sup_act(sup, SUP_LIST("daemon", "@"));
        uint8_t bytes[200];
        for (int frame = 0; frame < 20; frame++) {
            for (size_t i = 0; i < sizeof bytes; i++) {
                random = random * 1664525 + 1013904223;
                bytes[i] = (uint8_t)(random >> 24);
            }
            /* Most frames are good ones with a random payload. */
            uint32_t length = bytes[0] % 64;
            uint8_t type = (uint8_t)(1 + bytes[1] % 9);
            if (type == CV_FRAME_CLOSE || type == CV_FRAME_REMOVE)
                type = CV_FRAME_PONG;
            send_frame(sup, bytes[2] < 4 ? UINT32_MAX - bytes[3] : length, type, bytes[4] % 2,
                       bytes[5] % 4, bytes + 6, length);
        }
        for (int i = 0; i < 3; i++)
            sup->runs[i].started = true; /* an error for one of these is an answer */
        sup_pump_for(sup, 20);
        shutdown(sup->fd, SHUT_WR);
        sup_wait_eof(sup);
        sup_expect_guard_exit(sup);
        sup_teardown(NULL);
    }
}

/* Pings and the lease */

#define PING_MS 100

/* Pings go on coming, and no faster than they may since `start_ms`. */
static void expect_pings(struct sup *sup, int64_t start_ms)
{
    sup_wait_pings(sup, 8);
    assert_in_range(sup->pings, 8, (cv_clock_ms() - start_ms) / PING_MS + 1);
}

static void test_pings_while_something_runs(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.ping_ms = PING_MS});
    sup_pump_for(sup, 5 * PING_MS);
    assert_int_equal(sup->pings, 0);
    int64_t start_ms = cv_clock_ms();
    uint32_t id = sup_sh(sup, "exec sleep 1000");
    expect_pings(sup, start_ms);
    sup_abort(sup, id);
    sup_wait(sup, id);
    unsigned pings = sup->pings;
    sup_pump_for(sup, 6 * PING_MS);
    assert_in_range(sup->pings, pings, pings + 1); /* one may have come behind the end */
    sup_end(sup);
}

static void test_pings_while_idle(void **state)
{
    (void)state;
    int64_t start_ms = cv_clock_ms();
    struct sup *sup =
        sup_start(&(struct sup_options){.ping_ms = PING_MS, .flags = CV_HELLO_PING_IDLE});
    expect_pings(sup, start_ms);
    sup_end(sup);
}

static void test_no_pings(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){.flags = CV_HELLO_PING_IDLE});
    uint32_t id = sup_sh(sup, "sleep 0.5");
    sup_expect_exit(sup, id, 0);
    assert_int_equal(sup->pings, 0);
    sup_end(sup);
}

/* The end by a lease that ran out, at least so long after `start_ms`. */
static void expect_lease_ends(struct sup *sup, int64_t start_ms, uint32_t lease_ms)
{
    sup_wait_eof(sup);
    assert_true(sup->ready);
    assert_true(sup->failed);
    assert_int_equal(sup->failure, CV_FAILURE_LEASE);
    assert_true(sup->eof_ms - start_ms >= lease_ms);
    sup_expect_guard_exit(sup);
}

/* The lease counts from hello on, also for a host that never says another word. */
static void test_lease_of_a_host_that_only_said_hello(void **state)
{
    (void)state;
    const struct sup_options options = {.lease_ms = 500};
    struct sup *sup = sup_spawn(&options);
    sup_hello(sup, &options);
    expect_lease_ends(sup, sup->spawn_ms, options.lease_ms);
}

/*
 * Any input renews it: this host speaks for longer than the lease, five times in each. False when
 * it was itself kept from speaking for so long that the end is right.
 */
static bool speak_and_fall_silent(uint32_t lease_ms)
{
    const struct sup_options options = {.lease_ms = lease_ms};
    struct sup *sup = sup_spawn(&options);
    int64_t before = cv_clock_ms();
    int64_t longest = 0;
    sup_hello(sup, &options);
    sup_act(sup, SUP_LIST("daemon", "@"));
    sup_sh(sup, "exec sleep 1000");
    for (int i = 0; i < 16 && !sup->eof; i++) {
        sup_pump_for(sup, lease_ms / 5);
        const int64_t now = cv_clock_ms();
        sup_send(sup, CV_FRAME_PONG, 0, NULL, 0);
        sup_pump(sup, 0);
        const int64_t silence = cv_clock_ms() - before;
        longest = silence > longest ? silence : longest;
        before = now;
    }
    if (longest >= lease_ms)
        return false;
    assert_false(sup->eof);
    expect_lease_ends(sup, before, lease_ms);
    return true;
}

static void test_lease(void **state)
{
    (void)state;
    for (uint32_t lease_ms = 500; !speak_and_fall_silent(lease_ms); lease_ms *= 2) {
        assert_true(lease_ms < SUP_PATIENCE_MS / 2);
        sup_teardown(NULL);
    }
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SUP_TEST(test_wrong_version),
        SUP_TEST(test_bad_hello),
        SUP_TEST(test_frames_before_hello),
        SUP_TEST(test_no_frames_at_all),
        SUP_TEST(test_hello_in_pieces),
        SUP_TEST(test_bad_headers),
        SUP_TEST(test_bad_starts),
        SUP_TEST(test_bad_ids_and_messages),
        SUP_TEST(test_harmless_frames),
        SUP_TEST(test_frames_between_the_parts_of_a_message),
        SUP_TEST(test_half_a_frame_and_close),
        SUP_TEST(test_random_bytes),
        SUP_TEST(test_pings_while_something_runs),
        SUP_TEST(test_pings_while_idle),
        SUP_TEST(test_no_pings),
        SUP_TEST(test_lease_of_a_host_that_only_said_hello),
        SUP_TEST(test_lease),
    };
    return SUP_MAIN(argc, argv, tests);
}
