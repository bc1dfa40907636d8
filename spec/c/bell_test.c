/*
 * The bell: a thread that rings through a socket, and waits for the answer. (Under ThreadSanitizer
 * too, by hand: CC=clang, -fsanitize=thread.)
 */
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/fd.h"
#include "bell/bell.h"
#include "support/scratch.h"

/* How late a ring may be on a busy machine, and how long none is awaited. */
#define LATE_MS 20000
#define QUIET_MS 50

static char folder[PATH_MAX];
static int descriptors_before;
static struct cv_bell bell;
static int news; /* the watched descriptor: an eventfd */

static int open_bell(void **state)
{
    struct cv_err err;
    (void)state;
    scratch_make(folder, false);
    descriptors_before = scratch_descriptors();
    news = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    assert_true(news >= 0);
    if (cv_bell_open(&bell, news, folder, &err) != 0)
        fail_msg("%s: %s", err.code, err.message);
    return 0;
}

static int close_bell(void **state)
{
    (void)state;
    cv_bell_close(&bell, false);
    cv_bell_close(&bell, false);
    cv_fd_close(&news);
    assert_int_equal(scratch_descriptors(), descriptors_before);
    scratch_remove(folder);
    return 0;
}

static int threads(void)
{
    int count = 0;
    DIR *stream = opendir("/proc/self/task");
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        count += entry->d_name[0] != '.';
    closedir(stream);
    return count;
}

/* Neither cmocka nor the heap: forked children use it too. -1 with errno. */
static int try_to_connect(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int line = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    if (connect(line, (struct sockaddr *)&address, sizeof address) != 0)
        cv_fd_close(&line);
    return line;
}

static int connect_and_answer(void)
{
    struct cv_err err;
    int line = try_to_connect(bell.path);
    if (line < 0)
        fail_msg("%s: %s", bell.path, strerror(errno));
    if (cv_bell_answer(&bell, &err) != 0)
        fail_msg("%s: %s", err.code, err.message);
    return line;
}

static bool readable(int fd, int timeout_ms)
{
    struct pollfd watched = {.fd = fd, .events = POLLIN};
    int count = poll(&watched, 1, timeout_ms);
    assert_true(count >= 0);
    return count == 1;
}

static void expect_ring(int line)
{
    char byte;
    assert_true(readable(line, LATE_MS));
    assert_int_equal(read(line, &byte, 1), 1);
}

static void acknowledge(int line)
{
    assert_int_equal(write(line, ".", 1), 1);
}

static void tell(void)
{
    const uint64_t one = 1;
    assert_int_equal(write(news, &one, sizeof one), sizeof one);
}

static void take(void)
{
    uint64_t count;
    assert_int_equal(read(news, &count, sizeof count), sizeof count);
}

/* ---- ringing ------------------------------------------------------------------------------ */

static void rings_when_there_is_news(void **state)
{
    (void)state;
    int line = connect_and_answer();
    assert_false(readable(line, QUIET_MS));
    tell();
    expect_ring(line);
    close(line);
}

static void rings_once_until_it_is_answered(void **state)
{
    (void)state;
    int line = connect_and_answer();
    tell();
    expect_ring(line);
    assert_false(readable(line, QUIET_MS)); /* though there still is news */
    acknowledge(line);
    expect_ring(line);
    take();
    acknowledge(line);
    assert_false(readable(line, QUIET_MS));
    close(line);
}

static void never_misses_news(void **state)
{
    (void)state;
    int line = connect_and_answer();
    for (int i = 0; i < 2000; i++) {
        tell();
        expect_ring(line);
        take();
        acknowledge(line);
    }
    close(line);
}

static void news_before_the_answer_rings(void **state)
{
    (void)state;
    tell();
    int line = connect_and_answer();
    expect_ring(line);
    close(line);
}

/* ---- ending ------------------------------------------------------------------------------- */

/* Of this program without a bell, as main found them. */
static int own_threads;

/* One that was joined may still be seen for a moment. */
static void await_threads(int count)
{
    const int64_t until = cv_clock_ms() + LATE_MS;
    while (threads() != count && cv_clock_ms() < until)
        poll(NULL, 0, 1);
    assert_int_equal(threads(), count);
}

static void closing_ends_the_thread(void **state)
{
    (void)state;
    int line = connect_and_answer();
    await_threads(own_threads + 1);
    cv_bell_close(&bell, false);
    await_threads(own_threads);
    char byte;
    assert_int_equal(read(line, &byte, 1), 0); /* the peer sees the end */
    close(line);
}

static void closing_ends_a_thread_that_awaits_an_answer(void **state)
{
    (void)state;
    int line = connect_and_answer();
    tell();
    expect_ring(line);
    cv_bell_close(&bell, false);
    await_threads(own_threads);
    close(line);
}

static void a_peer_that_closes_ends_the_thread(void **state)
{
    (void)state;
    int line = connect_and_answer();
    close(line);
    await_threads(own_threads);
}

/* An answer to nothing: a peer that does not keep to the rules is hung up on. */
static void an_answer_before_the_ring_ends_the_thread(void **state)
{
    (void)state;
    int line = connect_and_answer();
    acknowledge(line);
    await_threads(own_threads);
    char byte;
    assert_true(readable(line, LATE_MS));
    assert_int_equal(recv(line, &byte, 1, 0), 0);
    close(line);
}

