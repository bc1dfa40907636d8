/*
 * The answer to an upgrade. The first byte of an input is the size of the chunks (0: all at once),
 * the rest the stream, which then ends. Chunks must make no difference, and what is taken must mean
 * the same to http-parser, the parser that Node had for a decade.
 */
#include <http_parser.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "proto/http_upgrade.h"
#include "require.h"

struct outcome {
    enum cv_upgrade_result result;
    int status;
    size_t used;
    bool truncated;
    uint8_t body[CV_UPGRADE_BODY_MAX];
    size_t length;
};

static void run(struct outcome *outcome, const uint8_t *bytes, size_t length, size_t step)
{
    struct cv_upgrade upgrade;
    memset(outcome, 0, sizeof *outcome);
    cv_upgrade_init(&upgrade);
    for (size_t at = 0; at < length && outcome->result == CV_UPGRADE_MORE; at += step) {
        size_t size = step < length - at ? step : length - at;
        uint8_t *chunk = malloc(size);
        size_t used;
        memcpy(chunk, bytes + at, size);
        outcome->result = cv_upgrade_feed(&upgrade, chunk, size, &used);
        outcome->used += used;
        REQUIRE(used == size || outcome->result != CV_UPGRADE_MORE);
        REQUIRE(used <= size);
        free(chunk);
    }
    outcome->result = cv_upgrade_end(&upgrade);
    REQUIRE(outcome->result != CV_UPGRADE_MORE);
    REQUIRE((outcome->result == CV_UPGRADE_BROKEN) == (upgrade.problem != NULL));
    outcome->status = upgrade.status;
    outcome->truncated = upgrade.truncated;
    outcome->length = cv_buf_length(&upgrade.body);
    REQUIRE(outcome->length <= sizeof outcome->body);
    if (outcome->length > 0)
        memcpy(outcome->body, cv_buf_data(&upgrade.body), outcome->length);
    cv_upgrade_free(&upgrade);
}

/* ---- the oracle --------------------------------------------------------------------------- */

struct oracle {
    int status;
    bool done;
    const struct outcome *outcome; /* ours */
    size_t length;                 /* of the body so far */
};

static int on_head(http_parser *parser)
{
    struct oracle *oracle = parser->data;
    oracle->status = parser->status_code;
    if (parser->status_code == 101)
        return 2; /* what follows is another protocol */
    return parser->status_code < 200 || parser->status_code == 204 || parser->status_code == 304;
}

static int on_body(http_parser *parser, const char *bytes, size_t length)
{
    struct oracle *oracle = parser->data;
    const struct outcome *outcome = oracle->outcome;
    if (oracle->length + length > outcome->length) {
        REQUIRE(outcome->truncated);
        length = outcome->length - oracle->length;
    }
    REQUIRE(length == 0 || memcmp(outcome->body + oracle->length, bytes, length) == 0);
    oracle->length += length;
    return 0;
}

static int on_end(http_parser *parser)
{
    struct oracle *oracle = parser->data;
    oracle->done = parser->status_code >= 200 || parser->status_code == 101;
    if (oracle->done)
        http_parser_pause(parser, 1);
    return 0;
}

/* http-parser 2.9.4 takes "Transfer-Encoding-Of-Mine" for a transfer encoding, and no tab behind a
 * length. */
static bool confuses(const uint8_t *bytes, size_t length)
{
    static const char name[] = "transfer-encoding";
    for (size_t i = 0; i + sizeof name <= length; i++) {
        const char *at = (const char *)bytes + i;
        if (strncasecmp(at, name, sizeof name - 1) == 0 && at[sizeof name - 1] != ':')
            return true;
    }
    for (size_t i = 0; i + 1 < length; i++) {
        if (bytes[i] == '\t' && (bytes[i + 1] == '\r' || bytes[i + 1] == ' '))
            return true;
    }
    return false;
}

static void compare(const struct outcome *outcome, const uint8_t *bytes, size_t length)
{
    http_parser parser;
    struct oracle oracle = {.outcome = outcome};
    http_parser_settings settings;
    http_parser_settings_init(&settings);
    settings.on_headers_complete = on_head;
    settings.on_body = on_body;
    settings.on_message_complete = on_end;
    http_parser_init(&parser, HTTP_RESPONSE);
    parser.data = &oracle;
    size_t used = http_parser_execute(&parser, &settings, (const char *)bytes, length);
    if (!oracle.done && HTTP_PARSER_ERRNO(&parser) == HPE_OK)
        http_parser_execute(&parser, &settings, "", 0);
    REQUIRE(HTTP_PARSER_ERRNO(&parser) == HPE_OK || HTTP_PARSER_ERRNO(&parser) == HPE_PAUSED);
    REQUIRE(oracle.status == outcome->status);
    REQUIRE(oracle.length == outcome->length);
    REQUIRE(oracle.done || outcome->truncated);
    if (outcome->result == CV_UPGRADE_OPEN)
        REQUIRE(used == outcome->used || used + 1 == outcome->used);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct outcome a, b;
    if (size < 2)
        return 0;
    run(&a, data + 1, size - 1, data[0] == 0 ? size : data[0]);
    run(&b, data + 1, size - 1, 1);
    REQUIRE(a.result == b.result && a.status == b.status && a.truncated == b.truncated);
    REQUIRE(a.length == b.length && memcmp(a.body, b.body, a.length) == 0);
    if (a.result == CV_UPGRADE_BROKEN)
        return 0;
    REQUIRE(a.used == b.used);
    if (confuses(data + 1, size - 1))
        return 0;
    compare(&a, data + 1, size - 1);
    return 0;
}
