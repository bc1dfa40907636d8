/* A WebSocket's frames: what comes is fed whole, byte by byte and cut in two at every place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/websocket.h"
#include "support/failing_realloc.h"

#define MAX 64

struct outcome {
    char log[512]; /* the events: M(bytes) T(bytes) P(bytes) C<code>(reason), "!" where it broke */
    char problem[64];
    uint8_t sent[256]; /* unmasked, so that runs can be compared */
    size_t sent_length;
};

/* A frame of the client without its mask; returns its length in `from`, 0 when it is none. */
static size_t unmask(const uint8_t *from, size_t length, uint8_t *to, size_t *count)
{
    if (length < 6 || (from[1] & 0x80) == 0 || (from[1] & 0x7f) > 125)
        return 0;
    const size_t payload = from[1] & 0x7f;
    if (length < 6 + payload)
        return 0;
    to[0] = from[0];
    to[1] = (uint8_t)payload;
    for (size_t i = 0; i < payload; i++)
        to[2 + i] = from[6 + i] ^ from[2 + i % 4];
    *count = 2 + payload;
    return 6 + payload;
}

static void take_sent(struct cv_websocket *socket, struct outcome *outcome)
{
    while (cv_buf_length(&socket->out) > 0) {
        size_t count;
        assert_true(outcome->sent_length + 128 <= sizeof outcome->sent);
        size_t used = unmask(cv_buf_data(&socket->out), cv_buf_length(&socket->out),
                             outcome->sent + outcome->sent_length, &count);
        assert_true(used > 0);
        outcome->sent_length += count;
        cv_buf_consume(&socket->out, used);
    }
}

static void log_event(struct outcome *outcome, const struct cv_websocket_event *event)
{
    char *end = outcome->log + strlen(outcome->log);
    *end++ = "MTPC"[event->type];
    if (event->type == CV_WEBSOCKET_CLOSE)
        end += sprintf(end, "%u", event->code);
    sprintf(end, "(%.*s)", (int)event->length, (const char *)event->bytes);
}

static void run(struct outcome *outcome, const char *bytes, size_t length, size_t first,
                size_t step)
{
    struct cv_websocket socket;
    const struct cv_websocket_event *event;
    struct cv_err err;
    int got = 0;
    memset(outcome, 0, sizeof *outcome);
    assert_int_equal(cv_websocket_init(&socket, MAX, &err), 0);
    for (size_t at = 0, size = first; at < length && got == 0; at += size, size = step) {
        if (size > length - at)
            size = length - at;
        char *chunk = malloc(size);
        memcpy(chunk, bytes + at, size);
        cv_websocket_push(&socket, chunk, size);
        while ((got = cv_websocket_next(&socket, &event)) > 0)
            log_event(outcome, event);
        free(chunk);
    }
    if (got < 0) {
        strcat(outcome->log, "!");
        snprintf(outcome->problem, sizeof outcome->problem, "%s", socket.problem);
        assert_int_equal(cv_websocket_next(&socket, &event), -1);
        assert_int_equal(cv_websocket_message(&socket, "x", 1, &err), -1);
        assert_string_equal(err.code, "closed");
    }
    take_sent(&socket, outcome);
    cv_websocket_free(&socket);
}

static struct outcome decode(const char *bytes, size_t length)
{
    struct outcome whole, cut;
    run(&whole, bytes, length, length, length);
    for (size_t first = 1; first <= length; first++) {
        run(&cut, bytes, length, first, first == 1 ? 1 : length);
        assert_memory_equal(&whole, &cut, sizeof whole);
    }
    return whole;
}

#define DECODE(literal) decode(literal, sizeof(literal) - 1)
#define ASSERT_LOG(literal, expected) assert_string_equal(DECODE(literal).log, expected)

static void messages_come_whole(void **state)
{
    (void)state;
    ASSERT_LOG("", "");
    ASSERT_LOG("\x82\3abc\x82\0\x82\1z", "M(abc)M()M(z)");
    ASSERT_LOG("\x81\3abc", "T(abc)");
    ASSERT_LOG("\2\1a\0\1b\0\0\x80\1c\x82\1d", "M(abc)M(d)");
    ASSERT_LOG("\2\1a\x89\1p\x8a\1q\x80\1b", "P(q)M(ab)");
    ASSERT_LOG("\x82\3ab", "");
}

static void pings_are_answered(void **state)
{
    (void)state;
    struct outcome outcome = DECODE("\x89\0\x89\4ping\x82\1m");
    assert_string_equal(outcome.log, "M(m)");
    assert_int_equal(outcome.sent_length, 8);
    assert_memory_equal(outcome.sent, "\x8a\0\x8a\4ping", 8);
}

