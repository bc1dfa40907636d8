/*
 * Supervisors that misbehave: a test program starts itself as one. What a host runs is a script in
 * a folder of its own, since it gives its supervisor no arguments; the script names the behaviour.
 */
#ifndef CV_SPEC_FAKE_H
#define CV_SPEC_FAKE_H

#include <stddef.h>
#include <stdint.h>

#include "proto/supervise/frame.h"
#include "support/drive.h"

/* The host's pidfd; where there are none, as under valgrind, the socket once more. */
#define FAKE_PIDFD 3
#define FAKE_SOCKET 4
/* Bytes of stdin of the first command. */
#define FAKE_INPUT 200000
#define FAKE_LOST "transport_lost"

/* A behaviour, and the codes of what a host does with it in this order; NULL: success. */
struct fake {
    const char *name;
    void (*run)(void); /* in the fake supervisor, which ends when it returns */
    const char *launch;
    const char *first; /* of the two commands of fake_run_both */
    const char *second;
    const char *removal;
};

#define FAKE_AT_THE_LAUNCH(run)                                                                    \
    {                                                                                              \
#run, run, FAKE_LOST, NULL, NULL, NULL                                                     \
    }
#define FAKE_WHILE_BOTH_RUN(run)                                                                   \
    {                                                                                              \
#run, run, NULL, FAKE_LOST, FAKE_LOST, FAKE_LOST                                           \
    }
#define FAKE_WHILE_ONE_RUNS(run)                                                                   \
    {                                                                                              \
#run, run, NULL, NULL, FAKE_LOST, FAKE_LOST                                                \
    }
#define FAKE_HONEST_IN_THE_END(run)                                                                \
    {                                                                                              \
#run, run, NULL, NULL, NULL, NULL                                                          \
    }
#define FAKE_IN_THE_REMOVAL(run, code)                                                             \
    {                                                                                              \
#run, run, NULL, NULL, NULL, code                                                          \
    }

/* ---- in the test -------------------------------------------------------------------------- */

/* Runs a fake when the arguments ask for one, and then does not return. */
void fake_behave(int argc, char **argv, const struct fake *fakes, size_t count);
/* Runs one test per fake: launch, both commands, removal. The number of failures. */
int fake_run_tests(const struct fake *fakes, size_t count);
/* The program that behaves as `name`. */
const char *fake_program(const char *name);
/* Group teardown: removes what fake_program made. */
int fake_clean(void **state);
/* Launches and waits until it is ready; the handle. */
uint32_t fake_ready(struct drive *drive);
/* Starts the two commands: the second of the ids has no stdin and streams no output. */
void fake_run_both(struct drive *drive, uint32_t workspace, uint32_t ids[2]);

/* ---- in the fake supervisor --------------------------------------------------------------- */

extern const uint8_t fake_zeros[CV_FRAME_PAYLOAD_MAX];
/* The ids of the two commands, as the host has sent them. */
extern uint32_t fake_first;
extern uint32_t fake_second;

/*
 * The next whole message of the host of this type, 0: of any; others are skipped. The payload lives
 * until the next call. At the end of file the process ends.
 */
const struct cv_frame *fake_take(uint8_t type);
/* Sends bytes that need not be frames; ends the process when nobody reads. */
void fake_send(const void *bytes, size_t length);
/* Sends one frame. */
void fake_say(uint8_t type, uint32_t id, const void *payload, size_t length);
void fake_say_u32(uint8_t type, uint32_t id, uint32_t value);
void fake_say_flagged(uint8_t type, uint8_t flags, uint32_t id, const void *payload, size_t length);
/* The command exited with `code`. */
void fake_ended(uint32_t id, uint32_t code);
void fake_failure(uint32_t id, uint32_t code, const char *text);
/* Takes the hello and answers it. */
void fake_greet(void);
/* An honest beginning: fake_greet, then both commands were started. */
void fake_start_both(void);
/* And both have ended. */
void fake_end_both(void);
/* Takes the order to remove and says that it was done. */
void fake_answer_removal(void);
/* Reads until the host has closed, and ends. */
void fake_wait(void) __attribute__((noreturn));

#endif
