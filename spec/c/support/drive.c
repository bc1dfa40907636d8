#include "support/drive.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/scratch.h"

#define DRIVES_MAX 32
#define PIDS_MAX 4096

static struct drive *drives[DRIVES_MAX];
static int descriptors_before;

/* ---- what is left ------------------------------------------------------------------------- */

static pid_t youngest_child(pid_t parent)
{
    static pid_t pids[PIDS_MAX];
    struct proc_stat stat;
    int count = proc_children(parent, pids, PIDS_MAX);
    pid_t youngest = 0;
    uint64_t start = 0;
    for (int i = 0; i < count && i < PIDS_MAX; i++) {
        if (proc_stat(pids[i], &stat) && stat.start >= start) {
            start = stat.start;
            youngest = pids[i];
        }
    }
    return youngest;
}

pid_t drive_guard(void)
{
    pid_t pid = youngest_child(getpid());
    if (pid == 0)
        sup_fail("there is no guard");
    return pid;
}

pid_t drive_supervisor(void)
{
    pid_t pid = youngest_child(drive_guard());
    if (pid == 0)
        sup_fail("the guard has no supervisor");
    return pid;
}

int drive_commands(const struct drive *drive)
{
    static pid_t pids[PIDS_MAX];
    return proc_tagged(drive->tag, pids, PIDS_MAX);
}

void drive_wait_commands(struct drive *drive, int count)
{
    int now;
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; (now = drive_commands(drive)) != count;) {
        if (cv_clock_ms() > until)
            sup_fail("%d commands live, not %d", now, count);
        drive_for(drive, 10);
    }
}

const char *drive_folder(const struct drive *drive, unsigned launch, unsigned folder)
{
    char name[32];
    snprintf(name, sizeof name, "w%u.%u", launch, folder);
    return sup_path(drive->base, name);
}

bool drive_folders_left(const struct drive *drive, unsigned launch)
{
    struct stat entry;
    for (unsigned folder = 0; folder < DRIVE_NAMES; folder++) {
        if (lstat(drive_folder(drive, launch, folder), &entry) == 0)
            return true;
    }
    return false;
}

/* ---- life --------------------------------------------------------------------------------- */

struct drive *drive_open(const char *supervisor)
{
    static unsigned count;
    struct drive *drive = calloc(1, sizeof *drive);
    struct cv_err err;
    int slot = 0;
    while (slot < DRIVES_MAX && drives[slot] != NULL)
        slot++;
    assert_true(slot < DRIVES_MAX);
    assert_non_null(drive);
    drives[slot] = drive;
    drive->ops = calloc(DRIVE_OPS_MAX, sizeof *drive->ops);
    assert_non_null(drive->ops);
    snprintf(drive->tag, sizeof drive->tag, "CV_SPEC_TAG=%d.%u", (int)getpid(), ++count);
    scratch_make(drive->temp, false);
    assert_int_equal(chmod(drive->temp, 0755), 0);
    snprintf(drive->base, sizeof drive->base, "%s/base", drive->temp);
    if (supervisor == NULL)
        supervisor = getenv("CHAMVI_SUPERVISOR");
    if (supervisor == NULL)
        sup_fail("CHAMVI_SUPERVISOR is not set");
    if (cv_host_open(&drive->host, supervisor, &err) != 0)
        sup_fail("no host: %s: %s", err.code, err.message);
    drive->open = true;
    return drive;
}

static void free_drive(struct drive *drive)
{
    if (drive->open)
        cv_host_close(&drive->host);
    for (int i = 0; i < DRIVES_MAX; i++) {
        if (drives[i] == drive)
            drives[i] = NULL;
    }
    for (uint32_t id = 0; drive->ops != NULL && id < DRIVE_OPS_MAX; id++) {
        cv_buf_free(&drive->ops[id].text[CV_STDOUT]);
        cv_buf_free(&drive->ops[id].text[CV_STDERR]);
    }
    if (drive->base[0] != '\0')
        scratch_remove(drive->temp);
    free(drive->ops);
    free(drive);
}

void drive_end(struct drive *drive)
{
    pid_t child;
    /* One that nobody reaps is still there for a moment when its end is seen. */
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; proc_children(getpid(), &child, 1) > 0;) {
        if (cv_clock_ms() > until)
            sup_fail("process %d is left as a child", (int)child);
        sup_sleep(1);
    }
    if (drive_commands(drive) > 0)
        sup_fail("%d commands are left", drive_commands(drive));
    free_drive(drive);
    for (int i = 0; i < DRIVES_MAX; i++) {
        if (drives[i] != NULL)
            return; /* the last one counts the descriptors */
    }
    int now = scratch_descriptors();
    if (now != descriptors_before)
        sup_fail("%d descriptors are open, there were %d before", now, descriptors_before);
}

