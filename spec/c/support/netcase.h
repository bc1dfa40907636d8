/*
 * What the tests of src/net share: one reactor, one net and one scripted server per test, and a
 * request's or a stream's news gathered until its end. Included by one file of a program.
 */
#ifndef CV_SPEC_NETCASE_H
#define CV_SPEC_NETCASE_H

#include <stdarg.h>
#include <stdbool.h>

#include "base/clock.h"
#include "net/net.h"
#include "reactor/reactor.h"
#include "support/scratch.h"
#include "support/server.h"

/* How long anything here may take on a busy machine. */
#define LATE_MS 20000
#define NET_TEXT_MAX 65536

static struct cv_reactor reactor;
static struct cv_net net;
static struct server server;
static bool serving;
static int descriptors_before;

/* The news of one id so far. */
struct told {
    uint32_t id;
    char order[64]; /* a letter for each, runs of the same as one: H C D E, at the end R N X F */
    int status;
    size_t length; /* of all chunks, or of the body */
    char text[NET_TEXT_MAX];
    char header[256]; /* the field x-test */
    const char *code;
    char message[CV_ERR_MESSAGE_MAX];
    bool over;
    bool keep; /* don't say that chunks were used */
};

static inline int open_net(void **state)
{
    struct cv_err err;
    (void)state;
    descriptors_before = scratch_descriptors();
    serving = false;
    assert_int_equal(cv_reactor_open(&reactor, &err), 0);
    if (cv_net_open(&net, &reactor, &err) != 0)
        fail_msg("%s: %s", err.code, err.message);
    return 0;
}

static inline int close_net(void **state)
{
    (void)state;
    cv_net_close(&net);
    cv_net_close(&net);
    cv_reactor_close(&reactor);
    if (serving)
        server_stop(&server);
    assert_int_equal(scratch_descriptors(), descriptors_before);
    return 0;
}

static inline void serve_script(bool unix_socket, const struct server_step *script)
{
    server_start(&server, unix_socket, script);
    serving = true;
}

/* The steps of a script. */
#define CLOSE                                                                                      \
    {                                                                                              \
        SERVER_CLOSE, NULL, 0                                                                      \
    }
#define REQUEST                                                                                    \
    {                                                                                              \
        SERVER_REQUEST, NULL, 0                                                                    \
    }
#define SEND(text)                                                                                 \
    {                                                                                              \
        SERVER_SEND, text, 0                                                                       \
    }
#define TRICKLE(text)                                                                              \
    {                                                                                              \
        SERVER_TRICKLE, text, 0                                                                    \
    }
#define FLOOD(count)                                                                               \
    {                                                                                              \
        SERVER_FLOOD, NULL, count                                                                  \
    }
#define SLEEP(ms)                                                                                  \
    {                                                                                              \
        SERVER_SLEEP, NULL, ms                                                                     \
    }
#define AWAIT                                                                                      \
    {                                                                                              \
        SERVER_AWAIT, NULL, 0                                                                      \
    }
#define RESET                                                                                      \
    {                                                                                              \
        SERVER_RESET, NULL, 0                                                                      \
    }
#define SHUT                                                                                       \
    {                                                                                              \
        SERVER_SHUT, NULL, 0                                                                       \
    }
#define DRAIN                                                                                      \
    {                                                                                              \
        SERVER_DRAIN, NULL, 0                                                                      \
    }
#define ECHO                                                                                       \
    {                                                                                              \
        SERVER_ECHO, NULL, 0                                                                       \
    }
#define HOLD                                                                                       \
    {                                                                                              \
        SERVER_HOLD, NULL, 0                                                                       \
    }
#define AGAIN                                                                                      \
    {                                                                                              \
        SERVER_AGAIN, NULL, 0                                                                      \
    }

#define SERVE(unix_socket, ...)                                                                    \
    serve_script(unix_socket, (const struct server_step[]){__VA_ARGS__, CLOSE})

static inline void step(int64_t timeout_ms)
{
    struct cv_err err;
    if (cv_reactor_step(&reactor, timeout_ms, &err) != 0)
        fail_msg("step: %s: %s", err.code, err.message);
}

static inline void note(struct told *told, char letter)
{
    size_t length = strlen(told->order);
    assert_true(length + 1 < sizeof told->order);
    if (length == 0 || told->order[length - 1] != letter)
        told->order[length] = letter;
}

static inline void note_bytes(struct told *told, const uint8_t *bytes, size_t length)
{
    size_t room = told->length < NET_TEXT_MAX - 1 ? NET_TEXT_MAX - 1 - told->length : 0;
    if (length > 0)
        memcpy(told->text + (NET_TEXT_MAX - 1 - room), bytes, length < room ? length : room);
    told->length += length;
}

static inline void note_answer(struct told *told, const struct cv_net_op *op, bool with_body)
{
    const char *value = cv_headers_get(cv_net_op_headers(op), "x-test");
    const struct cv_buf *body = cv_net_op_body(op);
    told->status = cv_net_op_status(op);
    snprintf(told->header, sizeof told->header, "%s", value == NULL ? "" : value);
    if (with_body)
        note_bytes(told, cv_buf_data(body), cv_buf_length(body));
}

