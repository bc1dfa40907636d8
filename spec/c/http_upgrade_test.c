/* The answer to an upgrade, fed whole, byte by byte and cut in two at every place. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/http_upgrade.h"

struct outcome {
    enum cv_upgrade_result result;
    int status;
    size_t used;
    char body[128];
    size_t body_length;
    const char *problem;
};

/* Feeds `text` in steps, the first of which is `first` bytes long; `ended`: the stream ends then.
 */
static struct outcome run(const char *text, size_t length, size_t first, size_t step, bool ended)
{
    struct cv_upgrade upgrade;
    struct outcome outcome = {.result = CV_UPGRADE_MORE};
    cv_upgrade_init(&upgrade);
    for (size_t at = 0, size = first; at < length && outcome.result == CV_UPGRADE_MORE;
         at += size, size = step) {
        if (size > length - at)
            size = length - at;
        char *chunk = malloc(size + 1); /* of its own, so that a sanitizer sees a read past it */
        memcpy(chunk, text + at, size);
        size_t used;
        outcome.result = cv_upgrade_feed(&upgrade, chunk, size, &used);
        outcome.used += used;
        assert_true(used == size || outcome.result != CV_UPGRADE_MORE);
        free(chunk);
    }
    if (ended)
        outcome.result = cv_upgrade_end(&upgrade);
    outcome.status = upgrade.status;
    outcome.body_length = cv_buf_length(&upgrade.body);
    if (outcome.body_length > 0 && outcome.body_length <= sizeof outcome.body)
        memcpy(outcome.body, cv_buf_data(&upgrade.body), outcome.body_length);
    outcome.problem = upgrade.problem;
    cv_upgrade_free(&upgrade);
    return outcome;
}

static void assert_same(const struct outcome *a, const struct outcome *b, const char *text)
{
    if (a->result != b->result || a->status != b->status || a->body_length != b->body_length ||
        memcmp(a->body, b->body, sizeof a->body) != 0 || a->problem != b->problem ||
        (a->result != CV_UPGRADE_BROKEN && a->used != b->used))
        fail_msg("the chunks make a difference: %s", text);
}

/* The outcome, which no cutting into chunks may change. */
static struct outcome parse_bytes(const char *text, size_t length, bool ended)
{
    struct outcome whole = run(text, length, length, length, ended);
    struct outcome single = run(text, length, 1, 1, ended);
    assert_same(&whole, &single, text);
    for (size_t cut = 1; cut < length && cut < 400; cut++) {
        struct outcome halves = run(text, length, cut, length, ended);
        assert_same(&whole, &halves, text);
    }
    return whole;
}

static struct outcome parse(const char *text)
{
    return parse_bytes(text, strlen(text), false);
}

static struct outcome parse_ended(const char *text)
{
    return parse_bytes(text, strlen(text), true);
}

#define SWITCHING                                                                                  \
    "HTTP/1.1 101 UPGRADED\r\nContent-Type: application/vnd.docker.raw-stream\r\n"                 \
    "Connection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

static void switch_leaves_what_follows(void **state)
{
    (void)state;
    struct outcome outcome = parse(SWITCHING "\r\nHTTP/1.1 500\r\n");
    assert_int_equal(outcome.result, CV_UPGRADE_OPEN);
    assert_int_equal(outcome.status, 101);
    assert_int_equal(outcome.used, strlen(SWITCHING));
    assert_int_equal(parse(SWITCHING).result, CV_UPGRADE_OPEN);
    assert_int_equal(parse_ended(SWITCHING).result, CV_UPGRADE_OPEN);
}

static void interim_heads_are_passed(void **state)
{
    (void)state;
    struct outcome outcome = parse("HTTP/1.1 100 Continue\r\n\r\n"
                                   "HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" SWITCHING);
    assert_int_equal(outcome.result, CV_UPGRADE_OPEN);
    assert_int_equal(outcome.status, 101);
}

static void assert_refused(struct outcome outcome, int status, const char *body)
{
    if (outcome.problem != NULL)
        fail_msg("broken: %s", outcome.problem);
    assert_int_equal(outcome.result, CV_UPGRADE_REFUSED);
    assert_int_equal(outcome.status, status);
    assert_int_equal(outcome.body_length, strlen(body));
    assert_memory_equal(outcome.body, body, strlen(body));
}

static void refusal_brings_its_body(void **state)
{
    (void)state;
    assert_refused(parse("HTTP/1.1 404 Not Found\r\nContent-Length: 5\r\n\r\nhellomore"), 404,
                   "hello");
    assert_refused(parse("HTTP/1.1 403\r\ncontent-length: 0\r\n\r\nmore"), 403, "");
    assert_refused(parse("HTTP/1.1 204 \r\nContent-Length: 7\r\n\r\n"), 204, "");
    assert_refused(
        parse("HTTP/1.0 500 x\r\nTransfer-Encoding: Chunked\r\n\r\n"
              "3\r\nabc\r\n00b;name=value\r\n0123456789a\r\n0\r\nTrailer: x\r\n\r\nmore"),
        500, "abc0123456789a");
    assert_refused(parse_ended("HTTP/1.1 400 Bad\r\n\r\nup to the end"), 400, "up to the end");
    assert_refused(parse_ended("HTTP/1.1 200 OK\r\n\r\n"), 200, "");
}

