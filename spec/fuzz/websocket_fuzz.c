/*
 * A WebSocket as a hostile server may speak it, with the channels of a Kubernetes exec inside. The
 * first byte of an input is the size of the chunks (0: all at once), the second the bound of a
 * message less 1 and, by its lowest bit, the version of the channels; the rest is the stream. The
 * events are compared with those of the same stream fed byte by byte, but for a close whose reason
 * is not ASCII: which of those wslay takes for UTF-8 depends on how it comes.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/k8s_status.h"
#include "proto/k8s_channel.h"
#include "proto/websocket.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct trace {
    struct cv_buf events;
    int end;
    bool odd; /* it may end otherwise, fed otherwise */
};

static void demux(struct cv_k8s_channel *channel, const struct cv_websocket_event *event)
{
    struct cv_k8s_piece piece;
    int got = cv_k8s_channel_take(channel, event->bytes, event->length, &piece);
    if (got > 0) {
        REQUIRE(piece.channel == CV_K8S_STDOUT || piece.channel == CV_K8S_STDERR);
        REQUIRE(piece.length == event->length - 1 && piece.bytes == event->bytes + 1);
    }
    REQUIRE((got < 0) == (channel->problem != NULL));
}

static void check_status(const struct cv_k8s_channel *channel)
{
    struct cv_k8s_status status;
    cv_k8s_status_read((const char *)cv_buf_data(&channel->status), cv_buf_length(&channel->status),
                       &status);
    if (status.outcome == CV_K8S_EXITED)
        REQUIRE(status.exit_code >= 0 && status.exit_code <= 255);
    if (status.outcome == CV_K8S_UNKNOWN)
        REQUIRE(status.message[0] != '\0');
}

static void take(struct trace *trace, const struct cv_websocket_event *event, size_t max)
{
    uint8_t head[4] = {(uint8_t)event->type, (uint8_t)(event->code >> 8), (uint8_t)event->code,
                       (uint8_t)event->length};
    REQUIRE(event->length <= max || event->type == CV_WEBSOCKET_CLOSE);
    REQUIRE(cv_buf_append(&trace->events, head, sizeof head) == 0);
    REQUIRE(cv_buf_append(&trace->events, event->bytes, event->length) == 0);
}

static bool is_ascii(const struct cv_websocket_event *event)
{
    for (size_t i = 0; i < event->length; i++) {
        if (event->bytes[i] >= 0x80)
            return false;
    }
    return true;
}

static void run(struct trace *trace, const uint8_t *data, size_t size, size_t step, size_t max,
                int version)
{
    struct cv_websocket socket;
    struct cv_k8s_channel channel;
    const struct cv_websocket_event *event;
    struct cv_err err;
    int got = 0;
    cv_buf_init(&trace->events, SIZE_MAX / 2);
    cv_k8s_channel_init(&channel, version);
    REQUIRE(cv_websocket_init(&socket, max, &err) == 0);
    for (size_t at = 0; at < size && got == 0; at += step) {
        size_t length = step < size - at ? step : size - at;
        uint8_t *chunk = malloc(length);
        memcpy(chunk, data + at, length);
        cv_websocket_push(&socket, chunk, length);
        while ((got = cv_websocket_next(&socket, &event)) > 0) {
            if (event->type == CV_WEBSOCKET_CLOSE && !is_ascii(event))
                trace->odd = true;
            else
                take(trace, event, max);
            if (event->type == CV_WEBSOCKET_MESSAGE)
                demux(&channel, event);
        }
        free(chunk);
    }
    check_status(&channel);
    REQUIRE((got < 0) == (socket.problem != NULL));
    trace->odd |= got < 0 && strstr(socket.problem, "UTF-8") != NULL;
    trace->end = got;
    REQUIRE(cv_buf_length(&socket.out) <= 3 * size + 8); /* pongs, and one close */
    cv_k8s_channel_free(&channel);
    cv_websocket_free(&socket);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace one = {0}, other = {0};
    if (size < 3 || size > 16384) /* the slack of the output is for what one read brings */
        return 0;
    const size_t step = data[0] == 0 ? size : data[0];
    const size_t max = (size_t)data[1] + 1;
    const int version = data[1] % 2 == 0 ? 4 : 5;
    run(&one, data + 2, size - 2, step, max, version);
    run(&other, data + 2, size - 2, 1, max, version);
    REQUIRE(one.end == other.end || one.odd || other.odd);
    REQUIRE(cv_buf_length(&one.events) == cv_buf_length(&other.events));
    REQUIRE(cv_buf_length(&one.events) == 0 ||
            memcmp(cv_buf_data(&one.events), cv_buf_data(&other.events),
                   cv_buf_length(&one.events)) == 0);
    cv_buf_free(&one.events);
    cv_buf_free(&other.events);
    return 0;
}
