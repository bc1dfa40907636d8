/* What libcurl's failures mean to the caller: which code, and what to do. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "net/target.h"

/* Why a connection was not made, and what to look at. */
static const char *advice(const struct cv_route *route, int errnum)
{
    switch (errnum) {
    case ENOENT:
    case ENOTDIR:
        return "there is no such socket: is the server running, and is the path right?";
    case EACCES:
    case EPERM:
        return route->unix_socket ? "permission denied: this user may not use the socket"
                                  : "permission denied by a local firewall";
    case ECONNREFUSED:
        return "connection refused: nothing listens there; is the server running?";
    case ETIMEDOUT:
        return "it does not answer; is the address right, does a firewall drop it?";
    case EHOSTUNREACH:
    case ENETUNREACH:
        return "there is no way to that network";
    case EAGAIN:
        return "too many connections wait for the server already";
    case EMFILE:
    case ENFILE:
        return "too many open files";
    default:
        return strerror(errnum);
    }
}

static int unreachable(const struct cv_route *route, const char *why, struct cv_err *err)
{
    return cv_err_set(err, "engine_unreachable", "can't connect to %s: %s", route->peer, why);
}

static long system_error(const struct cv_route *route, const struct cv_transfer *transfer)
{
    long errnum = transfer->errnum;
    if (errnum == 0)
        curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &errnum);
    /* The one way in which connecting a unix socket fails that leaves no error on it. */
    return errnum == 0 && route->unix_socket ? EAGAIN : errnum;
}

/* TLS 1.3 tells a client that it was refused only when the client thinks that it is connected. */
static bool refused_certificate(const struct cv_route *route)
{
    return route->tls && strstr(route->words, " alert ") != NULL;
}

static int certificate_refused(const struct cv_route *route, struct cv_err *err)
{
    char why[256];
    snprintf(why, sizeof why, "the server refuses the %s (%.150s)",
             route->has_certificate ? "client certificate"
                                    : "connection: it wants a client "
                                      "certificate",
             route->words);
    return unreachable(route, why, err);
}

static int not_connected(const struct cv_route *route, const struct cv_transfer *transfer,
                         CURLcode result, struct cv_err *err)
{
    char why[256];
    const long errnum = system_error(route, transfer);
    if (refused_certificate(route))
        return certificate_refused(route, err);
    switch (result) {
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return cv_err_set(err, "invalid_request", "the URL or the proxy is malformed");
    case CURLE_COULDNT_RESOLVE_HOST:
        return unreachable(route, "the host name can't be resolved", err);
    case CURLE_COULDNT_RESOLVE_PROXY:
        return unreachable(route, "the proxy's host name can't be resolved", err);
    case CURLE_OPERATION_TIMEDOUT:
        snprintf(why, sizeof why, "no connection within %lld ms", (long long)route->connect_ms);
        return unreachable(route, why, err);
    case CURLE_COULDNT_CONNECT:
        return unreachable(route, errnum != 0 ? advice(route, (int)errnum) : "it failed", err);
    case CURLE_PEER_FAILED_VERIFICATION:
        snprintf(why, sizeof why, "the server's certificate is not trusted (%.150s)", route->words);
        return unreachable(route, why, err);
    case CURLE_SSL_CERTPROBLEM:
        return unreachable(route,
                           "the client certificate or its key can't be used (PEM, not "
                           "encrypted, and belonging together?)",
                           err);
    case CURLE_SSL_CACERT_BADFILE:
        return unreachable(route, "the CA certificates can't be read", err);
    case CURLE_SSL_CONNECT_ERROR:
        snprintf(why, sizeof why, "TLS failed (%.150s)",
                 route->words[0] != '\0' ? route->words : "the connection was closed");
        return unreachable(route, why, err);
    default: /* the words of a proxy's failure may hold its password */
        return unreachable(route, curl_easy_strerror(result), err);
    }
}

void cv_route_fault(const struct cv_route *route, const struct cv_transfer *transfer,
                    CURLcode result, enum cv_progress progress, struct cv_err *err)
{
    if (result == CURLE_OUT_OF_MEMORY)
        cv_err_set(err, "start_failed", "no memory for a request");
    else if (progress == CV_CONNECTING)
        not_connected(route, transfer, result, err);
    else if (progress == CV_ASKED && refused_certificate(route))
        certificate_refused(route, err);
    else if (result == CURLE_GOT_NOTHING)
        cv_err_set(err, "transport_lost", "%s closed the connection without an answer",
                   route->peer);
    else if (result == CURLE_PARTIAL_FILE)
        cv_err_set(err, "transport_lost", "%s cut its answer short", route->peer);
    else if (result == CURLE_UNSUPPORTED_PROTOCOL || result == CURLE_WEIRD_SERVER_REPLY)
        cv_err_set(err, "transport_lost", "%s answers with something that is no HTTP", route->peer);
    else
        cv_err_set(err, "transport_lost", "the connection to %s was lost: %s", route->peer,
                   curl_easy_strerror(result));
}

void cv_route_late(const struct cv_route *route, enum cv_progress progress, int64_t timeout_ms,
                   struct cv_err *err)
{
    if (progress == CV_CONNECTING)
        cv_err_set(err, "engine_unreachable", "can't connect to %s: no connection within %lld ms",
                   route->peer, (long long)timeout_ms);
    else
        cv_err_set(err, "timed_out", "%s gave no %s within %lld ms", route->peer,
                   progress == CV_ASKED ? "answer" : "complete answer", (long long)timeout_ms);
}
