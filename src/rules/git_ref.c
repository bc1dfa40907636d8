#include "rules/git_ref.h"

#include <string.h>

#define LOCK ".lock"
#define LOCK_LENGTH (sizeof LOCK - 1)

static int refuse(struct cv_err *err, const char *why)
{
    cv_err_set(err, "invalid_ref", "%s", why);
    return -1;
}

/* What is wrong with a byte wherever it stands; NULL: nothing. */
static const char *byte_fault(unsigned char byte)
{
    if (byte == ' ')
        return "the ref has a space";
    if (byte < 0x20 || byte == 0x7f)
        return "the ref has a control byte";
    switch (byte) {
    case '\\':
        return "the ref has a backslash";
    case ':':
        return "the ref has a colon: give one name, no refspec";
    case '~':
    case '^':
        return "the ref has a ~ or ^: give the name or full id of a commit, no expression";
    case '?':
    case '*':
    case '[':
        return "the ref has a ?, * or [: give one name, no pattern";
    default:
        return NULL;
    }
}

/* What is wrong with a part between slashes; NULL: nothing. */
static const char *part_fault(const char *part, size_t length)
{
    if (length == 0)
        return "the ref has an empty part: a slash at its beginning or end, or two in a row";
    if (part[0] == '.')
        return "the ref has a part that begins with a dot";
    if (length >= LOCK_LENGTH && memcmp(part + length - LOCK_LENGTH, LOCK, LOCK_LENGTH) == 0)
        return "the ref has a part that ends with .lock";
    return NULL;
}

int cv_git_ref_check(const char *ref, size_t length, struct cv_err *err)
{
    if (length == 0)
        return refuse(err, "the ref is empty");
    if (length > CV_GIT_REF_MAX)
        return cv_err_set(err, "invalid_ref", "the ref has %zu bytes; at most %d are possible",
                          length, CV_GIT_REF_MAX);
    if (ref[0] == '-')
        return refuse(err, "the ref begins with a dash");

    size_t part = 0;
    for (size_t at = 0; at < length; at++) {
        const char *fault = byte_fault((unsigned char)ref[at]);
        if (fault == NULL && ref[at] == '/') {
            fault = part_fault(ref + part, at - part);
            part = at + 1;
        }
        if (fault != NULL)
            return refuse(err, fault);
        if (at > 0 && ref[at] == '.' && ref[at - 1] == '.')
            return refuse(err, "the ref has two dots in a row: give one name, no range");
        if (at > 0 && ref[at] == '{' && ref[at - 1] == '@')
            return refuse(err,
                          "the ref has @{: give the name or full id of a commit, no expression");
    }
    const char *fault = part_fault(ref + part, length - part);
    if (fault != NULL)
        return refuse(err, fault);
    if (ref[length - 1] == '.')
        return refuse(err, "the ref ends with a dot");
    return 0;
}
