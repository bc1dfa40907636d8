#include "supervisor/session.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/linux.h"
#include "proto/supervise/frame.h"
#include "proto/supervise/message.h"
#include "proto/supervise/wire.h"
#include "supervisor/exec.h"

#define EVENTS_PER_WAKE 64
#define INPUT_CHUNK 65536
#define LAST_READS_MAX 1024
#define KILL_LIMIT_MS 2000
#define LAST_WORDS_MS 1000
/* How often the parent is asked for where there is no pidfd to wait for. */
#define PARENT_POLL_MS 250

struct session {
    struct cv_runtime runtime;
    const struct cv_session_config *config;
    struct cv_frame_reader reader;
    struct cv_assembler assembler;
    struct cv_watch input;
    struct cv_watch output;
    struct cv_watch signal;
    struct cv_watch death;
    int signals;        /* signalfd of SIGCHLD */
    bool sees_children; /* there is a /proc to find by what must be killed */
    bool greeted;       /* the hello was accepted */
    bool refused;       /* or it was not: nothing that follows it counts */
    bool ping_idle;
    uint32_t ping_ms;
    uint32_t lease_ms;
    struct cv_timer ping;
    struct cv_timer lease;
    struct cv_timer parent;
    bool ending;
    bool orphaned; /* ending because the host or the guard is dead, or nobody reads any more */
    bool remove;   /* delete the workspace before the end, and answer `remove_id` */
    uint32_t remove_id;
    bool output_watched; /* for room to write */
};

void cv_runtime_fail(struct cv_runtime *runtime, uint32_t id, uint32_t code, int errnum,
                     const char *text)
{
    uint8_t payload[8 + CV_FAILURE_TEXT_MAX];
    const struct cv_failure failure = {
        .code = code, .errnum = (uint32_t)errnum, .text = text, .length = strlen(text)};
    size_t length = cv_failure_encode(payload, &failure);
    if (!cv_outq_ordered(&runtime->out, CV_FRAME_ERROR, id, payload, length))
        runtime->broken = true;
}

/* ---- timers ------------------------------------------------------------------------------- */

static void arm(struct session *session, struct cv_timer *timer, uint32_t delay_ms)
{
    if (delay_ms == 0)
        cv_heap_remove(&session->runtime.timers, timer);
    else if (cv_heap_set(&session->runtime.timers, timer, session->runtime.now + delay_ms) != 0)
        session->ending = true;
}

static void send_ping(struct session *session)
{
    /* One that is still waiting to be written says as much as two. */
    if (cv_buf_length(&session->runtime.out.control) > 0)
        return;
    if (!cv_outq_control(&session->runtime.out, CV_FRAME_PING, 0, NULL, 0))
        session->ending = true;
}

/*
 * While something is to be done, or always where an idle stream must be kept open. A request of
 * which a part has come counts: its host waits for an answer already.
 */
static void keep_pinging(struct session *session)
{
    bool busy = session->runtime.by_id.count > 0 || cv_files_busy(&session->runtime.requests) ||
                cv_message_under_way(&session->reader, &session->assembler);
    bool wanted = session->ping_ms > 0 && (session->ping_idle || busy);
    if (wanted && !cv_timer_armed(&session->ping))
        arm(session, &session->ping, session->ping_ms);
    else if (!wanted)
        arm(session, &session->ping, 0);
}

static void run_timers(struct session *session)
{
    struct cv_heap *timers = &session->runtime.timers;
    struct cv_timer *timer;
    while ((timer = cv_heap_first(timers)) != NULL && timer->deadline <= session->runtime.now) {
        cv_heap_remove(timers, timer);
        if (timer == &session->ping) {
            send_ping(session);
        } else if (timer == &session->lease) {
            cv_runtime_fail(&session->runtime, 0, CV_FAILURE_LEASE, 0,
                            "nothing was heard of the host for the time of the lease");
            session->ending = true;
        } else if (timer == &session->parent) {
            if (getppid() != session->config->guard_pid)
                session->ending = session->orphaned = true;
            arm(session, &session->parent, PARENT_POLL_MS);
        } else {
            cv_exec_timer(&session->runtime, cv_list_entry(timer, struct cv_exec, timer));
        }
    }
}

/* ---- frames of the host ------------------------------------------------------------------- */

