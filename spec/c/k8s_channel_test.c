/* The channels of a Kubernetes exec, message by message, and the status that ends it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "codec/k8s_status.h"
#include "proto/k8s_channel.h"

#define TAKE(channel, literal, piece)                                                              \
    cv_k8s_channel_take(channel, literal, sizeof(literal) - 1, piece)

static void output_is_told_apart(void **state)
{
    struct cv_k8s_channel channel;
    struct cv_k8s_piece piece;
    (void)state;
    cv_k8s_channel_init(&channel, 4);
    assert_int_equal(TAKE(&channel, "\1", &piece), 0); /* every server's first message */
    assert_int_equal(TAKE(&channel, "\1out", &piece), 1);
    assert_int_equal(piece.channel, CV_K8S_STDOUT);
    assert_int_equal(piece.length, 3);
    assert_memory_equal(piece.bytes, "out", 3);
    assert_int_equal(TAKE(&channel, "\2\0", &piece), 1);
    assert_int_equal(piece.channel, CV_K8S_STDERR);
    assert_int_equal(piece.length, 1);
    assert_int_equal(cv_buf_length(&channel.status), 0);
    cv_k8s_channel_free(&channel);
}

static void status_is_kept_as_it_comes(void **state)
{
    struct cv_k8s_channel channel;
    struct cv_k8s_piece piece;
    (void)state;
    cv_k8s_channel_init(&channel, 5);
    assert_int_equal(TAKE(&channel, "\3", &piece), 0);
    assert_int_equal(TAKE(&channel, "\3{\"status\":", &piece), 0);
    assert_int_equal(TAKE(&channel, "\3\"Success\"}", &piece), 0);
    assert_int_equal(cv_buf_length(&channel.status), 20);
    assert_memory_equal(cv_buf_data(&channel.status), "{\"status\":\"Success\"}", 20);
    cv_k8s_channel_free(&channel);
}

static void unknown_channels_are_skipped(void **state)
{
    struct cv_k8s_channel channel;
    struct cv_k8s_piece piece;
    (void)state;
    cv_k8s_channel_init(&channel, 4);
    assert_int_equal(TAKE(&channel, "\0in", &piece), 0);
    assert_int_equal(TAKE(&channel, "\4{}", &piece), 0);
    assert_int_equal(TAKE(&channel, "\5x", &piece), 0);
    assert_int_equal(TAKE(&channel, "\xfe", &piece), 0);
    assert_int_equal(TAKE(&channel, "\xff\1", &piece), 0); /* v4 knows no ends */
    assert_int_equal(TAKE(&channel, "\1x", &piece), 1);
    cv_k8s_channel_free(&channel);
}

static void channels_end_on_v5(void **state)
{
    struct cv_k8s_channel channel;
    struct cv_k8s_piece piece;
    (void)state;
    cv_k8s_channel_init(&channel, 5);
    assert_int_equal(TAKE(&channel, "\xff\0", &piece), 0);
    assert_int_equal(TAKE(&channel, "\xff\1", &piece), 0);
    assert_int_equal(TAKE(&channel, "\xff\xc8", &piece), 0);
    assert_int_equal(TAKE(&channel, "\2x", &piece), 1);
    assert_int_equal(TAKE(&channel, "\1", &piece), 0);
    assert_int_equal(TAKE(&channel, "\1x", &piece), -1);
    assert_string_equal(channel.problem, "a channel goes on after its end");
    assert_int_equal(TAKE(&channel, "\2x", &piece), -1);
    cv_k8s_channel_free(&channel);
}

static void what_is_against_the_protocol_breaks_it(void **state)
{
    struct cv_k8s_channel channel;
    struct cv_k8s_piece piece;
    static char status[1024];
    (void)state;
    cv_k8s_channel_init(&channel, 5);
    assert_int_equal(cv_k8s_channel_take(&channel, "", 0, &piece), -1);
    assert_string_equal(channel.problem, "a message names no channel");
    cv_k8s_channel_init(&channel, 5);
    assert_int_equal(TAKE(&channel, "\xff", &piece), -1);
    cv_k8s_channel_init(&channel, 5);
    assert_int_equal(TAKE(&channel, "\xff\1\2", &piece), -1);
    assert_string_equal(channel.problem, "the end of a channel does not name one");

    cv_k8s_channel_init(&channel, 5);
    memset(status, ' ', sizeof status);
    status[0] = CV_K8S_STATUS;
    size_t length = 0;
    while (cv_k8s_channel_take(&channel, status, sizeof status, &piece) == 0)
        length += sizeof status - 1;
    assert_true(length <= CV_K8S_STATUS_MAX && length > CV_K8S_STATUS_MAX - sizeof status);
    assert_string_equal(channel.problem, "the status is too long");
    cv_k8s_channel_free(&channel);
}

