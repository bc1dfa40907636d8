/* Requests over libcurl against a server that does what a script says: bounds and faults. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "support/netcase.h"

static struct told told;

/* ---- bounds ------------------------------------------------------------------------------- */

static void body_is_bounded(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND("HTTP/1.1 200 OK\r\n\r\n"), FLOOD(1 << 30));
    struct cv_http_request request = get();
    request.max_body = 100000;
    ask(&told, &request);
    assert_failed(&told, "response_too_large", "longer than 100000 bytes");
    server_stop(&server);
    SERVE(true, REQUEST, SEND(OK("hello", "5")));
    request = get();
    request.max_body = 5;
    ask(&told, &request);
    assert_answer(&told, 200, "hello");
}

static void head_is_bounded(void **state)
{
    (void)state;
    static char field[60000];
    memset(field, 'x', sizeof field - 1);
    memcpy(field, "X-Long: ", 8);
    SERVE(true, REQUEST, SEND("HTTP/1.1 200 OK\r\n"), SEND(field), SEND("\r\n"), SEND(field),
          SEND("\r\n\r\n"));
    struct cv_http_request request = get();
    ask(&told, &request);
    assert_failed(&told, "response_too_large", "bytes of header");
}

static void start_with_deadline(struct told *one, int64_t ms)
{
    struct cv_http_request request = get();
    request.timeout_ms = ms;
    start(one, &request);
}

static void deadline_ends_it(void **state)
{
    (void)state;
    SERVE(true, REQUEST, HOLD);
    assert_struck(&told, start_with_deadline, 50, "gave no answer within %d ms");
    server_stop(&server);
    SERVE(true, REQUEST, SEND(OK("hell", "5")), HOLD);
    assert_struck(&told, start_with_deadline, 500, "gave no complete answer within %d ms");
}

static void start_idle(int64_t idle_ms, bool keep)
{
    struct cv_http_request request = get();
    request.stream = true;
    request.idle_ms = idle_ms;
    start(&told, &request);
    told.keep = keep;
}

/* Three pauses of half the deadline; a machine that makes them longer gets a longer deadline. */
static void idle_deadline_counts_from_the_last_byte(void **state)
{
    (void)state;
    char words[128];
    int64_t ms = 300;
    do {
        ms *= 2;
        if (serving)
            server_stop(&server);
        SERVE(true, REQUEST, SEND("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n"), SLEEP(ms / 2),
              SEND("a"), SLEEP(ms / 2), SEND("b"), SLEEP(ms / 2), SEND("c"), HOLD);
        start_idle(ms, false);
        await_end(&told);
    } while (strcmp(told.text, "abc") != 0 && ms < LATE_MS / 4);
    assert_string_equal(told.text, "abc");
    snprintf(words, sizeof words, "gave no complete answer within %d ms", (int)ms);
    assert_failed(&told, "timed_out", words);
}

/* True when the deadline has struck while nothing came, which it may. */
static bool struck_by_idleness(void)
{
    return told.code != NULL && strcmp(told.code, "timed_out") == 0;
}

static void idle_deadline_spares_a_reader_that_takes_its_time(void **state)
{
    (void)state;
    enum { ALL = 1 << 20 };
    SERVE(true, REQUEST, SEND("HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n"), FLOOD(ALL),
          HOLD);
    int64_t ms = 500;
    do {
        ms *= 2;
        start_idle(ms, true);
        const int64_t until = cv_clock_ms() + LATE_MS;
        while (!told.over && told.length < CV_NET_WINDOW && cv_clock_ms() < until)
            linger(&told, 10);
        if (struck_by_idleness())
            continue;
        linger(&told, 2 * ms + ms / 2);
        assert_string_equal(told.order, "HC");
        told.keep = false;
        cv_net_used(&net, told.id, told.length);
        await_end(&told);
    } while (struck_by_idleness() && ms < LATE_MS / 4);
    assert_string_equal(told.order, "HCR");
    assert_int_equal(told.length, ALL);
}

/* Names are looked up by nobody: where there is no server for them it takes long. */
__attribute__((visibility("default"))) int getaddrinfo(const char *name, const char *service,
                                                       const struct addrinfo *hints,
                                                       struct addrinfo **found)
{
    (void)name, (void)service, (void)hints, (void)found;
    return EAI_NONAME;
}

