/*
 * chamvi-supervisor: runs the commands of one workspace and sees to it that none outlives it.
 *
 * Started by the library with a socket to the host as descriptor 4 and a pidfd of the host as
 * descriptor 3. The arguments say what differs: "no-pidfd" (descriptor 3 is anything), "record"
 * or "removal" (descriptor 5 is the record of the workspace, to be locked while it lives, or while
 * it is removed). This process becomes the guard, and its child the supervisor. It ends with status
 * 0 once everything is dead, and with CV_GUARD_LEFT_SOME where that could not be reached.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/linux.h"
#include "proto/supervise/frame.h"
#include "proto/supervise/message.h"
#include "supervisor/guard.h"
#include "supervisor/reset.h"
#include "supervisor/session.h"

#define HOST_PIDFD 3
#define HOST_SOCKET 4
#define RECORD 5
#define EXIT_USAGE 2
#define EXIT_SETUP 1

static bool is_socket(int fd)
{
    int type;
    socklen_t size = sizeof type;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0;
}

/*
 * pidfd_send_signal(2) says EBADF for whatever is no pidfd. Where the call is missing or filtered
 * there is no telling.
 */
static bool is_pidfd(int fd)
{
    return cv_pidfd_signal(fd, 0) == 0 || errno != EBADF;
}

/*
 * Locks a byte of the record for as long as this process lives (fcntl(2): a record lock is the
 * process's, not its child's). A collector learns from the first who looks after the workspace; the
 * second keeps two of them from removing the same one.
 */
static int lock_record(int fd, bool removal)
{
    const struct flock lock = {
        .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = removal ? 1 : 0, .l_len = 1};
    return fcntl(fd, F_SETLK, &lock) == 0 ? 0 : errno;
}

static bool has_argument(int argc, char **argv, const char *argument)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], argument) == 0)
            return true;
    }
    return false;
}

/* Tells the host why there will be no supervisor: in place of the answer to its hello. */
static int refuse(int errnum, const char *text)
{
    uint8_t frame[CV_FRAME_HEADER_SIZE + 8 + CV_FAILURE_TEXT_MAX];
    const struct cv_failure failure = {
        .code = CV_FAILURE_SETUP, .errnum = (uint32_t)errnum, .text = text, .length = strlen(text)};
    size_t length = cv_failure_encode(frame + CV_FRAME_HEADER_SIZE, &failure);
    cv_frame_header(frame, CV_FRAME_ERROR, 0, 0, (uint32_t)length);
    /* The socket is new, so it has room; a host that is gone needs no answer. */
    (void)!write(HOST_SOCKET, frame, CV_FRAME_HEADER_SIZE + length);
    return EXIT_SETUP;
}

static void close_on_exec(int fd)
{
    fcntl(fd, F_SETFD, FD_CLOEXEC);
}

/* The supervisor: everything below it dies before it does, then the guard is told to look. */
static void run_supervisor(const struct cv_session_config *config)
{
    cv_reset_forked();
    prctl(PR_SET_NAME, "chamvi-super", 0, 0, 0);
    cv_session_run(config);
    /* A guard that a command has stopped must see the end, or it would hold the stream open. */
    bool told = config->guard >= 0 && cv_pidfd_signal(config->guard, SIGCONT) == 0;
    if (!told && getppid() == config->guard_pid)
        kill(config->guard_pid, SIGCONT);
}

int main(int argc, char **argv)
{
    bool with_pidfd = !has_argument(argc, argv, "no-pidfd");
    bool removal = has_argument(argc, argv, "removal");
    bool with_record = removal || has_argument(argc, argv, "record");
    if (!is_socket(HOST_SOCKET) || (with_pidfd && !is_pidfd(HOST_PIDFD))) {
        fputs("chamvi-supervisor is started by the chamvi-sandbox library, not by hand\n", stderr);
        return EXIT_USAGE;
    }
    const pid_t host = getppid();
    struct cv_session_config config = {
        .input = HOST_SOCKET,
        .output = HOST_SOCKET,
        .host = with_pidfd ? HOST_PIDFD : -1,
    };
    if (!cv_reset_process(with_record ? RECORD + 1 : RECORD, &config.files))
        return refuse(errno, "setting up the workspace's guard");
    if (with_record) {
        close_on_exec(RECORD);
        config.record_errno = lock_record(RECORD, removal);
    }
    prctl(PR_SET_NAME, "chamvi-guard", 0, 0, 0);
    /* A command may have stopped it, and a dead host continues nobody. Where only the thread that
       started it has ended, the signal does nothing: prctl(2). */
    prctl(PR_SET_PDEATHSIG, SIGCONT, 0, 0, 0);
    close_on_exec(HOST_PIDFD);
    close_on_exec(HOST_SOCKET);
    config.guard_pid = getpid();
    config.guard = cv_pidfd_open(config.guard_pid);
    config.beat =
        mmap(NULL, sizeof *config.beat, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (config.beat == MAP_FAILED)
        return refuse(errno, "setting up the workspace's guard");
    pid_t supervisor = fork();
    if (supervisor < 0)
        return refuse(errno, "starting the workspace's supervisor");
    if (supervisor == 0) {
        run_supervisor(&config);
        _exit(0);
    }
    struct cv_guard guard = {
        .supervisor = supervisor,
        .socket = HOST_SOCKET,
        .host = config.host,
        .parent = with_pidfd ? 0 : host,
        .beat = config.beat,
    };
    return cv_guard_run(&guard) == 0 ? 0 : CV_GUARD_LEFT_SOME;
}
