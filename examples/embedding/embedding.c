/*
 * A program with an event loop of its own that holds Lua and chamvi.sandbox. One epoll instance
 * watches what the program has to do itself (here a timer that strikes every 20 ms, and signals)
 * and the one descriptor of the library, which carries everything that it waits for. Nothing
 * blocks, and no thread is needed.
 *
 *     cc -o embedding embedding.c $(pkg-config --cflags --libs lua5.4)      or luajit
 *     ./embedding embedding.lua
 *
 * The script starts its work by `sandbox.async` and calls `finish([message])` when it is done.
 * SIGTERM and SIGINT end the program; closing the Lua state ends what it had started.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static bool over;
static int status;

static void die(const char *what)
{
    fprintf(stderr, "embedding: %s: %s\n", what, strerror(errno));
    exit(2);
}

/* finish([message]): ends the program's loop; with a message as a failure. */
static int finish(lua_State *L)
{
    const char *message = luaL_optstring(L, 1, NULL);

    if (message)
        fprintf(stderr, "embedding: %s\n", message);
    over = true;
    status = message ? 1 : 0;
    return 0;
}

/* Ends the loop with the error that is on top of the stack, a string or an error of the library. */
static void fail(lua_State *L)
{
    lua_getglobal(L, "tostring");
    lua_insert(L, -2);
    if (lua_pcall(L, 1, 1, 0) != 0)
        lua_pushliteral(L, "an error that can't be told");
    fprintf(stderr, "embedding: %s\n", lua_tostring(L, -1));
    over = true;
    status = 1;
}

/*
 * Calls a method of the library's loop, which is at the index 1: `pollfd`, `timeout` or `step`. Its
 * first result is then on top of the stack.
 */
static void call_loop(lua_State *L, const char *method)
{
    lua_settop(L, 1);
    lua_getfield(L, 1, method);
    lua_pushvalue(L, 1);
    if (lua_pcall(L, 1, 2, 0) != 0 || !lua_isnil(L, -1)) /* raised, or returned nil and an error */
        fail(L);
    else
        lua_pop(L, 1);
}

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        die("epoll_ctl");
}

static int open_timer(void)
{
    const struct itimerspec every = {{0, 20000000}, {0, 20000000}};
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);

    if (fd < 0 || timerfd_settime(fd, 0, &every, NULL) != 0)
        die("timerfd");
    return fd;
}

static int open_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0)
        die("sigprocmask");
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The program's loop. The library's loop is at the index 1. */
static uint64_t serve(lua_State *L)
{
    int epoll = epoll_create1(EPOLL_CLOEXEC), timer = open_timer(), signals = open_signals(), core;
    uint64_t strikes = 0, expirations;

    call_loop(L, "pollfd"); /* it stays the same */
    core = (int)lua_tointeger(L, -1);
    if (!over)
        watch(epoll, core);
    watch(epoll, timer);
    watch(epoll, signals);

    while (!over) {
        struct epoll_event events[8];
        bool step;
        int count;

        call_loop(L, "timeout"); /* 0 while there is something to do at once, else nil */
        step = lua_isnumber(L, -1);
        count = epoll_wait(epoll, events, 8, step ? 0 : -1);
        if (count < 0 && errno != EINTR)
            die("epoll_wait");
        for (int i = 0; i < count; i++) {
            if (events[i].data.fd == core)
                step = true;
            else if (events[i].data.fd == signals)
                over = true;
            else if (read(timer, &expirations, sizeof expirations) > 0)
                strikes++;
        }
        if (step && !over)
            call_loop(L, "step");
    }
    close(signals);
    close(timer);
    close(epoll);
    return strikes;
}

int main(int argc, char **argv)
{
    lua_State *L = luaL_newstate();
    uint64_t strikes = 0;

    if (!L || argc != 2) {
        fprintf(stderr, "usage: embedding SCRIPT\n");
        return 2;
    }
    luaL_openlibs(L);
    lua_register(L, "finish", finish);
    if (luaL_loadfile(L, argv[1]) != 0 || lua_pcall(L, 0, 1, 0) != 0)
        fail(L);
    else
        strikes = serve(L);
    printf("strikes %llu\n", (unsigned long long)strikes);
    lua_close(L);
    return status;
}
