/* The supervisor, black box: what a command's result is, and how a program is found and started. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/harness.h"

static void expect_signal(struct sup *sup, uint32_t id, uint32_t number)
{
    struct sup_run *run = sup_wait(sup, id);
    assert_int_equal(run->end.how, CV_ENDED_SIGNALED);
    assert_int_equal(run->end.value, number);
    assert_int_equal(run->end.flags, 0);
}

/* A command that could not be started: its code, nothing on stdout, one line on stderr. */
static void expect_not_started(struct sup *sup, const char *const *argv, uint32_t code)
{
    uint32_t id = sup_argv(sup, argv);
    sup_expect_exit(sup, id, code);
    assert_string_equal(sup_out(sup, id), "");
    const char *line = sup_err(sup, id);
    const char *end = strchr(line, '\n');
    if (end == NULL || end == line || end[1] != '\0')
        sup_fail("%s: not one line on stderr: \"%s\"", argv[0], line);
    if (strstr(line, argv[0]) == NULL)
        sup_fail("the line on stderr does not name %s: %s", argv[0], line);
}

static void write_script(struct sup *sup, const char *name, const char *text)
{
    sup_write_file(sup->base, name, text, strlen(text), 0755);
}

static void test_exit_codes(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t ids[256];
    for (uint32_t code = 0; code < 256; code += 15) {
        char script[32];
        snprintf(script, sizeof script, "exit %u", code);
        ids[code] = sup_sh(sup, script);
    }
    for (uint32_t code = 0; code < 256; code += 15)
        sup_expect_exit(sup, ids[code], code);
    sup_end(sup);
}

static void test_own_124_and_137_are_no_timeouts(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    sup_expect_exit(sup, sup_sh(sup, "exit 124"), 124);
    sup_expect_exit(sup, sup_sh(sup, "exit 137"), 137);
    sup_end(sup);
}

static void test_signal_death(void **state)
{
    (void)state;
    const int signals[] = {SIGKILL, SIGTERM, SIGSEGV, SIGHUP, SIGPIPE, SIGRTMIN, 64};
    struct sup *sup = sup_start(NULL);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        char script[64];
        snprintf(script, sizeof script, "kill -%d $$; sleep 5", signals[i]);
        expect_signal(sup, sup_sh(sup, script), (uint32_t)signals[i]);
    }
    sup_end(sup);
}

static void test_duration_and_counts(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id = sup_sh(sup, "echo out; echo error >&2; sleep 0.2");
    struct sup_run *run = sup_expect_exit(sup, id, 0);
    assert_string_equal(sup_out(sup, id), "out\n");
    assert_string_equal(sup_err(sup, id), "error\n");
    assert_int_equal(run->end.stdout_bytes, 4);
    assert_int_equal(run->end.stderr_bytes, 6);
    assert_in_range(run->end.duration_us, 190000, (run->done_ms - run->start_ms + 1) * 1000);
    sup_end(sup);
}

static void test_arguments_arrive_unchanged(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    uint32_t id =
        sup_argv(sup, SUP_LIST("printf", "[%s]", "", "a b", "$HOME", "*", "\n", "\xff'\"", "-n"));
    sup_expect_exit(sup, id, 0);
    assert_string_equal(sup_out(sup, id), "[][a b][$HOME][*][\n][\xff'\"][-n]");
    sup_end(sup);
}

static void test_program_not_found(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    write_script(sup, "no-interpreter", "#!/no/such/interpreter\n");
    write_script(sup, "crlf", "#!/bin/sh\r\necho no\r\n");
    expect_not_started(sup, SUP_LIST("no-such-program-anywhere"), 127);
    expect_not_started(sup, SUP_LIST("./no-such-file"), 127);
    expect_not_started(sup, SUP_LIST("/no/such/folder/file"), 127);
    expect_not_started(sup, SUP_LIST("./no-interpreter"), 127);
    expect_not_started(sup, SUP_LIST("./crlf"), 127);
    sup_end(sup);
}