static void long_body_is_cut(void **state)
{
    (void)state;
    static char text[CV_UPGRADE_BODY_MAX + 4096];
    struct cv_upgrade upgrade;
    size_t used;
    int head = sprintf(text, "HTTP/1.1 500 x\r\nContent-Length: 9007199254740991\r\n\r\n");
    memset(text + head, 'x', sizeof text - (size_t)head);
    cv_upgrade_init(&upgrade);
    assert_int_equal(cv_upgrade_feed(&upgrade, text, (size_t)head + CV_UPGRADE_BODY_MAX, &used),
                     CV_UPGRADE_MORE);
    assert_int_equal(cv_upgrade_feed(&upgrade, "x", 1, &used), CV_UPGRADE_REFUSED);
    assert_true(upgrade.truncated);
    assert_int_equal(cv_buf_length(&upgrade.body), CV_UPGRADE_BODY_MAX);
    assert_int_equal(cv_upgrade_feed(&upgrade, "x", 1, &used), CV_UPGRADE_REFUSED);
    assert_int_equal(used, 0);
    cv_upgrade_free(&upgrade);
}

static void malformed_answers_are_broken(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "\r\n",
        "HTTP/2 101 x\r\n",
        "HTTP/1.2 101 x\r\n",
        "HTTP/1.1  101 x\r\n",
        "HTTP/1.1 10 x\r\n",
        "HTTP/1.1 1010\r\n",
        "HTTP/1.1 099 x\r\n",
        "HTTP/1.1 +10 x\r\n",
        "http/1.1 101 x\r\n",
        "HTTP/1.1 101 x\n",
        "HTTP/1.1 101 x\x01\r\n",
        "HTTP/1.1 101 x\ry\r\n",
        "HTTP/1.1 101 x\r\nnone\r\n",
        "HTTP/1.1 101 x\r\na: b\r\n c\r\n",
        "HTTP/1.1 101 x\r\na: b\n\r\n",
        "HTTP/1.1 101 x\r\na : b\r\n",
        "HTTP/1.1 101 x\r\n\n",
        "HTTP/1.1 101 x\r\nContent-Length: x\r\n\r\n",
        "HTTP/1.1 400 x\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 400 x\r\nContent-Length: +1\r\n\r\n",
        "HTTP/1.1 400 x\r\nContent-Length: 0x1\r\n\r\n",
        "HTTP/1.1 400 x\r\nContent-Length: 1, 1\r\n\r\n",
        "HTTP/1.1 400 x\r\nContent-Length:\r\n\r\n",
        "HTTP/1.1 400 x\r\nContent-Length: 99999999999999999999\r\n\r\n",
        "HTTP/1.1 400 x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n",
        "HTTP/1.1 400 x\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: identity\r\n\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n 1\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n000000001\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n1\nx\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nxx\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nnone\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nContent-length: 1\r\n",
        "HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\ntransfer-encoding: x\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct outcome outcome = parse(texts[i]);
        if (outcome.result != CV_UPGRADE_BROKEN || outcome.problem == NULL)
            fail_msg("taken: %s", texts[i]);
    }
    struct outcome nul = parse_bytes("HTTP/1.1 101 x\r\na: \0\r\n", 22, false);
    assert_int_equal(nul.result, CV_UPGRADE_BROKEN);
}

static void cut_answers_are_broken(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "HTTP/1.1 101 x\r\n",
        "HTTP/1.1 101 x\r\n\r",
        "HTTP/1.1 100 x\r\n\r\n",
        "HTTP/1.1 404 x\r\nContent-Length: 5\r\n\r\nhell",
        "HTTP/1.1 404 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        "HTTP/1.1 404 x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_int_equal(parse(texts[i]).result, CV_UPGRADE_MORE);
        assert_int_equal(parse_ended(texts[i]).result, CV_UPGRADE_BROKEN);
    }
}

/* Repeats `part` for ever; the result must come within the bound. */
static const char *flood(const char *head, const char *part, size_t bound)
{
    struct cv_upgrade upgrade;
    size_t used;
    cv_upgrade_init(&upgrade);
    enum cv_upgrade_result result = cv_upgrade_feed(&upgrade, head, strlen(head), &used);
    size_t fed = 0;
    for (; result == CV_UPGRADE_MORE && fed <= bound; fed += strlen(part))
        result = cv_upgrade_feed(&upgrade, part, strlen(part), &used);
    assert_int_equal(result, CV_UPGRADE_BROKEN);
    assert_true(upgrade.line.size <= CV_UPGRADE_LINE_MAX);
    const char *problem = upgrade.problem;
    cv_upgrade_free(&upgrade);
    return problem;
}

static void floods_are_bounded(void **state)
{
    (void)state;
    assert_string_equal(flood("", "x", CV_UPGRADE_LINE_MAX), "one of its lines is too long");
    assert_string_equal(flood("HTTP/1.1 101 x\r\na: ", "x", CV_UPGRADE_LINE_MAX),
                        "one of its lines is too long");
    assert_string_equal(flood("HTTP/1.1 101 x\r\n", "a: b\r\n", CV_UPGRADE_LINES_MAX),
                        "it has too many header fields");
    assert_string_equal(flood("", "HTTP/1.1 100 x\r\n\r\n", CV_UPGRADE_LINES_MAX),
                        "its head is too long");
    assert_string_equal(flood("HTTP/1.1 400 x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n",
                              "a: b\r\n", CV_UPGRADE_LINES_MAX),
                        "its head is too long");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(switch_leaves_what_follows),   cmocka_unit_test(interim_heads_are_passed),
        cmocka_unit_test(refusal_brings_its_body),      cmocka_unit_test(long_body_is_cut),
        cmocka_unit_test(malformed_answers_are_broken), cmocka_unit_test(cut_answers_are_broken),
        cmocka_unit_test(floods_are_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
