/* options.c -- the rows of options.def as values, and the parsers of their types.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/options.h"

#include <stdio.h>
#include <string.h>

/* --- numbers with units ----------------------------------------------------------------------- */

/* Digits with an optional fraction as units of 1/1000000; *rest_out is what follows. */
enum { MICRO = 1000000 };
static bool parse_micro(const char *text, uint64_t *whole_out, uint64_t *micro_out,
                        const char **rest_out)
{
    uint64_t whole = 0, micro = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9'; at++) {
        uint64_t digit = (uint64_t)(*at - '0');
        if (whole > (UINT64_MAX - digit) / 10) {
            return false;
        }
        whole = whole * 10 + digit;
    }
    if (at == text) {
        return false;
    }
    if (*at == '.') {
        const char *fraction = ++at;
        for (uint64_t weight = MICRO / 10; *at >= '0' && *at <= '9'; at++, weight /= 10) {
            micro += weight * (uint64_t)(*at - '0');
        }
        if (at == fraction) {
            return false;
        }
    }
    *whole_out = whole;
    *micro_out = micro;
    *rest_out = at;
    return true;
}

static bool scale(uint64_t whole, uint64_t micro, uint64_t unit, uint64_t *out)
{
    if (whole > UINT64_MAX / unit) {
        return false;
    }
    uint64_t part = unit / MICRO * micro + unit % MICRO * micro / MICRO;
    if (part > UINT64_MAX - whole * unit) {
        return false;
    }
    *out = whole * unit + part;
    return true;
}

bool vg_parse_size(const char *text, uint64_t *bytes_out)
{
    static const char letters[] = "KMGTPE";
    uint64_t whole, micro;
    const char *rest;
    if (!parse_micro(text, &whole, &micro, &rest)) {
        return false;
    }
    char upper = *rest >= 'a' && *rest <= 'z' ? (char)(*rest - 'a' + 'A') : *rest;
    const char *letter = upper ? strchr(letters, upper) : NULL;
    uint64_t unit = letter ? (uint64_t)1 << 10 * (letter - letters + 1) : 1;
    rest += letter != NULL;
    if (letter && *rest == 'i') {
        rest++;
        if (*rest != 'B') {
            return false;
        }
    }
    rest += *rest == 'B' || (letter && *rest == 'b');
    return *rest == '\0' && (unit > 1 || micro == 0) && scale(whole, micro, unit, bytes_out);
}

bool vg_parse_duration(const char *text, uint64_t *ns_out)
{
    static const struct {
        const char *name;
        uint64_t ns;
    } units[] = {{"", 1000000000u},
                 {"ns", 1},
                 {"us", 1000u},
                 {"ms", 1000000u},
                 {"s", 1000000000u},
                 {"m", 60 * 1000000000ull},
                 {"h", 3600 * 1000000000ull},
                 {"d", 86400 * 1000000000ull}};
    uint64_t whole, micro;
    const char *rest;
    if (!parse_micro(text, &whole, &micro, &rest)) {
        return false;
    }
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strcmp(rest, units[i].name) == 0) {
            return scale(whole, micro, units[i].ns, ns_out);
        }
    }
    return false;
}

static bool parse_count(const char *text, uint64_t *count_out)
{
    uint64_t whole, micro;
    const char *rest;
    if (!parse_micro(text, &whole, &micro, &rest) || *rest || strchr(text, '.')) {
        return false;
    }
    *count_out = whole;
    return true;
}

/* --- words ------------------------------------------------------------------------------------ */

struct word {
    const char *name;
    unsigned value;
};
static const struct word flag_words[] = {{"0", false}, {"1", true}, {NULL, 0}};
static const struct word keep_words[] = {
    {"auto", VG_KEEP_AUTO}, {"always", VG_KEEP_ALWAYS}, {"never", VG_KEEP_NEVER}, {NULL, 0}};
static const struct word stacks_words[] = {{"native", VG_STACKS_NATIVE},
                                           {"python", VG_STACKS_PYTHON},
                                           {"both", VG_STACKS_BOTH},
                                           {"none", VG_STACKS_NONE},
                                           {NULL, 0}};
static const struct word log_words[] = {{"error", VG_LOG_ERROR},
                                        {"warn", VG_LOG_WARN},
                                        {"info", VG_LOG_INFO},
                                        {"debug", VG_LOG_DEBUG},
                                        {NULL, 0}};
static const struct word report_words[] = {
    {"text", VG_REPORT_TEXT}, {"json", VG_REPORT_JSON}, {"none", VG_REPORT_NONE}, {NULL, 0}};

static bool parse_word(const struct word *words, const char *text, size_t length,
                       unsigned *value_out)
{
    for (; words->name; words++) {
        if (strlen(words->name) == length && memcmp(words->name, text, length) == 0) {
            *value_out = words->value;
            return true;
        }
    }
    return false;
}

/* Words with commas between them; "none" stands alone. */
static bool parse_report(const char *text, unsigned *set_out)
{
    unsigned set = 0, value, words = 0;
    bool none = false;
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, ",");
        if (!parse_word(report_words, at, length, &value)) {
            return false;
        }
        set |= value;
        none = none || value == VG_REPORT_NONE;
        words++;
        at += length;
        if (!*at) {
            break;
        }
    }
    if (none && words > 1) {
        return false;
    }
    *set_out = set;
    return true;
}

/* --- one setter per type ---------------------------------------------------------------------- */

