/* options.h -- the options as values.
 * SPDX-License-Identifier: Apache-2.0
 *
 * core/ reads no environment: the caller hands over text. A bad value leaves the default and gives
 * one clear line.
 */
#ifndef VG_OPTIONS_H
#define VG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum vg_keep { VG_KEEP_AUTO, VG_KEEP_ALWAYS, VG_KEEP_NEVER };
enum vg_stacks_mode {
    VG_STACKS_NONE,
    VG_STACKS_NATIVE,
    VG_STACKS_PYTHON,
    VG_STACKS_BOTH
}; /* bit 0 native, bit 1 Python */
enum vg_log { VG_LOG_ERROR, VG_LOG_WARN, VG_LOG_INFO, VG_LOG_DEBUG };
enum { VG_REPORT_TEXT = 1, VG_REPORT_JSON = 2, VG_REPORT_NONE = 0 };

/* Macros, because messages spell them. */
#define VG_OPTION_DEPTH_MAX  128
#define VG_OPTION_LENGTH_MAX 1023
enum { VG_OPTION_TEXT_MAX = VG_OPTION_LENGTH_MAX + 1 };
enum { VG_RECORD_SIZE_LEAST = 1 << 20 }; /* below it a record could list nothing */
typedef char vg_option_text[VG_OPTION_TEXT_MAX];

#define VG_OPTION_C_FLAG     bool
#define VG_OPTION_C_SIZE     uint64_t
#define VG_OPTION_C_DURATION uint64_t
#define VG_OPTION_C_COUNT    uint64_t
#define VG_OPTION_C_DEPTH    uint64_t
#define VG_OPTION_C_STRING   vg_option_text
#define VG_OPTION_C_KEEP     enum vg_keep
#define VG_OPTION_C_STACKS   enum vg_stacks_mode
#define VG_OPTION_C_LOG      enum vg_log
#define VG_OPTION_C_REPORT   unsigned

struct vg_options {
#define OPTION(name, type, def, help) VG_OPTION_C_##type name;
#include "core/options.def"
};

enum vg_option_id {
#define OPTION(name, type, def, help) VG_OPTION_##name,
#include "core/options.def"
    VG_OPTION_COUNT
};

struct vg_option_row {
    const char *name, *type;
    const char *value_help;   /* "SIZE", "auto|always|never", ... */
    const char *legal_values; /* for a sentence: "a size such as 512M or 1.5GiB" */
    const char *default_text, *help;
};
extern const struct vg_option_row vg_option_rows[VG_OPTION_COUNT];

void vg_options_defaults(struct vg_options *options);
/* Sets one option from text. false, with one line naming option, value and the legal values in
 * why_out, where the text is bad; the option is then unchanged. */
bool vg_options_set(struct vg_options *options, enum vg_option_id id, const char *text,
                    char *why_out, size_t why_size);
/* By name as in code (report_timeout) or on the command line (report-timeout). VG_OPTION_COUNT: no
 * such option. */
enum vg_option_id vg_options_find(const char *name, size_t length);
/* The parsers of single values, used elsewhere too (--sim=24GiB). false: not a legal value. */
bool vg_parse_size(const char *text, uint64_t *bytes_out);
bool vg_parse_duration(const char *text, uint64_t *ns_out);

#endif
