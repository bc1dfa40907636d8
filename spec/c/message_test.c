#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/supervise/message.h"
#include "proto/supervise/wire.h"

/* A list from a literal whose strings end with "\0"; the literal's own NUL is not part of it. */
#define LIST(n, literal)                                                                           \
    {                                                                                              \
        .bytes = (literal), .length = sizeof(literal) - 1, .count = (n)                            \
    }

static const struct cv_hello full_hello = {
    .version = 1,
    .flags = CV_HELLO_CREATE | CV_HELLO_PING_IDLE,
    .credit = 262144,
    .stdin_credit = 65536,
    .ping_ms = 15000,
    .lease_ms = 900000,
    .base = "/tmp/a b/\xff",
    .names = LIST(3, "id\0id.home\0.x\0"),
    .env = LIST(3, "PATH=/bin\0EMPTY=\0A=b=c\n\0"),
};

static const struct cv_start full_start = {
    .flags = CV_START_STDIN | CV_START_STREAM_ALL,
    .timeout_ms = 1,
    .stdout_cap = UINT32_MAX,
    .stderr_cap = 0,
    .cwd = "sub/\xf0\x9f",
    .argv = LIST(3, "sh\0\0-c\0"),
};

static bool decode_hello(const uint8_t *payload, size_t length)
{
    struct cv_hello hello;
    return cv_hello_decode(payload, length, &hello);
}

static bool decode_start(const uint8_t *payload, size_t length)
{
    struct cv_start start;
    return cv_start_decode(payload, length, &start);
}

static bool decode_ended(const uint8_t *payload, size_t length)
{
    struct cv_ended ended;
    return cv_ended_decode(payload, length, &ended);
}

static bool decode_failure(const uint8_t *payload, size_t length)
{
    struct cv_failure failure;
    return cv_failure_decode(payload, length, &failure);
}

static bool decode_u32(const uint8_t *payload, size_t length)
{
    uint32_t value;
    return cv_u32_decode(payload, length, &value);
}

typedef bool decoder(const uint8_t *payload, size_t length);

/* Decodes from memory of exactly that size, so that a read past it shows. */
static bool decode_copy(decoder *decode, const void *payload, size_t length)
{
    uint8_t *copy = calloc(1, length);
    if (length > 0)
        memcpy(copy, payload, length);
    bool good = decode(copy, length);
    free(copy);
    return good;
}

/* A whole payload is accepted; every shorter one, and one byte more, is refused. */
static void expect_exact_length(decoder *decode, const void *payload, size_t length)
{
    uint8_t *longer = calloc(1, length + 1);
    memcpy(longer, payload, length);
    assert_true(decode_copy(decode, payload, length));
    for (size_t cut = 0; cut < length; cut++) {
        if (decode_copy(decode, payload, cut))
            fail_msg("%zu of %zu bytes were accepted", cut, length);
    }
    assert_false(decode_copy(decode, longer, length + 1));
    longer[length] = 'x';
    assert_false(decode_copy(decode, longer, length + 1));
    free(longer);
}

static void expect_strings(const struct cv_strings *got, const struct cv_strings *expected)
{
    assert_int_equal(got->count, expected->count);
    assert_int_equal(got->length, expected->length);
    if (expected->count == 0)
        assert_null(got->bytes);
    else
        assert_memory_equal(got->bytes, expected->bytes, expected->length);
}

static void expect_hello(const struct cv_hello *hello)
{
    struct cv_buf out;
    struct cv_hello got;
    cv_buf_init(&out, 1 << 20);
    assert_int_equal(cv_hello_encode(&out, hello), 0);
    assert_true(cv_hello_decode(cv_buf_data(&out), cv_buf_length(&out), &got));
    assert_int_equal(got.version, hello->version);
    assert_int_equal(got.flags, hello->flags);
    assert_int_equal(got.credit, hello->credit);
    assert_int_equal(got.stdin_credit, hello->stdin_credit);
    assert_int_equal(got.ping_ms, hello->ping_ms);
    assert_int_equal(got.lease_ms, hello->lease_ms);
    assert_string_equal(got.base, hello->base);
    expect_strings(&got.names, &hello->names);
    expect_strings(&got.env, &hello->env);
    expect_exact_length(decode_hello, cv_buf_data(&out), cv_buf_length(&out));
    cv_buf_free(&out);
}

