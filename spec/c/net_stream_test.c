/* Upgraded streams against a server that does what a script says. */
#include <errno.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "support/netcase.h"

#define SWITCH "HTTP/1.1 101 UPGRADED\r\nX-Test: yes\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n"

static struct told told;

static struct cv_stream_request upgrade(void)
{
    return (struct cv_stream_request){
        .target = target_of(&server), .method = "POST", .upgrade = "tcp", .timeout_ms = LATE_MS};
}

static void begin(const struct cv_stream_request *request)
{
    struct cv_err err;
    struct cv_stream_request copy = *request;
    memset(&told, 0, sizeof told);
    told.id = cv_net_stream(&net, &copy, &err);
    if (told.id == 0)
        fail_msg("%s: %s", err.code, err.message);
}

/* `keep`: nothing that comes is used. */
static void open_kept(bool keep)
{
    struct cv_stream_request request = upgrade();
    begin(&request);
    told.keep = keep;
    await_news(&told, 'H');
    assert_int_equal(told.status, 101);
    assert_string_equal(told.header, "yes");
}

static void open_stream(void)
{
    open_kept(false);
}

static size_t write_some(const void *bytes, size_t length)
{
    struct cv_err err;
    ssize_t count = cv_net_write(&net, told.id, bytes, length, &err);
    if (count < 0)
        fail_msg("%s: %s", err.code, err.message);
    return (size_t)count;
}

static void close_stream(void)
{
    cv_net_shut(&net, told.id);
    take_all_news(&told);
    assert_non_null(strchr(told.order, 'X'));
    assert_true(told.over);
}

/* ---- opening ------------------------------------------------------------------------------ */

static void stream_carries_both_ways(void **state)
{
    (void)state;
    for (int unix_socket = 0; unix_socket <= 1; unix_socket++) {
        if (serving)
            server_stop(&server);
        SERVE(unix_socket, REQUEST, SEND(SWITCH), ECHO);
        open_stream();
        assert_int_equal(write_some("hello", 5), 5);
        await_length(&told, 5);
        assert_string_equal(told.text, "hello");
        close_stream();
    }
}

static void request_is_sent_as_given(void **state)
{
    (void)state;
    SERVE(false, REQUEST, SEND(SWITCH), HOLD);
    char url[128], expected[512];
    struct cv_stream_request request = upgrade();
    snprintf(url, sizeof url, "%s/exec/../1/start?a=b&c=%%20", server.url);
    request.target.url = url;
    request.body = "{\"Tty\":false}";
    request.body_length = 13;
    static const char fields[] = "Content-Type\0application/json\0X-Empty\0";
    request.headers = (struct cv_strings){fields, sizeof fields, 4};
    begin(&request);
    await_news(&told, 'H');
    snprintf(expected, sizeof expected,
             "POST /exec/../1/start?a=b&c=%%20 HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n"
             "User-Agent: chamvi-sandbox\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n"
             "Content-Length: 13\r\nContent-Type: application/json\r\nX-Empty: \r\n\r\n"
             "{\"Tty\":false}",
             server.port);
    assert_string_equal((const char *)server.seen->request, expected);
    close_stream();
}

static void bytes_that_come_with_the_head_are_the_streams(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(SWITCH "first bytes"), HOLD);
    open_stream();
    await_length(&told, 11);
    assert_string_equal(told.text, "first bytes");
    assert_string_equal(told.order, "HC");
    close_stream();
}

static void answer_comes_byte_by_byte(void **state)
{
    (void)state;
    SERVE(true, REQUEST, TRICKLE("HTTP/1.1 100 Continue\r\n\r\n" SWITCH "abc"), ECHO);
    open_stream();
    write_some("def", 3);
    await_length(&told, 6);
    assert_string_equal(told.text, "abcdef");
    close_stream();
}

static void refusal_is_told_with_its_body(void **state)
{
    (void)state;
    SERVE(true, REQUEST,
          SEND("HTTP/1.1 404 Not Found\r\nX-Test: why\r\nContent-Length: 4\r\n\r\nnone"), HOLD);
    struct cv_stream_request request = upgrade();
    begin(&request);
    await_end(&told);
    assert_string_equal(told.order, "N");
    assert_int_equal(told.status, 404);
    assert_string_equal(told.header, "why");
    assert_string_equal(told.text, "none");
}

static void assert_broken(const struct server_step *script, const char *words)
{
    serve_script(false, script);
    struct cv_stream_request request = upgrade();
    begin(&request);
    await_end(&told);
    assert_string_equal(told.order, "F");
    assert_failed(&told, "transport_lost", words);
    server_stop(&server);
    serving = false;
}

