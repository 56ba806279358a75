/* render.h -- a report model as text or JSON.
 * SPDX-License-Identifier: Apache-2.0
 *
 * One function per row of renderers.def, all with one signature.
 *
 * Place:   core/analysis -> struct vg_report -> a renderer -> a stream. Names of frames come from
 *          the symbolizer, everything else from the model.
 * Threads: used by one thread.
 */
#ifndef VG_RENDER_H
#define VG_RENDER_H

#include <stdio.h>

#include "core/analysis/report.h"
#include "tools/symbolize.h"

struct vg_render_options {
    const char *json_path; /* the JSON report that was written; NULL none */
    const char
        *record_path; /* the record or the incident's file; NULL none (it lives in memory only) */
    bool color;
    unsigned width; /* columns of the text; 0: 100 */
};

/* 0, or -1 where the stream failed. Text arrives in one piece: give it a memory stream to write it
 * with one write(2). JSON comes as it is made, and may be hundreds of megabytes. */
typedef int vg_render_fn(const struct vg_report *report, struct vg_symbols *symbols,
                         const struct vg_render_options *options, FILE *out);

#define RENDERER(name, help) vg_render_fn vg_render_##name;
#include "tools/renderers.def"

/* Shared by renderers. */

/* Valid UTF-8: each bad byte becomes `bad`. Without keep_control control characters too, so that a
 * name cannot drive a terminal. malloc'd. */
char *vg_render_clean(const char *text, const char *bad, bool keep_control);
/* Where a stack is, for people: the innermost frame, then the program's own, at most three:
 * "model.py:57 attention  <- train.py:88 main". Python frames where there are any, else native ones
 * without driver, runtime and start-up code; else the library. malloc'd, clean. */
char *vg_render_place(const struct vg_report *report, struct vg_symbols *symbols, uint32_t stack);
/* "oom", "exit", ... */
const char *vg_render_kind(const struct vg_report *report);

/* parts[i] / unit in whole numbers that sum to total / unit, rounded: a table that adds up as it is
 * shown. Parts may be negative and must sum to total. */
void vg_render_shares(const int64_t *parts, unsigned count, uint64_t total, double unit,
                      int64_t *shown_out, int64_t *total_out);

#endif
