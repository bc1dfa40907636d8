/*
 * The answer to an HTTP/1.1 request for an upgrade (RFC 9110, section 7.8): sans-I/O.
 *
 * One head is parsed, after any interim ones. Status 101 ends HTTP: what follows the head is the
 * new protocol's. Any other status is a refusal, whose body is read as its framing says (a length,
 * chunks, or up to the end of the stream) and kept up to a bound.
 *
 * The parser is strict where leniency is how messages get smuggled (RFC 9112, section 11): lines
 * end with CRLF, no line is continued, no second framing, no sign or space around a length. libcurl
 * parses all other HTTP.
 */
#ifndef CV_PROTO_HTTP_UPGRADE_H
#define CV_PROTO_HTTP_UPGRADE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proto/headers.h"

/* The longest line, and all lines together: interim heads, the head, chunk sizes, trailers. */
#define CV_UPGRADE_LINE_MAX 16384
#define CV_UPGRADE_LINES_MAX (256 * 1024)
/* What is kept of the body of a refusal. */
#define CV_UPGRADE_BODY_MAX 65536

enum cv_upgrade_result {
    CV_UPGRADE_BROKEN = -1, /* no HTTP, or over a bound: see `problem` */
    CV_UPGRADE_MORE,        /* everything was used, more is to come */
    CV_UPGRADE_OPEN,        /* status 101; the bytes that were not used are the new protocol's */
    CV_UPGRADE_REFUSED,     /* another status, and its body as far as it is kept */
};

struct cv_upgrade {
    int status; /* 0 until its line was read */
    struct cv_headers headers;
    struct cv_buf body;
    bool truncated;      /* the body is longer than what was kept */
    const char *problem; /* static text, once the answer is broken */
    /* The parser's own. */
    int state;
    enum cv_upgrade_result result;
    struct cv_buf line;
    size_t lines; /* bytes of all lines so far */
    uint64_t left;
};

/* Before the first byte; allocates nothing. */
void cv_upgrade_init(struct cv_upgrade *upgrade);
void cv_upgrade_free(struct cv_upgrade *upgrade);
/*
 * Takes the next bytes and stores in *used how many belong to the answer: all of them while more is
 * to come. Any other result stays.
 */
enum cv_upgrade_result cv_upgrade_feed(struct cv_upgrade *upgrade, const void *bytes, size_t length,
                                       size_t *used);
/* The stream has ended: a refusal without a length is whole, anything else is broken. */
enum cv_upgrade_result cv_upgrade_end(struct cv_upgrade *upgrade);

#endif