void drive_close_and_reap(struct drive *drive)
{
    cv_host_close(&drive->host);
    drive->open = false;
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; waitpid(-1, NULL, WNOHANG) >= 0;) {
        if (cv_clock_ms() > until)
            sup_fail("a guard lives long after the close");
        sup_sleep(1);
    }
}

int drive_setup(void **state)
{
    (void)state;
    descriptors_before = scratch_descriptors();
    return 0;
}

/* The closed sockets end every supervisor that is left; a fake one may need more. */
static void reap_left(void)
{
    static pid_t pids[PIDS_MAX];
    for (int round = 0; waitpid(-1, NULL, WNOHANG) >= 0; round++) {
        int count = round < 1000 ? 0 : proc_children(getpid(), pids, PIDS_MAX);
        for (int i = 0; i < count && i < PIDS_MAX; i++)
            kill(pids[i], SIGKILL);
        sup_sleep(10);
    }
}

int drive_teardown(void **state)
{
    (void)state;
    for (int i = 0; i < DRIVES_MAX; i++) {
        if (drives[i] != NULL && drives[i]->open)
            cv_host_close(&drives[i]->host);
        if (drives[i] != NULL)
            drives[i]->open = false;
    }
    reap_left();
    for (int i = 0; i < DRIVES_MAX; i++) {
        if (drives[i] != NULL)
            free_drive(drives[i]);
    }
    return 0;
}

/* ---- completions -------------------------------------------------------------------------- */

struct drive_op *drive_of(struct drive *drive, uint32_t id)
{
    if (id == 0 || id >= DRIVE_OPS_MAX)
        sup_fail("no operation has the id %u", id);
    return &drive->ops[id];
}

static void take_chunk(struct drive *drive, struct cv_op *taken, struct drive_op *op)
{
    const struct cv_chunk *chunk = cv_op_chunk(taken);
    if (op->chunks == 0)
        op->chunk_hash[CV_STDOUT] = op->chunk_hash[CV_STDERR] = ACT_HASH_START;
    op->chunks++;
    op->chunk_bytes[chunk->stream] += chunk->length;
    op->chunk_hash[chunk->stream] =
        act_hash(op->chunk_hash[chunk->stream], chunk->bytes, chunk->length);
    cv_host_take_chunk(&drive->host, taken);
}

static void keep_bytes(struct drive_op *op, enum cv_stream_name stream, const void *bytes,
                       size_t length)
{
    cv_buf_init(&op->text[stream], SIZE_MAX / 4);
    assert_int_equal(cv_buf_append(&op->text[stream], bytes, length), 0);
    assert_int_equal(cv_buf_append(&op->text[stream], "", 1), 0);
}

static void keep_text(struct cv_op *taken, struct drive_op *op, enum cv_stream_name stream)
{
    const char *text;
    size_t length;
    assert_int_equal(cv_collector_text(&taken->output[stream], &text, &length), 0);
    keep_bytes(op, stream, text, length);
    op->truncated[stream] = cv_op_truncated(taken, stream);
}

static void take_end(struct drive *drive, struct cv_op *taken, struct drive_op *op)
{
    if (op->ended)
        sup_fail("id %u ended twice", taken->by_id.id);
    assert_true(taken->done);
    op->ended = true;
    op->err = taken->err;
    op->end = taken->ended;
    op->end_ms = cv_clock_ms();
    if (taken->kind == CV_OP_EXEC) {
        keep_text(taken, op, CV_STDOUT);
        keep_text(taken, op, CV_STDERR);
    } else if (taken->kind == CV_OP_READ_FILE && taken->err.code == NULL) {
        keep_bytes(op, CV_STDOUT, cv_buf_data(&taken->content), cv_buf_length(&taken->content));
    }
    cv_host_take(&drive->host, taken);
}

void drive_step(struct drive *drive, int64_t ms)
{
    struct cv_err err;
    struct cv_op *taken;
    if (drive->hold && ms > 0 && cv_host_next(&drive->host) != NULL) {
        sup_sleep(ms > 5 ? 5 : ms); /* a step would not wait */
        ms = 0;
    }
    if (cv_reactor_step(&drive->host.reactor, ms, &err) != 0)
        sup_fail("step: %s: %s", err.code, err.message);
    while ((taken = cv_host_next(&drive->host)) != NULL) {
        struct drive_op *op = drive_of(drive, taken->by_id.id);
        if (cv_op_chunk(taken) == NULL)
            take_end(drive, taken, op);
        else if (drive->hold)
            return;
        else
            take_chunk(drive, taken, op);
    }
}