static void protocol_error(struct session *session, const char *text)
{
    cv_runtime_fail(&session->runtime, 0, CV_FAILURE_PROTOCOL, 0, text);
    session->ending = true;
}

/* Stalled streams get their turns again: there is new credit, or new room in the queue. */
static void resume_stalled(struct cv_runtime *runtime)
{
    struct cv_list *link = runtime->stalled.next;
    while (link != &runtime->stalled) {
        struct cv_stream *stream = cv_list_entry(link, struct cv_stream, link);
        link = link->next;
        if (cv_stream_may_send(runtime, stream))
            cv_stream_wake(runtime, stream);
    }
}

static void refuse_hello(struct session *session, uint32_t code, int errnum, const char *text)
{
    cv_runtime_fail(&session->runtime, 0, code, errnum, text);
    session->refused = session->ending = true;
}

/*
 * The hello of a host that is gone, or that has lost this supervisor, only says what a removal
 * behind it removes: nothing is made any more, nor answered.
 */
static void on_hello(struct session *session, const struct cv_frame *frame)
{
    struct cv_hello hello;
    struct cv_trouble trouble;
    if (frame->type != CV_FRAME_HELLO || frame->id != 0) {
        refuse_hello(session, CV_FAILURE_PROTOCOL, 0, "the first frame is no hello");
        return;
    }
    if (!cv_hello_decode(frame->payload, frame->length, &hello)) {
        refuse_hello(session, CV_FAILURE_PROTOCOL, 0, "a malformed hello");
        return;
    }
    if (hello.version != CV_FRAME_VERSION) {
        refuse_hello(session, CV_FAILURE_VERSION, 0,
                     "host and supervisor are of different versions");
        return;
    }
    if (!session->sees_children && !session->orphaned) {
        refuse_hello(session, CV_FAILURE_SETUP, 0,
                     "there is no /proc, so what commands leave behind could not be found");
        return;
    }
    int record_errno = session->config->record_errno;
    if (record_errno != 0) {
        bool locked = record_errno == EAGAIN || record_errno == EACCES; /* fcntl(2) */
        refuse_hello(session, locked ? CV_FAILURE_LOCKED : CV_FAILURE_SETUP, record_errno,
                     "locking the workspace's record");
        return;
    }
    if (session->orphaned)
        cv_workspace_only_remove(&hello);
    if (!cv_workspace_open(&session->runtime.workspace, &hello, &trouble)) {
        refuse_hello(session, CV_FAILURE_SETUP, trouble.errnum, trouble.text);
        return;
    }
    if ((hello.flags & CV_HELLO_REMOVE_ONLY) != 0 &&
        cv_workspace_removed(&session->runtime.workspace)) {
        /* Between opening the record and locking it. */
        refuse_hello(session, CV_FAILURE_LOCKED, 0, "another process has removed the workspace");
        return;
    }
    session->greeted = true;
    if (session->orphaned)
        return;
    session->runtime.credit = hello.credit;
    session->runtime.least_credit = hello.credit < PIPE_BUF ? hello.credit : PIPE_BUF;
    session->runtime.stdin_credit = hello.stdin_credit;
    session->ping_ms = hello.ping_ms;
    session->ping_idle = (hello.flags & CV_HELLO_PING_IDLE) != 0;
    session->lease_ms = hello.lease_ms;
    arm(session, &session->lease, session->lease_ms);
    uint8_t version[CV_READY_SIZE];
    cv_wire_put_u32(version, CV_FRAME_VERSION);
    if (!cv_outq_control(&session->runtime.out, CV_FRAME_READY, 0, version, sizeof version))
        session->ending = true;
}

static void on_start(struct session *session, const struct cv_frame *frame)
{
    struct cv_start start;
    if (session->runtime.workspace.root.fd < 0 || frame->id == 0 ||
        !cv_start_decode(frame->payload, frame->length, &start))
        protocol_error(session, "a malformed start");
    else if (!cv_exec_start(&session->runtime, frame->id, &start))
        protocol_error(session, "a start under an id that is in use");
}

