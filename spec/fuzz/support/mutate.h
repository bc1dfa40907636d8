/*
 * Mutation that knows the form of an input, on top of libFuzzer's own: LLVMFuzzerCustomMutator of
 * the targets that take frames or lists of actions.
 */
#ifndef CV_SPEC_FUZZ_MUTATE_H
#define CV_SPEC_FUZZ_MUTATE_H

#include <stddef.h>
#include <stdint.h>

/*
 * A head of `head` bytes and actions behind it: one byte that counts modulo `kinds`, and arguments,
 * `lengths` bytes per kind with it, about. Inserts, drops, repeats and swaps whole actions, or
 * changes bytes as libFuzzer does. The new size.
 */
size_t mutate_actions(uint8_t *data, size_t size, size_t max, unsigned seed, size_t head,
                      const uint8_t *lengths, unsigned kinds);

/*
 * A head of `head` bytes and a stream of frames (proto/supervise/frame.h). Inserts, drops, repeats,
 * swaps and splits frames, changes fields of their headers and integers of their payloads, and
 * keeps the lengths right; now and then anything. The new size.
 */
size_t mutate_frames(uint8_t *data, size_t size, size_t max, unsigned seed, size_t head);
/* Takes whole frames of both inputs by turns. */
size_t cross_frames(const uint8_t *one, size_t one_size, const uint8_t *other, size_t other_size,
                    uint8_t *out, size_t max, unsigned seed, size_t head);

#endif