static bool set_SIZE(uint64_t *out, const char *text)
{
    return vg_parse_size(text, out);
}
static bool set_DURATION(uint64_t *out, const char *text)
{
    return vg_parse_duration(text, out);
}
static bool set_COUNT(uint64_t *out, const char *text)
{
    return parse_count(text, out);
}
static bool set_DEPTH(uint64_t *out, const char *text)
{
    uint64_t depth;
    bool good = parse_count(text, &depth) && depth >= 1 && depth <= VG_OPTION_DEPTH_MAX;
    *out = good ? depth : *out;
    return good;
}
static bool set_STRING(vg_option_text *out, const char *text)
{
    size_t length = strlen(text);
    if (length >= sizeof *out) {
        return false;
    }
    memcpy(*out, text, length + 1);
    return true;
}
static bool set_REPORT(unsigned *out, const char *text)
{
    return parse_report(text, out);
}
#define WORD_SETTER(TYPE, c_type, words)                                                           \
    static bool set_##TYPE(c_type *out, const char *text)                                          \
    {                                                                                              \
        unsigned value;                                                                            \
        bool good = parse_word(words, text, strlen(text), &value);                                 \
        *out = good ? (c_type)value : *out;                                                        \
        return good;                                                                               \
    }
WORD_SETTER(FLAG, bool, flag_words)
WORD_SETTER(KEEP, enum vg_keep, keep_words)
WORD_SETTER(STACKS, enum vg_stacks_mode, stacks_words)
WORD_SETTER(LOG, enum vg_log, log_words)

#define VALUES_FLAG     "0|1"
#define VALUES_SIZE     "SIZE"
#define VALUES_DURATION "DURATION"
#define VALUES_COUNT    "N"
#define VALUES_DEPTH    "N"
#define VALUES_STRING   "TEXT"
#define VALUES_KEEP     "auto|always|never"
#define VALUES_STACKS   "native|python|both|none"
#define VALUES_LOG      "error|warn|info|debug"
#define VALUES_REPORT   "text,json|none"

/* A number of options.h inside a text. */
#define NUMBER_TEXT(n) #n
#define NUMBER(n)      NUMBER_TEXT(n)

#define LEGAL_FLAG     "0 or 1"
#define LEGAL_SIZE     "a size such as 512M or 1.5GiB"
#define LEGAL_DURATION "a duration such as 500ms, 5s or 10m"
#define LEGAL_COUNT    "a whole number"
#define LEGAL_DEPTH    "1 to " NUMBER(VG_OPTION_DEPTH_MAX)
#define LEGAL_STRING   "at most " NUMBER(VG_OPTION_LENGTH_MAX) " characters"
#define LEGAL_KEEP     "auto, always or never"
#define LEGAL_STACKS   "native, python, both or none"
#define LEGAL_LOG      "error, warn, info or debug"
#define LEGAL_REPORT   "text, json, both with a comma, or none"

const struct vg_option_row vg_option_rows[VG_OPTION_COUNT] = {
#define OPTION(name, type, def, help) {#name, #type, VALUES_##type, LEGAL_##type, def, help},
#include "core/options.def"
};

static bool set(struct vg_options *options, enum vg_option_id id, const char *text)
{
    switch (id) {
#define OPTION(name, type, def, help)                                                              \
    case VG_OPTION_##name:                                                                         \
        return set_##type(&options->name, text);
#include "core/options.def"
    case VG_OPTION_COUNT:
        break;
    }
    return false;
}

void vg_options_defaults(struct vg_options *options)
{
    memset(options, 0, sizeof *options);
    for (int id = 0; id < VG_OPTION_COUNT; id++) {
        set(options, id, vg_option_rows[id].default_text);
    }
}

/* As the user typed it: VRAMGUARD_KEEP. */
static void spell(const char *name, char *out, size_t size)
{
    size_t i = 0;
    for (; name[i] && i + 1 < size; i++) {
        out[i] = name[i] >= 'a' && name[i] <= 'z' ? (char)(name[i] - 'a' + 'A') : name[i];
    }
    out[i] = '\0';
}

/* A value as it may stand in one line of a message. */
static void quote(const char *text, char *out, size_t size)
{
    size_t i = 0;
    for (; text[i] && i + 1 < size; i++) {
        out[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
    }
    out[i] = '\0';
}

bool vg_options_set(struct vg_options *options, enum vg_option_id id, const char *text,
                    char *why_out, size_t why_size)
{
    char name[64], value[80];
    if (set(options, id, text)) {
        return true;
    }
    if (id >= VG_OPTION_COUNT) {
        snprintf(why_out, why_size, "no such option");
        return false;
    }
    const struct vg_option_row *row = &vg_option_rows[id];
    spell(row->name, name, sizeof name);
    quote(text, value, sizeof value);
    snprintf(why_out, why_size, "VRAMGUARD_%s=%s: want %s; using %s", name, value,
             row->legal_values, *row->default_text ? row->default_text : "none");
    return false;
}

enum vg_option_id vg_options_find(const char *name, size_t length)
{
    for (int id = 0; id < VG_OPTION_COUNT; id++) {
        const char *row = vg_option_rows[id].name;
        size_t i = 0;
        while (i < length && row[i] && (name[i] == row[i] || (name[i] == '-' && row[i] == '_'))) {
            i++;
        }
        if (i == length && !row[i]) {
            return id;
        }
    }
    return VG_OPTION_COUNT;
}
