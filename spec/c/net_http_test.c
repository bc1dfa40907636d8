/* Requests over libcurl against a server that does what a script says. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <time.h>

#include "support/netcase.h"

static struct told told;

/* ---- answers ------------------------------------------------------------------------------ */

static void answer_comes_whole(void **state)
{
    (void)state;
    for (int unix_socket = 0; unix_socket <= 1; unix_socket++) {
        if (serving)
            server_stop(&server);
        SERVE(unix_socket, REQUEST, SEND(OK("hello", "5")));
        struct cv_http_request request = get();
        ask(&told, &request);
        assert_answer(&told, 200, "hello");
        assert_string_equal(told.header, "yes");
    }
}

static void answer_comes_byte_by_byte(void **state)
{
    (void)state;
    SERVE(true, REQUEST,
          TRICKLE("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201 Created\r\nTransfer-Encoding: "
                  "chunked\r\n\r\n"
                  "3\r\nabc\r\n1\r\nd\r\n0\r\n\r\n"));
    struct cv_http_request request = get();
    ask(&told, &request);
    assert_answer(&told, 201, "abcd");
}

static void any_status_is_an_answer(void **state)
{
    (void)state;
    SERVE(
        true, REQUEST, SEND("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n"),
        REQUEST, SEND("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"), REQUEST,
        SEND("HTTP/1.1 204 No Content\r\n\r\n"), REQUEST, SEND("HTTP/1.1 500 \r\n\r\nto the end"));
    struct cv_http_request request = get();
    ask(&told, &request);
    assert_answer(&told, 302, "");
    ask(&told, &request);
    assert_answer(&told, 404, "none");
    ask(&told, &request);
    assert_answer(&told, 204, "");
    ask(&told, &request);
    assert_answer(&told, 500, "to the end");
    assert_int_equal(server.seen->connections, 1);
}

static void request_is_sent_as_given(void **state)
{
    (void)state;
    SERVE(false, REQUEST, SEND(OK("", "0")), AGAIN);
    char url[128], expected[512];
    struct cv_http_request request = get();
    snprintf(url, sizeof url, "%s/a/../b%%2f?c=d&e=%%20", server.url);
    request.target.url = url;
    request.method = "POST";
    request.body = "{\"a\":1}";
    request.body_length = 7;
    static const char fields[] =
        "X-Registry-Auth\0secret\0Content-Type\0application/json\0X-Empty\0";
    request.headers = (struct cv_strings){fields, sizeof fields, 6};
    ask(&told, &request);
    snprintf(expected, sizeof expected,
             "POST /a/../b%%2f?c=d&e=%%20 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
             "User-Agent: chamvi-sandbox\r\nAccept: */*\r\nX-Registry-Auth: secret\r\n"
             "Content-Type: application/json\r\nX-Empty:\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
             server.port);
    assert_string_equal((const char *)server.seen->request, expected);

    request = get();
    request.target.url = url;
    request.method = "DELETE";
    ask(&told, &request);
    assert_non_null(strstr((const char *)server.seen->request, "DELETE /a/../b"));
    assert_null(strstr((const char *)server.seen->request, "Content-"));
    request.method = "POST";
    ask(&told, &request);
    assert_non_null(strstr((const char *)server.seen->request, "Content-Length: 0\r\n"));
    assert_null(strstr((const char *)server.seen->request, "Content-Type"));
}

static void head_has_no_body(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(OK("", "5")), AGAIN);
    struct cv_http_request request = get();
    request.method = "HEAD";
    ask(&told, &request);
    assert_answer(&told, 200, "");
    ask(&told, &request);
    assert_int_equal(server.seen->connections, 1);
}

static void large_body_is_sent(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(OK("done", "4")), AGAIN);
    struct cv_http_request request = get();
    request.method = "PUT";
    request.body_length = 10 << 20;
    char *body = malloc(request.body_length);
    memset(body, 'x', request.body_length);
    request.body = body;
    start(&told, &request);
    free(body); /* it was copied */
    await_end(&told);
    assert_answer(&told, 200, "done");
    assert_true(server.seen->bytes > (9 << 20));
}

/* ---- connections -------------------------------------------------------------------------- */

static void connection_is_kept(void **state)
{
    (void)state;
    for (int unix_socket = 0; unix_socket <= 1; unix_socket++) {
        if (serving)
            server_stop(&server);
        SERVE(unix_socket, REQUEST, SEND(OK("hello", "5")), AGAIN);
        struct cv_http_request request = get();
        int descriptors = 0;
        for (int i = 0; i < 1000; i++) {
            ask(&told, &request);
            assert_answer(&told, 200, "hello");
            if (i == 0)
                descriptors = scratch_descriptors();
        }
        assert_true(scratch_descriptors() <= descriptors);
        assert_int_equal(server.seen->requests, 1000);
        assert_int_equal(server.seen->connections, 1);
    }
}

