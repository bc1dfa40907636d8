#include "support/fake.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/supervise/message.h"
#include "proto/supervise/wire.h"
#include "support/scratch.h"

/* ---- in the test -------------------------------------------------------------------------- */

static char folder[PATH_MAX];

const char *fake_program(const char *name)
{
    char script[2 * PATH_MAX];
    if (folder[0] == '\0')
        scratch_make(folder, false);
    const char *path = sup_path(folder, name);
    int length =
        snprintf(script, sizeof script, "#!/bin/sh\nexec '%s' fake '%s'\n", sup_self(), name);
    if (access(path, F_OK) != 0)
        sup_write_file(folder, name, script, (size_t)length, 0755);
    return path;
}

int fake_clean(void **state)
{
    (void)state;
    if (folder[0] != '\0')
        scratch_remove(folder);
    folder[0] = '\0';
    return 0;
}

uint32_t fake_ready(struct drive *drive)
{
    uint32_t workspace = drive_launch(drive);
    drive_expect(drive, workspace, NULL);
    return workspace;
}

void fake_run_both(struct drive *drive, uint32_t workspace, uint32_t ids[2])
{
    static uint8_t input[FAKE_INPUT];
    for (size_t i = 0; i < FAKE_INPUT; i++)
        input[i] = act_print_byte(i);
    ids[1] = drive_sh(drive, workspace, "exit 0");
    ids[0] = drive_exec(drive, workspace,
                        &(struct drive_exec){.argv = SUP_LIST("cat"),
                                             .stdin_bytes = input,
                                             .stdin_length = FAKE_INPUT,
                                             .stream_all = true});
}

static void misbehave(void **state)
{
    const struct fake *fake = *state;
    uint32_t ids[2];
    struct drive *drive = drive_open(fake_program(fake->name));
    uint32_t workspace = drive_launch(drive);
    struct drive_op *launch = drive_expect(drive, workspace, fake->launch);
    if (launch->err.code == NULL) {
        fake_run_both(drive, workspace, ids);
        struct drive_op *op = drive_expect(drive, ids[0], fake->first);
        assert_int_equal(op->end.value, 0);
        drive_expect(drive, ids[1], fake->second);
        drive_remove(drive, workspace, fake->removal);
    }
    assert_true(cv_host_lost(&drive->host, workspace));
    drive_end(drive);
}

int fake_run_tests(const struct fake *fakes, size_t count)
{
    struct CMUnitTest *tests = calloc(count, sizeof *tests);
    if (tests == NULL)
        abort();
    for (size_t i = 0; i < count; i++)
        tests[i] = (struct CMUnitTest){fakes[i].name, misbehave, drive_setup, drive_teardown,
                                       (void *)&fakes[i]};
    int failed = _cmocka_run_group_tests("fakes", tests, count, NULL, fake_clean);
    free(tests);
    return failed;
}

/* ---- in the fake supervisor --------------------------------------------------------------- */

const uint8_t fake_zeros[CV_FRAME_PAYLOAD_MAX];
uint32_t fake_first;
uint32_t fake_second;
static struct cv_frame_reader reader;
static struct cv_assembler assembler;

void fake_behave(int argc, char **argv, const struct fake *fakes, size_t count)
{
    if (argc != 3 || strcmp(argv[1], "fake") != 0)
        return;
    fcntl(FAKE_SOCKET, F_SETFL, 0); /* blocking is simpler here */
    cv_frame_reader_init(&reader, 'h');
    cv_assembler_init(&assembler, CV_MESSAGE_MAX);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(fakes[i].name, argv[2]) == 0)
            fakes[i].run();
    }
    /* Without the leak check of a sanitizer, which the host's SIGCONT can hold up for ever. */
    _exit(0);
}

static size_t receive(void)
{
    static uint8_t chunk[65536];
    ssize_t got;
    do {
        got = read(FAKE_SOCKET, chunk, sizeof chunk);
    } while (got < 0 && errno == EINTR);
    if (got <= 0)
        _exit(0);
    cv_frame_reader_push(&reader, chunk, (size_t)got);
    return (size_t)got;
}

const struct cv_frame *fake_take(uint8_t type)
{
    static struct cv_frame frame;
    for (;;) {
        int next = cv_frame_reader_next(&reader, &frame);
        if (next == 0)
            receive();
        else if (next < 0 || (next = cv_assembler_add(&assembler, &frame)) < 0)
            _exit(96);
        else if (next > 0 && (type == 0 || frame.type == type))
            return &frame;
    }
}

void fake_send(const void *bytes, size_t length)
{
    const uint8_t *at = bytes;
    while (length > 0) {
        ssize_t sent = send(FAKE_SOCKET, at, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent < 0)
            _exit(0);
        at += sent;
        length -= (size_t)sent;
    }
}

void fake_say_flagged(uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t length)
{
    static uint8_t frame[CV_FRAME_MAX];
    cv_frame_header(frame, type, flags, id, (uint32_t)length);
    if (length > 0)
        memcpy(frame + CV_FRAME_HEADER_SIZE, payload, length);
    fake_send(frame, CV_FRAME_HEADER_SIZE + length);
}

void fake_say(uint8_t type, uint32_t id, const void *payload, size_t length)
{
    fake_say_flagged(type, 0, id, payload, length);
}

void fake_say_u32(uint8_t type, uint32_t id, uint32_t value)
{
    uint8_t payload[CV_U32_SIZE];
    cv_wire_put_u32(payload, value);
    fake_say(type, id, payload, sizeof payload);
}

void fake_ended(uint32_t id, uint32_t code)
{
    uint8_t payload[CV_ENDED_SIZE];
    cv_ended_encode(payload, &(struct cv_ended){.how = CV_ENDED_EXITED, .value = code});
    fake_say(CV_FRAME_ENDED, id, payload, sizeof payload);
}

void fake_failure(uint32_t id, uint32_t code, const char *text)
{
    uint8_t payload[8 + CV_FAILURE_TEXT_MAX];
    const struct cv_failure failure = {.code = code, .text = text, .length = strlen(text)};
    size_t length = cv_failure_encode(payload, &failure);
    fake_say(CV_FRAME_ERROR, id, payload, length);
}

void fake_greet(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_say_u32(CV_FRAME_READY, 0, CV_FRAME_VERSION);
}

/* The second is started first, so that no stdin of the first is skipped. */
void fake_start_both(void)
{
    fake_greet();
    fake_second = fake_take(CV_FRAME_START)->id;
    fake_first = fake_take(CV_FRAME_START)->id;
}

void fake_end_both(void)
{
    fake_start_both();
    fake_ended(fake_first, 0);
    fake_ended(fake_second, 0);
}

void fake_answer_removal(void)
{
    uint32_t id = fake_take(CV_FRAME_REMOVE)->id;
    fake_say_u32(CV_FRAME_REMOVED, id, 0);
}

void fake_wait(void)
{
    for (;;)
        receive();
}