void drive_for(struct drive *drive, int64_t ms)
{
    int64_t until = cv_clock_ms() + ms;
    for (int64_t now; (now = cv_clock_ms()) < until;)
        drive_step(drive, until - now);
}

static struct drive_op *wait_for(struct drive *drive, uint32_t id, int64_t ms)
{
    struct drive_op *op = drive_of(drive, id);
    for (int64_t until = cv_clock_ms() + ms; !op->ended;) {
        int64_t left = until - cv_clock_ms();
        drive_step(drive, left < 0 ? 0 : left);
        if (!op->ended && left <= 0)
            sup_fail("id %u has not ended after %d ms", id, (int)ms);
    }
    return op;
}

static struct drive_op *expect(struct drive_op *op, uint32_t id, const char *code)
{
    const char *got = op->err.code;
    bool same = got == NULL || code == NULL ? got == code : strcmp(got, code) == 0;
    if (!same)
        sup_fail("id %u: %s (%s) instead of %s", id, got == NULL ? "success" : got,
                 got == NULL ? "" : op->err.message, code == NULL ? "success" : code);
    if (got != NULL && (op->err.message[0] == '\0' || strpbrk(op->err.message, "\n\r\x1b") != NULL))
        sup_fail("id %u: the message is not one line", id);
    return op;
}

struct drive_op *drive_wait(struct drive *drive, uint32_t id)
{
    return wait_for(drive, id, SUP_PATIENCE_MS);
}

struct drive_op *drive_wait_now(struct drive *drive, uint32_t id)
{
    return wait_for(drive, id, 0);
}

struct drive_op *drive_expect(struct drive *drive, uint32_t id, const char *code)
{
    bool lost = code != NULL && strcmp(code, "transport_lost") == 0;
    return expect(wait_for(drive, id, lost ? DRIVE_SEEN_MS : SUP_PATIENCE_MS), id, code);
}

struct drive_op *drive_expect_now(struct drive *drive, uint32_t id, const char *code)
{
    return expect(wait_for(drive, id, 0), id, code);
}

void drive_expect_exit(struct drive *drive, uint32_t id, uint32_t code, const char *out,
                       const char *err)
{
    struct drive_op *op = drive_expect(drive, id, NULL);
    assert_int_equal(op->end.how, CV_ENDED_EXITED);
    assert_int_equal(op->end.value, code);
    assert_string_equal((const char *)cv_buf_data(&op->text[CV_STDOUT]), out);
    assert_string_equal((const char *)cv_buf_data(&op->text[CV_STDERR]), err);
}

/* ---- operations --------------------------------------------------------------------------- */

static uint32_t launch_with(struct drive *drive, unsigned launch, uint32_t flags)
{
    char names[64];
    char env[256];
    struct cv_err err;
    uint32_t workspace = 0;
    size_t length = 0;
    for (unsigned folder = 0; folder < DRIVE_NAMES; folder++)
        length += (size_t)sprintf(names + length, "w%u.%u", launch, folder) + 1;
    int env_length =
        snprintf(env, sizeof env, "%s%cPATH=/usr/local/bin:/usr/bin:/bin", drive->tag, '\0');
    struct cv_hello hello = {
        .flags = flags,
        .base = drive->base,
        .names = {.bytes = names, .length = length, .count = DRIVE_NAMES},
        .env = {.bytes = env, .length = (size_t)env_length + 1, .count = 2},
    };
    uint32_t id = cv_host_launch(&drive->host, &hello, -1, &workspace, &err);
    if (id == 0)
        sup_fail("no launch: %s: %s", err.code, err.message);
    assert_int_equal(id, workspace);
    return id;
}

uint32_t drive_launch(struct drive *drive)
{
    return launch_with(drive, ++drive->launches, CV_HELLO_CREATE);
}

uint32_t drive_launch_removal(struct drive *drive, unsigned launch)
{
    return launch_with(drive, launch, CV_HELLO_REMOVE_ONLY);
}

uint32_t drive_ready(struct drive *drive)
{
    uint32_t id = drive_launch(drive);
    drive_expect(drive, id, NULL);
    return id;
}

uint32_t drive_exec(struct drive *drive, uint32_t workspace, const struct drive_exec *exec)
{
    struct cv_buf joined;
    struct cv_err err;
    struct cv_exec_request request = {
        .cwd = exec->cwd == NULL ? "" : exec->cwd,
        .timeout_ms = exec->timeout_ms == 0 ? SUP_NO_LIMIT_MS : exec->timeout_ms,
        .cap = exec->cap == 0 ? DRIVE_CAP : exec->cap,
        .stdin_bytes = exec->stdin_bytes,
        .stdin_length = exec->stdin_length,
        .stream_all = exec->stream_all,
    };
    cv_buf_init(&joined, SIZE_MAX / 4);
    for (; exec->argv[request.argv.count] != NULL; request.argv.count++) {
        const char *argument = exec->argv[request.argv.count];
        assert_int_equal(cv_buf_append(&joined, argument, strlen(argument) + 1), 0);
    }
    request.argv.bytes = (const char *)cv_buf_data(&joined);
    request.argv.length = cv_buf_length(&joined);
    uint32_t id = cv_host_exec(&drive->host, workspace, &request, &err);
    cv_buf_free(&joined);
    if (id == 0)
        sup_fail("no exec: %s: %s", err.code, err.message);
    return id;
}