static void connections_that_close_leave_nothing(void **state)
{
    (void)state;
    SERVE(false, REQUEST,
          SEND("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx"));
    struct cv_http_request request = get();
    ask(&told, &request);
    int descriptors = scratch_descriptors();
    for (int i = 0; i < 200; i++) {
        ask(&told, &request);
        assert_answer(&told, 200, "x");
    }
    assert_int_equal(scratch_descriptors(), descriptors);
    assert_int_equal(server.seen->connections, 201);
}

static void many_at_once_have_a_connection_each(void **state)
{
    enum { MANY = 40 };
    static struct told all[MANY];
    (void)state;
    SERVE(true, REQUEST, SLEEP(100), SEND(OK("hello", "5")), AGAIN);
    struct cv_http_request request = get();
    for (int i = 0; i < MANY; i++)
        start(&all[i], &request);
    int over = 0;
    const int64_t until = cv_clock_ms() + LATE_MS;
    while (over < MANY && cv_clock_ms() < until) {
        struct cv_net_op *op = cv_net_next(&net);
        if (op == NULL) {
            step(100);
            continue;
        }
        struct told *one = &all[op->by_id.id - all[0].id];
        take_news(one, op);
        over += one->over;
    }
    for (int i = 0; i < MANY; i++) {
        if (strcmp(all[i].text, "hello") != 0)
            fail_msg("%d: %s, %s: %s", i, all[i].order, all[i].code, all[i].message);
    }
    assert_int_equal(server.seen->connections, MANY);
}

/* A connection that died while it was idle: what can't have been done twice is asked again. */
static void dead_connection_is_replaced(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(OK("hello", "5")), REQUEST, CLOSE);
    struct cv_http_request request = get();
    ask(&told, &request);
    ask(&told, &request);
    assert_answer(&told, 200, "hello");
    assert_int_equal(server.seen->connections, 2);
    assert_int_equal(server.seen->requests, 3);
}

static void request_with_an_effect_is_not_sent_twice(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(OK("hello", "5")), REQUEST, CLOSE);
    struct cv_http_request request = get();
    request.method = "POST";
    ask(&told, &request);
    ask(&told, &request);
    assert_failed(&told, "transport_lost", "closed the connection without an answer");
    assert_int_equal(server.seen->requests, 2);
}

static void descriptors_are_closed_on_exec(void **state)
{
    (void)state;
    SERVE(false, REQUEST, SEND(OK("hello", "5")), AGAIN);
    struct cv_http_request request = get();
    ask(&told, &request);
    int sockets = 0;
    for (int fd = 0; fd < 64; fd++) {
        int family;
        socklen_t size = sizeof family;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &size) != 0 || family != AF_INET)
            continue;
        sockets++;
        assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
    }
    assert_int_equal(sockets, 1);
}

/* ---- streamed answers --------------------------------------------------------------------- */

static void body_is_streamed_with_flow_control(void **state)
{
    (void)state;
    enum { ALL = 8 << 20 };
    SERVE(true, REQUEST, SEND("HTTP/1.1 200 OK\r\nX-Test: yes\r\nContent-Length: 8388608\r\n\r\n"),
          FLOOD(ALL));
    struct cv_http_request request = get();
    request.stream = true;
    start(&told, &request);
    told.keep = true;
    await_length(&told, CV_NET_WINDOW);
    linger(&told, 300);
    assert_string_equal(told.order, "HC");
    assert_string_equal(told.header, "yes");
    assert_true(told.length >= CV_NET_WINDOW);
    assert_true(told.length < CV_NET_WINDOW + CURL_MAX_WRITE_SIZE);
    told.keep = false;
    cv_net_used(&net, told.id, told.length);
    await_end(&told);
    assert_string_equal(told.order, "HCR");
    assert_int_equal(told.length, ALL);
}

static void chunks_come_as_they_are_sent(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
          SEND("a\r\n{\"a\":\"b\"}\n\r\n"), HOLD);
    struct cv_http_request request = get();
    request.stream = true;
    start(&told, &request);
    await_news(&told, 'C');
    assert_string_equal(told.text, "{\"a\":\"b\"}\n");
    cv_net_abort(&net, told.id, "aborted", "enough");
    await_end(&told);
    assert_string_equal(told.order, "HCF");
    assert_failed(&told, "aborted", "enough");
}

static void refusal_of_a_streamed_request_is_collected(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND("HTTP/1.1 404 Not Found\r\nContent-Length: 4\r\n\r\nnone"));
    struct cv_http_request request = get();
    request.stream = true;
    ask(&told, &request);
    assert_answer(&told, 404, "none");
}

/* ---- ends --------------------------------------------------------------------------------- */