static void test_program_not_executable(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    static const char foreign[64] = "\x7f"
                                    "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xff\xff";
    sup_write_file(sup->base, "mode", "#!/bin/sh\n", 10, 0644);
    sup_write_file(sup->base, "garbage", "\x01\x02\0\x03garbage\n", 12, 0755);
    sup_write_file(sup->base, "foreign", foreign, sizeof foreign, 0755);
    assert_int_equal(mkdir(sup_path(sup->base, "folder"), 0755), 0);
    assert_int_equal(mkfifo(sup_path(sup->base, "fifo"), 0755), 0);
    assert_int_equal(symlink("loop", sup_path(sup->base, "loop")), 0);
    expect_not_started(sup, SUP_LIST("./mode"), 126);
    expect_not_started(sup, SUP_LIST("./folder"), 126);
    expect_not_started(sup, SUP_LIST("./fifo"), 126);
    expect_not_started(sup, SUP_LIST("./loop"), 126);
    expect_not_started(sup, SUP_LIST("./mode/x"), 126);
    expect_not_started(sup, SUP_LIST("./garbage"), 126);
    expect_not_started(sup, SUP_LIST("./foreign"), 126);
    sup_expect_serving(sup);
    sup_end(sup);
}

static void test_script_without_shebang_is_run_by_sh(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    write_script(sup, "script", "echo \"$0|$#|$1|$2\"\nexit 5\n");
    sup_write_file(sup->base, "empty", "", 0, 0755);
    uint32_t id = sup_argv(sup, SUP_LIST("./script", "a b", ""));
    sup_expect_exit(sup, id, 5);
    assert_string_equal(sup_out(sup, id), "./script|2|a b|\n");
    sup_expect_exit(sup, sup_argv(sup, SUP_LIST("./empty")), 0);
    sup_end(sup);
}

/* The shell gets the path that was found, and so can't take a name for an option. */
static void test_script_named_like_an_option(void **state)
{
    (void)state;
    char path[128];
    struct sup *sup = sup_spawn(NULL);
    snprintf(path, sizeof path, "PATH=%s/bin", sup->temp);
    sup_hello(sup, &(struct sup_options){.env = SUP_LIST(path)});
    sup_wait_ready(sup);
    assert_int_equal(mkdir(sup_path(sup->temp, "bin"), 0755), 0);
    sup_write_file(sup_path(sup->temp, "bin"), "-c", "exit 6\n", 7, 0755);
    sup_expect_exit(sup, sup_argv(sup, SUP_LIST("-c", "exit 7")), 6);
    sup_end(sup);
}

static void test_path_is_searched(void **state)
{
    (void)state;
    char path[256];
    struct sup *sup = sup_spawn(NULL);
    snprintf(path, sizeof path, "PATH=/no/such:%s/one:%s/one/file:%s/two", sup->temp, sup->temp,
             sup->temp);
    sup_hello(sup, &(struct sup_options){.env = SUP_LIST(path)});
    sup_wait_ready(sup);
    const char *one = sup_path(sup->temp, "one");
    const char *two = sup_path(sup->temp, "two");
    assert_int_equal(mkdir(one, 0755), 0);
    assert_int_equal(mkdir(two, 0755), 0);
    sup_write_file(one, "file", "#!/bin/sh\nexit 1\n", 17, 0644);
    sup_write_file(two, "file", "#!/bin/sh\nexit 2\n", 17, 0755);
    sup_write_file(one, "first", "#!/bin/sh\nexit 3\n", 17, 0755);
    sup_write_file(two, "first", "#!/bin/sh\nexit 4\n", 17, 0755);
    sup_write_file(one, "only-mode", "#!/bin/sh\nexit 5\n", 17, 0644);
    sup_write_file(sup->base, "here", "#!/bin/sh\nexit 6\n", 17, 0755);
    /* One that can't be executed is passed over for a later one that can. */
    sup_expect_exit(sup, sup_argv(sup, SUP_LIST("file")), 2);
    sup_expect_exit(sup, sup_argv(sup, SUP_LIST("first")), 3);
    expect_not_started(sup, SUP_LIST("only-mode"), 126);
    /* The working directory is not in the path. */
    expect_not_started(sup, SUP_LIST("here"), 127);
    expect_not_started(sup, SUP_LIST("sh"), 127);
    sup_end(sup);
}

