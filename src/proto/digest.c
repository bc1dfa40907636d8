#include "proto/digest.h"

#include <errno.h>
#include <openssl/evp.h>
#include <sys/random.h>

int cv_sha1(const void *bytes, size_t length, uint8_t digest[CV_SHA1_SIZE])
{
    return EVP_Digest(bytes, length, digest, NULL, EVP_sha1(), NULL) == 1 ? 0 : -1;
}

int cv_sha256(const void *bytes, size_t length, uint8_t digest[CV_SHA256_SIZE])
{
    return EVP_Digest(bytes, length, digest, NULL, EVP_sha256(), NULL) == 1 ? 0 : -1;
}

void cv_base64(const void *bytes, int length, char *text)
{
    EVP_EncodeBlock((unsigned char *)text, bytes, length);
}

int cv_random(void *bytes, size_t length)
{
    ssize_t got;
    do {
        got = getrandom(bytes, length, 0);
    } while (got < 0 && errno == EINTR);
    return got == (ssize_t)length ? 0 : -1;
}
