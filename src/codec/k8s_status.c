#include "codec/k8s_status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "codec/json.h"

/* An element of an object; NULL where there is none. */
static const struct cJSON *member(const struct cJSON *object, const char *key)
{
    if (object == NULL || cv_json_type(object) != CV_JSON_OBJECT)
        return NULL;
    const struct cJSON *element = cv_json_first(object);
    while (element != NULL && strcmp(cv_json_key(element), key) != 0)
        element = cv_json_next(element);
    return element;
}

/* The text of an element; "" where there is none. */
static const char *text_of(const struct cJSON *object, const char *key)
{
    const struct cJSON *element = member(object, key);
    return element != NULL && cv_json_type(element) == CV_JSON_STRING ? cv_json_string(element)
                                                                      : "";
}

static void unknown(struct cv_k8s_status *status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void unknown(struct cv_k8s_status *status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(status->message, sizeof status->message, format, args);
    va_end(args);
    status->outcome = CV_K8S_UNKNOWN;
}

/* Digits alone, without a leading zero: 1 to 255, else -1. */
static int exit_code(const char *text)
{
    int code = 0;
    const size_t length = strspn(text, "0123456789");
    if (length == 0 || length > 3 || text[length] != '\0' || text[0] == '0')
        return -1;
    for (size_t i = 0; i < length; i++)
        code = code * 10 + (text[i] - '0');
    return code <= 255 ? code : -1;
}

static void read_exit_code(const struct cJSON *value, struct cv_k8s_status *status)
{
    const struct cJSON *causes = member(member(value, "details"), "causes");
    const struct cJSON *cause = NULL;
    if (causes != NULL && cv_json_type(causes) == CV_JSON_ARRAY)
        cause = cv_json_first(causes);
    while (cause != NULL && strcmp(text_of(cause, "reason"), "ExitCode") != 0)
        cause = cv_json_next(cause);
    status->exit_code = cause == NULL ? -1 : exit_code(text_of(cause, "message"));
    status->outcome = CV_K8S_EXITED;
    if (status->exit_code < 0)
        unknown(status, "the status reports a failed command without its exit code");
}

static void read_value(const struct cJSON *value, struct cv_k8s_status *status)
{
    const char *kind = text_of(value, "status");
    const char *reason = text_of(value, "reason");
    if (strcmp(kind, "Success") == 0) {
        status->outcome = CV_K8S_EXITED;
    } else if (strcmp(kind, "Failure") != 0) {
        unknown(status, "the status says neither Success nor Failure");
    } else if (strcmp(reason, "NonZeroExitCode") == 0) {
        read_exit_code(value, status);
    } else {
        status->outcome = CV_K8S_FAILED;
        snprintf(status->reason, sizeof status->reason, "%s", reason);
        snprintf(status->message, sizeof status->message, "%s", text_of(value, "message"));
    }
}

void cv_k8s_status_read(const char *text, size_t length, struct cv_k8s_status *status)
{
    struct cv_err err;
    memset(status, 0, sizeof *status);
    if (length == 0) { /* perhaps without a pointer */
        unknown(status, "there is no status");
        return;
    }
    struct cJSON *value = cv_json_parse(text, length, &err);
    if (value == NULL) {
        unknown(status, "the status is no JSON: %s", err.message);
        return;
    }
    read_value(value, status);
    cv_json_free(value);
}
