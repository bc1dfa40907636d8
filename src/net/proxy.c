#include "net/proxy.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* Longer than any host, so that a longer entry is none of it. */
#define ENTRY_MAX 512

struct server {
    char host[ENTRY_MAX]; /* in lower case, without brackets */
    const char *port;
    bool has_address;
    struct in6_addr address; /* of IPv4 as ::ffff:a.b.c.d */
};

/* ---- addresses ---------------------------------------------------------------------------- */

static bool parse_address(const char *text, struct in6_addr *address)
{
    static const uint8_t mapped[12] = {[10] = 0xff, [11] = 0xff};
    if (inet_pton(AF_INET6, text, address) == 1)
        return true;
    memcpy(address->s6_addr, mapped, sizeof mapped);
    return inet_pton(AF_INET, text, address->s6_addr + sizeof mapped) == 1;
}

static bool is_loopback(const struct in6_addr *address)
{
    return IN6_IS_ADDR_LOOPBACK(address) ||
           (IN6_IS_ADDR_V4MAPPED(address) && address->s6_addr[12] == 127);
}

/* "address/bits"; stores how many bits of the address count. */
static bool parse_network(const char *text, struct in6_addr *address, unsigned *bits)
{
    char host[INET6_ADDRSTRLEN];
    const char *slash = strchr(text, '/');
    if (slash == NULL || (size_t)(slash - text) >= sizeof host)
        return false;
    snprintf(host, sizeof host, "%.*s", (int)(slash - text), text);
    const size_t digits = strspn(slash + 1, "0123456789");
    const unsigned long all = strchr(host, ':') == NULL ? 32 : 128;
    const unsigned long given = strtoul(slash + 1, NULL, 10);
    if (digits == 0 || slash[1 + digits] != '\0' || given > all || !parse_address(host, address))
        return false;
    *bits = (unsigned)(given + 128 - all);
    return true;
}

static bool is_within(const struct in6_addr *address, const struct in6_addr *network, unsigned bits)
{
    const unsigned whole = bits / 8, rest = bits % 8;
    if (memcmp(address, network, whole) != 0)
        return false;
    if (rest > 0 && (address->s6_addr[whole] ^ network->s6_addr[whole]) >> (8 - rest) != 0)
        return false;
    return bits >= 96 || !IN6_IS_ADDR_V4MAPPED(address); /* ::/0 holds no IPv4 */
}

/* ---- entries of NO_PROXY ------------------------------------------------------------------ */

/* Cuts the port off "host:port" or "[host]:port"; "" where there is none. */
static const char *cut_port(char **entry)
{
    char *host = *entry;
    char *colon = strrchr(host, ':');
    if (colon == NULL)
        return "";
    if (*host == '[') {
        if (strchr(host, ']') != colon - 1 || strpbrk(host + 1, "[") != NULL ||
            strchr(colon, ']') != NULL)
            return "";
        colon[-1] = '\0';
        *entry = host + 1;
    } else {
        if (strchr(host, ':') != colon || strpbrk(host, "[]") != NULL)
            return "";
        *colon = '\0';
    }
    return colon + 1;
}

static bool names(const char *domain, const char *host)
{
    if (strncmp(domain, "*.", 2) == 0)
        domain++;
    if (*domain == '\0')
        return false;
    if (*domain != '.' && strcmp(domain, host) == 0)
        return true;
    domain += *domain == '.';
    const size_t length = strlen(domain), all = strlen(host);
    return all > length && host[all - length - 1] == '.' &&
           strcmp(host + all - length, domain) == 0;
}

static bool excepts(char *entry, const struct server *server)
{
    struct in6_addr address;
    unsigned bits;
    if (strcmp(entry, "*") == 0)
        return true;
    if (parse_network(entry, &address, &bits))
        return server->has_address && is_within(&server->address, &address, bits);
    const char *port = cut_port(&entry);
    if (*port != '\0' && strcmp(port, server->port) != 0)
        return false;
    if (parse_address(entry, &address))
        return server->has_address && memcmp(&address, &server->address, sizeof address) == 0;
    return names(entry, server->host);
}

static void lower(char *text)
{
    for (; *text != '\0'; text++)
        *text = (char)tolower((unsigned char)*text);
}

static bool is_excepted(const char *list, const struct server *server)
{
    static const char space[] = " \t\n\v\f\r";
    char entry[ENTRY_MAX];
    for (const char *end; list != NULL; list = *end == ',' ? end + 1 : NULL) {
        list += strspn(list, space);
        end = list + strcspn(list, ",");
        size_t length = (size_t)(end - list);
        while (length > 0 && strchr(space, list[length - 1]) != NULL)
            length--;
        if (length >= sizeof entry)
            continue;
        memcpy(entry, list, length);
        entry[length] = '\0';
        lower(entry);
        if (excepts(entry, server))
            return true;
    }
    return false;
}

/* ---- the environment ---------------------------------------------------------------------- */

static const char *variable(const char *upper, const char *other)
{
    const char *value = getenv(upper);
    if (value == NULL || *value == '\0')
        value = getenv(other);
    return value == NULL ? "" : value;
}

/* As libcurl takes it. With socks5 the proxy looks the host up, as with Go. */
static char *copy_url(const char *given)
{
    static const char *const schemes[][2] = {{"socks5://", "socks5h://"},
                                             {"socks5h://", "socks5h://"},
                                             {"https://", "https://"},
                                             {"http://", "http://"}};
    const char *scheme = "http://";
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        const size_t length = strlen(schemes[i][0]);
        if (strncasecmp(given, schemes[i][0], length) != 0)
            continue;
        given += length;
        scheme = schemes[i][1];
        break;
    }
    const size_t size = strlen(scheme) + strlen(given) + 1;
    char *url = malloc(size);
    if (url != NULL)
        snprintf(url, size, "%s%s", scheme, given);
    return url;
}

int cv_proxy_find(bool tls, const char *host, const char *port, char **proxy, struct cv_err *err)
{
    struct server server = {.port = port};
    const char *given =
        tls ? variable("HTTPS_PROXY", "https_proxy") : variable("HTTP_PROXY", "http_proxy");
    *proxy = NULL;
    if (*given == '\0')
        return 0;
    const char *cgi_method = getenv("REQUEST_METHOD");
    if (!tls && cgi_method != NULL && *cgi_method != '\0')
        return cv_err_set(err, "invalid_request",
                          "HTTP_PROXY is not taken in a CGI program, whose clients can set it");
    const size_t bracket = *host == '[';
    snprintf(server.host, sizeof server.host, "%.*s", (int)(strlen(host) - 2 * bracket),
             host + bracket);
    server.has_address = parse_address(server.host, &server.address);
    if (strcmp(server.host, "localhost") == 0 ||
        (server.has_address && is_loopback(&server.address)))
        return 0;
    lower(server.host);
    if (is_excepted(variable("NO_PROXY", "no_proxy"), &server))
        return 0;
    *proxy = copy_url(given);
    return *proxy == NULL ? cv_err_set(err, "start_failed", "no memory for a request") : 0;
}
