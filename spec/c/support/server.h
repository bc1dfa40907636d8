/*
 * A server for the tests of src/net that does what a script says: cuts, waits, trickles, lies. It
 * runs in a process of its own, and so does each of its connections, all of them dying with the
 * test's. Every function fails the running test on an error.
 */
#ifndef CV_SPEC_SERVER_H
#define CV_SPEC_SERVER_H

#include <stddef.h>
#include <sys/types.h>

enum server_act {
    SERVER_CLOSE,   /* the end of a script */
    SERVER_REQUEST, /* reads a request with its body; at the end of the stream the script ends */
    SERVER_SEND,    /* sends `text` (`number` bytes of it, 0: all of the string) */
    SERVER_TRICKLE, /* the same, one byte a packet */
    SERVER_FLOOD,   /* sends `number` bytes of the letter x */
    SERVER_SLEEP,   /* for `number` milliseconds */
    SERVER_AWAIT,   /* waits until the test says server_go */
    SERVER_RESET,   /* closes in a way that the other side sees as a reset */
    SERVER_SHUT,    /* sends nothing more */
    SERVER_DRAIN,   /* reads up to the end of the stream, counting */
    SERVER_ECHO,    /* sends back what it reads, up to the end of the stream */
    SERVER_HOLD,    /* does nothing until the other side has closed */
    SERVER_AGAIN,   /* back to the first step */
};

struct server_step {
    enum server_act act;
    const char *text;
    long number;
};

/* What the server has seen, in memory that is shared with it. */
struct server_seen {
    unsigned connections;
    unsigned requests;
    unsigned go;
    unsigned drained; /* scripts that have drained */
    unsigned long bytes;
    char request[8192]; /* the last one */
};

struct server {
    pid_t pid;
    int port;       /* of TCP on 127.0.0.1, or 0 */
    char path[108]; /* of a unix socket, or "" */
    char url[64];   /* "http://127.0.0.1:PORT", or "http://engine" */
    volatile struct server_seen *seen;
};

/* Answers each connection by the script, which SERVER_CLOSE ends; on a unix socket or on TCP. */
void server_start(struct server *server, int unix_socket, const struct server_step *script);
/* The socket's path for a request, or NULL for TCP. */
const char *server_socket(const struct server *server);
/* It accepts nothing more once this returns; SIGSTOP alone takes effect when it runs next. */
void server_pause(const struct server *server);
void server_resume(const struct server *server);
/* Lets the scripts go on that wait for it, now or later. */
void server_go(const struct server *server);
void server_stop(struct server *server);

#endif