/* ---- faults ------------------------------------------------------------------------------- */

static void assert_lost(const struct server_step *script, const char *words)
{
    serve_script(false, script);
    struct cv_http_request request = get();
    request.method = "POST";
    ask(&told, &request);
    assert_failed(&told, "transport_lost", words);
    server_stop(&server);
    serving = false;
}

#define ASSERT_LOST(words, ...) assert_lost((const struct server_step[]){__VA_ARGS__, CLOSE}, words)

static void cut_at_each_stage_is_told(void **state)
{
    (void)state;
    ASSERT_LOST("without an answer", REQUEST);
    ASSERT_LOST("lost", REQUEST, RESET);
    ASSERT_LOST("", REQUEST, SEND("HTTP/1.1 200 OK\r\nX-Test: y"));
    ASSERT_LOST("cut its answer short", REQUEST, SEND(OK("hell", "5")));
    ASSERT_LOST("cut its answer short", REQUEST,
                SEND("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nab"));
    ASSERT_LOST("cut its answer short", REQUEST,
                SEND("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n"));
    ASSERT_LOST("", REQUEST, SEND("SSH-2.0-OpenSSH\r\n"));
    ASSERT_LOST("", REQUEST, SEND("HTTP/1.1 200 OK\r\nno field\r\n\r\n"));
    ASSERT_LOST("", REQUEST, SEND("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"));
}

static void nobody_there_is_told(void **state)
{
    (void)state;
    struct cv_http_request request = get();
    request.target = (struct cv_target){
        .url = "http://engine/", .unix_socket = "/nonexistent/docker.sock", .connect_ms = LATE_MS};
    ask(&told, &request);
    assert_failed(&told, "engine_unreachable",
                  "can't connect to /nonexistent/docker.sock: there is no such socket");
    SERVE(true, REQUEST);
    request.target = target_of(&server);
    char path[sizeof server.path];
    memcpy(path, server.path, sizeof path);
    server.path[0] = '\0'; /* the file stays */
    server_stop(&server);
    serving = false;
    request.target.unix_socket = path;
    ask(&told, &request);
    assert_failed(&told, "engine_unreachable", "connection refused");
    unlink(path);
    request.target = (struct cv_target){.url = "http://127.0.0.1:1/", .connect_ms = LATE_MS};
    ask(&told, &request);
    assert_failed(&told, "engine_unreachable", "can't connect to 127.0.0.1:1: connection refused");
    request.target.url = "http://nobody.invalid/";
    ask(&told, &request);
    assert_failed(&told, "engine_unreachable", "can't be resolved");
}

/* In a process of its own: NULL when the request fails with engine_unreachable and the words. */
static const char *ask_apart(void (*prepare)(void), const char *words)
{
    static struct cv_net own_net;
    static char message[512];
    struct cv_reactor own;
    struct cv_err err;
    struct cv_net_op *op;
    struct cv_http_request request = get();
    if (cv_reactor_open(&own, &err) != 0 || cv_net_open(&own_net, &own, &err) != 0)
        return "no start";
    prepare();
    if (cv_net_http(&own_net, &request, &err) == 0)
        return "no request";
    while ((op = cv_net_next(&own_net)) == NULL) {
        if (cv_reactor_step(&own, 1000, &err) != 0)
            return "no step";
    }
    snprintf(message, sizeof message, "%s: %s", op->err.code, op->err.message);
    bool right = op->err.code != NULL && strcmp(op->err.code, "engine_unreachable") == 0 &&
                 strstr(message, words) != NULL;
    cv_net_close(&own_net);
    cv_reactor_close(&own);
    return right ? NULL : message;
}

static void become_nobody(void)
{
    if (setresuid(65534, 65534, 65534) != 0)
        _exit(3);
}

static const char *ask_as_nobody(void *context)
{
    (void)context;
    return ask_apart(become_nobody, "permission denied: this user may not use the socket");
}

static void lose_epoll(void)
{
    scratch_lose_call(SYS_epoll_ctl, ENOSPC);
}

