/* render.h -- a report model as text or JSON: one function per row of renderers.def, all with one signature.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   core/analysis -> struct vg_report -> a renderer -> a stream. Names of frames come from the symbolizer, everything else from the model.
 * Threads: used by one thread.
 */
#ifndef VG_RENDER_H
#define VG_RENDER_H

#include <stdio.h>

#include "core/analysis/report.h"
#include "tools/symbolize.h"

struct vg_render_options {
    const char *json_path;   /* the JSON report that was written; NULL none */
    const char *record_path; /* the record or the incident's file; NULL none (it lives in memory only) */
    bool color;
    unsigned width; /* columns of the text; 0: 100 */
};

/* 0, or -1 where the stream failed. What is written arrives in `out` in one piece: give it a memory stream to write it with one write(2). */
typedef int vg_render_fn(const struct vg_report *report, struct vg_symbols *symbols, const struct vg_render_options *options, FILE *out);

struct vg_renderer {
    const char *name, *help;
    vg_render_fn *render;
};
extern const struct vg_renderer vg_renderers[]; /* ends with name NULL */
const struct vg_renderer *vg_renderer_find(const char *name);

#define RENDERER(name, help) vg_render_fn vg_render_##name;
#include "tools/renderers.def"

/* Shared by renderers. */

/* Valid UTF-8 without control characters: each bad byte becomes U+FFFD in JSON (replacement "\xef\xbf\xbd") or '?' in text. malloc'd. */
char *vg_render_clean(const char *text, const char *replacement, bool keep_control);
/* The frames of a stack that tell a reader where it is: the innermost one, then the program's own, at most three, as "train.py:88 forward  <- ...". malloc'd;
 * the library where no frame has a name. */
char *vg_render_place(const struct vg_report *report, struct vg_symbols *symbols, uint32_t stack, unsigned width);
const char *vg_render_base_name(const char *path);

#endif
