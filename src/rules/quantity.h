/*
 * Amounts in the notation of Kubernetes, without its sign:
 *
 *     quantity  digits [ suffix ]         digits: 1  1.5  1.  .5
 *     suffix    m  k  M  G  T  P  E       thousandths; powers of 1000
 *               Ki Mi Gi Ti Pi Ei         powers of 1024
 *               e or E, and a whole number with or without a sign
 *
 * See https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/quantity/. As there,
 * what is finer than 10^-9 is rounded up. The messages of errors are to be read after the name of
 * whatever holds the amount, and do not show it. The code is `invalid_option`.
 */
#ifndef CV_RULES_QUANTITY_H
#define CV_RULES_QUANTITY_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

#define CV_QUANTITY_MAX_BYTES 64 /* of its text */

/* CPU cores: more than 0, less than 2^63. 0, or -1. */
int cv_parse_cpu(const char *text, size_t length, double *cores, struct cv_err *err);

/* Bytes: 1 to 2^63 - 1; a fraction of a byte counts as one. 0, or -1. */
int cv_parse_memory(const char *text, size_t length, int64_t *bytes, struct cv_err *err);

#endif
