/*
 * What the supervisor reads of /proc: the line of a process, whose name any command chooses, and
 * the list of its children. The parsers are a file's own, so that file is included.
 *
 * The input is used three times: as the name of this process, whose parent must be found anyhow; as
 * a whole line; and as numbers for a list that is longer than one read.
 */
#include "supervisor/children.c"

#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include "require.h"

#define NAME_MAX_BYTES 15
#define PIDS_MAX 2048

static int proc;
static char folder[] = "/tmp/chamvi-fuzz-XXXXXX";
static int fake;
static int list;
static long expected[PIDS_MAX];
static unsigned seen;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void remove_folder(void)
{
    unlinkat(fake, "1/stat", 0);
    unlinkat(fake, "1", AT_REMOVEDIR);
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    list = memfd_create("children", MFD_CLOEXEC);
    REQUIRE(proc >= 0 && list >= 0 && mkdtemp(folder) != NULL);
    atexit(remove_folder);
    fake = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(fake >= 0 && mkdirat(fake, "1", 0700) == 0);
    return 0;
}

static void check_name(const uint8_t *data, size_t size)
{
    char name[NAME_MAX_BYTES + 1];
    char old[NAME_MAX_BYTES + 1];
    size_t length = size < NAME_MAX_BYTES ? size : NAME_MAX_BYTES;
    if (length > 0)
        memcpy(name, data, length);
    name[length] = '\0';
    prctl(PR_GET_NAME, old, 0, 0, 0);
    prctl(PR_SET_NAME, name, 0, 0, 0);
    REQUIRE(parent_of(proc, "self") == getppid());
    prctl(PR_SET_NAME, old, 0, 0, 0);
}

static void check_line(const uint8_t *data, size_t size)
{
    int fd = openat(fake, "1/stat", O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    close(fd);
    (void)parent_of(fake, "1");
}

static void check_child(pid_t child, void *context)
{
    (void)context;
    REQUIRE(child == expected[seen]);
    seen++;
}

/* Each byte is a number of 1 to 7 digits. */
static void check_list(const uint8_t *data, size_t size)
{
    static char text[PIDS_MAX * 9];
    size_t length = 0;
    unsigned count = 0;
    for (size_t i = 0; i < size && count < PIDS_MAX; i++, count++) {
        expected[count] = 1 + data[i];
        for (unsigned digits = data[i] % 5; digits > 0; digits--)
            expected[count] = expected[count] * 10 + digits;
        length += (size_t)snprintf(text + length, sizeof text - length, "%ld ", expected[count]);
    }
    REQUIRE(ftruncate(list, 0) == 0 && pwrite(list, text, length, 0) == (ssize_t)length);
    seen = 0;
    REQUIRE(visit_list(list, check_child, NULL) == count && seen == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    check_name(data, size);
    check_line(data, size);
    check_list(data, size);
    return 0;
}