static void expect_start(const struct cv_start *start)
{
    struct cv_buf out;
    struct cv_start got;
    cv_buf_init(&out, 1 << 20);
    assert_int_equal(cv_start_encode(&out, start), 0);
    assert_true(cv_start_decode(cv_buf_data(&out), cv_buf_length(&out), &got));
    assert_int_equal(got.flags, start->flags);
    assert_int_equal(got.timeout_ms, start->timeout_ms);
    assert_int_equal(got.stdout_cap, start->stdout_cap);
    assert_int_equal(got.stderr_cap, start->stderr_cap);
    assert_string_equal(got.cwd, start->cwd);
    expect_strings(&got.argv, &start->argv);
    expect_exact_length(decode_start, cv_buf_data(&out), cv_buf_length(&out));
    cv_buf_free(&out);
}

static void hello_round_trip(void **state)
{
    (void)state;
    expect_hello(&full_hello);
    struct cv_hello bare = {.credit = 1, .stdin_credit = CV_STDIN_CREDIT_MAX, .base = "/"};
    expect_hello(&bare);
    bare.flags = CV_HELLO_FLAGS & ~CV_HELLO_RECORD;
    bare.version = UINT32_MAX; /* a decoder of this version must be able to say so */
    bare.env = (struct cv_strings)LIST(1, "A=\0");
    expect_hello(&bare);
}

static void start_round_trip(void **state)
{
    (void)state;
    expect_start(&full_start);
    expect_start(
        &(struct cv_start){.timeout_ms = UINT32_MAX, .cwd = "", .argv = LIST(1, "true\0")});
}

static bool hello_accepted(struct cv_hello hello)
{
    struct cv_buf out;
    cv_buf_init(&out, 1 << 20);
    assert_int_equal(cv_hello_encode(&out, &hello), 0);
    bool good = decode_copy(decode_hello, cv_buf_data(&out), cv_buf_length(&out));
    cv_buf_free(&out);
    return good;
}

static void hello_refuses_values(void **state)
{
    (void)state;
    struct cv_hello hello = full_hello;
    assert_true(hello_accepted(hello));
    hello.flags = CV_HELLO_RECORD;
    assert_true(hello_accepted(hello));
    hello.names = (struct cv_strings)LIST(1, "id\0"); /* a record, but no root */
    assert_false(hello_accepted(hello));
    hello = full_hello;
    hello.flags = 0x10;
    assert_false(hello_accepted(hello));
    hello.flags = 0x80000000;
    assert_false(hello_accepted(hello));
    hello = full_hello;
    hello.credit = 0;
    assert_false(hello_accepted(hello));
    hello = full_hello;
    hello.stdin_credit = 0;
    assert_false(hello_accepted(hello));
    hello.stdin_credit = CV_STDIN_CREDIT_MAX + 1;
    assert_false(hello_accepted(hello));
    hello = full_hello;
    hello.base = "";
    assert_false(hello_accepted(hello));
    hello.base = "tmp";
    assert_false(hello_accepted(hello));
}

static void hello_refuses_names_that_are_paths(void **state)
{
    (void)state;
    static const struct {
        bool good;
        struct cv_strings names;
    } table[] = {
        {true, LIST(1, "...\0")},      {true, LIST(1, "..a\0")},    {true, LIST(1, " \0")},
        {false, LIST(1, "\0")},        {false, LIST(1, ".\0")},     {false, LIST(1, "..\0")},
        {false, LIST(1, "/\0")},       {false, LIST(1, "a/b\0")},   {false, LIST(1, "/a\0")},
        {false, LIST(2, "a\0a/\0")},   {false, LIST(2, "a\0..\0")}, {false, LIST(2, "a\0\0")},
        {false, LIST(3, "a\0.\0b\0")},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct cv_hello hello = full_hello;
        hello.names = table[i].names;
        if (hello_accepted(hello) != table[i].good)
            fail_msg("case %zu", i);
    }
}

static void hello_refuses_env_without_a_name(void **state)
{
    (void)state;
    static const struct cv_strings bad[] = {LIST(1, "\0"), LIST(1, "PATH\0"), LIST(1, "=x\0"),
                                            LIST(2, "A=b\0C\0"), LIST(2, "A=b\0=\0")};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct cv_hello hello = full_hello;
        hello.env = bad[i];
        if (hello_accepted(hello))
            fail_msg("case %zu", i);
    }
}

static bool start_accepted(struct cv_start start)
{
    struct cv_buf out;
    cv_buf_init(&out, 1 << 20);
    assert_int_equal(cv_start_encode(&out, &start), 0);
    bool good = decode_copy(decode_start, cv_buf_data(&out), cv_buf_length(&out));
    cv_buf_free(&out);
    return good;
}