static void close_is_told_and_answered(void **state)
{
    (void)state;
    struct outcome outcome = DECODE("\x88\5\3\xe8"
                                    "bye\x82\1m\xff\xff");
    assert_string_equal(outcome.log, "C1000(bye)");
    assert_int_equal(outcome.sent_length, 7);
    assert_memory_equal(outcome.sent,
                        "\x88\5\3\xe8"
                        "bye",
                        7);
    outcome = DECODE("\x82\1m\x88\0");
    assert_string_equal(outcome.log, "M(m)C1005()");
    assert_memory_equal(outcome.sent, "\x88\0", 2);
    ASSERT_LOG("\x88\2\xf\xa0", "C4000()");
    ASSERT_LOG("\x88\1\3", "C1005()"); /* half a code is none */
}

static void assert_broken(const char *bytes, size_t length, const char *log, const char *problem,
                          unsigned code)
{
    struct outcome outcome = decode(bytes, length);
    assert_string_equal(outcome.log, log);
    assert_non_null(strstr(outcome.problem, problem));
    if (code == 0) {
        assert_true(outcome.sent_length == 0 || outcome.sent_length == 2);
        return;
    }
    assert_int_equal(outcome.sent_length, 4);
    assert_int_equal(outcome.sent[0], 0x88);
    assert_int_equal(outcome.sent[2] << 8 | outcome.sent[3], code);
}

#define ASSERT_BROKEN(literal, log, problem, code)                                                 \
    assert_broken(literal, sizeof(literal) - 1, log, problem, code)

static void what_is_no_frame_breaks_it(void **state)
{
    (void)state;
    ASSERT_BROKEN("\x82\1m\xc2\1x", "M(m)!", "no valid frame", 1002); /* a reserved bit */
    ASSERT_BROKEN("\x82\x81\0\0\0\0x", "!", "no valid frame", 1002);  /* masked */
    ASSERT_BROKEN("\x80\1x", "!", "no valid frame", 1002);            /* continues nothing */
    ASSERT_BROKEN("\2\1a\x82\1b", "!", "no valid frame", 1002);       /* inside another */
    ASSERT_BROKEN("\x83\1x", "!", "no valid frame", 1002);            /* no such opcode */
    ASSERT_BROKEN("\x09\1x", "!", "no valid frame", 0);               /* a ping in parts */
    ASSERT_BROKEN("\x89\x7e\0\x7e", "!", "no valid frame", 0);        /* a long ping */
    ASSERT_BROKEN("\x82\x7e\0\3"
                  "abc",
                  "!", "no valid frame", 0);                    /* a longer length than needed */
    ASSERT_BROKEN("\x88\2\3\xed", "!", "no valid frame", 1002); /* 1005 */
    ASSERT_BROKEN("\x88\2\3\xe7", "!", "no valid frame", 1002); /* 999 */
    ASSERT_BROKEN("\x81\1\xff", "!", "not UTF-8", 1007);
    ASSERT_BROKEN("\x82\x7f\x80\0\0\0\0\0\0\1x", "!", "no valid frame", 0); /* over 2^63 */
    ASSERT_BROKEN("HTTP/1.1 400 Bad Request\r\n", "!", "no valid frame", 0);
}

static void length_of_a_message_is_bounded(void **state)
{
    static char exact[2 + MAX];
    (void)state;
    memset(exact, 'x', sizeof exact);
    exact[0] = (char)0x82;
    exact[1] = MAX;
    assert_string_not_equal(decode(exact, sizeof exact).log, "!");
    exact[1] = MAX + 1;
    assert_broken(exact, sizeof exact, "!", "too long", 1009);
    ASSERT_BROKEN("\x82\x7f\0\0\0\xff\xff\xff\xff\xffx", "!", "too long", 1009);
    ASSERT_BROKEN("\2\2ab\x80\x3fx", "!", "too long", 1009);
}

/* Frames without a byte never make a message too long. */
static void fragments_of_a_message_are_bounded(void **state)
{
    struct cv_websocket socket;
    const struct cv_websocket_event *event;
    struct cv_err err;
    (void)state;
    assert_int_equal(cv_websocket_init(&socket, MAX, &err), 0);
    cv_websocket_push(&socket, "\2\0", 2);
    assert_int_equal(cv_websocket_next(&socket, &event), 0);
    int got = 0;
    int frames = 1;
    for (; got == 0 && frames < 2 * CV_WEBSOCKET_FRAMES_MAX; frames++) {
        cv_websocket_push(&socket, "\0\0", 2);
        got = cv_websocket_next(&socket, &event);
    }
    assert_int_equal(got, -1);
    assert_int_equal(frames, CV_WEBSOCKET_FRAMES_MAX + 1);
    assert_string_equal(socket.problem, "a message has too many fragments");
    cv_websocket_free(&socket);
}

