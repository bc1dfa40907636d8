/* The table is git's own manual, git-check-ref-format(1); libgit2 is asked about everything else.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <git2.h>

#include "rules/git_ref.h"

/* From memory of exactly that size, so that a read past it shows. */
static int check(const char *ref, size_t length, struct cv_err *err)
{
    char *copy = malloc(length);
    if (length > 0)
        memcpy(copy, ref, length);
    memset(err, 0, sizeof *err);
    int status = cv_git_ref_check(copy, length, err);
    free(copy);
    return status;
}

static const char *const accepted[] = {
    "main",
    "a",
    "topic/one",
    "refs/heads/main",
    "refs/tags/v1.0",
    "HEAD",
    "v1.0-rc.1",
    "0123456789012345678901234567890123456789",
    "@",
    "@a",
    "a@",
    "a@b{c}",
    "{",
    "a{b",
    "+a",
    "a-",
    "a/-b",
    "a.b",
    "a.lock.b",
    "a.lockb",
    "lock",
    "a/lock",
    "a!\"#$%&'()+,;<=>]_`{|}",
    "\xc3\xa4/\xe2\x82\xac",
    "\xff\x80",
};

static const struct {
    const char *ref;
    const char *why;
} wrong[] = {
    {"", "is empty"},
    {"-", "begins with a dash"},
    {"--upload-pack=x", "begins with a dash"},
    {" ", "a space"},
    {"a b", "a space"},
    {"a\tb", "a control byte"},
    {"a\n", "a control byte"},
    {"\x01", "a control byte"},
    {"\x1f", "a control byte"},
    {"a\x7f", "a control byte"},
    {"a\\b", "a backslash"},
    {"a:b", "no refspec"},
    {":", "no refspec"},
    {"+a:refs/heads/b", "no refspec"},
    {"a~1", "no expression"},
    {"a^", "no expression"},
    {"^a", "no expression"},
    {"a@{1}", "no expression"},
    {"@{", "no expression"},
    {"a*", "no pattern"},
    {"?", "no pattern"},
    {"[a]", "no pattern"},
    {"a..b", "two dots in a row"},
    {"a/..", "two dots in a row"},
    {"..", "two dots in a row"},
    {".", "begins with a dot"},
    {".a", "begins with a dot"},
    {"a/.b", "begins with a dot"},
    {"a/.b/c", "begins with a dot"},
    {"a.", "ends with a dot"},
    {"a.lock", "ends with .lock"},
    {"a.lock/b", "ends with .lock"},
    {"a/b.lock", "ends with .lock"},
    {"x/.lock", "begins with a dot"},
    {"/", "an empty part"},
    {"/a", "an empty part"},
    {"a/", "an empty part"},
    {"a//b", "an empty part"},
};

static void accepts_names(void **state)
{
    (void)state;
    struct cv_err err;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++) {
        if (check(accepted[i], strlen(accepted[i]), &err) != 0)
            fail_msg("%s: %s", accepted[i], err.message);
    }
}

static void refuses_each_with_its_reason(void **state)
{
    (void)state;
    struct cv_err err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        if (check(wrong[i].ref, strlen(wrong[i].ref), &err) == 0)
            fail_msg("accepted: %s", wrong[i].ref);
        assert_string_equal(err.code, "invalid_ref");
        if (strstr(err.message, wrong[i].why) == NULL)
            fail_msg("%s: %s", wrong[i].ref, err.message);
        assert_null(strstr(err.message, "upload"));
    }
    assert_int_equal(check("a\0b", 3, &err), -1);
    assert_non_null(strstr(err.message, "a control byte"));
}

static void limits_the_length(void **state)
{
    (void)state;
    char ref[CV_GIT_REF_MAX + 1];
    struct cv_err err;
    memset(ref, 'a', sizeof ref);
    assert_int_equal(check(ref, CV_GIT_REF_MAX, &err), 0);
    assert_int_equal(check(ref, CV_GIT_REF_MAX + 1, &err), -1);
    assert_string_equal(err.message, "the ref has 256 bytes; at most 255 are possible");
}

/* What the rule should say of a ref without NUL bytes. */
static bool expected(const char *ref, size_t length)
{
    char name[sizeof "refs/heads/" + CV_GIT_REF_MAX];
    int valid = 0;
    memcpy(name, "refs/heads/", 11);
    memcpy(name + 11, ref, length);
    name[11 + length] = '\0';
    assert_int_equal(git_reference_name_is_valid(&valid, name), 0);
    /* The two things on which git and libgit2, or git and the rule, differ. */
    return valid != 0 && memchr(name, 0x7f, 11 + length) == NULL && ref[0] != '-';
}

static void expect_as_libgit2(const char *ref, size_t length)
{
    struct cv_err err;
    bool accepts = check(ref, length, &err) == 0;
    if (accepts != expected(ref, length))
        fail_msg("%.*s: %s", (int)length, ref, accepts ? "accepted" : err.message);
}

static void agrees_with_libgit2_on_all_of_three_bytes(void **state)
{
    (void)state;
    static const char bytes[] = "a./@{-~^:?*[\\ \x01\x1f\x7f\x80\xffk";
    const size_t count = sizeof bytes - 1;
    for (size_t i = 0; i < count * count * count; i++) {
        char ref[3] = {bytes[i % count], bytes[i / count % count], bytes[i / count / count]};
        for (size_t length = 1; length <= 3; length++)
            expect_as_libgit2(ref, length);
    }
    for (int byte = 1; byte < 256; byte++) {
        char ref[3] = {'a', (char)byte, 'b'};
        expect_as_libgit2(ref, 2);
        expect_as_libgit2(ref, 3);
        expect_as_libgit2(ref + 1, 1);
    }
}

static void agrees_with_libgit2_on_random_names(void **state)
{
    (void)state;
    static const char *const parts[] = {"a", ".",  "/",  "..",   ".lock", "@",   "{",
                                        "-", "lo", "ck", "head", "\x7f",  "\xc3"};
    uint32_t random = 1;
    for (int i = 0; i < 200000; i++) {
        char ref[CV_GIT_REF_MAX];
        size_t length = 0;
        do {
            random = random * 1664525 + 1013904223;
            const char *part = parts[(random >> 8) % (sizeof parts / sizeof *parts)];
            memcpy(ref + length, part, strlen(part));
            length += strlen(part);
        } while ((random >> 16) % 6 != 0 && length < 200);
        expect_as_libgit2(ref, length);
    }
}

static int start_libgit2(void **state)
{
    (void)state;
    return git_libgit2_init() < 0 ? -1 : 0;
}

static int stop_libgit2(void **state)
{
    (void)state;
    return git_libgit2_shutdown() < 0 ? -1 : 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_names),
        cmocka_unit_test(refuses_each_with_its_reason),
        cmocka_unit_test(limits_the_length),
        cmocka_unit_test(agrees_with_libgit2_on_all_of_three_bytes),
        cmocka_unit_test(agrees_with_libgit2_on_random_names),
    };
    return cmocka_run_group_tests(tests, start_libgit2, stop_libgit2);
}