static void start_refuses_values(void **state)
{
    (void)state;
    struct cv_start start = full_start;
    assert_true(start_accepted(start));
    start.flags = 0x04;
    assert_false(start_accepted(start));
    start = full_start;
    start.timeout_ms = 0;
    assert_false(start_accepted(start));
    start = full_start;
    start.cwd = "/";
    assert_false(start_accepted(start));
    start = full_start;
    start.argv = (struct cv_strings){0};
    assert_false(start_accepted(start));
    start.argv = (struct cv_strings)LIST(1, "\0");
    assert_false(start_accepted(start));
    start.argv = (struct cv_strings)LIST(2, "\0-c\0");
    assert_false(start_accepted(start));
}

/* Counts that the strings behind them don't bear out. */
static void hostile_counts(void **state)
{
    (void)state;
    static const struct {
        decoder *decode;
        size_t offset; /* of the count */
    } places[] = {{decode_hello, 24}, {decode_hello, 28}, {decode_start, 16}};
    static const uint32_t counts[] = {0, 1, 2, 4, 5, 1000, 0x7fffffff, 0x80000000, 0xffffffff};
    struct cv_buf hello, start;
    cv_buf_init(&hello, 1 << 20);
    cv_buf_init(&start, 1 << 20);
    assert_int_equal(cv_hello_encode(&hello, &full_hello), 0);
    assert_int_equal(cv_start_encode(&start, &full_start), 0);
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        struct cv_buf *message = places[i].decode == decode_hello ? &hello : &start;
        uint8_t *count = message->bytes + places[i].offset;
        assert_int_equal(cv_wire_get_u32(count), 3);
        for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
            cv_wire_put_u32(count, counts[k]);
            if (decode_copy(places[i].decode, cv_buf_data(message), cv_buf_length(message)))
                fail_msg("count %u at %zu", counts[k], places[i].offset);
        }
        cv_wire_put_u32(count, 3);
    }
    cv_buf_free(&hello);
    cv_buf_free(&start);
}

/* Without room for the whole nothing is appended, and errno says why. */
static void encoders_append_all_or_nothing(void **state)
{
    (void)state;
    struct cv_buf out;
    cv_buf_init(&out, 1 << 20);
    assert_int_equal(cv_hello_encode(&out, &full_hello), 0);
    size_t hello_size = cv_buf_length(&out);
    cv_buf_consume(&out, hello_size);
    assert_int_equal(cv_start_encode(&out, &full_start), 0);
    size_t start_size = cv_buf_length(&out);
    cv_buf_free(&out);
    for (size_t max = 0; max < hello_size + 3 || max < start_size + 3; max++) {
        cv_buf_init(&out, max);
        if (max >= 3)
            assert_int_equal(cv_buf_append(&out, "abc", 3), 0);
        size_t before = cv_buf_length(&out);
        errno = 0;
        int got = cv_hello_encode(&out, &full_hello);
        assert_int_equal(got, max >= hello_size + 3 ? 0 : -1);
        if (got != 0) {
            assert_int_equal(errno, ENOBUFS);
            assert_int_equal(cv_buf_length(&out), before);
        }
        cv_buf_consume(&out, cv_buf_length(&out) - before);
        errno = 0;
        got = cv_start_encode(&out, &full_start);
        assert_int_equal(got, max >= start_size + 3 ? 0 : -1);
        if (got != 0) {
            assert_int_equal(errno, ENOBUFS);
            assert_int_equal(cv_buf_length(&out), before);
        }
        cv_buf_free(&out);
    }
}

static bool ended_accepted(struct cv_ended ended)
{
    uint8_t out[CV_ENDED_SIZE];
    struct cv_ended got;
    cv_ended_encode(out, &ended);
    if (!decode_copy(decode_ended, out, sizeof out))
        return false;
    assert_true(cv_ended_decode(out, sizeof out, &got));
    assert_int_equal(got.how, ended.how);
    assert_int_equal(got.value, ended.value);
    assert_int_equal(got.flags, ended.flags);
    assert_true(got.stdout_bytes == ended.stdout_bytes);
    assert_true(got.stderr_bytes == ended.stderr_bytes);
    assert_true(got.duration_us == ended.duration_us);
    expect_exact_length(decode_ended, out, sizeof out);
    return true;
}