#define ASSERT_BROKEN(words, ...)                                                                  \
    assert_broken((const struct server_step[]){__VA_ARGS__, CLOSE}, words)

static void answer_that_is_none_is_told(void **state)
{
    (void)state;
    ASSERT_BROKEN("closed the connection without an answer", REQUEST);
    ASSERT_BROKEN("lost", REQUEST, RESET);
    ASSERT_BROKEN("cut off", REQUEST, SEND("HTTP/1.1 101 x\r\nUpgr"));
    ASSERT_BROKEN("no status line", REQUEST, SEND("SSH-2.0-OpenSSH\r\n"), HOLD);
    ASSERT_BROKEN("another protocol", REQUEST,
                  SEND("HTTP/1.1 101 x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"), HOLD);
    ASSERT_BROKEN("another protocol", REQUEST, SEND("HTTP/1.1 101 x\r\n\r\n"), HOLD);
    ASSERT_BROKEN("too long", REQUEST, SEND("HTTP/1.1 101 x\r\nA: "), FLOOD(1 << 20), HOLD);
    ASSERT_BROKEN("cut off", REQUEST, SEND("HTTP/1.1 404 x\r\nContent-Length: 5\r\n\r\nno"));
}

static void nobody_there_is_told(void **state)
{
    (void)state;
    struct cv_stream_request request = upgrade();
    request.target = (struct cv_target){
        .url = "http://engine/", .unix_socket = "/nonexistent/docker.sock", .connect_ms = LATE_MS};
    begin(&request);
    await_end(&told);
    assert_failed(&told, "engine_unreachable", "there is no such socket");
    request.target = (struct cv_target){.url = "http://127.0.0.1:1/", .connect_ms = LATE_MS};
    begin(&request);
    await_end(&told);
    assert_failed(&told, "engine_unreachable", "connection refused");
}

static void begin_with_deadline(struct told *one, int64_t ms)
{
    struct cv_stream_request request = upgrade();
    assert_ptr_equal(one, &told);
    request.timeout_ms = ms;
    begin(&request);
}

static void deadline_bounds_the_answer_and_not_the_stream(void **state)
{
    (void)state;
    SERVE(true, REQUEST, HOLD);
    assert_struck(&told, begin_with_deadline, 50, "gave no answer within %d ms");
    server_stop(&server);
    SERVE(true, REQUEST, SEND(SWITCH), AWAIT, ECHO);
    int64_t ms = 500;
    do {
        ms *= 2;
        begin_with_deadline(&told, ms);
        linger(&told, ms + ms / 2);
    } while (told.order[0] != 'H' && ms < LATE_MS / 4);
    assert_string_equal(told.order, "H");
    server_go(&server);
    write_some("late", 4);
    await_length(&told, 4);
    close_stream();
}

static void malformed_request_is_refused(void **state)
{
    (void)state;
    struct cv_err err;
    struct cv_stream_request request = {.target = {.url = "http://host/", .connect_ms = 1},
                                        .method = "POST",
                                        .upgrade = "tcp",
                                        .timeout_ms = 1};
    request.headers = (struct cv_strings){"A\0b\r\nC: d", 10, 2};
    assert_int_equal(cv_net_stream(&net, &request, &err), 0);
    assert_string_equal(err.code, "invalid_request");
    request.headers = (struct cv_strings){"Upgrade\0c", 9, 2};
    assert_int_equal(cv_net_stream(&net, &request, &err), 0);
    assert_string_equal(err.code, "invalid_request");
    request.headers = (struct cv_strings){"User-Agent\0c", 12, 2}; /* it has one */
    assert_int_equal(cv_net_stream(&net, &request, &err), 0);
    assert_string_equal(err.code, "invalid_request");
    request.headers = (struct cv_strings){0};
    request.upgrade = "tcp\r\n";
    assert_int_equal(cv_net_stream(&net, &request, &err), 0);
    assert_string_equal(err.code, "invalid_request");
    request.upgrade = "tcp";
    request.body_length = CV_STREAM_QUEUE;
    char *body = calloc(1, request.body_length);
    request.body = body;
    assert_int_equal(cv_net_stream(&net, &request, &err), 0);
    assert_string_equal(err.code, "invalid_request");
    assert_non_null(strstr(err.message, "too long"));
    free(body);
}

/* ---- back-pressure ------------------------------------------------------------------------ */

