/*
 * Digests, Base64 and random bytes, as protocols use them: the only code that knows OpenSSL, which
 * libcurl brings into every process anyway.
 */
#ifndef CV_PROTO_DIGEST_H
#define CV_PROTO_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define CV_SHA1_SIZE 20
#define CV_SHA256_SIZE 32
/* The length of `count` bytes in Base64, with its NUL. */
#define CV_BASE64_SIZE(count) (((count) + 2) / 3 * 4 + 1)

/* 0, or -1 when OpenSSL has no such digest (a provider may withhold it) or no memory. */
int cv_sha1(const void *bytes, size_t length, uint8_t digest[CV_SHA1_SIZE]);
int cv_sha256(const void *bytes, size_t length, uint8_t digest[CV_SHA256_SIZE]);
/* Base64 with padding (RFC 4648, section 4) and a NUL into `text`, CV_BASE64_SIZE(length) bytes. */
void cv_base64(const void *bytes, int length, char *text);
/* At most 256 bytes that nobody can foretell, from the kernel. 0, or -1 with errno. */
int cv_random(void *bytes, size_t length);

#endif