static void on_file_request(struct session *session, const struct cv_frame *frame)
{
    struct cv_read_file read;
    struct cv_write_file write;
    bool reads = frame->type == CV_FRAME_READ_FILE;
    bool valid = reads ? cv_read_file_decode(frame->payload, frame->length, &read)
                       : cv_write_file_decode(frame->payload, frame->length, &write);
    if (!valid || session->runtime.workspace.root.fd < 0 || frame->id == 0)
        protocol_error(session, "a malformed request for a file");
    else if (!reads)
        cv_files_write(&session->runtime, frame->id, &write);
    else if (!cv_files_read(&session->runtime, frame->id, &read))
        protocol_error(session, "more reads of files than may wait");
}

static void on_credit(struct session *session, const struct cv_frame *frame)
{
    uint32_t more;
    if (!cv_u32_decode(frame->payload, frame->length, &more)) {
        protocol_error(session, "a malformed credit");
        return;
    }
    session->runtime.credit += more;
    resume_stalled(&session->runtime);
}

/* Stdin and aborts may cross the command's end on the wire: then there is nothing left to do. */
static void on_command_frame(struct session *session, const struct cv_frame *frame)
{
    struct cv_exec *exec = cv_exec_find(&session->runtime, frame->id);
    if (exec == NULL)
        return;
    if (frame->type == CV_FRAME_ABORT)
        cv_exec_abort(&session->runtime, exec);
    else if (frame->type == CV_FRAME_STDIN_END)
        cv_feed_end(&session->runtime, &exec->feed);
    else if (!cv_feed_add(&session->runtime, &exec->feed, frame->payload, frame->length))
        protocol_error(session, "more stdin than its credit");
}

static void on_frame(struct session *session, const struct cv_frame *frame)
{
    if (session->refused)
        return;
    if (!session->greeted) {
        on_hello(session, frame);
        return;
    }
    if (session->orphaned && frame->type != CV_FRAME_REMOVE)
        return; /* only the host's last will counts */
    switch (frame->type) {
    case CV_FRAME_START:
        on_start(session, frame);
        break;
    case CV_FRAME_STDIN:
    case CV_FRAME_STDIN_END:
    case CV_FRAME_ABORT:
        on_command_frame(session, frame);
        break;
    case CV_FRAME_CREDIT:
        on_credit(session, frame);
        break;
    case CV_FRAME_READ_FILE:
    case CV_FRAME_WRITE_FILE:
        on_file_request(session, frame);
        break;
    case CV_FRAME_REMOVE:
        session->remove = true;
        session->remove_id = frame->id;
        session->ending = true;
        break;
    case CV_FRAME_CLOSE:
        session->ending = true;
        break;
    case CV_FRAME_PONG:
        break;
    default:
        protocol_error(session, "a second hello");
        break;
    }
}

/* Reads once. True when it read something and the session goes on. */
static bool on_input(struct session *session)
{
    static uint8_t chunk[INPUT_CHUNK];
    ssize_t got = read(session->config->input, chunk, sizeof chunk);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    if (got <= 0) { /* end of file, or ECONNRESET of a host that died with unread data */
        session->ending = true;
        return false;
    }
    session->runtime.now = cv_clock_ms(); /* of the read: the wake-up may be long ago */
    arm(session, &session->lease, session->lease_ms);
    cv_frame_reader_push(&session->reader, chunk, (size_t)got);
    while (!session->ending) {
        struct cv_frame frame;
        int next = cv_frame_reader_next(&session->reader, &frame);
        if (next == 0)
            break;
        int whole = next < 0 ? -1 : cv_assembler_add(&session->assembler, &frame);
        if (whole < 0)
            protocol_error(session, "a malformed frame");
        else if (whole > 0)
            on_frame(session, &frame);
    }
    cv_assembler_release(&session->assembler); /* it may have been a large file */
    return !session->ending;
}

/*
 * A host that ends in order sends a removal and is gone: its death may be seen before the frame,
 * and before the hello, and writing to it may fail before the frame is read.
 */
static void read_last_will(struct session *session)
{
    session->orphaned = true;
    session->ending = false;
    for (int i = 0; i < LAST_READS_MAX && on_input(session); i++)
        continue;
}

/* ---- the loop ----------------------------------------------------------------------------- */

static void watch_fd(struct session *session, int fd, struct cv_watch *watch, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = watch};
    if (epoll_ctl(session->runtime.epoll, EPOLL_CTL_ADD, fd, &event) != 0)
        session->ending = true;
}

