/* render.c -- what all renderers share: clean text, places in a program, numbers that add up.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tools/render.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { PLACE_FRAMES_MAX = 3 };

const char *vg_render_kind(const struct vg_report *report)
{
    static const char *const kinds[] = {"snapshot", "oom", "warning", "exit", "snapshot"};
    return kinds[report->kind <= VG_INCIDENT_SNAPSHOT ? report->kind : 0];
}

/* Length of the UTF-8 sequence at `text`, 0 where it is none: overlong forms, surrogates and what
 * lies above U+10FFFF are none. */
static size_t sequence_length(const unsigned char *text)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t length = text[0] < 0x80             ? 1
                    : (text[0] & 0xe0) == 0xc0 ? 2
                    : (text[0] & 0xf0) == 0xe0 ? 3
                    : (text[0] & 0xf8) == 0xf0 ? 4
                                               : 0;
    if (length < 2)
        return length;
    uint32_t code = text[0] & (0x7fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        code = code << 6 | (text[i] & 0x3fu);
    }
    bool surrogate = code >= 0xd800 && code < 0xe000;
    return code < least[length] || surrogate || code > 0x10ffff ? 0 : length;
}

char *vg_render_clean(const char *text, const char *bad, bool keep_control)
{
    size_t bad_length = strlen(bad), worst = bad_length > 1 ? bad_length : 1;
    char *clean = malloc(strlen(text) * worst + 1), *to = clean;
    if (!clean)
        abort();
    for (const unsigned char *from = (const unsigned char *)text; *from;) {
        size_t length = sequence_length(from);
        bool control = *from < 0x20 || *from == 0x7f || (*from == 0xc2 && from[1] < 0xa0);
        if (!length || (control && !keep_control)) {
            memcpy(to, bad, bad_length);
            to += bad_length;
            from += length ? length : 1;
            continue;
        }
        memcpy(to, from, length);
        to += length;
        from += length;
    }
    *to = 0;
    return clean;
}

static bool is_library_source(const struct vg_text_frame *frame)
{
    static const char *const parts[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
                                        "/lib64/python3"};
    const char *file = frame->file ? frame->file : "";
    if (file[0] == '<')
        return true;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        if (strstr(file, parts[i]))
            return true;
    return false;
}

/* Runtime functions linked into the program itself, and what runs before main or a thread's
 * function. */
static bool is_frame_of_others(const struct vg_text_frame *frame)
{
    const char *function = frame->function ? frame->function : "";
    if (frame->guard || frame->interpreter || !frame->module ||
        vg_report_is_plumbing(frame->module))
        return true;
    if (vg_text_starts(function, "cuda") && function[4] >= 'A' && function[4] <= 'Z')
        return true;
    return vg_text_starts(function, "cudart") || vg_text_starts(function, "__libc_start") ||
           vg_text_starts(function, "start_thread") || vg_text_starts(function, "clone3") ||
           strcmp(function, "_start") == 0 || strcmp(function, "__clone3") == 0;
}

static void print_frame(FILE *out, const struct vg_text_frame *frame, bool first)
{
    const char *function = frame->function ? frame->function : "";
    if (!first)
        fputs("  <- ", out);
    if (frame->file && frame->line > 0)
        fprintf(out, "%s:%d%s%s", vg_base_name(frame->file), frame->line, *function ? " " : "",
                function);
    else if (*function && frame->function_offset)
        fprintf(out, "%s+0x%" PRIx64, function, frame->function_offset);
    else if (*function)
        fputs(function, out);
    else
        fprintf(out, "%s+0x%" PRIx64, frame->module ? vg_base_name(frame->module) : "unknown",
                frame->offset);
}

static unsigned print_python(FILE *out, const struct vg_text_frame *frames, unsigned count)
{
    unsigned shown = 0, own = 0, position = 0;
    for (unsigned i = 0; i < count; i++)
        own += strcmp(frames[i].lang, "python") == 0 && !is_library_source(&frames[i]);
    for (unsigned i = 0; i < count && shown < PLACE_FRAMES_MAX; i++) {
        if (strcmp(frames[i].lang, "python") != 0)
            continue;
        if (position++ == 0 || !own || !is_library_source(&frames[i]))
            print_frame(out, &frames[i], shown++ == 0);
    }
    return shown;
}

char *vg_render_place(const struct vg_report *report, struct vg_symbols *symbols, uint32_t stack)
{
    const struct vg_text_frame *frames = NULL;
    unsigned count = symbols ? vg_symbols_stack(symbols, stack, &frames) : 0;
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        abort();
    unsigned shown = print_python(out, frames, count);
    for (unsigned i = 0, left = shown ? 0 : PLACE_FRAMES_MAX; i < count && left; i++) {
        if (is_frame_of_others(&frames[i]))
            continue;
        print_frame(out, &frames[i], shown++ == 0);
        left--;
    }
    if (!shown)
        fputs(vg_report_library(report->view, stack), out);
    if (fclose(out))
        abort();
    char *clean = vg_render_clean(text, "?", false);
    free(text);
    return clean;
}

static int64_t rounded_down(double value)
{
    int64_t whole = (int64_t)value;
    return (double)whole > value ? whole - 1 : whole;
}

void vg_render_shares(const int64_t *parts, unsigned count, uint64_t total, double unit,
                      int64_t *shown_out, int64_t *total_out)
{
    int64_t sum = 0;
    for (unsigned i = 0; i < count; i++) {
        shown_out[i] = rounded_down((double)parts[i] / unit);
        sum += shown_out[i];
    }
    *total_out = rounded_down((double)total / unit + 0.5);
    for (unsigned given = 0; given < count && sum < *total_out; given++) {
        unsigned best = count;
        double most = -1;
        for (unsigned i = 0; i < count; i++) {
            double rest = (double)parts[i] / unit - (double)shown_out[i];
            if (rest > most) {
                most = rest;
                best = i;
            }
        }
        shown_out[best]++;
        sum++;
    }
}
