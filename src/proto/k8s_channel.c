#include "proto/k8s_channel.h"

#include <string.h>

void cv_k8s_channel_init(struct cv_k8s_channel *channel, int version)
{
    memset(channel, 0, sizeof *channel);
    cv_buf_init(&channel->status, CV_K8S_STATUS_MAX);
    channel->version = version;
}

void cv_k8s_channel_free(struct cv_k8s_channel *channel)
{
    cv_buf_free(&channel->status);
}

static int broken(struct cv_k8s_channel *channel, const char *problem)
{
    channel->problem = problem;
    return -1;
}

static int take_end(struct cv_k8s_channel *channel, const uint8_t *bytes, size_t length)
{
    if (length != 1)
        return broken(channel, "the end of a channel does not name one");
    if (bytes[0] <= CV_K8S_STATUS)
        channel->ended |= 1u << bytes[0];
    return 0;
}

int cv_k8s_channel_take(struct cv_k8s_channel *channel, const void *message, size_t length,
                        struct cv_k8s_piece *piece)
{
    const uint8_t *bytes = message;
    if (channel->problem != NULL)
        return -1;
    if (length == 0)
        return broken(channel, "a message names no channel");
    const unsigned id = *bytes++;
    length--;
    if (id == CV_K8S_CLOSE && channel->version >= 5)
        return take_end(channel, bytes, length);
    if (id < CV_K8S_STDOUT || id > CV_K8S_STATUS || length == 0)
        return 0;
    if ((channel->ended & 1u << id) != 0)
        return broken(channel, "a channel goes on after its end");
    if (id == CV_K8S_STATUS) {
        if (cv_buf_append(&channel->status, bytes, length) != 0)
            return broken(channel, "the status is too long");
        return 0;
    }
    *piece = (struct cv_k8s_piece){(enum cv_k8s_channel_id)id, bytes, length};
    return 1;
}