uint32_t drive_sh(struct drive *drive, uint32_t workspace, const char *script)
{
    return drive_exec(drive, workspace,
                      &(struct drive_exec){.argv = SUP_LIST("/bin/sh", "-c", script)});
}

uint32_t drive_read(struct drive *drive, uint32_t workspace, const char *path)
{
    struct cv_err err;
    uint32_t id = cv_host_read_file(&drive->host, workspace, path, CV_FILE_MAX, &err);
    if (id == 0)
        sup_fail("no read: %s: %s", err.code, err.message);
    return id;
}

uint32_t drive_write(struct drive *drive, uint32_t workspace, const char *path, const void *bytes,
                     size_t length)
{
    struct cv_err err;
    uint32_t id = cv_host_write_file(&drive->host, workspace, path, bytes, length, &err);
    if (id == 0)
        sup_fail("no write: %s: %s", err.code, err.message);
    return id;
}

uint32_t drive_removal(struct drive *drive, uint32_t workspace)
{
    struct cv_err err;
    uint32_t id = cv_host_remove(&drive->host, workspace, &err);
    if (id == 0)
        sup_fail("no removal: %s: %s", err.code, err.message);
    return id;
}

void drive_remove(struct drive *drive, uint32_t workspace, const char *code)
{
    drive_expect(drive, drive_removal(drive, workspace), code);
}

#define STAYS_PRINTS "began\n"
#define STAYS_COMPLAINS "went on\n"
#define STAYS "echo began; setsid sleep 1000 & sleep 1000 & echo went on >&2; exec sleep 1000"

/* All that STAYS prints has come. */
static bool has_printed(struct drive *drive, uint32_t id)
{
    size_t lengths[2] = {0};
    const char *text;
    struct cv_idnode *node = cv_idmap_find(&drive->host.ops, id);
    struct cv_op *op = node == NULL ? NULL : cv_list_entry(node, struct cv_op, by_id);
    for (int i = CV_STDOUT; op != NULL && i <= CV_STDERR; i++)
        assert_int_equal(cv_collector_text(&op->output[i], &text, &lengths[i]), 0);
    return lengths[CV_STDOUT] == strlen(STAYS_PRINTS) &&
           lengths[CV_STDERR] == strlen(STAYS_COMPLAINS);
}

uint32_t drive_start_staying(struct drive *drive, uint32_t workspace)
{
    const int asleep = proc_running(drive->tag, "sleep") + DRIVE_STAYS;
    uint32_t id = drive_sh(drive, workspace, STAYS);
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
         proc_running(drive->tag, "sleep") != asleep || !has_printed(drive, id);) {
        if (cv_clock_ms() > until)
            sup_fail("the command that stays is late");
        drive_for(drive, 5);
    }
    return id;
}

static void expect_stays_text(struct drive_op *op)
{
    assert_string_equal((const char *)cv_buf_data(&op->text[CV_STDOUT]), STAYS_PRINTS);
    assert_string_equal((const char *)cv_buf_data(&op->text[CV_STDERR]), STAYS_COMPLAINS);
}

void drive_expect_cut(struct drive *drive, uint32_t id, const char *code)
{
    expect_stays_text(drive_expect(drive, id, code));
}

void drive_expect_cut_now(struct drive *drive, uint32_t id, const char *code)
{
    expect_stays_text(drive_expect_now(drive, id, code));
}

void drive_wait_lost(struct drive *drive, uint32_t workspace)
{
    pid_t child = 0;
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS;
         !cv_host_lost(&drive->host, workspace) || proc_children(getpid(), &child, 1) > 0;) {
        if (cv_clock_ms() > until)
            sup_fail("workspace %u is not lost, or process %d is left", workspace, (int)child);
        drive_for(drive, 5);
    }
}

void drive_wait_folders_gone(struct drive *drive, unsigned launch)
{
    for (int64_t until = cv_clock_ms() + SUP_PATIENCE_MS; drive_folders_left(drive, launch);) {
        if (cv_clock_ms() > until)
            sup_fail("the folders of launch %u are still there", launch);
        if (drive->open)
            drive_for(drive, 5);
        else
            sup_sleep(5);
    }
}
