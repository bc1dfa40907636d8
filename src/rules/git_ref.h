/* Names that git can fetch: a branch, a tag, a full ref name, a full commit id. */
#ifndef CV_RULES_GIT_REF_H
#define CV_RULES_GIT_REF_H

#include <stddef.h>

#include "base/err.h"

#define CV_GIT_REF_MAX 255 /* bytes */

/*
 * Accepts what `git check-ref-format refs/heads/<ref>` accepts (its manual has the rules), up to
 * CV_GIT_REF_MAX bytes and not beginning with a dash.
 *
 * The rules are written out here, and libgit2 is only held against them by the tests: without
 * git_libgit2_init its check crashes on a name that it refuses, since it stores its reason in
 * thread state that is not there; and with it a host program would pay with reading the
 * certificates of the system and with TLS libraries that are not its own.
 *
 * 0, or -1 with the code `invalid_ref`. No message holds any of the ref.
 */
int cv_git_ref_check(const char *ref, size_t length, struct cv_err *err);

#endif