static void abort_is_prompt_at_each_stage(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(OK("hell", "5")), HOLD);
    struct cv_http_request request = get();
    int descriptors = scratch_descriptors();
    for (int steps = 0; steps < 12; steps++) {
        start(&told, &request);
        for (int i = 0; i < steps; i++)
            step(5);
        cv_net_abort(&net, told.id, "aborted", "enough");
        cv_net_abort(&net, told.id, "aborted", "twice");
        take_all_news(&told);
        assert_string_equal(told.order, "F");
        assert_failed(&told, "aborted", "enough");
        assert_int_equal(scratch_descriptors(), descriptors);
    }
    step(0);
    assert_null(cv_net_next(&net));
}

static void close_under_way_leaves_nothing(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(OK("hell", "5")), HOLD);
    static struct told others[3];
    struct cv_http_request request = get();
    request.stream = true;
    for (int i = 0; i < 3; i++) {
        start(&others[i], &request);
        step(20);
    }
}

/* A look-up that hangs, and gives nothing in the end. */
static volatile bool look_ups_hang;
static char looked_up[128];

__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **found)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    (void)hints, (void)found;
    snprintf(looked_up, sizeof looked_up, "%s:%s", name, service);
    while (look_ups_hang)
        nanosleep(&pause, NULL);
    return EAI_NONAME;
}

/* It must not hold the program up: it is left alone, and its thread cleans up behind itself. */
static void hanging_look_up_is_left_alone(void **state)
{
    (void)state;
    struct cv_http_request request = {
        .target = {.url = "http://nobody.invalid/", .connect_ms = LATE_MS},
        .method = "GET",
        .timeout_ms = LATE_MS};
    look_ups_hang = true;
    for (int i = 0; i < 5; i++) {
        start(&told, &request);
        step(0);
        step(0);
        cv_net_abort(&net, told.id, "aborted", "enough");
        take_all_news(&told);
        assert_failed(&told, "aborted", "enough");
    }
    request.timeout_ms = 20;
    ask(&told, &request);
    assert_failed(&told, "engine_unreachable", "no connection within 20 ms");
    request.timeout_ms = LATE_MS;
    request.target.connect_ms = 20;
    ask(&told, &request);
    assert_failed(&told, "engine_unreachable", "no connection within 20 ms");
    start(&told, &request);
    step(0);
    cv_net_close(&net);
    look_ups_hang = false;
    const int64_t until = cv_clock_ms() + LATE_MS;
    while (scratch_descriptors() > descriptors_before + 2 && cv_clock_ms() < until)
        step(5);
}

static void proxy_has_a_port(void **state)
{
    static const char *const expected[][2] = {
        {"http://proxy.invalid", "proxy.invalid:80"},
        {"http://proxy.invalid:8", "proxy.invalid:8"},
        {"https://proxy.invalid", "proxy.invalid:443"},
        {"socks5h://proxy.invalid", "proxy.invalid:1080"},
    };
    (void)state;
    struct cv_http_request request = {
        .target = {.url = "http://nobody.invalid/", .connect_ms = LATE_MS},
        .method = "GET",
        .timeout_ms = LATE_MS};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        request.target.proxy = expected[i][0];
        ask(&told, &request);
        assert_failed(&told, "engine_unreachable", "name can't be resolved");
        assert_string_equal(looked_up, expected[i][1]);
    }
}

static const char *close_in_a_child(void *context)
{
    (void)context;
    int before = scratch_descriptors();
    if (!cv_reactor_foreign(&reactor))
        return "no child";
    cv_net_close(&net);
    cv_reactor_close(&reactor);
    return scratch_descriptors() < before ? NULL : "nothing closed";
}

static void close_in_a_forked_child_does_not_disturb_the_parent(void **state)
{
    (void)state;
    SERVE(false, REQUEST, SEND(OK("hello", "5")), REQUEST, SEND(OK("hel", "5")), SLEEP(500),
          SEND("lo"));
    struct cv_http_request request = get();
    ask(&told, &request);
    start(&told, &request);
    while (server.seen->requests < 2)
        step(20);
    step(20);
    scratch_apart(close_in_a_child, NULL);
    await_end(&told);
    assert_answer(&told, 200, "hello");
    assert_int_equal(server.seen->connections, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(answer_comes_whole),
        TEST(answer_comes_byte_by_byte),
        TEST(any_status_is_an_answer),
        TEST(request_is_sent_as_given),
        TEST(head_has_no_body),
        TEST(large_body_is_sent),
        TEST(connection_is_kept),
        TEST(connections_that_close_leave_nothing),
        TEST(many_at_once_have_a_connection_each),
        TEST(dead_connection_is_replaced),
        TEST(request_with_an_effect_is_not_sent_twice),
        TEST(descriptors_are_closed_on_exec),
        TEST(body_is_streamed_with_flow_control),
        TEST(chunks_come_as_they_are_sent),
        TEST(refusal_of_a_streamed_request_is_collected),
        TEST(abort_is_prompt_at_each_stage),
        TEST(close_under_way_leaves_nothing),
        TEST(hanging_look_up_is_left_alone),
        TEST(proxy_has_a_port),
        TEST(close_in_a_forked_child_does_not_disturb_the_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
