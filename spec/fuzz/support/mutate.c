#include "support/mutate.h"

#include <stdbool.h>
#include <string.h>

#include "proto/supervise/frame.h"
#include "proto/supervise/wire.h"

#define PARTS_MAX 256

/* libFuzzer's. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max);

/* An input cut into a head and parts. */
struct cut {
    size_t starts[PARTS_MAX + 1]; /* and the end of the last */
    size_t count;
};

static uint32_t next_random(unsigned *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}

/* ---- parts --------------------------------------------------------------------------------- */

static size_t drop_part(uint8_t *data, size_t size, const struct cut *cut, size_t part)
{
    memmove(data + cut->starts[part], data + cut->starts[part + 1], size - cut->starts[part + 1]);
    return size - (cut->starts[part + 1] - cut->starts[part]);
}

/* Makes room of `length` bytes at `at`; false where there is none. */
static bool make_room(uint8_t *data, size_t *size, size_t max, size_t at, size_t length)
{
    if (length > max - *size)
        return false;
    memmove(data + at + length, data + at, *size - at);
    *size += length;
    return true;
}

/* Copies a part to the place of another. */
static size_t copy_part(uint8_t *data, size_t size, size_t max, const struct cut *cut, size_t part,
                        size_t to)
{
    size_t length = cut->starts[part + 1] - cut->starts[part];
    size_t from = cut->starts[part];
    size_t at = cut->starts[to];
    if (!make_room(data, &size, max, at, length))
        return size;
    memmove(data + at, data + (from >= at ? from + length : from), length);
    return size;
}

/* Moves a part in front of the one before it. */
static void swap_part(uint8_t *data, const struct cut *cut, size_t part)
{
    uint8_t moved[CV_FRAME_MAX];
    size_t first = cut->starts[part - 1];
    size_t second = cut->starts[part];
    size_t length = cut->starts[part + 1] - second;
    if (length > sizeof moved)
        return;
    memcpy(moved, data + second, length);
    memmove(data + first + length, data + first, second - first);
    memcpy(data + first, moved, length);
}

/* Drops, repeats or swaps a part. */
static size_t shuffle(uint8_t *data, size_t size, size_t max, unsigned *seed, const struct cut *cut)
{
    size_t part = next_random(seed) % cut->count;
    switch (next_random(seed) % 3) {
    case 0:
        return drop_part(data, size, cut, part);
    case 1:
        return copy_part(data, size, max, cut, part, next_random(seed) % cut->count);
    default:
        if (part > 0)
            swap_part(data, cut, part);
        return size;
    }
}

/* ---- actions ------------------------------------------------------------------------------- */

static void cut_actions(const uint8_t *data, size_t size, size_t head, const uint8_t *lengths,
                        unsigned kinds, struct cut *cut)
{
    size_t at = head < size ? head : size;
    cut->count = 0;
    while (at < size && cut->count < PARTS_MAX) {
        cut->starts[cut->count++] = at;
        at += lengths[data[at] % kinds];
    }
    cut->starts[cut->count] = at < size ? at : size;
}

size_t mutate_actions(uint8_t *data, size_t size, size_t max, unsigned seed, size_t head,
                      const uint8_t *lengths, unsigned kinds)
{
    struct cut cut;
    cut_actions(data, size, head, lengths, kinds, &cut);
    uint32_t way = next_random(&seed) % 8;
    if (way < 2 || size < head)
        return LLVMFuzzerMutate(data, size, max);
    if (way < 5 && cut.count > 0)
        return shuffle(data, size, max, &seed, &cut);
    if (way == 5 && cut.count > 0) { /* the arguments of one action */
        size_t part = next_random(&seed) % cut.count;
        size_t length = cut.starts[part + 1] - cut.starts[part];
        LLVMFuzzerMutate(data + cut.starts[part], length, length);
        return size;
    }
    size_t at = cut.count == 0 ? size : cut.starts[next_random(&seed) % (cut.count + 1)];
    unsigned kind = next_random(&seed) % kinds;
    if (!make_room(data, &size, max, at, lengths[kind]))
        return size;
    data[at] = (uint8_t)kind;
    for (size_t i = 1; i < lengths[kind]; i++)
        data[at + i] = (uint8_t)next_random(&seed);
    return size;
}

/* ---- frames -------------------------------------------------------------------------------- */

static const uint8_t types[] = {
#define X(name, value, side) value,
    CV_FRAME_TYPES(X)
#undef X
};

static void cut_frames(const uint8_t *data, size_t size, size_t head, struct cut *cut)
{
    size_t at = head < size ? head : size;
    cut->count = 0;
    while (size - at >= CV_FRAME_HEADER_SIZE && cut->count < PARTS_MAX) {
        uint32_t length = cv_wire_get_u32(data + at);
        if (length > size - at - CV_FRAME_HEADER_SIZE)
            break;
        cut->starts[cut->count++] = at;
        at += CV_FRAME_HEADER_SIZE + length;
    }
    cut->starts[cut->count] = at;
}

