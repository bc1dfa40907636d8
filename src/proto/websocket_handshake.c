#include "proto/websocket_handshake.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* RFC 6455, section 1.3. */
static const char guid[] = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

int cv_websocket_key(char key[CV_WEBSOCKET_KEY_SIZE], struct cv_err *err)
{
    uint8_t nonce[16];
    if (cv_random(nonce, sizeof nonce) != 0)
        return cv_err_set(err, "start_failed", "the system gives no random bytes");
    cv_base64(nonce, sizeof nonce, key);
    return 0;
}

int cv_websocket_accept(const char *key, char accept[CV_WEBSOCKET_ACCEPT_SIZE], struct cv_err *err)
{
    char text[CV_WEBSOCKET_KEY_SIZE + sizeof guid];
    uint8_t digest[CV_SHA1_SIZE];
    int length = snprintf(text, sizeof text, "%.*s%s", CV_WEBSOCKET_KEY_SIZE - 1, key, guid);
    if (cv_sha1(text, (size_t)length, digest) != 0)
        return cv_err_set(err, "start_failed", "OpenSSL gives no SHA-1, which WebSocket needs");
    cv_base64(digest, sizeof digest, accept);
    return 0;
}

/* Whether a list of tokens, separated by commas, has this one, in any case. */
static bool has_token(const char *list, const char *token)
{
    const size_t length = strlen(token);
    while (list != NULL && *list != '\0') {
        list += strspn(list, " \t,");
        size_t item = strcspn(list, " \t,");
        if (item == length && strncasecmp(list, token, length) == 0)
            return true;
        list += item;
    }
    return false;
}

static int refuse(struct cv_err *err, const char *what)
{
    return cv_err_set(err, "transport_lost", "the server's answer opens no WebSocket: %s", what);
}

int cv_websocket_check(const struct cv_websocket_answer *answer, const char *key,
                       const struct cv_strings *offered, const char **chosen, struct cv_err *err)
{
    char accept[CV_WEBSOCKET_ACCEPT_SIZE];
    if (cv_websocket_accept(key, accept, err) != 0)
        return -1;
    if (!has_token(answer->connection, "upgrade"))
        return refuse(err, "its Connection field does not say Upgrade");
    if (answer->accept == NULL || strcmp(answer->accept, accept) != 0)
        return refuse(err, "its Sec-WebSocket-Accept does not belong to the key");
    if (answer->extensions != NULL && answer->extensions[0] != '\0')
        return refuse(err, "it uses an extension that was not offered");
    if (answer->protocol == NULL)
        return refuse(err, "it chooses none of the protocols that were offered");
    const char *protocol = offered->bytes;
    for (uint32_t i = 0; i < offered->count; i++, protocol = cv_strings_next(protocol)) {
        if (strcmp(protocol, answer->protocol) == 0) {
            *chosen = protocol;
            return 0;
        }
    }
    return refuse(err, "it chooses a protocol that was not offered");
}
