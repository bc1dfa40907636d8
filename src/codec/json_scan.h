/* What JSON text is: the grammar of RFC 8259, of which cJSON takes much more. */
#ifndef CV_CODEC_JSON_SCAN_H
#define CV_CODEC_JSON_SCAN_H

#include <stddef.h>

#include "base/err.h"

/*
 * Reads the whole text and counts its values into *values. 0, or -1 with `err` (invalid_json),
 * whose message begins with the place, "at byte 12: ". Beside the grammar it refuses what could not
 * be handed on: an escaped NUL or half a surrogate pair in a string, text that is no UTF-8, a
 * number of more characters than cJSON reads, and nesting below CV_JSON_DEPTH_MAX. Does not look
 * for duplicate keys. Recurses as deep as the text is nested.
 */
int cv_json_scan(const char *text, size_t length, size_t *values, struct cv_err *err);

#endif
