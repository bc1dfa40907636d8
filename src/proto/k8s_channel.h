/*
 * The channels of a Kubernetes exec, sans-I/O: messages of a WebSocket with the subprotocol
 * v4.channel.k8s.io or v5.channel.k8s.io. Kubernetes, "Streaming connections"; KEP-4006.
 *
 * The first byte of a message is its channel, the rest that channel's bytes. v5 adds the channel
 * 255, whose one byte names another channel that has ended; v4 can't end a channel. What the server
 * reports about the command's end comes on the status channel, as JSON, perhaps in several
 * messages: it is kept as it comes (codec/k8s_status.h reads it).
 */
#ifndef CV_PROTO_K8S_CHANNEL_H
#define CV_PROTO_K8S_CHANNEL_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define CV_K8S_V4 "v4.channel.k8s.io"
#define CV_K8S_V5 "v5.channel.k8s.io"
/* The longest status that is kept. */
#define CV_K8S_STATUS_MAX 65536

enum cv_k8s_channel_id {
    CV_K8S_STDIN,
    CV_K8S_STDOUT,
    CV_K8S_STDERR,
    CV_K8S_STATUS,
    CV_K8S_RESIZE,
    CV_K8S_CLOSE = 255,
};

struct cv_k8s_channel {
    struct cv_buf status;
    const char *problem; /* static text, once it is broken */
    int version;         /* 4 or 5 */
    unsigned ended;      /* a bit for each channel from stdin to the status that v5 has ended */
};

struct cv_k8s_piece {
    enum cv_k8s_channel_id channel; /* stdout or stderr */
    const uint8_t *bytes;           /* borrowed from the message */
    size_t length;                  /* over 0 */
};

/* Version 4 or 5; allocates nothing. */
void cv_k8s_channel_init(struct cv_k8s_channel *channel, int version);
void cv_k8s_channel_free(struct cv_k8s_channel *channel);
/*
 * Takes one message. 1: *piece is output of the command. 0: there is nothing to hand out: an empty
 * message of a channel (servers open with one), a part of the status, an end, or a channel that a
 * client knows nothing of, which kubectl skips too. -1: against the protocol or over a bound, see
 * `problem`; it stays broken.
 */
int cv_k8s_channel_take(struct cv_k8s_channel *channel, const void *message, size_t length,
                        struct cv_k8s_piece *piece);

#endif
