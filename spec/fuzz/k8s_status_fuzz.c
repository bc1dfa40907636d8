/* The status of a Kubernetes exec as a hostile server may send it: no code without its words. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "codec/k8s_status.h"
#include "require.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Whether the bytes hold the word as it is or begin an escape, which may stand for any of it. */
static int may_hold(const uint8_t *data, size_t size, const char *word)
{
    return memmem(data, size, word, strlen(word)) != NULL || memchr(data, '\\', size) != NULL;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct cv_k8s_status status;
    char *text = malloc(size == 0 ? 1 : size);
    if (size > 0)
        memcpy(text, data, size);
    cv_k8s_status_read(text, size, &status);
    switch (status.outcome) {
    case CV_K8S_EXITED:
        REQUIRE(status.exit_code >= 0 && status.exit_code <= 255);
        REQUIRE(may_hold(data, size, status.exit_code == 0 ? "Success" : "ExitCode"));
        break;
    case CV_K8S_FAILED:
        REQUIRE(may_hold(data, size, "Failure"));
        REQUIRE(strlen(status.reason) < sizeof status.reason);
        REQUIRE(strlen(status.message) < sizeof status.message);
        break;
    case CV_K8S_UNKNOWN:
        REQUIRE(status.message[0] != '\0');
        break;
    }
    free(text);
    return 0;
}
