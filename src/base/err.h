/*
 * One error convention for the whole core.
 *
 * A function that can fail returns a negative int (or NULL) and fills a `struct cv_err` that the
 * caller owns; on success it leaves the error untouched. `code` is one of the stable codes of the
 * public API and points to static storage; `message` is one line for a person. Neither ever holds
 * the value of an environment variable or a URL.
 */
#ifndef CV_BASE_ERR_H
#define CV_BASE_ERR_H

#define CV_ERR_MESSAGE_MAX 320

struct cv_err {
    const char *code;                 /* static storage; NULL: no error */
    char message[CV_ERR_MESSAGE_MAX]; /* NUL-terminated, one line */
};

/* Sets code and message (printf format); always returns -1, so that a caller can return it. */
int cv_err_set(struct cv_err *err, const char *code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* The same, and appends ": " and the text of the system error `errnum` (errno(3)). */
int cv_err_system(struct cv_err *err, const char *code, int errnum, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
