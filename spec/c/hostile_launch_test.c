/*
 * The host against supervisors that misbehave when they are started: every operation ends exactly
 * once, with a clear code and in bounded time, and nothing is left.
 */
#include <unistd.h>

#include "support/fake.h"

/* ---- instead of an answer to the hello ---------------------------------------------------- */

static void closes_at_once(void)
{
}

static void closes_behind_the_hello(void)
{
    fake_take(CV_FRAME_HELLO);
}

static void sends_garbage_at_once(void)
{
    static uint8_t bytes[100000];
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = act_print_byte(i);
    fake_send(bytes, sizeof bytes);
    fake_wait();
}

static void sends_text(void)
{
    static const char text[] = "/lib/ld.so: No such file or directory\n";
    fake_send(text, sizeof text - 1);
    fake_wait();
}

static void is_of_another_version(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_say_u32(CV_FRAME_READY, 0, CV_FRAME_VERSION + 1);
    fake_wait();
}

static void is_ready_in_three_bytes(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_say(CV_FRAME_READY, 0, fake_zeros, 3);
    fake_wait();
}

static void is_ready_with_more_to_come(void)
{
    fake_take(CV_FRAME_HELLO);
    const uint8_t version[CV_READY_SIZE] = {CV_FRAME_VERSION};
    fake_say_flagged(CV_FRAME_READY, CV_FRAME_MORE, 0, version, sizeof version);
    fake_wait();
}

static void echoes_the_hello(void)
{
    const struct cv_frame *hello = fake_take(CV_FRAME_HELLO);
    fake_say(CV_FRAME_HELLO, 0, hello->payload, hello->length);
    fake_wait();
}

static void announces_a_frame_too_long(void)
{
    uint8_t header[CV_FRAME_HEADER_SIZE];
    cv_frame_header(header, CV_FRAME_READY, 0, 0, CV_FRAME_PAYLOAD_MAX + 1);
    fake_send(header, sizeof header);
    fake_wait();
}

static void fills_the_reserved_field(void)
{
    uint8_t header[CV_FRAME_HEADER_SIZE];
    cv_frame_header(header, CV_FRAME_PING, 0, 0, 0);
    header[6] = 1;
    fake_send(header, sizeof header);
    fake_wait();
}

static void pings_before_it_is_ready(void)
{
    fake_take(CV_FRAME_HELLO);
    for (;;) {
        fake_say(CV_FRAME_PING, 0, NULL, 0);
        usleep(1000);
    }
}

static void prints_before_it_is_ready(void)
{
    uint32_t launch = 1;
    fake_take(CV_FRAME_HELLO);
    fake_say(CV_FRAME_STDOUT, launch, "x", 1);
    fake_wait();
}

static void ends_the_launch_like_a_command(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_ended(1, 0);
    fake_wait();
}

static void has_removed_before_it_is_ready(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_say_u32(CV_FRAME_REMOVED, 0, 0);
    fake_wait();
}

static void stops_inside_a_header(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_send(fake_zeros, 5);
}

static void stops_inside_a_payload(void)
{
    uint8_t header[CV_FRAME_HEADER_SIZE];
    fake_take(CV_FRAME_HELLO);
    cv_frame_header(header, CV_FRAME_READY, 0, 0, CV_READY_SIZE);
    fake_send(header, sizeof header);
    fake_send(fake_zeros, 1);
}

static void fails_of_an_unknown_cause(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_failure(0, 4711, "who knows");
    fake_wait();
}

static void fails_and_is_ready(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_failure(0, CV_FAILURE_SETUP, "making nothing at all");
    fake_say_u32(CV_FRAME_READY, 0, CV_FRAME_VERSION);
    fake_wait();
}

static void fails_in_an_ugly_text(void)
{
    fake_take(CV_FRAME_HELLO);
    fake_failure(0, CV_FAILURE_SETUP, "%s%n\n\x1b[2J\xff\xfe");
}

/* ---- the cases ---------------------------------------------------------------------------- */

static const struct fake fakes[] = {
    FAKE_AT_THE_LAUNCH(closes_at_once),
    FAKE_AT_THE_LAUNCH(closes_behind_the_hello),
    FAKE_AT_THE_LAUNCH(sends_garbage_at_once),
    FAKE_AT_THE_LAUNCH(sends_text),
    FAKE_AT_THE_LAUNCH(is_of_another_version),
    FAKE_AT_THE_LAUNCH(is_ready_in_three_bytes),
    FAKE_AT_THE_LAUNCH(is_ready_with_more_to_come),
    FAKE_AT_THE_LAUNCH(echoes_the_hello),
    FAKE_AT_THE_LAUNCH(announces_a_frame_too_long),
    FAKE_AT_THE_LAUNCH(fills_the_reserved_field),
    FAKE_AT_THE_LAUNCH(pings_before_it_is_ready),
    FAKE_AT_THE_LAUNCH(prints_before_it_is_ready),
    FAKE_AT_THE_LAUNCH(ends_the_launch_like_a_command),
    FAKE_AT_THE_LAUNCH(has_removed_before_it_is_ready),
    FAKE_AT_THE_LAUNCH(stops_inside_a_header),
    FAKE_AT_THE_LAUNCH(stops_inside_a_payload),
    FAKE_AT_THE_LAUNCH(fails_of_an_unknown_cause),
    {"fails_and_is_ready", fails_and_is_ready, "create_failed", NULL, NULL, NULL},
    {"fails_in_an_ugly_text", fails_in_an_ugly_text, "create_failed", NULL, NULL, NULL},
};
enum { FAKES = sizeof fakes / sizeof *fakes };

int main(int argc, char **argv)
{
    fake_behave(argc, argv, fakes, FAKES);
    return fake_run_tests(fakes, FAKES);
}
