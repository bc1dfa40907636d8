/*
 * The opening handshake of a WebSocket client: RFC 6455, section 4.1. What the request has to carry
 * beside the upgrade itself, and what its answer has to; the request is sent and the 101 is parsed
 * elsewhere (net/stream.h, proto/http_upgrade.h).
 */
#ifndef CV_PROTO_WEBSOCKET_HANDSHAKE_H
#define CV_PROTO_WEBSOCKET_HANDSHAKE_H

#include "base/err.h"
#include "base/strings.h"
#include "proto/digest.h"

#define CV_WEBSOCKET_KEY_SIZE CV_BASE64_SIZE(16)
#define CV_WEBSOCKET_ACCEPT_SIZE CV_BASE64_SIZE(CV_SHA1_SIZE)

/* Fields of an answer, NULL where there is none. */
struct cv_websocket_answer {
    const char *connection;
    const char *accept;     /* Sec-WebSocket-Accept */
    const char *protocol;   /* Sec-WebSocket-Protocol */
    const char *extensions; /* Sec-WebSocket-Extensions */
};

/* A new Sec-WebSocket-Key. 0, or -1 with `err` (start_failed) without random bytes. */
int cv_websocket_key(char key[CV_WEBSOCKET_KEY_SIZE], struct cv_err *err);
/* The Sec-WebSocket-Accept that answers a key. 0, or -1 with `err` (start_failed). */
int cv_websocket_accept(const char *key, char accept[CV_WEBSOCKET_ACCEPT_SIZE], struct cv_err *err);
/*
 * Holds an answer against the request: the key, and the protocols that were offered, at least one.
 * Stores which was chosen, an element of `offered`. -1 with `err` (transport_lost) when it is not
 * the answer of a WebSocket server, chooses none of them, or has extensions: none is ever offered.
 */
int cv_websocket_check(const struct cv_websocket_answer *answer, const char *key,
                       const struct cv_strings *offered, const char **chosen, struct cv_err *err);

#endif
