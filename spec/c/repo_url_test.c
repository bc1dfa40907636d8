#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/repo_url.h"

/* From memory of exactly that size, so that a read past it shows. */
static int normalize(const char *input, size_t length, bool allow_file, char *url,
                     struct cv_err *err)
{
    char *copy = malloc(length);
    size_t url_length = SIZE_MAX;
    if (length > 0)
        memcpy(copy, input, length);
    memset(err, 0, sizeof *err);
    memset(url, '#', CV_REPO_URL_MAX + 1);
    int status = cv_repo_url(copy, length, allow_file, url, &url_length, err);
    if (status == 0)
        assert_int_equal(url_length, strlen(url));
    free(copy);
    return status;
}

static void expect(const char *input, bool allow_file, const char *expected)
{
    char url[CV_REPO_URL_MAX + 1];
    char again[CV_REPO_URL_MAX + 1];
    struct cv_err err;
    if (normalize(input, strlen(input), allow_file, url, &err) != 0)
        fail_msg("%s: %s", input, err.message);
    assert_string_equal(url, expected);
    assert_int_equal(normalize(url, strlen(url), allow_file, again, &err), 0);
    assert_string_equal(again, url);
}

static void refused_bytes(const char *input, size_t length, bool allow_file, const char *why)
{
    char url[CV_REPO_URL_MAX + 1];
    struct cv_err err;
    if (normalize(input, length, allow_file, url, &err) == 0)
        fail_msg("accepted: %s", url);
    assert_string_equal(err.code, "invalid_repo");
    if (strstr(err.message, why) == NULL)
        fail_msg("%.*s: \"%s\" is not in \"%s\"", (int)length, input, why, err.message);
}

static void refused(const char *input, const char *why)
{
    refused_bytes(input, strlen(input), true, why);
}

static const struct {
    const char *input;
    const char *url;
} accepted[] = {
    /* GitHub in short */
    {"owner/name", "https://github.com/owner/name.git"},
    {"Owner_1/na.me-2", "https://github.com/Owner_1/na.me-2.git"},
    {"owner/name.git", "https://github.com/owner/name.git"},
    {"owner/name.git.git", "https://github.com/owner/name.git.git"},
    {"owner/name.GIT", "https://github.com/owner/name.GIT.git"},
    {"owner/git", "https://github.com/owner/git.git"},
    {"o/n", "https://github.com/o/n.git"},
    {".o/n.", "https://github.com/.o/n..git"},
    {"o/...", "https://github.com/o/....git"},
    {"gitlab.com/name", "https://github.com/gitlab.com/name.git"},
    /* GitHub in full */
    {"https://github.com/owner/name", "https://github.com/owner/name.git"},
    {"https://github.com/owner/name.git", "https://github.com/owner/name.git"},
    {"https://github.com/owner/name/", "https://github.com/owner/name.git"},
    {"https://github.com/owner/name.git///", "https://github.com/owner/name.git"},
    {"HTTPS://GitHub.COM:443/Owner/Name", "https://github.com/Owner/Name.git"},
    {"https://github.com:8443/owner/name", "https://github.com:8443/owner/name.git"},
    /* hosts with a .git of their own */
    {"https://gitlab.com/group/sub/project", "https://gitlab.com/group/sub/project.git"},
    {"https://gitlab.com/project/", "https://gitlab.com/project.git"},
    {"https://bitbucket.org/team/repo", "https://bitbucket.org/team/repo.git"},
    {"https://CodeBerg.org/o/n.git", "https://codeberg.org/o/n.git"},
    {"https://gitlab.com/a/b%2egit", "https://gitlab.com/a/b%2egit.git"},
    /* other hosts keep their path */
    {"https://example.com/repo", "https://example.com/repo"},
    {"https://example.com/a/b/c.git/", "https://example.com/a/b/c.git"},
    {"https://www.github.com/owner/name", "https://www.github.com/owner/name"},
    {"https://github.com.example.com/x", "https://github.com.example.com/x"},
    {"https://example.com/~user/it's(1)!$&*+,;=:@a",
     "https://example.com/~user/it's(1)!$&*+,;=:@a"},
    {"https://example.com/a<b>\"c\"^`{|}[d]", "https://example.com/a<b>\"c\"^`{|}[d]"},
    {"https://example.com/a/.../..b/.c", "https://example.com/a/.../..b/.c"},
    {"https://dev.azure.com/org/My%20Project/_git/repo",
     "https://dev.azure.com/org/My%20Project/_git/repo"},
    {"https://example.com/%C3%A4%3f%23%25%252e", "https://example.com/%C3%A4%3f%23%25%252e"},
    {"https://example.com/a%2e/%2E%2e%2E/x%2D", "https://example.com/a%2e/%2E%2e%2E/x%2D"},
    /* hosts */
    {"https://localhost/x", "https://localhost/x"},
    {"https://127.0.0.1/x", "https://127.0.0.1/x"},
    {"https://A-b.3C.XN--MNCHEN-3YA.de/X", "https://a-b.3c.xn--mnchen-3ya.de/X"},
    {"https://[::1]/x", "https://[::1]/x"},
    {"https://[2001:DB8::AB]:443/x", "https://[2001:db8::ab]/x"},
    {"https://[::ffff:192.0.2.1]:8443/x", "https://[::ffff:192.0.2.1]:8443/x"},
    /* ports */
    {"https://example.com:1/x", "https://example.com:1/x"},
    {"https://example.com:80/x", "https://example.com:80/x"},
    {"https://example.com:65535/x", "https://example.com:65535/x"},
    {"https://example.com:000443/x", "https://example.com/x"},
    {"https://example.com:08443/x", "https://example.com:8443/x"},
    /* files */
    {"file:///srv/git/repo", "file:///srv/git/repo"},
    {"FILE:///srv/git/repo.git///", "file:///srv/git/repo.git"},
    {"file:///a%20b/@:x", "file:///a%20b/@:x"},
};

