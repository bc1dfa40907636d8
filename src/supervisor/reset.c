#include "supervisor/reset.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/linux.h"

/* The kernel's struct sigaction has at most this size; all zero is SIG_DFL without flags. */
#define KERNEL_SIGACTION_MAX 64
#define KERNEL_SIGSET_SIZE 8
#define LAST_SIGNAL 64
/* The kernel's default for every process: Documentation of PR_SET_TIMERSLACK, prctl(2). */
#define DEFAULT_TIMER_SLACK_NS 50000UL

/*
 * By system call, since libc hides signals 32 and 33 from its callers, and glibc's posix_spawn
 * leaves them ignored in the child.
 */
static void reset_signals(void)
{
    static const uint8_t action[KERNEL_SIGACTION_MAX];
    for (int signal = 1; signal <= LAST_SIGNAL; signal++)
        syscall(SYS_rt_sigaction, signal, action, NULL, KERNEL_SIGSET_SIZE);
    const uint64_t all = ~(uint64_t)0;
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, &all, NULL, KERNEL_SIGSET_SIZE);
}

static void raise_file_limit(struct rlimit *inherited)
{
    *inherited = (struct rlimit){.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
    if (getrlimit(RLIMIT_NOFILE, inherited) != 0)
        return;
    struct rlimit raised = {.rlim_cur = inherited->rlim_max, .rlim_max = inherited->rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
}

static bool null_standard_streams(void)
{
    int null = open("/dev/null", O_RDWR);
    if (null < 0)
        return false;
    for (int fd = 0; fd <= 2; fd++)
        dup2(null, fd);
    if (null > 2)
        close(null);
    return true;
}

void cv_reset_forked(void)
{
    prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

bool cv_reset_process(int first, struct rlimit *inherited)
{
    cv_reset_forked();
    reset_signals();
    umask(022);
    prctl(PR_SET_TIMERSLACK, DEFAULT_TIMER_SLACK_NS, 0, 0, 0);
    prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0);
    setsid();
    cv_fd_close_from(first);
    raise_file_limit(inherited);
    return null_standard_streams() && chdir("/") == 0;
}
