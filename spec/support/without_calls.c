/*
 * Runs a program as on an older kernel, or under an older filter: the named system calls fail in it
 * and in all that it starts.
 *
 *   without_calls ENOSYS|EPERM call... -- program argument...
 */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define CALLS_MAX 16

static const struct {
    const char *name;
    unsigned number;
} calls[] = {
    {"clone3", SYS_clone3},
    {"close_range", SYS_close_range},
    {"openat2", SYS_openat2},
    {"pidfd_open", SYS_pidfd_open},
    {"pidfd_send_signal", SYS_pidfd_send_signal},
};

/* A filter that let a call through would prove nothing. */
static int is_lost(const char *name, unsigned errnum)
{
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, name) == 0)
            return syscall(calls[i].number, -1, 0, 0, 0) == -1 && errno == (int)errnum;
    }
    return 0;
}

static const struct sock_filter *code_of(const char *name)
{
    static struct sock_filter jump;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        if (strcmp(calls[i].name, name) != 0)
            continue;
        jump = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, calls[i].number, 0, 1);
        return &jump;
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct sock_filter code[2 + 2 * CALLS_MAX] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr))};
    unsigned short length = 1;
    unsigned errnum = argc > 1 && strcmp(argv[1], "EPERM") == 0 ? EPERM : ENOSYS;
    int at = 2;
    for (; at < argc && strcmp(argv[at], "--") != 0; at++) {
        const struct sock_filter *jump = code_of(argv[at]);
        if (jump == NULL || at >= 2 + CALLS_MAX) {
            fprintf(stderr, "without_calls: unknown system call %s\n", argv[at]);
            return 2;
        }
        code[length++] = *jump;
        code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | errnum);
    }
    if (at + 1 >= argc) {
        fputs("usage: without_calls ENOSYS|EPERM call... -- program argument...\n", stderr);
        return 2;
    }
    code[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    const struct sock_fprog program = {.len = length, .filter = code};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("without_calls: seccomp");
        return 2;
    }
    for (int i = 2; i < at; i++) {
        if (!is_lost(argv[i], errnum)) {
            fprintf(stderr, "without_calls: %s is still there\n", argv[i]);
            return 2;
        }
    }
    execvp(argv[at + 1], argv + at + 1);
    perror(argv[at + 1]);
    return 127;
}