/* execve(2): one string holds at most 131,071 bytes and its NUL. */
static void test_argument_list_limits(void **state)
{
    (void)state;
    static char longest[131073];
    memset(longest, 'x', sizeof longest - 1);
    struct sup *sup = sup_start(NULL);
    longest[131071] = '\0';
    uint32_t id = sup_argv(sup, SUP_LIST("/bin/sh", "-c", "echo ${#1}", "sh", longest));
    sup_expect_exit(sup, id, 0);
    assert_string_equal(sup_out(sup, id), "131071\n");
    longest[131071] = 'x';
    id = sup_argv(sup, SUP_LIST("/bin/sh", "-c", "echo no", "sh", longest));
    sup_wait_failure(sup, id, CV_FAILURE_TOO_LONG);

    /* Within each limit of the protocol, and over what the system takes in all. */
    size_t count = 1000000;
    const char **argv = calloc(count + 2, sizeof *argv);
    assert_non_null(argv);
    argv[0] = "/bin/true";
    for (size_t i = 1; i <= count; i++)
        argv[i] = "x";
    id = sup_argv(sup, argv);
    free(argv);
    sup_wait_failure(sup, id, CV_FAILURE_TOO_LONG);
    sup_expect_serving(sup);
    sup_end(sup);
}

static void test_environment_is_exactly_that_of_hello(void **state)
{
    (void)state;
    struct sup *sup = sup_start(&(struct sup_options){
        .env = SUP_LIST("PATH=/usr/bin:/bin", "EMPTY=", "LINES=a\nb", "EQUALS=x=y", "lower=\xff")});
    uint32_t id = sup_argv(sup, SUP_LIST("/usr/bin/env", "-0"));
    sup_expect_exit(sup, id, 0);
    struct sup_stream *out = &sup_of(sup, id)->out;
    char expected[256];
    int length = snprintf(expected, sizeof expected,
                          "%s%cPATH=/usr/bin:/bin%cEMPTY=%cLINES=a\nb%cEQUALS=x=y%clower=\xff",
                          sup->tag, 0, 0, 0, 0, 0);
    assert_int_equal(out->bytes, length + 1);
    assert_memory_equal(cv_buf_data(&out->kept), expected, (size_t)length + 1);
    sup_end(sup);
}

/* Hello is longer than one frame then. */
static void test_large_environment(void **state)
{
    (void)state;
    static char entry[100001] = "LARGE=";
    memset(entry + 6, 'v', sizeof entry - 7);
    struct sup *sup = sup_start(&(struct sup_options){.env = SUP_LIST("PATH=/bin", entry, "Z=1")});
    uint32_t id = sup_sh(sup, "echo ${#LARGE} $Z");
    sup_expect_exit(sup, id, 0);
    assert_string_equal(sup_out(sup, id), "99994 1\n");
    sup_end(sup);
}

static void expect_cwd(struct sup *sup, const char *cwd, const char *folder)
{
    uint32_t id = sup_exec(sup, &(struct sup_exec){.argv = SUP_LIST("/bin/pwd", "-P"), .cwd = cwd});
    sup_expect_exit(sup, id, 0);
    char expected[256];
    snprintf(expected, sizeof expected, "%s%s\n", sup->base, folder);
    assert_string_equal(sup_out(sup, id), expected);
}

static void expect_no_cwd(struct sup *sup, const char *cwd, uint32_t failure)
{
    uint32_t id = sup_exec(
        sup, &(struct sup_exec){.argv = SUP_LIST("/bin/sh", "-c", "touch ../ran"), .cwd = cwd});
    sup_wait_failure(sup, id, failure);
    assert_int_not_equal(access(sup_path(sup->temp, "ran"), F_OK), 0);
}