static void accepts_and_normalizes(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof accepted / sizeof *accepted; i++)
        expect(accepted[i].input, true, accepted[i].url);
}

static const struct {
    const char *input;
    const char *why;
} wrong[] = {
    {"", "is empty"},
    /* neither form */
    {"name", "neither owner/name nor an https URL"},
    {"/", "neither"},
    {"/name", "neither"},
    {"owner/", "neither"},
    {"owner/name/", "neither"},
    {"owner//name", "neither"},
    {"owner/name/more", "neither"},
    {"github.com/owner/name", "neither"},
    {"//github.com/owner/name", "neither"},
    {"/absolute/path", "neither"},
    {"owner/na%6de", "neither"},
    {"owner/name?x", "neither"},
    {"owner/name#x", "neither"},
    {"user@owner/name", "neither"},
    {"./name", "a . or .. segment"},
    {"../name", "a . or .. segment"},
    {"owner/.", "a . or .. segment"},
    {"owner/..", "a . or .. segment"},
    {"-owner/name", "a segment that begins with a dash"},
    {"owner/--upload-pack=x", "neither"},
    {"owner/-name", "a segment that begins with a dash"},
    {"owner/.git", "no name before .git"},
    /* other transports */
    {"http://github.com/owner/name", "a scheme that is not accepted"},
    {"ssh://git@github.com/owner/name", "a scheme that is not accepted"},
    {"git://github.com/owner/name", "a scheme that is not accepted"},
    {"git+https://github.com/owner/name", "a scheme that is not accepted"},
    {"ftp://example.com/x", "a scheme that is not accepted"},
    {"://example.com/x", "a scheme that is not accepted"},
    {"x/https://example.com/x", "a scheme that is not accepted"},
    {"httpss://example.com/x", "a scheme that is not accepted"},
    {"http://user:secret@example.com/x", "a scheme that is not accepted"},
    {"git@github.com:owner/name.git", "a form like host:path"},
    {"github.com:owner/name", "a form like host:path"},
    {"ext::sh -c true", "white space"},
    {"ext::sh", "a form like host:path"},
    {"https:/github.com/owner/name", "a form like host:path"},
    {"https:github.com/owner/name", "a form like host:path"},
    {"file:/srv/git", "a form like host:path"},
    {"C:/git/repo", "a form like host:path"},
    {"--upload-pack=touch:/x", "a form like host:path"},
    /* what is nowhere in a URL */
    {" owner/name", "white space"},
    {"owner/name\n", "white space"},
    {"https://example.com/a\tb", "white space"},
    {"https://example.com/a\vb", "white space"},
    {"https://example.com/a\x01", "a control byte"},
    {"https://example.com/a\x7f", "a control byte"},
    {"https://example.com/a\x1b[1m", "a control byte"},
    {"https://example.com\\@evil.example/x", "a backslash"},
    {"https://example.com/a\\..\\b", "a backslash"},
    {"https://ex\xc3\xa4mple.com/x", "a character outside ASCII"},
    {"https://example.com/\xff", "a character outside ASCII"},
    /* user info */
    {"https://user@example.com/x", "a user name or password"},
    {"https://user:s3cret@example.com/x", "a user name or password"},
    {"https://@example.com/x", "a user name or password"},
    {"https://s3cret:x-oauth-basic@github.com/owner/name", "a user name or password"},
    {"https://a%40b@example.com/x", "a user name or password"},
    {"https://example.com:443@evil.example/x", "a user name or password"},
    {"https://[::1]@evil.example/x", "a user name or password"},
    /* query and fragment */
    {"https://example.com/x?token=s3cret", "a query"},
    {"https://example.com/x?", "a query"},
    {"https://example.com?x/y", "a query"},
    {"https://example.com/x#s3cret", "a fragment"},
    {"https://example.com/x#", "a fragment"},
    {"https://example.com#/x", "a fragment"},
    {"file:///a?b", "a query"},
    {"file:///a#b", "a fragment"},
    /* hosts */
    {"https://", "no host"},
    {"https:///x", "no host"},
    {"https://:443/x", "no host"},
    {"https://./x", "an empty label"},
    {"https://example.com./x", "an empty label"},
    {"https://.example.com/x", "an empty label"},
    {"https://example..com/x", "an empty label"},
    {"https://-example.com/x", "a label that begins or ends with a dash"},
    {"https://example-.com/x", "a label that begins or ends with a dash"},
    {"https://a.-b/x", "a label that begins or ends with a dash"},
    {"https://-/x", "a label that begins or ends with a dash"},
    {"https://--upload-pack=x/y", "characters other than"},
    {"https://exa_mple.com/x", "characters other than"},
    {"https://ex%61mple.com/x", "characters other than"},
    {"https://exa$mple.com/x", "characters other than"},
    {"https://[::1/x", "a [ without a ]"},
    {"https://[]/x", "no IPv6 address"},
    {"https://[1.2.3.4]/x", "no IPv6 address"},
    {"https://[::1%25eth0]/x", "no IPv6 address"},
    {"https://[v1.x]/x", "no IPv6 address"},
    {"https://[1:2:3:4:5:6:7:8:9]/x", "no IPv6 address"},
    {"https://[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]/x", "no IPv6 address"},
    {"https://[::1]x/x", "something behind its IPv6 address"},
    {"https://[::1]]/x", "something behind its IPv6 address"},
    {"https://::1/x", "no host"},
    /* ports */
    {"https://example.com:/x", "a colon but no port"},
    {"https://[::1]:/x", "a colon but no port"},
    {"https://example.com:0/x", "not from 1 to 65535"},
    {"https://example.com:65536/x", "not from 1 to 65535"},
    {"https://example.com:18446744073709551617/x", "not from 1 to 65535"},
    {"https://example.com:+443/x", "not a number"},
    {"https://example.com:https/x", "not a number"},
    {"https://example.com:44:3/x", "not a number"},
    {"https://1:2:3:4:5:6:7:8/x", "not a number"},
    /* paths */
    {"https://example.com", "no path"},
    {"https://example.com/", "no path"},
    {"https://example.com:8443", "no path"},
    {"https://example.com////", "no path"},
    {"file://", "no path"},
    {"file:///", "no path"},
    {"file://localhost/x", "an absolute path and no host"},
    {"file://relative", "an absolute path and no host"},
    {"https://example.com//x", "an empty segment"},
    {"https://example.com/a//b", "an empty segment"},
    {"file:////x", "an empty segment"},
    {"https://example.com/./x", "a . or .. segment"},
    {"https://example.com/a/..", "a . or .. segment"},
    {"https://example.com/a/../b", "a . or .. segment"},
    {"https://example.com/a/.", "a . or .. segment"},
    {"https://example.com/a/%2e", "a . or .. segment"},
    {"https://example.com/%2E./b", "a . or .. segment"},
    {"https://example.com/.%2e/b", "a . or .. segment"},
    {"https://example.com/%2e%2E", "a . or .. segment"},
    {"file:///a/../b", "a . or .. segment"},
    {"https://example.com/-x", "a segment that begins with a dash"},
    {"https://example.com/a/--upload-pack=x/b", "a segment that begins with a dash"},
    {"https://example.com/%2dx", "a segment that begins with a dash"},
    {"file:///-x", "a segment that begins with a dash"},
    {"https://example.com/a%2fb", "an escaped slash or backslash"},
    {"https://example.com/a%2F..%2Fb", "an escaped slash or backslash"},
    {"https://example.com/a%5cb", "an escaped slash or backslash"},
    {"https://example.com/a%00", "an escaped control byte"},
    {"https://example.com/a%0d%0ab", "an escaped control byte"},
    {"https://example.com/a%7F", "an escaped control byte"},
    {"https://example.com/%", "a malformed escape"},
    {"https://example.com/%2", "a malformed escape"},
    {"https://example.com/%2/e", "a malformed escape"},
    {"https://example.com/%zz", "a malformed escape"},
    {"https://example.com/%2g", "a malformed escape"},
    {"https://example.com/%%2e", "a malformed escape"},
    {"https://example.com/%u0041", "a malformed escape"},
    /* known hosts */
    {"https://github.com/owner", "owner/name"},
    {"https://github.com/owner/name/tree/main", "owner/name"},
    {"https://github.com/owner/na%6de", "owner/name"},
    {"https://github.com/owner/na~me", "owner/name"},
    {"https://GITHUB.com/owner", "owner/name"},
    {"https://github.com/owner/.git", "no name before .git"},
    {"https://gitlab.com/.git", "no name before .git"},
    {"https://gitlab.com/a/b/.git/", "no name before .git"},
};

