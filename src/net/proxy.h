/*
 * Which proxy the environment names for a server, by the rules that kubectl and the docker CLI
 * follow: https://pkg.go.dev/golang.org/x/net/http/httpproxy
 *
 * HTTP_PROXY or http_proxy counts for http, HTTPS_PROXY or https_proxy for https, and no other
 * variable: the first that is not empty. NO_PROXY or no_proxy names what needs none, separated by
 * commas: a domain with what is below it, `.domain` or `*.domain` for what is below it, an address
 * or a network as 10.0.0.0/8, all but the last perhaps with a port, or `*`. `localhost` and
 * loopback addresses never have one. Other than there, names are compared as they are written: one
 * in Unicode is not the same as its ASCII form.
 */
#ifndef CV_NET_PROXY_H
#define CV_NET_PROXY_H

#include <stdbool.h>

#include "base/err.h"

/*
 * Stores the URL of the proxy, to be freed, or NULL for none. 0, or -1 with `err`: no memory, or
 * http in a CGI program, where a client can set HTTP_PROXY by a header field.
 */
int cv_proxy_find(bool tls, const char *host, const char *port, char **proxy, struct cv_err *err);

#endif
