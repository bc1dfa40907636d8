/* The opening handshake of a WebSocket, and the digests that it takes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "proto/websocket_handshake.h"

static void assert_hex(const uint8_t *bytes, size_t length, const char *expected)
{
    char text[65];
    for (size_t i = 0; i < length; i++)
        sprintf(text + 2 * i, "%02x", bytes[i]);
    assert_string_equal(text, expected);
}

/* FIPS 180-2, appendices A.1 and B.1; RFC 4648, section 10. */
static void digests_and_base64_are_the_standard_ones(void **state)
{
    uint8_t sha1[CV_SHA1_SIZE], sha256[CV_SHA256_SIZE];
    char text[CV_BASE64_SIZE(6)];
    (void)state;
    assert_int_equal(cv_sha1("abc", 3, sha1), 0);
    assert_hex(sha1, sizeof sha1, "a9993e364706816aba3e25717850c26c9cd0d89d");
    assert_int_equal(cv_sha256("abc", 3, sha256), 0);
    assert_hex(sha256, sizeof sha256,
               "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    cv_base64("foob", 4, text);
    assert_string_equal(text, "Zm9vYg==");
    cv_base64("foobar", 6, text);
    assert_string_equal(text, "Zm9vYmFy");
}

/* RFC 6455, section 1.3. */
static const char key[] = "dGhlIHNhbXBsZSBub25jZQ==";
static const char accepted[] = "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=";
static const struct cv_strings offered = {"v5\0v4", 6, 2};

static void accept_belongs_to_the_key(void **state)
{
    char accept[CV_WEBSOCKET_ACCEPT_SIZE];
    struct cv_err err;
    (void)state;
    assert_int_equal(cv_websocket_accept(key, accept, &err), 0);
    assert_string_equal(accept, accepted);
}

static void keys_differ(void **state)
{
    char one[CV_WEBSOCKET_KEY_SIZE], two[CV_WEBSOCKET_KEY_SIZE];
    struct cv_err err;
    (void)state;
    assert_int_equal(cv_websocket_key(one, &err), 0);
    assert_int_equal(cv_websocket_key(two, &err), 0);
    assert_int_equal(strlen(one), 24);
    assert_string_equal(one + 22, "==");
    assert_string_not_equal(one, two);
}

static void assert_chosen(const struct cv_websocket_answer *answer, const char *expected)
{
    struct cv_err err;
    const char *chosen = NULL;
    assert_int_equal(cv_websocket_check(answer, key, &offered, &chosen, &err), 0);
    assert_string_equal(chosen, expected);
}

static void assert_refused(const struct cv_websocket_answer *answer, const char *words)
{
    struct cv_err err;
    const char *chosen = NULL;
    assert_int_equal(cv_websocket_check(answer, key, &offered, &chosen, &err), -1);
    assert_string_equal(err.code, "transport_lost");
    assert_non_null(strstr(err.message, words));
    assert_null(chosen);
}

static void answers_are_checked(void **state)
{
    struct cv_websocket_answer answer = {"keep-alive, Upgrade", accepted, "v4", NULL};
    (void)state;
    assert_chosen(&answer, "v4");
    answer.protocol = "v5";
    assert_chosen(&answer, "v5");
    answer.extensions = "";
    assert_chosen(&answer, "v5");
    answer.extensions = "permessage-deflate";
    assert_refused(&answer, "extension");
    answer.extensions = NULL;
    answer.protocol = NULL;
    assert_refused(&answer, "chooses none");
    answer.protocol = "v5,v4";
    assert_refused(&answer, "was not offered");
    answer.protocol = "V4";
    assert_refused(&answer, "was not offered");
    answer.protocol = "";
    assert_refused(&answer, "was not offered");
    answer.protocol = "v4";
    answer.accept = NULL;
    assert_refused(&answer, "Sec-WebSocket-Accept");
    answer.accept = "s3pPLMBiTxaQ9kYGzzhZRbK+xOp=";
    assert_refused(&answer, "Sec-WebSocket-Accept");
    answer.accept = accepted;
    answer.connection = "upgrades, close";
    assert_refused(&answer, "Connection");
    answer.connection = NULL;
    assert_refused(&answer, "Connection");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_and_base64_are_the_standard_ones),
        cmocka_unit_test(accept_belongs_to_the_key),
        cmocka_unit_test(keys_differ),
        cmocka_unit_test(answers_are_checked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