/* What a wake-up brought, besides streams and feeds, which are handled as they come. */
struct woken {
    bool input;
    bool children;
};

/*
 * Streams and feeds only note that they are ready. What can free an exec (frames, reaped children,
 * turns, timers) comes after the whole batch, so no event of it points to freed memory.
 */
static void handle_event(struct session *session, struct cv_watch *watch, struct woken *woken)
{
    switch (watch->kind) {
    case CV_WATCH_INPUT:
        woken->input = true;
        break;
    case CV_WATCH_OUTPUT:
        break; /* only wakes the loop, which writes at its end */
    case CV_WATCH_SIGNAL:
        woken->children = true;
        break;
    case CV_WATCH_DEATH:
        session->ending = session->orphaned = true;
        break;
    case CV_WATCH_STREAM:
        cv_stream_wake(&session->runtime, cv_list_entry(watch, struct cv_stream, watch));
        break;
    case CV_WATCH_FEED:
        cv_feed_wake(&session->runtime, cv_list_entry(watch, struct cv_feed, watch));
        break;
    }
}

/* One turn for every stream that is ready now; those that stay ready go behind. */
static void run_streams(struct cv_runtime *runtime)
{
    struct cv_list turns;
    cv_list_init(&turns);
    while (!cv_list_empty(&runtime->ready)) {
        struct cv_list *link = runtime->ready.next;
        cv_list_remove(link);
        cv_list_append(&turns, link);
    }
    while (!cv_list_empty(&turns)) {
        struct cv_stream *stream = cv_list_entry(turns.next, struct cv_stream, link);
        if (cv_stream_turn(runtime, stream))
            cv_exec_settle(runtime, stream->exec);
    }
}

/* The events of the stream to the host: room to write is only waited for while it lacks. */
static void want_output(struct session *session, bool wanted)
{
    const struct cv_session_config *config = session->config;
    if (wanted == session->output_watched)
        return;
    bool shared = config->output == config->input;
    struct epoll_event event = {.data.ptr = shared ? &session->input : &session->output};
    event.events = (shared ? EPOLLIN : 0) | (wanted ? EPOLLOUT : 0);
    epoll_ctl(session->runtime.epoll, EPOLL_CTL_MOD, config->output, &event);
    session->output_watched = wanted;
}

static void flush(struct session *session)
{
    struct cv_runtime *runtime = &session->runtime;
    int flushed = cv_outq_flush(&runtime->out);
    if (flushed < 0)
        runtime->broken = true;
    want_output(session, flushed == 0);
    if (cv_outq_room(&runtime->out) && runtime->credit > 0)
        resume_stalled(runtime);
}

static int wait_limit(const struct session *session)
{
    const struct cv_runtime *runtime = &session->runtime;
    if (!cv_list_empty(&runtime->ready) || cv_files_ready(runtime))
        return 0;
    const struct cv_timer *first = cv_heap_first(&runtime->timers);
    if (first == NULL)
        return -1;
    int64_t left = first->deadline - cv_clock_ms();
    if (left < 0)
        return 0;
    return left > 60000 ? 60000 : (int)left;
}

static void drain_signals(const struct session *session)
{
    struct signalfd_siginfo drained[8];
    while (read(session->signals, drained, sizeof drained) == (ssize_t)sizeof drained)
        continue;
}

static void serve(struct session *session)
{
    struct cv_runtime *runtime = &session->runtime;
    while (!session->ending && !runtime->broken) {
        struct epoll_event events[EVENTS_PER_WAKE];
        struct woken woken = {0};
        int count = epoll_wait(runtime->epoll, events, EVENTS_PER_WAKE, wait_limit(session));
        runtime->now = cv_clock_ms();
        for (int i = 0; i < count; i++)
            handle_event(session, events[i].data.ptr, &woken);
        if (woken.input && !session->ending)
            on_input(session);
        if (woken.children) {
            drain_signals(session);
            cv_exec_reap(runtime);
        }
        cv_files_turn(runtime);
        run_streams(runtime);
        run_timers(session);
        keep_pinging(session);
        flush(session);
    }
}

/* ---- the end ------------------------------------------------------------------------------ */

