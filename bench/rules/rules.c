/*
 * Calls of each rule per second of CPU time, on one line each: `rule<TAB>calls`. A rule gets
 * several inputs in turn, the same as in rules.lua.
 *
 *     rules SECONDS        how long each rule is called
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/uuid.h"
#include "output/collector.h"
#include "rules/env.h"
#include "rules/git_ref.h"
#include "rules/quantity.h"
#include "rules/repo_url.h"
#include "rules/workspace_path.h"

#define INPUTS 4

struct input {
    const char *text;
    size_t length;
};

struct rule {
    const char *name;
    void (*call)(const struct input *input);
    const char *inputs[INPUTS];
};

/* What keeps the compiler from leaving a call out. */
static volatile int sink;

static void normalize_repo(const struct input *input)
{
    char url[CV_REPO_URL_MAX + 1];
    size_t length;
    struct cv_err err;
    sink = cv_repo_url(input->text, input->length, true, url, &length, &err);
}

static void check_git_ref(const struct input *input)
{
    struct cv_err err;
    sink = cv_git_ref_check(input->text, input->length, &err);
}

static void workspace_path(const struct input *input)
{
    char absolute[CV_WORKSPACE_PATH_SIZE];
    size_t length;
    struct cv_err err;
    sink = cv_workspace_path(input->text, input->length, absolute, &length, &err);
}

static void parse_cpu(const struct input *input)
{
    double cores;
    struct cv_err err;
    sink = cv_parse_cpu(input->text, input->length, &cores, &err);
}

static void parse_memory(const struct input *input)
{
    int64_t bytes;
    struct cv_err err;
    sink = cv_parse_memory(input->text, input->length, &bytes, &err);
}

static void check_env(const struct input *input)
{
    struct cv_err err;
    sink = cv_env_check(input->text, input->length, "0123456789", 10, &err);
}

static struct cv_collector collector;

static void collector_write(const struct input *input)
{
    sink = cv_collector_write(&collector, input->text, input->length);
}

static void uuid(const struct input *input)
{
    char text[CV_UUID_SIZE];
    (void)input;
    sink = cv_uuid(text);
}

#define LINE                                                                                       \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxx\n"

static const struct rule rules[] = {
    {"normalize_repo",
     normalize_repo,
     {"owner/name", "https://github.com/owner/name",
      "https://git.example.com:8443/group/sub/project.git", "a/b.c"}},
    {"normalize_repo, refused",
     normalize_repo,
     {"name", "git@github.com:owner/name", "https://user:word@example.com/x",
      "https://example.com/../x"}},
    {"check_git_ref",
     check_git_ref,
     {"main", "topic/one", "refs/tags/v1.0.0", "0123456789abcdef0123456789abcdef01234567"}},
    {"check_git_ref, refused", check_git_ref, {"-x", "a..b", "a b", "refs/heads/x.lock"}},
    {"resolve_workspace_path",
     workspace_path,
     {".", "src/main.c", "/workspace/a/b/c.txt", "./a/../b//c"}},
    {"resolve_workspace_path, refused", workspace_path, {"..", "/etc/passwd", "", "a/../../b"}},
    {"parse_cpu", parse_cpu, {"1", "500m", "0.25", "2"}},
    {"parse_memory", parse_memory, {"2Gi", "512Mi", "1.5G", "1048576"}},
    {"assert_sandbox_env", check_env, {"A", "TOKEN", "CI", "HOME"}},
    {"collector:write, 100 bytes", collector_write, {LINE, LINE, LINE, LINE}},
    {"uuid", uuid, {"", "", "", ""}},
};

static double cpu_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static double measure(const struct rule *rule, double seconds)
{
    struct input inputs[INPUTS];
    for (int i = 0; i < INPUTS; i++)
        inputs[i] = (struct input){rule->inputs[i], strlen(rule->inputs[i])};
    double calls = 0;
    double start = cpu_seconds();
    double elapsed;
    do {
        for (int i = 0; i < 10000; i++)
            rule->call(&inputs[i % INPUTS]);
        calls += 10000;
        elapsed = cpu_seconds() - start;
    } while (elapsed < seconds);
    return calls / elapsed;
}

int main(int argc, char **argv)
{
    double seconds = argc > 1 ? atof(argv[1]) : 0.2;
    cv_collector_init(&collector, 65536);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        printf("%s\t%.0f\n", rules[i].name, measure(&rules[i], seconds));
    cv_collector_free(&collector);
    return 0;
}
