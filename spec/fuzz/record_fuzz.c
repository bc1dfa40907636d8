/*
 * The folder of the records as hostile commands may leave it: entries of any name, kind, owner and
 * content. The input is the number of the allocation that fails, two bytes, and a list of entries,
 * see `put_entry`.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/record.h"
#include "require.h"
#include "support/box.h"
#include "support/input.h"
#include "support/mutate.h"
#include "torture.h"

#define ROOT "/records"
#define OUTSIDE "/outside"
#define ENTRIES_MAX 16
#define NAME "00112233-4455-6677-8899-aabbccddeeff.json"
#define NAME_LENGTH (sizeof NAME - 1)
#define SOMEONE_ELSE 65534
#define LENGTH_MAX (2 * CV_RECORD_MAX)

struct entry {
    char name[64];
    bool readable; /* a plain file of this user that is not too long */
    size_t length;
    uint8_t fill;
    bool is_folder; /* and stays: a record is none */
    bool seen;
};

static struct entry entries[ENTRIES_MAX];
static size_t count;

/* ---- the folder ----------------------------------------------------------------------------- */

static void write_file(const char *name, size_t length, uint8_t fill)
{
    static uint8_t bytes[LENGTH_MAX];
    memset(bytes, fill, length);
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    REQUIRE(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    close(fd);
}

/* The name of a record, such a one with some bytes changed, or any. */
static void choose_name(struct input *input, char name[64])
{
    uint8_t how = next_byte(input);
    size_t length = how % 16;
    const uint8_t *bytes = next_bytes(input, &length);
    strcpy(name, NAME);
    name[0] = (char)('0' + how / 16 % 10);
    if (how >= 0xe0 && length > 0) {
        memcpy(name, bytes, length);
        name[length] = '\0';
    } else if (how >= 0x80) { /* pairs of a place and a byte */
        for (size_t i = 0; i + 1 < length; i += 2)
            name[bytes[i] % NAME_LENGTH] = (char)bytes[i + 1];
    }
}

static void put_entry(struct input *input)
{
    static const size_t lengths[] = {0, 1, 200, 4096, CV_RECORD_MAX, CV_RECORD_MAX + 1, LENGTH_MAX};
    struct entry *entry = &entries[count];
    struct stat info;
    uint8_t kind = next_byte(input);
    *entry = (struct entry){.fill = next_byte(input)};
    entry->length = lengths[kind / 8 % 7];
    choose_name(input, entry->name);
    if (entry->name[0] == '\0' || strchr(entry->name, '/') != NULL)
        return;
    /* Absolute: a signal may leave the box for a moment, and the working directory with it. */
    char name[sizeof ROOT + sizeof entry->name];
    snprintf(name, sizeof name, ROOT "/%s", entry->name);
    if (lstat(name, &info) == 0)
        return;
    switch (kind % 8) {
    case 0:
        REQUIRE(symlink(OUTSIDE, name) == 0);
        break;
    case 1:
        REQUIRE(mkfifo(name, 0600) == 0);
        break;
    case 2:
        REQUIRE(mkdir(name, 0700) == 0);
        entry->is_folder = true;
        break;
    case 3:
        write_file(name, entry->length, entry->fill);
        entry->readable =
            chown(name, SOMEONE_ELSE, (gid_t)-1) != 0 && entry->length <= CV_RECORD_MAX;
        break;
    default:
        write_file(name, entry->length, entry->fill);
        entry->readable = entry->length <= CV_RECORD_MAX;
        break;
    }
    count++;
}

/* ---- what must be read ---------------------------------------------------------------------- */

/* A second opinion on the form of names. */
static bool names_record(const char *name)
{
    static const char form[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx.json";
    if (strlen(name) != NAME_LENGTH)
        return false;
    for (size_t i = 0; form[i] != '\0'; i++) {
        if (form[i] == 'x' ? strchr("0123456789abcdef", name[i]) == NULL : name[i] != form[i])
            return false;
    }
    return true;
}

static struct entry *entry_of(const char *id)
{
    for (size_t i = 0; i < count; i++) {
        if (names_record(entries[i].name) && strncmp(entries[i].name, id, CV_UUID_SIZE - 1) == 0)
            return &entries[i];
    }
    return NULL;
}

static void check_record(const struct cv_record *record, bool failing)
{
    struct entry *entry = entry_of(record->id);
    size_t length = cv_buf_length(&record->text);
    REQUIRE(cv_record_id_valid(record->id) && entry != NULL && !entry->seen);
    entry->seen = true;
    REQUIRE(record->modified_ms > 0);
    REQUIRE(length == (entry->readable ? entry->length : 0) || (failing && length == 0));
    for (size_t i = 0; i < length; i++)
        REQUIRE(cv_buf_data(&record->text)[i] == entry->fill);
}

static void read_records(unsigned long failing)
{
    struct cv_records records;
    struct cv_err err = {0};
    size_t expected = 0;
    for (size_t i = 0; i < count; i++)
        expected += names_record(entries[i].name);
    torture_fail(failing);
    int read = cv_records_read(ROOT, &records, &err);
    bool struck = torture_struck();
    torture_fail(0);
    REQUIRE(read == 0 || (struck && strcmp(err.code, "gc_failed") == 0));
    REQUIRE(records.count <= expected && (read != 0 || records.count == expected));
    for (size_t i = 0; i < records.count; i++)
        check_record(&records.list[i], struck);
    cv_records_free(&records);
}

/* Nobody holds a record here; one that is made can be opened and dropped. */
static void use_record(const struct entry *entry)
{
    char id[CV_UUID_SIZE];
    struct cv_err err;
    memcpy(id, entry->name, CV_UUID_SIZE - 1);
    id[CV_UUID_SIZE - 1] = '\0';
    REQUIRE(cv_record_create(ROOT, id, "{}", 2, &err) == -1); /* it exists */
    pid_t holder;
    REQUIRE(cv_record_owner(ROOT, id, &holder) == -1 && errno == ESRCH && holder == 0);
    int fd = cv_record_open(ROOT, id);
    REQUIRE(fd >= 0 || !entry->readable);
    if (fd >= 0)
        close(fd);
    cv_record_drop(ROOT, id);
    fd = cv_record_create(ROOT, id, "{}", 2, &err);
    REQUIRE(fd >= 0 || entry->is_folder);
    if (fd >= 0)
        close(fd);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc;
    (void)argv;
    box_make();
    return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max, unsigned seed)
{
    static const uint8_t lengths[] = {3, 5, 7, 11};
    return mutate_actions(data, size, max, seed, 2, lengths, sizeof lengths);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct input input = {bytes, size};
    unsigned long failing = next_byte(&input);
    failing |= (unsigned long)next_byte(&input) << 8;
    count = 0;
    torture_fail(0);
    box_enter();
    REQUIRE(mkdir(ROOT, 0700) == 0);
    write_file(OUTSIDE, 10, 'o');
    while (input.left > 0 && count < ENTRIES_MAX)
        put_entry(&input);
    read_records(failing);
    for (size_t i = 0; i < count; i++) {
        if (names_record(entries[i].name))
            use_record(&entries[i]);
    }
    box_leave();
    box_clear();
    return 0;
}