static void what_is_not_used_is_not_read(void **state)
{
    (void)state;
    enum { ALL = 16 << 20 };
    SERVE(true, REQUEST, SEND(SWITCH), FLOOD(ALL));
    open_kept(true);
    await_length(&told, CV_NET_WINDOW);
    linger(&told, 300);
    assert_true(told.length >= CV_NET_WINDOW);
    assert_true(told.length <= CV_NET_WINDOW + CV_STREAM_READ);
    told.keep = false;
    cv_net_used(&net, told.id, told.length);
    await_news(&told, 'E');
    assert_int_equal(told.length, ALL);
    assert_string_equal(told.order, "HCE");
    close_stream();
}

/* Nothing is watched then, since a hang-up would make every step a busy one. */
static void paused_stream_costs_nothing_when_the_server_goes(void **state)
{
    (void)state;
    SERVE(false, REQUEST, SEND(SWITCH), FLOOD(CV_NET_WINDOW + 1000));
    open_kept(true);
    await_length(&told, CV_NET_WINDOW);
    linger(&told, 200);
    int64_t start = cv_clock_ms();
    for (int i = 0; i < 5; i++)
        step(40);
    assert_true(cv_clock_ms() - start >= 190);
    told.keep = false;
    cv_net_used(&net, told.id, told.length);
    await_news(&told, 'E');
    assert_int_equal(told.length, CV_NET_WINDOW + 1000);
    close_stream();
}

static void what_is_not_taken_is_not_queued_without_bound(void **state)
{
    (void)state;
    enum { ALL = 8 << 20 };
    SERVE(true, REQUEST, SEND(SWITCH), AWAIT, DRAIN, SEND("done"));
    open_stream();
    char *bytes = calloc(1, ALL);
    size_t sent = 0, count;
    while ((count = write_some(bytes, ALL - sent)) > 0)
        sent += count;
    assert_true(sent >= CV_STREAM_QUEUE && sent < ALL);
    server_go(&server);
    while (sent < ALL) {
        memset(told.order, 0, sizeof told.order);
        await_news(&told, 'D');
        sent += write_some(bytes + sent, ALL - sent);
    }
    free(bytes);
    cv_net_shutdown(&net, told.id);
    await_news(&told, 'E');
    assert_string_equal(told.text, "done");
    assert_int_equal(server.seen->bytes, ALL);
    close_stream();
}

static void flood_both_ways_does_not_lock(void **state)
{
    (void)state;
    enum { ALL = 4 << 20 };
    SERVE(true, REQUEST, SEND(SWITCH), ECHO);
    open_stream();
    char *bytes = calloc(1, ALL);
    size_t sent = 0;
    while (sent < ALL || told.length < ALL) {
        if (sent < ALL)
            sent += write_some(bytes + sent, ALL - sent);
        memset(told.order, 0, sizeof told.order);
        step(LATE_MS);
        take_all_news(&told);
        assert_true(!told.over);
    }
    free(bytes);
    assert_int_equal(told.length, ALL);
    close_stream();
}

/* ---- ends --------------------------------------------------------------------------------- */

static void write_side_ends_alone(void **state)
{
    (void)state;
    for (int unix_socket = 0; unix_socket <= 1; unix_socket++) {
        if (serving)
            server_stop(&server);
        SERVE(unix_socket, REQUEST, SEND(SWITCH), DRAIN, SEND("after the end"));
        open_stream();
        write_some("hello", 5);
        cv_net_shutdown(&net, told.id);
        cv_net_shutdown(&net, told.id);
        struct cv_err err;
        assert_int_equal(cv_net_write(&net, told.id, "x", 1, &err), -1);
        assert_string_equal(err.code, "closed");
        await_news(&told, 'E');
        assert_string_equal(told.text, "after the end");
        assert_int_equal(server.seen->bytes, 5);
        close_stream();
    }
}

static void shutdown_before_the_answer_waits_for_it(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SLEEP(100), SEND(SWITCH), DRAIN, SEND("done"));
    struct cv_stream_request request = upgrade();
    begin(&request);
    cv_net_shutdown(&net, told.id);
    await_news(&told, 'E');
    assert_string_equal(told.text, "done");
    close_stream();
}

static void read_side_ends_alone(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(SWITCH "all"), SHUT, DRAIN);
    open_stream();
    await_news(&told, 'E');
    assert_string_equal(told.order, "HCE");
    write_some("hello", 5);
    cv_net_shutdown(&net, told.id);
    const int64_t until = cv_clock_ms() + LATE_MS;
    while (server.seen->drained == 0 && cv_clock_ms() < until)
        step(20);
    assert_int_equal(server.seen->bytes, 5);
    close_stream();
}