/* A long removal shows the guard and the host that it goes on. */
static void removal_goes_on(void *context)
{
    struct session *session = context;
    atomic_fetch_add(session->config->beat, 1);
    session->runtime.now = cv_clock_ms();
    if (session->ping_ms == 0 || session->ping.deadline > session->runtime.now)
        return;
    session->ping.deadline = session->runtime.now + session->ping_ms;
    send_ping(session);
    cv_outq_flush(&session->runtime.out);
}

static void remove_workspace(struct session *session, unsigned survivors)
{
    struct cv_trouble trouble;
    struct cv_runtime *runtime = &session->runtime;
    cv_heap_remove(&runtime->timers, &session->ping);
    session->ping.deadline = 0;
    bool removed = cv_workspace_remove(&runtime->workspace, removal_goes_on, session, &trouble);
    /* What still runs matters more: it is told even where something could not be deleted either. */
    if (!removed && survivors == 0) {
        cv_runtime_fail(runtime, session->remove_id, CV_FAILURE_REMOVE, trouble.errnum,
                        trouble.text);
        return;
    }
    uint8_t payload[CV_REMOVED_SIZE];
    cv_wire_put_u32(payload, survivors);
    cv_outq_ordered(&runtime->out, CV_FRAME_REMOVED, session->remove_id, payload, sizeof payload);
}

/* What is queued goes out if the host takes it soon. */
static void last_words(struct session *session)
{
    const int64_t deadline = cv_clock_ms() + LAST_WORDS_MS;
    while (cv_outq_flush(&session->runtime.out) == 0) {
        int64_t left = deadline - cv_clock_ms();
        struct pollfd room = {.fd = session->config->output, .events = POLLOUT};
        if (left <= 0)
            return;
        poll(&room, 1, (int)left);
        atomic_fetch_add(session->config->beat, 1);
    }
}

static void set_up(struct session *session)
{
    struct cv_runtime *runtime = &session->runtime;
    const struct cv_session_config *config = session->config;
    sigset_t child_signal;
    sigemptyset(&child_signal);
    sigaddset(&child_signal, SIGCHLD);
    runtime->epoll = epoll_create1(EPOLL_CLOEXEC);
    runtime->beat = config->beat;
    runtime->files = config->files;
    runtime->now = cv_clock_ms();
    runtime->workspace.base = runtime->workspace.root.fd = -1;
    cv_outq_init(&runtime->out, config->output);
    cv_heap_init(&runtime->timers);
    cv_idmap_init(&runtime->by_id);
    cv_idmap_init(&runtime->by_pid);
    cv_list_init(&runtime->ready);
    cv_list_init(&runtime->stalled);
    cv_files_init(&runtime->requests);
    session->sees_children = cv_children_open(&runtime->children);
    cv_frame_reader_init(&session->reader, 'h');
    cv_assembler_init(&session->assembler, CV_MESSAGE_MAX);
    session->input.kind = CV_WATCH_INPUT;
    session->output.kind = CV_WATCH_OUTPUT;
    session->signal.kind = CV_WATCH_SIGNAL;
    session->death.kind = CV_WATCH_DEATH;
    session->signals = signalfd(-1, &child_signal, SFD_CLOEXEC | SFD_NONBLOCK);
    fcntl(config->input, F_SETFL, O_NONBLOCK);
    fcntl(config->output, F_SETFL, O_NONBLOCK);
    watch_fd(session, config->input, &session->input, EPOLLIN);
    if (config->output != config->input)
        watch_fd(session, config->output, &session->output, 0);
    watch_fd(session, session->signals, &session->signal, EPOLLIN);
    if (config->host >= 0)
        watch_fd(session, config->host, &session->death, EPOLLIN);
    if (config->guard >= 0)
        watch_fd(session, config->guard, &session->death, EPOLLIN);
    else
        arm(session, &session->parent, PARENT_POLL_MS);
}

/* From the set-up to the last words; `session` holds nothing but its configuration. */
static void run(struct session *session)
{
    set_up(session);
    serve(session);
    if (session->orphaned || session->runtime.broken)
        read_last_will(session);
    unsigned survivors =
        cv_children_kill_all(&session->runtime.children, KILL_LIMIT_MS, session->runtime.beat);
    if (session->remove)
        remove_workspace(session, survivors);
    last_words(session);
}

void cv_session_run(const struct cv_session_config *config)
{
    static struct session session;
    session.config = config;
    run(&session);
}
