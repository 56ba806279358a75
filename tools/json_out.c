/* json_out.c -- JSON written piece by piece.
 * SPDX-License-Identifier: Apache-2.0
 *
 * A report of 50,000 sites is 300 MB of text and ten million values: numbers and plain strings go
 * straight into the stream's buffer.
 */
#include "tools/json_out.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/layout.h"
#include "tools/render.h"

static void put(struct vg_json *json, const char *bytes, size_t length)
{
    fwrite_unlocked(bytes, 1, length, json->out);
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void put_escaped(struct vg_json *json, const char *text)
{
    for (const unsigned char *p = (const unsigned char *)text; *p; p++) {
        char code[8];
        if (*p == '"' || *p == '\\')
            put(json, code, (size_t)snprintf(code, sizeof code, "\\%c", *p));
        else if (*p < 0x20 || *p == 0x7f)
            put(json, code, (size_t)snprintf(code, sizeof code, "\\u%04x", *p));
        else
            putc_unlocked(*p, json->out);
    }
}

static void put_string(struct vg_json *json, const char *text)
{
    const char *end = text;
    while (is_plain((unsigned char)*end))
        end++;
    putc_unlocked('"', json->out);
    put(json, text, (size_t)(end - text));
    if (*end) {
        char *clean = vg_render_clean(end, "\xef\xbf\xbd", true);
        put_escaped(json, clean);
        free(clean);
    }
    putc_unlocked('"', json->out);
}

static void new_line(struct vg_json *json)
{
    static const char spaces[] = "                                ";
    size_t indent = 2 * (size_t)json->depth;
    putc_unlocked('\n', json->out);
    put(json, spaces, indent < sizeof spaces - 1 ? indent : sizeof spaces - 1);
}

/* What comes before every value. */
static void begin(struct vg_json *json, const char *key)
{
    if (json->has_items)
        putc_unlocked(',', json->out);
    if (json->depth)
        new_line(json);
    json->has_items = true;
    if (key) {
        put_string(json, key);
        put(json, ": ", 2);
    }
}

static void open_with(struct vg_json *json, const char *key, char bracket)
{
    begin(json, key);
    putc_unlocked(bracket, json->out);
    json->depth++;
    json->has_items = false;
}

static void close_with(struct vg_json *json, char bracket)
{
    json->depth--;
    if (json->has_items)
        new_line(json);
    putc_unlocked(bracket, json->out);
    json->has_items = true;
}

void vg_json_object(struct vg_json *json, const char *key)
{
    open_with(json, key, '{');
}

void vg_json_end_object(struct vg_json *json)
{
    close_with(json, '}');
}

void vg_json_list(struct vg_json *json, const char *key)
{
    open_with(json, key, '[');
}

void vg_json_end_list(struct vg_json *json)
{
    close_with(json, ']');
}

void vg_json_text(struct vg_json *json, const char *key, const char *text)
{
    begin(json, key);
    put_string(json, text ? text : "");
}

void vg_json_text_or_null(struct vg_json *json, const char *key, const char *text)
{
    if (text && *text)
        vg_json_text(json, key, text);
    else
        vg_json_null(json, key);
}

static void put_number(struct vg_json *json, uint64_t value, bool is_negative)
{
    char digits[24], *p = digits + sizeof digits;
    do {
        *--p = (char)('0' + value % 10);
        value /= 10;
    } while (value);
    if (is_negative)
        *--p = '-';
    put(json, p, (size_t)(digits + sizeof digits - p));
}

void vg_json_uint(struct vg_json *json, const char *key, uint64_t value)
{
    begin(json, key);
    put_number(json, value, false);
}

void vg_json_int(struct vg_json *json, const char *key, int64_t value)
{
    begin(json, key);
    put_number(json, value < 0 ? 0 - (uint64_t)value : (uint64_t)value, value < 0);
}

void vg_json_bytes(struct vg_json *json, const char *key, uint64_t bytes)
{
    if (bytes == VG_UNKNOWN)
        vg_json_null(json, key);
    else
        vg_json_uint(json, key, bytes);
}

void vg_json_bool(struct vg_json *json, const char *key, bool value)
{
    begin(json, key);
    fputs(value ? "true" : "false", json->out);
}

void vg_json_null(struct vg_json *json, const char *key)
{
    begin(json, key);
    put(json, "null", 4);
}

void vg_json_real(struct vg_json *json, const char *key, double value, int places)
{
    if (!isfinite(value)) {
        vg_json_null(json, key);
        return;
    }
    begin(json, key);
    fprintf(json->out, "%.*f", places, value);
}

void vg_json_seconds(struct vg_json *json, const char *key, uint64_t ns)
{
    begin(json, key);
    fprintf(json->out, "%" PRIu64 ".%06" PRIu64, ns / 1000000000u, ns % 1000000000u / 1000u);
}
