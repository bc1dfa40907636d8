/*
 * Included before every file of src/ in builds with CHAMVI_SANITIZE or CHAMVI_FUZZ: what takes
 * memory there goes through spec/torture/torture.c, which can let any one call fail. The system's
 * headers come first, so that only calls are renamed.
 */
#ifndef CV_SPEC_TORTURE_RENAME_H
#define CV_SPEC_TORTURE_RENAME_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *torture_malloc(size_t size);
void *torture_calloc(size_t count, size_t size);
void *torture_realloc(void *memory, size_t size);
char *torture_strdup(const char *string);
int torture_asprintf(char **string, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *torture_realpath(const char *path, char *resolved);
DIR *torture_opendir(const char *path);
DIR *torture_fdopendir(int fd);

#undef strdup
#define malloc(size) torture_malloc(size)
#define calloc(count, size) torture_calloc(count, size)
#define realloc(memory, size) torture_realloc(memory, size)
#define strdup(string) torture_strdup(string)
#define asprintf(string, ...) torture_asprintf(string, __VA_ARGS__)
#define realpath(path, resolved) torture_realpath(path, resolved)
#define opendir(path) torture_opendir(path)
#define fdopendir(fd) torture_fdopendir(fd)

#endif
