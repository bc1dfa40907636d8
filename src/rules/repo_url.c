#include "rules/repo_url.h"

#include <arpa/inet.h>
#include <string.h>

#define GITHUB "github.com"
#define HOST_MAX 253 /* a DNS name: RFC 1035, section 2.3.4 */
#define LABEL_MAX 63
#define HTTPS_PORT 443

/* A part of what was given. */
struct slice {
    const char *bytes;
    size_t length;
};

/* The URL as far as it is written. What does not fit is dropped and noted. */
struct url {
    char *bytes;
    size_t length;
    bool over;
};

static int refuse(struct cv_err *err, const char *why)
{
    cv_err_set(err, "invalid_repo", "%s", why);
    return -1;
}

static bool is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_alnum(char byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static char lower(char byte)
{
    return byte >= 'A' && byte <= 'Z' ? (char)(byte - 'A' + 'a') : byte;
}

/* The value of a hexadecimal digit, or -1. */
static int hex_value(char byte)
{
    if (is_digit(byte))
        return byte - '0';
    byte = lower(byte);
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* Compares with text in lower case, which the slice may have in any. */
static bool is_in_any_case(struct slice slice, const char *text)
{
    if (slice.length != strlen(text))
        return false;
    for (size_t i = 0; i < slice.length; i++) {
        if (lower(slice.bytes[i]) != text[i])
            return false;
    }
    return true;
}

static bool ends_with(struct slice slice, const char *text)
{
    size_t length = strlen(text);
    return slice.length >= length && memcmp(slice.bytes + slice.length - length, text, length) == 0;
}

/* Where the byte stands first, or the length. */
static size_t find(struct slice slice, char byte)
{
    const char *found = memchr(slice.bytes, byte, slice.length);
    return found == NULL ? slice.length : (size_t)(found - slice.bytes);
}

static bool has(struct slice slice, char byte)
{
    return find(slice, byte) < slice.length;
}

static struct slice head(struct slice slice, size_t length)
{
    return (struct slice){slice.bytes, length};
}

static struct slice tail(struct slice slice, size_t from)
{
    return (struct slice){slice.bytes + from, slice.length - from};
}

static void write_bytes(struct url *url, struct slice slice)
{
    if (slice.length > CV_REPO_URL_MAX - url->length) {
        url->over = true;
        return;
    }
    memcpy(url->bytes + url->length, slice.bytes, slice.length);
    url->length += slice.length;
}

static void write_text(struct url *url, const char *text)
{
    write_bytes(url, (struct slice){text, strlen(text)});
}

/* ---- all forms ----------------------------------------------------------------------------- */

static int check_bytes(struct slice input, struct cv_err *err)
{
    for (size_t i = 0; i < input.length; i++) {
        unsigned char byte = (unsigned char)input.bytes[i];
        if (byte == ' ' || (byte >= '\t' && byte <= '\r'))
            return refuse(err, "the repository has white space");
        if (byte < 0x20 || byte == 0x7f)
            return refuse(err, "the repository has a control byte");
        if (byte >= 0x80)
            return refuse(err,
                          "the repository has a character outside ASCII: escape it in the path "
                          "as %XX, write a host as xn--");
        if (byte == '\\')
            return refuse(err, "the repository has a backslash");
    }
    return 0;
}

/*
 * Reads the byte at *at, or the one that an escape there stands for, and moves on behind it.
 * -1 for an escape without two hexadecimal digits.
 */
static int next_byte(struct slice text, size_t *at)
{
    char byte = text.bytes[(*at)++];
    if (byte != '%')
        return (unsigned char)byte;
    if (text.length - *at < 2)
        return -1;
    int high = hex_value(text.bytes[*at]);
    int low = hex_value(text.bytes[*at + 1]);
    *at += 2;
    return high < 0 || low < 0 ? -1 : high * 16 + low;
}

static int check_segment(struct slice segment, struct cv_err *err)
{
    size_t count = 0;
    size_t dots = 0;
    for (size_t at = 0; at < segment.length; count++) {
        size_t start = at;
        int byte = next_byte(segment, &at);
        if (byte < 0)
            return refuse(err, "the repository's path has a malformed escape: a % needs two "
                               "hexadecimal digits");
        bool escaped = segment.bytes[start] == '%';
        if (escaped && (byte == '/' || byte == '\\'))
            return refuse(err, "the repository's path has an escaped slash or backslash");
        if (escaped && (byte < 0x20 || byte == 0x7f))
            return refuse(err, "the repository's path has an escaped control byte");
        if (count == 0 && byte == '-')
            return refuse(err, "the repository's path has a segment that begins with a dash");
        if (byte == '.')
            dots++;
    }
    if (count == 0)
        return refuse(err, "the repository's path has an empty segment");
    if (dots == count && count <= 2)
        return refuse(err, "the repository's path has a . or .. segment");
    return 0;
}

/* Checks a path without its first slash. */
static int check_segments(struct slice path, struct cv_err *err)
{
    for (;;) {
        size_t end = find(path, '/');
        if (check_segment(head(path, end), err) != 0)
            return -1;
        if (end == path.length)
            return 0;
        path = tail(path, end + 1);
    }
}

/* Checks what follows the host; drops the slashes at its end. */
static int check_path(struct slice *path, struct cv_err *err)
{
    while (path->length > 0 && path->bytes[path->length - 1] == '/')
        path->length--;
    if (path->length == 0)
        return refuse(err, "the repository's URL has no path");
    return check_segments(tail(*path, 1), err);
}

static int check_query_and_fragment(struct slice rest, struct cv_err *err)
{
    if (has(rest, '?'))
        return refuse(err, "the repository's URL has a query");
    if (has(rest, '#'))
        return refuse(err, "the repository's URL has a fragment");
    return 0;
}

/* ---- GitHub -------------------------------------------------------------------------------- */

static bool is_github_name(struct slice name)
{
    for (size_t i = 0; i < name.length; i++) {
        char byte = name.bytes[i];
        if (!is_alnum(byte) && byte != '.' && byte != '_' && byte != '-')
            return false;
    }
    return name.length > 0;
}

/* `owner/name`, as the path on github.com is too. */
static bool is_owner_and_name(struct slice path)
{
    size_t slash = find(path, '/');
    return slash < path.length && is_github_name(head(path, slash)) &&
           is_github_name(tail(path, slash + 1));
}

/* ---- https --------------------------------------------------------------------------------- */

static int check_ipv6(struct slice host, struct cv_err *err)
{
    char text[INET6_ADDRSTRLEN];
    struct in6_addr address;
    struct slice inner = {host.bytes + 1, host.length - 2};
    if (inner.length >= sizeof text)
        return refuse(err, "the repository's host is no IPv6 address in its brackets");
    memcpy(text, inner.bytes, inner.length);
    text[inner.length] = '\0';
    if (inet_pton(AF_INET6, text, &address) != 1)
        return refuse(err, "the repository's host is no IPv6 address in its brackets");
    return 0;
}

static int check_label(struct slice label, struct cv_err *err)
{
    if (label.length == 0)
        return refuse(err,
                      "the repository's host has an empty label: a dot at its beginning or end, "
                      "or two in a row");
    if (label.length > LABEL_MAX)
        return refuse(err, "the repository's host has a label of more than 63 bytes");
    for (size_t i = 0; i < label.length; i++) {
        if (!is_alnum(label.bytes[i]) && label.bytes[i] != '-')
            return refuse(err, "the repository's host has characters other than letters, digits, "
                               "dashes and dots");
    }
    if (label.bytes[0] == '-' || label.bytes[label.length - 1] == '-')
        return refuse(err, "the repository's host has a label that begins or ends with a dash");
    return 0;
}

static int check_dns_name(struct slice host, struct cv_err *err)
{
    if (host.length == 0)
        return refuse(err, "the repository's URL has no host");
    if (host.length > HOST_MAX)
        return refuse(err, "the repository's host has more than 253 bytes");
    for (struct slice rest = host;;) {
        size_t dot = find(rest, '.');
        if (check_label(head(rest, dot), err) != 0)
            return -1;
        if (dot == rest.length)
            return 0;
        rest = tail(rest, dot + 1);
    }
}

static int parse_port(struct slice digits, unsigned *port, struct cv_err *err)
{
    *port = 0;
    if (digits.length == 0)
        return refuse(err, "the repository's URL has a colon but no port behind its host");
    for (size_t i = 0; i < digits.length; i++) {
        if (!is_digit(digits.bytes[i]))
            return refuse(err, "the repository's port is not a number");
        *port = *port * 10 + (unsigned)(digits.bytes[i] - '0');
        if (*port > 65535)
            return refuse(err, "the repository's port is not from 1 to 65535");
    }
    if (*port == 0)
        return refuse(err, "the repository's port is not from 1 to 65535");
    return 0;
}

/* Splits and checks `host` or `host:port`; without a port it is the one of https. */
static int parse_authority(struct slice authority, struct slice *host, unsigned *port,
                           struct cv_err *err)
{
    if (has(authority, '@'))
        return refuse(err,
                      "the repository's URL has a user name or password: configure credentials "
                      "outside of it");
    bool bracketed = authority.length > 0 && authority.bytes[0] == '[';
    size_t host_end = find(authority, bracketed ? ']' : ':');
    if (bracketed && host_end == authority.length)
        return refuse(err, "the repository's host has a [ without a ]");
    if (bracketed)
        host_end++;
    *host = head(authority, host_end);
    struct slice behind = tail(authority, host_end);
    if ((bracketed ? check_ipv6(*host, err) : check_dns_name(*host, err)) != 0)
        return -1;
    *port = HTTPS_PORT;
    if (behind.length == 0)
        return 0;
    if (behind.bytes[0] != ':')
        return refuse(err, "the repository's host has something behind its IPv6 address");
    return parse_port(tail(behind, 1), port, err);
}

static void write_host(struct url *url, struct slice host)
{
    size_t start = url->length;
    write_bytes(url, host);
    for (size_t i = start; i < url->length; i++)
        url->bytes[i] = lower(url->bytes[i]);
}

static void write_port(struct url *url, unsigned port)
{
    char digits[5];
    size_t at = sizeof digits;
    if (port == HTTPS_PORT)
        return;
    for (; port > 0; port /= 10)
        digits[--at] = (char)('0' + port % 10);
    write_text(url, ":");
    write_bytes(url, (struct slice){digits + at, sizeof digits - at});
}

/* Hosts on which name and name.git are the same repository. */
static bool serves_git_suffix(struct slice host)
{
    static const char *const hosts[] = {GITHUB, "gitlab.com", "bitbucket.org", "codeberg.org"};
    for (size_t i = 0; i < sizeof hosts / sizeof *hosts; i++) {
        if (is_in_any_case(host, hosts[i]))
            return true;
    }
    return false;
}

/* The path of a host with a .git suffix, which is added where it is missing. */
static int write_git_path(struct url *url, struct slice path, struct cv_err *err)
{
    if (ends_with(path, "/.git"))
        return refuse(err, "the repository has no name before .git");
    write_bytes(url, path);
    if (!ends_with(path, ".git"))
        write_text(url, ".git");
    return 0;
}

/* `rest` is what follows `https://`. */
static int normalize_https(struct url *url, struct slice rest, struct cv_err *err)
{
    struct slice host;
    unsigned port;
    size_t slash = find(rest, '/');
    struct slice path = tail(rest, slash);
    if (check_query_and_fragment(rest, err) != 0 ||
        parse_authority(head(rest, slash), &host, &port, err) != 0 || check_path(&path, err) != 0)
        return -1;
    if (is_in_any_case(host, GITHUB) && !is_owner_and_name(tail(path, 1)))
        return refuse(err,
                      "a path on github.com is owner/name, of letters, digits, dots, dashes and "
                      "underscores");

    write_text(url, "https://");
    write_host(url, host);
    write_port(url, port);
    if (serves_git_suffix(host))
        return write_git_path(url, path, err);
    write_bytes(url, path);
    return 0;
}

/* ---- the other forms ----------------------------------------------------------------------- */

/* `rest` is what follows `file://`. */
static int normalize_file(struct url *url, struct slice rest, struct cv_err *err)
{
    if (rest.length > 0 && rest.bytes[0] != '/')
        return refuse(err, "a file URL has an absolute path and no host: file:///absolute/path");
    if (check_query_and_fragment(rest, err) != 0 || check_path(&rest, err) != 0)
        return -1;
    write_text(url, "file://");
    write_bytes(url, rest);
    return 0;
}

static int normalize_github(struct url *url, struct slice input, struct cv_err *err)
{
    if (!is_owner_and_name(input))
        return refuse(err, "the repository is neither owner/name nor an https URL");
    if (check_segments(input, err) != 0)
        return -1;
    write_text(url, "https://" GITHUB "/");
    return write_git_path(url, input, err);
}

static int normalize(struct url *url, struct slice input, bool allow_file, struct cv_err *err)
{
    size_t colon = find(input, ':');
    if (colon == input.length)
        return normalize_github(url, input, err);
    if (input.length - colon < 3 || memcmp(input.bytes + colon, "://", 3) != 0)
        return refuse(err,
                      "a repository is not accepted in a form like host:path: give an https URL");
    struct slice scheme = head(input, colon);
    struct slice rest = tail(input, colon + 3);
    if (is_in_any_case(scheme, "https"))
        return normalize_https(url, rest, err);
    if (!is_in_any_case(scheme, "file"))
        return refuse(err,
                      "the repository's URL has a scheme that is not accepted: give an https URL");
    if (!allow_file)
        return refuse(err, "repositories in files are not accepted here: give an https URL");
    return normalize_file(url, rest, err);
}

int cv_repo_url(const char *input, size_t length, bool allow_file, char url[CV_REPO_URL_MAX + 1],
                size_t *url_length, struct cv_err *err)
{
    struct slice given = {input, length};
    struct url out = {.bytes = url};
    if (length == 0)
        return refuse(err, "the repository is empty");
    if (length > CV_REPO_URL_MAX)
        return refuse(err, "the repository has more than 2048 bytes");
    if (check_bytes(given, err) != 0 || normalize(&out, given, allow_file, err) != 0)
        return -1;
    /* Something may have been added. */
    if (out.over)
        return refuse(err, "the repository's URL has more than 2048 bytes");
    url[out.length] = '\0';
    *url_length = out.length;
    return 0;
}
