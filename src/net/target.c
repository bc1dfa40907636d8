#include "net/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#include "net/proxy.h"

/* ---- the URL ------------------------------------------------------------------------------ */

static int refuse(struct cv_err *err, const char *what)
{
    return cv_err_set(err, "invalid_request", "%s", what);
}

static int no_memory(struct cv_err *err)
{
    return cv_err_set(err, "start_failed", "no memory for a request");
}

/* A part of the URL, to be freed with curl_free; "" where there is none. */
static char *url_part(CURLU *url, CURLUPart part)
{
    char *text = NULL;
    curl_url_get(url, part, &text, 0);
    return text;
}

static int split_url(struct cv_route *route, CURLU *url, const struct cv_target *target,
                     struct cv_err *err)
{
    if (curl_url_set(url, CURLUPART_URL, target->url, CURLU_PATH_AS_IS | CURLU_DISALLOW_USER) !=
        CURLUE_OK)
        return refuse(err, "the URL is malformed, or has a user name");
    char *scheme = url_part(url, CURLUPART_SCHEME);
    char *host = url_part(url, CURLUPART_HOST);
    char *port = url_part(url, CURLUPART_PORT);
    char *path = url_part(url, CURLUPART_PATH);
    char *query = url_part(url, CURLUPART_QUERY);
    int result = 0;
    if (scheme == NULL || host == NULL || path == NULL) {
        result = refuse(err, "the URL is malformed");
    } else if (strcmp(scheme, "http") != 0 && strcmp(scheme, "https") != 0) {
        result = refuse(err, "the URL's scheme is neither http nor https");
    } else if (strlen(host) > sizeof route->authority - 8) {
        result = refuse(err, "the URL's host is too long");
    } else {
        const char *default_port = strcmp(scheme, "https") == 0 ? "443" : "80";
        const size_t size = strlen(path) + (query == NULL ? 0 : strlen(query)) + 2;
        route->tls = strcmp(scheme, "https") == 0;
        snprintf(route->authority, sizeof route->authority, "%s%s%s", host, port ? ":" : "",
                 port ? port : "");
        if (target->unix_socket != NULL)
            snprintf(route->peer, sizeof route->peer, "%s", target->unix_socket);
        else
            snprintf(route->peer, sizeof route->peer, "%.110s:%s", host,
                     port ? port : default_port);
        route->resource = malloc(size);
        if (route->resource == NULL)
            result = no_memory(err);
        else
            snprintf(route->resource, size, "%s%s%s", path, query ? "?" : "", query ? query : "");
        if (result == 0 && target->proxy_env && target->proxy == NULL && !route->unix_socket)
            result =
                cv_proxy_find(route->tls, host, port ? port : default_port, &route->proxy, err);
    }
    curl_free(scheme);
    curl_free(host);
    curl_free(port);
    curl_free(path);
    curl_free(query);
    return result;
}

