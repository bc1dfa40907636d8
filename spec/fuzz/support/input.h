/* Reads the bytes that a fuzzer gives as choices: past their end everything is zero or empty. */
#ifndef CV_SPEC_FUZZ_INPUT_H
#define CV_SPEC_FUZZ_INPUT_H

#include <stddef.h>
#include <stdint.h>

struct input {
    const uint8_t *at;
    size_t left;
};

static inline uint8_t next_byte(struct input *input)
{
    if (input->left == 0)
        return 0;
    input->left--;
    return *input->at++;
}

/* At most *length bytes, and *length becomes how many there are. */
static inline const uint8_t *next_bytes(struct input *input, size_t *length)
{
    const uint8_t *bytes = input->at;
    if (*length > input->left)
        *length = input->left;
    input->at += *length;
    input->left -= *length;
    return bytes;
}

#endif