/* Every refusal names its reason, and none shows what was given. */
static void refuses_each_with_its_reason(void **state)
{
    (void)state;
    char url[CV_REPO_URL_MAX + 1];
    struct cv_err err;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        refused(wrong[i].input, wrong[i].why);
        normalize(wrong[i].input, strlen(wrong[i].input), true, url, &err);
        assert_null(strstr(err.message, "s3cret"));
        assert_null(strstr(err.message, "example"));
        assert_null(strstr(err.message, "upload-pack"));
    }
}

static void refuses_files_unless_they_are_allowed(void **state)
{
    (void)state;
    const char *file = "file:///srv/git/repo";
    refused_bytes(file, strlen(file), false, "repositories in files are not accepted here");
    refused_bytes("FILE:///", 8, false, "repositories in files are not accepted here");
    expect(file, true, file);
    expect("https://example.com/x", false, "https://example.com/x");
    expect("owner/name", false, "https://github.com/owner/name.git");
}

static void refuses_nul_bytes(void **state)
{
    (void)state;
    refused_bytes("owner/na\0me", 11, true, "a control byte");
    refused_bytes("\0", 1, true, "a control byte");
}

static void refuses_every_other_byte_that_is_no_part_of_a_url(void **state)
{
    (void)state;
    for (int byte = 0; byte < 256; byte++) {
        char input[] = "https://example.com/a?b";
        char url[CV_REPO_URL_MAX + 1];
        struct cv_err err;
        input[21] = (char)byte;
        bool printable = byte > ' ' && byte < 0x7f && strchr("\\?#%", byte) == NULL;
        int status = normalize(input, sizeof input - 1, false, url, &err);
        if ((status == 0) != printable)
            fail_msg("byte %d: %s", byte, status == 0 ? "accepted" : err.message);
        if (status == 0)
            assert_string_equal(url, input);
    }
}

