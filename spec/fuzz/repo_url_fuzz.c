/* The URL of a repository: whatever is accepted is a harmless URL and stays the same from then on.
 */
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "require.h"
#include "rules/repo_url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What no URL may hold anywhere behind its scheme. */
static void check_bytes(const char *rest)
{
    for (const char *byte = rest; *byte != '\0'; byte++)
        REQUIRE(*byte > ' ' && *byte < 0x7f && strchr("?#\\", *byte) == NULL);
    REQUIRE(strstr(rest, "//") == NULL && strstr(rest, "/./") == NULL);
    REQUIRE(strstr(rest, "/../") == NULL && strstr(rest, "/-") == NULL);
    REQUIRE(strcasestr(rest, "%2f") == NULL && strcasestr(rest, "%5c") == NULL);
    REQUIRE(strstr(rest, "%00") == NULL && strcasestr(rest, "/%2e/") == NULL);
    REQUIRE(rest[strlen(rest) - 1] != '/');
}

static void check_https(const char *rest)
{
    size_t length = strcspn(rest, "/");
    REQUIRE(length > 0 && rest[length] == '/' && rest[length + 1] != '\0');
    REQUIRE(rest[0] != '-' && rest[0] != '.' && rest[0] != ':');
    REQUIRE(memchr(rest, '@', length) == NULL && memchr(rest, '%', length) == NULL);
    for (size_t i = 0; i < length; i++)
        REQUIRE(rest[i] < 'A' || rest[i] > 'Z');
    REQUIRE(length < 4 || memcmp(rest + length - 4, ":443", 4) != 0 || rest[0] == '[');
    if (strncmp(rest, "github.com/", 11) == 0) {
        const char *name = strchr(rest + 11, '/');
        REQUIRE(name != NULL && strchr(name + 1, '/') == NULL && strchr(name, '%') == NULL);
        REQUIRE(strlen(name) > 5 && strcmp(name + strlen(name) - 4, ".git") == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char url[CV_REPO_URL_MAX + 1];
    char again[CV_REPO_URL_MAX + 1];
    size_t length;
    size_t again_length;
    struct cv_err err = {0};
    if (cv_repo_url((const char *)data, size, true, url, &length, &err) != 0) {
        REQUIRE(strcmp(err.code, "invalid_repo") == 0 && err.message[0] != '\0');
        REQUIRE(cv_repo_url((const char *)data, size, false, url, &length, &err) != 0);
        return 0;
    }
    REQUIRE(size <= CV_REPO_URL_MAX && length <= CV_REPO_URL_MAX && strlen(url) == length);
    bool file = strncmp(url, "file:///", 8) == 0;
    if (file) {
        check_bytes(url + 7);
    } else {
        REQUIRE(strncmp(url, "https://", 8) == 0);
        check_bytes(url + 8);
        check_https(url + 8);
    }
    REQUIRE(cv_repo_url(url, length, true, again, &again_length, &err) == 0);
    REQUIRE(again_length == length && memcmp(again, url, length) == 0);
    int without_files = cv_repo_url((const char *)data, size, false, again, &again_length, &err);
    REQUIRE(file ? without_files != 0 : without_files == 0 && strcmp(again, url) == 0);
    return 0;
}
