#include "support/session_run.h"

#include <poll.h>
#include <sys/epoll.h>

#include "supervisor/children.h"

static int scripted_wait(int epoll, struct epoll_event *events, int most, int timeout);
static int scripted_poll(struct pollfd *watched, nfds_t count, int timeout);
static bool scripted_children(struct cv_children *children);

/* A session is a process's whole life and keeps its parts to itself: they are entered here. */
#define epoll_wait scripted_wait
#define poll scripted_poll
#define cv_children_open scripted_children
#include "supervisor/session.c"
#undef epoll_wait
#undef poll

#include <stdlib.h>

#include "base/fd.h"
#include "require.h"
#include "support/box.h"
#include "support/processes.h"

/* Waits after the end of the script; past these the session hangs. */
#define LAST_WAITS 1000

static struct session session;
static const struct session_script *running;
static bool over;
static int waits_left;
static bool host_died;

/* As reset.c leaves a supervisor: no signal does anything, standard input is /dev/null. */
void session_prepare(void)
{
    signal(SIGPIPE, SIG_IGN);
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    REQUIRE(null >= 0 && dup2(null, STDIN_FILENO) == STDIN_FILENO);
    close(null);
    box_make();
    processes_begin();
}

void session_host_dies(void)
{
    host_died = true;
}

static int add_event(struct epoll_event *events, int at, struct cv_watch *watch)
{
    events[at] = (struct epoll_event){.events = EPOLLIN, .data.ptr = watch};
    return at + 1;
}

static int scripted_wait(int epoll, struct epoll_event *events, int most, int timeout)
{
    int count = 0;
    (void)timeout;
    over = over || !running->step(running->context);
    REQUIRE(!over || waits_left-- > 0);
    if (processes_zombie())
        count = add_event(events, count, &session.signal);
    if (host_died)
        count = add_event(events, count, &session.death);
    int more = epoll_wait(epoll, events + count, most - count, 0);
    return count + (more > 0 ? more : 0);
}

static int scripted_poll(struct pollfd *watched, nfds_t number, int timeout)
{
    clock_advance(timeout / 2 + 1);
    running->drain(running->context);
    return poll(watched, number, 0);
}

/* There is no /proc in the box. */
static bool scripted_children(struct cv_children *children)
{
    children->list = processes_list();
    return true;
}

/* What a process's end releases by itself. */
static void release(void)
{
    struct cv_runtime *runtime = &session.runtime;
    struct cv_workspace *workspace = &runtime->workspace;
    while (!cv_list_empty(&runtime->requests.waiting)) {
        struct cv_list *read = runtime->requests.waiting.next;
        cv_list_remove(read);
        free(read); /* its link is the first member */
    }
    cv_buf_free(&runtime->requests.content);
    cv_buf_free(&runtime->out.control);
    cv_buf_free(&runtime->out.ordered);
    cv_heap_free(&runtime->timers);
    cv_idmap_free(&runtime->by_id);
    cv_idmap_free(&runtime->by_pid);
    cv_fd_close(&workspace->base);
    cv_fd_close(&workspace->root.fd);
    free(workspace->base_path);
    free(workspace->names_bytes);
    free(workspace->root_path);
    free(workspace->real_path);
    free(workspace->env_bytes);
    free(workspace->env);
    cv_frame_reader_free(&session.reader);
    cv_assembler_free(&session.assembler);
    cv_fd_close(&session.signals);
    cv_fd_close(&runtime->epoll);
}

/* The execs that are left: with every process dead and every pipe closed they end by themselves. */
static void release_execs(void)
{
    struct cv_runtime *runtime = &session.runtime;
    struct epoll_event events[EVENTS_PER_WAKE];
    struct woken woken;
    int count;
    cv_exec_reap(runtime);
    do {
        count = epoll_wait(runtime->epoll, events, EVENTS_PER_WAKE, 0);
        for (int i = 0; i < count; i++)
            handle_event(&session, events[i].data.ptr, &woken);
        runtime->credit = UINT64_MAX;
        cv_buf_free(&runtime->out.ordered);
        runtime->out.torn = 0;
        resume_stalled(runtime);
        run_streams(runtime);
    } while (count > 0 || !cv_list_empty(&runtime->ready) || !cv_list_empty(&runtime->stalled));
    REQUIRE(runtime->by_id.count == 0 && runtime->by_pid.count == 0);
}

void session_run(int stream, int record_errno, const struct session_script *script)
{
    cv_beat beat = 0;
    const struct cv_session_config config = {.input = stream,
                                             .output = stream,
                                             .host = -1,
                                             .guard_pid = getppid(),
                                             .guard = -1,
                                             .record_errno = record_errno,
                                             .beat = &beat};
    running = script;
    over = host_died = false;
    waits_left = LAST_WAITS;
    session = (struct session){.config = &config};
    box_enter();
    run(&session);
    box_leave();
    REQUIRE(processes_alive() == 0);
    processes_end();
    cv_fd_close(&stream); /* its end of file would be an event for ever */
    release_execs();
    release();
}
