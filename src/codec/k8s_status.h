/*
 * The status that a Kubernetes server reports when an exec has ended: a `Status` of its API, as
 * JSON. Kubernetes API, "Status"; the reasons are those of client-go's remotecommand, protocol v4.
 */
#ifndef CV_CODEC_K8S_STATUS_H
#define CV_CODEC_K8S_STATUS_H

#include <stddef.h>

#define CV_K8S_REASON_MAX 128
#define CV_K8S_MESSAGE_MAX 2048

enum cv_k8s_outcome {
    CV_K8S_EXITED,  /* the command has, with `exit_code` */
    CV_K8S_FAILED,  /* the server says that something else happened: `reason` and `message` */
    CV_K8S_UNKNOWN, /* the text is no such status: `message` says what is wrong with it */
};

struct cv_k8s_status {
    enum cv_k8s_outcome outcome;
    int exit_code;                    /* 0 to 255 */
    char reason[CV_K8S_REASON_MAX];   /* such as InternalError; "" where there is none */
    char message[CV_K8S_MESSAGE_MAX]; /* the server's, perhaps cut inside a character */
};

/*
 * Success is exit code 0, and a failure with reason NonZeroExitCode the code that its cause
 * ExitCode has, 1 to 255. Never guesses a code.
 */
void cv_k8s_status_read(const char *text, size_t length, struct cv_k8s_status *status);

#endif