static struct cv_k8s_status read_status(const char *text)
{
    struct cv_k8s_status status;
    cv_k8s_status_read(text, strlen(text), &status);
    return status;
}

static void assert_exited(const char *text, int code)
{
    struct cv_k8s_status status = read_status(text);
    assert_int_equal(status.outcome, CV_K8S_EXITED);
    assert_int_equal(status.exit_code, code);
}

#define NON_ZERO(causes)                                                                           \
    "{\"metadata\":{},\"status\":\"Failure\",\"message\":\"command terminated\",\"reason\":"       \
    "\"NonZeroExitCode\",\"details\":{\"causes\":[" causes "]}}"
#define EXIT_CODE(code) "{\"reason\":\"ExitCode\",\"message\":\"" code "\"}"

static void exit_codes_are_read(void **state)
{
    (void)state;
    assert_exited("{\"metadata\":{},\"status\":\"Success\"}", 0);
    assert_exited(NON_ZERO(EXIT_CODE("1")), 1);
    assert_exited(NON_ZERO("{\"reason\":\"Other\",\"message\":\"9\"},{}," EXIT_CODE("255")), 255);
}

static void other_failures_keep_their_reason(void **state)
{
    (void)state;
    struct cv_k8s_status status =
        read_status("{\"status\":\"Failure\",\"reason\":\"InternalError\",\"message\":\"no such "
                    "file\",\"code\":500}");
    assert_int_equal(status.outcome, CV_K8S_FAILED);
    assert_string_equal(status.reason, "InternalError");
    assert_string_equal(status.message, "no such file");
    status = read_status("{\"status\":\"Failure\"}");
    assert_int_equal(status.outcome, CV_K8S_FAILED);
    assert_string_equal(status.reason, "");
    assert_string_equal(status.message, "");

    char text[4096] = "{\"status\":\"Failure\",\"reason\":\"R\",\"message\":\"";
    size_t length = strlen(text);
    memset(text + length, 'x', 3000);
    strcpy(text + length + 3000, "\"}");
    status = read_status(text);
    assert_int_equal(strlen(status.message), CV_K8S_MESSAGE_MAX - 1);
}

/* No code is made up. */
static void what_is_no_status_is_unknown(void **state)
{
    static const char *const texts[] = {
        "",
        "{",
        "null",
        "[]",
        "\"Success\"",
        "{}",
        "{\"status\":0}",
        "{\"status\":\"success\"}",
        "{\"status\":\"Success\"} x",
        "{\"status\":\"Success\",\"status\":\"Failure\"}",
        "{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\"}",
        "{\"status\":\"Failure\",\"reason\":\"NonZeroExitCode\",\"details\":{\"causes\":{}}}",
        NON_ZERO(""),
        NON_ZERO("1"),
        NON_ZERO("{\"reason\":\"ExitCode\"}"),
        NON_ZERO("{\"reason\":\"ExitCode\",\"message\":1}"),
        NON_ZERO(EXIT_CODE("")),
        NON_ZERO(EXIT_CODE("0")),
        NON_ZERO(EXIT_CODE("256")),
        NON_ZERO(EXIT_CODE("-1")),
        NON_ZERO(EXIT_CODE("+1")),
        NON_ZERO(EXIT_CODE(" 1")),
        NON_ZERO(EXIT_CODE("1 ")),
        NON_ZERO(EXIT_CODE("0x1")),
        NON_ZERO(EXIT_CODE("4294967297")),
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        struct cv_k8s_status status = read_status(texts[i]);
        if (status.outcome != CV_K8S_UNKNOWN)
            fail_msg("taken for a status: %s", texts[i]);
        assert_string_not_equal(status.message, "");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(output_is_told_apart),
        cmocka_unit_test(status_is_kept_as_it_comes),
        cmocka_unit_test(unknown_channels_are_skipped),
        cmocka_unit_test(channels_end_on_v5),
        cmocka_unit_test(what_is_against_the_protocol_breaks_it),
        cmocka_unit_test(exit_codes_are_read),
        cmocka_unit_test(other_failures_keep_their_reason),
        cmocka_unit_test(what_is_no_status_is_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
