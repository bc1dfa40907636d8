#include "supervisor/guard.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define TICK_MS 250
/* A supervisor that shows no sign of life for so long after the hang-up is stuck. */
#define STUCK_MS 1000
/* How long it may wait inside the kernel, as for a slow disk or the lock of a busy folder. */
#define BLOCKED_MS 15000
#define KILL_LIMIT_MS 2000

enum { WATCH_SIGNAL, WATCH_SOCKET, WATCH_HOST, WATCH_COUNT };

/* Reaps; true when the supervisor has ended, or was stopped, which counts as an end. */
static bool supervisor_ended(struct cv_guard *guard)
{
    bool ended = false;
    for (;;) {
        siginfo_t info = {0};
        if (waitid(P_ALL, 0, &info, WEXITED | WSTOPPED | WNOHANG | __WALL) != 0)
            return true;
        if (info.si_pid == 0)
            return ended;
        if (info.si_pid == guard->supervisor) {
            ended = true;
            if (info.si_code != CLD_STOPPED)
                guard->supervisor = 0; /* reaped: the number may be another's from now on */
        }
    }
}

/* After the hang-up: the supervisor ends by itself as long as its beat goes on. */
struct patience {
    bool hung_up;
    unsigned beat;
    int64_t looked;
    int64_t silent_ms;
    int64_t blocked_ms;
};

/*
 * Silence counts in time of the guard's own stepping: where the machine is so busy that the guard
 * wakes late, the supervisor has not had its turn either. A supervisor that is blocked inside the
 * kernel would not die of a signal, and may go on removing when it comes back.
 */
static bool stuck(struct patience *patience, const struct cv_guard *guard)
{
    unsigned beat = atomic_load(guard->beat);
    int64_t now = cv_clock_ms();
    int64_t passed = now - patience->looked < TICK_MS ? now - patience->looked : TICK_MS;
    patience->looked = now;
    if (beat != patience->beat) {
        patience->beat = beat;
        patience->silent_ms = patience->blocked_ms = 0;
    } else if (cv_process_blocked(guard->supervisor)) {
        patience->blocked_ms += passed;
    } else {
        patience->silent_ms += passed;
    }
    return patience->silent_ms >= STUCK_MS || patience->blocked_ms >= BLOCKED_MS;
}

static void hang_up(struct patience *patience, const struct cv_guard *guard)
{
    patience->hung_up = true;
    patience->beat = atomic_load(guard->beat);
    patience->looked = cv_clock_ms();
}

/* Takes the signals that wait; true when one of them is the request of a collector. */
static bool asked_to_end(int signals)
{
    struct signalfd_siginfo info;
    bool asked = false;
    while (read(signals, &info, sizeof info) > 0)
        asked = asked || info.ssi_signo == SIGTERM;
    return asked;
}

static void wait_for_end(struct cv_guard *guard, int signals)
{
    struct patience patience = {0};
    struct pollfd watched[WATCH_COUNT] = {
        [WATCH_SIGNAL] = {.fd = signals, .events = POLLIN},
        [WATCH_SOCKET] = {.fd = guard->socket, .events = POLLRDHUP},
        [WATCH_HOST] = {.fd = guard->host, .events = POLLIN},
    };
    for (;;) {
        bool ticking = patience.hung_up || guard->parent != 0;
        if (poll(watched, WATCH_COUNT, ticking ? TICK_MS : -1) < 0)
            continue;
        if (watched[WATCH_SIGNAL].revents != 0) {
            if (asked_to_end(signals) || supervisor_ended(guard))
                return;
        }
        bool orphaned = guard->parent != 0 && getppid() != guard->parent;
        if (!patience.hung_up &&
            (watched[WATCH_SOCKET].revents != 0 || watched[WATCH_HOST].revents != 0 || orphaned)) {
            hang_up(&patience, guard);
            /* Both stay readable from now on; a negative descriptor is skipped: poll(2). */
            watched[WATCH_SOCKET].fd = watched[WATCH_HOST].fd = -1;
        }
        if (patience.hung_up && stuck(&patience, guard))
            return;
    }
}

unsigned cv_guard_run(struct cv_guard *guard)
{
    sigset_t awaited;
    sigemptyset(&awaited);
    sigaddset(&awaited, SIGCHLD);
    sigaddset(&awaited, SIGTERM);
    int signals = signalfd(-1, &awaited, SFD_CLOEXEC | SFD_NONBLOCK);
    struct cv_children children;
    cv_children_open(&children);
    if (signals >= 0)
        wait_for_end(guard, signals);
    if (guard->supervisor > 0)
        kill(guard->supervisor, SIGKILL);
    return cv_children_kill_all(&children, KILL_LIMIT_MS, guard->beat);
}