static void ended_values(void **state)
{
    (void)state;
    static const struct {
        bool good;
        struct cv_ended ended;
    } table[] = {
        {true, {.how = CV_ENDED_EXITED, .value = 0}},
        {true, {.how = CV_ENDED_EXITED, .value = 255, .flags = CV_ENDED_FLAGS}},
        {true,
         {.how = CV_ENDED_EXITED,
          .stdout_bytes = UINT64_MAX,
          .stderr_bytes = 0x0123456789abcdef,
          .duration_us = 1}},
        {true, {.how = CV_ENDED_SIGNALED, .value = 1}},
        {true, {.how = CV_ENDED_SIGNALED, .value = 127}},
        {false, {.how = CV_ENDED_EXITED, .value = 256}},
        {false, {.how = CV_ENDED_EXITED, .value = UINT32_MAX}},
        {false, {.how = CV_ENDED_SIGNALED, .value = 0}},
        {false, {.how = CV_ENDED_SIGNALED, .value = 128}},
        {false, {.how = 2, .value = 1}},
        {false, {.how = UINT32_MAX, .value = 1}},
        {false, {.how = CV_ENDED_EXITED, .flags = 4}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (ended_accepted(table[i].ended) != table[i].good)
            fail_msg("case %zu", i);
    }
}

static void failure_round_trip(void **state)
{
    (void)state;
    char text[CV_FAILURE_TEXT_MAX + 50];
    memset(text, 'x', sizeof text);
    for (size_t length = 0; length <= sizeof text; length += 51) {
        uint8_t out[8 + CV_FAILURE_TEXT_MAX];
        struct cv_failure failure = {.code = CV_FAILURE_CWD,
                                     .errnum = ENOENT,
                                     .text = length == 0 ? NULL : text,
                                     .length = length};
        struct cv_failure got;
        size_t kept = length > CV_FAILURE_TEXT_MAX ? CV_FAILURE_TEXT_MAX : length;
        assert_int_equal(cv_failure_encode(out, &failure), 8 + kept);
        assert_true(cv_failure_decode(out, 8 + kept, &got));
        assert_int_equal(got.code, CV_FAILURE_CWD);
        assert_int_equal(got.errnum, ENOENT);
        assert_int_equal(got.length, kept);
        assert_memory_equal(got.text, text, kept);
    }
}

static void failure_refuses_values(void **state)
{
    (void)state;
    uint8_t out[8 + CV_FAILURE_TEXT_MAX + 1] = {0};
    cv_wire_put_u32(out, CV_FAILURE_FILE);
    assert_true(decode_copy(decode_failure, out, 8));
    assert_true(decode_copy(decode_failure, out, 8 + CV_FAILURE_TEXT_MAX));
    assert_false(decode_copy(decode_failure, out, 8 + CV_FAILURE_TEXT_MAX + 1));
    for (size_t cut = 0; cut < 8; cut++)
        assert_false(decode_copy(decode_failure, out, cut));
    cv_wire_put_u32(out + 4, 4096);
    assert_false(decode_copy(decode_failure, out, 8));
    cv_wire_put_u32(out + 4, 4095);
    assert_true(decode_copy(decode_failure, out, 8));
    cv_wire_put_u32(out, 0);
    assert_false(decode_copy(decode_failure, out, 8));
    cv_wire_put_u32(out, CV_FAILURE_FILE + 1);
    assert_false(decode_copy(decode_failure, out, 8));
}

static void failures_have_public_codes(void **state)
{
    (void)state;
    assert_null(cv_failure_public_code(0));
    for (uint32_t code = CV_FAILURE_PROTOCOL; code <= CV_FAILURE_FILE; code++)
        assert_non_null(cv_failure_public_code(code));
    assert_null(cv_failure_public_code(CV_FAILURE_FILE + 1));
    assert_null(cv_failure_public_code(UINT32_MAX));
    assert_string_equal(cv_failure_public_code(CV_FAILURE_GONE), "gone");
}

static void single_integer(void **state)
{
    (void)state;
    uint8_t out[CV_U32_SIZE];
    uint32_t value = 0;
    cv_wire_put_u32(out, 0xfedcba98);
    assert_true(cv_u32_decode(out, sizeof out, &value));
    assert_int_equal(value, 0xfedcba98);
    expect_exact_length(decode_u32, out, sizeof out);
}

static void strings_one_behind_the_other(void **state)
{
    (void)state;
    const char *string = full_start.argv.bytes;
    assert_string_equal(string, "sh");
    string = cv_strings_next(string);
    assert_string_equal(string, "");
    string = cv_strings_next(string);
    assert_string_equal(string, "-c");
    assert_ptr_equal(cv_strings_next(string), full_start.argv.bytes + full_start.argv.length);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_round_trip),
        cmocka_unit_test(start_round_trip),
        cmocka_unit_test(hello_refuses_values),
        cmocka_unit_test(hello_refuses_names_that_are_paths),
        cmocka_unit_test(hello_refuses_env_without_a_name),
        cmocka_unit_test(start_refuses_values),
        cmocka_unit_test(hostile_counts),
        cmocka_unit_test(encoders_append_all_or_nothing),
        cmocka_unit_test(ended_values),
        cmocka_unit_test(failure_round_trip),
        cmocka_unit_test(failure_refuses_values),
        cmocka_unit_test(failures_have_public_codes),
        cmocka_unit_test(single_integer),
        cmocka_unit_test(strings_one_behind_the_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