static void test_cwd(void **state)
{
    (void)state;
    struct sup *sup = sup_start(NULL);
    assert_int_equal(mkdir(sup_path(sup->base, "a"), 0755), 0);
    assert_int_equal(mkdir(sup_path(sup->base, "a/b"), 0755), 0);
    sup_write_file(sup->base, "file", "", 0, 0644);
    assert_int_equal(symlink("a/b", sup_path(sup->base, "inside")), 0);
    assert_int_equal(symlink(sup_path(sup->base, "a"), sup_path(sup->base, "absolute")), 0);
    assert_int_equal(symlink("/workspace/a/b", sup_path(sup->base, "alias")), 0);
    assert_int_equal(symlink("/tmp", sup_path(sup->base, "outside")), 0);
    assert_int_equal(symlink("..", sup_path(sup->base, "above")), 0);
    assert_int_equal(symlink("loop", sup_path(sup->base, "loop")), 0);
    expect_cwd(sup, "", "");
    expect_cwd(sup, ".", "");
    expect_cwd(sup, "a/b", "/a/b");
    expect_cwd(sup, "inside", "/a/b");
    expect_cwd(sup, "absolute/b", "/a/b");
    expect_cwd(sup, "alias", "/a/b");
    expect_cwd(sup, "a/../a", "/a");
    expect_no_cwd(sup, "missing", CV_FAILURE_CWD);
    expect_no_cwd(sup, "file", CV_FAILURE_CWD);
    expect_no_cwd(sup, "loop", CV_FAILURE_CWD);
    expect_no_cwd(sup, "outside", CV_FAILURE_OUTSIDE);
    expect_no_cwd(sup, "above", CV_FAILURE_OUTSIDE);
    expect_no_cwd(sup, "..", CV_FAILURE_OUTSIDE);
    expect_no_cwd(sup, "a/../..", CV_FAILURE_OUTSIDE);
    sup_expect_serving(sup);
    sup_end(sup);
}

static void test_root_that_is_gone(void **state)
{
    (void)state;
    struct sup *sup =
        sup_start(&(struct sup_options){.flags = CV_HELLO_CREATE, .names = SUP_LIST("root")});
    sup_expect_serving(sup);
    assert_int_equal(rename(sup_path(sup->base, "root"), sup_path(sup->base, "away")), 0);
    sup_wait_failure(sup, sup_sh(sup, "exit 0"), CV_FAILURE_GONE);
    /* Another folder of the same name is not the workspace. */
    assert_int_equal(mkdir(sup_path(sup->base, "root"), 0700), 0);
    sup_wait_failure(sup, sup_sh(sup, "exit 0"), CV_FAILURE_GONE);
    sup_end(sup);
}

static void test_root_that_was_deleted(void **state)
{
    (void)state;
    struct sup *sup =
        sup_start(&(struct sup_options){.flags = CV_HELLO_CREATE, .names = SUP_LIST("root")});
    sup_wait(sup, sup_sh(sup, "rm -rf \"$PWD\""));
    assert_int_not_equal(access(sup_path(sup->base, "root"), F_OK), 0);
    sup_wait_failure(sup, sup_sh(sup, "exit 0"), CV_FAILURE_GONE);
    sup_end(sup);
}

static void test_two_hundred_at_once(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    struct sup *sup = sup_start(NULL);
    uint32_t ids[COUNT];
    int64_t start = cv_clock_ms();
    for (uint32_t i = 0; i < COUNT; i++) {
        char script[64];
        snprintf(script, sizeof script, "sleep 1; echo %u; exit %u", i, i);
        ids[i] = sup_sh(sup, script);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        char expected[16];
        sup_expect_exit(sup, ids[i], i);
        snprintf(expected, sizeof expected, "%u\n", i);
        assert_string_equal(sup_out(sup, ids[i]), expected);
    }
    assert_true(cv_clock_ms() - start < COUNT * 1000); /* one after the other they take longer */
    sup_end(sup);
}

int main(int argc, char **argv)
{
    static const struct CMUnitTest tests[] = {
        SUP_TEST(test_exit_codes),
        SUP_TEST(test_own_124_and_137_are_no_timeouts),
        SUP_TEST(test_signal_death),
        SUP_TEST(test_duration_and_counts),
        SUP_TEST(test_arguments_arrive_unchanged),
        SUP_TEST(test_program_not_found),
        SUP_TEST(test_program_not_executable),
        SUP_TEST(test_script_without_shebang_is_run_by_sh),
        SUP_TEST(test_script_named_like_an_option),
        SUP_TEST(test_path_is_searched),
        SUP_TEST(test_argument_list_limits),
        SUP_TEST(test_environment_is_exactly_that_of_hello),
        SUP_TEST(test_large_environment),
        SUP_TEST(test_cwd),
        SUP_TEST(test_root_that_is_gone),
        SUP_TEST(test_root_that_was_deleted),
        SUP_TEST(test_two_hundred_at_once),
    };
    return SUP_MAIN(argc, argv, tests);
}