/* What it has sent before it went is read, whatever becomes of what we send. */
static void output_outlives_a_server_that_reads_no_more(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(SWITCH), FLOOD(200000));
    open_stream();
    char *bytes = calloc(1, 1 << 20);
    struct cv_err err;
    ssize_t count;
    while ((count = cv_net_write(&net, told.id, bytes, 1 << 20, &err)) > 0)
        continue;
    free(bytes);
    const int64_t until = cv_clock_ms() + LATE_MS;
    while (strpbrk(told.order, "EF") == NULL && cv_clock_ms() < until) {
        step(100);
        take_all_news(&told);
    }
    assert_int_equal(told.length, 200000);
    assert_int_equal(cv_net_write(&net, told.id, "x", 1, &err), -1);
    assert_string_equal(err.code, "closed");
}

static void reset_is_told(void **state)
{
    (void)state;
    SERVE(false, REQUEST, SEND(SWITCH "abc"), AWAIT, RESET);
    open_stream();
    await_length(&told, 3);
    server_go(&server);
    await_end(&told);
    assert_string_equal(told.order, "HCF");
    assert_failed(&told, "transport_lost", "lost");
    struct cv_err err;
    assert_int_equal(cv_net_write(&net, told.id, "x", 1, &err), -1);
    assert_string_equal(err.code, "closed");
}

static void abort_is_prompt_at_each_stage(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(SWITCH "abc"), HOLD);
    struct cv_stream_request request = upgrade();
    int descriptors = scratch_descriptors();
    for (int steps = 0; steps < 12; steps++) {
        begin(&request);
        for (int i = 0; i < steps; i++)
            step(5);
        cv_net_abort(&net, told.id, "aborted", "enough");
        cv_net_shut(&net, told.id);
        take_all_news(&told);
        assert_string_equal(told.order, "F");
        assert_failed(&told, "aborted", "enough");
        assert_int_equal(scratch_descriptors(), descriptors);
    }
}

static void streams_leave_nothing(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(SWITCH), ECHO);
    int descriptors = scratch_descriptors();
    for (int i = 0; i < 200; i++) {
        open_stream();
        write_some("hello", 5);
        await_length(&told, 5);
        close_stream();
        assert_int_equal(scratch_descriptors(), descriptors);
    }
    assert_int_equal(server.seen->connections, 200);
}

static void close_under_way_leaves_nothing(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(SWITCH), FLOOD(1 << 24));
    struct cv_stream_request request = upgrade();
    open_stream();
    for (int i = 0; i < 3; i++) {
        begin(&request);
        step(20);
    }
}

static const char *close_in_a_child(void *context)
{
    (void)context;
    if (!cv_reactor_foreign(&reactor))
        return "no child";
    cv_net_close(&net);
    cv_reactor_close(&reactor);
    return NULL;
}

static void close_in_a_forked_child_does_not_disturb_the_parent(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(SWITCH), ECHO);
    open_stream();
    scratch_apart(close_in_a_child, NULL);
    write_some("hello", 5);
    await_length(&told, 5);
    assert_string_equal(told.text, "hello");
    close_stream();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(stream_carries_both_ways),
        TEST(request_is_sent_as_given),
        TEST(bytes_that_come_with_the_head_are_the_streams),
        TEST(answer_comes_byte_by_byte),
        TEST(refusal_is_told_with_its_body),
        TEST(answer_that_is_none_is_told),
        TEST(nobody_there_is_told),
        TEST(deadline_bounds_the_answer_and_not_the_stream),
        TEST(malformed_request_is_refused),
        TEST(what_is_not_used_is_not_read),
        TEST(paused_stream_costs_nothing_when_the_server_goes),
        TEST(what_is_not_taken_is_not_queued_without_bound),
        TEST(flood_both_ways_does_not_lock),
        TEST(write_side_ends_alone),
        TEST(shutdown_before_the_answer_waits_for_it),
        TEST(read_side_ends_alone),
        TEST(output_outlives_a_server_that_reads_no_more),
        TEST(reset_is_told),
        TEST(abort_is_prompt_at_each_stage),
        TEST(streams_leave_nothing),
        TEST(close_under_way_leaves_nothing),
        TEST(close_in_a_forked_child_does_not_disturb_the_parent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