static const char *ask_without_epoll(void *context)
{
    (void)context;
    return ask_apart(lose_epoll, "No space left on device");
}

/* Only that request fails, not all that are under way and all that come. */
static void socket_that_cannot_be_watched_is_told(void **state)
{
    (void)state;
    SERVE(false, HOLD);
    scratch_apart(ask_without_epoll, NULL);
}

static void forbidden_socket_is_told(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    SERVE(true, REQUEST);
    assert_int_equal(chmod(server.path, 0600), 0);
    scratch_apart(ask_as_nobody, NULL);
}

/* A connect that has to wait in a full queue looks to libcurl as if it were connected. */
static void full_queue_is_told(void **state)
{
    (void)state;
    SERVE(true, REQUEST);
    server_pause(&server);
    struct sockaddr_un {
        sa_family_t family;
        char path[108];
    } address = {AF_UNIX, ""};
    memcpy(address.path, server.path, sizeof address.path);
    int fds[256], count = 0;
    while (count < 256) {
        fds[count] = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (connect(fds[count++], (struct sockaddr *)&address, sizeof address) != 0)
            break;
    }
    assert_true(count < 256);
    struct cv_http_request request = get();
    ask(&told, &request);
    assert_failed(&told, "engine_unreachable", "too many connections wait");
    while (count > 0)
        close(fds[--count]);
    server_resume(&server);
}

static void no_descriptors_left_is_told(void **state)
{
    (void)state;
    SERVE(true, REQUEST, SEND(OK("hello", "5")), AGAIN);
    struct rlimit before, none;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    none = before;
    none.rlim_cur = (rlim_t)next;
    close(next);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    struct cv_http_request request = get();
    ask(&told, &request);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    assert_failed(&told, "engine_unreachable", "too many open files");
    ask(&told, &request);
    assert_answer(&told, 200, "hello");
}

static void assert_refused(const struct cv_http_request *request, const char *words)
{
    struct cv_err err;
    assert_int_equal(cv_net_http(&net, request, &err), 0);
    assert_string_equal(err.code, "invalid_request");
    if (strstr(err.message, words) == NULL)
        fail_msg("%s", err.message);
}

static void malformed_request_is_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "",
        "no url",
        "ftp://host/",
        "file:///etc/passwd",
        "http://user:secret@host/",
        "http://",
        "http://host:99999/",
        "http://ho st/",
        "http://host/a\nb",
    };
    serving = false;
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
        struct cv_http_request request = {
            .target = {.url = urls[i], .connect_ms = 1}, .method = "GET", .timeout_ms = 1};
        struct cv_err err;
        if (cv_net_http(&net, &request, &err) != 0)
            fail_msg("taken: %s", urls[i]);
        assert_string_equal(err.code, "invalid_request");
        assert_null(strstr(err.message, "secret"));
    }
    struct cv_http_request request = {
        .target = {.url = "http://host/", .connect_ms = 1}, .method = "GET", .timeout_ms = 1};
    request.headers = (struct cv_strings){"A\0b\r\nC: d", 10, 2};
    assert_refused(&request, "control bytes");
    request.headers = (struct cv_strings){"A b\0c", 6, 2};
    assert_refused(&request, "malformed name");
    request.headers = (struct cv_strings){"host\0c", 7, 2};
    assert_refused(&request, "host can't be set");
    request.headers = (struct cv_strings){0};
    request.method = "GET /x HTTP/1.1\r\n\r\n";
    assert_refused(&request, "method");
    request.method = "GET";
    char path[200];
    memset(path, 'x', sizeof path - 1);
    path[sizeof path - 1] = '\0';
    request.target.unix_socket = path;
    assert_refused(&request, "longer than 107 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(body_is_bounded),
        TEST(head_is_bounded),
        TEST(deadline_ends_it),
        TEST(idle_deadline_counts_from_the_last_byte),
        TEST(idle_deadline_spares_a_reader_that_takes_its_time),
        TEST(cut_at_each_stage_is_told),
        TEST(nobody_there_is_told),
        TEST(forbidden_socket_is_told),
        TEST(socket_that_cannot_be_watched_is_told),
        TEST(full_queue_is_told),
        TEST(no_descriptors_left_is_told),
        TEST(malformed_request_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
