#include "support/box.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fs/remove.h"
#include "require.h"

/* For scripts/fuzz: EX_UNAVAILABLE of sysexits.h, which neither libFuzzer nor a sanitizer ends
 * with. */
#define EXIT_SKIPPED 69

static char path[PATH_MAX];
static int box = -1;
static int outer_root;
static int outer_cwd;
static bool inside;

static void write_file(const char *name, const char *text)
{
    int fd = open(name, O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

/* Root of a namespace of its own, where that is possible. */
static bool become_root(void)
{
    char map[64];
    snprintf(map, sizeof map, "0 %ld 1", (long)geteuid());
    if (unshare(CLONE_NEWUSER) != 0)
        return false;
    write_file("/proc/self/uid_map", map);
    return true;
}

static void remove_box(void)
{
    char *name = strrchr(path, '/');
    *name = '\0';
    int parent = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    if (cv_remove_tree(parent, name + 1, NULL, NULL) != 0)
        perror("removing the fuzzer's folder");
}

void box_make(void)
{
    outer_root = open("/", O_PATH | O_DIRECTORY | O_CLOEXEC);
    outer_cwd = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
    bool root = geteuid() == 0 || become_root();
    if (!root || outer_root < 0 || outer_cwd < 0 || chroot("/") != 0) {
        fputs("skipped: neither root nor user namespaces, so that inputs can't be locked in\n",
              stderr);
        exit(EXIT_SKIPPED);
    }
    snprintf(path, sizeof path, "%s/chamvi-fuzz-XXXXXX",
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    REQUIRE(mkdtemp(path) != NULL);
    box = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(box >= 0);
    atexit(remove_box);
}

/* libFuzzer's handler, which writes down an input that takes too long. */
static struct sigaction outer_alarm;

static void on_alarm(int signal, siginfo_t *info, void *context)
{
    bool was_inside = inside;
    box_leave();
    outer_alarm.sa_sigaction(signal, info, context);
    if (was_inside)
        box_enter();
}

static void take_alarm(void)
{
    const struct sigaction ours = {.sa_sigaction = on_alarm, .sa_flags = SA_SIGINFO};
    static bool taken;
    if (taken)
        return;
    taken = true;
    sigaction(SIGALRM, NULL, &outer_alarm);
    if ((outer_alarm.sa_flags & SA_SIGINFO) != 0)
        sigaction(SIGALRM, &ours, NULL);
}

void box_enter(void)
{
    take_alarm();
    REQUIRE(fchdir(box) == 0 && chroot(".") == 0);
    inside = true;
}

void box_leave(void)
{
    if (!inside)
        return;
    inside = false;
    REQUIRE(fchdir(outer_root) == 0 && chroot(".") == 0 && fchdir(outer_cwd) == 0);
}

void box_clear(void)
{
    DIR *stream = fdopendir(openat(box, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(stream != NULL);
    const struct dirent *entry;
    while ((entry = readdir(stream)) != NULL) {
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0)
            REQUIRE(cv_remove_tree(box, entry->d_name, NULL, NULL) == 0);
    }
    closedir(stream);
}

/* Called by the sanitizers: sanitizer/asan_interface.h, ubsan_interface.h. */
void __asan_on_error(void);
void __asan_on_error(void)
{
    box_leave();
}

void __ubsan_on_report(void);
void __ubsan_on_report(void)
{
    box_leave();
}