/* TLS asks for the URL's host; under another name, that is connected to where the host is. */
static int rename_server(struct cv_route *route, CURLU *url, const char *name, struct cv_err *err)
{
    char *host = url_part(url, CURLUPART_HOST);
    char *port = NULL;
    curl_url_get(url, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    char entry[600];
    bool known = host != NULL && port != NULL;
    if (known)
        snprintf(entry, sizeof entry, "::%s:%s", host, port);
    curl_free(host);
    curl_free(port);
    if (!known || (route->connect_to = curl_slist_append(NULL, entry)) == NULL)
        return no_memory(err);
    if (curl_url_set(url, CURLUPART_HOST, name, 0) != CURLUE_OK)
        return refuse(err, "the server name for TLS is no host name");
    return 0;
}

/* ---- options ------------------------------------------------------------------------------ */

/* The same option as a path or as bytes. */
static CURLcode set_pem(CURL *easy, CURLoption path_option, CURLoption blob_option,
                        const struct cv_pem *pem)
{
    if (pem->path != NULL)
        return curl_easy_setopt(easy, path_option, pem->path);
    if (pem->bytes == NULL)
        return CURLE_OK;
    struct curl_blob blob = {
        .data = (void *)pem->bytes, .len = pem->length, .flags = CURL_BLOB_COPY};
    return curl_easy_setopt(easy, blob_option, &blob);
}

static bool given(const struct cv_pem *pem)
{
    return pem->path != NULL || pem->bytes != NULL;
}

static CURLcode set_tls(CURL *easy, const struct cv_target *target)
{
    CURLcode code = CURLE_OK;
    const long verify = target->insecure ? 0L : 1L;
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, verify);
    curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2 * verify);
    curl_easy_setopt(easy, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (given(&target->ca)) {
        curl_easy_setopt(easy, CURLOPT_CAPATH, NULL); /* nobody else may sign */
        code = set_pem(easy, CURLOPT_CAINFO, CURLOPT_CAINFO_BLOB, &target->ca);
    }
    if (code == CURLE_OK)
        code = set_pem(easy, CURLOPT_SSLCERT, CURLOPT_SSLCERT_BLOB, &target->cert);
    if (code == CURLE_OK)
        code = set_pem(easy, CURLOPT_SSLKEY, CURLOPT_SSLKEY_BLOB, &target->key);
    /* Without a pass phrase OpenSSL would ask for one on the terminal. */
    if (code == CURLE_OK && given(&target->cert))
        code = curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "");
    return code;
}

/* Nothing of it comes from the environment by libcurl, whose rules are others: see proxy.h. */
static CURLcode set_proxy(CURL *easy, const char *proxy)
{
    if (proxy == NULL)
        return curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "");
    if (strncasecmp(proxy, "http://", 7) == 0)
        curl_easy_setopt(easy, CURLOPT_PROXYPORT, 80L); /* where it names none */
    return curl_easy_setopt(easy, CURLOPT_PROXY, proxy);
}

static CURLcode set_options(struct cv_route *route, CURL *easy, CURLU *url,
                            const struct cv_target *target)
{
    const char *proxy = target->proxy == NULL ? route->proxy : target->proxy;
    CURLcode code = curl_easy_setopt(easy, CURLOPT_CURLU, url);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, route->words);
    curl_easy_setopt(easy, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1L);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)target->connect_ms);
    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    if (code == CURLE_OK && target->unix_socket != NULL)
        code = curl_easy_setopt(easy, CURLOPT_UNIX_SOCKET_PATH, target->unix_socket);
    if (code == CURLE_OK)
        code = curl_easy_setopt(easy, CURLOPT_CONNECT_TO, route->connect_to);
    if (code == CURLE_OK)
        code = set_proxy(easy, route->unix_socket ? NULL : proxy);
    if (code == CURLE_OK && route->tls)
        code = set_tls(easy, target);
    return code;
}

int cv_route_open(struct cv_route *route, struct cv_transfer *transfer,
                  const struct cv_target *target, struct cv_err *err)
{
    memset(route, 0, sizeof *route);
    route->unix_socket = target->unix_socket != NULL;
    route->has_certificate = given(&target->cert);
    route->connect_ms = target->connect_ms;
    if (route->unix_socket &&
        strlen(target->unix_socket) >= sizeof((struct sockaddr_un *)0)->sun_path)
        return refuse(err, "the path of the unix socket is longer than 107 bytes");
    CURLU *url = curl_url();
    if (url == NULL)
        return no_memory(err);
    int result = split_url(route, url, target, err);
    if (result == 0 && route->tls && target->server_name != NULL)
        result = rename_server(route, url, target->server_name, err);
    if (result == 0) {
        CURLcode code = set_options(route, transfer->easy, url, target);
        if (code == CURLE_OUT_OF_MEMORY)
            result = no_memory(err);
        else if (code != CURLE_OK)
            result = cv_err_set(err, "start_failed", "libcurl refuses an option: %s",
                                curl_easy_strerror(code));
    }
    /* The URL's handle is copied when the transfer starts, so it lives as long as the route. */
    route->url = url;
    return result;
}

void cv_route_free(struct cv_route *route)
{
    curl_slist_free_all(route->connect_to);
    curl_url_cleanup(route->url);
    free(route->resource);
    free(route->proxy);
    memset(route, 0, sizeof *route);
}