/* Takes one completion, which must be of this id. */
static inline void take_news(struct told *told, struct cv_net_op *op)
{
    const struct cv_net_chunk *chunk = cv_net_op_chunk(op);
    size_t used = 0;
    assert_int_equal(op->by_id.id, told->id);
    switch (cv_net_op_news(op)) {
    case CV_NET_HEAD:
        note(told, 'H');
        note_answer(told, op, false);
        break;
    case CV_NET_CHUNK:
        note(told, 'C');
        note_bytes(told, chunk->bytes, chunk->length);
        used = chunk->length;
        break;
    case CV_NET_DRAINED:
        note(told, 'D');
        break;
    case CV_NET_ENDED:
        note(told, 'E');
        break;
    case CV_NET_DONE:
        note(told, 'R');
        note_answer(told, op, true);
        break;
    case CV_NET_REFUSED:
        note(told, 'N');
        note_answer(told, op, true);
        break;
    case CV_NET_CLOSED:
        note(told, 'X');
        break;
    case CV_NET_FAILED:
        note(told, 'F');
        told->code = op->err.code;
        memcpy(told->message, op->err.message, sizeof told->message);
        break;
    }
    told->over = strchr("RNXF", told->order[strlen(told->order) - 1]) != NULL;
    cv_net_take(&net, op);
    if (!told->keep && used > 0)
        cv_net_used(&net, told->id, used);
}

/* Takes what is there of the one id that is under way. */
static inline void take_all_news(struct told *told)
{
    struct cv_net_op *op;
    while (!told->over && (op = cv_net_next(&net)) != NULL)
        take_news(told, op);
}

/* Steps until `letter` is among the news. */
static inline void await_news(struct told *told, char letter)
{
    const int64_t until = cv_clock_ms() + LATE_MS;
    take_all_news(told);
    while (strchr(told->order, letter) == NULL && !told->over && cv_clock_ms() < until) {
        step(100);
        take_all_news(told);
    }
    if (strchr(told->order, letter) == NULL)
        fail_msg("no %c, but %s (%s: %s)", letter, told->order, told->code, told->message);
}

static inline void await_end(struct told *told)
{
    const int64_t until = cv_clock_ms() + LATE_MS;
    take_all_news(told);
    while (!told->over && cv_clock_ms() < until) {
        step(100);
        take_all_news(told);
    }
    if (!told->over)
        fail_msg("no end, but %s", told->order);
}

/* Steps until so many bytes have come. */
static inline void await_length(struct told *told, size_t length)
{
    const int64_t until = cv_clock_ms() + LATE_MS;
    while (told->length < length && !told->over && cv_clock_ms() < until) {
        step(100);
        take_all_news(told);
    }
    assert_true(told->length >= length);
}

/* Steps for so long and takes what comes. */
static inline void linger(struct told *told, int64_t ms)
{
    const int64_t until = cv_clock_ms() + ms;
    while (cv_clock_ms() < until) {
        step(20);
        take_all_news(told);
    }
}

static inline struct cv_target target_of(const struct server *to)
{
    return (struct cv_target){
        .url = to->url, .unix_socket = server_socket(to), .connect_ms = LATE_MS};
}

static inline struct cv_http_request get(void)
{
    return (struct cv_http_request){
        .target = target_of(&server), .method = "GET", .max_body = 1 << 20, .timeout_ms = LATE_MS};
}

static inline void start(struct told *told, const struct cv_http_request *request)
{
    struct cv_err err;
    memset(told, 0, sizeof *told);
    told->id = cv_net_http(&net, request, &err);
    if (told->id == 0)
        fail_msg("%s: %s", err.code, err.message);
}

static inline void ask(struct told *told, const struct cv_http_request *request)
{
    start(told, request);
    await_end(told);
}

static inline void assert_failed(const struct told *told, const char *code, const char *words)
{
    if (told->code == NULL || strcmp(told->code, code) != 0 || strstr(told->message, words) == NULL)
        fail_msg("%s, status %d, %s: %s", told->order, told->status, told->code, told->message);
}

/*
 * A request that `make` begins with a deadline is ended by it, in these words. A deadline that is
 * too short for this machine strikes before the state that they tell of, so a longer one is tried.
 */
static inline void assert_struck(struct told *told, void (*make)(struct told *told, int64_t ms),
                                 int64_t ms, const char *format)
{
    char words[128];
    for (;; ms *= 2) {
        snprintf(words, sizeof words, format, (int)ms);
        make(told, ms);
        await_end(told);
        if (ms >= LATE_MS / 4 || (told->code != NULL && strstr(told->message, words) != NULL))
            break;
    }
    assert_failed(told, "timed_out", words);
}

/* A whole answer of 200. */
#define OK(body, length) "HTTP/1.1 200 OK\r\nX-Test: yes\r\nContent-Length: " length "\r\n\r\n" body

static inline void assert_answer(const struct told *told, int status, const char *body)
{
    if (told->code != NULL)
        fail_msg("%s: %s", told->code, told->message);
    assert_string_equal(told->order, "R");
    assert_int_equal(told->status, status);
    assert_string_equal(told->text, body);
    assert_int_equal(told->length, strlen(body));
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_net, close_net)

#endif
