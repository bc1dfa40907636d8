/* Little-endian integers in a byte stream, and a bounded cursor to read them. */
#ifndef CV_PROTO_SUPERVISE_WIRE_H
#define CV_PROTO_SUPERVISE_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline void cv_wire_put_u32(uint8_t *out, uint32_t value)
{
    out[0] = (uint8_t)value;
    out[1] = (uint8_t)(value >> 8);
    out[2] = (uint8_t)(value >> 16);
    out[3] = (uint8_t)(value >> 24);
}

static inline uint32_t cv_wire_get_u32(const uint8_t *in)
{
    return (uint32_t)in[0] | (uint32_t)in[1] << 8 | (uint32_t)in[2] << 16 | (uint32_t)in[3] << 24;
}

static inline void cv_wire_put_u64(uint8_t *out, uint64_t value)
{
    cv_wire_put_u32(out, (uint32_t)value);
    cv_wire_put_u32(out + 4, (uint32_t)(value >> 32));
}

static inline uint64_t cv_wire_get_u64(const uint8_t *in)
{
    return (uint64_t)cv_wire_get_u32(in) | (uint64_t)cv_wire_get_u32(in + 4) << 32;
}

/* What is left to read of a message; `bad` is set by the first read past its end and stays. */
struct cv_cursor {
    const uint8_t *at;
    size_t left;
    bool bad;
};

/* The next `count` bytes, or NULL when fewer are left (then the cursor is bad). */
static inline const uint8_t *cv_cursor_take(struct cv_cursor *cursor, size_t count)
{
    if (cursor->bad || count > cursor->left) {
        cursor->bad = true;
        return NULL;
    }
    const uint8_t *bytes = cursor->at;
    cursor->at += count;
    cursor->left -= count;
    return bytes;
}

static inline uint32_t cv_cursor_u32(struct cv_cursor *cursor)
{
    const uint8_t *bytes = cv_cursor_take(cursor, 4);
    return bytes == NULL ? 0 : cv_wire_get_u32(bytes);
}

static inline uint64_t cv_cursor_u64(struct cv_cursor *cursor)
{
    const uint8_t *bytes = cv_cursor_take(cursor, 8);
    return bytes == NULL ? 0 : cv_wire_get_u64(bytes);
}

#endif