static void frames_are_masked_by_bytes_of_their_own(void **state)
{
    struct cv_websocket socket;
    struct cv_err err;
    uint8_t plain[128];
    size_t count;
    (void)state;
    assert_int_equal(cv_websocket_init(&socket, MAX, &err), 0);
    assert_int_equal(cv_websocket_message(&socket, "hello", 5, &err), 0);
    assert_int_equal(cv_websocket_message(&socket, "hello", 5, &err), 0);
    assert_int_equal(cv_buf_length(&socket.out), 22);
    const uint8_t *out = cv_buf_data(&socket.out);
    assert_memory_not_equal(out + 2, out + 13, 4);
    assert_int_equal(unmask(out, 22, plain, &count), 11);
    assert_memory_equal(plain, "\x82\5hello", 7);
    assert_int_equal(unmask(out + 11, 11, plain, &count), 11);
    assert_memory_equal(plain, "\x82\5hello", 7);
    cv_buf_consume(&socket.out, 22);

    assert_int_equal(cv_websocket_ping(&socket, "17", 2, &err), 0);
    assert_int_equal(unmask(cv_buf_data(&socket.out), 8, plain, &count), 8);
    assert_memory_equal(plain,
                        "\x89\2"
                        "17",
                        4);
    cv_websocket_free(&socket);
}

static void what_can_not_be_sent_is_refused(void **state)
{
    struct cv_websocket socket;
    struct cv_err err;
    static char bytes[MAX + 1 + CV_WEBSOCKET_PING_MAX];
    (void)state;
    assert_int_equal(cv_websocket_init(&socket, MAX, &err), 0);
    assert_int_equal(cv_websocket_message(&socket, bytes, MAX + 1, &err), -1);
    assert_string_equal(err.code, "invalid_request");
    assert_string_equal(err.message, "a message may have 64 bytes at most");
    assert_int_equal(cv_websocket_ping(&socket, bytes, CV_WEBSOCKET_PING_MAX + 1, &err), -1);
    assert_string_equal(err.code, "invalid_request");
    static const int64_t codes[] = {-1, 0, 999, 1004, 1005, 1006, 1015, 5000, 65536 + 1000};
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        assert_int_equal(cv_websocket_close(&socket, codes[i], "", 0, &err), -1);
        assert_string_equal(err.code, "invalid_request");
    }
    assert_int_equal(cv_websocket_close(&socket, 1000, bytes, CV_WEBSOCKET_REASON_MAX + 1, &err),
                     -1);
    assert_int_equal(cv_buf_length(&socket.out), 0);
    assert_int_equal(cv_websocket_message(&socket, bytes, MAX, &err), 0);
    cv_websocket_free(&socket);
}

/* What the server says after our close is still read, its own close too; nothing more is sent. */
static void own_close_ends_one_direction(void **state)
{
    struct cv_websocket socket;
    const struct cv_websocket_event *event;
    struct cv_err err;
    uint8_t plain[128];
    size_t count;
    (void)state;
    assert_int_equal(cv_websocket_init(&socket, MAX, &err), 0);
    assert_int_equal(cv_websocket_close(&socket, 1001, "gone", 4, &err), 0);
    assert_int_equal(unmask(cv_buf_data(&socket.out), cv_buf_length(&socket.out), plain, &count),
                     12);
    assert_memory_equal(plain, "\x88\6\3\xe9gone", 8);
    cv_buf_consume(&socket.out, 12);
    assert_int_equal(cv_websocket_message(&socket, "x", 1, &err), -1);
    assert_string_equal(err.code, "closed");
    assert_int_equal(cv_websocket_close(&socket, 1000, NULL, 0, &err), -1);
    assert_string_equal(err.code, "closed");
    cv_websocket_push(&socket, "\x89\0\x82\1m\x88\2\3\xe9", 9);
    assert_int_equal(cv_websocket_next(&socket, &event), 1);
    assert_int_equal(event->type, CV_WEBSOCKET_MESSAGE);
    assert_int_equal(cv_websocket_next(&socket, &event), 1);
    assert_int_equal(event->type, CV_WEBSOCKET_CLOSE);
    assert_int_equal(event->code, 1001);
    assert_int_equal(cv_websocket_next(&socket, &event), 0);
    assert_int_equal(cv_buf_length(&socket.out), 0);
    cv_websocket_free(&socket);
}

static void without_memory_it_breaks(void **state)
{
    struct cv_websocket socket;
    struct cv_err err;
    (void)state;
    if (!realloc_can_fail())
        skip();
    assert_int_equal(cv_websocket_init(&socket, MAX, &err), 0);
    realloc_fails = true;
    int sent = cv_websocket_message(&socket, "x", 1, &err);
    realloc_fails = false;
    assert_int_equal(sent, -1);
    assert_string_equal(err.code, "start_failed");
    assert_int_equal(cv_websocket_message(&socket, "x", 1, &err), -1);
    assert_string_equal(err.code, "closed");
    cv_websocket_free(&socket);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(messages_come_whole),
        cmocka_unit_test(pings_are_answered),
        cmocka_unit_test(close_is_told_and_answered),
        cmocka_unit_test(what_is_no_frame_breaks_it),
        cmocka_unit_test(length_of_a_message_is_bounded),
        cmocka_unit_test(fragments_of_a_message_are_bounded),
        cmocka_unit_test(frames_are_masked_by_bytes_of_their_own),
        cmocka_unit_test(what_can_not_be_sent_is_refused),
        cmocka_unit_test(own_close_ends_one_direction),
        cmocka_unit_test(without_memory_it_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
