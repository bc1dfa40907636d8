/* Which proxy the environment names for a server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "net/proxy.h"

static const char *const variables[] = {"HTTP_PROXY",  "http_proxy", "HTTPS_PROXY",
                                        "https_proxy", "NO_PROXY",   "no_proxy",
                                        "ALL_PROXY",   "all_proxy",  "REQUEST_METHOD"};

static int without_variables(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    return 0;
}

static void set(const char *name, const char *value)
{
    assert_int_equal(setenv(name, value, 1), 0);
}

static void assert_proxy(bool tls, const char *host, const char *expected)
{
    struct cv_err err;
    char *proxy;
    if (cv_proxy_find(tls, host, tls ? "443" : "80", &proxy, &err) != 0)
        fail_msg("%s: %s", err.code, err.message);
    if (expected == NULL && proxy != NULL)
        fail_msg("%s, NO_PROXY=%s: %s", host, getenv("NO_PROXY"), proxy);
    if (expected != NULL && proxy == NULL)
        fail_msg("%s, NO_PROXY=%s: none", host, getenv("NO_PROXY"));
    if (expected != NULL)
        assert_string_equal(proxy, expected);
    free(proxy);
}

static void each_scheme_has_its_variables(void **state)
{
    (void)state;
    set("ALL_PROXY", "http://all");
    set("all_proxy", "http://all");
    assert_proxy(false, "host", NULL);
    set("http_proxy", "http://small");
    assert_proxy(false, "host", "http://small");
    assert_proxy(true, "host", NULL);
    set("HTTP_PROXY", "http://large");
    assert_proxy(false, "host", "http://large");
    set("HTTP_PROXY", "");
    assert_proxy(false, "host", "http://small");
    set("https_proxy", "http://tls");
    assert_proxy(true, "host", "http://tls");
    set("HTTPS_PROXY", "http://TLS");
    assert_proxy(true, "host", "http://TLS");
    set("no_proxy", "host");
    assert_proxy(true, "host", NULL);
    set("NO_PROXY", "other");
    assert_proxy(true, "host", "http://TLS");
    assert_proxy(true, "other", NULL);
}

static void a_proxy_is_a_url_or_a_host(void **state)
{
    static const char *const given[][2] = {
        {"proxy", "http://proxy"},
        {"proxy:3128", "http://proxy:3128"},
        {"HTTP://u:p@proxy/", "http://u:p@proxy/"},
        {"https://proxy:1", "https://proxy:1"},
        {"socks5://proxy", "socks5h://proxy"},
        {"Socks5h://proxy", "socks5h://proxy"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof given / sizeof *given; i++) {
        set("HTTPS_PROXY", given[i][0]);
        assert_proxy(true, "host", given[i][1]);
    }
}

static void this_machine_needs_none(void **state)
{
    static const char *const hosts[] = {
        "localhost", "127.0.0.1", "127.255.0.9", "[::1]", "[::ffff:127.0.0.1]",
    };
    (void)state;
    set("HTTPS_PROXY", "http://proxy");
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++)
        assert_proxy(true, hosts[i], NULL);
    assert_proxy(true, "localhost.example", "http://proxy");
    assert_proxy(true, "128.0.0.1", "http://proxy");
    assert_proxy(true, "[::2]", "http://proxy");
}

static void exceptions_are_names_addresses_and_networks(void **state)
{
    static const struct {
        const char *entries, *host;
        bool excepted;
    } cases[] = {
        {"*", "host", true},
        {"a, *", "10.1.2.3", true},
        {"**", "host", false},
        {"", "host", false},
        {" ,,", "host", false},
        {".", "host", false},
        {":443", "host", false},
        {"example.com", "example.com", true},
        {"example.com", "EXAMPLE.com", true},
        {" Example.com\t", "a.b.example.com", true},
        {"example.com", "anexample.com", false},
        {"example.com", "example.com.", false},
        {".example.com", "a.example.com", true},
        {".example.com", "example.com", false},
        {"*.example.com", "a.example.com", true},
        {"*.example.com", "example.com", false},
        {"x.com,example.com:443", "a.example.com", true},
        {"example.com:80", "example.com", false},
        {"example.com:", "example.com", true},
        {"10.0.0.1", "10.0.0.1", true},
        {"10.0.0.1", "10.0.0.10", false},
        {"10.0.0.1:443", "10.0.0.1", true},
        {"10.0.0.1:80", "10.0.0.1", false},
        {"10.0.0.0/8", "10.255.0.1", true},
        {"10.0.0.0/8", "11.0.0.1", false},
        {"10.0.0.0/8", "10.example.com", false},
        {"10.16.0.0/12", "10.31.0.1", true},
        {"10.16.0.0/12", "10.32.0.1", false},
        {"10.16.0.0/33", "10.16.0.0", false},
        {"10.16.0.0/", "10.16.0.0", false},
        {"10.16.0.0/8:443", "10.16.0.0", false},
        {"0.0.0.0/0", "10.16.0.0", true},
        {"0.0.0.0/0", "[fd00::1]", false},
        {"::/0", "[fd00::1]", true},
        {"::/0", "10.16.0.0", false},
        {"fd00::/15", "[fd01::1]", true},
        {"fd00::/16", "[fd01::1]", false},
        {"::ffff:10.0.0.0/104", "10.1.0.0", true},
        {"10.0.0.1", "[::ffff:10.0.0.1]", true},
        {"fd00::1", "[fd00:0::1]", true},
        {"[fd00::1]:443", "[fd00::1]", true},
        {"[fd00::1]:80", "[fd00::1]", false},
        {"[fd00::1]", "[fd00::1]", false},
    };
    (void)state;
    set("HTTPS_PROXY", "http://proxy");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        set("NO_PROXY", cases[i].entries);
        assert_proxy(true, cases[i].host, cases[i].excepted ? NULL : "http://proxy");
    }
}

static void long_entries_except_nothing(void **state)
{
    (void)state;
    char *entries = calloc(1, 100001);
    memset(entries, 'x', 100000);
    set("HTTPS_PROXY", "http://proxy");
    set("NO_PROXY", entries);
    assert_proxy(true, "host", "http://proxy");
    memcpy(entries + 99994, ",host ", 6);
    set("NO_PROXY", entries);
    assert_proxy(true, "host", NULL);
    free(entries);
}

/* There, HTTP_PROXY is the field Proxy of whoever asks. */
static void cgi_programs_take_none_for_http(void **state)
{
    struct cv_err err;
    char *proxy;
    (void)state;
    set("REQUEST_METHOD", "GET");
    assert_proxy(false, "host", NULL);
    set("HTTP_PROXY", "http://proxy");
    set("HTTPS_PROXY", "http://proxy");
    assert_proxy(true, "host", "http://proxy");
    assert_int_equal(cv_proxy_find(false, "host", "80", &proxy, &err), -1);
    assert_string_equal(err.code, "invalid_request");
    assert_null(proxy);
}

#define TEST(function) cmocka_unit_test_setup(function, without_variables)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(each_scheme_has_its_variables), TEST(a_proxy_is_a_url_or_a_host),
        TEST(this_machine_needs_none),       TEST(exceptions_are_names_addresses_and_networks),
        TEST(long_entries_except_nothing),   TEST(cgi_programs_take_none_for_http),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