static void can_be_opened_again(void **state)
{
    (void)state;
    struct cv_err err;
    for (int i = 0; i < 50; i++) {
        int line = connect_and_answer();
        tell();
        expect_ring(line);
        take();
        acknowledge(line);
        close(line);
        cv_bell_close(&bell, false);
        assert_int_equal(cv_bell_open(&bell, news, folder, &err), 0);
    }
}

/* The signals that a thread blocks, as the system tells them: proc(5). */
static unsigned long long blocked_by(const char *thread)
{
    char path[PATH_MAX];
    char text[4096] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/status", thread);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0 && read(fd, text, sizeof text - 1) > 0);
    close(fd);
    const char *blocked = strstr(text, "SigBlk:");
    assert_non_null(blocked);
    return strtoull(blocked + strlen("SigBlk:"), NULL, 16);
}

static void signals_stay_with_the_other_threads(void **state)
{
    (void)state;
    char self[32];
    snprintf(self, sizeof self, "%d", getpid());
    const unsigned long long before = blocked_by(self);
    int line = connect_and_answer();
    assert_true(blocked_by(self) == before);
    await_threads(own_threads + 1); /* none of an earlier bell is on its way out */

    int others = 0;
    DIR *stream = opendir("/proc/self/task");
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
        if (entry->d_name[0] == '.' || strcmp(entry->d_name, self) == 0)
            continue;
        const int signals[] = {SIGHUP, SIGCHLD, SIGTERM, SIGQUIT, SIGUSR1, SIGALRM};
        for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
            assert_true((blocked_by(entry->d_name) >> (signals[i] - 1) & 1) == 1);
        others++;
    }
    closedir(stream);
    assert_true(others >= 1);
    close(line);
}

/* ---- who may connect ---------------------------------------------------------------------- */

static void has_no_name_in_the_file_system(void **state)
{
    (void)state;
    int dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *stream = fdopendir(dir);
    assert_non_null(stream);
    for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
        assert_int_equal(entry->d_name[0], '.');
    closedir(stream);
}

static void only_this_process_is_answered(void **state)
{
    (void)state;
    /* A child has the descriptors, so it can connect; it is first in the queue. */
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        char byte;
        int line = try_to_connect(bell.path);
        struct pollfd watched = {.fd = line, .events = POLLIN};
        bool hung_up = line >= 0 && poll(&watched, 1, LATE_MS) == 1 && read(line, &byte, 1) == 0;
        _exit(hung_up ? 0 : 1);
    }
    assert_true(readable(bell.listener, LATE_MS));
    int line = connect_and_answer();
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    tell();
    expect_ring(line);
    close(line);
}

static void without_a_connection_there_is_an_error(void **state)
{
    (void)state;
    struct cv_err err;
    assert_int_equal(cv_bell_answer(&bell, &err), -1);
    assert_string_equal(err.code, "create_failed");
    assert_int_equal(bell.listener, -1);
    assert_int_equal(cv_bell_answer(&bell, &err), -1); /* a closed one too */
}

static void a_folder_that_is_not_there_is_an_error(void **state)
{
    (void)state;
    struct cv_bell other;
    struct cv_err err;
    const int before = scratch_descriptors();
    char missing[PATH_MAX + 16];
    snprintf(missing, sizeof missing, "%s/missing", folder);
    assert_int_equal(cv_bell_open(&other, news, missing, &err), -1);
    assert_string_equal(err.code, "create_failed");
    assert_non_null(strstr(err.message, "temporary"));
    char lengthy[PATH_MAX + 1];
    memset(lengthy, 'x', sizeof lengthy - 1);
    lengthy[sizeof lengthy - 1] = '\0';
    assert_int_equal(cv_bell_open(&other, news, lengthy, &err), -1);
    assert_int_equal(scratch_descriptors(), before);
}

static void the_path_of_the_folder_may_be_long(void **state)
{
    (void)state;
    struct cv_bell other;
    struct cv_err err;
    char path[PATH_MAX + 256];
    int length = snprintf(path, sizeof path, "%s/", folder);
    memset(path + length, 'd', 200); /* no address of a socket holds that */
    path[length + 200] = '\0';
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(cv_bell_open(&other, news, path, &err), 0);
    int line = try_to_connect(other.path);
    assert_true(line >= 0);
    assert_int_equal(cv_bell_answer(&other, &err), 0);
    close(line);
    cv_bell_close(&other, false);
}

static void a_forked_child_leaves_the_bell_to_its_parent(void **state)
{
    (void)state;
    int line = connect_and_answer();
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        cv_bell_close(&bell, true);
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    tell();
    expect_ring(line);
    close(line);
}

#define TEST(function) cmocka_unit_test_setup_teardown(function, open_bell, close_bell)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(rings_when_there_is_news),
        TEST(rings_once_until_it_is_answered),
        TEST(never_misses_news),
        TEST(news_before_the_answer_rings),
        TEST(closing_ends_the_thread),
        TEST(closing_ends_a_thread_that_awaits_an_answer),
        TEST(a_peer_that_closes_ends_the_thread),
        TEST(an_answer_before_the_ring_ends_the_thread),
        TEST(can_be_opened_again),
        TEST(signals_stay_with_the_other_threads),
        TEST(has_no_name_in_the_file_system),
        TEST(only_this_process_is_answered),
        TEST(without_a_connection_there_is_an_error),
        TEST(a_folder_that_is_not_there_is_an_error),
        TEST(the_path_of_the_folder_may_be_long),
        TEST(a_forked_child_leaves_the_bell_to_its_parent),
    };
    own_threads = threads();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