static void fill(char *text, const char *start, size_t length)
{
    size_t at = strlen(start);
    memcpy(text, start, at);
    memset(text + at, 'a', length - at);
    text[length] = '\0';
}

/* The limit holds for the URL too: it is normalized again some day. */
static void limits_the_length(void **state)
{
    (void)state;
    char input[CV_REPO_URL_MAX + 2];
    char expected[CV_REPO_URL_MAX + 1];
    fill(input, "https://example.com/", CV_REPO_URL_MAX);
    expect(input, false, input);
    fill(input, "https://example.com/", CV_REPO_URL_MAX + 1);
    refused(input, "more than 2048 bytes");

    fill(input, "https://gitlab.com/", CV_REPO_URL_MAX - 4);
    memcpy(expected, input, CV_REPO_URL_MAX - 4);
    memcpy(expected + CV_REPO_URL_MAX - 4, ".git", 5);
    expect(input, false, expected);
    for (size_t length = CV_REPO_URL_MAX - 3; length <= CV_REPO_URL_MAX; length++) {
        fill(input, "https://gitlab.com/", length);
        refused(input, "URL has more than 2048 bytes");
    }
    size_t added = strlen("https://github.com/") + strlen(".git");
    fill(input, "o/", CV_REPO_URL_MAX - added + 1);
    refused(input, "URL has more than 2048 bytes");
    fill(input, "o/", CV_REPO_URL_MAX);
    refused(input, "URL has more than 2048 bytes");
    fill(input, "file:///", CV_REPO_URL_MAX);
    expect(input, true, input);
}

static void limits_a_host(void **state)
{
    (void)state;
    char input[400] = "https://";
    memset(input + 8, 'a', 63);
    strcpy(input + 8 + 63, "/x");
    expect(input, false, input);
    memset(input + 8, 'a', 64);
    strcpy(input + 8 + 64, "/x");
    refused(input, "a label of more than 63 bytes");

    for (size_t i = 0; i < 254; i++)
        input[8 + i] = i % 50 == 49 ? '.' : 'a';
    strcpy(input + 8 + 253, "/x");
    expect(input, false, input);
    input[8 + 253] = 'a';
    strcpy(input + 8 + 254, "/x");
    refused(input, "host has more than 253 bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accepts_and_normalizes),
        cmocka_unit_test(refuses_each_with_its_reason),
        cmocka_unit_test(refuses_files_unless_they_are_allowed),
        cmocka_unit_test(refuses_nul_bytes),
        cmocka_unit_test(refuses_every_other_byte_that_is_no_part_of_a_url),
        cmocka_unit_test(limits_the_length),
        cmocka_unit_test(limits_a_host),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
