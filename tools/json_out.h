/* json_out.h -- JSON written piece by piece: however large a report is, none of it is kept.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   render_json.c. `key` is NULL inside a list. Failures of the stream stay in it: ask
 *          ferror() at the end.
 */
#ifndef VG_JSON_OUT_H
#define VG_JSON_OUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct vg_json {
    FILE *out;
    unsigned depth;
    bool has_items; /* of what is open: a comma comes before the next */
};

void vg_json_object(struct vg_json *json, const char *key);
void vg_json_end_object(struct vg_json *json);
void vg_json_list(struct vg_json *json, const char *key);
void vg_json_end_list(struct vg_json *json);

/* Valid UTF-8 whatever the text is. */
void vg_json_text(struct vg_json *json, const char *key, const char *text);
/* null where the text is NULL or "". */
void vg_json_text_or_null(struct vg_json *json, const char *key, const char *text);
void vg_json_uint(struct vg_json *json, const char *key, uint64_t value);
void vg_json_int(struct vg_json *json, const char *key, int64_t value);
/* null where it is VG_UNKNOWN. */
void vg_json_bytes(struct vg_json *json, const char *key, uint64_t bytes);
void vg_json_bool(struct vg_json *json, const char *key, bool value);
void vg_json_null(struct vg_json *json, const char *key);
/* Decimal places; null where it is no number. */
void vg_json_real(struct vg_json *json, const char *key, double value, int places);
/* Exact in decimals: microseconds do not survive the shortest form of a double of 1e9 seconds. */
void vg_json_seconds(struct vg_json *json, const char *key, uint64_t ns);

#endif