/* A number that is likely to be at a border. */
static uint32_t border(unsigned *seed)
{
    static const uint32_t numbers[] = {0,     1,     2,        3,          255,       256,
                                       32768, 65536, 0x100000, 0x7fffffff, UINT32_MAX};
    return numbers[next_random(seed) % (sizeof numbers / sizeof *numbers)];
}

static size_t insert_frame(uint8_t *data, size_t size, size_t max, unsigned *seed, size_t at)
{
    size_t length = next_random(seed) % 48;
    if (!make_room(data, &size, max, at, CV_FRAME_HEADER_SIZE + length))
        return size;
    cv_frame_header(data + at, types[next_random(seed) % sizeof types], 0, next_random(seed) % 4,
                    (uint32_t)length);
    for (size_t i = 0; i < length; i++)
        data[at + CV_FRAME_HEADER_SIZE + i] = (uint8_t)(next_random(seed) % 3);
    return size;
}

/* One message in two frames. */
static size_t split_frame(uint8_t *data, size_t size, size_t max, unsigned *seed, size_t at)
{
    uint32_t length = cv_wire_get_u32(data + at);
    uint32_t first = length == 0 ? 0 : next_random(seed) % (length + 1);
    uint8_t type = data[at + 4];
    uint8_t flags = data[at + 5];
    uint32_t id = cv_wire_get_u32(data + at + 8);
    size_t middle = at + CV_FRAME_HEADER_SIZE + first;
    if (!make_room(data, &size, max, middle, CV_FRAME_HEADER_SIZE))
        return size;
    cv_frame_header(data + at, type, CV_FRAME_MORE, id, first);
    cv_frame_header(data + middle, type, flags, id, length - first);
    return size;
}

static void change_header(uint8_t *frame, unsigned *seed)
{
    switch (next_random(seed) % 4) {
    case 0:
        frame[4] = types[next_random(seed) % sizeof types];
        break;
    case 1:
        frame[5] ^= CV_FRAME_MORE;
        break;
    case 2:
        cv_wire_put_u32(frame + 8, next_random(seed) % 4);
        break;
    default:
        cv_wire_put_u32(frame + 8, border(seed));
        break;
    }
}

static size_t change_payload(uint8_t *data, size_t size, size_t max, unsigned *seed, size_t at)
{
    uint32_t length = cv_wire_get_u32(data + at);
    uint8_t *payload = data + at + CV_FRAME_HEADER_SIZE;
    if (length >= 4 && next_random(seed) % 2 == 0) { /* an integer of it */
        cv_wire_put_u32(payload + next_random(seed) % (length / 4) * 4, border(seed));
        return size;
    }
    size_t behind = size - at - CV_FRAME_HEADER_SIZE - length;
    size_t room = length + (max - size < 64 ? max - size : 64);
    if (room > CV_FRAME_PAYLOAD_MAX || room == 0)
        return size;
    static uint8_t changed[CV_FRAME_PAYLOAD_MAX];
    memcpy(changed, payload, length);
    size_t now = LLVMFuzzerMutate(changed, length, room);
    memmove(payload + now, payload + length, behind);
    memcpy(payload, changed, now);
    cv_wire_put_u32(data + at, (uint32_t)now);
    return size - length + now;
}

size_t mutate_frames(uint8_t *data, size_t size, size_t max, unsigned seed, size_t head)
{
    struct cut cut;
    cut_frames(data, size, head, &cut);
    uint32_t way = next_random(&seed) % 16;
    if (way == 0 || size < head || size < 1)
        return LLVMFuzzerMutate(data, size, max);
    if (way == 1) {
        LLVMFuzzerMutate(data, head, head);
        return size;
    }
    if (way < 5 || cut.count == 0)
        return insert_frame(data, size, max, &seed,
                            cut.starts[next_random(&seed) % (cut.count + 1)]);
    size_t at = cut.starts[next_random(&seed) % cut.count];
    if (way < 8)
        return shuffle(data, size, max, &seed, &cut);
    if (way < 10)
        return split_frame(data, size, max, &seed, at);
    if (way < 12) {
        change_header(data + at, &seed);
        return size;
    }
    return change_payload(data, size, max, &seed, at);
}

size_t cross_frames(const uint8_t *one, size_t one_size, const uint8_t *other, size_t other_size,
                    uint8_t *out, size_t max, unsigned seed, size_t head)
{
    struct cut cuts[2];
    const uint8_t *inputs[2] = {one, other};
    size_t next[2] = {0, 0};
    size_t size = head < one_size ? head : one_size;
    cut_frames(one, one_size, head, &cuts[0]);
    cut_frames(other, other_size, head, &cuts[1]);
    if (size > max)
        return 0;
    memcpy(out, one, size);
    while (next[0] < cuts[0].count || next[1] < cuts[1].count) {
        size_t from = next_random(&seed) % 2;
        if (next[from] >= cuts[from].count)
            from = 1 - from;
        size_t at = next[from]++;
        size_t length = cuts[from].starts[at + 1] - cuts[from].starts[at];
        if (length > max - size)
            break;
        memcpy(out + size, inputs[from] + cuts[from].starts[at], length);
        size += length;
    }
    return size;
}
