/* Repositories as a person or a model names them, and the one URL that each of them is. */
#ifndef CV_RULES_REPO_URL_H
#define CV_RULES_REPO_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

#define CV_REPO_URL_MAX 2048 /* bytes, of what is given and of the URL */

/*
 * Writes the URL of the repository `input` with its NUL to `url` and its length to *url_length.
 *
 * `owner/name` means GitHub. Of an https URL the scheme and the host become lower case, port 443
 * and trailing slashes go, and where the host is known to serve every repository under a name that
 * ends with .git, a missing .git is added. `file:///absolute/path` is for `allow_file` only. The
 * URL is a fixed point, so it can serve as a key; its syntax is RFC 3986, less all that could carry
 * a secret, be read as an option of git or lead out of a folder.
 *
 * 0, or -1 with the code `invalid_repo`. No message holds any of the input.
 */
int cv_repo_url(const char *input, size_t length, bool allow_file, char url[CV_REPO_URL_MAX + 1],
                size_t *url_length, struct cv_err *err);

#endif
