#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/workspace_path.h"

/* From memory of exactly that size, so that a read past it shows; into such memory too. */
static int resolve(const char *path, size_t length, char *absolute, struct cv_err *err)
{
    char *copy = malloc(length);
    char *out = malloc(CV_WORKSPACE_PATH_SIZE);
    size_t got = SIZE_MAX;
    if (length > 0)
        memcpy(copy, path, length);
    memset(err, 0, sizeof *err);
    int status = cv_workspace_path(copy, length, out, &got, err);
    if (status == 0) {
        assert_int_equal(got, strlen(out));
        memcpy(absolute, out, got + 1);
    }
    free(out);
    free(copy);
    return status;
}

static const struct {
    const char *path;
    const char *absolute;
    const char *relative;
} inside[] = {
    {".", "/workspace", ""},
    {"./", "/workspace", ""},
    {"/workspace", "/workspace", ""},
    {"/workspace/", "/workspace", ""},
    {"//workspace//.//", "/workspace", ""},
    {"/./workspace/a/..", "/workspace", ""},
    {"a", "/workspace/a", "a"},
    {"a/", "/workspace/a", "a"},
    {"./a//b/./c/", "/workspace/a/b/c", "a/b/c"},
    {"a/b/../../c", "/workspace/c", "c"},
    {"a/..", "/workspace", ""},
    {"...", "/workspace/...", "..."},
    {"..a/.b/c..", "/workspace/..a/.b/c..", "..a/.b/c.."},
    {"workspace", "/workspace/workspace", "workspace"},
    {"/workspace/workspace/x", "/workspace/workspace/x", "workspace/x"},
    /* out and in again */
    {"../workspace/src", "/workspace/src", "src"},
    {"../../../workspace", "/workspace", ""},
    {"/../workspace/a", "/workspace/a", "a"},
    {"/etc/../workspace/a", "/workspace/a", "a"},
    {"/workspace/../workspace/a", "/workspace/a", "a"},
    /* bytes that mean nothing to a path */
    {" ", "/workspace/ ", " "},
    {"-x", "/workspace/-x", "-x"},
    {"~", "/workspace/~", "~"},
    {"a\\..\\b", "/workspace/a\\..\\b", "a\\..\\b"},
    {"a\nb\x7f\xff", "/workspace/a\nb\x7f\xff", "a\nb\x7f\xff"},
    {"%2e%2e/x", "/workspace/%2e%2e/x", "%2e%2e/x"},
};

static const char *const outside[] = {
    "..",
    "../",
    "../..",
    "a/../..",
    "a/../../b",
    "../workspaces",
    "../workspac",
    "/",
    "//",
    "/.",
    "/..",
    "/etc/passwd",
    "/workspac",
    "/workspaces",
    "/workspace2/a",
    "/workspace.",
    "/workspace/..",
    "/workspace/../etc",
    "/workspace/a/../../etc",
    "/Workspace",
    "../Workspace",
    "/workspace\\a",
};

static void resolves_what_is_inside(void **state)
{
    (void)state;
    char absolute[CV_WORKSPACE_PATH_SIZE];
    char again[CV_WORKSPACE_PATH_SIZE];
    struct cv_err err;
    for (size_t i = 0; i < sizeof inside / sizeof *inside; i++) {
        const char *path = inside[i].path;
        if (resolve(path, strlen(path), absolute, &err) != 0)
            fail_msg("%s: %s", path, err.message);
        assert_string_equal(absolute, inside[i].absolute);
        assert_string_equal(cv_workspace_path_relative(absolute), inside[i].relative);
        assert_int_equal(resolve(absolute, strlen(absolute), again, &err), 0);
        assert_string_equal(again, absolute);
    }
}

static void refuses_what_is_outside(void **state)
{
    (void)state;
    char absolute[CV_WORKSPACE_PATH_SIZE];
    struct cv_err err;
    for (size_t i = 0; i < sizeof outside / sizeof *outside; i++) {
        if (resolve(outside[i], strlen(outside[i]), absolute, &err) == 0)
            fail_msg("%s: %s", outside[i], absolute);
        assert_string_equal(err.code, "invalid_path");
        assert_non_null(strstr(err.message, "leads out of the workspace"));
    }
}

static void refuses_what_is_no_path(void **state)
{
    (void)state;
    char absolute[CV_WORKSPACE_PATH_SIZE];
    struct cv_err err;
    assert_int_equal(resolve("", 0, absolute, &err), -1);
    assert_string_equal(err.code, "invalid_path");
    assert_non_null(strstr(err.message, "is empty"));
    assert_int_equal(resolve("a\0", 2, absolute, &err), -1);
    assert_string_equal(err.code, "invalid_path");
    assert_non_null(strstr(err.message, "NUL"));
}

static void limits_the_length(void **state)
{
    (void)state;
    char path[CV_WORKSPACE_PATH_MAX + 1];
    char absolute[CV_WORKSPACE_PATH_SIZE];
    struct cv_err err;
    memset(path, 'a', sizeof path);
    assert_int_equal(resolve(path, CV_WORKSPACE_PATH_MAX, absolute, &err), 0);
    assert_int_equal(strlen(absolute), CV_WORKSPACE_PATH_SIZE - 1);
    assert_int_equal(resolve(path, CV_WORKSPACE_PATH_MAX + 1, absolute, &err), -1);
    assert_string_equal(err.message, "the path has 4097 bytes; at most 4096 are possible");
    for (size_t i = 0; i < sizeof path; i++)
        path[i] = i % 2 == 0 ? 'a' : '/';
    assert_int_equal(resolve(path, CV_WORKSPACE_PATH_MAX, absolute, &err), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(resolves_what_is_inside),
        cmocka_unit_test(refuses_what_is_outside),
        cmocka_unit_test(refuses_what_is_no_path),
        cmocka_unit_test(limits_the_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
